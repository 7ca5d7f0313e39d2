"""Questions about rows: conditions evaluated on the batches of a data file, and their answers."""
