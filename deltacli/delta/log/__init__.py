"""The log: names of its files, which of them rebuild a version, actions, and conflicts between commits.

Start with `segment.py` (the choice of a checkpoint and the commits after it), `actions.py` (the
fields of each action) and `conflicts.py` (which commit of another writer a new commit may follow).
"""
