"""Check data files against constraints that nobody enforced when the files were written.

Constraints are NOT NULL columns, CHECK constraints, column invariants and generated columns. Delta
makes the writer of a row responsible for them. Three commands add files whose writer may not have
known a constraint:

* `restore` brings back files that are older than the constraint,
* `append` adds Parquet files that another program wrote,
* `alter` adds a constraint to a table that already contains files.

Partition values and statistics prove most constraints. For example, `nullCount.id = 0` proves `id
IS NOT NULL`, and `minValues.amount = 5` proves `amount > 0`. Only files for which they prove
nothing are read.

Spec: Struct Field; CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT
from deltacli.core.quoting import quote_identifier
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.predicate.prune import find_certain_matches
from deltacli.delta.schema.to_arrow import find_unsupported_columns, find_unsupported_type
from deltacli.delta.schema.types import StructField, StructType, find_name_positions
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, list_stored_sql
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
"""Fields of adds that `ConstraintCheck.check_files` needs, besides `partitionValues`."""
_NOT_NULL = "NOT NULL"
UNREADABLE_ROWS = "its rows cannot be read"
"""The reason for a file that could not be checked because its rows cannot be read."""


class RowConstraint(NamedTuple):
    """A condition that every row of a table must meet.

    Attributes:
        owner: Identifies the constraint in the results of row checks: the path of a NOT NULL
            column, such as "address.city", or the SQL text of another constraint as stored in the
            table.
        columns: Names of the top-level columns that the constraint refers to.
        fields: Path of a NOT NULL field from its top-level column, such as `("address", "city")`.
            Empty for other constraints, and for fields inside a list or map.
    """

    owner: str | StoredSql
    columns: tuple[str, ...]
    fields: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The condition as shown to users."""
        return _NOT_NULL if isinstance(self.owner, str) else str(self.owner.text)

    def __str__(self) -> str:
        if isinstance(self.owner, str):
            return f"column {self.owner} ({_NOT_NULL})"
        return f"{self.owner.kind} {self.owner.name} ({self.owner.text})"

    @property
    def condition(self) -> str | None:
        """The constraint as an SQL condition, or None if it cannot be written as one."""
        if isinstance(self.owner, str):
            if not self.fields:
                return None
            return f"{'.'.join(map(quote_identifier, self.fields))} IS NOT NULL"
        # A generated column is an expression to compare with, not a condition.
        if self.owner.kind is StoredKind.GENERATION:
            return None
        return self.owner.text


def find_new_constraints(current: TableConfiguration, target: TableConfiguration) -> list[RowConstraint]:
    """Return the constraints of the current version that an older version does not have.

    Args:
        current: Configuration of the current version.
        target: Configuration of the older version.
    """
    old_owners = {constraint.owner for constraint in find_constraints(target)}
    return [constraint for constraint in find_constraints(current) if constraint.owner not in old_owners]


def find_constraints(config: TableConfiguration) -> Iterator[RowConstraint]:
    """Yield all constraints on the rows of a table."""
    for required in find_not_null_places(_list_columns(config)):
        field_path = tuple(step.name for step in required.fields) if required.is_of_structs else ()
        yield RowConstraint(required.name, (required.column,), field_path)

    column_names = [column.name for column in _list_columns(config)]
    for stored in list_stored_sql(config):
        referenced_names = {path[0] for path in parse_expression(stored.text or "").columns}
        # The name of an invariant or generated column is the path of its column.
        referenced_names.add(stored.name.partition(".")[0])

        # Column names in SQL are not case-sensitive.
        columns: list[str] = []
        for name in referenced_names:
            columns.extend(column_names[index] for index in find_name_positions(name, column_names))
        yield RowConstraint(stored, tuple(columns))


def _list_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    return (config.schema or StructType(())).fields


def _find_partition_columns(config: TableConfiguration) -> set[str]:
    return {column.name for column in config.partition_columns.values() if column is not None}


@dataclass
class ConstraintViolations:
    """The result of checking files against one constraint.

    Attributes:
        rows: Number of rows that violate the constraint; None if the number is unknown for one of
            the files.
        files: Paths of the files that contain these rows.
        first: The first of these rows as text, or None if no row was read.
        unchecked_files: Paths of files that could not be checked.
        reason: Why the first of `unchecked_files` could not be checked; empty if all files were
            checked.
    """

    rows: int | None = 0
    files: list[str] = field(default_factory=list)
    first: str | None = None
    unchecked_files: list[str] = field(default_factory=list)
    reason: str = ""

    def add_file(self, path: str, rows: int | None, first: str | None = None) -> None:
        """Add a file that contains rows that violate the constraint.

        Args:
            path: Path of the file as written in the log.
            rows: Number of these rows, or None if it is unknown.
            first: The first of these rows as text.
        """
        self.rows = None if self.rows is None or rows is None else self.rows + rows
        self.files.append(path)
        self.first = self.first or first

    def add_unchecked_file(self, path: str, reason: str) -> None:
        """Add a file that could not be checked."""
        self.unchecked_files.append(path)
        self.reason = self.reason or reason


