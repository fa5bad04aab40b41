"""pytest-benchmark module that users run."""
