"""Asking deltacli for a version the way all tests do, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.engine.base import Engine
from deltacli.operations.read.snapshot import DISAGREE, EXCEEDS, TIGHT, summarize
from deltacli.storage import Storage
from deltacli.table.version import Snapshot
from tests.support.builder import TableBuilder
from tests.support.model import num_records

NOW_MS = 1_702_419_200_000
"""What the clock of every test shows: four weeks after the first commit of a built table."""

STATE_FIELDS = ("protocol", "metadata", "files", "tombstones", "transactions", "domains")
"""The fields of a snapshot document that must not depend on how the version was rebuilt."""


def open_built(builder: TableBuilder) -> Table:
    """The table in memory."""
    return open_at(builder.in_memory())


def open_at(storage: Storage, *, engine: Engine | None = None) -> Table:
    """The table in a store, with the clock of the tests."""
    return Table(storage, engine=engine, clock=fixed_clock(NOW_MS))


@contextmanager
def large_commits(*, block_bytes: int, from_bytes: int = 1, many_keys: int | None = None) -> Iterator[None]:
    """Commits of `from_bytes` that are opened meanwhile count as large, and are read in blocks of this size; so many
    keys of small ones get an index.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltacli.work.commits.reading.LARGE_COMMIT_BYTES", from_bytes)
        if many_keys is not None:
            patch.setattr("deltacli.delta.log.file_actions._MANY", many_keys)
        patch.setattr("deltacli.work.commits.reading.READ_BLOCK_BYTES", block_bytes)
        patch.setattr("deltacli.work.commits.blocks.BLOCK_BYTES", block_bytes)
        patch.setattr("deltacli.work.commits.blocks._TAIL_BYTES", block_bytes)
        yield


def document(table: Table, version: int | None = None) -> dict[str, Any]:
    """The snapshot document of a version, with digests."""
    return summarize(table, version=version, digest=True).as_json()


def state_document(table: Table, version: int | None = None) -> dict[str, Any]:
    """The part of a snapshot document that must not depend on how the version was rebuilt: whether the rows can be
    trusted does, as a checkpoint has one add of a path, so that they are what the log counts.
    """
    found = document(table, version)
    files = found["files"]
    if {TIGHT, EXCEEDS, DISAGREE}.intersection(found["logSegment"]["problems"]):
        assert files["rows"] is None
        rows = files["records"] - files["deletionVectors"]["deletedRows"]
        found["files"] = files | {"rows": None if files["filesWithoutRecords"] else rows}
    return {name: found[name] for name in STATE_FIELDS}


def live_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The live files as the API lists them, ordered, reduced to what every checkpoint keeps, maps as dictionaries."""
    rows = [row for batch in snapshot.files() for row in batch.to_pylist(maps_as_pydicts="strict")]
    return _ordered([_reduced_add(row) for row in rows])


def tombstone_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The tombstones as the API lists them, ordered, reduced to what every checkpoint keeps."""
    rows = [row for batch in snapshot.tombstones() for row in batch.to_pylist(maps_as_pydicts="strict")]
    return _ordered([_reduced_remove(row) for row in rows])


def model_live_rows(builder: TableBuilder, version: int) -> list[dict[str, Any]]:
    """What `live_rows` must say."""
    return _ordered([_reduced_add(action) for action in builder.states[version].live.values()])


def model_tombstone_rows(builder: TableBuilder, version: int) -> list[dict[str, Any]]:
    """What `tombstone_rows` must say."""
    return _ordered([_reduced_remove(action) for action in builder.states[version].tombstones.values()])


def _reduced_add(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "path": row["path"],
        "partitionValues": row["partitionValues"],
        "size": row["size"],
        "modificationTime": row["modificationTime"],
        "numRecords": num_records(row),
        "deletionVector": _vector(row),
    }


def _reduced_remove(row: dict[str, Any]) -> dict[str, Any]:
    return {"path": row["path"], "deletionTimestamp": row.get("deletionTimestamp"), "deletionVector": _vector(row)}


def _vector(row: dict[str, Any]) -> dict[str, Any] | None:
    vector = row.get("deletionVector")
    return None if vector is None else {name: value for name, value in vector.items() if value is not None}


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)
