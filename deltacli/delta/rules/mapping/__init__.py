"""Rules about column mapping."""
