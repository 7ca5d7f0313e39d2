"""Edges of rules about the columns of data files: what is reported, for which column, with which severity."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption

from deltacli.delta.footers.columns import read_schema
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import parse_schema
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.files import data_files, data_types
from deltacli.rules.files import data_files as data_columns
from deltacli.rules.files import data_files as mapping_files
from deltacli.rules.files import data_files as widening_files
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.data_file_views import AllFootersView, FileSchemaView, FootersView, LiveAdds
from deltacli.storage import open_storage
from tests.rules.corruptions_data_schema import widened_table
from tests.rules.corruptions_mapping import MAX_ID, MODE, array_of, mapped
from tests.rules.corruptions_widening import change, changed
from tests.rules.data_table import DataTable, encoded, rows_of
from tests.rules.parquet_edits import two_level_list, without_annotation
from tests.rules.table_builder import NOW_MS, Action, column, struct
from tests.support.validating import validate_table

CHECKS = (
    data_types.types_of_columns,
    data_columns.columns_of_files,
    data_columns.partition_columns_of_files,
    data_files.old_lists,
    mapping_files.field_ids_of_files,
    mapping_files.names_beside_ids,
)
UTC = pa.timestamp("us", "UTC")
ONE_IN_ANOTHER = pa.struct([("y", pa.int64())])


def map_of(key: Any, value: Any) -> Action:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def config_of(
    *fields: Action,
    features: Sequence[str] = (),
    properties: dict[str, str] | None = None,
    partition: Sequence[str] = (),
) -> TableConfiguration:
    text = json.dumps(struct(*fields))
    raw = {"id": "x", "format": {}, "schemaString": text, "partitionColumns": list(partition)}
    metadata = read_metadata(raw | {"configuration": properties or {}}, "")
    return TableConfiguration(
        protocol=Protocol(3, 7, tuple(features), tuple(features)), metadata=metadata, schema=parse_schema(text)
    )


def view_of(data: bytes, config: TableConfiguration, rows: int = 10) -> FileSchemaView:
    footer = FooterReader().read(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    return FileSchemaView(read_schema(footer.schema), config, Place("log", None, 3, "part-0"), 12, rows)


def told(config: TableConfiguration, file: Sequence[pa.Field] | bytes, rows: int = 10, **options: Any) -> list[Finding]:
    if not isinstance(file, bytes):
        file = encoded(pa.schema(file).empty_table(), store_schema=False, **options)
    view = view_of(file, config, rows)
    return [finding for check in CHECKS for finding in check(view)]


def short(found: Sequence[Finding]) -> set[str]:
    """Each finding as `E data.type-mismatch x string long`: its severity, rule, column, what was seen and expected."""
    return {f"{f.severity[0].upper()} {f.rule.id} {f.place.key} | {f.seen} | {f.expected}" for f in found}


def pair(data_type: Any, kind: pa.DataType, **options: Any) -> set[str]:
    """Return the findings of a column `x` whose type differs in a file."""
    config = config_of(column("x", data_type))
    return short(told(config, [pa.field("x", kind)], **options))


UNRECORDED = "data.type-widening-unrecorded x"


@pytest.mark.parametrize(
    ("data_type", "kind", "expected"),
    [
        ("long", pa.int64(), set()),
        ("byte", pa.int32(), set()),
        ("string collate X", pa.string(), set()),
        ("varchar(9)", pa.string(), set()),
        ("string", pa.binary(), set()),
        ("long", pa.null(), set()),
        ("interval day", pa.string(), set()),
        ("timestamp_ntz", pa.timestamp("us"), set()),
        ("integer", pa.int8(), {f"W {UNRECORDED} | byte | integer"}),
        ("long", pa.int32(), {f"E {UNRECORDED} | integer | long"}),
        ("double", pa.float32(), {f"E {UNRECORDED} | float | double"}),
        ("timestamp_ntz", pa.date32(), {f"E {UNRECORDED} | date | timestamp_ntz"}),
        ("decimal(12,2)", pa.decimal128(10, 2), {f"E {UNRECORDED} | decimal(10,2) | decimal(12,2)"}),
        ("decimal(10,0)", pa.int32(), {f"E {UNRECORDED} | integer | decimal(10,0)"}),
        ("decimal(9,0)", pa.int32(), {"E data.type-mismatch x | integer | decimal(9,0)"}),
        ("decimal(10,2)", pa.decimal128(10, 3), {"E data.decimal-mismatch x | decimal(10,3) | decimal(10,2)"}),
        ("integer", pa.int64(), {"E data.type-mismatch x | long | integer"}),
        ("long", pa.uint32(), {"W data.type-mismatch x | unsigned integer of 32 bits | long"}),
        ("double", pa.float16(), {"W data.type-mismatch x | halffloat | double"}),
        ("timestamp", pa.int64(), {"E data.type-mismatch x | long | timestamp"}),
        (
            "timestamp",
            pa.timestamp("us"),
            {"E data.timestamp-not-utc x | isAdjustedToUTC=false | isAdjustedToUTC=true"},
        ),
        ("timestamp_ntz", UTC, {"E data.timestamp-not-utc x | isAdjustedToUTC=true | isAdjustedToUTC=false"}),
        ("timestamp", pa.timestamp("ns", "UTC"), {"W data.timestamp-unit x | nanoseconds | microseconds"}),
        ("void", pa.int32(), {"W data.void-materialised x | integer | no column"}),
        (array_of("void"), pa.list_(pa.int32()), {"E data.void-materialised x.element | integer | nulls"}),
        ("long", pa.struct([("y", pa.int64())]), {"E data.type-mismatch x | struct | long"}),
        (array_of("long"), pa.int64(), {"E data.type-mismatch x | long | array<long>"}),
        (array_of("long"), pa.list_(pa.string()), {"E data.type-mismatch x.element | string | long"}),
        (
            map_of("string", "long"),
            pa.map_(pa.int32(), pa.int32()),
            {
                "E data.type-mismatch x.key | integer | string",
                "E data.type-widening-unrecorded x.value | integer | long",
            },
        ),
        ("variant", pa.string(), {"E data.variant-shape x | string | struct of metadata and value"}),
    ],
)
def test_one_type_against_another(data_type: Any, kind: pa.DataType, expected: set[str]) -> None:
    assert expected == pair(data_type, kind)


def test_int96_is_reported_but_not_as_a_type_without_a_zone() -> None:
    expected = {"I data.timestamp-unit x | INT96 | INT64 in microseconds"}

    assert expected == pair("timestamp", UTC, use_deprecated_int96_timestamps=True)
    assert expected == pair("timestamp_ntz", pa.timestamp("us"), use_deprecated_int96_timestamps=True)


def test_int96_is_an_error_where_iceberg_reads_along() -> None:
    fields = [mapped("x", "timestamp", 1, "x"), mapped("p", "string", 2, "p")]
    properties = {MODE: "name", MAX_ID: "2", "delta.enableIcebergCompatV2": "true"}
    features = ("columnMapping", "icebergCompatV2")
    config = config_of(*fields, features=features, properties=properties, partition=["p"])
    file = [pa.field("x", UTC, metadata={"PARQUET:field_id": "1"})]

    found = told(config, file, use_deprecated_int96_timestamps=True)

    unit = "E data.timestamp-unit x | INT96 | INT64 in microseconds"
    assert {unit, "E data.partition-column-missing p | absent | None"} == short(found)
    assert set() == short(told(config, [*file, pa.field("p", pa.string())]))


def test_a_recorded_change_explains_only_the_narrower_type() -> None:
    nested = changed("x", array_of("long"), change("short", "integer", "element"), change("integer", "long", "element"))
    config = config_of(nested, changed("y", "double", change("float", "double")))

    def of(element: pa.DataType, y: pa.DataType) -> set[str]:
        return short(told(config, [pa.field("x", pa.list_(element)), pa.field("y", y)]))

    assert set() == of(pa.int32(), pa.float32())
    assert set() == of(pa.int16(), pa.float64())
    assert {"E data.type-widening-unrecorded y | integer | double"} == of(pa.int64(), pa.int32())


def test_only_the_first_bad_level_of_a_column_is_reported() -> None:
    inner = struct(column("a", "long"), column("b", array_of(struct(column("c", "decimal(5,2)")))))
    config = config_of(column("s", inner))
    kind = pa.struct([("a", pa.string()), ("b", pa.list_(pa.struct([("c", pa.decimal128(6, 3)), ("d", pa.int8())])))])

    found = told(config, [pa.field("s", kind)])

    assert {
        "E data.type-mismatch s.a | string | long",
        "E data.decimal-mismatch s.b.element.c | decimal(6,3) | decimal(5,2)",
        "I data.column-unknown s.b.element.d | d | None",
    } == short(found)
    assert "column s.a of type long is string in part-0 and 11 other files" == found[0].message
    assert ("log", None, 3, "s.a") == found[0].place


@pytest.mark.parametrize(("nullable", "rows", "letter"), [(True, 10, "I"), (False, 10, "E"), (False, 0, "I")])
def test_a_missing_column_is_an_error_where_rows_must_have_it(nullable: bool, rows: int, letter: str) -> None:
    config = config_of(column("x", "long", nullable=nullable))

    assert {f"{letter} data.column-missing x | absent | long"} == short(told(config, [], rows))


@pytest.mark.parametrize(("nullable_in_file", "letter"), [(True, "I"), (False, "E")])
def test_a_missing_field_is_an_error_where_its_struct_is_never_null(nullable_in_file: bool, letter: str) -> None:
    config = config_of(column("s", struct(column("x", "long", nullable=False), column("y", "long"))))
    file = [pa.field("s", pa.struct([("y", pa.int64())]), nullable_in_file)]

    assert {f"{letter} data.column-missing s.x | absent | long"} == short(told(config, file))


def test_columns_of_engines_and_of_partitions_are_expected() -> None:
    properties = {"delta.rowTracking.materializedRowIdColumnName": "own-ids"}
    config = config_of(column("x", "long"), column("p", "string"), properties=properties, partition=["p"])
    names = ("_change_type", "_commit_version", "own-ids", "_row-id-col-7", "p", "_metadata", "more")

    found = told(config, [pa.field(name, pa.int64()) for name in ("x", *names)])

    assert {"I data.column-unknown more | more | None"} == short(found)


def test_names_are_compared_exactly_first() -> None:
    config = config_of(column("x", "long"))

    def of(*names: str) -> set[str]:
        return short(told(config, [pa.field(name, pa.int64()) for name in names]))

    assert {"W data.case-mismatch x | X | x"} == of("X")
    assert {"I data.column-unknown X | X | None"} == of("x", "X")
    assert {"E data.case-mismatch x | x, x | one column"} == of("x", "x")


def test_layouts_of_old_writers_are_reported() -> None:
    config = config_of(column("x", array_of("long")))
    lists = pa.table({"x": pa.array([[1]], pa.list_(pa.field("element", pa.int64(), nullable=False)))})
    maps = pa.table({"x": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})

    of_map = short(told(config_of(column("x", map_of("string", "long"))), without_annotation(maps, "x")))

    layout = "data.nested-layout x"
    assert {f"I {layout} | 2 levels | 3 levels"} == short(told(config, two_level_list(lists, "x")))
    assert {f"E {layout} | a group without the annotation of a map | map<string, long>"} == of_map
    assert {f"E {layout} | a group without the annotation of a list | array<long>"} == short(
        told(config, without_annotation(lists, "x"))
    )


@pytest.mark.parametrize(
    ("feature", "is_on", "expected"),
    [
        ("variantShredding", True, None),
        ("variantShredding-preview", True, None),
        ("variantShredding", False, Severity.INFO),
        (None, True, Severity.ERROR),
    ],
)
def test_shredded_variants_need_their_feature(feature: str | None, is_on: bool, expected: Severity | None) -> None:
    properties = {"delta.enableVariantShredding": "true"} if is_on else {}
    features = ("variantType", *([feature] if feature else []))
    config = config_of(column("v", "variant"), features=features, properties=properties)
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])

    found = {(finding.rule.id, finding.severity) for finding in told(config, [pa.field("v", kind)])}

    assert ({("data.variant-shape", expected)} if expected else set()) == found


# -- column mapping --------------------------------------------------------------------------------------------------


def mapped_config(mode: str) -> TableConfiguration:
    nested: dict[str, Any] = {"delta.columnMapping.nested.ids": {"col-4.element": 5}}
    inner = struct(mapped("a", "long", 3))
    fields = [mapped("x", "long", 1), mapped("s", inner, 2), mapped("xs", array_of("long"), 4, **nested)]
    return config_of(*fields, features=("columnMapping",), properties={MODE: mode, MAX_ID: "9"})


def mapped_file(x: int | None = 1, a: int | None = 3, element: int | None = 5, *more: pa.Field) -> list[pa.Field]:
    def field(name: str, kind: pa.DataType, identity: int | None) -> pa.Field:
        return pa.field(name, kind, metadata=None if identity is None else {"PARQUET:field_id": str(identity)})

    inner = pa.struct([field("col-3", pa.int64(), a)])
    xs = pa.list_(field("element", pa.int64(), element))
    return [field("col-1", pa.int64(), x), field("col-2", inner, 2), field("col-4", xs, 4), *more]


@pytest.mark.parametrize(
    ("mode", "ids", "expected"),
    [
        ("name", (1, 3, 5), set()),
        ("id", (1, 3, None), set()),
        ("name", (None, None, None), set()),
        ("id", (1, None, 5), {"E mapping.file-without-field-ids s.a | no field id | 3"}),
        ("name", (1, 8, 5), {"E mapping.field-id-mismatch s.a | 8 | 3"}),
        ("id", (1, 8, 5), {"E mapping.field-id-mismatch s.a | 8 | 3"}),
        ("name", (1, 3, 7), {"E mapping.field-id-mismatch xs.element | 7 | 5"}),
    ],
)
def test_field_ids(mode: str, ids: tuple[int | None, ...], expected: set[str]) -> None:
    assert expected == short(told(mapped_config(mode), mapped_file(*ids)))


def test_names_are_a_warning_where_ids_count_and_an_id_at_another_name_does_where_names_do() -> None:
    file = [pa.field("price", pa.int64(), metadata={"PARQUET:field_id": "1"}), *mapped_file()[1:]]

    assert {"W mapping.file-with-other-names x | price | col-1"} == short(told(mapped_config("id"), file))
    assert {"E mapping.field-id-mismatch x | price | 1"} == short(told(mapped_config("name"), file))


def test_dropped_columns_are_expected_under_column_mapping() -> None:
    def more(identity: int | None) -> set[str]:
        keys = None if identity is None else {"PARQUET:field_id": str(identity)}
        return short(told(mapped_config("name"), mapped_file(1, 3, 5, pa.field("old", pa.int64(), metadata=keys))))

    assert set() == more(9)
    assert set() == more(None)
    assert {"I data.column-unknown old | old | None"} == more(10)


# -- what footers count, and what holds over all of them -------------------------------------------------------------


def inspect(table: DataTable, root: Path, *, level: str = "footers", **options: Any) -> set[str]:
    storage = open_storage(str(table.write(root / "t")))
    found = validate_table(storage, EmbeddedEngine(), level=level, now_ms=NOW_MS, **options)
    return {finding.rule.id for finding in found.findings}


def test_changes_are_needed_as_long_as_one_file_has_an_older_type(tmp_path: Path) -> None:
    table = widened_table(pa.array([7] * 10, pa.int64()))
    table.rewrite(3, rows_of(4).append_column("x", pa.array([7] * 10, pa.int32())))

    assert set() == inspect(table, tmp_path)


def test_for_some_files_it_is_unknown_whether_changes_are_needed(tmp_path: Path) -> None:
    table = widened_table(pa.array([7] * 10, pa.int64()))

    assert set() == inspect(table, tmp_path / "sample", sample=0.5)
    table.replace_bytes(3, bytes(1000))
    assert {"data.not-parquet"} == inspect(table, tmp_path / "fault")


class _Keys(encryption.KmsClient):  # type: ignore[misc]
    """Wraps keys in themselves."""

    def wrap_key(self, key: bytes, _master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _master: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize("is_plain", [True, False], ids=["plain footer", "encrypted footer"])
def test_a_file_that_pyarrow_encrypted_is_encrypted_and_not_damaged(is_plain: bool, level: str, tmp_path: Path) -> None:
    how = encryption.EncryptionConfiguration(footer_key="f", column_keys={"k": ["id"]}, plaintext_footer=is_plain)
    factory = encryption.CryptoFactory(lambda _: _Keys())
    keys = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    written = io.BytesIO()
    pq.write_table(rows_of(3), written, encryption_properties=keys)
    table = widened_table(pa.array([7] * 10, pa.int64()))
    table.replace_bytes(3, written.getvalue())

    assert {"data.encrypted"} == inspect(table, tmp_path, level=level) & {"data.encrypted", "data.not-parquet"}


@pytest.mark.parametrize(("from_type", "is_told"), [("integer", True), ("date", False)])
def test_partition_values_keep_the_spelling_of_their_older_type(from_type: str, is_told: bool) -> None:
    to_type = {"integer": "long", "date": "timestamp_ntz"}[from_type]
    config = config_of(column("x", "long"), changed("p", to_type, change(from_type, to_type)), partition=["p"])
    view = view_of(encoded(pa.table({"x": [1]})), config)
    of_all = AllFootersView(Place("log"), config, [view], True, {})

    assert is_told == bool(list(widening_files.changes_that_nobody_needs(of_all)))


@pytest.mark.parametrize(
    ("schema", "kind", "is_told"),
    [
        (column("x", "long", nullable=False), pa.int64(), True),
        (column("x", "long"), pa.int64(), False),
        (column("x", struct(column("y", "long", nullable=False)), nullable=False), ONE_IN_ANOTHER, True),
        (column("x", struct(column("y", "long", nullable=False))), ONE_IN_ANOTHER, False),
        (column("x", array_of("long"), nullable=False), pa.list_(pa.int64()), False),
    ],
)
def test_nulls_are_reported_if_they_certainly_violate_a_column(
    schema: Action, kind: pa.DataType, is_told: bool
) -> None:
    config = config_of(schema)

    found = nulls_told(config, pa.table({"x": pa.array([None], kind)}), None)

    assert [("1", "0")] * is_told == [(finding.seen, finding.expected) for finding in found]


@pytest.mark.parametrize(("deleted", "is_told"), [(1, True), (2, False), (3, False)])
def test_nulls_may_be_in_the_deleted_rows(deleted: int, is_told: bool) -> None:
    rows = pa.table({"x": pa.array([1, None, 2, None], pa.int64())})

    found = nulls_told(config_of(column("x", "long", nullable=False)), rows, deleted)

    assert ["column x must not be null, and has 2 nulls in part-0"] * is_told == [one.message for one in found]


def nulls_told(config: TableConfiguration, rows: pa.Table, deleted: int | None) -> list[Finding]:
    """Return the findings of a file of two row groups with some rows deleted."""
    data = encoded(rows, row_group_size=2)
    footer = FooterReader().read(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    add = {"path": "part-0", "deletionVector": None if deleted is None else {"cardinality": deleted}}
    live = LiveAdds(pa.RecordBatch.from_pylist([add], schema=action_schemas().add), [3], [None], "")
    view = FootersView(live, [footer], read_schema(footer.schema), config)
    return list(data_columns.nulls_in_required_columns(view))
