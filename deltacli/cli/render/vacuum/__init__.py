"""The plan of a vacuum, and its outcome, in each format."""
