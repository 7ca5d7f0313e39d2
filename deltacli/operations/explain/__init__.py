"""`explain`: which clients read and write a table, what stops the others, and the ways out."""
