"""A table with something of everything that a vacuum keeps and deletes, and stores that die under it.

`python -m tests.support.vacuuming TABLE CALL FAULT [PLAN]` vacuums it, or applies a saved plan, and kills its own
process at a call; with CALL 0 it prints the verbs of all calls.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from deltacli.api.table import Table
from deltacli.operations.vacuum import execute as deleting
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumRequest
from deltacli.operations.vacuum.rechecking import adopted
from deltacli.operations.vacuum.saved import ProgressRecord, read_plan, save_plan
from deltacli.storage import Creation, Deletion, LocalStorage, Storage, open_storage
from tests.support.actions import add, commit_info, deletion_vector, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.committing import commits
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import NOW_MS, open_at, state_document

Answer = TypeVar("Answer")

DAY_MS = 86_400_000
RECENT_MS = NOW_MS - DAY_MS
EMPTY = "p=empty"
INFO = f"{LOG}/_last_vacuum_info"
FILES_A_BATCH = 3

_VECTOR = "ab^-aqEH.-t@S}K{vb[*k^"
_VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"

NEEDED = (
    "live-0.parquet",
    "live-1.parquet",
    "p=a b/live-2.parquet",
    "with-vector.parquet",
    _VECTOR_FILE,
    "removed-lately.parquet",
    "old-but-committed-lately.parquet",
    "_change_data/recent.parquet",
    "young.parquet",
    "README.md",
    "_hidden/file.parquet",
    "nested.parquet/.keep",
)
"""What must stay: live, retained, young, foreign and hidden."""

GARBAGE = (
    *(f"gone-{number}.parquet" for number in range(7)),
    "p=a b/gone.parquet",
    "p=2/uncommitted.parquet",
    "_change_data/old.parquet",
    "ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin",
)
"""The deleted files: eleven files, four batches of three."""


def vacuum_request() -> VacuumRequest:
    """Delete everything that can be deleted."""
    return VacuumRequest(max_delete="100%")


def table_with_garbage() -> TableBuilder:
    """The files of `NEEDED` and `GARBAGE`, and the log that makes them so."""
    builder = TableBuilder()
    features = ["deletionVectors", "changeDataFeed"]
    encoded = [path.replace(" ", "%20") for path in GARBAGE[:8]]
    builder.commit(
        commit_info("CREATE TABLE"),
        protocol(3, 7, reader_features=features[:1], writer_features=features),
        metadata(),
        *(add(path, records=1) for path in ("live-0.parquet", "live-1.parquet", "removed-lately.parquet", *encoded)),
    )
    builder.commit(commit_info("DELETE"), *(remove(path, deleted_ms=EPOCH_MS + 1_000) for path in encoded))
    change = {"path": "_change_data/old.parquet", "partitionValues": {}, "size": 1, "dataChange": False}
    vector = deletion_vector(_VECTOR)
    builder.commit(
        commit_info("WRITE"),
        add("p=a%20b/live-2.parquet", records=1),
        add("with-vector.parquet", records=9, vector=vector),
        {"cdc": change},
    )
    builder.commit(
        commit_info("WRITE"),
        add("old-but-committed-lately.parquet", records=1),
        remove("removed-lately.parquet", deleted_ms=RECENT_MS),
        {"cdc": change | {"path": "_change_data/recent.parquet"}},
        modified_ms=RECENT_MS,
    )
    for path in (*NEEDED, *GARBAGE):
        builder.file(path, b"x", modified_ms=RECENT_MS if path == "young.parquet" else EPOCH_MS)
    return builder


def write_table(place: Path) -> Path:
    """Put it into a directory, with an empty old one in it."""
    table_with_garbage().write(place)
    (place / EMPTY).mkdir()
    os.utime(place / EMPTY, ns=(EPOCH_MS * 1_000_000,) * 2)
    return place


class Killed(BaseException):
    """The process has ended."""


class MortalStorage(FaultyStorage):
    """Each deletion is a call of its own, and what is created now has the time of the tests' clock.

    With `dies` nothing is done any more after a kill, as if the process were gone.
    """

    def __init__(self, inner: Storage, at: int = 0, fault: Fault = Fault.BEFORE, *, dies: bool = False) -> None:
        super().__init__(inner, at, fault)
        self._dies, self._is_dead = dies, False

    def step(self, verb: str, path: str, call: Callable[[], Answer]) -> Answer:
        if not self._dies:
            return super().step(verb, path, call)
        with self._lock:
            is_last = not self._is_dead and len(self.calls) + 1 == self._at
            self.calls.append((verb, path))
            self._is_dead = self._is_dead or is_last
            if is_last and self._fault is Fault.KILLED_AFTER:
                call()
            if self._is_dead:
                raise Killed
        return call()

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        return super().put_if_absent(path, data, modified_ms=modified_ms or NOW_MS)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            (found,) = super().delete_many([path])
            yield found


class KinStorage(FaultyStorage):
    """Another store of a process that dies: its calls are counted with those of the first one, and end with them."""

    def __init__(self, inner: Storage, first: MortalStorage) -> None:
        super().__init__(inner)
        self._first = first

    def step(self, verb: str, path: str, call: Callable[[], Answer]) -> Answer:
        return self._first.step(verb, path, call)


def vacuum(
    storage: Storage, plan_path: str | None = None, *, outcome: VacuumOutcome | None = None, **options: Any
) -> VacuumOutcome | None:
    """Plan and execute, or apply what was saved; None where the record says that it was done. Any: VacuumRequest.

    `outcome` is one that begins with nothing.
    """
    table = open_at(storage)
    if isinstance(storage, MortalStorage):
        table = Table(storage, clock=table.clock, open_other=lambda uri: KinStorage(open_storage(uri), storage))
    chosen = VacuumRequest(**options)
    if plan_path is None:
        return execute_vacuum(table, plan_vacuum(table, vacuum_request()), chosen, outcome=outcome)
    plan = read_plan(plan_path)
    plan = adopted(table, plan)
    with ProgressRecord(plan_path, plan) as record:
        if record.is_completed:
            return None
        counts = record.counts
        if outcome is not None:
            for name in VacuumOutcome.__slots__:
                setattr(outcome, name, getattr(counts, name))
        return execute_vacuum(table, plan, chosen, record=record, outcome=outcome)


def save(storage: Storage, plan_path: str, quarantine: str | None = None) -> None:
    """Plan, and write it down."""
    request = VacuumRequest(max_delete="100%", quarantine=quarantine)
    save_plan(plan_vacuum(open_at(storage), request), plan_path)


def data_of(place: Path) -> set[str]:
    """Files and directories outside of the log, directories with a slash at the end."""
    found = (path for path in place.rglob("*") if path.relative_to(place).parts[0] != LOG)
    return {f"{path.relative_to(place)}{'/' if path.is_dir() else ''}" for path in found}


def files_of(place: Path) -> set[str]:
    """Files outside of the log."""
    return {path for path in data_of(place) if not path.endswith("/")}


def check_table(place: Path) -> None:
    """Check that nothing needed is deleted, no other file appeared, and the log has the same table."""
    found = files_of(place)
    assert set(NEEDED) <= found <= {*NEEDED, *GARBAGE}
    storage = LocalStorage(str(place))
    for actions in commits(storage)[4:]:
        assert ["commitInfo"] == [kind for kind, _ in actions]
    names = {path.name for path in (place / LOG).iterdir()} - {f"{n:020d}.json" for n in range(len(commits(storage)))}
    assert names <= {"_last_vacuum_info"}
    seen, built = (state_document(table) for table in (open_at(storage), open_at(table_with_garbage().in_memory())))
    assert built == seen
    assert [] == [one for one in open_at(storage).validate().findings if one.severity == "error"]


def main(place: str, at: int, fault: str, plan_path: str | None = None) -> None:
    """Vacuum a local table through a store that kills this process."""
    deleting.FILES_A_BATCH = FILES_A_BATCH
    storage = MortalStorage(LocalStorage(place), at, Fault(fault))
    vacuum(storage, plan_path)
    sys.stdout.write("\n".join(verb for verb, _ in storage.calls))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
