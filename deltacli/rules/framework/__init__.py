"""What every rule is based on: the catalogue, its rows, and the views that checks look at."""
