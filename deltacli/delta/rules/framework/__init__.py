"""What every rule stands on: the catalogue, its rows, and the views that checks look at."""
