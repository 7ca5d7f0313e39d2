"""Choose the columns of a version that are read, and the condition that rows have to meet.

Three sets of columns are told apart: those that are returned, those that the condition needs in addition,
and those that are left out because no reader here knows their type. A column that is left out is an error
only if somebody asked for it by name.

Spec: Data Files; Column Mapping; Row Tracking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deltacli.core.errors import Refused, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.spelling import DoubleQuoted
from deltacli.core.texts import summarize_names
from deltacli.delta.log.row_ids import ENABLED, FEATURE, MATERIALIZED_NAMES
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.column_path import nearest_place
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import (
    Judge,
    UnreadColumn,
    arrow_schema,
    read_columns,
    unread_columns,
    unread_type,
    unsupported,
)
from deltacli.delta.schema.types import NameIndex, StructField, StructType, recorded_name
from deltacli.storage.optional_interfaces import SharedTableStore
from deltacli.work.rows.data_files import ReadSpec, row_id_fields

if TYPE_CHECKING:
    from deltacli.delta.predicate import Predicate
    from deltacli.table.handle import TableHandle

ROW_ID = "_row_id"
ROW_COMMIT_VERSION = "_row_commit_version"
NOT_ENABLED = "rowtracking.not-enabled"
_MOST_NAMES = 20
"""Columns that an error names."""


class VersionWithSchema(Protocol):
    """The version whose columns are chosen: `Snapshot`, which cannot be imported here because it uses the scan."""

    @property
    def table(self) -> TableHandle: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def config(self) -> TableConfiguration: ...


def find_row_id_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns of ids and commit versions of rows, with their names in data files.

    Returns:
        Two columns; none without row tracking.
    """
    id_name, version_name = (config.properties.get(key) for key in MATERIALIZED_NAMES)
    is_enabled = FEATURE in config.features and config.is_on(ENABLED)
    if not is_enabled or not id_name or not version_name:
        return ()
    return row_id_fields((ROW_ID, ROW_COMMIT_VERSION), (id_name, version_name))


