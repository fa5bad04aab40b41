"""What was found, so that it can be cited: `README.md` and its figures, made from measured rows and certificates."""
