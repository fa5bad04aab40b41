"""Named wrong versions of each scheme."""
