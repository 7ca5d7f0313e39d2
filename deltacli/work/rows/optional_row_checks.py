"""Choose the row checks that only some tables need, and the columns that they read in addition.

The additional columns are read together with the table's columns, under unused names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import WHOLE_BITS, DataType, PrimitiveType, StructField
from deltacli.rules.actions.row_contents import ROW_ID_QUESTION
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES, is_enabled
from deltacli.rules.expressions import row_values
from deltacli.rules.files.int96_times import INT96_QUESTION
from deltacli.rules.files.nan_bounds import NAN_BOUNDS_QUESTION
from deltacli.rules.partitions.contents import PARTITION_QUESTION, are_materialised
from deltacli.work.facts.row_facts import RowCheckFactory
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.identity_check import IdentityLedger, make_identity_check
from deltacli.work.rows.int96_times import Int96Check, find_timestamp_columns
from deltacli.work.rows.nan_bounds import find_float_fields
from deltacli.work.rows.nan_bounds_check import NanBoundsCheck
from deltacli.work.rows.partition_check import PartitionCheck
from deltacli.work.rows.row_id_check import RowIdCheck, RowIdLedger

_ROW_ID_COLUMN = COLUMN_PROPERTIES[0]


@dataclass
class OptionalRowChecks:
    """The additional columns, and the questions by name. `reconcile` compares a file's answers with earlier files'."""

    wanted: ReadSpec
    questions: dict[str, RowCheckFactory] = field(default_factory=dict)
    row_ids: RowIdLedger = field(default_factory=RowIdLedger)
    identities: IdentityLedger = field(default_factory=IdentityLedger)
    too_far: list[str] = field(default_factory=list)
    """Identity columns whose steps cannot be counted."""

    @classmethod
    def make(cls, config: TableConfiguration, wanted: ReadSpec) -> OptionalRowChecks:
        """Select the questions for tables of a configuration, whose columns are read as `wanted`."""
        names = _FreeNames({column.name for column in wanted.columns})
        partitions = _choose_partition_columns(config, names)
        stored = _choose_row_id_column(config, names)
        beside = {second.name: _make_finder(config, physical, second.name) for _, physical, second in partitions}
        if stored is not None:
            beside[stored.name] = FileColumns("none", lambda _: str(config.properties[_ROW_ID_COLUMN]))
        if beside:
            more = (*(second for _, _, second in partitions), *([stored] if stored is not None else []))
            columns = (*wanted.columns, *more)
            schema = build_arrow_schema(columns)
            wanted = replace(wanted, columns=columns, schema=schema, full_schema=schema, extra_columns=beside)
        if stored is not None:
            name = names.take("row number")
            wanted = replace(wanted, schema=wanted.schema.append(pa.field(name, pa.int64())), row_numbers=name)
        checks = cls(wanted)
        if partitions:
            checks.questions[PARTITION_QUESTION] = PartitionCheck(
                wanted, partitions, reports_types=not are_materialised(config)
            )
        if stored is not None:
            checks.questions[ROW_ID_QUESTION] = RowIdCheck(wanted, stored)
        if (identity := make_identity_check(config)) is not None:
            checks.questions[row_values.IDENTITIES] = identity
        columns_in_file = FileColumns(config.mapping_mode, config.physical_name)
        if timestamp_columns := find_timestamp_columns(config):
            checks.questions[INT96_QUESTION] = Int96Check(timestamp_columns, columns_in_file)
        if float_fields := find_float_fields(config):
            checks.questions[NAN_BOUNDS_QUESTION] = NanBoundsCheck(tuple(float_fields), columns_in_file)
        checks.too_far = [each.name for each in row_values.identities(config) if not each.is_judged]
        return checks

    def reconcile(
        self, answers: Mapping[str, Any]
    ) -> Mapping[str, Any]:  # Any: the answers to each question about a file
        """Return the answers about the next file, given those about earlier files."""
        ledgers: dict[str, Callable[[Any], Any]] = {
            ROW_ID_QUESTION: self.row_ids.reconcile,
            row_values.IDENTITIES: self.identities.reconcile,
        }
        settled = {name: reconcile(answers[name]) for name, reconcile in ledgers.items() if name in answers}
        return {**answers, **settled} if settled else answers

    def not_checked(self) -> Iterator[str]:
        """Report the checks that would need too much memory."""
        if self.row_ids.is_full:
            yield "whether all row ids are different, because their range is too large"
        for name in self.too_far:
            yield f"the values of the identity column {name}: its start or its step is 2^62 or more"
        for name in self.identities.full:
            yield f"whether all values of the identity column {name} are different, because their range is too large"


class _FreeNames:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def take(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def _choose_partition_columns(
    config: TableConfiguration, names: _FreeNames
) -> list[tuple[StructField, str, StructField]]:
    """Return each partition column, its physical name, and the field to read from files that contain it."""
    return [
        (
            column,
            physical,
            StructField(
                names.take(f"{column.name} in the file"), _choose_type_in_file(config, column), True, column.metadata
            ),
        )
        for physical, column in config.partition_columns.items()
        if column is not None
    ]


def _choose_type_in_file(config: TableConfiguration, column: StructField) -> DataType:
    """Return the type as which a partition column is read from files.

    Files that need not have it are of any writer, such as Hive, and may have whole numbers of another size.
    """
    is_whole = isinstance(column.data_type, PrimitiveType) and column.data_type.name in WHOLE_BITS
    return PrimitiveType("long") if is_whole and not are_materialised(config) else column.data_type


def _choose_row_id_column(config: TableConfiguration, names: _FreeNames) -> StructField | None:
    if not is_enabled(config) or not config.properties.get(_ROW_ID_COLUMN):
        return None
    return StructField(names.take("row id in the file"), PrimitiveType("long"), True, {})


def _make_finder(config: TableConfiguration, physical_name: str, name: str) -> FileColumns:
    """Return the field that finds a partition column in files like other columns."""
    return FileColumns(
        config.mapping_mode, lambda field: physical_name if field.name == name else config.physical_name(field)
    )
