"""Definitions: what every scheme is, in NumPy float64, one file per scheme."""
