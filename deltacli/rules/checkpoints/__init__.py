"""Rules about checkpoints and sidecars: which exist, their columns, and their rows against replay.

Most ids begin with `checkpoint` or `sidecar`.
"""
