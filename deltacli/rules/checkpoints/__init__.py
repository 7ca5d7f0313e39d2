"""Rules about checkpoints and sidecars: which exist, their columns, and their rows against replay.

Ids begin with `checkpoint` or `sidecar`.
"""
