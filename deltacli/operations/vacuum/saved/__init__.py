"""Saved plans: their files, whether they may still be applied, and their progress."""
