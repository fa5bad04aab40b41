"""The pytest-benchmark module that users run: one benchmark per variant and shape, for regressions of that variant alone."""
