"""Check whether data files meet the constraints of a table that did not exist when the files were written.

Constraints are NOT NULL columns, CHECK constraints, column invariants and generated columns. A restore
brings back files of an older version, an append brings files of other programs, and `alter` adds a
constraint to a table with files: no writer has checked these rows.

Most files are decided without reading rows: partition values and statistics prove a condition, or they
leave it open. Rows are read only of files that are left open.

Spec: Struct Field; CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT
from deltacli.core.quoting import quote_identifier
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.file_actions import num_records_column
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import key_text
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.predicate.prune import certainly_true
from deltacli.delta.schema.to_arrow import unread_columns, unread_type
from deltacli.delta.schema.types import StructField, StructType, places_of
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, stored_sql
from deltacli.delta.sql.translation.translate import translate_condition
from deltacli.delta.sql.translation.values import NotTranslated
from deltacli.rules.expressions.row_values import CONDITIONS, NOT_EVALUATED_MEMORY, NULLS, Violations
from deltacli.table.needed_files import build_needed_files, locate_files
from deltacli.work.facts.footer_files import FilesInListing
from deltacli.work.facts.row_facts import FileFacts
from deltacli.work.facts.vector_facts import VectorPiece, find_vector_file
from deltacli.work.rows.null_check import find_not_null_places
from deltacli.work.rows.row_checks import CHECKS, ChecksOfTable, ReadRows, RowPiece, weigh_row_piece

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

CHECKED_ADD_FIELDS = ("path", "size", "stats", "baseRowId", "deletionVector")
"""The fields of adds that a check needs, besides partition values."""
_NOT_NULL = "NOT NULL"
UNREADABLE_ROWS = "its rows cannot be read"
"""The reason for files that are left open because their rows cannot be read."""


class RowConstraint(NamedTuple):
    """One condition on the rows of a table.

    Attributes:
        owner: The name by which answers about rows refer to it: a column path that must not be null, or a
            text of SQL that the table stores.
        columns: The top-level columns that it is about.
        fields: The steps to a field that must not be null, if no list or map is above it.
    """

    owner: str | StoredSql
    columns: tuple[str, ...]
    fields: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The condition as users know it."""
        return _NOT_NULL if isinstance(self.owner, str) else str(self.owner.text)

    def __str__(self) -> str:
        if isinstance(self.owner, str):
            return f"column {self.owner} ({_NOT_NULL})"
        return f"{self.owner.kind} {self.owner.name} ({self.owner.text})"

    @property
    def condition(self) -> str | None:
        """The condition that must be true of each row, as SQL; None if only rows can answer."""
        if isinstance(self.owner, str):
            return f"{'.'.join(map(quote_identifier, self.fields))} IS NOT NULL" if self.fields else None
        return None if self.owner.kind is StoredKind.GENERATION else self.owner.text


def find_new_constraints(current: TableConfiguration, target: TableConfiguration) -> list[RowConstraint]:
    """Return the constraints of a table that it did not have at an older version: no writer had to keep them then.

    Args:
        current: The configuration of the table.
        target: The configuration of the older version.
    """
    old_owners = {constraint.owner for constraint in find_constraints(target)}
    return [constraint for constraint in find_constraints(current) if constraint.owner not in old_owners]


def find_constraints(config: TableConfiguration) -> Iterator[RowConstraint]:
    """Yield all constraints of a table on its rows."""
    for required in find_not_null_places(_list_fields(config)):
        steps = tuple(step.name for step in required.fields) if required.is_of_structs else ()
        yield RowConstraint(required.name, (required.column,), steps)

    names = [column.name for column in _list_fields(config)]
    for stored in stored_sql(config):
        used = {path[0] for path in parse_expression(stored.text or "").columns}
        used.add(stored.name.partition(".")[0])
        columns = tuple(names[position] for name in used for position in places_of(name, names))
        yield RowConstraint(stored, columns)


def _list_fields(config: TableConfiguration) -> tuple[StructField, ...]:
    return (config.schema or StructType(())).fields


def _find_partition_columns(config: TableConfiguration) -> set[str]:
    return {column.name for column in config.partition_columns.values() if column is not None}


@dataclass
class ConstraintViolations:
    """The rows that violate one constraint, and the files of which it is not known.

    Attributes:
        rows: The number of rows; None if it is unknown.
        files: The paths of the files with such rows.
        first: The first of these rows.
        unjudged: The paths of files of which it is not known.
        reason: The reason why the first of them is left open.
    """

    rows: int | None = 0
    files: list[str] = field(default_factory=list)
    first: str | None = None
    unjudged: list[str] = field(default_factory=list)
    reason: str = ""

    def add(self, path: str, rows: int | None, first: str | None = None) -> None:
        """Record rows of a file that violate the constraint.

        Args:
            path: The path of the file.
            rows: Their number. None if it is unknown.
            first: The first of them.
        """
        self.rows = None if self.rows is None or rows is None else self.rows + rows
        self.files.append(path)
        self.first = self.first or first

    def leave_open(self, path: str, reason: str) -> None:
        """Record a file of which it is not known."""
        self.unjudged.append(path)
        self.reason = self.reason or reason


