"""`validate`: reading a table once, and judging it by the rules of the catalogue."""
