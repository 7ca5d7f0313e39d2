"""`validate`: reads a table once and checks it against the rules of the catalogue."""
