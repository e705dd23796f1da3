"""Two sets of device code compared: what a release gains, loses and changes, whatever its archives look like."""
