"""Streaming queries of Spark: where they are in tables, what they need, and whether they can continue.

Start with `streams.py` for the command and with `guard.py`, by which a vacuum and an expiry keep
what queries need.
"""
