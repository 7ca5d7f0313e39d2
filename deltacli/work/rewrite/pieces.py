"""What is rewritten together and what became of it, which files are refused, and which have outdated columns.

Readers see other values than such a file contains, or do not agree on them: nanoseconds are cut off, dates that Spark
wrote in the hybrid calendar are shifted only where the footer says so, and a shredded variant is put together anew.

Spec: Type Widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, Unreadable
from deltacli.core.typing import ArrowField, ArrowType
from deltacli.core.units import format_size
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import to_arrow, types
from deltacli.delta.schema.file_columns import FileColumns, hybrid_leaf, is_old
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.variants import TYPED
from deltacli.delta.stats.schema import ColumnPath
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES, is_enabled
from deltacli.rules.framework.base import Finding, Severity
from deltacli.work.parquet_writing import Encoding
from deltacli.work.rows.data_files import DataFile, OpenDataFile, ReadSpec, open_data_file, row_id_fields
from deltacli.work.rows.nan_bounds import find_bounds_beside_nan, find_float_fields, find_leaves
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.delta.encoding.digests import Digest
    from deltacli.delta.footers.columns import FileSchema

# -- what is rewritten together ----------------------------------------------------------------------------------------

_FILE_WEIGHT = 256 << 10
"""What opening a file costs, in bytes."""
_RESERVED_IDS = (2_147_483_540, 2_147_483_539)
"""The field ids of Iceberg's columns of row ids and versions."""


@dataclass(frozen=True, slots=True)
class RewritePiece:
    """Files of one partition that become one file, in this order of rows; more than one if they are far beyond the
    target size.

    The constants of the files are ignored. `partition_values` are as in an add (physical names, texts). `directory` is
    where the new files go: a path below the table, not percent-encoded, '' for its root.
    """

    number: int
    sources: tuple[DataFile, ...]
    partition_values: Mapping[str, str | None]
    directory: str = ""

    @property
    def amount(self) -> int:
        """The number of files that are finished with this piece, for progress."""
        return len(self.sources)

    @property
    def size_bytes(self) -> int:
        return sum(max(source.size_bytes or 0, 0) for source in self.sources)

    @property
    def weight(self) -> int:
        return self.size_bytes + _FILE_WEIGHT * len(self.sources)


