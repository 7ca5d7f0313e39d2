"""Files of a table that are gone: what a version needs, where else it is, and putting it in place."""
