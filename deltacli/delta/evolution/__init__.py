"""Changes of a Delta table's schema and metadata: requests, what they make of a table, and what forbids them.

Start with `evolve.py`, which applies several requests in order, each to the result of the one
before, and returns one plan. `deltacli.operations.change.alter` commits it.
"""