class _UnprovedFiles(NamedTuple):
    """The files of a batch for which statistics do not prove a constraint.

    Attributes:
        constraint: The constraint.
        is_unproved: One flag per file of the batch.
    """

    constraint: RowConstraint
    is_unproved: list[bool]


class ConstraintCheck:
    """Checks files against constraints, one batch of adds at a time.

    Attributes:
        violations: The violations of each constraint in all files checked so far.
    """

    def __init__(
        self,
        table: TableHandle,
        config: TableConfiguration,
        constraints: Sequence[RowConstraint],
        zone: str | None = None,
    ) -> None:
        """Prepare a check. Nothing is read yet.

        Args:
            table: The table that contains the files, or that they will be added to.
            config: The configuration that defines the constraints.
            constraints: The constraints to check.
            zone: Session time zone of the program that wrote the rows, such as "Europe/Berlin".
                Conditions on timestamps are evaluated in it. None is UTC.
        """
        self._table = table
        self._config = config
        self._constraints = constraints
        self._zone = zone
        self._predicates = {constraint.owner: self._parse_condition(constraint) for constraint in constraints}
        self._unread_columns = {column.name: column for column in find_unsupported_columns(_list_columns(config))}
        readable_partition_columns = _find_partition_columns(config) - self._unread_columns.keys()
        self._not_null_partitions = {
            constraint.owner
            for constraint in constraints
            if isinstance(constraint.owner, str) and constraint.owner in readable_partition_columns
        }
        self.violations = {constraint: ConstraintViolations() for constraint in constraints}

    def _parse_condition(self, constraint: RowConstraint) -> Predicate | None:
        """Return the predicate that statistics may prove, or None if they cannot prove the constraint."""
        # Statistics are compared in UTC.
        if self._zone is not None and _depends_on_time_zone(constraint, self._config):
            return None
        return _parse_predicate(constraint, self._config)

    @cached_property
    def _row_checks(self) -> ChecksOfTable:
        """The checks of rows. Only columns that the constraints refer to are read."""
        needed_names = {name for constraint in self._constraints for name in constraint.columns}
        needed_names |= _find_partition_columns(self._config)
        schema = StructType(tuple(column for column in _list_columns(self._config) if column.name in needed_names))
        return ChecksOfTable(replace(self._config, schema=schema), demands_only=True, zone=self._zone)

    def check_files(self, adds: RecordBatch) -> None:
        """Check files, and add the results to `violations`.

        Args:
            adds: Add actions with the fields `CHECKED_ADD_FIELDS` and `partitionValues`.

        Raises:
            StorageFailed: If a remote store does not answer.
        """
        needs_rows = pa.repeat(False, adds.num_rows)
        unproved_masks = []
        for constraint in self._constraints:
            is_unproved = self._find_unproved_files(constraint, adds)
            if constraint.owner in self._not_null_partitions:
                # All rows of a file have the same partition value, so a value that is not proved to
                # exist is null.
                self._add_null_partitions(constraint, pc.filter(adds, is_unproved))
            else:
                unproved_masks.append((constraint, is_unproved))
                needs_rows = pc.or_(needs_rows, is_unproved)
        if not pc.any(needs_rows).as_py():
            return

        # The masks are reduced to the files whose rows are read.
        unproved_files = [
            _UnprovedFiles(constraint, pc.filter(is_unproved, needs_rows).to_pylist())
            for constraint, is_unproved in unproved_masks
        ]
        self._check_rows(pc.filter(adds, needs_rows), unproved_files)

    def _add_null_partitions(self, constraint: RowConstraint, adds: RecordBatch) -> None:
        row_counts = extract_num_records_column(adds.column("stats")).to_pylist()
        for path, row_count in zip(adds.column("path").to_pylist(), row_counts, strict=True):
            self.violations[constraint].add_file(path, row_count)

    def _find_unproved_files(self, constraint: RowConstraint, adds: RecordBatch) -> ArrowArray:
        """Return a mask of the files for which partition values and statistics do not prove a constraint."""
        predicate = self._predicates[constraint.owner]
        if predicate is None:
            return pa.repeat(True, adds.num_rows)
        return pc.invert(find_certain_matches(adds, predicate, self._config))

    def _check_rows(self, adds: RecordBatch, unproved_files: Sequence[_UnprovedFiles]) -> None:
        """Read the rows of files, evaluate the constraints, and add the results to `violations`.

        Args:
            adds: Add actions of the files.
            unproved_files: For each constraint, the files of `adds` to check.
        """
        paths = adds.column("path").to_pylist()

        # Some constraints cannot be evaluated by deltacli, for example because they call an unknown
        # function.
        evaluable = []
        for unproved in unproved_files:
            reason = self._explain_not_evaluable(unproved.constraint)
            if reason is None:
                evaluable.append(unproved)
                continue
            for path, is_unproved in zip(paths, unproved.is_unproved, strict=True):
                if is_unproved:
                    self.violations[unproved.constraint].add_unchecked_file(path, reason)
        if not evaluable:
            return

        # Each file is read once for all constraints.
        table = self._table
        facts_of_files = table.engine.run_tasks(
            ReadRows(),
            self._build_row_pieces(adds),
            table.stores,
            shared={CHECKS: self._row_checks},
            weigh=weigh_row_piece,
        )
        for facts in facts_of_files:
            for unproved in evaluable:
                if unproved.is_unproved[facts.row]:
                    constraint = unproved.constraint
                    _add_results(self.violations[constraint], constraint, facts, paths[facts.row])

    def _explain_not_evaluable(self, constraint: RowConstraint) -> str | None:
        """Return why a constraint cannot be evaluated on rows, or None if it can."""
        not_evaluated: Mapping[str | StoredSql, str] = self._row_checks.readable.memory.get(NOT_EVALUATED_MEMORY, {})
        if not isinstance(constraint.owner, StoredSql):
            unread_column = self._unread_columns.get(constraint.columns[0])
            if unread_column is not None:
                return f"{UNREADABLE_ROWS}: column {unread_column.name} has type {unread_column.type}"
        if constraint.owner in not_evaluated:
            return f"it cannot be evaluated, because {not_evaluated[constraint.owner]}"
        return None

    def _build_row_pieces(self, adds: RecordBatch) -> Iterator[RowPiece]:
        """Yield the tasks that read the files of `adds`, one per file, in their order."""
        table = self._table
        uris = (table.storage.uri, *table.storage.aliases)

        # Data files and files of deletion vectors are listed once, instead of one request for each
        # of them.
        records = extract_num_records_column(adds.column("stats"))
        needed = build_needed_files(
            uris, adds.column("path"), adds.column("size"), records, adds.column("deletionVector")
        )
        located = locate_files(table.storage, needed, table.engine, SILENT)
        names = map(decode_path_bytes, located.needed.files["path"].to_pylist())
        sizes = {name: size for name, size in zip(names, located.sizes.to_pylist(), strict=True) if size is not None}

        files = table.files()
        listing = FilesInListing(files, sizes)
        checked_columns = adds.select([*CHECKED_ADD_FIELDS, "partitionValues"])
        for row, add in enumerate(checked_columns.to_pylist()):
            vector_piece = None
            if add["deletionVector"] is not None:
                descriptor = {name: value for name, value in add["deletionVector"].items() if value is not None}
                vector_path = find_vector_file(files, descriptor)
                vector_sizes = ((vector_path, sizes[vector_path]),) if vector_path in sizes else ()
                vector_piece = VectorPiece(((row, descriptor),), vector_sizes)
            yield RowPiece(
                row,
                listing.find(add["path"]),
                add["size"],
                tuple(add["partitionValues"] or ()),
                add["stats"],
                add["baseRowId"],
                vector_piece,
            )


