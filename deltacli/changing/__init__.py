"""The one way to change a table: base version, checks, plan, consent, re-check, commit, outcome.

Commands, methods of the Python API and steps of a fleet all change tables through `change.py`. An
operation supplies the plan and the acts; this package decides when the table is looked at again and
what happens when another writer was faster. Start with `change.py`, then read `commit.py`, the only
module that creates commits, and `preflight.py`, which says which errors of a table stop a change.
Data files are deleted by a plan, never by a listing.
"""
