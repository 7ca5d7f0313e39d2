"""Resolve the columns and the condition of a scan against the schema of a version.

Three sets of columns result: the columns to return, the columns that only the condition uses, and the
columns that cannot be read because deltacli does not support their type. `SELECT *` leaves out the
unsupported columns; naming one of them is an error.

Spec: Data Files; Column Mapping; Row Tracking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deltacli.core.command_calls import DoubleQuoted
from deltacli.core.errors import Refused, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.texts import summarize_names
from deltacli.delta.log.row_ids import ENABLED, FEATURE, MATERIALIZED_NAMES
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.column_path import find_nearest_column
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import (
    UnreadColumn,
    build_arrow_schema,
    drop_unsupported_columns,
    find_unsupported_columns,
    unsupported_columns_error,
)
from deltacli.delta.schema.types import NameIndex, StructField, StructType, get_recorded_physical_name
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.work.rows.data_files import ReadSpec, make_row_id_fields

if TYPE_CHECKING:
    from deltacli.delta.predicate import Predicate
    from deltacli.table.handle import TableHandle

ROW_ID = "_row_id"
ROW_COMMIT_VERSION = "_row_commit_version"
NOT_ENABLED = "rowtracking.not-enabled"
_MAX_NAMES = 20
"""Number of column names that an error message lists."""


class VersionWithSchema(Protocol):
    """The version whose columns are selected.

    `Snapshot` implements this. It cannot be imported here, because it imports the scan.
    """

    @property
    def table(self) -> TableHandle: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def config(self) -> TableConfiguration: ...


def find_row_id_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns of row ids and row commit versions.

    The table properties contain the names that these columns have in data files.

    Returns:
        The columns `_row_id` and `_row_commit_version`; empty if row tracking is not enabled.
    """
    id_name, version_name = (config.properties.get(key) for key in MATERIALIZED_NAMES)
    is_enabled = FEATURE in config.features and config.is_on(ENABLED)
    if not is_enabled or not id_name or not version_name:
        return ()
    return make_row_id_fields((ROW_ID, ROW_COMMIT_VERSION), (id_name, version_name))


def require_row_ids(snapshot: VersionWithSchema) -> tuple[StructField, ...]:
    """Return the columns of row ids of a version, and check that they can be read.

    Raises:
        Refused: `rowtracking.not-enabled`, if row tracking is not enabled, or a share does not send row ids.
        UsageError: If a column of the table is called `_row_id` or `_row_commit_version`.
        Unreadable: If another column has the same name in data files as the row ids.
    """
    columns = find_row_id_columns(snapshot.config)
    # A share may be of a table with row tracking whose server does not send the properties.
    if not columns and is_shared_table(snapshot.table.storage):
        raise Refused(
            "the server of the share does not send the ids of rows",
            code=NOT_ENABLED,
            hint="ask the provider of the share to enable row tracking, and to send the delta format",
        )
    if not columns:
        raise Refused(
            f"version {snapshot.version} has no row tracking, so its rows have no ids",
            code=NOT_ENABLED,
            facts={"note": "versions before the one that enables row tracking never get ids"},
            hint=command("properties set", {ENABLED: "true"}, upgrade_protocol=True),
        )
    _require_distinct_names(snapshot, columns)

    names = {column.name for column in columns}
    same_names = [column.name for column in snapshot.schema.fields if column.name.lower() in names]
    if same_names:
        raise UsageError(
            f"the column {same_names[0]} of the table has the name of a column of row ids",
            code="usage.column",
            hint=command("alter", "rename", same_names[0], "NAME"),
        )
    return columns


def _require_distinct_names(snapshot: VersionWithSchema, row_id_columns: Sequence[StructField]) -> None:
    """Check that no column has the same name in data files as a column of row ids.

    Columns of data files are looked up ignoring case. The values of the other column would be returned as
    row ids.

    Raises:
        Unreadable: `rowtracking.column-names`.
    """
    stored_names = [get_recorded_physical_name(column) for column in row_id_columns]
    physical_names = map(snapshot.config.physical_name, snapshot.schema.fields)
    counts = Counter(name.lower() for name in (*stored_names, *physical_names))
    ambiguous = [name for name in stored_names if counts[name.lower()] > 1]
    if ambiguous:
        raise Unreadable(
            f"the column {ambiguous[0]} of data files is to hold the ids of rows, but also other values",
            code="rowtracking.column-names",
            hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
        )


