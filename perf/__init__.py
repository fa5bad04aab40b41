"""Latency, memory and length extrapolation of what the judge has passed. Comes later: nothing is measured yet."""
