"""Refuse data files whose rows cannot be copied exactly, or not in bounded memory.

Readers see other values than such a file contains, or do not agree on them: nanoseconds are cut off, dates that Spark
wrote in the hybrid calendar are shifted only where the footer says so, and a shredded variant is put together anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable
from deltacli.core.units import format_size
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import to_arrow, types
from deltacli.delta.schema.file_columns import hybrid_leaf, is_old
from deltacli.delta.schema.variants import TYPED
from deltacli.rules.framework.base import Finding, Severity
from deltacli.work.rewrite.pieces import RewriteSpec
from deltacli.work.rows.data_files import OpenDataFile

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.footers.columns import FileSchema


NOT_EXACT = "optimize.value-not-exact"
TOO_LARGE = "optimize.row-group-too-large"
UNREAD = "optimize.type-unsupported"
BEYOND_MARK = "rowtracking.materialised-beyond-mark"

_ROWS_AT_ONCE = 1 << 16


class Exactness:
    """Judges data files one after the other. Most have the schema and the marks of the one before: then only the values
    of suspicious columns are looked at again.
    """

    def __init__(self, spec: RewriteSpec) -> None:
        self._spec = spec
        self._previous_schema: Any = None  # Any: a schema of Parquet
        self._previous_marks: Mapping[bytes, bytes] | None = None
        self._suspects: Sequence[_Suspect] = ()

    def require(self, opened: OpenDataFile) -> bool:
        """Return whether the file is like the one before. Raises DataUnreadable for one that cannot be copied exactly,
        or not in bounded memory.
        """
        metadata = opened.parquet.metadata
        _require_small_groups(metadata, self._spec.most_group_bytes)
        schema = metadata.schema
        marks = metadata.metadata
        # Comparing two schemas is cheap; searching one for suspicious columns is not, and most files are alike.
        is_alike = (
            self._previous_schema is not None and marks == self._previous_marks and schema.equals(self._previous_schema)
        )
        if not is_alike:
            self._previous_schema = None
            if (broken := find_broken_rule(self._spec.written_by or self._spec.config, opened)) is not None:
                raise DataUnreadable(broken.message, code=broken.rule.id)
            self._suspects = list(_find_suspects(self._spec, opened, marks))
            self._previous_schema = schema
            self._previous_marks = marks
        for suspect in self._suspects:
            _require_exact_values(suspect, opened)
        if self._spec.row_columns and self._spec.row_id_mark is not None:
            _require_ids(self._spec.row_columns[0], self._spec.row_id_mark, opened)
        return is_alike


def _require_small_groups(metadata: pyarrow.parquet.FileMetaData, most_bytes: int) -> None:
    for group in range(metadata.num_row_groups):
        size = metadata.row_group(group).total_byte_size
        if size > most_bytes:
            raise DataUnreadable(
                f"row group {group} has {format_size(size)}, more than {format_size(most_bytes)}", code=TOO_LARGE
            )


def _require_ids(column: str, mark: int, opened: OpenDataFile) -> None:
    """Raise DataUnreadable for a file that stores a row id above the high-water mark: another row may get it, too."""
    metadata = opened.parquet.metadata
    leaf = next((at for at in range(metadata.num_columns) if metadata.schema.column(at).path == column), None)
    if leaf is None:
        return
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(leaf).statistics
        # The maximum in the footer saves reading the ids.
        if statistics is not None and statistics.has_min_max:
            maxima = [statistics.max]
        else:
            batches = opened.parquet.read_leaves(_ROWS_AT_ONCE, group, [leaf])
            maxima = [pc.max(batch.column(0)).as_py() for batch in batches]
        highest = max((maximum for maximum in maxima if maximum is not None), default=mark)
        if highest > mark:
            raise DataUnreadable(
                f"it has row ids up to {highest}, but the high-water mark of row ids is {mark}", code=BEYOND_MARK
            )


def find_broken_rule(config: TableConfiguration, opened: OpenDataFile) -> Finding | None:
    """Return the first finding about a file's columns by which it is unknown what the file contains; None without."""
    # Without column mapping, a column is found by the only name that it has.
    if config.mapping_mode == "none":
        return None
    from deltacli.delta.footers.columns import FileSchema, leaves_of

    metadata = opened.parquet.metadata
    return find_broken_schema_rule(config, FileSchema(opened.schema, leaves_of(metadata.schema)), metadata.num_rows)


