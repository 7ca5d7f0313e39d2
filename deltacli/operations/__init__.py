"""Operations on tables: one package or module for each thing that a user can do.

An operation takes an open table and a request, returns a value with an `as_json` method, and prints
nothing. Those that change a table return a plan first and are executed by `deltacli.changing`.
`deltacli.api` has a method for each of them. Start with `reach.py` for one that reads, and with
`vacuum` for one that changes.
"""
