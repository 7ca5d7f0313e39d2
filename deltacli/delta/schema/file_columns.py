"""The columns of a table in one data file: where each is, how it is converted, and in which calendar.

A file may have narrower types than the table (type widening), other names (column mapping), fewer fields (added later),
and any layout of lists and timestamps that writers have used. Values that fit are converted exactly, others are
refused.

Readers, checks and rewrites ask here.

Spark 2 and, in its mode LEGACY, later ones write so. They read such files as they are rebased here.

Spec: Column Mapping, Reader Requirements; Type Widening; Delta Data Type to Parquet Type Mappings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, command
from deltacli.core.typing import ArrowArray, ArrowField, ArrowType
from deltacli.delta.schema.misnamed_fields import MISNAMED, MappedTable, MisnamedField, find_misnamed_fields
from deltacli.delta.schema.to_arrow import arrow_type, variant_type
from deltacli.delta.schema.type_changes import Convert, conversion, file_type_mismatch
from deltacli.delta.schema.types import ArrayType, DataType, MapType, NameIndex, PrimitiveType, StructField, StructType
from deltacli.delta.schema.variants import is_shredded, require_values, shredded

_FIELD_ID = b"PARQUET:field_id"


class Found(NamedTuple):
    """A column in a file: the Parquet leaves to read, and the conversion to the table's type (None: no conversion)."""

    leaves: tuple[int, ...]
    convert: Convert | None


class FileColumn(NamedTuple):
    """A top-level column: its position among the fields of the file, and how it is read."""

    position: int
    leaves: tuple[int, ...]
    convert: Convert | None


class _FileFields:
    """The fields of a struct in a file, whose leaves begin at `first`: by name, and by id if ids decide.

    With `by_id` only a field without an id is found by its name. Spec: Reader Requirements for Column Mapping.
    """

    def __init__(self, fields: Iterable[ArrowField], first: int, *, by_id: bool) -> None:
        self.fields = list(fields)
        self.firsts: list[int] = []
        for field in self.fields:
            self.firsts.append(first)
            first += count_leaves(field.type)
        self.ids: dict[bytes, int] = {}
        names = [field.name for field in self.fields]
        if by_id:
            for position, field in enumerate(self.fields):
                file_id = (field.metadata or {}).get(_FIELD_ID)
                if file_id is not None:
                    self.ids.setdefault(file_id, position)
                    names[position] = None
        self.names = NameIndex(names)
        self.known: dict[int, tuple[StructField, FileColumn | None]] = {}
        """The columns that were found, by the identity of the table's column."""
        self.misnamed: list[MisnamedField] | None = None
        """The fields of the table that are here under logical names; None until somebody asks."""
        self._by_id = by_id
        self._inside: dict[int, _FileFields] = {}

    def inside(self, position: int) -> _FileFields:
        """Return the fields of the struct at a position. They are kept: a struct may have thousands of fields."""
        if position not in self._inside:
            self._inside[position] = _FileFields(self.kind(position), self.firsts[position], by_id=self._by_id)
        return self._inside[position]

    def kind(self, position: int) -> Any:
        """Return the Arrow type of a field."""
        return self.fields[position].type


