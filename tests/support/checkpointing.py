"""What a checkpoint must hold by the model, and tables of which a checkpoint is all that is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deltacli.api.table import Table
from deltacli.operations.checkpoint.checkpoint import (
    CheckpointRequest,
    CheckpointResult,
    plan_checkpoint,
    write_checkpoint,
)
from deltacli.storage import Storage
from tests.support.actions import Line, add, deletion_vector, domain, metadata, protocol, remove, txn
from tests.support.builder import LOG, TableBuilder
from tests.support.in_memory import MemoryStorage
from tests.support.model import WEEK_MS, State
from tests.support.reading import NOW_MS

V2 = ["v2Checkpoint"]
INLINE = deletion_vector("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", storage="i", offset=None, rows=6)
INLINE |= {"sizeInBytes": 44}
"""A vector that other engines can read without a file: rows 3, 4, 7, 11, 18 and 29."""


@dataclass(frozen=True)
class Form:
    """A form of checkpoint by its options."""

    name: str
    layout: str
    options: tuple[tuple[str, Any], ...] = ()

    def request(self, **others: Any) -> dict[str, Any]:
        """Arguments for `CheckpointRequest`."""
        return {"layout": self.layout, **dict(self.options), **others}


FORMS = (
    Form("classic", "classic"),
    Form("multi-part", "multi-part", (("parts", 3),)),
    Form("v2-json", "v2", (("rows_per_file", 2),)),
    Form("v2-parquet", "v2", (("rows_per_file", 2), ("v2_top", "parquet"))),
)


def write(table: Table, request: CheckpointRequest) -> CheckpointResult:
    """Plan and write."""
    return write_checkpoint(plan_checkpoint(table, request))


def any_form_table(form: Form) -> TableBuilder:
    """A small table with every kind of action, for which a form is allowed."""
    features = V2 if form.layout == "v2" else []
    first: list[Line] = [
        protocol(3, 7, reader_features=["deletionVectors", *features], writer_features=["deletionVectors", *features]),
        metadata(configuration={"a": "b"}),
        txn("app", 3, last_updated=NOW_MS),
        domain("mine", '{"x":1}'),
        add("a.parquet", size=10, records=1),
        add("b.parquet", size=20, records=20, vector=INLINE),
    ]
    builder = TableBuilder().commit(*first)
    for name in ("c", "d", "e"):
        builder.commit(add(f"{name}.parquet", size=30, stats='{"numRecords":3,"minValues":{"id":1}}'))
    return builder.commit(
        remove("a.parquet", deleted_ms=NOW_MS), remove("old.parquet", deleted_ms=0), domain("gone", removed=True)
    )


def expired(state: State, *, retention_ms: int = WEEK_MS, transactions_ms: int | None = None) -> State:
    """The state less what a checkpoint leaves out at the moment of the tests."""

    def is_kept(txn: dict[str, Any]) -> bool:
        updated = txn.get("lastUpdated")
        return transactions_ms is None or updated is None or updated > NOW_MS - transactions_ms

    return replace(
        state,
        tombstones={
            key: action
            for key, action in state.tombstones.items()
            if (action.get("deletionTimestamp") or 0) > NOW_MS - retention_ms
        },
        transactions={name: action for name, action in state.transactions.items() if is_kept(action)},
        domains=state.live_domains,
    )


def left_alone(storage: MemoryStorage, paths: Iterable[str]) -> MemoryStorage:
    """A table of which only these files are left."""
    found = MemoryStorage()
    for path in paths:
        found.write(path, storage.read(path))
    return found


def log_names(storage: Storage, directory: str = LOG) -> list[str]:
    """The files of the log, hidden ones too."""
    return [stat.name for stat in storage.list_from(directory)]