class Ordering(Protocol):
    """An order of rows in new files. It can be pickled."""

    def arrange(self, rows: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows in this order. They have the columns of new files, by physical name (`schema`)."""

    def in_little_memory(self) -> Ordering:
        """Return the same order, for which less memory is used."""

    def require_space(self, size_bytes: int) -> None:
        """Raise NoSpace where there is no room for temporary files of the rows of data files of so many bytes."""

    def digest(self) -> Digest:
        """Return an empty digest that does not depend on the order of rows."""


class NewFile(NamedTuple):
    """A file that was written and read back. `path` is as in the log; `stats` is the JSON text of its add."""

    path: str
    size_bytes: int
    rows: int
    stats: str
    modification_ms: int


class NewFileNames:
    """The paths below the table of new files that tasks of this process gave a name or were about to, so that the
    files of tasks whose results are never read can be found. Another process has its own.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __reduce__(self) -> tuple[type[NewFileNames], tuple[()]]:
        return NewFileNames, ()


class RefusedFile(NamedTuple):
    """A source that was left alone: its path in the log, the code of the error, and a sentence that says why; `column`
    is NOT NULL and has no value in some row.
    """

    path: str
    code: str
    reason: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of a piece.

    `files` have exactly the live rows of the sources with the paths `used`. There are none if none of these has a live
    row, and `used` is empty if all sources are `refused`.
    """

    files: tuple[NewFile, ...]
    used: tuple[str, ...]
    refused: tuple[RefusedFile, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """Make it by `make`. It can be pickled.

    `row_columns` are the physical names of the columns of row ids and row commit versions, None unless the rows of the
    table keep their ids. `reads_back` is False only in benchmarks.
    """

    config: TableConfiguration
    reading: ReadSpec
    schema: pyarrow.Schema
    """The schema of new files."""
    target_bytes: int
    encoding: Encoding
    row_columns: tuple[str, str] | None = None
    order: Ordering | None = None
    reads_back: bool = True
    group_rows: int = 1 << 20
    group_bytes: int = 128 << 20
    """Most rows and bytes in memory of a row group of a new file."""
    most_group_bytes: int = 256 << 20
    """A source with a row group of more bytes, without compression, is refused."""
    reading_back: ReadSpec | None = None
    """How new files are read, if they have other names than their sources."""
    clustering: tuple[ColumnPath, ...] = ()
    """The physical paths of the clustering columns, of which each file has statistics."""
    written_by: TableConfiguration | None = None
    """The configuration of the sources, if it is another one."""
    row_id_mark: int | None = None
    """The highest row id that was assigned; a file with a higher one is refused. None: nobody asks."""

    @classmethod
    def make(
        cls,
        config: TableConfiguration,
        *,
        target_bytes: int,
        order: Ordering | None = None,
        reads_back: bool = True,
        written_by: TableConfiguration | None = None,
        clustering: tuple[ColumnPath, ...] = (),
    ) -> RewriteSpec:
        """Describe a rewrite of files of a table. `written_by`: the configuration by which sources have other names of
        the same columns.

        Raises Unreadable (`schema.not-writable`) if files of the schema cannot be written, and Refused for an invalid
        property of their encoding.
        """
        columns = to_arrow.stored_columns(config)
        rows = _row_columns(config)
        schema = to_arrow.file_schema(config, columns)
        reading = _reading(config, columns, rows)
        return cls(
            config,
            reading if written_by is None else _reading(written_by, to_arrow.stored_columns(written_by), rows),
            schema if rows is None else _with_row_columns(schema, rows, config),
            target_bytes,
            Encoding.of(config.properties),
            rows,
            order,
            reads_back,
            reading_back=None if written_by is None else reading,
            clustering=clustering,
            written_by=written_by,
        )

    @property
    def ending(self) -> str:
        """The end of the names of new files."""
        return self.encoding.extension


def whole_row_spec(config: TableConfiguration) -> ReadSpec:
    """Return how all columns of a table are read, but those of types that are not read; where rows keep their ids, with
    these and the number of each row.
    """
    return _reading(config, to_arrow.read_columns(config.schema.fields if config.schema else ()), _row_columns(config))


def _row_columns(config: TableConfiguration) -> tuple[str, str] | None:
    """Return the columns that keep ids and versions of rows. Raises Unreadable if the table does not name them."""
    if not is_enabled(config):
        return None
    ids, versions = (config.properties.get(key) for key in COLUMN_PROPERTIES)
    if not ids or not versions:
        raise Unreadable("the table does not name its columns of row ids", code="rowtracking.column-names")
    return ids, versions


def _reading(
    config: TableConfiguration, columns: tuple[types.StructField, ...], rows: tuple[str, str] | None
) -> ReadSpec:
    """Return how the columns are read, with those of `rows` at the end."""
    schema = to_arrow.arrow_schema(columns)
    wanted = ReadSpec(columns, schema, schema, FileColumns(config.mapping_mode, config.physical_name))
    if rows is None:
        return wanted
    taken = {column.name for column in columns}
    names = _unused("row id", taken), _unused("row version", taken)
    more = row_id_fields(names, rows)
    whole = to_arrow.arrow_schema((*columns, *more))
    beside = {column.name: FileColumns("none", types.recorded_name) for column in more}
    return ReadSpec((*columns, *more), whole, whole, wanted.file_columns, beside=beside, row_ids=names)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _with_row_columns(schema: pyarrow.Schema, rows: tuple[str, str], config: TableConfiguration) -> pyarrow.Schema:
    is_iceberg = to_arrow.iceberg_compat(config) >= 3
    for name, field_id in zip(rows, _RESERVED_IDS, strict=True):
        metadata = {"PARQUET:field_id": str(field_id)} if is_iceberg else None
        schema = schema.append(pa.field(name, pa.int64(), metadata=metadata))
    return schema


# -- files that are refused --------------------------------------------------------------------------------------------

SPEC = "rewrite"
"""The name of the shared `RewriteSpec`."""

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
        self._alike: Any = None  # Any: a schema of Parquet
        self._marks: Mapping[bytes, bytes] | None = None
        self._suspects: Sequence[_Suspect] = ()

    def require(self, opened: OpenDataFile) -> bool:
        """Return whether the file is like the one before. Raises DataUnreadable for one that cannot be copied exactly,
        or not in bounded memory.
        """
        metadata = opened.parquet.metadata
        _require_small_groups(metadata, self._spec.most_group_bytes)
        schema, marks = metadata.schema, metadata.metadata
        is_alike = self._alike is not None and marks == self._marks and schema.equals(self._alike)
        if not is_alike:
            self._alike = None
            if (broken := broken_rule(self._spec.written_by or self._spec.config, opened)) is not None:
                raise DataUnreadable(broken.message, code=broken.rule.id)
            self._suspects = list(_suspects_of(self._spec, opened, marks))
            self._alike, self._marks = schema, marks
        for suspect in self._suspects:
            _check(suspect, opened)
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
        if statistics is not None and statistics.has_min_max:
            found = [statistics.max]
        else:
            batches = opened.parquet.read_leaves(_ROWS_AT_ONCE, group, [leaf])
            found = [pc.max(batch.column(0)).as_py() for batch in batches]
        highest = max((one for one in found if one is not None), default=mark)
        if highest > mark:
            raise DataUnreadable(
                f"it has row ids up to {highest}, but the high-water mark of row ids is {mark}", code=BEYOND_MARK
            )


def broken_rule(config: TableConfiguration, opened: OpenDataFile) -> Finding | None:
    """Return the first finding about a file's columns by which it is unknown what the file contains; None without."""
    if config.mapping_mode == "none":
        return None
    from deltacli.delta.footers.columns import FileSchema, leaves_of

    metadata = opened.parquet.metadata
    return broken_rule_of(config, FileSchema(opened.schema, leaves_of(metadata.schema)), metadata.num_rows)


def broken_rule_of(config: TableConfiguration, schema: FileSchema, rows: int) -> Finding | None:
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


def _suspects_of(spec: RewriteSpec, opened: OpenDataFile, metadata: Mapping[bytes, bytes] | None) -> Iterator[_Suspect]:
    """Yield the leaves of a file whose values have to be looked at. Raises DataUnreadable."""
    _require_read_types(spec, opened)
    wanted = spec.reading.columns[: spec.reading.of_table]
    found = spec.reading.file_columns.find(opened.schema, wanted)
    schema = opened.parquet.metadata.schema
    for column, place in zip(wanted, found, strict=True):
        # Once per column: a struct may have thousands of leaves.
        names = {one.name for one in types.types_within(column.data_type) if isinstance(one, types.PrimitiveType)}
        for leaf in place.leaves if place is not None else ():
            yield from _suspects(column, names, leaf, schema.column(leaf), metadata)


def _require_read_types(spec: RewriteSpec, opened: OpenDataFile) -> None:
    """Raise DataUnreadable for a file that has a column of a type that is not read, which a new one would lack."""
    fields = spec.config.schema.fields if spec.config.schema else ()
    for column in fields:
        unread = to_arrow.unread_type(column.data_type)
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


def _suspects(
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


def _check(suspect: _Suspect, opened: OpenDataFile) -> None:
    """Raise DataUnreadable if a value of a leaf is not exact."""
    for group in range(opened.parquet.metadata.num_row_groups):
        for batch in opened.parquet.read_leaves(_ROWS_AT_ONCE, group, [suspect.leaf]):
            for values in _innermost(batch.column(0)):
                if is_old(values) if suspect.is_hybrid else _has_nanoseconds(values):
                    raise DataUnreadable(f"column {suspect.column} {suspect.reason}", code=NOT_EXACT)


def _innermost(values: Any) -> Iterator[Any]:
    """Yield the values of the only leaf within arrays, maps and structs; keys are always read with the values."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _innermost(pc.cast(values, kind.value_type))
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _innermost(part)
    elif pa.types.is_map(kind):
        yield from _innermost(values.keys)
        yield from _innermost(values.items)
    elif pa.types.is_nested(kind):
        yield from _innermost(pc.list_flatten(values))
    else:
        yield values


def _has_nanoseconds(values: Any) -> bool:
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return False
    numbers = values.view(pa.int64())
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, 1_000), 1_000))
    return bool(pc.any(pc.not_equal(rest, 0)).as_py())


# -- outdated columns --------------------------------------------------------------------------------------------------

CONFIG = "config"
"""The name of the shared `TableConfiguration`."""


def find_dropped_columns(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether it has columns or nested fields that the shared configuration does not have, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_dropped, file, context) for file in piece]


def find_files_to_purge(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether it has columns that the shared configuration does not have, NaN in row groups whose
    bounds in the footer leave it out, or times that engines misread as INT96; True also where it cannot be read. A
    task. Raises PathExternal.
    """
    dropped = find_dropped_columns(piece, context)
    return [
        is_named or _has_bounds_beside_nan(file, context) or _has_misread_times(file, context)
        for file, is_named in zip(piece, dropped, strict=True)
    ]


def _has_bounds_beside_nan(file: DataFile, context: TaskContext) -> bool:
    """Return whether readers that order NaN above all numbers lose rows of a file by the bounds in its footer."""
    config: TableConfiguration = context.shared(CONFIG)
    fields = find_float_fields(config)
    if not fields:
        return False
    try:
        with open_data_file(context.files, file) as opened:
            if str(opened.parquet.metadata.created_by).startswith(_RIGHT_ABOUT_NAN):
                return False
            leaves = find_leaves(FileColumns(config.mapping_mode, config.physical_name), opened.schema, fields)
            return bool(find_bounds_beside_nan(opened, leaves))
    except DataUnreadable:
        return True


def _has_misread_times(file: DataFile, context: TaskContext) -> bool:
    """Return whether a file has timestamps of the type INT96 that some engines read as other times.

    Its values are read only if the statistics in the log allow such times, which they rarely do.
    """
    from deltacli.delta.stats.nanosecond_range import may_exceed_nanoseconds
    from deltacli.work.rows.int96_times import (
        find_int96_columns,
        find_timestamp_columns,
        has_times_beyond_nanoseconds,
        has_unit_in_arrow_schema,
    )

    config: TableConfiguration = context.shared(CONFIG)
    fields = find_timestamp_columns(config)
    if not fields or not may_exceed_nanoseconds(pa.array([file.stats], pa.string()), config)[0].as_py():
        return False
    try:
        with open_data_file(context.files, file) as opened:
            if has_unit_in_arrow_schema(opened):
                return False
            columns = FileColumns(config.mapping_mode, config.physical_name)
            return has_times_beyond_nanoseconds(opened, find_int96_columns(opened, columns, fields))
    except DataUnreadable:
        return True


_RIGHT_ABOUT_NAN = "parquet-mr"
"""The writer of Spark, whose bounds never leave NaN out. Its files need not be read."""


def find_older_types(piece: Sequence[DataFile], context: TaskContext) -> list[bool]:
    """Return for each file whether a type differs of the columns whose types the shared configuration has changed, True
    also where it cannot be read. A task. Raises PathExternal.
    """
    return [_has_any(_is_older, file, context) for file in piece]


_Leaf = tuple[ArrowType, types.DataType | None, types.StructField | None]
"""A type in a file, that of the same place of the table, and the innermost field there; None if there is none."""


def _has_any(is_wanted: Callable[[_Leaf], bool], file: DataFile, context: TaskContext) -> bool:
    config: TableConfiguration = context.shared(CONFIG)
    own = {(config.properties.get(key) or "").lower() for key in COLUMN_PROPERTIES}
    try:
        with open_data_file(context.files, file) as opened:
            stored = [field for field in opened.schema if field.name.lower() not in own]
            return any(map(is_wanted, _leaves(stored, config.schema or types.StructType(()), config)))
    except DataUnreadable:
        return True


def _is_dropped(leaf: _Leaf) -> bool:
    return leaf[2] is None


def _is_older(leaf: _Leaf) -> bool:
    stored, known, field = leaf
    if field is None or known is None or TYPE_CHANGES_KEY not in field.metadata:
        return False
    return not stored.equals(to_arrow.arrow_type(known))


def _leaves(stored: Sequence[ArrowField], known: types.StructType, config: TableConfiguration) -> Iterator[_Leaf]:
    by_name = {config.physical_name(field).lower(): field for field in known.fields}
    for one in stored:
        field = by_name.get(one.name.lower())
        yield from _leaves_of(one.type, None if field is None else field.data_type, field, config)


def _leaves_of(
    stored: ArrowType, known: types.DataType | None, field: types.StructField | None, config: TableConfiguration
) -> Iterator[_Leaf]:
    match known:
        case types.StructType() if pa.types.is_struct(stored):
            yield from _leaves(list(stored), known, config)
        case types.ArrayType(element, _) if pa.types.is_list(stored):
            yield from _leaves_of(stored.value_type, element, field, config)
        case types.MapType(key, value, _) if pa.types.is_map(stored):
            yield from _leaves_of(stored.key_type, key, field, config)
            yield from _leaves_of(stored.item_type, value, field, config)
        case _:
            yield stored, known, field
