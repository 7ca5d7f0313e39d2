"""Unity Catalog: its addresses, its interface over HTTP, and tables opened by their names.

Start with `unity.py`, which implements the interface of `deltacli.catalogs.base`. `calls.py` sends
the requests, and `answers.py` checks every answer before anything else uses it.
"""
