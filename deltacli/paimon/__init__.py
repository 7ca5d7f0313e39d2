"""Paimon tables: schemas, types, snapshots and manifests. Bytes in, values out: no I/O and no clock."""