class FileColumns:
    """Finds the columns of a table in files. `physical_name` returns the name of a field in files.

    With `table`, the configuration of a table with column mapping, a column that a file has under its logical name is
    told from one that was added after the file.

    Attributes:
        misnamed: The fields that files had under logical names, and that were read as null. Files that another process
            has read are not among them.
    """

    def __init__(
        self, mapping_mode: str, physical_name: Callable[[StructField], str], table: MappedTable | None = None
    ) -> None:
        self.misnamed: dict[MisnamedField, None] = {}
        self._by_id = mapping_mode == "id"
        self._physical_name = physical_name
        self._table = table if mapping_mode != "none" else None
        self._seen: tuple[Any, _FileFields] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: the fields of the last file are not sent."""
        return {**self.__dict__, "_seen": None}

    def find(self, schema: pa.Schema, columns: Sequence[StructField]) -> list[FileColumn | None]:
        """Find each column in the Arrow schema of a file; None for one that was added after the file.

        Raises DataUnreadable (`data.type-mismatch`, `data.case-mismatch`, `mapping.file-with-logical-names`), naming
        the column.
        """
        fields = self._top_fields(schema)
        if self._table is not None:
            self._check_names(self._table, fields, columns)
        return [self._known(fields, column) for column in columns]

    def leaf(self, schema: pa.Schema, path: Sequence[StructField]) -> tuple[int, Any] | None:
        """Return the leaf of a column, or of a field within structs, and its Arrow type in the file, or None if it was
        added after the file. `path` are the fields from the top-level column on.
        """
        fields = self._top_fields(schema)
        position = -1
        for depth, field in enumerate(path):
            if depth:
                if not is_struct(fields.kind(position)):
                    return None
                fields = fields.inside(position)
            position = self._position(fields, field, ".".join(each.name for each in path[: depth + 1]))
            if position < 0:
                return None
        return (fields.firsts[position], fields.kind(position)) if path else None

    def _top_fields(self, schema: pa.Schema) -> _FileFields:
        """Return the top-level columns of a file; those of the last file are cached, as the next one is often alike."""
        seen = self._seen
        if seen is None or not (seen[0] is schema or seen[0].equals(schema, check_metadata=self._by_id)):
            seen = self._seen = schema, _FileFields(schema, 0, by_id=self._by_id)
        return seen[1]

    def _known(self, fields: _FileFields, column: StructField) -> FileColumn | None:
        known = fields.known.get(id(column))
        if known is None or known[0] is not column:
            known = fields.known[id(column)] = column, self._top(fields, column)
        return known[1]

    def _top(self, fields: _FileFields, column: StructField) -> FileColumn | None:
        position = self._position(fields, column, column.name)
        if position < 0 or _is_void(column.data_type):
            return None
        found = self._read(fields.kind(position), fields.firsts[position], column.data_type, column.name)
        return FileColumn(position, *found)

    def _check_names(self, table: MappedTable, fields: _FileFields, columns: Sequence[StructField]) -> None:
        """Record the fields of some columns that a file has under their logical names.

        Raises DataUnreadable where a file has no column as the mapping demands: its rows would be nulls altogether.
        """
        if fields.misnamed is None:
            # A read does not look for names of the past: it would read the log for every file of an older schema.
            fields.misnamed = find_misnamed_fields(fields.fields, table, with_former_names=False)
        if not fields.misnamed:
            return
        names = {column.name for column in columns}
        misnamed = [field for field in fields.misnamed if field.column in names]
        whole_columns = [field for field in misnamed if field.column == field.path]
        positions = (self._position(fields, column, column.name) for column in _stored_columns(table))
        if whole_columns and all(position < 0 for position in positions):
            first = whole_columns[0]
            raise DataUnreadable(
                f"column {first.path} is in the file under its logical name, not as column mapping demands",
                code=MISNAMED,
                facts={"column": first.path, "expected": first.physical_name},
                hint=command("validate", level="footers"),
            )
        self.misnamed.update(dict.fromkeys(misnamed))

    def _position(self, fields: _FileFields, column: StructField, path: str) -> int:
        """Return the position of a field among its siblings in the file, or -1."""
        if self._by_id:
            position = fields.ids.get(str(column.metadata.get("delta.columnMapping.id")).encode())
            if position is not None:
                return position
        alike = fields.names.places_of(self._physical_name(column))
        if len(alike) > 1:
            raise DataUnreadable(
                f"column {path} cannot be told from others of the same name in the file",
                code="data.case-mismatch",
                facts={"column": path, "in the file": ", ".join(fields.fields[place].name for place in alike)},
            )
        return alike[0] if alike else -1

    def _read(self, kind: Any, first: int, data_type: DataType, path: str) -> Found:
        """Return how a value of an Arrow type, whose leaves begin at `first`, is converted to the table's type."""
        wanted = arrow_type(data_type, path)
        if isinstance(kind, pa.BaseExtensionType):
            inner = self._read(kind.storage_type, first, data_type, path)
            return Found(inner.leaves, _after(lambda values: values.storage, inner.convert))
        if pa.types.is_null(kind):
            return Found((first,), lambda values: nulls_of(len(values), wanted))
        match data_type:
            case StructType(fields) if pa.types.is_struct(kind):
                return self._struct(kind, first, fields, wanted, path)
            case ArrayType(element) if is_list(kind):
                inner = self._read(kind.value_type, first, element, f"{path}.element")
                is_same = inner.convert is None and _same(kind, wanted)
                return Found(inner.leaves, None if is_same else _list_of(inner.convert, wanted))
            case MapType(key, value) if pa.types.is_map(kind):
                return self._map(kind, first, (key, value), wanted, path)
            case PrimitiveType("variant") if pa.types.is_struct(kind):
                return self._variant(kind, first, wanted, path)
            case PrimitiveType(name) if not pa.types.is_nested(kind):
                return Found((first,), conversion(kind, name, wanted, path))
        raise file_type_mismatch(path, kind, wanted)

    def _struct(self, kind: Any, first: int, fields: Sequence[StructField], wanted: Any, path: str) -> Found:
        inside = _FileFields(kind, first, by_id=self._by_id)
        parts: list[tuple[int, Found]] = []
        for field in fields:
            place = f"{path}.{field.name}"
            position = self._position(inside, field, place)
            if position < 0 or _is_void(field.data_type):
                parts.append((-1, Found((), None)))
            else:
                found = self._read(inside.kind(position), inside.firsts[position], field.data_type, place)
                parts.append((position, found))
        read = sorted({position for position, _ in parts if position >= 0})
        # Of a struct without fields of the table, one field shows which structs are null.
        leaves = tuple(leaf for _, part in parts for leaf in part.leaves) or (first,)
        is_same = _same(kind, wanted) and [position for position, _ in parts] == list(range(len(inside.fields)))
        if is_same and not any(part.convert for _, part in parts):
            return Found(leaves, None)
        places = [(read.index(position) if position >= 0 else -1, part.convert) for position, part in parts]
        return Found(leaves, _struct_of(places, wanted, path))

    def _map(self, kind: Any, first: int, inside: tuple[DataType, DataType], wanted: Any, path: str) -> Found:
        key = self._read(kind.key_type, first, inside[0], f"{path}.key")
        value = self._read(kind.item_type, first + count_leaves(kind.key_type), inside[1], f"{path}.value")
        leaves = (*key.leaves, *value.leaves)
        is_same = key.convert is None and value.convert is None and _same(kind, wanted)
        return Found(leaves, None if is_same else _map_of(key.convert, value.convert, wanted))

    def _variant(self, kind: Any, first: int, wanted: Any, path: str) -> Found:
        """Return a variant as metadata and value. One that is shredded into typed columns is put together."""
        names = [field.name for field in kind]
        if is_shredded(kind):
            return Found(tuple(range(first, first + count_leaves(kind))), shredded(kind, wanted, path))
        if set(names) != {"metadata", "value"}:
            raise file_type_mismatch(path, kind, wanted)
        fields = [StructField(name, PrimitiveType("binary"), True, {}) for name in ("metadata", "value")]
        found = FileColumns("none", lambda field: field.name)._struct(kind, first, fields, wanted, path)
        if not any(field.nullable for field in kind):
            return found
        return Found(found.leaves, _after(lambda values: require_values(values, path), found.convert))


