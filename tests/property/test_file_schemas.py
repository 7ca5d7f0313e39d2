"""Findings about the columns of a data file match how its rows are read: exactly the refused ones are reported."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import DataUnreadable
from deltacli.delta.footers.columns import read_schema
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.file_columns import FileColumns, absent
from deltacli.delta.schema.to_arrow import arrow_field
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.files import data_files, data_types
from deltacli.rules.files import data_files as data_columns
from deltacli.rules.files import data_files as mapping_files
from deltacli.rules.framework.base import Finding, Level, Severity
from deltacli.rules.framework.data_file_views import FileSchemaView
from deltacli.storage import open_storage
from tests.support.effort import examples
from tests.support.reading import NOW_MS
from tests.support.small_tables import small_tables
from tests.support.validating import validate_table

TYPES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(10,0)": pa.decimal128(10, 0),
    "decimal(20,0)": pa.decimal128(20, 0),
    "decimal(38,10)": pa.decimal128(38, 10),
}
FOREIGN = [
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.decimal128(7, 3), pa.decimal256(40, 2)),
    *(pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("ns"), pa.time64("us"), pa.binary(3)),
    *(pa.null(), pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), pa.struct([("x", pa.int32())])),
    *(pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.struct([("list", pa.list_(pa.int64()))])),
]
STRICT = {
    "data.type-widening-unrecorded": "readers of the wider type alone fail",
    "data.timestamp-not-utc": "the zone is guessed",
    "mapping.file-without-field-ids": "readers by id alone find nothing",
    "mapping.field-id-mismatch": "readers by id and readers by name differ",
}
"""Errors of files that are read all the same, and why they are errors."""

NAMES = ("a", "b", "Mixed")
CHECKS = (
    data_types.types_of_columns,
    data_columns.columns_of_files,
    data_columns.partition_columns_of_files,
    data_files.old_lists,
    mapping_files.field_ids_of_files,
)


def data_types_of(depth: int) -> st.SearchStrategy[DataType]:
    """Any type of a table, nested so deep."""
    leaf = st.sampled_from([*TYPES, "variant", "void"]).map(PrimitiveType)
    if not depth:
        return leaf
    inner = data_types_of(depth - 1)
    return st.one_of(
        leaf,
        fields_of(depth - 1).map(StructType),
        st.builds(ArrayType, inner, st.just(True)),
        st.builds(MapType, st.sampled_from(list(TYPES)).map(PrimitiveType), inner, st.just(True)),
    )


@st.composite
def fields_of(draw: st.DrawFn, depth: int) -> tuple[StructField, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    kinds = [draw(data_types_of(depth)) for _ in names]
    return tuple(
        StructField(name, kind, kind == PrimitiveType("void") or draw(st.booleans()), {})
        for name, kind in zip(names, kinds, strict=True)
    )


def numbered(fields: Iterable[StructField], ids: Iterable[int]) -> tuple[StructField, ...]:
    """The fields with ids and physical names of column mapping, at every depth."""
    found = []
    for field in fields:
        identity = next(iter(ids))
        keys = {"delta.columnMapping.id": identity, "delta.columnMapping.physicalName": f"col-{identity}"}
        found.append(StructField(field.name, _numbered(field.data_type, ids), field.nullable, keys))
    return tuple(found)


def _numbered(kind: DataType, ids: Iterable[int]) -> DataType:
    match kind:
        case StructType(fields):
            return StructType(numbered(fields, ids))
        case ArrayType(element, contains_null):
            return ArrayType(_numbered(element, ids), contains_null)
        case MapType(key, value, contains_null):
            return MapType(key, _numbered(value, ids), contains_null)
    return kind


class Foreign:
    """Makes the types of a file from those of a table, mostly the right ones."""

    def __init__(self, draw: st.DrawFn, config: TableConfiguration) -> None:
        self._draw, self._config = draw, config

    def _seldom(self) -> bool:
        return bool(self._draw(st.integers(0, 9)) == 0)

    def fields(self, columns: Iterable[StructField]) -> list[Any]:  # Any: Arrow fields
        found = []
        for column in columns:
            if (column.data_type == PrimitiveType("void") or self._seldom()) and not self._seldom():
                continue
            name = self._config.physical_name(column)
            for spelled in (name.upper() if self._seldom() else name, *([name.swapcase()] if self._seldom() else [])):
                found.append(self._field(spelled, self.kind(column.data_type), self._id(column)))
        if self._seldom():
            found.append(pa.field("more", pa.int32()))
        return found or [pa.field("only", pa.int32())]

    def _field(self, name: str, kind: Any, identity: dict[str, str] | None = None) -> Any:  # Any: Arrow fields
        return pa.field(name, kind, pa.types.is_null(kind) or self._draw(st.booleans()), identity)

    def _id(self, column: StructField) -> dict[str, str] | None:
        identity = column.metadata.get("delta.columnMapping.id")
        if identity is None or self._seldom():
            return None
        return {"PARQUET:field_id": str(self._draw(st.integers(1, 5)) if self._seldom() else identity)}

    def kind(self, data_type: DataType) -> Any:
        if self._seldom():
            return self._draw(st.sampled_from([*TYPES.values(), *FOREIGN]))
        match data_type:
            case StructType(fields):
                return pa.struct(self.fields(fields))
            case ArrayType(element):
                return pa.list_(self._field("element", self.kind(element)))
            case MapType(PrimitiveType(key), value):
                return pa.map_(TYPES[key], self.kind(value))
            case PrimitiveType("variant"):
                return FOREIGN[-5]
            case PrimitiveType("void"):
                return pa.int32()
            case PrimitiveType(name):
                return TYPES[name]
        raise AssertionError(data_type)


@st.composite
def cases(draw: st.DrawFn) -> tuple[TableConfiguration, Any]:
    """What is in force, and the schema of a file."""
    fields = draw(fields_of(2))
    mode = draw(st.sampled_from(["none", "none", "name", "id"]))
    properties = {}
    if mode != "none":
        fields = numbered(fields, iter(range(1, 1000)))
        properties = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "1000"}
    metadata = Metadata("t", None, None, "parquet", {}, None, (), properties, None)
    config = TableConfiguration(protocol=Protocol(2, 5), metadata=metadata, schema=StructType(fields))
    return config, pa.schema(Foreign(draw, config).fields(fields))


def one_value(kind: Any) -> Any:  # Any: Arrow arrays
    """An array of one value that every other type can take, with no null in it."""
    types, ends = pa.types, pa.array([0, 1], pa.int32())
    if types.is_struct(kind):
        return pa.StructArray.from_arrays([one_value(field.type) for field in kind], fields=list(kind))
    if types.is_list(kind):
        return pa.ListArray.from_arrays(ends, one_value(kind.value_type), type=kind)
    if types.is_map(kind):
        return pa.MapArray.from_arrays(ends, one_value(kind.key_type), one_value(kind.item_type), type=kind)
    if types.is_null(kind):
        return pa.nulls(1)
    if types.is_fixed_size_binary(kind):
        return pa.array([b"0" * kind.byte_width], kind)
    if types.is_binary(kind) or types.is_string(kind):
        return pa.array([b"0"], kind)
    return pa.array([False if types.is_boolean(kind) else Decimal(0) if types.is_decimal(kind) else 0], kind)


def parquet_of(schema: Any) -> bytes:  # Any: an Arrow schema
    """A file of one row."""
    table = pa.Table.from_arrays([one_value(field.type) for field in schema], schema=schema)
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    return sink.getvalue()


def view_of(data: bytes, config: TableConfiguration) -> FileSchemaView:
    footer = FooterReader().read(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    return FileSchemaView(read_schema(footer.schema), config, Place("log", None, None, "part-0"), 1, footer.rows)


def read(data: bytes, config: TableConfiguration) -> None:
    """Read the row as `work/row_reader.py` does. Raises DataUnreadable."""
    assert config.schema is not None
    columns = FileColumns(config.mapping_mode, config.physical_name)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        found = columns.find(file.schema_arrow, config.schema.fields)
        for column, place in zip(config.schema.fields, found, strict=True):
            wanted = arrow_field(column)
            if place is None:
                absent(1, 1, wanted, column.name)
                continue
            (batch,) = file.reader.iter_batches(1, [0], sorted(place.leaves), use_threads=False)
            values = batch.column(0)
            values = values if place.convert is None else place.convert(values)
            assert values.type.equals(wanted.type)
            values.validate(full=True)


def is_refused(data: bytes, config: TableConfiguration) -> bool:
    try:
        read(data, config)
    except DataUnreadable:
        return True
    return False


@examples(100)
@given(cases())
def test_exactly_the_refused_files_have_an_error(case: tuple[TableConfiguration, Any]) -> None:
    config, schema = case
    data = parquet_of(schema)
    view = view_of(data, config)

    found = [finding for check in CHECKS for finding in check(view)]

    errors = {finding.rule.id for finding in found if finding.severity is Severity.ERROR}
    refused = is_refused(data, config)
    shown = "\n".join(f"{finding.severity} {finding.rule.id} {finding.message}" for finding in found)
    assert not refused or errors or nested_required_is_missing(found, config), shown
    assert refused or errors <= STRICT.keys(), shown
    told = Counter((finding.rule.id, finding.place.key) for finding in found)
    assert [] == [key for key, count in told.items() if count > 1]


def nested_required_is_missing(found: Iterable[Finding], config: TableConfiguration) -> bool:
    """True if a field is missing that may not be null where there is a struct: only rows tell."""
    return any(finding.rule.id == "data.column-missing" and "." in str(finding.place.key) for finding in found)


@given(st.data())
@examples(15)
def test_no_file_of_a_healthy_table_has_an_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        table = data.draw(small_tables(Path(root)))

        found = validate_table(open_storage(str(table.root)), EmbeddedEngine(), level="footers", now_ms=NOW_MS)

    errors = [finding for finding in found.findings if finding.severity is Severity.ERROR]
    meant = {"mapping.file-without-field-ids"} if table.mapping == "id" else set()  # some looks leave the ids out
    of_footers = {finding.rule.id for finding in errors if finding.rule.level is Level.FOOTERS}
    assert set() == of_footers - meant
