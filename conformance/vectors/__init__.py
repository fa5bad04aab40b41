"""Vectors: inputs and outputs of every definition as files, for those who cannot run Python."""