def _stored_columns(table: MappedTable) -> Iterator[StructField]:
    """Yield the columns of a table that its files contain: all but partition columns."""
    partition_columns = [*table.partition_columns.values()]
    for column in table.schema.fields if table.schema is not None else ():
        if column not in partition_columns:
            yield column


def count_leaves(kind: Any) -> int:
    """Return how many Parquet columns a value of an Arrow type takes."""
    if isinstance(kind, pa.BaseExtensionType):
        return count_leaves(kind.storage_type)
    if pa.types.is_struct(kind):
        return sum(count_leaves(field.type) for field in kind)
    if pa.types.is_map(kind):
        return count_leaves(kind.key_type) + count_leaves(kind.item_type)
    return count_leaves(kind.value_type) if is_list(kind) else 1


def number_leaves(schema: pa.Schema) -> dict[tuple[str, ...], int]:
    """Return the number of the first leaf of each column of a file, and of each field within structs, by path.

    Names alone do not tell the columns of Parquet apart: they may contain dots. All columns are numbered in one pass,
    because a pass for each of thousands of columns takes minutes.
    """
    return dict(_number_fields(schema, 0, ()))


def _number_fields(
    fields: Iterable[ArrowField], first: int, parent: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    for field in fields:
        path = (*parent, field.name)
        yield path, first
        if is_struct(field.type):
            yield from _number_fields(field.type, first, path)
        first += count_leaves(field.type)


def _is_void(data_type: DataType) -> bool:
    return data_type == PrimitiveType("void")


def is_struct(kind: Any) -> bool:
    """Return True for a struct."""
    return bool(pa.types.is_struct(kind))


def is_list(kind: Any) -> bool:
    """Return True for a list in every form of Arrow."""
    types = pa.types
    return any(
        (
            types.is_list(kind),
            types.is_large_list(kind),
            types.is_fixed_size_list(kind),
            types.is_list_view(kind),
            types.is_large_list_view(kind),
        )
    )


def _same(kind: Any, wanted: Any) -> bool:
    return bool(kind.equals(wanted))


def absent(rows: int, present: int, field: ArrowField, path: str) -> ArrowArray:
    """Return a column that was added after a file: null in all rows. Raises if it must not be null and `present` rows
    need it.
    """
    if not field.nullable and present:
        raise DataUnreadable(
            f"column {path} is NOT NULL, but the file has no such column",
            code="data.column-missing",
            facts={"column": path},
            hint=command("alter", "nullable", path, dry_run=True),
        )
    return nulls_of(rows, field.type)


def nulls_of(rows: int, kind: Any) -> ArrowArray:
    """Return as many nulls of a type. Both parts of a variant are required in files, also of one that is null."""
    if not is_struct(kind) or not kind.num_fields:
        return pa.nulls(rows, kind)
    if kind.equals(variant_type()):
        parts = [pa.repeat(b"", rows)] * 2
    else:
        parts = [nulls_of(rows, field.type) for field in kind]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.repeat(True, rows))


