"""Figures, tables and the decision guide. Comes later: there is nothing to report yet."""
