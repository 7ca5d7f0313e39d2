"""What a table demands of its rows, and whether files keep it that were written before the demand.

Partition values and statistics come first. Rows are read only of files that these leave open. Spec: Struct Field; CHECK
Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import UsageError, quote_identifier
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.file_actions import num_records_column
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import key_text
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.predicate.prune import certainly_true
from deltacli.delta.schema.to_arrow import unread_columns, unread_type
from deltacli.delta.schema.types import StructType, places_of
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, stored_sql
from deltacli.delta.sql.translation.translate import translate_condition
from deltacli.delta.sql.translation.values import NotTranslated
from deltacli.rules.expressions.row_values import CONDITIONS, NOT_EVALUATED_MEMORY, NULLS, Violations
from deltacli.table.live_files import look_for, needed_files
from deltacli.work.file_facts import FileFacts, FilesInListing, VectorPiece, file_of_vector
from deltacli.work.rows.row_checks import CHECKS, ChecksOfTable, ReadRows, RowPiece, not_null_places, weight_of_rows

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

FIELDS = ("path", "size", "stats", "baseRowId", "deletionVector")
"""The fields of adds that a check needs, besides partition values."""
_NOT_NULL = "NOT NULL"
UNREAD = "its rows cannot be read"
"""Why files are left open whose rows cannot be read."""


class Demand(NamedTuple):
    """One condition on rows. `owner` is what answers about rows name: a path that must not be null, or a stored text.
    `columns` are the top-level columns it is about.
    """

    owner: str | StoredSql
    columns: tuple[str, ...]
    fields: tuple[str, ...] = ()
    """The steps to a place that must not be null, where no list or map is above it."""

    @property
    def text(self) -> str:
        return _NOT_NULL if isinstance(self.owner, str) else str(self.owner.text)

    def __str__(self) -> str:
        if isinstance(self.owner, str):
            return f"column {self.owner} ({_NOT_NULL})"
        return f"{self.owner.kind} {self.owner.name} ({self.owner.text})"

    @property
    def condition(self) -> str | None:
        """What must be true of each row, as SQL; None where only rows can answer."""
        if not isinstance(self.owner, str):
            return None if self.owner.kind is StoredKind.GENERATION else self.owner.text
        return f"{'.'.join(map(quote_identifier, self.fields))} IS NOT NULL" if self.fields else None


def new_demands(now: TableConfiguration, target: TableConfiguration) -> list[Demand]:
    """Return the demands of a table that it did not have at a version: no writer had to keep them then."""
    known = {demand.owner for demand in demands_of(target)}
    return [demand for demand in demands_of(now) if demand.owner not in known]


def demands_of(config: TableConfiguration) -> Iterator[Demand]:
    """Yield everything that a table demands of its rows."""
    schema = config.schema or StructType(())
    for place in not_null_places(schema.fields):
        fields = tuple(one.name for one in place.fields) if place.is_of_structs else ()
        yield Demand(place.name, (place.column,), fields)
    names = [column.name for column in schema.fields]
    for stored in stored_sql(config):
        used = {path[0] for path in parse_expression(stored.text or "").columns} | {stored.name.partition(".")[0]}
        yield Demand(stored, tuple(names[place] for name in used for place in places_of(name, names)))


@dataclass
class FoundRows:
    """What was found about one demand. `rows` is None if the number is unknown."""

    rows: int | None = 0
    files: list[str] = field(default_factory=list)
    first: str | None = None
    unjudged: list[str] = field(default_factory=list)
    reason: str = ""

    def add(self, path: str, rows: int | None, first: str | None = None) -> None:
        """Record rows of a file that violate the demand."""
        self.rows = None if self.rows is None or rows is None else self.rows + rows
        self.files.append(path)
        self.first = self.first or first

    def leave_open(self, path: str, reason: str) -> None:
        """Record a file of which it is not known."""
        self.unjudged.append(path)
        self.reason = self.reason or reason


class DemandCheck:
    """Checks files that come back or are new, some thousand at a time. `zone` is that of the session that wrote rows,
    for conditions that depend on it; None: UTC.
    """

    def __init__(
        self, table: TableHandle, config: TableConfiguration, demands: Sequence[Demand], zone: str | None = None
    ) -> None:
        self._table, self._config, self._demands, self._zone = table, config, demands, zone
        self._conditions = {
            demand.owner: None if zone is not None and _depends_on_zone(demand, config) else _predicate(demand, config)
            for demand in demands
        }
        partitions = {column.name for column in config.partition_columns.values() if column is not None}
        self._unread = {one.name: one for one in unread_columns((config.schema or StructType(())).fields)}
        known = partitions - self._unread.keys()
        self._of_partitions = {one.owner for one in demands if isinstance(one.owner, str) and one.owner in known}
        self.found = {demand: FoundRows() for demand in demands}

    @cached_property
    def _checks(self) -> ChecksOfTable:
        """The checks of rows, for which only the columns of the demands are read."""
        used = {name for demand in self._demands for name in demand.columns}
        used |= {column.name for column in self._config.partition_columns.values() if column is not None}
        fields = (self._config.schema or StructType(())).fields
        schema = StructType(tuple(column for column in fields if column.name in used))
        return ChecksOfTable(replace(self._config, schema=schema), demands_only=True, zone=self._zone)

    def take(self, adds: RecordBatch) -> None:
        """Check some files."""
        is_open = [self._is_open(demand, adds) for demand in self._demands]
        for demand, mask in zip(self._demands, is_open, strict=True):
            if demand.owner in self._of_partitions:
                broken = pc.filter(adds, mask)
                rows = num_records_column(broken.column("stats")).to_pylist()
                for path, count in zip(broken.column("path").to_pylist(), rows, strict=True):
                    self.found[demand].add(path, count)
        rest = [
            (demand, mask)
            for demand, mask in zip(self._demands, is_open, strict=True)
            if demand.owner not in self._of_partitions
        ]
        every = pa.repeat(False, adds.num_rows)
        for _, mask in rest:
            every = pc.or_(every, mask)
        if pc.any(every).as_py():
            self._read(pc.filter(adds, every), [(demand, pc.filter(mask, every)) for demand, mask in rest])

    def _is_open(self, demand: Demand, adds: RecordBatch) -> ArrowArray:
        """Return for which files partition values and statistics do not prove a demand."""
        predicate = self._conditions[demand.owner]
        if predicate is None:
            return pa.repeat(True, adds.num_rows)
        return pc.invert(certainly_true(adds, predicate, self._config))

    def _read(self, adds: RecordBatch, is_open: Sequence[tuple[Demand, ArrowArray]]) -> None:
        """Read the rows of some files for the demands that are open."""
        table, wanted = self._table, self._checks
        paths = adds.column("path").to_pylist()
        masks = [(demand, mask.to_pylist()) for demand, mask in is_open]
        not_evaluated: Mapping[str | StoredSql, str] = wanted.readable.memory.get(NOT_EVALUATED_MEMORY, {})
        for demand, mask in masks:
            if demand.owner in not_evaluated:
                for path in (path for path, one in zip(paths, mask, strict=True) if one):
                    self.found[demand].leave_open(
                        path, f"it cannot be evaluated, because {not_evaluated[demand.owner]}"
                    )
        judged = list[tuple[Demand, list[bool]]]()
        for demand, mask in masks:
            unread = None if isinstance(demand.owner, StoredSql) else self._unread.get(demand.columns[0])
            if unread is not None:
                for path in (path for path, one in zip(paths, mask, strict=True) if one):
                    self.found[demand].leave_open(path, f"{UNREAD}: column {unread.name} has type {unread.type}")
            elif demand.owner not in not_evaluated:
                judged.append((demand, mask))
        if not judged:
            return
        task, shared = ReadRows(), {CHECKS: wanted}
        facts = table.engine.spread(task, self._pieces(adds), table.stores, shared=shared, weigh=weight_of_rows)
        for fact in facts:
            for demand, mask in judged:
                if mask[fact.row]:
                    _take_answer(self.found[demand], demand, fact, paths[fact.row])

    def _pieces(self, adds: RecordBatch) -> Iterator[RowPiece]:
        """Yield the files with what of their adds the checks need."""
        table = self._table
        vectors = adds.column("deletionVector")
        uris = (table.storage.uri, *table.storage.aliases)
        rows = num_records_column(adds.column("stats"))
        needed = needed_files(uris, adds.column("path"), adds.column("size"), rows, vectors)
        needed, sizes = look_for(table.storage, needed, table.engine, SILENT)
        names = map(key_text, needed.files["path"].to_pylist())
        there = {name: size for name, size in zip(names, sizes.to_pylist(), strict=True) if size is not None}
        files = table.files()
        listing = FilesInListing(files, there)
        columns = ("path", "size", "partitionValues", "stats", "baseRowId", "deletionVector")
        lists: Iterable[list[Any]] = (adds.column(name).to_pylist() for name in columns)  # Any: values of the columns
        for row, (path, size, values, stats, base, vector) in enumerate(zip(*lists, strict=True)):
            piece = None
            if vector is not None:
                stated = {name: value for name, value in vector.items() if value is not None}
                place = file_of_vector(files, stated)
                held = ((place, there[place]),) if place in there else ()
                piece = VectorPiece(((row, stated),), held)
            yield RowPiece(row, listing.find(path), size, tuple(values or ()), stats, base, piece)


def _predicate(demand: Demand, config: TableConfiguration) -> Predicate | None:
    if demand.condition is None:
        return None
    partitions = {column.name for column in config.partition_columns.values() if column is not None}
    # What is null is in the statistics whatever the type; a partition value has to be read.
    judge = unread_type if partitions & {*demand.columns} else lambda _: None
    try:
        return parse_predicate(demand.condition, config.schema or StructType(()), judge)
    except UsageError:
        return None  # that language has less than SQL


def _depends_on_zone(demand: Demand, config: TableConfiguration) -> bool:
    """Return True if a condition depends on the time zone of a session; of others statistics can prove it."""
    if isinstance(demand.owner, str) or demand.condition is None:
        return False
    try:
        return translate_condition(demand.condition, config.schema or StructType(())).assumes_utc
    except NotTranslated:
        return True


def _take_answer(found: FoundRows, demand: Demand, fact: FileFacts, path: str) -> None:
    if not fact.answers:  # the file or its vector is missing or damaged
        found.leave_open(path, UNREAD if fact.fault is None else f"{UNREAD}: {fact.fault.message}")
        return
    if isinstance(demand.owner, str):
        nulls: Mapping[str, int] = fact.answers.get(NULLS) or {}
        if demand.owner in nulls:
            found.add(path, nulls[demand.owner])
        return
    answers: Sequence[Violations] = fact.answers.get(CONDITIONS) or ()
    for one in answers:
        if one.stored == demand.owner:
            if one.rows:
                found.add(path, one.rows, one.first)
            if one.fault is not None:
                found.leave_open(path, f"it cannot be evaluated for {plural(one.unjudged, 'row')}: {one.fault}")
