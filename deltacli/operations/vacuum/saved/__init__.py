"""Saved plans: their files, checks before they are applied, and their progress."""
