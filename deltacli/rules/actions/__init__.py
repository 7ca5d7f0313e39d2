"""Rules about actions: their fields, and what they do to each other.

Most ids begin with `action`, `appendonly`, `cdc`, `commitinfo`, `domain`, `rowtracking` or `txn`.
"""
