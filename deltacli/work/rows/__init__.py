"""Reading the rows of data files, and evaluating conditions over them."""