class Selection(NamedTuple):
    """The columns and rows of a scan, resolved against a schema.

    Attributes:
        columns: The columns to return.
        needed: The columns to read: those to return, followed by those that only the condition uses.
            Columns of row ids are last.
        predicate: The parsed condition; None for all rows.
        left_out: Columns of unsupported types. Empty if the columns were selected by name.
        row_ids: The columns of row ids; empty if they were not requested.
    """

    columns: tuple[StructField, ...]
    needed: tuple[StructField, ...]
    predicate: Predicate | None
    left_out: tuple[UnreadColumn, ...] = ()
    row_ids: tuple[StructField, ...] = ()

    @classmethod
    def resolve(
        cls,
        schema: StructType,
        columns: Sequence[str] | None,
        where: str | None,
        *,
        extra_columns: Sequence[StructField] = (),
        row_ids: tuple[StructField, ...] = (),
    ) -> Selection:
        """Look up column names and parse the condition.

        Args:
            schema: The schema of the table.
            columns: The names of the columns to return, in this order. None for all columns.
            where: The condition in SQL. None for all rows.
            extra_columns: Columns that are not part of the table, such as `_change_type`. They are always
                returned: where `columns` names them, else after the columns of the table.
            row_ids: The columns of row ids. They are always returned, in the same order as extra columns.
                In `needed` they are last, because they are read by other rules than columns of the table.

        Raises:
            UsageError: `usage.column`, if a column does not exist; `usage.where`, if the condition is
                invalid.
            Refused: `type.unsupported`, if the type of a named column, or of all columns, is not supported.
        """
        if not extra_columns and not row_ids:
            return cls._resolve_in_schema(schema, columns, where)

        # Extra columns are added to the schema, so that the condition may use them.
        extended_schema = StructType((*schema.fields, *extra_columns, *row_ids))
        if columns is not None:
            unnamed = [column.name for column in (*extra_columns, *row_ids) if column.name not in columns]
            columns = [*columns, *unnamed]
        selection = cls._resolve_in_schema(extended_schema, columns, where)
        if not row_ids:
            return selection

        table_columns = [column for column in selection.needed if column not in row_ids]
        needed_row_ids = [column for column in selection.needed if column in row_ids]
        return selection._replace(needed=(*table_columns, *needed_row_ids), row_ids=row_ids)

    @classmethod
    def _resolve_in_schema(cls, schema: StructType, columns: Sequence[str] | None, where: str | None) -> Selection:
        """Look up column names and parse the condition, as `resolve` does, without extra columns."""
        selected = schema.fields if columns is None else _find_columns(schema, columns)

        # All columns means all readable columns. A column that is selected by name must not be left out
        # silently.
        left_out = find_unsupported_columns(selected)
        if left_out:
            selected = drop_unsupported_columns(selected)
            if columns is not None or not selected:
                raise unsupported_columns_error(left_out, drop_unsupported_columns(schema.fields))
        if not selected and columns is not None:
            raise UsageError(
                "the list of columns is empty", code="usage.column", facts={"columns": _summarize_columns(schema)}
            )
        repeated_name = _find_repeated_name(selected)
        if repeated_name:
            raise UsageError(f"column {repeated_name} is named twice", code="usage.column")
        if where is None:
            return cls(selected, selected, None, left_out)

        # Imported here because reading all rows does not need the parser.
        from deltacli.delta.predicate import parse_predicate

        # The condition may use columns that are not returned. They are read, too.
        predicate = parse_predicate(where, schema)
        returned_names = {column.name for column in selected}
        other_names = {path[0] for path in predicate.columns} - returned_names
        condition_columns = [column for column in schema.fields if column.name in other_names]
        return cls(selected, (*selected, *condition_columns), predicate, left_out)

    def make_read_spec(self, config: TableConfiguration) -> ReadSpec:
        """Build the specification for reading data files.

        Args:
            config: The configuration of the table, which contains the column mapping.
        """
        schema = build_arrow_schema(self.columns)
        needed_schema = schema if self.needed == self.columns else build_arrow_schema(self.needed)
        file_columns = FileColumns(config.mapping_mode, config.physical_name, config)
        # Columns of row ids are found by their names even if the table uses column mapping by id.
        row_id_columns = {column.name: FileColumns("none", get_recorded_physical_name) for column in self.row_ids}
        row_ids = (ROW_ID, ROW_COMMIT_VERSION) if self.row_ids else None
        return ReadSpec(self.needed, schema, needed_schema, file_columns, self.predicate, row_id_columns, row_ids)


def _find_columns(schema: StructType, names: Sequence[str]) -> tuple[StructField, ...]:
    """Look up top-level columns by name.

    Raises:
        UsageError: `usage.column`, if a column does not exist.
    """
    index = NameIndex(column.name for column in schema.fields)
    return tuple(_find_column(schema, index, name) for name in names)


def _find_column(schema: StructType, index: NameIndex, name: str) -> StructField:
    """Look up a top-level column by name. An exact match takes precedence over one that ignores case.

    Raises:
        UsageError: `usage.column`, if the column does not exist. The error suggests the most similar name.
    """
    positions = index.places_of(name)
    if len(positions) == 1:
        return schema.fields[positions[0]]

    hint = command("snapshot", schema=True)
    nearest = find_nearest_column(schema, name.split("."))
    if nearest is None:
        facts = {"columns": _summarize_columns(schema)}
        raise UsageError(f"the table has no column {name}", code="usage.column", facts=facts, hint=hint)

    # Names such as `address.city` are nested fields. Only whole columns can be selected.
    reason = ""
    if len(nearest.steps) > 1:
        field = "it" if nearest.text == name else nearest.text
        reason = f": {field} is a field, and only whole columns can be read"
    error = UsageError(f"the table has no column {name}{reason}", code="usage.column", hint=hint)
    raise error.suggest_as_fact(name, nearest.column.name)


def _find_repeated_name(columns: Iterable[StructField]) -> str | None:
    counts = Counter(column.name for column in columns)
    return next((name for name, count in counts.items() if count > 1), None)


def _summarize_columns(schema: StructType) -> str:
    return summarize_names([column.name for column in schema.fields], _MAX_NAMES)