def require_row_ids(snapshot: VersionWithSchema) -> tuple[StructField, ...]:
    """Return the columns of row ids of a version.

    Raises:
        Refused: `rowtracking.not-enabled`, if its rows need not have ids, or a share does not send them.
        UsageError: If a column of the table has the name of one of them.
        Unreadable: If the values of another column would be taken for ids.
    """
    columns = find_row_id_columns(snapshot.config)
    # For a share the answer is not in the table: its server decides what it sends.
    if not columns and isinstance(snapshot.table.storage, SharedTableStore):
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
    """Raise Unreadable if a column of the table has the same name in data files as one of the row ids.

    Columns are found in files ignoring case, so the values of the other column would be taken for ids.
    """
    stored_names = [recorded_name(column) for column in row_id_columns]
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
    """The columns and rows to read under one schema.

    Attributes:
        columns: The columns that are returned.
        needed: The returned columns, and then those that only the condition uses.
        predicate: The condition; None for all rows.
        left_out: Columns that nobody asked for by name and that are not read because of their types.
        row_ids: The columns of row ids, which are last among those needed.
    """

    columns: tuple[StructField, ...]
    needed: tuple[StructField, ...]
    predicate: Predicate | None
    left_out: tuple[UnreadColumn, ...] = ()
    row_ids: tuple[StructField, ...] = ()

    @classmethod
    def make(
        cls,
        schema: StructType,
        columns: Sequence[str] | None,
        where: str | None,
        *,
        judge: Judge = unread_type,
        more: Sequence[StructField] = (),
        row_ids: tuple[StructField, ...] = (),
    ) -> Selection:
        """Look up the columns and parse the condition.

        Args:
            schema: The schema of the table.
            columns: The names of the columns to return, in this order. None for all.
            where: The condition in SQL. None for all rows.
            judge: Says of a type whether its values are read.
            more: Columns that are not of the table and follow those that were asked for.
            row_ids: The columns of row ids, which follow, too.

        Raises:
            UsageError: `usage.column` or `usage.where`.
            Refused: `type.unsupported`, for a column that is named and cannot be read, or if none can.
        """
        if not more and not row_ids:
            return cls._make_of_table(schema, columns, where, judge)

        # The other columns are looked up like those of the table, so that the condition may use them.
        extended_schema = StructType((*schema.fields, *more, *row_ids))
        if columns is not None:
            unnamed = [column.name for column in (*more, *row_ids) if column.name not in columns]
            columns = [*columns, *unnamed]
        selection = cls._make_of_table(extended_schema, columns, where, judge)
        if not row_ids:
            return selection._replace(row_ids=row_ids)
        needed = sorted(selection.needed, key=lambda column: column in row_ids)
        return selection._replace(needed=tuple(needed), row_ids=row_ids)

    @classmethod
    def _make_of_table(
        cls, schema: StructType, columns: Sequence[str] | None, where: str | None, judge: Judge
    ) -> Selection:
        chosen = schema.fields if columns is None else _find_columns(schema, columns)
        left_out = unread_columns(chosen, judge)
        # `*` leaves such columns out; a column that is named must not be left out silently.
        if left_out:
            chosen = read_columns(chosen, judge)
            if columns is not None or not chosen:
                raise unsupported(left_out, read_columns(schema.fields, judge))
        if not chosen and columns is not None:
            raise UsageError(
                "the list of columns is empty", code="usage.column", facts={"columns": _summarize_columns(schema)}
            )
        repeated_name = _find_first_repeated(column.name for column in chosen)
        if repeated_name:
            raise UsageError(f"column {repeated_name} is named twice", code="usage.column")
        if where is None:
            return cls(chosen, chosen, None, left_out)

        from deltacli.delta.predicate import parse_predicate

        predicate = parse_predicate(where, schema, judge)
        names_in_condition = {path[0] for path in predicate.columns}
        returned_names = {column.name for column in chosen}
        only_in_condition = [column for column in schema.fields if column.name in names_in_condition - returned_names]
        return cls(chosen, (*chosen, *only_in_condition), predicate, left_out)

    def make_read_spec(self, config: TableConfiguration) -> ReadSpec:
        """Return the columns and rows to read from each file of a table with this configuration."""
        schema = arrow_schema(self.columns)
        needed_schema = schema if self.needed == self.columns else arrow_schema(self.needed)
        file_columns = FileColumns(config.mapping_mode, config.physical_name, config)
        # Row ids have a name in files, whatever the mapping of the table is.
        row_id_columns = {column.name: FileColumns("none", recorded_name) for column in self.row_ids}
        row_ids = (ROW_ID, ROW_COMMIT_VERSION) if self.row_ids else None
        return ReadSpec(self.needed, schema, needed_schema, file_columns, self.predicate, row_id_columns, row_ids)


def _find_columns(schema: StructType, names: Sequence[str]) -> tuple[StructField, ...]:
    """Return the top-level columns of these names: exact matches first, else ignoring case. Raises UsageError."""
    index = NameIndex(column.name for column in schema.fields)
    return tuple(_find_column(schema, index, name) for name in names)


def _find_column(schema: StructType, index: NameIndex, name: str) -> StructField:
    """Return the top-level column of a name.

    Raises:
        UsageError: `usage.column`, with the column that was probably meant.
    """
    matches = index.places_of(name)
    if len(matches) == 1:
        return schema.fields[matches[0]]

    nearest = nearest_place(schema, name.split("."))
    reason = ""
    if nearest is not None and len(nearest.steps) > 1:
        field = "it" if nearest.text == name else nearest.text
        reason = f": {field} is a field, and only whole columns can be read"
    raise UsageError(
        f"the table has no column {name}{reason}",
        code="usage.column",
        facts={} if nearest else {"columns": _summarize_columns(schema)},
        hint=command("snapshot", schema=True),
    ).suggest_as_fact(name, nearest and nearest.column.name)


def _find_first_repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _summarize_columns(schema: StructType) -> str:
    return summarize_names([column.name for column in schema.fields], _MOST_NAMES)
