"""Named wrong versions of each scheme, one file per scheme: planted to prove the laws, read to name a mistake."""
