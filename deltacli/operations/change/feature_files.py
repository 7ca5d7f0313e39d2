"""The files of a version that a feature is about, which have to change before it can be dropped.

Spec: Deletion Vectors; Type Widening.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deltacli.delta.protocol.property_values import deleted_file_retention_ms
from deltacli.operations.table.version import Snapshot
from deltacli.work.vector_facts import file_of_vector

if TYPE_CHECKING:
    import pyarrow

_FILES_PER_PIECE = 32
_OF_TOMBSTONES = ("path", "deletionVector", "deletionTimestamp")


def files_with_vectors(snapshot: Snapshot) -> int:
    """Return how many live files have deleted rows in vectors."""

    def counted(adds: pyarrow.RecordBatch) -> int:
        vectors = adds.column("deletionVector")
        return int(len(vectors) - vectors.null_count)

    return sum(snapshot.file_actions.map_actions("add", counted, fields=["deletionVector"]))


def file_with_older_type(snapshot: Snapshot) -> str | None:
    """Return a live file that does not have the types of the table. Reads the footers of all."""
    from deltacli.work.rewrite.outdated_columns import CONFIG, find_older_types
    from deltacli.work.rows.data_files import DataFile

    def files(adds: pyarrow.RecordBatch) -> list[DataFile]:
        pairs = zip(adds.column("path").to_pylist(), adds.column("size").to_pylist(), strict=True)
        return [DataFile(path, size) for path, size in pairs]

    table = snapshot.table
    every = [file for part in snapshot.file_actions.map_actions("add", files, fields=["path", "size"]) for file in part]
    pieces = [every[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(every), _FILES_PER_PIECE)]
    answers = table.engine.spread(find_older_types, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len)
    found = [is_older for part in answers for is_older in part]
    return next((file.path for file, is_older in zip(every, found, strict=True) if is_older), None)


def vector_files(snapshot: Snapshot) -> list[str]:
    """Return the files of vectors within the table that unexpired tombstones name and no tombstone of their own covers:
    older versions need them as long as the files of rows.
    """
    files = snapshot.table.files()
    cutoff_ms = snapshot.table.clock() - deleted_file_retention_ms(snapshot.properties)

    def of_batch(removes: pyarrow.RecordBatch, known: set[str]) -> list[str]:
        found = []
        columns = (removes.column(name).to_pylist() for name in _OF_TOMBSTONES)
        for path, vector, removed_ms in zip(*columns, strict=True):
            known.add(path)
            if (removed_ms or 0) <= cutoff_ms:
                continue
            if vector is not None and vector.get("storageType") == "u":
                place = file_of_vector(files, {key: value for key, value in vector.items() if value is not None})
                found += [] if place is None else [place]
        return found

    known: set[str] = set()
    read = partial(of_batch, known=known)
    named = [
        path for found in snapshot.file_actions.map_actions("remove", read, fields=_OF_TOMBSTONES) for path in found
    ]
    return [path for path in dict.fromkeys(named) if path not in known]
