"""Rules about actions: their fields, and what they do to each other."""
