"""Columns of types that deltacli does not read are left out, named, and never lost; intervals and nanoseconds are
read.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from deltacli import open_table
from deltacli.core.errors import Refused, UsageError
from deltacli.delta.encoding.value_text import interval_microseconds, months_of, nanoseconds_of
from deltacli.delta.schema.to_arrow import find_unsupported_type
from deltacli.delta.schema.types import PrimitiveType
from tests.cli.support import ROOT, Result, deltacli
from tests.support.odd_types import GEOMETRY, NEWER, READ, UNREAD, VALUES, make, within

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "struct": {"shape": "struct"},
    "array": {"shape": "array"},
    "map": {"shape": "map"},
    "mapped": {"shape": "struct", "is_mapped": True},
    "vector": {"has_vector": True},
    "older": {"has_older_files": True},
}
PARTITIONS = {
    GEOMETRY: "x",
    "interval year to month": "INTERVAL '1-6' YEAR TO MONTH",
    "interval day": "INTERVAL '1 00:00:00' DAY TO SECOND",
    "timestamp_nanos": "2023-11-14T22:13:20.123456789Z",
    "timestamp_ntz_nanos": "2023-11-14T22:13:20.123456789",
}


def _document(result: Result) -> dict[str, Any]:
    assert 0 == result.code, result.err
    found: dict[str, Any] = json.loads(result.out)
    schema = json.loads((ROOT / "docs" / "schemas" / f"{found['kind']}.json").read_text())
    assert [] == [fault.message for fault in Draft202012Validator(schema).iter_errors(found)]
    return found


def _left_out(document: dict[str, Any], name: str) -> bool:
    omitted = [{"name": "g", "type": name}]
    return document["complete"] is False and document["omittedColumns"] == omitted


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_read_without_the_column(tmp_path: Path, shape: str) -> None:
    table = make(tmp_path / "t", GEOMETRY, **SHAPES[shape])
    files = 4 if shape == "older" else 2
    wanted = [*range(1, 3 * files + 1)]
    if shape == "vector":
        wanted.remove(1)
    for command in (["read"], ["changes", "--from", "0"]):
        found = _document(deltacli(*command, str(table), "--json"))
        assert wanted == sorted(row["a"] for row in found["items"])
        assert _left_out(found, GEOMETRY)
    some = _document(deltacli("read", str(table), "--where", "a > 3", "--json"))
    assert [number for number in wanted if number > 3] == sorted(row["a"] for row in some["items"])
    assert len(wanted) == _document(deltacli("read", str(table), "--count", "--json"))["rows"]
    whole = _document(deltacli("read", str(table), "--columns", "a", "--json"))
    assert whole["complete"]
    assert "omittedColumns" not in whole


@pytest.mark.parametrize("name", UNREAD)
def test_every_user_of_types_agrees(tmp_path: Path, name: str) -> None:
    """One table, all commands: each either does its work without the column or names it, and none fails."""
    table = str(make(tmp_path / "t", name, has_older_files=True))
    assert name == find_unsupported_type(PrimitiveType(name))
    # what shows rows
    for form, lines in (("csv", 13), ("markdown", 14), ("ndjson", 13)):
        shown = deltacli("read", table, "--format", form)
        assert (0, lines) == (shown.code, len(shown.out.strip().splitlines()))
        assert f"g ({name})" in shown.err
    assert '{"type":"end","complete":false,"count":12}' == shown.out.splitlines()[-1]
    # what would write rows without saying so
    out = tmp_path / "out"
    for place in (f"{out}.parquet", f"{out}.csv", f"{out}/"):
        for command in (["read"], ["changes", "--from", "0"]):
            refused = deltacli(*command, table, "--output", place)
            assert (4, True) == (refused.code, "type.unsupported" in refused.err or name in refused.err)
            assert "--columns a" in refused.err
            assert not list(tmp_path.glob("out*"))
    written = deltacli("read", table, "--columns", "a", "--output", f"{out}.parquet")
    assert (0, ["a"]) == (written.code, pq.read_schema(f"{out}.parquet").names)
    # what names the column
    asked = deltacli("read", table, "--columns", "g", "--json")
    assert (4, "type.unsupported") == (asked.code, asked.error["code"])
    for condition in ("g IS NULL", "a > 1 AND g = 'x'"):
        for command in (["read"], ["read", "--count"], ["changes", "--from", "0"]):
            judged = deltacli(*command, table, "--where", condition, "--json")
            assert (2, name) == (judged.code, judged.error["details"]["type"])
    # what does not read values
    assert 0 == deltacli("snapshot", table, "--json").code
    assert 0 == deltacli("features", table).code
    assert 0 == deltacli("explain", table).code
    assert 0 == deltacli("doctor", "table", table).code
    assert 0 == deltacli("alter", table, "add", "z", "long", "--dry-run").code
    for level in ("log", "storage", "data"):
        checked = deltacli("validate", table, "--level", level, "--json")
        (judged_table,) = checked.document["tables"]
        found = {one["rule"] for one in judged_table["findings"] if one["severity"] == "error"}
        assert (set() if name == GEOMETRY else {"schema.unknown-type"}) == found
    # what compares
    compared = deltacli("diff", table, "0", "1", "--rows", "--key", "a", "--json")
    assert 1 == compared.code, compared.err
    assert ["g"] == compared.document["byKey"]["notCompared"]
    other = str(make(tmp_path / "other", NEWER if name == GEOMETRY else GEOMETRY))
    changed = deltacli("schema", "diff", table, other, "--json")
    assert (1, True) == (changed.code, name.upper() in changed.out.upper())
    # what rewrites
    done = _document(deltacli("checkpoint", table, "--stats", "both", "--json"))
    assert done["complete"]
    assert 12 == len(_document(deltacli("read", table, "--json"))["items"])


@pytest.mark.parametrize("name", UNREAD)
def test_optimize_rewrites_only_files_without_the_column(tmp_path: Path, name: str) -> None:
    table = make(tmp_path / "t", name, has_older_files=True)
    before = {path.name: path.read_bytes() for path in table.glob("new-*.parquet")}
    done = _document(deltacli("optimize", str(table), "--min-files", "2", "--yes", "--verify", "--json"))
    assert {"removed": 2, "added": 1, "skipped": 2} == done["files"]
    assert {"new-0.parquet", "new-1.parquet"} == {one["path"] for one in done["refused"]}
    assert {"optimize.type-unsupported"} == {one["code"] for one in done["refused"]}
    assert all(name in one["reason"] for one in done["refused"])
    assert before == {path.name: path.read_bytes() for path in table.glob("new-*.parquet")}
    rows = _document(deltacli("read", str(table), "--json"))["items"]
    assert [*range(1, 13)] == sorted(row["a"] for row in rows)
    removed = [
        json.loads(line)["remove"]["path"]
        for line in (table / "_delta_log" / f"{2:020}.json").read_text().splitlines()
        if "remove" in json.loads(line)
    ]
    assert ["old-0.parquet", "old-1.parquet"] == sorted(removed)


@pytest.mark.parametrize("name", UNREAD)
def test_optimize_keeps_partition_values_that_it_does_not_read(tmp_path: Path, name: str) -> None:
    table = make(tmp_path / "t", name, partition="x")
    _document(deltacli("optimize", str(table), "--min-files", "2", "--yes", "--json"))
    lines = [json.loads(line) for line in (table / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    assert [{"g": "x"}] == [line["add"]["partitionValues"] for line in lines if "add" in line]
    rows = _document(deltacli("read", str(table), "--json"))["items"]
    assert [*range(1, 7)] == sorted(row["a"] for row in rows)


def test_a_table_without_any_column_that_is_read_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t", GEOMETRY)
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(
        log.read_text().replace(r"\"name\": \"a\", \"type\": \"long\"", rf"\"name\": \"a\", \"type\": \"{NEWER}\"")
    )
    shown = deltacli("read", str(table), "--json")
    assert (4, "type.unsupported") == (shown.code, shown.error["code"])
    assert 6 == _document(deltacli("read", str(table), "--count", "--json"))["rows"]


def test_python_leaves_the_column_out_and_says_so(tmp_path: Path) -> None:
    snapshot = open_table(str(make(tmp_path / "t", GEOMETRY))).snapshot()
    scan = snapshot.scan()
    assert ["a"] == scan.to_arrow().column_names
    assert [("g", GEOMETRY)] == [tuple(one) for one in scan.left_out]
    with pytest.raises(Refused, match=r"column g has type geometry"):
        scan.write_parquet(tmp_path / "rows")
    with pytest.raises(UsageError, match=r"column g has type geometry"):
        snapshot.scan(where="g IS NOT NULL")
    assert not (tmp_path / "rows").exists()


def test_validate_checks_the_other_columns(tmp_path: Path) -> None:
    table = make(tmp_path / "t", GEOMETRY)
    log = table / "_delta_log" / f"{1:020}.json"
    log.write_text(log.read_text().replace(r"\"maxValues\": {\"a\": 3}", r"\"maxValues\": {\"a\": 2}"))
    checked = deltacli("validate", str(table), "--level", "data", "--json")
    (found,) = checked.document["tables"]
    assert ["stats.bounds-not-covering"] == [one["rule"] for one in found["findings"] if one["severity"] == "error"]
    assert [f"the values of column g, whose type {GEOMETRY} is not read"] == found["notChecked"]


def test_not_null_is_not_promised_for_what_is_not_read(tmp_path: Path) -> None:
    """The files have a null in the column, or say nothing about it."""
    table = make(tmp_path / "t", GEOMETRY)
    log = table / "_delta_log" / f"{1:020}.json"
    unknown = [json.loads(line) for line in log.read_text().splitlines()]
    for line in unknown:
        line.get("add", {}).pop("stats", None)
    shutil.copytree(table, tmp_path / "u")
    (tmp_path / "u" / "_delta_log" / log.name).write_text("".join(json.dumps(line) + "\n" for line in unknown))
    for place, why in ((table, "column g (NOT NULL)"), (tmp_path / "u", f"column g has type {GEOMETRY}")):
        refused = deltacli("alter", str(place), "not-null", "g", "--upgrade-protocol", "--yes")
        assert 4 == refused.code, refused.out + refused.err
        assert why in refused.err, refused.err


# -- intervals and nanoseconds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("shape", ["", "struct", "array", "map"])
def test_intervals_and_nanoseconds_are_read_and_rewritten_exactly(tmp_path: Path, name: str, shape: str) -> None:
    table = make(tmp_path / "t", name, shape=shape, is_mapped=shape == "struct")
    stored = within(shape, name)[1]
    kept = VALUES[name][0]

    def values() -> list[Any]:
        scan = open_table(str(table)).snapshot().scan()
        assert () == scan.left_out
        column = scan.to_arrow().sort_by("a").column("g").combine_chunks()
        assert kept == _innermost(column.type)
        return _plain(column)

    wanted = 2 * _plain(stored)
    assert wanted == values()
    done = _document(deltacli("optimize", str(table), "--min-files", "2", "--yes", "--verify", "--json"))
    assert (2, 1, []) == (done["files"]["removed"], done["files"]["added"], done["refused"])
    assert wanted == values()
    new = next(table.rglob("part-*.parquet"))
    assert kept == _innermost(pq.read_schema(new).field(1).type)
    assert 0 == deltacli("validate", str(table), "--level", "data").code


def test_durations_of_arrow_are_intervals(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "interval day")
    for path in table.glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.set_column(1, "g", rows["g"].cast(pa.duration("us"))), path)
    log = table / "_delta_log" / f"{1:020}.json"
    size = next(iter(table.glob("*.parquet"))).stat().st_size
    log.write_text(re.sub(r'"size": \d+', f'"size": {size}', log.read_text()))
    found = open_table(str(table)).snapshot().scan().to_arrow().column("g")
    assert 2 * VALUES["interval day"][1] == found.to_pylist()


def test_nanoseconds_are_not_cut_beside_those_that_the_table_has(tmp_path: Path) -> None:
    """A struct of a timestamp, stored with nanoseconds, and of one whose type has them."""
    table = make(tmp_path / "t", "timestamp_nanos", shape="struct")
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(
        log.read_text().replace(r"\"name\": \"x\", \"type\": \"long\"", r"\"name\": \"x\", \"type\": \"timestamp\"")
    )
    for path in table.glob("*.parquet"):
        rows = pq.read_table(path)
        whole = rows["g"].combine_chunks()
        both = pa.StructArray.from_arrays(
            [whole.field("x").cast(pa.timestamp("ns", tz="UTC")), whole.field("g")], ["x", "g"]
        )
        pq.write_table(rows.set_column(1, "g", both), path)
    actions = table / "_delta_log" / f"{1:020}.json"
    size = next(iter(table.glob("*.parquet"))).stat().st_size
    actions.write_text(re.sub(r'"size": \d+', f'"size": {size}', actions.read_text()))
    done = _document(deltacli("optimize", str(table), "--min-files", "2", "--yes", "--json"))
    assert {"optimize.value-not-exact": 2} == done["skipped"]


@pytest.mark.parametrize("name", READ)
def test_partition_values_of_intervals_and_nanoseconds_are_read(tmp_path: Path, name: str) -> None:
    table = make(tmp_path / "t", name, partition=PARTITIONS[name])
    found = open_table(str(table)).snapshot().scan().to_arrow().column("g")
    kind, values = VALUES[name]
    assert pa.array(6 * values[:1], kind) == found.combine_chunks().cast(kind)
    assert 0 == deltacli("optimize", str(table), "--min-files", "2", "--yes").code


def _innermost(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return kind.field("g").type
    if pa.types.is_map(kind):
        return kind.item_type
    return kind.value_type if pa.types.is_list(kind) else kind


def _plain(values: Any) -> list[Any]:
    """Return the values of the type within, as integers."""
    if pa.types.is_struct(values.type):
        values = values.field("g")
    elif pa.types.is_map(values.type):
        values = values.items
    elif pa.types.is_list(values.type):
        values = values.flatten()
    found: list[Any] = (values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()
    return found


@pytest.mark.parametrize(
    ("parse", "text", "wanted"),
    [
        (months_of, "INTERVAL '1-6' YEAR TO MONTH", 18),
        (months_of, "interval '-1-6' year to month", -18),
        (months_of, "INTERVAL -'2' YEAR", -24),
        (months_of, "INTERVAL '178956971-0' YEAR TO MONTH", None),
        (months_of, "INTERVAL '1 00' DAY TO HOUR", None),
        (months_of, "18", None),
        (interval_microseconds, "INTERVAL '7 12:34:56.123456' DAY TO SECOND", 650_096_123_456),
        (interval_microseconds, "INTERVAL '-0 00:00:00.5' DAY TO SECOND", -500_000),
        (interval_microseconds, "INTERVAL '90' MINUTE", 5_400_000_000),
        (interval_microseconds, "INTERVAL '01:30' HOUR TO MINUTE", 5_400_000_000),
        (interval_microseconds, "INTERVAL '1:2' SECOND TO MINUTE", None),
        (interval_microseconds, "INTERVAL '106751992' DAY", None),
        (nanoseconds_of, "1969-12-31T23:59:59.999999999Z", -1),
        (nanoseconds_of, "1970-01-01 00:00:00.5", 500_000_000),
        (nanoseconds_of, "9999-01-01 00:00:00", None),
        (nanoseconds_of, "yesterday", None),
    ],
)
def test_texts_of_intervals_and_nanoseconds(parse: Callable[[str], int | None], text: str, wanted: int | None) -> None:
    assert wanted == parse(text)


@pytest.mark.parametrize(("name", "is_defined"), [(GEOMETRY, True), (NEWER, False), ("bigint", False)])
def test_a_type_outside_of_the_protocol_is_no_gap_of_deltacli(name: str, is_defined: bool, tmp_path: Path) -> None:
    table = str(make(tmp_path / "t", NEWER))
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text("utf-8").replace(NEWER, name), "utf-8")

    texts = [
        deltacli("read", table).err,
        deltacli("read", table, "--columns", "g").err,
        deltacli("read", table, "--where", "g IS NULL").err,
    ]

    for text in texts:
        assert name in text
        assert is_defined == ("version of deltacli" in text), text
        assert (not is_defined) == ("Delta" in text.replace("_delta_log", "")), text
