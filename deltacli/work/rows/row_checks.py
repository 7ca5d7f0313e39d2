"""Choose and run the checks at level `data` on the rows of data files, one file at a time.

Rows are read as in a scan, but every column may be null: unexpected nulls are reported by checks instead of failing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deltacli.core.errors import DataUnreadable, FileMissing, PathExternal, StorageFailed, Unreadable, UsageError
from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowScalar, ArrowSchema
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import constants_of
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import build_arrow_schema, with_read_columns
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructField, StructType
from deltacli.rules.expressions.row_values import CONDITIONS, NOT_EVALUATED_MEMORY, NULLS
from deltacli.rules.framework.data_file_views import FileFault
from deltacli.rules.statistics.compared import STATISTICS
from deltacli.work.facts import footer_files, row_facts, vector_facts
from deltacli.work.rows.claimed_statistics import ClaimedStatistics
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.null_check import NullCounts, find_not_null_places
from deltacli.work.rows.optional_row_checks import OptionalRowChecks
from deltacli.work.rows.row_conditions import StoredConditions
from deltacli.work.task import TaskContext

CHECKS = "checks"
"""The name of the shared `ChecksOfTable`."""
_MOST_KNOWN = 1 << 12
"""Maximum number of partitions whose parsed values are kept."""
_BESIDE_ROWS = 64 << 10
"""Bytes of rows that take as long as opening a file."""


class RowPiece(NamedTuple):
    """One file, with what the checks need of its add. A file is opened once, so it is never split.

    Attributes:
        row: Its row in the view of live adds.
        file: Its path, and its size by the listing.
        bytes_in_log: Its size by its add.
        partition_values: Its partition values, as in the log.
        stats: Its statistics, as in the log.
        base_row_id: Its base row id, as in the log.
        vector: Its deletion vector; None without one.
        is_vector_unusable: Whether only the footer is read, because the live rows are unknown.
    """

    row: int
    file: footer_files.ListedFile
    bytes_in_log: int | None
    partition_values: tuple[tuple[str, str | None], ...] | None
    stats: str | None
    base_row_id: int | None
    vector: vector_facts.VectorPiece | None = None
    is_vector_unusable: bool = False

    @property
    def add(self) -> Mapping[str, Any]:  # Any: values of the columns
        """The columns of the add that questions use."""
        values = None if self.partition_values is None else dict(self.partition_values)
        return {"path": self.file.path, "partitionValues": values, "stats": self.stats, "baseRowId": self.base_row_id}


def weigh_row_piece(piece: RowPiece) -> int:
    """Return the cost of a piece: the bytes of the file, and as many again as opening it costs."""
    return _BESIDE_ROWS + max(piece.bytes_in_log or 0, 0)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads the rows of a file for the shared `ChecksOfTable`."""

    def __call__(self, piece: RowPiece, context: TaskContext) -> row_facts.FileFacts:
        """Return the facts about the file. Whatever prevents reading it is one of them."""
        path = piece.file.path
        footers = footer_files.FooterFiles(context)
        of_table: ChecksOfTable = context.shared(CHECKS)
        if context.files.is_refused(path):
            return row_facts.FileFacts(piece.row, None, footer_files.REFUSED)
        try:
            if footers.place(piece.file) is None:
                return row_facts.FileFacts(piece.row, None)
            constants = _parse_constants(piece, of_table.checks)
        except DataUnreadable:  # its partition values are reported by other rules
            return row_facts.FileFacts(piece.row, *footers.read([piece.file])[0], is_unread=True)
        except FileMissing:
            return row_facts.FileFacts(
                piece.row, None, FileFault("data.file-missing", f"{path} not found", "no such file")
            )
        except PathExternal as refusal:
            return row_facts.FileFacts(piece.row, None, footer_files.make_refused_fault(context.files, path, refusal))
        except (StorageFailed, UsageError) as fault:
            return row_facts.FileFacts(piece.row, None, footer_files.make_unreadable_fault(path, fault))
        return _read_with_checks(piece, constants, of_table.checks, context)


def _read_with_checks(
    piece: RowPiece, constants: Mapping[str, ArrowScalar], checks: RowChecks, context: TaskContext
) -> row_facts.FileFacts:
    # The live rows of a file whose vector cannot be read are unknown, so nothing is said about its rows.
    vector = None
    deleted = None
    if piece.vector is not None:
        deleted = None if piece.is_vector_unusable else vector_facts.load_deleted_rows(piece.vector, context)
        if deleted is None:
            return row_facts.FileFacts(piece.row, *footer_files.FooterFiles(context).read([piece.file])[0])
        vector = piece.vector.vectors[0][1]
    data_file = DataFile(piece.file.path, piece.bytes_in_log, constants, vector, deleted=deleted)
    pool = context.stores.get_shared_instance(footer_files.FooterPool)
    return row_facts.read_file_facts(
        context.files, checks.wanted, piece.row, piece.add, data_file, checks.questions, pool
    )


def _parse_constants(piece: RowPiece, checks: RowChecks) -> dict[str, ArrowScalar]:
    """Return the partition values of a file by logical name. Raises DataUnreadable (`partition.*`)."""
    known = checks.constants
    parsed = known.get(piece.partition_values)
    if parsed is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        parsed = known[piece.partition_values] = constants_of(piece.partition_values, checks.config, piece.file.path)
    return parsed