# -- conversions of nested values -------------------------------------------------------------------------------------


def _after(first: Convert, then: Convert | None) -> Convert:
    return first if then is None else lambda values: then(first(values))


def _converted(convert: Convert | None, values: Any) -> Any:
    return values if convert is None else convert(values)


def _struct_of(places: Sequence[tuple[int, Convert | None]], wanted: Any, path: str) -> Convert:
    """Return structs with the table's fields. `places`: the read position of each (-1: absent), and its conversion."""
    fields = list(wanted)

    def convert(values: Any) -> Any:
        rows = len(values)
        columns = [
            _converted(inner, values.field(position))
            if position >= 0
            else absent(rows, rows - values.null_count, field, f"{path}.{field.name}")
            for (position, inner), field in zip(places, fields, strict=True)
        ]
        mask = pc.is_null(values) if values.null_count else None
        if not fields:
            return pa.StructArray.from_buffers(wanted, rows, [values.buffers()[0]], offset=values.offset, children=[])
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    return convert


def _list_of(inner: Convert | None, wanted: Any) -> Convert:
    def convert(values: Any) -> Any:
        if not pa.types.is_list(values.type):
            values = _as_list(values)
        elements = _converted(inner, values.values)
        return pa.Array.from_buffers(
            wanted, len(values), values.buffers()[:2], offset=values.offset, children=[elements]
        )

    return convert


def _as_list(values: Any) -> Any:
    """Return a list of another form as a plain list. The cast of list views of pyarrow 26.0.1 drops an offset."""
    lengths = pc.cast(pc.if_else(pc.is_valid(values), pc.list_value_length(values), 0), pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, pc.list_flatten(values), mask=pc.is_null(values))


def _map_of(key: Convert | None, item: Convert | None, wanted: Any) -> Convert:
    fields = [wanted.key_field, wanted.item_field]

    def convert(values: Any) -> Any:
        columns = [_converted(key, values.keys), _converted(item, values.items)]
        entries = pa.StructArray.from_arrays(columns, fields=fields)
        return pa.Array.from_buffers(
            wanted, len(values), values.buffers()[:2], offset=values.offset, children=[entries]
        )

    return convert


# -- dates and times that Spark wrote in the calendar that was Julian before 1582-10-15 --------------------------------

