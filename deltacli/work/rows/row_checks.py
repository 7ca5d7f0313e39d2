"""The checks of the rows of data files at level `data`, and how the rows are read for them.

Rows are read as in a scan, but every column may be null: unexpected nulls are reported by checks instead of failing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.rows.nulls import NullCounts, demands_of
from deltacli.delta.rules.expressions.row_values import CONDITIONS, NOT_EVALUATED_MEMORY, NULLS
from deltacli.delta.rules.statistics.files import STATISTICS
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import ArrayType, DataType, MapType, StructField, StructType
from deltacli.typing import ArrowSchema
from deltacli.work.file_facts import FileFacts, OpenFileContext, RowCheck, RowCheckFactory
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.optional_row_checks import OptionalRowChecks
from deltacli.work.rows.row_conditions import StoredConditions
from deltacli.work.rows.statistics_check import statistics_check


@dataclass
class RowChecks:
    """The columns to read and the questions by name."""

    config: TableConfiguration
    columns: tuple[StructField, ...]
    """The columns of the table."""
    more: OptionalRowChecks
    questions: dict[str, RowCheckFactory] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)  # Any: additional input of checks
    constants: dict[Any, dict[str, Any]] = field(default_factory=dict)
    """Partition values as in the log -> parsed. Any: pairs of texts, and Arrow scalars."""

    @property
    def wanted(self) -> ReadSpec:
        """The columns read of every file: `columns`, and additional ones of some questions."""
        return self.more.wanted

    @classmethod
    def make(cls, config: TableConfiguration) -> RowChecks:
        """Select the questions for tables of a configuration. Raises what its schema raises where Arrow has no type."""
        fields = config.schema.fields if config.schema else ()
        columns = tuple(without_demands(column) for column in fields)
        schema = arrow_schema(columns)
        wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
        more = OptionalRowChecks.make(config, wanted)
        checks = cls(config, columns, more, {STATISTICS: statistics_check(config), **more.questions})
        checks._ask_about_nulls()
        checks._ask_about_conditions()
        return checks

    def _ask_about_nulls(self) -> None:
        fields = self.config.schema.fields if self.config.schema else ()
        stored = [field for field in fields if self.config.physical_name(field) not in self.config.partition_columns]
        demands = demands_of(stored)
        if not demands:
            return

        def begin(file: OpenFileContext) -> RowCheck | None:
            columns = self.wanted.file_columns
            there = [demand for demand in demands if _may_be_there(columns, file.stored, demand.above_lists)]
            return NullCounts(there) if there else None

        self.questions[NULLS] = begin

    def _ask_about_conditions(self) -> None:
        conditions = StoredConditions(self.config)
        self.memory[NOT_EVALUATED_MEMORY] = conditions.not_evaluated
        if not conditions.is_empty:
            self.questions[CONDITIONS] = conditions.begin

    def settled(self, facts: FileFacts) -> FileFacts:
        """Return the answers about the next file, compared with earlier files."""
        return facts._replace(answers=self.more.reconcile(facts.answers))


@dataclass(frozen=True)
class ChecksOfTable:
    """The checks of the rows of a table, described by its configuration: another process makes them once."""

    config: TableConfiguration

    @cached_property
    def checks(self) -> RowChecks:
        """The checks. Raises what `RowChecks.make` raises."""
        return RowChecks.make(self.config)

    def __reduce__(self) -> tuple[type[ChecksOfTable], tuple[TableConfiguration]]:
        return ChecksOfTable, (self.config,)


def _may_be_there(columns: FileColumns, stored: ArrowSchema, fields: tuple[StructField, ...]) -> bool:
    """Return True if a file has a field or a field around it; other rules report missing ones."""
    return any(columns.leaf(stored, fields[:length]) is not None for length in range(len(fields), 0, -1))


def repeated_name(fields: Sequence[StructField]) -> str | None:
    """Return a name that two fields of one struct share, at any depth; None if there is none."""
    seen: set[str] = set()
    for column in fields:
        if column.name in seen:
            return column.name
        seen.add(column.name)
        if (name := _repeated_in(column.data_type)) is not None:
            return name
    return None


def _repeated_in(kind: DataType) -> str | None:
    match kind:
        case StructType(fields):
            return repeated_name(fields)
        case ArrayType(element):
            return _repeated_in(element)
        case MapType(key, value):
            return _repeated_in(key) or _repeated_in(value)
    return None


def without_demands(column: StructField) -> StructField:
    """Return the same column, nullable at every depth."""
    return StructField(column.name, _without_demands(column.data_type), True, column.metadata)


def _without_demands(kind: DataType) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(tuple(without_demands(field) for field in fields))
        case ArrayType(element):
            return ArrayType(_without_demands(element), True)
        case MapType(key, value):
            return MapType(_without_demands(key), _without_demands(value), True)
    return kind
