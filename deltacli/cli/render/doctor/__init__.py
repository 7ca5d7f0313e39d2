"""Results of `deltacli doctor`."""
