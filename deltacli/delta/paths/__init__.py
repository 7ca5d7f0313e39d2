"""Paths of data files, as the log spells them and as a store names them."""
