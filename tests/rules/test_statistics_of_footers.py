"""What a footer proves against statistics, and what it does not, whatever its bytes are."""

from __future__ import annotations

import io
import json
import struct as layouts
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.footers.columns import read_schema
from deltacli.delta.footers.parse import ChunkFacts, FooterReader, GroupFacts
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.files.data_files import nulls_in_required_columns
from deltacli.rules.framework.data_file_views import FootersView, LiveAdds
from deltacli.rules.statistics.compared import statistics_against_footers
from tests.rules.checkpoint_view import config_of
from tests.rules.corruptions_statistics_files import with_column
from tests.rules.data_table import DataTable
from tests.rules.table_builder import column, struct
from tests.rules.test_corruptions import inspect
from tests.rules.test_corruptions import rules_of as rules_told
from tests.support.made_footers import footer_of

LONG = b"a text of which nobody knows whether it was cut"
NOTHING = ChunkFacts(*(None,) * len(ChunkFacts._fields))


def chunk(values: int = 10, nulls: int | None = 0, **facts: Any) -> ChunkFacts:
    return NOTHING._replace(values=values, nulls=nulls, is_encrypted=False, **facts)


def whole(number: int, width: int = 4) -> bytes:
    return number.to_bytes(width, "little", signed=True)


def rules_of(
    delta_type: str,
    stored: pa.DataType,
    claimed: dict[str, Any],
    *chunks: ChunkFacts,
    deleted: int = 0,
    **written: Any,
) -> set[str]:
    """The rules that report a file of these row groups, whose statistics claim something of its column x."""
    schema = schema_of(stored, **written)
    rows = sum(facts.values or 0 for facts in chunks)
    footer = footer_of(schema, [GroupFacts(facts.values or 0, (facts,)) for facts in chunks])
    stats: dict[str, Any] = {"numRecords": rows}
    stats |= {part: {"x": claimed[part]} for part in ("minValues", "maxValues", "nullCount") if part in claimed}
    stats |= {"tightBounds": False} if deleted else {}
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": deleted}
    add = {"path": "f", "stats": json.dumps(stats), "deletionVector": vector if deleted else None}
    adds = pa.RecordBatch.from_pylist([add], schema=pa.schema(list(action_schemas().add)))
    view = FootersView(LiveAdds(adds, [0], [1], ""), [footer], read_schema(schema), config(delta_type))
    return {finding.rule.id for finding in statistics_against_footers(view)}


def schema_of(stored: pa.DataType, **written: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([None], stored)}), sink, **written)
    data = sink.getvalue()
    return FooterReader().read(data[-8 - int.from_bytes(data[-8:-4], "little") : -8]).schema


def config(delta_type: str) -> TableConfiguration:
    return config_of(schema=struct(column("x", delta_type)))


