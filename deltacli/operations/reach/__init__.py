"""Which versions of a table can be read, by what, and until when."""
