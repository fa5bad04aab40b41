"""Latency and memory over L of what the judge has passed: rows, growth, comparisons, figures."""