COVERING, LOOSE, NULLS = "stats.bounds-not-covering", "stats.bounds-not-tight", "stats.null-count-mismatch"
INT, TEXT = ("integer", pa.int32()), ("string", pa.string())
CASES: dict[str, tuple[tuple[str, pa.DataType], dict[str, Any], list[ChunkFacts], set[str]]] = {
    "a minimum": (INT, {"minValues": 3}, [chunk(low=whole(2), high=whole(9))], {COVERING}),
    "of the second row group": (
        INT,
        {"minValues": 3},
        [chunk(low=whole(3), high=whole(9)), chunk(low=whole(2), high=whole(9))],
        {COVERING},
    ),
    "a maximum of old": (INT, {"maxValues": 3}, [chunk(old_low=whole(2), old_high=whole(9))], {COVERING}),
    "bytes of a wrong length": (INT, {"minValues": 3}, [chunk(low=whole(2, 5), high=whole(9, 3))], set()),
    "no bytes at all": (INT, {"minValues": 3}, [chunk(low=b"", high=b"")], set()),
    "a minimum above the maximum": (INT, {"minValues": 3}, [chunk(low=whole(9), high=whole(2))], set()),
    "a minimum that is no value": (
        INT,
        {"minValues": 3},
        [chunk(low=whole(2), high=whole(9), is_low_exact=False)],
        set(),
    ),
    "a bound that no row has": (INT, {"minValues": 1}, [chunk(low=whole(2), high=whole(9))], {LOOSE}),
    "one row group that does not tell": (INT, {"minValues": 1}, [chunk(low=whole(2), high=whole(9)), chunk()], set()),
    "one row group of nulls alone": (
        INT,
        {"minValues": 1},
        [chunk(low=whole(2), high=whole(9)), chunk(nulls=10)],
        {LOOSE},
    ),
    "text that is exact": (TEXT, {"minValues": "b"}, [chunk(low=LONG, high=LONG, is_low_exact=True)], {COVERING}),
    "long text that lies below all the same": (TEXT, {"minValues": "b"}, [chunk(low=LONG, high=LONG)], {COVERING}),
    "long text that may be the beginning": (TEXT, {"minValues": f"{LONG.decode()}s"}, [chunk(low=LONG)], set()),
    "long text that may be counted up": (
        TEXT,
        {"maxValues": f"{LONG[:-1].decode()}s"},
        [chunk(low=LONG, high=LONG)],
        set(),
    ),
    "long text above in its middle": (TEXT, {"maxValues": "a text of old"}, [chunk(low=LONG, high=LONG)], {COVERING}),
    "a wide character behind what a writer left": (
        TEXT,
        {"maxValues": "é" * 32 + "\U0010ffff"},
        [chunk(low=b"a", high=("é" * 40).encode())],
        set(),
    ),
    "short text above": (TEXT, {"maxValues": "a"}, [chunk(low=b"a", high=b"b")], {COVERING}),
    "text of old": (TEXT, {"maxValues": "a"}, [chunk(old_low=b"a", old_high=b"b")], set()),
    "text that is none": (TEXT, {"maxValues": "a"}, [chunk(low=b"a", high=b"\xff\xfe")], {COVERING}),
    "NaN as a bound": (
        ("double", pa.float64()),
        {"minValues": 3.0, "maxValues": 4.0},
        [chunk(low=layouts.pack("<d", float("nan")), high=layouts.pack("<d", 9.0))],
        set(),
    ),
    "the other zero": (
        ("double", pa.float64()),
        {"minValues": 0.0, "maxValues": -0.0},
        [chunk(low=layouts.pack("<d", -0.0), high=layouts.pack("<d", 0.0))],
        set(),
    ),
    "an unsigned integer": (("long", pa.uint32()), {"minValues": 3}, [chunk(low=whole(-1), high=whole(9))], set()),
    "milliseconds beyond all time": (
        ("timestamp", pa.timestamp("ms", "UTC")),
        {"minValues": "2026-01-01T00:00:00.000Z"},
        [chunk(low=whole(-(1 << 63), 8), high=whole((1 << 63) - 1, 8))],
        set(),
    ),
    "a decimal of too many bytes": (
        ("decimal(20,2)", pa.decimal128(20, 2)),
        {"minValues": 3},
        [chunk(low=bytes(17), high=bytes(17))],
        set(),
    ),
    "a decimal below": (
        ("decimal(20,2)", pa.decimal128(20, 2)),
        {"minValues": 3},
        [chunk(low=(-300).to_bytes(9, "big", signed=True), high=(301).to_bytes(9, "big"))],
        {COVERING},
    ),
    "no null where there are some": (INT, {"nullCount": 0}, [chunk(nulls=3)], {NULLS}),
    "nulls alone where there are values": (INT, {"nullCount": 10}, [chunk(nulls=3)], {NULLS}),
    "some other nulls": (INT, {"nullCount": 4}, [chunk(nulls=3)], {NULLS}),
    "nulls that one row group does not tell": (INT, {"nullCount": 0}, [chunk(nulls=3), chunk(nulls=None)], set()),
    "more nulls than values": (INT, {"nullCount": 0}, [chunk(nulls=11)], set()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_footer_proves(case: str) -> None:
    (delta_type, stored), claimed, chunks, expected = CASES[case]

    assert expected == rules_of(delta_type, stored, claimed, *chunks)


@pytest.mark.parametrize(
    ("claimed", "deleted", "expected"),
    [
        ({"minValues": 3}, 1, set()),
        ({"nullCount": 0}, 3, set()),
        ({"nullCount": 0}, 2, {NULLS}),
        ({"nullCount": 10}, 7, set()),
        ({"nullCount": 10}, 6, {NULLS}),
        ({"nullCount": 4}, 1, set()),
    ],
)
def test_a_deletion_vector_leaves_only_what_it_cannot_have_deleted(
    claimed: dict[str, Any], deleted: int, expected: set[str]
) -> None:
    facts = chunk(nulls=3, low=whole(2), high=whole(9))

    assert expected == rules_of("integer", pa.int32(), claimed, facts, deleted=deleted)


def test_int96_times_have_no_bounds() -> None:
    claimed = {"minValues": "2026-01-01T00:00:00.000Z"}
    facts = chunk(low=bytes(12), high=bytes(12))

    assert set() == rules_of(
        "timestamp", pa.timestamp("ns", "UTC"), claimed, facts, use_deprecated_int96_timestamps=True
    )


def test_arrow_counts_what_null_structs_hide_in_dictionaries(tmp_path: Path) -> None:
    """Its footer records that there is no null, and that "" occurs."""
    texts = pa.array([None, {"y": "b"}, {"y": "b"}], pa.struct([("y", pa.dictionary(pa.int32(), pa.string()))]))
    table = with_column(struct(column("y", "string")), texts, {"y": "b"}, {"y": "b"}, nulls={"y": 1})

    assert rules_told(inspect(table.write(tmp_path / "t"), "footers")).isdisjoint({COVERING, LOOSE, NULLS})


def test_nulls_of_required_columns_are_reported_after_a_thousand_files_with_deleted_nulls() -> None:
    schema = schema_of(pa.int32())
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 3}
    files = [{"path": f"f{number}", "deletionVector": vector if number < 1_000 else None} for number in range(1_001)]
    adds = pa.RecordBatch.from_pylist(files, schema=pa.schema(list(action_schemas().add)))
    footer = footer_of(schema, [GroupFacts(10, (chunk(nulls=3),))])
    live = LiveAdds(adds, [0] * len(files), [1] * len(files), "")
    table = config_of(schema=struct(column("x", "integer", nullable=False)))
    view = FootersView(live, [footer] * len(files), read_schema(schema), table)

    assert ["f1000"] == [finding.place.key for finding in nulls_in_required_columns(view)]


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["several at once", "one after the other"])
def test_footers_are_reported_in_order_however_they_are_read(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.work.facts.footer_and_vector_facts.ReadFootersAndVectors.quick_seconds", seconds)
    monkeypatch.setattr("deltacli.operations.validate.inspect_files._NEAR_FILES_A_PIECE", 1)
    table = DataTable()
    for version in (2, 3):
        table.set_stats(version, table.stats(version) | {"numRecords": version})

    found = inspect(table.write(tmp_path / "t"), "footers")

    assert [("2", "10"), ("3", "10")] == [
        (one.seen, one.expected) for one in found.findings if one.rule.id == "stats.num-records-mismatch"
    ]
