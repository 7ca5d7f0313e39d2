"""Streaming queries of Spark: where they are in tables, what they need, and whether they can go on."""
