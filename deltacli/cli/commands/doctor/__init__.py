"""Commands of `deltacli doctor`."""
