"""One seed, one history of a table and its world."""
