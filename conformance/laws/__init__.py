"""Laws, one per file."""