class _OpenFiles(NamedTuple):
    """A constraint, and for each file of a batch whether the constraint is not proved yet."""

    constraint: RowConstraint
    is_open: list[bool]


class ConstraintCheck:
    """Checks files that come back or are new, some thousand at a time.

    Attributes:
        found: The violations by constraint.
    """

    def __init__(
        self,
        table: TableHandle,
        config: TableConfiguration,
        constraints: Sequence[RowConstraint],
        zone: str | None = None,
    ) -> None:
        """Prepare a check.

        Args:
            table: The table that has the files.
            config: The configuration that the constraints are of.
            constraints: The constraints.
            zone: The time zone of the session that wrote the rows, for conditions that depend on it. None: UTC.
        """
        self._table = table
        self._config = config
        self._constraints = constraints
        self._zone = zone
        self._predicates = {constraint.owner: self._parse_condition(constraint) for constraint in constraints}
        self._unread = {column.name: column for column in unread_columns(_list_fields(config))}
        known_partitions = _find_partition_columns(config) - self._unread.keys()
        self._partition_owners = {
            constraint.owner
            for constraint in constraints
            if isinstance(constraint.owner, str) and constraint.owner in known_partitions
        }
        self.found = {constraint: ConstraintViolations() for constraint in constraints}

    def _parse_condition(self, constraint: RowConstraint) -> Predicate | None:
        """Return the predicate by which statistics prove a constraint; None if they cannot."""
        if self._zone is not None and _depends_on_zone(constraint, self._config):
            return None  # statistics are compared in UTC
        return _parse_predicate(constraint, self._config)

    @cached_property
    def _checks(self) -> ChecksOfTable:
        """The checks of rows, for which only the columns of the constraints are read."""
        used = {name for constraint in self._constraints for name in constraint.columns}
        used |= _find_partition_columns(self._config)
        schema = StructType(tuple(column for column in _list_fields(self._config) if column.name in used))
        return ChecksOfTable(replace(self._config, schema=schema), demands_only=True, zone=self._zone)

    def take(self, adds: RecordBatch) -> None:
        """Check some files.

        A NOT NULL partition column that is not proved is violated: all rows of a file have its partition
        value. All other constraints that are not proved are checked by reading rows.
        """
        any_open = pa.repeat(False, adds.num_rows)
        masks = []
        for constraint in self._constraints:
            is_open = self._find_open_files(constraint, adds)
            if constraint.owner in self._partition_owners:
                self._record_null_partitions(constraint, pc.filter(adds, is_open))
            else:
                masks.append((constraint, is_open))
                any_open = pc.or_(any_open, is_open)
        if pc.any(any_open).as_py():
            open_files = [
                _OpenFiles(constraint, pc.filter(is_open, any_open).to_pylist()) for constraint, is_open in masks
            ]
            self._check_rows(pc.filter(adds, any_open), open_files)

    def _record_null_partitions(self, constraint: RowConstraint, adds: RecordBatch) -> None:
        rows = num_records_column(adds.column("stats")).to_pylist()
        for path, count in zip(adds.column("path").to_pylist(), rows, strict=True):
            self.found[constraint].add(path, count)

    def _find_open_files(self, constraint: RowConstraint, adds: RecordBatch) -> ArrowArray:
        """Return for which files partition values and statistics do not prove a constraint."""
        predicate = self._predicates[constraint.owner]
        if predicate is None:
            return pa.repeat(True, adds.num_rows)
        return pc.invert(certainly_true(adds, predicate, self._config))

    def _check_rows(self, adds: RecordBatch, open_files: Sequence[_OpenFiles]) -> None:
        """Read the rows of some files for the constraints that are open, and record the answers.

        Args:
            adds: The files.
            open_files: The constraints, each with the files for which it is open.
        """
        paths = adds.column("path").to_pylist()
        answerable = []
        for files in open_files:
            reason = self._explain_unanswerable(files.constraint)
            if reason is None:
                answerable.append(files)
                continue
            for path, is_open in zip(paths, files.is_open, strict=True):
                if is_open:
                    self.found[files.constraint].leave_open(path, reason)
        if not answerable:
            return

        table = self._table
        facts_of_files = table.engine.run_tasks(
            ReadRows(),
            self._plan_row_pieces(adds),
            table.stores,
            shared={CHECKS: self._checks},
            weigh=weigh_row_piece,
        )
        for facts in facts_of_files:
            for files in answerable:
                if files.is_open[facts.row]:
                    _record_answer(self.found[files.constraint], files.constraint, facts, paths[facts.row])

    def _explain_unanswerable(self, constraint: RowConstraint) -> str | None:
        """Return why no rows can answer whether a constraint is met; None if they can."""
        not_evaluated: Mapping[str | StoredSql, str] = self._checks.readable.memory.get(NOT_EVALUATED_MEMORY, {})
        if not isinstance(constraint.owner, StoredSql):
            unread = self._unread.get(constraint.columns[0])
            if unread is not None:
                return f"{UNREADABLE_ROWS}: column {unread.name} has type {unread.type}"
        if constraint.owner in not_evaluated:
            return f"it cannot be evaluated, because {not_evaluated[constraint.owner]}"
        return None

    def _plan_row_pieces(self, adds: RecordBatch) -> Iterator[RowPiece]:
        """Yield the files with what of their adds the checks need."""
        table = self._table
        uris = (table.storage.uri, *table.storage.aliases)
        records = num_records_column(adds.column("stats"))
        needed = build_needed_files(
            uris, adds.column("path"), adds.column("size"), records, adds.column("deletionVector")
        )
        located = locate_files(table.storage, needed, table.engine, SILENT)
        names = map(key_text, located.needed.files["path"].to_pylist())
        sizes = {name: size for name, size in zip(names, located.sizes.to_pylist(), strict=True) if size is not None}

        files = table.files()
        listing = FilesInListing(files, sizes)
        columns = ("path", "size", "partitionValues", "stats", "baseRowId", "deletionVector")
        values: Iterable[list[Any]] = (adds.column(name).to_pylist() for name in columns)  # Any: values of the columns
        for row, (path, size, partition, stats, base_row_id, vector) in enumerate(zip(*values, strict=True)):
            vector_piece = None
            if vector is not None:
                descriptor = {name: value for name, value in vector.items() if value is not None}
                vector_path = find_vector_file(files, descriptor)
                vector_sizes = ((vector_path, sizes[vector_path]),) if vector_path in sizes else ()
                vector_piece = VectorPiece(((row, descriptor),), vector_sizes)
            yield RowPiece(row, listing.find(path), size, tuple(partition or ()), stats, base_row_id, vector_piece)


