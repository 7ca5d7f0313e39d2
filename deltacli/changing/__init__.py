"""The one way to change a table: what a plan was made from, what is looked at again, and the commit itself."""
