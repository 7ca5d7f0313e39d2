"""Which rows differ between two versions, by key: streamed, in memory that does not grow with the tables.

The engine of the first version reads pieces of both, in threads or on a cluster. It keeps of each row what
`deltacli.work.rows.kept_rows` says, in groups by a hash of the key, and compares one group after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.hints import nearest_name, parameter
from deltacli.core.progress import Step
from deltacli.core.typing import Json, RecordBatch
from deltacli.delta.schema.kinds import interval_name
from deltacli.delta.schema.names import NameIndex
from deltacli.delta.schema.to_arrow import arrow_schema, unread_type
from deltacli.delta.schema.type_changes import is_allowed_change
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.engine.base import Reading
from deltacli.table.api_arguments import errors_about, name_table, named_items
from deltacli.work.outputs.rows import RowsPiece, plan_pieces
from deltacli.work.rows.kept_rows import FIXED, SPEC, ComparedColumns, CompareRows, KeepRows, RowCounts

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

__all__ = ["FIXED", "RowCounts", "RowDiff"]


class RowDiff:
    """The rows of two versions by key. Each call of `changes` reads both versions once.

    Raises UsageError for columns that cannot be a key of both.
    """

    def __init__(self, before: Snapshot, after: Snapshot, key: Sequence[str], temp_dir: str | None = None) -> None:
        self._sides = before, after
        self._temp_dir = temp_dir
        self.fields, self.not_compared = _compared_fields(before.schema, after.schema, key)
        names, types = zip(*((one.name, one.type) for one in arrow_schema(self.fields)), strict=True)
        self.columns = ComparedColumns(names[: len(key)], names[len(key) :], types)
        self._counts: RowCounts | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.columns.key

    @property
    def counts(self) -> RowCounts:
        """How many rows differ. Raises what `changes` raises."""
        if self._counts is None:
            for _ in self._compared(lists=False):
                pass
        assert self._counts is not None
        return self._counts

    @property
    def is_equal(self) -> bool:
        """Whether no row differs."""
        return not (self.counts.added or self.counts.removed or self.counts.changed)

    def as_json(self) -> dict[str, Json]:
        """Return what is in documents of it."""
        found = self.counts
        return {
            "key": list(self.key),
            "added": found.added,
            "removed": found.removed,
            "changed": found.changed,
            "unchanged": found.unchanged,
            "repeatedKeys": found.repeated,
            "columns": {name: found.columns[name] for name in self.columns.others if found.columns[name]},
            "notCompared": list(self.not_compared),
        }

    def changes(self) -> Iterator[RecordBatch]:
        """Yield the keys that differ: `change` (`add`, `remove` or `change`), the number of rows with the key in each
        version, the columns that differ where both have one, and the columns of the key.

        Raises DataUnreadable, StorageFailed and NoSpace, and what a cluster raises.
        """
        yield from self._compared(lists=True)

    def _compared(self, *, lists: bool) -> Iterator[RecordBatch]:
        table, counts = self._sides[0].table, RowCounts()
        try:
            with table.progress.step("reading rows", unit="files") as step:
                readings = self.readings(step)
                merge = CompareRows(self.columns, lists)
                kept = self.columns.kept
                for found, rows in table.engine.regroup(readings, merge, kept, self.kept_bytes(), self._temp_dir):
                    counts.add(found)
                    if rows is not None:
                        yield rows
        except DeltacliError as fault:
            name_table(fault, table.name)
            raise
        self._counts = counts

    def kept_bytes(self) -> int:
        """About the bytes that are kept of the rows of both versions."""
        files = [side.counts()[0] for side in self._sides]
        rows = sum(one.records + (one.size_bytes // 8 if one.files_without_records else 0) for one in files)
        return rows * (8 * len(self.columns.others) + 24 * len(self.key))

    def readings(self, step: Step | None = None) -> list[Reading]:
        """Return how both versions are read."""
        found = []
        for side in self._sides:
            name = side.table.name
            with errors_about(name):
                scan = side.scan(columns=[*self.key, *self.columns.others])
            pieces = named_items(plan_pieces(scan.data_files()), name)
            task = KeepRows(self.columns, name)
            noted = pieces if step is None else _noted(pieces, step)
            found.append(Reading(task, noted, side.table.stores, {SPEC: scan.wanted}))
        return found


def _noted(pieces: Iterator[RowsPiece], step: Step) -> Iterator[RowsPiece]:
    """Yield the pieces, and count a piece once the next one is taken."""
    for piece in pieces:
        yield piece
        step.advance(piece.amount)


def _compared_fields(
    before: StructType, after: StructType, key: Sequence[str]
) -> tuple[tuple[StructField, ...], tuple[str, ...]]:
    """Return the columns that are compared, those of the key first, in the types in which they are; and the names of
    the columns that only one schema has, or whose types cannot be compared. Raises UsageError.
    """
    olds = {column.name: column for column in before.fields}
    common = [(olds[new.name], new) for new in after.fields if new.name in olds]
    types = {new.name: _common(old, new) for old, new in common}
    names = tuple(_named(name, before, after) for name in key)
    for name in names:
        if not isinstance(types[name], PrimitiveType) or types[name] == PrimitiveType("variant"):
            raise UsageError(f"column {name} cannot be a key: its values cannot be compared", code="usage.column")
    compared = [*names, *(name for name, kind in types.items() if kind is not None and name not in names)]
    every = dict.fromkeys(column.name for column in (*before.fields, *after.fields))
    fields = tuple(StructField(name, types[name], True, {}) for name in compared)
    return fields, tuple(name for name in every if name not in compared)


def _named(name: str, *schemas: StructType) -> str:
    """Return a column of both schemas as it is written there. Raises UsageError."""
    found = name
    for schema in schemas:
        index = NameIndex(column.name for column in schema.fields)
        places = index.places_of(name)
        if len(places) != 1:
            names = [column.name for column in schema.fields]
            near = nearest_name(name, names)
            facts = {} if near else {"columns": ", ".join(names)}
            what = f"{parameter('diff.key', name)}: a version has no such column"
            raise UsageError(what, code="usage.column", facts=facts).meaning(name, near)
        found = schema.fields[places[0]].name
    return found


def _common(old: StructField, new: StructField) -> Any:  # Any: a type of Delta, or None
    """Return the type in which the values of a column are compared; None where there is none."""
    if unread_type(old.data_type) or unread_type(new.data_type):
        return None
    if _shape(old.data_type) == _shape(new.data_type):
        return new.data_type
    if isinstance(old.data_type, PrimitiveType) and isinstance(new.data_type, PrimitiveType):
        if is_allowed_change(old.data_type.name, new.data_type.name):
            return new.data_type
        if is_allowed_change(new.data_type.name, old.data_type.name):
            return old.data_type
    return None


def _shape(data_type: Any) -> Any:  # Any: a type of Delta, a type of Arrow
    """Return a type without what does not matter to values: nullability, comments, metadata."""
    if isinstance(data_type, PrimitiveType) and (interval := interval_name(data_type.name)):
        return interval  # not the number that it is stored as
    found = arrow_schema((StructField("c", data_type, True, {}),)).field(0).type
    return str(found).replace(" not null", "")