def _parse_predicate(constraint: RowConstraint, config: TableConfiguration) -> Predicate | None:
    """Parse the condition of a constraint as a predicate on partition values and statistics.

    Returns:
        The predicate, or None if the condition uses SQL that predicates do not support.
    """
    if constraint.condition is None:
        return None
    # Null counts can be compared for any type. Partition values have to be parsed, which some types
    # do not allow.
    has_partition_columns = bool(_find_partition_columns(config) & {*constraint.columns})
    find_unread_type = find_unsupported_type if has_partition_columns else lambda _: None
    try:
        return parse_predicate(constraint.condition, config.schema or StructType(()), find_unread_type)
    except UsageError:
        return None


def _depends_on_time_zone(constraint: RowConstraint, config: TableConfiguration) -> bool:
    """Return True if the result of a condition may depend on the session time zone, as `hour(ts) < 12` does."""
    if isinstance(constraint.owner, str) or constraint.condition is None:
        return False
    try:
        return translate_condition(constraint.condition, config.schema or StructType(())).assumes_utc
    except NotTranslated:
        return True


def _add_results(violations: ConstraintViolations, constraint: RowConstraint, facts: FileFacts, path: str) -> None:
    """Add the results of reading one file to the violations of one constraint.

    Args:
        violations: The violations to extend.
        constraint: The constraint.
        facts: The results of all row checks of the file.
        path: Path of the file as written in the log.
    """
    # Without answers, the data file or its deletion vector is missing or damaged.
    if not facts.answers:
        reason = UNREADABLE_ROWS
        if facts.fault is not None:
            reason = f"{UNREADABLE_ROWS}: {facts.fault.message}"
        violations.add_unchecked_file(path, reason)
        return

    if isinstance(constraint.owner, str):
        null_counts: Mapping[str, int] = facts.answers.get(NULLS) or {}
        if constraint.owner in null_counts:
            violations.add_file(path, null_counts[constraint.owner])
        return

    answers: Sequence[Violations] = facts.answers.get(CONDITIONS) or ()
    for answer in answers:
        if answer.stored != constraint.owner:
            continue
        if answer.rows:
            violations.add_file(path, answer.rows, answer.first)
        if answer.fault is not None:
            reason = f"it cannot be evaluated for {plural(answer.unjudged, 'row')}: {answer.fault}"
            violations.add_unchecked_file(path, reason)
