"""Pulling: verified local copies of shared tables that later pulls continue.

Start with `pull.py`: the difference between the versions first, then all data, then one commit.
"""
