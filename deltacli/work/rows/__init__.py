"""Read the rows of data files, and evaluate conditions on them."""