_SPARK = "org.apache.spark."
_MARKS = (f"{_SPARK}legacyDateTime", f"{_SPARK}legacyINT96")
VERSION_KEY = f"{_SPARK}version"
"""The key of a footer under which Spark states its version, and so the calendar of the file's dates and times."""
_ZONE_KEY = f"{_SPARK}timeZone"
CORRECT_SINCE = "3.1.0"
"""The first version of Spark that writes dates, times and INT96 in the calendar of today."""
_HYBRID_UNTIL = {"INT96": (3, 1)}
"""Physical type -> the first version of Spark whose files are in the calendar of today unless they are marked."""
_FIRST_DAY = -141_427
"""1582-10-15, from which on dates are the same in both calendars."""
_FIRST_SECOND = -2_208_988_800
"""1900-01-01, from which on times are: before, time zones were not at whole hours."""
_CYCLES = 15_000
"""Cycles of 400 years by which years are moved, so that divisions are of positive numbers."""
_DAYS_BEFORE = 2_440_588 + 32_082 + 146_100 * _CYCLES
"""Days before 1970 of a first of March from which Julian years are counted."""
ZONE_UNKNOWN = "data.time-zone-unknown"
"""The code of the error for times that cannot be rebased."""
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?")
_LARGEST_OFFSET = 18 * 3_600
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Hybrid(NamedTuple):
    """What of a leaf or a column is in the older calendar. `zone` is that of the session which wrote it."""

    zone: str
    dates: bool
    times: bool


def hybrid_leaf(stored: Any, metadata: Mapping[bytes, bytes] | None) -> Hybrid | None:
    """Return the calendar of a Parquet leaf by the footer's marks if it is not that of the table's types, else None."""
    if not metadata or (stored.physical_type != "INT96" and stored.logical_type.type not in ("TIMESTAMP", "DATE")):
        return None
    marks = _read_marks(metadata)
    if not is_hybrid(stored.physical_type, marks):
        return None
    is_date = stored.logical_type.type == "DATE"
    return Hybrid(marks.get(_ZONE_KEY, "UTC"), is_date, not is_date)


