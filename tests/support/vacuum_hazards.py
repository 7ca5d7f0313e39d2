"""Tables that get vacuumed in tests: their files by hand, what would go, and a store that lets others come between."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from deltacli.api.table import Table
from deltacli.core.machine import Clock, fixed_clock
from deltacli.operations.vacuum.plan import VacuumPlan
from deltacli.operations.vacuum.saved import read_plan, save_plan
from deltacli.storage import Storage
from deltacli.storage.directory_identity import DirectoryIdentity, bind_to_directory
from tests.support.actions import Action, Line, add, deletion_vector, metadata, protocol, to_bytes
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.reading import NOW_MS
from tests.support.small_vectors import z85

DAY_MS = 24 * 3_600_000
WEEK_MS = 7 * DAY_MS
OLD_MS = EPOCH_MS
"""Four weeks ago: the default time of files and commits."""

CUTOFF_MS = NOW_MS - WEEK_MS
"""From when on something is kept by the default retention."""

VECTORS = ["deletionVectors"]
ID = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
OTHER_ID = UUID("0cf4d2b7-1c8e-4ed2-a3ed-7f7a4a2e1c55")


def ago(days: float) -> int:
    """A moment before the clock of the tests."""
    return NOW_MS - int(days * DAY_MS)


def table_of(*names: str | Line, has_vectors: bool = False, **fields: Any) -> TableBuilder:  # Any: as `metadata` has it
    """A table whose first commit adds these files, which are there; `fields` are those of its metaData."""
    lines = [protocol(3, 7, reader_features=VECTORS, writer_features=VECTORS) if has_vectors else protocol()]
    adds = [add(name, size=10) if isinstance(name, str) else name for name in names]
    builder = TableBuilder().commit(*lines, metadata(**fields), *adds)
    return with_files(builder, *(name for name in names if isinstance(name, str)))


def with_files(builder: TableBuilder, *paths: str, days: float | None = None) -> TableBuilder:
    """Put files of ten bytes into the directory; `days` is their age."""
    for path in paths:
        builder.file(path, b"0123456789", modified_ms=OLD_MS if days is None else ago(days))
    return builder


def vector_of(uuid: UUID = ID, prefix: str = "", *, offset: int | None = 1) -> Action:
    """The descriptor of a vector in the file `vector_path(uuid, prefix)`."""
    return deletion_vector(prefix + z85(uuid.bytes), offset=offset)


def open_at(place: TableBuilder | Storage, *, clock: Clock | None = None, **others: Any) -> Table:  # Any: of Table
    """The table, with the clock of the tests."""
    storage = place.in_memory() if isinstance(place, TableBuilder) else place
    return Table(storage, clock=clock or fixed_clock(NOW_MS), **others)


def plan_of(place: TableBuilder | Storage | Table, **options: Any) -> VacuumPlan:  # Any: those of Table.vacuum
    """The plan of a dry run that may delete everything."""
    table = place if isinstance(place, Table) else open_at(place)
    return table.vacuum(**{"max_delete": "100%", "dry_run": True, **options}).plan


def saved(plan: VacuumPlan, place: Path) -> VacuumPlan:
    """The plan as another process reads it."""
    save_plan(plan, str(place))
    return read_plan(str(place))


def paths_of(plan: VacuumPlan) -> set[str]:
    return {path.decode("utf-8", "surrogateescape") for path in plan.candidates.column("path").to_pylist()}


def goes(place: TableBuilder | Storage | Table, **options: Any) -> set[str]:  # Any: those of Table.vacuum
    """The paths that would be deleted by a plan that nothing keeps from being executed."""
    plan = plan_of(place, **options)
    assert not plan.refusals, plan.refusals
    return paths_of(plan)


def refusals(place: TableBuilder | Storage | Table, **options: Any) -> list[str]:  # Any: those of Table.vacuum
    """The codes of what keeps a plan from being executed."""
    return [refusal.code for refusal in plan_of(place, **options).refusals]


def vacuum(place: Storage | Table, **options: Any) -> Any:  # Any: those of Table.vacuum; its outcome
    """Run one that may delete everything, and return what became of it."""
    table = place if isinstance(place, Table) else open_at(place)
    outcome = table.vacuum(**{"max_delete": "100%", **options}).outcome
    assert outcome is not None
    return outcome


def commit_to(storage: Storage, version: int, *lines: Line | bytes, modified_ms: int = NOW_MS) -> None:
    """Another writer commits a version."""
    data = b"".join(line if isinstance(line, bytes) else to_bytes([line]) for line in lines)
    storage.put(commit_path(version), data, modified_ms=modified_ms)


def inventory_of(place: Path, *paths: str) -> str:
    """Write an inventory of files next to the table, in which all of them are old."""
    rows = [f"{path},10,{OLD_MS // 1000}" for path in paths]
    inventory = place.with_name("inventory.csv")
    inventory.write_text("\n".join(["path,size,modified", *rows, ""]))
    os.utime(inventory, ns=(NOW_MS * 1_000_000,) * 2)
    return str(inventory)


class Meanwhile:
    """A store where others act: before each call of a verb (after it, with `after`) the next of these is called, None
    for nothing.
    """

    def __init__(self, inner: Storage, verb: str, *acts: Callable[[], object] | None, after: bool = False) -> None:
        self._inner, self._verb, self._after = inner, verb, after
        self._acts = iter(acts)

    def bind_to_directory(self, place: DirectoryIdentity | None = None) -> Meanwhile:
        """The same store, bound to the directory at its path."""
        other = Meanwhile(bind_to_directory(self._inner, place), self._verb, after=self._after)
        other._acts = self._acts
        return other

    def __getattr__(self, name: str) -> Any:  # Any: whatever the store has
        found = getattr(self._inner, name)
        if name != self._verb:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            act = next(self._acts, None) or (lambda: None)
            if self._after:
                answer = found(*arguments, **options)
                act()
                return answer
            act()
            return found(*arguments, **options)

        return call
