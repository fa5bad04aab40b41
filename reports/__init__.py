"""Figures, tables and the decision guide. They come later; what is here so far is made by `conformance`."""
