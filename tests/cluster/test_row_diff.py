"""Rows by key on a cluster: the keys, counts and errors of one process, through the engine and as a frame."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, UsageError
from deltacli.engine.spark.engine import SparkEngine
from deltacli.spark import diff
from tests.cli.support import make_sample
from tests.cluster.commands import run
from tests.cluster.test_table_traps import MAPPING, built, mapped, schema_string
from tests.support.clusters import Cluster
from tests.support.small_vectors import inline

OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
POINT = pa.struct([("x", pa.float64()), ("y", pa.string())])
KINDS: dict[str, tuple[pa.DataType, Any]] = {  # Any: a type as JSON
    "f": (pa.float64(), "double"),
    "t": (pa.string(), "string"),
    "at": (pa.timestamp("us", "UTC"), "timestamp"),
    "d": (pa.decimal128(20, 3), "decimal(20,3)"),
    "b": (pa.binary(), "binary"),
    "n": (pa.timestamp("us"), "timestamp_ntz"),
    "v": (pa.float32(), "float"),
    "s": (POINT, {"type": "struct", "fields": [mapped("x", "double", 20, "px"), mapped("y", "string", 21, "py")]}),
    "m": (pa.map_(pa.string(), pa.float64()), "map"),
    "l": (pa.list_(pa.float64()), "array"),
}
NESTED = {
    "map": {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
    "array": {"type": "array", "elementType": "double", "containsNull": True},
}
Row = tuple[Any, ...]  # Any: values of a row


def row(f: Any, t: Any, **changed: Any) -> dict[str, Any]:  # Any: values of a row
    """A row with awkward values; a test changes some."""
    values = {
        "f": f,
        "t": t,
        "at": datetime(1582, 10, 4, 23, 59, 59, 999_999, UTC),
        "d": Decimal("-0.001"),
        "b": b"\x00\xff",
        "n": datetime(2026, 3, 29, 2, 30),
        "v": -0.0,
        "s": {"x": math.nan, "y": None},
        "m": [("", None), ("a", -0.0)],
        "l": [None, math.nan, 0.0],
    }
    return values | changed


BEFORE = [
    row(math.nan, None),
    row(-0.0, ""),
    row(None, "a"),
    row(1.5, "deleted by a vector"),
    row(1.5, "twice"),
    row(1.5, "twice", d=None),
    row(1.5, "once more"),
    row(2.5, "other", l=[]),
    row(3.5, "gone"),
]
AFTER = [
    row(OTHER_NAN, None, v=0.0, s={"x": OTHER_NAN, "y": None}),
    row(0.0, "", m=[("", None), ("a", 0.0)], l=[None, OTHER_NAN, -0.0]),
    row(None, "a", s=None),
    row(1.5, "once more"),
    row(1.5, "twice", d=None),
    row(1.5, "twice"),
    row(1.5, "once more"),
    row(2.5, "other", l=None, n=None),
    row(3.5, "Gone"),
]


def table(place: Path, rows: Sequence[dict[str, Any]], *, deleted: int | None = None) -> Path:
    """A mapped table of two files, one of which has a vector, with a partition value that is null in one of them."""
    columns = {
        f"p{number}": pa.array([one[name] for one in rows], kind).cast(physical(kind))
        for number, (name, (kind, _)) in enumerate(KINDS.items(), 1)
    }
    whole = pa.table(columns)
    cut = len(rows) // 2
    fields = [
        mapped(name, NESTED.get(kind, kind) if isinstance(kind, str) else kind, number, f"p{number}")
        for number, (name, (_, kind)) in enumerate(KINDS.items(), 1)
    ]
    return built(
        place,
        {"a.parquet": whole.slice(0, cut), "b.parquet": whole.slice(cut)},
        schema_string(*fields, mapped("day", "date", 30, "p30")),
        features=["columnMapping", "deletionVectors", "timestampNtz"],
        configuration=MAPPING | {"delta.columnMapping.mode": "name"},
        partition_columns=["day"],
        values={"a.parquet": {"p30": None}, "b.parquet": {"p30": "0001-01-01"}},
        vectors={} if deleted is None else {"a.parquet": inline([deleted])},
    )


def physical(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("px", pa.float64()), ("py", pa.string())]) if kind == POINT else kind


def plain(rows: Any) -> Counter[Row]:  # Any: a table of Arrow, or batches
    """Rows as they are compared: -0.0 is not 0.0 here, and all NaN are one."""
    found = rows.to_pylist() if hasattr(rows, "to_pylist") else [one for batch in rows for one in batch.to_pylist()]
    return Counter(tuple(repr(value) for value in one.values()) for one in found)


@pytest.mark.parametrize("key", [("f", "t"), ("at", "T", "day", "d", "n", "b"), ("v",)])
def test_keys_and_counts_are_those_of_one_process(
    key: Sequence[str],
    session: Any,
    spark_engine: SparkEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deltacli.engine.spark.engine._SMALL_GROUP_BYTES", 50)  # several groups
    before, after = table(tmp_path / "before", BEFORE, deleted=3), table(tmp_path / "after", AFTER)
    here = open_table(before).diff(other=open_table(after), rows=True, key=key).rows
    there = open_table(before, engine=spark_engine).diff(other=open_table(after), rows=True, key=key).rows
    assert here is not None
    assert there is not None
    expected = plain(here.changes())

    assert expected == plain(there.changes())
    assert here.counts == there.counts
    assert (
        here.as_json()
        == open_table(before, engine=spark_engine).diff(other=open_table(after), rows=True, key=key).as_json()["byKey"]
    )
    frame = diff(session, before, other=after, key=key)
    assert ["change", "rowsFrom", "rowsTo", "columns", *here.key] == frame.columns
    assert expected == plain(frame.toArrow())
    if key == ("f", "t"):
        assert {("remove", 1), ("add", 1), ("change", 3)} == {
            (one["change"], one["count"]) for one in frame.groupBy("change").count().collect()
        }
        assert {"s", "n,l", None} == {one["columns"] for one in frame.where("change = 'change'").collect()}
        assert 2 == here.counts.repeated


def test_neither_the_zone_of_the_session_nor_old_calendars_move_keys(
    session: Any, setting: Any, tmp_path: Path
) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    before, after = table(tmp_path / "before", BEFORE), table(tmp_path / "after", [])

    found = diff(session, before, other=after, key=["at", "n", "day"]).toArrow().to_pylist()

    values = row(0, "")
    assert {("remove", 4, None), ("remove", 5, date(1, 1, 1))} == {
        (one["change"], one["rowsFrom"], one["day"]) for one in found
    }
    assert [(values["at"], values["n"])] * 2 == [(one["at"], one["n"]) for one in found]


def test_equal_versions_and_empty_ones_have_no_rows(session: Any, tmp_path: Path) -> None:
    one, nothing = table(tmp_path / "one", BEFORE), table(tmp_path / "nothing", [])

    assert 0 == diff(session, one, other=one, key=["f", "t"]).count()
    assert 0 == diff(session, nothing, other=nothing, key=["f", "t"]).count()


def test_a_missing_file_is_the_error_of_one_process(session: Any, spark_engine: SparkEngine, tmp_path: Path) -> None:
    before, after = table(tmp_path / "before", BEFORE), table(tmp_path / "after", AFTER)
    (after / "b.parquet").unlink()
    faults = []
    for engine in (None, spark_engine):
        found = open_table(before, engine=engine).diff(other=open_table(after), rows=True, key=["f"]).rows
        assert found is not None
        with pytest.raises(DataUnreadable) as caught:
            list(found.changes())
        faults.append((caught.value.code, caught.value.message, caught.value.table, caught.value.hint))

    with pytest.raises(Exception, match=r"\[data.file-missing\]"):
        diff(session, before, other=after, key=["f"]).collect()
    assert faults[0] == faults[1]
    assert str(after) == faults[0][2]


def test_a_key_named_like_a_column_of_the_frame_is_refused(session: Any, tmp_path: Path) -> None:
    root = built(tmp_path / "t", {"a.parquet": pa.table({"p1": [1]})}, schema_string(mapped("Change", "long", 1, "p1")))

    with pytest.raises(UsageError, match="a column Change of its own"):
        diff(session, root, other=root, key=["change"])


def test_the_command_prints_what_one_process_prints(cluster: Cluster, tmp_path: Path) -> None:
    make_sample(tmp_path / "tbl")
    words = ("diff", str(tmp_path / "tbl"), "3", "7", "--rows", "--key", "trip,day", "--json")

    here, there = run(*words), run(*words, *cluster.options)

    assert (1, "") == (there.returncode, there.stderr)
    assert json.loads(here.stdout) == json.loads(there.stdout)
    assert 240 == json.loads(here.stdout)["byKey"]["added"]
