"""Changes of a Paimon schema: what is requested, and the schema that follows.

Start with `evolve.py`, which changes fields as Paimon's Java code does, or refuses to.
"""
