"""What a scheme is, shown: `python -m relpos show`. Read from the definitions; nothing here knows a scheme by name."""