def _parse_predicate(constraint: RowConstraint, config: TableConfiguration) -> Predicate | None:
    """Return the condition of a constraint as a predicate on statistics; None if it is not one."""
    if constraint.condition is None:
        return None
    # The statistics count nulls whatever the type is; a partition value has to be read.
    needs_values = bool(_find_partition_columns(config) & {*constraint.columns})
    judge = unread_type if needs_values else lambda _: None
    try:
        return parse_predicate(constraint.condition, config.schema or StructType(()), judge)
    except UsageError:
        return None  # that language has less than SQL


def _depends_on_zone(constraint: RowConstraint, config: TableConfiguration) -> bool:
    """Return True if a condition depends on the time zone of a session; of others statistics can prove it."""
    if isinstance(constraint.owner, str) or constraint.condition is None:
        return False
    try:
        return translate_condition(constraint.condition, config.schema or StructType(())).assumes_utc
    except NotTranslated:
        return True


def _record_answer(violations: ConstraintViolations, constraint: RowConstraint, facts: FileFacts, path: str) -> None:
    """Record what the rows of a file say about a constraint.

    Args:
        violations: What is known about the constraint. It is changed.
        constraint: The constraint.
        facts: The answers about the rows of the file.
        path: The path of the file.
    """
    if not facts.answers:  # the file or its vector is missing or damaged
        violations.leave_open(
            path, UNREADABLE_ROWS if facts.fault is None else f"{UNREADABLE_ROWS}: {facts.fault.message}"
        )
        return

    if isinstance(constraint.owner, str):
        nulls: Mapping[str, int] = facts.answers.get(NULLS) or {}
        if constraint.owner in nulls:
            violations.add(path, nulls[constraint.owner])
        return

    answers: Sequence[Violations] = facts.answers.get(CONDITIONS) or ()
    for answer in answers:
        if answer.stored != constraint.owner:
            continue
        if answer.rows:
            violations.add(path, answer.rows, answer.first)
        if answer.fault is not None:
            reason = f"it cannot be evaluated for {plural(answer.unjudged, 'row')}: {answer.fault}"
            violations.leave_open(path, reason)
