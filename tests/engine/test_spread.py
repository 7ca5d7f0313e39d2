"""Tasks on any engine: small pickled pieces, run twice and out of order, give the answer of the embedded engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.errors import DeltacliError
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.work.task import TableStores, TaskContext
from tests.support import corpus
from tests.support.shipping import ShippingEngine

_LARGEST_PIECE = 600
"""Bytes. A piece names a row group, a prefix or some files; it holds no rows and no footer."""

OPERATIONS: dict[str, Callable[[Table], Any]] = {
    "counts": lambda table: table.snapshot().counts(now_ms=1_700_000_000_000),
    "checkpoint --dry-run": lambda table: table.checkpoint(dry_run=True).as_json(),
    "snapshot --digest": lambda table: summarize(table, digest=True, now_ms=1_700_000_000_000).as_json(),
}


def answer_of(operation: Callable[[Table], Any], uri: str, engine: Engine) -> object:
    """Return what an operation returns for a table, or the error that it raises."""
    try:
        return operation(Table(open_storage(uri), engine=engine, location=StoreLocation.of(uri)))
    except DeltacliError as fault:
        return type(fault), fault.code, fault.message


@pytest.mark.skipif(not corpus.tables(), reason=corpus.absence())
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_task_can_be_sent_repeated_and_reordered(name: str) -> None:
    operation, spread = OPERATIONS[name], 0

    for table in corpus.tables():
        uri = str(table.path(corpus.unpacked()))
        engine = ShippingEngine()
        assert answer_of(operation, uri, EmbeddedEngine()) == answer_of(operation, uri, engine), table.id
        spread += sum(engine.shipped.pieces.values())
        assert max(engine.shipped.piece_bytes.values(), default=0) <= _LARGEST_PIECE, table.id

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
