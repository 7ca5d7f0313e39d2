"""Tasks on the files below a table: listing, classifying and deleting them."""