def _read_marks(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return what a footer states about the calendar, without its other texts, of which the schema may be long."""
    values = {key: metadata.get(key.encode()) for key in (VERSION_KEY, _ZONE_KEY, *_MARKS)}
    return {key: value.decode(errors="replace") for key, value in values.items() if value is not None}


def hybrid_column(schema: Any, leaves: Iterable[int], metadata: Mapping[bytes, bytes] | None) -> Hybrid | None:
    """Return the same for the leaves of a column of a Parquet schema."""
    if not metadata:
        return None
    # Files of today's Spark state a version, too: their leaves, which may be thousands, need no look.
    marks = _read_marks(metadata)
    if not any(is_hybrid(physical_type, marks) for physical_type in ("INT64", "INT96")):
        return None
    found = [one for leaf in leaves if (one := hybrid_leaf(schema.column(leaf), metadata)) is not None]
    return Hybrid(found[0].zone, any(one.dates for one in found), any(one.times for one in found)) if found else None


def is_hybrid(physical_type: str, marks: Mapping[str, str]) -> bool:
    """Return True if Spark wrote a leaf of dates or times in the calendar that was Julian before 1582."""
    mark = "legacyINT96" if physical_type == "INT96" else "legacyDateTime"
    if f"{_SPARK}{mark}" in marks:
        return True
    version = marks.get(VERSION_KEY, "").split(".")
    if len(version) < 2 or not (version[0].isdigit() and version[1].isdigit()):
        return False
    return (int(version[0]), int(version[1])) < _HYBRID_UNTIL.get(physical_type, (3, 0))


def hybrid_types(footer: bytes) -> frozenset[str]:
    """Return the physical types whose dates and times are in the older calendar, by the bytes of a footer."""
    if _SPARK.encode() not in footer:
        return frozenset()
    marks = {name: "" for name in _MARKS if name.encode() in footer}
    version = re.search(rb"org\.apache\.spark\.version\x18[\x00-\x7f](\d+\.\d+)", footer)
    if version is not None:
        marks[VERSION_KEY] = version[1].decode()
    return frozenset(kind for kind in ("INT32", "INT64", "INT96") if is_hybrid(kind, marks))


def describe_calendar(schema: Any) -> dict[str, str]:  # Any: a schema of Arrow
    """Return what the footer of a new file has to state, so that Spark takes its dates and times as they are stored.

    Spark reads a file that states no version as its setting datetimeRebaseModeInRead says. In Spark 3 it refuses
    dates before 1582-10-15 and times before 1900 by default; in the mode LEGACY it shifts them.

    Args:
        schema: The columns of the file. Whoever copies stored values rebases them first, as readers of tables do.

    Returns:
        The key and the value; nothing for a file without dates and times.
    """
    return {VERSION_KEY: CORRECT_SINCE} if any(_has_dates_or_times(field.type) for field in schema) else {}


def _has_dates_or_times(kind: ArrowType) -> bool:
    """Return True if values of a type are dates or timestamps, or contain some."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dates_or_times(kind.storage_type)
    if pa.types.is_map(kind):
        return _has_dates_or_times(kind.key_type) or _has_dates_or_times(kind.item_type)
    if is_list(kind) or pa.types.is_dictionary(kind):
        return _has_dates_or_times(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_dates_or_times(field.type) for field in kind)
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_old(values: ArrowArray) -> bool:
    """Return whether dates or times may differ between the calendars."""
    if not pa.types.is_date(values.type) and not pa.types.is_timestamp(values.type):
        return False
    least = pc.min_max(values)["min"]
    if not least.is_valid:
        return False
    if pa.types.is_date32(values.type):
        return bool(least.value < _FIRST_DAY)
    unit = 1_000 if pa.types.is_date64(values.type) else _UNITS[values.type.unit]
    return bool(least.value < _FIRST_SECOND * unit)


def rebased(values: ArrowArray, of: Hybrid) -> ArrowArray:
    """Return dates and times, also within arrays, maps and structs, in the calendar of the table's types.

    Raises DataUnreadable (`data.time-zone-unknown`) for times before 1900 whose time zone is not known.
    """
    kind = values.type
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([rebased(chunk, of) for chunk in values.chunks], kind)
    if pa.types.is_dictionary(kind):
        return rebased(pc.cast(values, kind.value_type), of)
    if pa.types.is_struct(kind):
        parts = [rebased(values.field(place), of) for place in range(kind.num_fields)]
        mask = pc.is_null(values) if values.null_count else None
        fields = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        mask = pc.is_null(values) if values.null_count else None
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        keys, items = (rebased(part.slice(start, stop - start), of) for part in (values.keys, values.items))
        offsets = pc.subtract(values.offsets, values.offsets[0])
        return pa.MapArray.from_arrays(offsets, keys, items, type=pa.map_(keys.type, items.type), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        mask = pc.is_null(values) if values.null_count else None
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        inner = rebased(values.values.slice(start, stop - start), of)
        offsets = pc.subtract(values.offsets, values.offsets[0])
        return type(values).from_arrays(offsets, inner, mask=mask)
    if not is_old(values) or not (of.dates if pa.types.is_date(kind) else of.times):
        return values
    if pa.types.is_date32(kind):
        return _gregorian_days(pc.cast(values.view(pa.int32()), pa.int64())).cast(pa.int32()).view(kind)
    return _times(values.view(pa.int64()), _UNITS[kind.unit], of.zone).view(kind)


def without_old_times(values: ArrowArray) -> ArrowArray:
    """Return times, or structs of them at any depth, with null instead of each time before 1900."""
    kind = values.type
    if pa.types.is_struct(kind):
        parts = [without_old_times(values.field(place)) for place in range(kind.num_fields)]
        mask = pc.is_null(values) if values.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if not pa.types.is_timestamp(kind) or not is_old(values):
        return values
    first = pa.scalar(_FIRST_SECOND * _UNITS[kind.unit], pa.int64())
    return pc.if_else(pc.less(values.view(pa.int64()), first), pa.scalar(None, kind), values)


def _gregorian_days(days: ArrowArray) -> ArrowArray:
    """Return days of the hybrid calendar as the days with the same year, month and day. A 29th of February that the
    other calendar lacks is the 1st of March. In both, years that begin in March differ in their last day alone.
    """

    def number(value: int) -> Any:
        return pa.scalar(value, pa.int64())

    counted = pc.add(pc.multiply(pc.add(days, number(_DAYS_BEFORE)), number(4)), number(3))
    years = pc.divide(counted, number(1_461))
    leap_days = pc.subtract(pc.divide(years, number(400)), pc.divide(years, number(100)))
    moved = pc.add(pc.add(days, leap_days), number(38 + 3 * _CYCLES))
    return pc.if_else(pc.less(days, number(_FIRST_DAY)), moved, days)


def _times(times: ArrowArray, unit: int, zone: str) -> ArrowArray:
    """Return times as those with the same local date and time in the zone, before 1900.

    Raises DataUnreadable for a time zone that is not known.
    """
    offsets = _find_offsets(zone)
    if offsets is None:
        raise _unknown_zone(zone)

    day = pa.scalar(86_400 * unit, pa.int64())
    standard = pa.scalar(offsets.standard * unit, pa.int64())
    local = pc.add(times, standard)
    days = pc.divide(local, day)
    rest = pc.subtract(local, pc.multiply(days, day))
    is_before = pc.cast(pc.less(rest, pa.scalar(0, pa.int64())), pa.int64())
    days, rest = pc.subtract(days, is_before), pc.add(rest, pc.multiply(is_before, day))
    moved = pc.add(pc.multiply(_gregorian_days(days), day), rest)
    is_early = pc.less(times, pa.scalar(_FIRST_SECOND * unit, pa.int64()))
    if offsets.at_local_time is None:
        moved = pc.subtract(moved, standard)
    else:
        old = pc.if_else(is_early, moved, pa.scalar(None, pa.int64())).to_pylist()
        known = {value: offsets.at_local_time(value // unit) * unit for value in {*old} - {None}}
        moved = pc.subtract(moved, pa.array([known.get(value, 0) for value in old], pa.int64()))
    return pc.if_else(is_early, moved, times)


class _Offsets(NamedTuple):
    """The offsets of a time zone from UTC before 1900, in seconds.

    Attributes:
        standard: The offset in Java's older calendar, which is the standard one of today.
        at_local_time: Returns the offset in the calendar of today, which was that of the place, at a local time in
            epoch seconds; None if it is the standard one at all times.
    """

    standard: int
    at_local_time: Callable[[int], int] | None = None


def is_known_zone(zone: str) -> bool:
    """Return True if times before 1900 that were written in a time zone can be rebased."""
    return _find_offsets(zone) is not None


def _find_offsets(zone: str) -> _Offsets | None:
    """Return the offsets of a time zone, which is a name of the IANA or an offset such as `+01:00`.

    Returns:
        None for a name that is not known here. It may be one of another program, or this machine has no time zones.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if zone in ("UTC", "Z", "GMT", "Etc/UTC"):
        return _Offsets(0)
    if (fixed := _FIXED_OFFSET.fullmatch(zone)) is not None:
        return _parse_offset(fixed)
    try:
        found = ZoneInfo(zone)
    # A text that cannot be the path of a file is a ValueError, and the name of a directory such as America an OSError.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None

    winter = datetime(2020, 1, 1, tzinfo=found)
    standard = int(((winter.utcoffset() or timedelta()) - (winter.dst() or timedelta())).total_seconds())
    first = -62_135_596_800  # 0001-01-01

    def offset_at(local: int) -> int:
        at = datetime(1, 1, 2) + timedelta(seconds=max(local - first - 86_400, 0))
        return int((at.replace(tzinfo=found).utcoffset() or timedelta()).total_seconds())

    return _Offsets(standard, offset_at)


def _parse_offset(fixed: re.Match[str]) -> _Offsets | None:
    """Return a fixed offset; None for one of more than 18 hours, which Java does not accept."""
    sign, *parts = fixed.groups()
    hours, minutes, seconds = (int(part or 0) for part in parts)
    offset = 3_600 * hours + 60 * minutes + seconds
    if max(minutes, seconds) > 59 or offset > _LARGEST_OFFSET:
        return None
    return _Offsets(-offset if sign == "-" else offset)


def _unknown_zone(zone: str) -> DataUnreadable:
    """Return the error for times of which only the time zone tells which ones are meant."""
    return DataUnreadable(
        "it has times before 1900 in the calendar of early versions of Spark, and their time zone is not known",
        code=ZONE_UNKNOWN,
        facts={"time zone": zone[:100], "next": "if it is a name of the IANA: install the time zones of this system"},
    )
