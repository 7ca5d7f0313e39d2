"""Files are chosen by what their directories say beyond doubt."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.listing import partition_of
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.partitions.directories import PartitionSelector
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import parse_schema

TYPES = {"id": "long", "p": "string", "q": "integer", "day": "date", "at": "timestamp", "price": "decimal(4,2)"}
PARTITIONS = ("p", "q", "day", "at", "price")


def config(physical: dict[str, str] | None = None) -> TableConfiguration:
    """A table partitioned by all but `id`; with physical names, if any are given, under column mapping."""
    names = physical or {}
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": names[name]} if name in names else {},
        }
        for name, kind in TYPES.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    raw = {
        "id": "x",
        "format": {},
        "schemaString": schema,
        "partitionColumns": list(PARTITIONS),
        "configuration": {"delta.columnMapping.mode": "name"} if physical else {},
    }
    features = ("columnMapping",) if physical else ()
    return TableConfiguration(
        protocol=Protocol(3, 7, features, features), metadata=read_metadata(raw, ""), schema=parse_schema(schema)
    )


def selected(where: str, path: bytes, physical: dict[str, str] | None = None) -> bool:
    found = PartitionSelector(config(physical), where).mask(pa.array([path], pa.binary())).to_pylist()
    assert len(found) == 1
    return bool(found[0])


@pytest.mark.parametrize(
    ("where", "path", "expected"),
    [
        ("p = 'a b'", b"p=a%20b/x.parquet", True),
        ("p = 'a%20b'", b"p=a%20b/x.parquet", False),
        ("p = 'a%20b'", b"p=a%2520b/x.parquet", True),
        ("p = 'a=b/c'", b"p=a%3Db%2Fc/x.parquet", True),
        ("p = 'a=b'", b"p=a=b/x.parquet", True),
        ("p = '\u00e9'", "p=\u00e9/x.parquet".encode(), True),
        ("p <> 'a'", b"p=\xff/x.parquet", False),
        ("p IS NULL", b"p=__HIVE_DEFAULT_PARTITION__/x.parquet", True),
        ("p = '__HIVE_DEFAULT_PARTITION__'", b"p=__HIVE_DEFAULT_PARTITION__/x.parquet", False),
        ("p <> 'a'", b"p=__HIVE_DEFAULT_PARTITION__/x.parquet", False),
        ("p IS NULL", b"p=/x.parquet", False),
        ("p IS NULL", b"x.parquet", False),
        ("p IS NULL", b"q=1/x.parquet", False),
        ("q = 1", b"q=1/x.parquet", True),
        ("q = 1", b"q=01/x.parquet", True),
        ("q < 10", b"q=9/x.parquet", True),
        ("q IS NULL OR q < 10", b"q=x/x.parquet", False),
        ("NOT q = 3", b"q=99999999999/x.parquet", False),
        ("q = 1", b"Q=1/x.parquet", True),
        ("q = 1", b"a/q=1/b/x.parquet", True),
        ("q = 1", b"q=1", False),
        ("q = 1", b"_change_data/q=1/cdc.parquet", True),
        ("q = 1", b"q=1/q=2/x.parquet", False),
        ("q = 1", b"q=1/q=1/x.parquet", True),
        ("q = 1 AND p = 'a'", b"q=1/p=a/x.parquet", True),
        ("q = 1 OR p = 'a'", b"q=1/x.parquet", False),
        ("day < '2026-01-01'", b"day=2025-12-31/x.parquet", True),
        ("day < '2026-01-01'", b"day=2026-01-01/x.parquet", False),
        ("at = '2024-01-01 10:00:00'", b"at=2024-01-01 10%3A00%3A00/x.parquet", True),
        ("at < '2030-01-01'", b"at=2024-01-01 10%3A00%3A00 Europe%2FParis/x.parquet", False),
        ("price = 1.5", b"price=1.50/x.parquet", True),
        ("price IS NULL OR price > 0", b"price=123.45/x.parquet", False),
    ],
)
def test_a_file_is_selected_where_its_directories_make_the_condition_true(
    where: str, path: bytes, expected: bool
) -> None:
    assert expected is selected(where, path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"q=1/x", True),
        (b"col-7=1/x", True),
        (b"col-7=1/q=1/x", True),
        (b"col-7=1/q=2/x", False),
        (b"col-8=1/x", False),
    ],
)
def test_directories_may_have_logical_or_physical_names(path: bytes, expected: bool) -> None:
    assert expected is selected("q = 1", path, {"q": "col-7"})


def test_a_name_that_two_columns_had_selects_nothing() -> None:
    swapped = {"p": "q", "q": "p"}

    assert not selected("q = 1", b"q=1/x.parquet", swapped)
    assert not selected("q = 1", b"p=1/x.parquet", swapped)
    assert selected("day = '2024-01-01'", b"q=1/day=2024-01-01/x.parquet", swapped)


@pytest.mark.parametrize("where", ["id = 1", "q = 1 AND id > 3", "id IS NULL OR true"])
def test_a_condition_on_another_column_is_refused_with_the_partition_columns(where: str) -> None:
    with pytest.raises(UsageError) as caught:
        PartitionSelector(config(), where)

    assert ("usage.where", "p, q, day, at, price") == (caught.value.code, caught.value.facts["partition columns"])


def test_a_constant_condition_applies_to_every_file_or_to_none() -> None:
    paths = pa.array([b"x.parquet", b"q=1/x.parquet"], pa.binary())

    assert [True, True] == PartitionSelector(config(), "1 = 1").mask(paths).to_pylist()
    assert [False, False] == PartitionSelector(config(), "1 = 2").mask(paths).to_pylist()


def test_directories_seen_before_are_classified_as_before() -> None:
    selector = PartitionSelector(config(), "q = 1")

    for _ in range(2):
        paths = pa.array([b"q=1/a", b"q=2/a", b"q=1/b", None], pa.binary())
        assert [True, False, True, False] == selector.mask(paths).to_pylist()
    assert [] == selector.mask(pa.array([], pa.binary())).to_pylist()


def test_the_partition_of_a_path_are_its_directories_with_keys() -> None:
    paths = [b"p=a%20b/q=1/x.parquet", b"a/p=\xff/b/x=1.parquet", b"x.parquet", b"=1/x", b"_change_data/p=/x", None]

    assert ["p=a%20b/q=1", "p=\ufffd", None, None, "p=", None] == partition_of(pa.array(paths, pa.binary())).to_pylist()
