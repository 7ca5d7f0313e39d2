"""Questions about rows: what is asked of the batches of a data file, and what they answer."""
