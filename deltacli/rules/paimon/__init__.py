"""The rules of `validate` for Paimon tables, by area.

Start with `catalogue.py`, which lists the modules and has the views: one schema file, two
neighbours, a whole branch.
"""
