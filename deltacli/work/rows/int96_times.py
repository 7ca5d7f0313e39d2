"""Find timestamps of the physical type INT96 that do not fit into 64-bit nanoseconds.

`validate` reports such files and a purge rewrites them, so both ask here. See `delta/stats/nanosecond_range.py` for the
engines that read them as other times.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import ArrowArray, ArrowType
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns, count_leaves, is_list
from deltacli.delta.schema.types import StructField, has_timestamps
from deltacli.delta.stats.nanosecond_range import FIRST_MICROSECOND, LAST_MICROSECOND, TimesBeyondNanoseconds
from deltacli.work.facts.row_facts import OpenFileContext
from deltacli.work.rows.data_files import OpenDataFile

_ARROW_SCHEMA = b"ARROW:schema"
"""The key of the footer under which Arrow keeps its own schema, which has the unit of timestamps."""

_ROWS_AT_ONCE = 1 << 16


def find_timestamp_columns(config: TableConfiguration) -> tuple[StructField, ...]:
    """Return the columns of a table that are timestamps or contain some, but for partition columns."""
    fields = config.schema.fields if config.schema is not None else ()
    return tuple(
        field
        for field in fields
        if has_timestamps(field.data_type) and config.physical_name(field) not in config.partition_columns
    )


class Int96Column(NamedTuple):
    """A column of a table of which a file stores timestamps as INT96: its name, and the leaves of these."""

    name: str
    leaves: tuple[int, ...]


def find_int96_columns(opened: OpenDataFile, columns: FileColumns, fields: Sequence[StructField]) -> list[Int96Column]:
    """Return the columns of an open file that are stored as INT96, of some columns of its table.

    Args:
        opened: The file.
        columns: How the file's columns are found.
        fields: The columns, as of `find_timestamp_columns`.
    """
    schema = opened.parquet.metadata.schema
    int96_columns = []
    for field in fields:
        try:
            leaf_and_type = columns.leaf(opened.schema, [field])
        except DataUnreadable:
            continue  # Other rules report a column of a wrong type.
        if leaf_and_type is None:
            continue
        first, kind = leaf_and_type
        leaves = range(first, first + count_leaves(kind))
        int96_leaves = tuple(leaf for leaf in leaves if schema.column(leaf).physical_type == "INT96")
        if int96_leaves:
            int96_columns.append(Int96Column(field.name, int96_leaves))
    return int96_columns


def has_unit_in_arrow_schema(opened: OpenDataFile) -> bool:
    """Return whether the footer has an Arrow schema, as pyarrow writes it, with another unit than nanoseconds.

    deltalake and polars then read INT96 in that unit. Where the schema has nanoseconds, they wrap around as without it.
    """
    encoded = (opened.parquet.metadata.metadata or {}).get(_ARROW_SCHEMA)
    if encoded is None:
        return False
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
    except (ValueError, OSError, pa.ArrowException):
        return False  # an Arrow schema that is damaged helps nobody
    return not any(_has_nanoseconds(field.type) for field in schema)


def _has_nanoseconds(kind: ArrowType) -> bool:
    if pa.types.is_map(kind):
        return _has_nanoseconds(kind.key_type) or _has_nanoseconds(kind.item_type)
    if is_list(kind):
        return _has_nanoseconds(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_nanoseconds(field.type) for field in kind)
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns"


def has_times_beyond_nanoseconds(opened: OpenDataFile, columns: Sequence[Int96Column]) -> bool:
    """Return whether some columns of an open file have a time that does not fit into 64-bit nanoseconds.

    Rows that a deletion vector deletes count, too.
    """
    leaves = [leaf for column in columns for leaf in column.leaves]
    for group in range(opened.parquet.metadata.num_row_groups):
        for batch in opened.parquet.read_leaves(_ROWS_AT_ONCE, group, leaves):
            if any(len(_select_beyond(times)) for column in batch.columns for times in _times_within(column)):
                return True
    return False


class Int96Check:
    """The question of `validate` which columns of a file have times beyond nanoseconds, for all files of a table."""

    def __init__(self, fields: tuple[StructField, ...], columns: FileColumns) -> None:
        """Make the question for the columns of a table that have timestamps. `columns` finds them in a file."""
        self._fields = fields
        self._columns = columns

    def __call__(self, file: OpenFileContext) -> _Int96Times | None:
        """Begin with a file. Return None if it stores no timestamps as INT96."""
        int96_columns = find_int96_columns(file.opened, self._columns, self._fields)
        return _Int96Times(int96_columns, has_unit_in_arrow_schema(file.opened)) if int96_columns else None


class _Int96Times:
    """The question for one file, asked while its rows are read anyway."""

    def __init__(self, columns: Sequence[Int96Column], has_unit: bool) -> None:
        self._names = [column.name for column in columns]
        self._has_unit = has_unit
        self._found: dict[str, TimesBeyondNanoseconds] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Look at the times of some rows, whose columns have the names of the table.

        A column with both INT96 and other timestamps within it counts as a whole: no writer is known to write such.
        """
        for name in self._names:
            for times in _times_within(batch.column(name)):
                beyond = _select_beyond(times)
                if len(beyond):
                    self._add(name, beyond)

    def _add(self, name: str, beyond: pa.Int64Array) -> None:
        known = self._found.get(name)
        if known is None:
            known = TimesBeyondNanoseconds(name, 0, beyond[0].as_py(), self._has_unit)
        self._found[name] = known._replace(values=known.values + len(beyond))

    def answer(self) -> list[TimesBeyondNanoseconds]:
        """Return the columns with times beyond nanoseconds."""
        return list(self._found.values())


def _select_beyond(times: ArrowArray) -> pa.Int64Array:
    """Return the times that do not fit into 64-bit nanoseconds, as microseconds since 1970."""
    numbers = times.view(pa.int64())
    is_beyond = pc.or_(pc.less(numbers, FIRST_MICROSECOND), pc.greater(numbers, LAST_MICROSECOND))
    return pc.filter(numbers, is_beyond)


def _times_within(values: ArrowArray) -> Iterator[ArrowArray]:
    """Yield the arrays of timestamps in microseconds that an array consists of, without values below a null."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return  # a variant, whose typed values are no INT96
    if pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _times_within(part)
    elif pa.types.is_map(kind):
        # `keys` and `items` have the entries of the whole array also where `values` is a slice of it.
        for parts in (values.keys, values.items):
            yield from _times_within(pc.list_flatten(pa.ListArray.from_arrays(values.offsets, parts)))
    elif is_list(kind):
        yield from _times_within(pc.list_flatten(values))
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        yield values
