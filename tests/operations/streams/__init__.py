"""Streams: where Spark queries stand in a table, and what a vacuum and an expiry keep for them."""
