"""Columns that rows can be ordered by, and those by which no file could be skipped."""

from __future__ import annotations

import json

import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.clustering.order_columns import order_columns
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import parse_schema

COLUMNS = {
    "a": "long",
    "p": "date",
    "s": {
        "type": "struct",
        "fields": [{"name": "b.c", "type": "string", "nullable": True, "metadata": {}}],
    },
    "flag": "boolean",
    "raw": "binary",
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "icu": "string",
    "v": "variant",
    "place": "geometry(OGC:CRS84)",
    "span": "interval year to month",
    "late": "timestamp",
}
COLLATED = {"__COLLATIONS": {"icu": "icu.UNICODE_CI"}}


def config(properties: dict[str, str]) -> TableConfiguration:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": COLLATED if name == "icu" else {}}
        for name, kind in COLUMNS.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = Metadata("id", None, None, "parquet", {}, schema, ("p",), properties, None)
    return TableConfiguration(protocol=Protocol(1, 2), metadata=metadata, schema=parse_schema(schema))


def test_columns_are_found_as_users_write_them() -> None:
    found = order_columns(config({}), ["A", "s.`b.c`", "late"])

    assert [("a", ("a",)), ("s.`b.c`", ("s", "b.c")), ("late", ("late",))] == [(one.text, one.path) for one in found]
    assert ["a", "s.`b.c`", "late"] == [one.recorded for one in found]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["p"], "partition column"),
        (["gone"], "no column gone"),
        (["a", "A"], "named twice"),
        (["flag"], "no minimum and maximum of type boolean"),
        (["raw"], "type binary"),
        (["s"], "type struct"),
        (["tags"], "type array<string>"),
        (["tags.element"], "type string"),
        (["icu"], "collation"),
        (["v"], "type variant"),
        (["place"], "type geometry"),
        (["span"], "type interval"),
        (["late"], "no statistics"),
        ([], "not by 0"),
    ],
)
def test_columns_by_which_no_file_could_be_skipped_are_refused(texts: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        order_columns(config({"delta.dataSkippingNumIndexedCols": "9"}), texts)
