"""Which tables there are, and what is due for each."""
