"""The pytest-benchmark module that users run. Comes later, with relpos.perf."""