def find_broken_schema_rule(config: TableConfiguration, schema: FileSchema, rows: int) -> Finding | None:
    """Return the same for a file whose footer was read.

    A column that may be under its logical name counts like one that certainly is: a rewrite would lose its values.
    """
    if config.mapping_mode == "none":
        return None
    from deltacli.rules.files.data_files import FIELD_ID_AREA, FILE_WITH_LOGICAL_NAMES
    from deltacli.rules.framework.data_file_views import FileSchemaView

    view = FileSchemaView(schema, config, Place("", key="the file"), 1, rows)
    for check in FIELD_ID_AREA.checks:
        for finding in check.run(view):
            if finding.severity is Severity.ERROR or finding.rule is FILE_WITH_LOGICAL_NAMES:
                return finding
    return None


def _find_suspects(
    spec: RewriteSpec, opened: OpenDataFile, metadata: Mapping[bytes, bytes] | None
) -> Iterator[_Suspect]:
    """Yield the leaves of a file whose values have to be looked at. Raises DataUnreadable."""
    _require_read_types(spec, opened)
    wanted = spec.reading.columns[: spec.reading.table_column_count]
    file_columns = spec.reading.file_columns.find(opened.schema, wanted)
    schema = opened.parquet.metadata.schema
    for column, file_column in zip(wanted, file_columns, strict=True):
        # Once per column: a struct may have thousands of leaves.
        names = {
            primitive.name
            for primitive in types.types_within(column.data_type)
            if isinstance(primitive, types.PrimitiveType)
        }
        for leaf in file_column.leaves if file_column is not None else ():
            yield from _find_suspects_in_leaf(column, names, leaf, schema.column(leaf), metadata)


def _require_read_types(spec: RewriteSpec, opened: OpenDataFile) -> None:
    """Raise DataUnreadable for a file that has a column of a type that is not read, which a new one would lack."""
    fields = spec.config.schema.fields if spec.config.schema else ()
    for column in fields:
        unread = to_arrow.find_unsupported_type(column.data_type)
        if unread is not None and spec.reading.file_columns.leaf(opened.schema, [column]) is not None:
            raise DataUnreadable(f"column {column.name} has type {unread}, whose values cannot be kept", code=UNREAD)


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A leaf whose values have to be looked at, and what is wrong with a file in which one is not exact."""

    column: str
    leaf: int
    is_hybrid: bool

    @property
    def reason(self) -> str:
        if self.is_hybrid:
            return "has a date or time before 1900 in the calendar of early versions of Spark"
        return "has a time with nanoseconds, which the table's type does not have"


def _find_suspects_in_leaf(
    column: types.StructField, names: Set[str], leaf: int, stored: Any, marks: Mapping[bytes, bytes] | None
) -> Iterator[_Suspect]:
    """Yield what to look for in a leaf of a column, given the names of the primitive types within the column.

    Raises DataUnreadable for a shredded variant.
    """
    if "variant" in names and f".{TYPED}" in stored.path:
        raise DataUnreadable(f"column {column.name} has shredded variants, whose bytes cannot be kept", code=NOT_EXACT)

    kind = stored.logical_type.type
    # Beside a timestamp of microseconds in one column, it is not known here which of them a leaf is.
    is_cut = not names & types.NANOSECONDS.keys() or bool(names & {"timestamp", "timestamp_ntz"})
    if is_cut and kind == "TIMESTAMP" and "nano" in stored.logical_type.to_json().lower():
        yield _Suspect(column.name, leaf, is_hybrid=False)
    if hybrid_leaf(stored, marks) is not None:
        yield _Suspect(column.name, leaf, is_hybrid=True)


def _require_exact_values(suspect: _Suspect, opened: OpenDataFile) -> None:
    """Raise DataUnreadable if a value of a leaf is not exact."""
    for group in range(opened.parquet.metadata.num_row_groups):
        for batch in opened.parquet.read_leaves(_ROWS_AT_ONCE, group, [suspect.leaf]):
            for values in _iterate_innermost(batch.column(0)):
                if is_old(values) if suspect.is_hybrid else _has_nanoseconds(values):
                    raise DataUnreadable(f"column {suspect.column} {suspect.reason}", code=NOT_EXACT)


def _iterate_innermost(values: Any) -> Iterator[Any]:
    """Yield the values of the only leaf within arrays, maps and structs; keys are always read with the values."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _iterate_innermost(pc.cast(values, kind.value_type))
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _iterate_innermost(part)
    elif pa.types.is_map(kind):
        yield from _iterate_innermost(values.keys)
        yield from _iterate_innermost(values.items)
    elif pa.types.is_nested(kind):
        yield from _iterate_innermost(pc.list_flatten(values))
    else:
        yield values


def _has_nanoseconds(values: Any) -> bool:
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return False
    numbers = values.view(pa.int64())
    remainders = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 1_000), 1_000))
    return bool(pc.any(pc.not_equal(remainders, 0)).as_py())
