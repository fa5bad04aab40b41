"""Implementations from PyPI that nobody here wrote."""
