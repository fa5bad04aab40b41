"""Fast implementations, one file per scheme; a file holds every variant we offer of that scheme."""