@dataclass
class RowChecks:
    """The columns to read and the questions by name."""

    config: TableConfiguration
    columns: tuple[StructField, ...]
    """The columns of the table."""
    more: OptionalRowChecks
    questions: dict[str, row_facts.RowCheckFactory] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)  # Any: additional input of checks
    constants: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """Partition values as in the log -> parsed. Any: pairs of texts, and Arrow scalars."""

    @property
    def wanted(self) -> ReadSpec:
        """The columns read of every file: `columns`, and additional ones of some questions."""
        return self.more.wanted

    @classmethod
    def make(cls, config: TableConfiguration, *, demands_only: bool = False, zone: str | None = None) -> RowChecks:
        """Select the questions for tables of a configuration. With `demands_only` they are those about nulls and
        conditions, of files without the column, too. Columns of types that are not read are left out.
        """
        conditions = StoredConditions(config, zone)
        config = with_read_columns(config)
        fields = config.schema.fields if config.schema else ()
        columns = tuple(make_nullable(column) for column in fields)
        schema = build_arrow_schema(columns)
        wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
        if demands_only:
            checks = cls(config, columns, OptionalRowChecks(wanted))
        else:
            more = OptionalRowChecks.make(config, wanted)
            checks = cls(config, columns, more, {STATISTICS: ClaimedStatistics(config).ask, **more.questions})
        checks._ask_about_nulls(also_absent=demands_only)
        checks._ask_about_conditions(conditions)
        return checks

    def _ask_about_nulls(self, *, also_absent: bool) -> None:
        fields = self.config.schema.fields if self.config.schema else ()
        stored = [field for field in fields if self.config.physical_name(field) not in self.config.partition_columns]
        demands = find_not_null_places(stored)
        if not demands:
            return

        def begin(file: row_facts.OpenFileContext) -> row_facts.RowCheck | None:
            columns = self.wanted.file_columns
            present_demands = [
                demand for demand in demands if also_absent or _may_contain(columns, file.stored, demand.above_lists)
            ]
            return NullCounts(present_demands) if present_demands else None

        self.questions[NULLS] = begin

    def _ask_about_conditions(self, conditions: StoredConditions) -> None:
        self.memory[NOT_EVALUATED_MEMORY] = conditions.not_evaluated
        if not conditions.is_empty:
            self.questions[CONDITIONS] = conditions.begin

    def reconcile_with_earlier_files(self, facts: row_facts.FileFacts) -> row_facts.FileFacts:
        """Return the answers about the next file, compared with earlier files."""
        return facts._replace(answers=self.more.reconcile(facts.answers))


@dataclass(frozen=True)
class ChecksOfTable:
    """The checks of the rows of a table, described by its configuration: another process makes them once."""

    config: TableConfiguration
    demands_only: bool = False
    zone: str | None = None
    """The time zone of conditions that depend on that of a session; None: UTC."""

    @cached_property
    def checks(self) -> RowChecks:
        """The checks. Raises what `RowChecks.make` raises."""
        return RowChecks.make(self.config, demands_only=self.demands_only, zone=self.zone)

    @cached_property
    def readable(self) -> RowChecks:
        """The checks. Raises Unreadable where the schema prevents reading rows."""
        schema = self.config.schema
        if (twice := find_repeated_name(schema.fields if schema else ())) is not None:
            raise Unreadable(f"the schema has two columns {twice}")
        return self.checks

    @property
    def are_possible(self) -> bool:
        """True if rows can be read."""
        try:
            return self.config.schema is not None and self.readable is not None
        except Unreadable:
            return False

    def __reduce__(self) -> tuple[type[ChecksOfTable], tuple[TableConfiguration, bool, str | None]]:
        return ChecksOfTable, (self.config, self.demands_only, self.zone)


def _may_contain(columns: FileColumns, stored: ArrowSchema, fields: tuple[StructField, ...]) -> bool:
    """Return True if a file has a field or a field around it; other rules report missing ones."""
    return any(columns.leaf(stored, fields[:length]) is not None for length in range(len(fields), 0, -1))


def find_repeated_name(fields: Sequence[StructField]) -> str | None:
    """Return a name that two fields of one struct share, at any depth; None if there is none."""
    seen: set[str] = set()
    for column in fields:
        if column.name in seen:
            return column.name
        seen.add(column.name)
        if (name := _find_repeated_in_type(column.data_type)) is not None:
            return name
    return None


def _find_repeated_in_type(kind: DataType) -> str | None:
    match kind:
        case StructType(fields):
            return find_repeated_name(fields)
        case ArrayType(element):
            return _find_repeated_in_type(element)
        case MapType(key, value):
            return _find_repeated_in_type(key) or _find_repeated_in_type(value)
    return None


def make_nullable(column: StructField) -> StructField:
    """Return the same column, nullable at every depth."""
    return StructField(column.name, _make_type_nullable(column.data_type), True, column.metadata)


def _make_type_nullable(kind: DataType) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(tuple(make_nullable(field) for field in fields))
        case ArrayType(element):
            return ArrayType(_make_type_nullable(element), True)
        case MapType(key, value):
            return MapType(_make_type_nullable(key), _make_type_nullable(value), True)
    return kind
