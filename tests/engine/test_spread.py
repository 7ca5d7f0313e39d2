"""Tasks on any engine: small pickled pieces, run several times and in any order, give the embedded one's answer."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.errors import DeltacliError
from deltacli.operations.read.output import WrittenDirectory
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.work.task import TableStores, TaskContext
from tests.support import corpus
from tests.support.row_counts import count_rows
from tests.support.shipping import ShippingEngine

_LARGEST_PIECE = 600
"""Bytes. A piece names a row group, a prefix or some files; it holds no rows and no footer."""
_LARGEST_PIECES = {"WriteRows": 16_000, "WriteActions": 1_200}
"""Tasks with larger pieces, of several data files (with partition values and vectors) or several row groups."""
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


OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "counts": lambda table: table.snapshot().counts(now_ms=1_700_000_000_000),
    "rows to a directory": _rows,
    "changes to a directory": _changes,
    "files to a directory": _files,
}


def _answer(operation: Callable[[Table], Any], uri: str, engine: Engine) -> object:
    try:
        return operation(Table(open_storage(uri), engine=engine))
    except DeltacliError as fault:
        return type(fault), fault.code, fault.message


@pytest.mark.skipif(not corpus.tables(), reason=corpus.absence())
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_task_can_be_sent_repeated_and_reordered(name: str) -> None:
    operation, spread = OPERATIONS[name], 0

    for table in corpus.tables():
        uri = str(table.path(corpus.unpacked()))
        engine = ShippingEngine(varying=_VARYING)
        assert _answer(operation, uri, EmbeddedEngine()) == _answer(operation, uri, engine), table.id
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

    results = engine.spread(_double, range(200), stores, shared={"broken": 150})

    assert [2 * piece for piece in range(150)] == [next(results) for _ in range(150)]
    with pytest.raises(DeltacliError, match="piece 150 is broken"):
        next(results)
