"""Repairs: what is brought back, written anew, given up, and what is never touched."""
