"""Rules about actions: their fields, and what they do to each other.

Ids begin with the kind of action, or with `appendonly`, `cdc`, `commitinfo`, `domain`,
`rowtracking` or `txn`.
"""
