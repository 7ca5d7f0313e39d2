"""Tables with shredded variants: their rows, what `validate` reports of them, and which features it calls unused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable
from tests.rules.corruptions_data_schema import other_x, table_with_x
from tests.rules.corruptions_widening import protocol_of
from tests.rules.data_table import DataTable
from tests.rules.table_builder import TableBuilder
from tests.rules.test_corruptions import inspect
from tests.support.variants import decode, encode, group_type, metadata_of, shredded

SHREDDING = "delta.enableVariantShredding"
FEATURES = ("variantType", "variantShredding")
NAMES = ("a", "b")
VALUES: list[Any] = [{"a": 1, "b": "x"}, {"a": "text"}, 5, None, [1]] * 2


def variants(schema: Any, values: list[Any] = VALUES) -> pa.Array:
    """Variants as a file shreds them; with None for a schema, as it stores them whole."""
    rows = [shredded(value, schema, NAMES) | {"metadata": metadata_of(NAMES)} for value in values]
    return pa.array(rows, group_type(schema, is_top=True))


def shredded_table(*features: str) -> DataTable:
    """A table whose column `x` is shredded in its last file."""
    return other_x(table_with_x("variant", variants(None), protocol=protocol_of(*features)), variants({"a": "int64"}))


def found_in(table: TableBuilder, tmp_path: Path, level: str = "data") -> list[tuple[str, str]]:
    """The rules and the severities that `validate` finds."""
    found = inspect(table.write(tmp_path / "t"), level)
    assert () == found.not_checked
    return [(finding.rule.id, str(finding.severity)) for finding in found.findings]


def test_rows_are_the_same_shredded_or_not(tmp_path: Path) -> None:
    root = shredded_table(*FEATURES).write(tmp_path / "t")

    rows = open_table(str(root)).snapshot().scan(columns=["x"]).to_arrow().column("x").to_pylist()

    assert len(rows) % len(VALUES) == 0
    assert VALUES * (len(rows) // len(VALUES)) == [decode(row) for row in rows]


def test_a_shredded_file_is_silent_while_the_property_is_on(tmp_path: Path) -> None:
    table = shredded_table(*FEATURES)
    table.configure({SHREDDING: "true"})

    assert [] == found_in(table, tmp_path)


@pytest.mark.parametrize("level", ["log", "storage", "footers", "data"])
def test_a_feature_is_not_called_unused_while_any_file_may_be_shredded(level: str, tmp_path: Path) -> None:
    expected = [] if level in ("log", "storage") else [("data.variant-shape", "info")]

    assert expected == found_in(shredded_table(*FEATURES), tmp_path, level)


def test_a_feature_without_any_variant_is_called_unused(tmp_path: Path) -> None:
    assert [("feature.supported-not-used", "info")] == found_in(DataTable(protocol=protocol_of(*FEATURES)), tmp_path)


def test_shredding_that_the_protocol_does_not_announce_is_an_error(tmp_path: Path) -> None:
    assert [("data.variant-shape", "error")] == found_in(shredded_table("variantType"), tmp_path)


def damaged(kind: Any, **row: Any) -> DataTable:
    """A table whose last file has one wrong row ten times."""
    table = table_with_x("variant", variants(None), protocol=protocol_of(*FEATURES))
    table.configure({SHREDDING: "true"})
    row = {"metadata": metadata_of(NAMES), "value": None} | row
    fields = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary()), ("typed_value", kind)]
    times = pa.types.is_timestamp(kind)
    return other_x(table, pa.array([row] * 10, pa.struct(fields)), use_deprecated_int96_timestamps=times)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (damaged(pa.int64(), value=encode(1, NAMES), typed_value=2), "it has both a value and a typed value"),
        (damaged(pa.int64(), typed_value=None), "both its value and its typed value are null"),
        (damaged(pa.uint8(), typed_value=2), "uint8, which is not a type of variants"),
        (damaged(pa.timestamp("us"), typed_value=2), "INT96, which is not a type of variants"),
    ],
    ids=["both", "neither", "type", "INT96"],
)
def test_a_file_that_contradicts_itself_is_refused_and_found(table: DataTable, reason: str, tmp_path: Path) -> None:
    assert [("data.variant-shape", "error")] == found_in(table, tmp_path)
    with pytest.raises(DataUnreadable, match=reason) as raised:
        open_table(str(tmp_path / "t")).snapshot().scan().to_arrow()
    assert "data.variant-shape" == raised.value.code


def protocol(*features: str) -> dict[str, Any]:
    """A protocol with a feature of writers, or of readers as well."""
    is_read = "deletionVectors" in features
    return protocol_of(*features) if is_read else protocol_of(writer_only=features)


@pytest.mark.parametrize(
    ("features", "action"),
    [
        (("deletionVectors",), {"deletionVector": {"storageType": "u", "pathOrInlineDv": "ab", "sizeInBytes": 1}}),
        (("rowTracking", "domainMetadata"), {"baseRowId": 0, "defaultRowCommitVersion": 3}),
    ],
    ids=["vector", "row id"],
)
def test_a_feature_that_only_an_add_uses_is_not_called_unused(
    features: tuple[str, ...], action: dict[str, Any], tmp_path: Path
) -> None:
    table = TableBuilder(protocol=protocol(*features))
    assert ("feature.supported-not-used", "info") in found_in(table, tmp_path / "before", "log")

    table.add(3).update(action)

    assert ("feature.supported-not-used", "info") not in found_in(table, tmp_path, "log")


def test_change_data_uses_its_feature_while_the_property_is_off(tmp_path: Path) -> None:
    table = TableBuilder(protocol=protocol("changeDataFeed"))
    table.commit(
        {"cdc": {"path": "_change_data/x.parquet", "partitionValues": {"p": "a"}, "size": 1, "dataChange": False}}
    )

    assert ("feature.supported-not-used", "info") not in found_in(table, tmp_path, "log")
