"""Paimon tables: schemas, types, snapshots and manifests. Bytes in, values out: no I/O and no clock.

Start with `schema.py`. To add a type, add it to `Root` in `types.py`; conversions are in
`conversions.py`, casts in `schema_changes.py`, and the rules about keys and defaults in
`deltacli.rules.paimon.schema_files`.
"""
