"""Tasks on any engine: small pickled pieces, run twice and out of order, give the answer of the embedded engine."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.changing.change import plan_change
from deltacli.core.errors import DeltacliError
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.change.widen_type import Widening, WidenRequest
from deltacli.operations.read.snapshot import summarize
from deltacli.rules.framework.base import CATALOGUE, Level
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.table.output import WrittenDirectory
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.rules.data_table import DataTable
from tests.support import corpus
from tests.support.effort import shared_out
from tests.support.row_counts import count_rows
from tests.support.shipping import ShippingEngine

_NOW_MS = 1_700_000_000_000
_LARGEST_PIECE = 600
"""Bytes. A piece names a row group, a prefix or some files; it holds no rows and no footer."""
_LARGEST = "300k-add-files-100-col-partitioned"
"""A table whose statistics take seconds to read; its data files do not exist."""
_VARYING = ("WriteRows", "WriteActions")
"""Tasks that give the files they write names of their own."""


def _written(write: Callable[[str], WrittenDirectory]) -> object:
    """The rows that were written to a directory, file by file; nothing else is there."""
    with TemporaryDirectory() as place:
        written = write(f"{place}/out")
        names = [file.name for file in written.files]
        assert sorted([*names, "_SUCCESS"]) == sorted(os.listdir(f"{place}/out"))
        files = [pq.ParquetFile(f"{place}/out/{name}").read() for name in names]
        assert [file.rows for file in written.files] == [file.num_rows for file in files]
        return [file.schema for file in files], count_rows(files, files[0].schema.names)


def _rows(table: Table) -> object:
    if _LARGEST in table.uri:
        return None
    return _written(table.snapshot().scan(limit=1_000).write_parquet)


def _files(table: Table) -> object:
    if _LARGEST in table.uri:
        return None
    return _written(partial(table.snapshot().write_files, tombstones=True))


def _changes(table: Table) -> object:
    if _LARGEST in table.uri:
        return None
    last = table.snapshot().version
    return _written(table.changes(from_version=max(last - 1, 0), limit=1_000).write_parquet)


_WIDER = {"byte": "short", "short": "int", "integer": "bigint", "float": "double"}
_LARGEST_PIECES = {
    "ReadFootersAndVectors": 64 << 10,  # the paths of up to 256 files, with their sizes; or as below
    "ReadChanges": 16 << 10,  # of up to 64 files
    "ReadRows": 64 << 10,  # one file: its partition values, the statistics that its rows are compared with, its vector
    "ReadVectors": 64 << 10,  # up to 128 descriptors; some have their vector inline
    "list_directory": 2 << 10,  # the path of a directory, and its path without links
    "find_type_mismatches": 4 << 10,  # the paths of 16 files
    "WriteRows": 16_000,  # several data files, with partition values and vectors
    "WriteActions": 1_200,  # several row groups
}
"""More bytes for some tasks."""


_RULES_OF_FILES = [rule.id for rule in CATALOGUE.rules.values() if rule.level in (Level.FOOTERS, Level.DATA)]
_TOO_MANY = "kernel-rs/300k-add-files-100-col-partitioned"
"""A table whose 300,000 files are all missing: 20 s for each engine and level, and nothing to read."""


def _findings(level: str) -> Callable[[Table], Any]:
    def validate(table: Table) -> Any:
        if table.uri.endswith(_TOO_MANY.rpartition("/")[2]):
            return None
        found = table.validate(level=level, select=_RULES_OF_FILES, max_findings=0)
        told = [(each.rule.id, each.place, each.message, each.seen, each.expected) for each in found.findings]
        return told, found.files, found.not_checked, found.suppressed

    return validate


def _check_files(table: Table) -> Any:
    """Check the files for the first column that can be widened."""
    if table.uri.endswith(_TOO_MANY.rpartition("/")[2]):
        return None
    for column in table.snapshot().schema.fields:
        wider = _WIDER.get(getattr(column.data_type, "name", ""))
        if wider is not None:
            request = WidenRequest(((f"`{column.name}`", wider),), True, True, True)
            found = plan_change(Widening(request), table)
            if not found.plan.all_refusals:
                return found.refused_files
    return ()


OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "counts": lambda table: table.snapshot().counts(),
    "checkpoint --dry-run": lambda table: table.checkpoint(dry_run=True).as_json(),
    "snapshot --digest": lambda table: summarize(table, digest=True, now_ms=_NOW_MS).as_json(),
    "footers": _findings("footers"),
    "data": _findings("data"),
    "check-files": _check_files,
    "rows to a directory": _rows,
    "changes to a directory": _changes,
    "files to a directory": _files,
}
QUICK = ("counts",)
"""Operations that run every time; the others take five seconds each, and belong to the long suite."""


def answer_of(operation: Callable[[Table], Any], uri: str, engine: Engine) -> object:
    """Return what an operation returns for a table, or the error that it raises."""
    try:
        return operation(Table(open_storage(uri), engine=engine, clock=lambda: _NOW_MS, location=StoreLocation.of(uri)))
    except DeltacliError as fault:
        return type(fault), fault.code, fault.message


@pytest.mark.halved
@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in OPERATIONS]
)
def test_every_task_can_be_sent_repeated_and_reordered(name: str) -> None:
    """In the gate, a table by every third operation; `counts` by all tables."""
    operation, spread = OPERATIONS[name], 0
    tables = corpus.tables() if name in QUICK else shared_out(corpus.tables(), list(OPERATIONS).index(name))

    for table in tables:
        uri = str(table.path(corpus.unpacked()))
        engine = ShippingEngine(varying=_VARYING)
        assert answer_of(operation, uri, EmbeddedEngine()) == answer_of(operation, uri, engine), table.id
        spread += sum(engine.shipped.pieces.values())
        for task, size in engine.shipped.piece_bytes.items():
            assert size <= _LARGEST_PIECES.get(task, _LARGEST_PIECE), (table.id, task)

    assert spread


def test_open_stores_and_engines_are_not_sent(tmp_path: Any) -> None:
    stores = TableStores(open_storage(str(tmp_path)))

    for live in (stores, TaskContext(stores), EmbeddedEngine()):
        with pytest.raises(TypeError, match="cannot be sent to another process"):
            pickle.dumps(live)


def test_a_location_opens_the_same_store_elsewhere(tmp_path: Any) -> None:
    (tmp_path / "file").write_bytes(b"content")

    location = pickle.loads(pickle.dumps(StoreLocation.of(open_storage(str(tmp_path)).uri)))

    assert b"content" == location.open().read("file")


def _double(piece: int, context: TaskContext) -> int:
    if piece == context.shared("broken"):
        raise DeltacliError(f"piece {piece} is broken")
    return 2 * piece


@pytest.mark.parametrize("engine", [EmbeddedEngine(1), EmbeddedEngine(3), ShippingEngine(seed=7)])
def test_results_come_in_the_order_of_the_pieces_up_to_the_first_that_fails(engine: Engine, tmp_path: Any) -> None:
    stores = TableStores(open_storage(str(tmp_path)))

    results = engine.run_tasks(_double, range(200), stores, shared={"broken": 150})

    assert [2 * piece for piece in range(150)] == [next(results) for _ in range(150)]
    with pytest.raises(DeltacliError, match="piece 150 is broken"):
        next(results)


class _Damaging(ShippingEngine):
    """Overwrites a file after the first attempt of the first piece."""

    def __init__(self, file: Path) -> None:
        super().__init__(varying=("ReadFootersAndVectors", "ReadRows"))
        self._file = file

    def _attempt(self, *given: Any) -> bytes:  # type: ignore[override]
        result = ShippingEngine._attempt(*given)
        if b"ReadFooters" in given[0] or b"ReadRows" in given[0]:
            self._file.write_bytes(bytes(self._file.stat().st_size))
        return result


@pytest.mark.parametrize("level", ["footers", "data"])
def test_a_file_that_becomes_unreadable_between_two_attempts_is_one_finding(level: str, tmp_path: Path) -> None:
    root = DataTable().write(tmp_path / "t")
    file = next(iter(sorted(root.rglob("part-00003*.parquet"))))

    found = Table(open_storage(str(root)), engine=_Damaging(file)).validate(level=level)

    about_file = [each.rule.id for each in found.findings if each.place.key and each.place.key.endswith(file.name)]
    assert ["data.not-parquet"] == about_file
