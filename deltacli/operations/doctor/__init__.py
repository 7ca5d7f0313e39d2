"""Diagnosis: advice on a table, what its store guarantees, and who may do what there.

Start with `table.py` for `doctor table`, and with `storage.py` for the probes of `doctor storage`
and `doctor access`.
"""
