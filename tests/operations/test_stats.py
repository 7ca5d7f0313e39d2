"""Statistics without rewriting: what footers and rows give, what is committed, and what other writers do meanwhile."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.api.table import Table
from deltacli.changing.outcome import require_complete
from deltacli.core.errors import PartlyDone, Refused, UsageError
from deltacli.delta.log.actions import FIELDS
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.delta.stats.merged import merged
from deltacli.operations.change.stats import ComputeStats, StatsRequest
from deltacli.storage import Created
from deltacli.table.ambiguous_files import find_ambiguous_files
from tests.operations.test_file_contention import verify
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove, to_bytes
from tests.support.builder import TableBuilder, commit_path
from tests.support.effort import SEED, examples
from tests.support.file_racing import compute_stats, first_files, race
from tests.support.optimizing import last_commit, rows_of
from tests.support.reading import open_at
from tests.support.small_vectors import inline
from tests.support.two_spellings import DIFFERING, OTHERS, RULE, write_two_spellings
from tests.support.waiting import run_together

Fields = Sequence[Mapping[str, Any]]  # Any: JSON


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": more}


def parquet(columns: Mapping[str, Any] | pa.Table, **how: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), sink, **how)
    return sink.getvalue()


class Files:
    """A table of files with no statistics, unless they are given."""

    def __init__(self, *fields: Mapping[str, Any], features: Sequence[str] = (), **properties: str) -> None:
        self.builder = TableBuilder()
        names = ["deletionVectors", *features]
        readers = [name for name in names if name in ("deletionVectors", "columnMapping")]
        self.schema = json.dumps({"type": "struct", "fields": list(fields)})
        self.configuration = {f"delta.{name}": value for name, value in properties.items()}
        self.builder.commit(
            commit_info("CREATE TABLE"),
            protocol(3, 7, reader_features=readers, writer_features=names),
            metadata(schema_string=self.schema, partition_columns=[], configuration=self.configuration),
        )

    def file(self, name: str, data: bytes, deleted: Sequence[int] = (), **others: Any) -> Files:
        self.builder.file(name, data)
        vector = inline(deleted) if deleted else None
        self.builder.commit(commit_info(), add(name, size=len(data), vector=vector, **others))
        return self

    def table(self) -> Table:
        return open_at(self.builder.in_memory())


def stats_of(table: Table) -> dict[str, Any]:
    """The statistics of each live file."""
    rows = [
        row for batch in table.snapshot().file_actions.map_actions("add", lambda one: one.to_pylist()) for row in batch
    ]
    return {row["path"]: None if row["stats"] is None else json.loads(row["stats"]) for row in rows}


def wrong(table: Table) -> set[str]:
    found = table.validate(level="data").findings
    return {one.rule.id for one in found if one.rule.id.startswith("stats")}


def win(table: Table, version: int, *lines: Line) -> None:
    """Another writer commits a version."""
    assert isinstance(table.writable().put_if_absent(commit_path(version), to_bytes(lines)), Created)


WHOLE = pa.table({"x": pa.array([5, None, 7, 1, 2, 3, 4], pa.int64())})
LONG = 40 * "a"


CASES: Mapping[str, tuple[Any, pa.Table, dict[str, Any], dict[str, Any], Mapping[str, Any], dict[str, Any]]] = {
    # type, rows, how they are written, properties, from footers, what rows give besides
    "73 row groups": ("long", WHOLE, {"row_group_size": 3}, {}, {"min": 1, "max": 7, "nulls": 1}, {}),
    "76 text is cut": (
        "string",
        pa.table({"x": [LONG, LONG]}),
        {},
        {},
        {"min": 32 * "a", "max": 32 * "a" + "\x7f", "nulls": 0},
        {},
    ),
    "77 a character above U+007F follows": (
        "string",
        pa.table({"x": [32 * "a" + "é", "b"[:0]]}),
        {},
        {},
        {"min": "", "max": 32 * "a" + "\U0010ffff", "nulls": 0},
        {},
    ),
    "78 nothing is above": ("string", pa.table({"x": [70 * "\U0010ffff"]}), {}, {}, {"nulls": 0}, {}),
    "79 absent column": ("long", pa.table({"y": list(range(7))}), {}, {}, {"nulls": 7}, {}),
    "80 all null": ("long", pa.table({"x": pa.nulls(7, pa.int64())}), {}, {}, {"nulls": 7}, {}),
    "81 floats of pyarrow": ("double", pa.table({"x": [1.5, 2.5]}), {}, {}, {"nulls": 0}, {"min": 1.5, "max": 2.5}),
    "81 NaN": ("double", pa.table({"x": [1.5, float("nan")]}), {}, {}, {"nulls": 0}, {}),
    "82 times": (
        "timestamp",
        pa.table({"x": pa.array([1_767_225_600_678_999], pa.timestamp("us", "UTC"))}),
        {},
        {},
        {"min": "2026-01-01T00:00:00.678999Z", "max": "2026-01-01T00:00:00.678999Z", "nulls": 0},
        {},
    ),
    "83 INT96": (
        "timestamp",
        pa.table({"x": pa.array([1_767_225_600_678_000], pa.timestamp("us", "UTC"))}),
        {"use_deprecated_int96_timestamps": True},
        {},
        {},
        {"min": "2026-01-01T00:00:00.678Z", "max": "2026-01-01T00:00:00.678Z", "nulls": 0},
    ),
    "boolean": ("boolean", pa.table({"x": [True, None]}), {}, {}, {"nulls": 1}, {}),
    "date": (
        "date",
        pa.table({"x": [date(2026, 1, 2)]}),
        {},
        {},
        {"min": "2026-01-02", "max": "2026-01-02", "nulls": 0},
        {},
    ),
    "a date of another calendar": (
        "date",
        pa.table({"x": [date(1500, 1, 2)]}),
        {},
        {},
        {"nulls": 0},
        {"min": "1500-01-02", "max": "1500-01-02"},
    ),
    "decimal": (
        "decimal(10,2)",
        pa.table({"x": pa.array([Decimal("-1.50"), Decimal("12345678.90")], pa.decimal128(10, 2))}),
        {},
        {},
        {"min": -1.5, "max": 12345678.9, "nulls": 0},
        {},
    ),
    "widened": ("long", pa.table({"x": pa.array([3, 4], pa.int32())}), {}, {}, {"min": 3, "max": 4, "nulls": 0}, {}),
    "98 no row group": ("long", pa.table({"x": pa.array([], pa.int64())}), {}, {}, {}, {}),
}


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize("name", CASES)
def test_a_column(name: str, read: str) -> None:
    kind, rows, how, properties, expected, more = CASES[name]
    widening = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]} if name == "widened" else {}
    files = Files(field("x", kind, **widening), features=["typeWidening"], **properties)
    table = files.file("a.parquet", parquet(rows, **how)).table()
    before = repr(rows_of(table))

    table.stats(read=read)

    found = stats_of(table)["a.parquet"]
    wanted = {**expected, **(more if read == "rows" else {})}
    parts = {"min": "minValues", "max": "maxValues", "nulls": "nullCount"}
    assert {"numRecords": rows.num_rows, "tightBounds": True} == {
        key: found[key] for key in ("numRecords", "tightBounds")
    }
    seen = {short: found[part]["x"] for short, part in parts.items() if "x" in found[part]}
    assert wanted == ({} if name.startswith("98") else seen)
    assert before == repr(rows_of(table))
    assert not wrong(table)
    assert not table.stats(read=read, all=True).versions  # 96: nothing is wrong


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("integer", pa.array([1, 1 << 31], pa.int64())),
        ("short", pa.array([-(1 << 15) - 1, 1], pa.int32())),
        ("byte", pa.array([1, 128], pa.int32())),
        ("decimal(4,2)", pa.array([Decimal("-100.00"), Decimal("1.00")], pa.decimal128(9, 2))),
    ],
)
def test_bounds_that_a_column_cannot_have_are_left_out(kind: str, values: pa.Array) -> None:
    """
    A file of a wider type, which no reader takes for one of the column.
    """
    table = Files(field("x", kind)).file("a.parquet", parquet({"x": values})).table()

    table.stats()

    found = stats_of(table)["a.parquet"]
    assert ({}, {}, {"x": 0}) == (found["minValues"], found["maxValues"], found["nullCount"])


JAVA = b"parquet-mr version 1.18.0 (build"
"""As long as the name of Arrow's writer."""
TYPE_ORDER, IEEE_ORDER = b"\x19\x1c\x1c\x00\x00", b"\x19\x1c\x2c\x00\x00"
"""The orders of one column, in a footer."""


@pytest.mark.parametrize(
    ("values", "order", "expected"),
    [
        ([1.5, 2.5], TYPE_ORDER, ({"x": 1.5}, {"x": 2.5})),
        ([-0.0, 0.0], TYPE_ORDER, ({"x": 0}, {"x": 0})),
        ([1.5, float("inf")], TYPE_ORDER, ({}, {})),
        ([float("-inf"), 1.5], TYPE_ORDER, ({}, {})),
        ([1.5, float("nan")], IEEE_ORDER, ({}, {})),  # NaN is counted and is in no bound: it is above all
    ],
)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_floats_of_parquets_java_library(kind: str, values: list[float], order: bytes, expected: Any) -> None:
    column = pa.array(values, pa.float32() if kind == "float" else pa.float64())
    data = parquet({"x": column}, store_schema=False)
    assert data.count(TYPE_ORDER) == 1
    writer = pq.ParquetFile(io.BytesIO(data)).metadata.created_by.encode()
    assert (len(JAVA), 1) == (len(writer), data.count(writer))
    table = (
        Files(field("x", kind))
        .file("a.parquet", data.replace(writer, JAVA).replace(TYPE_ORDER, order))
        .file("b.parquet", parquet({"x": column}, store_schema=False))
        .table()
    )

    table.stats()

    found = stats_of(table)
    assert expected == (found["a.parquet"]["minValues"], found["a.parquet"]["maxValues"])
    assert ({}, {}) == (found["b.parquet"]["minValues"], found["b.parquet"]["maxValues"])  # Arrow leaves out NaN


def test_a_row_group_without_statistics_leaves_the_column_without_bounds() -> None:
    """
    Taken for one without values, it would lose the rows that are in it.
    """
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, WHOLE.schema, write_statistics=False) as writer:
        writer.write_table(WHOLE)
    table = Files(field("x", "long")).file("a.parquet", sink.getvalue()).table()

    table.stats()

    assert {"numRecords": 7, "minValues": {}, "maxValues": {}, "nullCount": {}, "tightBounds": True} == stats_of(table)[
        "a.parquet"
    ]
    table.stats(read="rows")
    assert {"x": 1} == stats_of(table)["a.parquet"]["minValues"]


def test_vectors() -> None:
    """
    74, 75: from the footer bounds are wide, and null counts hold for any of the rows; rows give those of live ones.
    """
    data = parquet(
        {
            "x": pa.array([0, 3, 4, 5, 6, 7, 9], pa.int64()),
            "n": [1, None, None, None, 2, 2, 2],
            "y": pa.nulls(7, pa.int64()),
        }
    )
    fields = field("x", "long"), field("n", "long"), field("y", "long")
    table = Files(*fields).file("a.parquet", data, deleted=[0, 6]).table()
    before = rows_of(table)

    table.stats()

    wide = {
        "numRecords": 7,
        "minValues": {"x": 0, "n": 1},
        "maxValues": {"x": 9, "n": 2},
        "nullCount": {"x": 0, "y": 7},
        "tightBounds": False,
    }
    assert wide == stats_of(table)["a.parquet"]
    plan = ComputeStats(StatsRequest(read="rows", all=True), examines=True).plan(table)
    assert (0, 1) == (plan.due, plan.could_be_tighter)
    assert not table.stats(read="rows", all=True).versions  # bounds that hold for all rows stay
    assert before == rows_of(table)
    assert not wrong(table)
    assert not table.stats(all=True).versions


def test_rows_give_bounds_of_those_that_are_left() -> None:
    data = parquet({"x": pa.array([0, 3, 7, 9], pa.int64())})
    table = Files(field("x", "long")).file("a.parquet", data, deleted=[0, 3]).table()

    table.stats(read="rows")

    found = stats_of(table)["a.parquet"]
    assert ({"x": 3}, {"x": 7}, False) == (found["minValues"], found["maxValues"], found["tightBounds"])


@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({"dataSkippingNumIndexedCols": "2"}, {"s": {"a": 0, "b": 0}}),  # 84
        ({"dataSkippingStatsColumns": "`a.b`,c"}, {"a.b": 0, "c": 0}),  # 85
        ({"dataSkippingNumIndexedCols": "0"}, {}),
    ],
)
@pytest.mark.parametrize("read", ["footers", "rows"])
def test_the_properties_choose_the_columns(properties: dict[str, str], columns: dict[str, Any], read: str) -> None:
    inside = {"type": "struct", "fields": [field("a", "long"), field("b", "long")]}
    data = parquet({"s": [{"a": 1, "b": 2}], "c": [3], "a.b": [4]})
    table = (
        Files(field("s", inside), field("c", "long"), field("a.b", "long"), **properties)
        .file("a.parquet", data)
        .table()
    )

    table.stats(read=read)

    assert columns == stats_of(table)["a.parquet"]["nullCount"]
    assert 1 == stats_of(table)["a.parquet"]["numRecords"]


@pytest.mark.parametrize("read", ["footers", "rows"])
def test_physical_names_and_what_else_an_add_has_are_kept(read: str) -> None:
    """
    86, 87, 88.
    """
    mapped = field("x", "long", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"})
    files = Files(
        mapped,
        features=["columnMapping", "rowTracking", "domainMetadata"],
        **{"columnMapping.mode": "name", "columnMapping.maxColumnId": "1"},
    )
    data = parquet({"col-1": [1, 2]})
    own: dict[str, Any] = {
        "tags": {"t": "1"},
        "baseRowId": 40,
        "defaultRowCommitVersion": 1,
        "clusteringProvider": "other",
    }
    mark = {
        "domainMetadata": {
            "domain": "delta.rowTracking",
            "configuration": '{"rowIdHighWaterMark":41}',
            "removed": False,
        }
    }
    files.builder.file("a%20b.parquet".replace("%20", " "), data)
    files.builder.commit(commit_info(), add("a%20b.parquet", size=len(data), **own, ofAWriter=1), mark)
    table = files.table()

    table.stats(read=read, columns=["x"])

    (action,) = [action for kind, action in last_commit(table.writable()) if kind == "add"]
    assert own | {"path": "a%20b.parquet", "dataChange": False} == {
        name: action[name] for name in (*own, "path", "dataChange")
    }
    assert not action.keys() - FIELDS["add"]
    assert {"col-1": 1} == json.loads(action["stats"])["minValues"]


def test_the_commit() -> None:
    """
    97, 95, 46: add alone, named as the reference does, on an append-only table; a change feed has no rows of it.
    """
    table = (
        Files(field("x", "long"), features=["appendOnly"], appendOnly="true").file("a.parquet", parquet(WHOLE)).table()
    )

    done = table.stats()

    info, *actions = last_commit(table.writable())
    assert [2] == done.versions
    assert ("COMPUTE STATS", {"predicate": '["true"]'}) == (info[1]["operation"], info[1]["operationParameters"])
    assert ["add"] == [kind for kind, _ in actions]
    assert 0 == sum(batch.num_rows for batch in table.changes(from_version=2))
    assert 1 == sum(batch.num_rows for batch in table.snapshot().files())
    table.write_checksum()
    assert not table.validate(select=["crc.*"]).findings


def three() -> Table:
    files = Files(field("x", "long"))
    for number, name in enumerate("abc"):
        files.file(f"{name}.parquet", parquet({"x": [number, number + 10]}))
    return files.table()


def with_stats(table: Table) -> set[str]:
    return {path for path, found in stats_of(table).items() if found is not None}


@pytest.mark.parametrize(
    ("winner", "kept"),
    [
        ([remove("b.parquet")], {"a.parquet", "c.parquet"}),  # 89
        ([remove("b.parquet"), add("b.parquet", size=1, vector=inline([0]))], {"a.parquet", "c.parquet"}),  # 90
        ([add("b.parquet", size=1, base_row_id=0)], {"a.parquet", "c.parquet"}),
        ([add("d.parquet", size=9, records=1)], {"a.parquet", "b.parquet", "c.parquet", "d.parquet"}),  # 93
        ([remove(f"{name}.parquet") for name in "abc"], set()),  # 91
    ],
)
def test_a_file_that_another_writer_touched_is_left_out(winner: list[Line], kept: set[str]) -> None:
    table = three()
    plan = table.plan_stats()
    win(table, 4, commit_info(), *winner)

    done = table.execute_stats(plan)

    assert kept == with_stats(table)
    assert ([5] if len(kept) > 0 else []) == done.versions
    assert {path for path in stats_of(table) if path == "b.parquet"} == (
        {"b.parquet"} if winner[-1].get("add") else set()
    )


def test_another_schema_is_planned_again() -> None:
    """
    92: the statistics that the new properties ask for.
    """
    table = three()
    plan = table.plan_stats()
    schema = json.dumps({"type": "struct", "fields": [field("x", "long"), field("y", "long")]})
    win(table, 4, commit_info(), metadata(schema_string=schema, partition_columns=[], configuration={}))

    table.execute_stats(plan)

    assert [{"x": 0, "y": 2}] * 3 == [found["nullCount"] for found in stats_of(table).values()]


def test_groups_and_what_others_do_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A commit that the first group went behind has touched a file of the second one.
    """
    monkeypatch.setattr("deltacli.operations.change.stats.COMMIT_FILES", 1)
    table = three()
    plan = table.plan_stats()
    win(table, 4, commit_info(), remove("a.parquet"), remove("b.parquet"))
    assert 3 == plan.commits

    done = table.execute_stats(plan)

    assert {"c.parquet"} == with_stats(table) == set(stats_of(table))
    assert (1, 2) == (done.committed, done.dropped)


@pytest.mark.parametrize("files_a_commit", [1, 22_000])
def test_a_path_that_is_live_twice_is_left_alone(monkeypatch: pytest.MonkeyPatch, files_a_commit: int) -> None:
    """
    Also where the files are of two commits, or one of them has statistics: either add would be in the place of both.
    """
    monkeypatch.setattr("deltacli.operations.change.stats.COMMIT_FILES", files_a_commit)
    files, data = Files(field("x", "long")), parquet({"x": [1, 2]})
    files.file("a b.parquet", data)
    files.builder.commit(
        commit_info(),
        remove("a b.parquet"),
        add("a%20b.parquet", size=len(data)),
        add("a%20b.parquet", size=len(data), vector=inline([0])),
        add("c.parquet", size=len(data), stats='{"numRecords":2}'),
        add("./c.parquet", size=len(data), vector=inline([0])),
    )
    files.builder.file("c.parquet", data)
    table = files.file("d.parquet", data).table()

    with pytest.raises(PartlyDone) as caught:
        table.stats()

    assert "action.readd-without-remove" == caught.value.code
    assert {"c.parquet", "d.parquet"} == with_stats(table)
    assert {"numRecords": 2} == stats_of(table)["c.parquet"]


@pytest.mark.parametrize("read", ["rows", "footers"])
@pytest.mark.parametrize(("path", "commit"), DIFFERING.values(), ids=DIFFERING)
def test_files_with_several_spellings_are_left_alone(path: str, commit: list[str], read: str, tmp_path: Path) -> None:
    """An add of one spelling would change what the engines read that let removes win, or compare texts."""
    table = write_two_spellings(tmp_path / "t", path, commit)
    readings = {file.name: file.actions for file in find_ambiguous_files(table.snapshot())}
    live = {path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()}
    doubtful = live.difference(OTHERS)

    if doubtful:
        with pytest.raises(PartlyDone) as caught:
            table.stats(all=True, read=read)
        assert RULE == caught.value.code
    else:
        table.stats(all=True, read=read)

    assert readings == {file.name: file.actions for file in find_ambiguous_files(table.snapshot())}
    assert set(OTHERS) <= with_stats(table)


def test_unreadable_files_are_left_alone() -> None:
    files = Files(field("x", "long")).file("a.parquet", parquet(WHOLE)).file("b.parquet", b"PAR1 nothing PAR1")
    files.builder.commit(commit_info(), add("c.parquet", size=100))
    table = files.table()

    with pytest.raises(PartlyDone) as caught:
        table.stats()

    assert caught.value.code in ("data.not-parquet", "data.file-missing")
    assert {"a.parquet"} == with_stats(table)


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize("more", [-1, 1, 11, 10**6])
def test_a_file_of_another_size_is_left_alone(read: str, more: int) -> None:
    files = Files(field("x", "long"))
    data = parquet(WHOLE)
    files.builder.file("a.parquet", data)
    files.builder.commit(commit_info(), add("a.parquet", size=len(data) + more))
    table = files.table()

    with pytest.raises(PartlyDone):
        table.stats(read=read)

    assert set() == with_stats(table)


def test_what_is_refused() -> None:
    table = Files(field("x", "long"), field("y", "long"), dataSkippingStatsColumns="x").table()

    for wanted in (
        {"columns": ["y"]},
        {"columns": ["z"]},
        {"columns": "x"},
        {"read": "log"},
        {"all": True, "missing": True},
        {"where": "x = 1"},
    ):
        with pytest.raises(UsageError):
            table.stats(**wanted)


def test_a_check_names_what_it_cannot_read() -> None:
    files = Files(field("x", "long")).file("a.parquet", parquet(WHOLE)).file("b.parquet", b"PAR1 nothing PAR1")
    change = ComputeStats(StatsRequest(all=True), examines=True)

    plan = change.plan(files.table())

    assert ["b.parquet"] == [one.path for one in plan.refused]
    assert not plan.is_noop
    with pytest.raises(PartlyDone):
        require_complete(change.outcome(plan))


def test_a_check_reads_and_commits_nothing() -> None:
    table = three()

    due = ComputeStats(StatsRequest(), examines=True).plan(table)
    table.stats()
    rest = ComputeStats(StatsRequest(all=True), examines=True).plan(table)

    assert (3, False) == (due.due, due.is_noop)
    assert (0, True) == (rest.due, rest.is_noop)


FULL = (
    '{"numRecords":2,"minValues":{"x":1,"t":"2026-01-01T00:00:00.678Z"},'
    '"maxValues":{"x":9,"t":"2026-01-01T00:00:00.678Z"},"nullCount":{"x":0,"t":0}}'
)
TYPES: dict[tuple[str, ...], DataType] = {("x",): PrimitiveType("long"), ("t",): PrimitiveType("timestamp")}
LATER = FULL.replace(
    '"maxValues":{"x":9,"t":"2026-01-01T00:00:00.678Z"', '"maxValues":{"x":9,"t":"2026-01-01T00:00:00.678999Z"'
)


@pytest.mark.parametrize(
    ("old", "has_vector", "expected"),
    [
        (FULL, False, None),
        (LATER, False, None),
        (FULL.replace(".678Z", ".678999Z"), False, None),  # a judgement tells that rows are below the minimum
        (FULL.replace('"x":9', '"x":9.0'), False, None),
        (FULL.replace('"x":9', '"x":"nine"'), False, FULL),
        (FULL.replace('"numRecords":2', '"numRecords":3'), False, FULL),
        (FULL.replace('"x":9,', ""), False, "the pair"),
        ('{"numRecords":2,"own":12345678901234567890.123}', False, "own"),
        ("[]", False, FULL),
        ("{", False, FULL),
        (None, False, FULL),
        (FULL.replace('"x":9,', ""), True, None),  # tight before the deletion: a wide bound is none of these
    ],
)
def test_statistics_that_are_right_stay(old: str | None, has_vector: bool, expected: str | None) -> None:
    found = merged(old, FULL, TYPES, has_vector=has_vector, from_rows=False).text

    if expected in (None, FULL):
        assert expected == found if expected is None else json.loads(expected) == json.loads(found or "")
    elif expected == "own":
        assert '"own":12345678901234567890.123' in (found or "")
        assert json.loads(FULL).items() <= json.loads(found or "").items()
    else:
        assert json.loads(FULL) == json.loads(found or "")


@pytest.mark.parametrize(("racers", "count"), [(2, 20), pytest.param(8, 2_000, marks=pytest.mark.soak)])
def test_beside_writers(racers: int, count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """
    No writer is kept from committing, and no deleted row comes back.
    """
    place = str(first_files("domainMetadata", "rowTracking").write(tmp_path / "table"))
    targets: list[Any] = [(race, (place, number, SEED, count // racers)) for number in range(racers)]
    targets.append((compute_stats, (place, 50, SEED, max(count // 20, 3))))

    told = [one for found in run_together(targets, seconds=600) for one in found]

    assert not [one for one in told if isinstance(one, str)], told[-3:]
    assert count <= len(told)
    verify(place, told, [], capfd)


VALUES = st.one_of(st.none(), st.integers(-3, 3))
WORDS = st.one_of(st.none(), st.text("ab\U0010ffffé", max_size=40))


@pytest.mark.long
@examples(30)
@given(
    files=st.lists(
        st.lists(st.tuples(VALUES, WORDS, st.one_of(st.none(), st.floats(width=32))), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    deleted=st.booleans(),
    read=st.sampled_from(["footers", "rows"]),
    groups=st.integers(1, 3),
    bound=st.integers(-3, 3),
    word=st.text("ab\U0010ffffé", max_size=40),
)
def test_no_predicate_loses_a_row(files: Any, deleted: bool, read: str, groups: int, bound: int, word: str) -> None:
    built = Files(field("x", "long"), field("s", "string"), field("f", "float"))
    for number, rows in enumerate(files):
        x, s, f = (list(column) for column in zip(*rows, strict=True))
        data = pa.table({"x": pa.array(x, pa.int64()), "s": pa.array(s, pa.string()), "f": pa.array(f, pa.float32())})
        built.file(f"{number}.parquet", parquet(data, row_group_size=groups), deleted=[0] if deleted else ())
    table = built.table()
    text = word.replace("'", "''")
    conditions = [
        f"{name} {sign} {value}"
        for name, value in (("x", bound), ("s", f"'{text}'"), ("f", float(bound)))
        for sign in ("=", "<", ">", "<>")
    ]
    conditions += [f"{name} IS {what}NULL" for name in "xsf" for what in ("", "NOT ")]

    def answers() -> list[tuple[int, int]]:
        scans = [table.snapshot().scan(where=one) for one in conditions]
        return [(sum(batch.num_rows for batch in scan), len(list(scan.data_files()))) for scan in scans]

    before = answers()
    table.stats(read=read)
    after = answers()

    assert [rows for rows, _ in before] == [rows for rows, _ in after]
    assert all(now <= then for (_, then), (_, now) in zip(before, after, strict=True))
    assert not wrong(table)


@pytest.mark.parametrize(
    ("kind", "rows", "low", "high", "is_kept"),
    [
        (
            "decimal(38,2)",
            ["12345678901234567890.10", "12345678901234567890.99"],
            None,
            "12345678901234567890.10",
            False,
        ),
        ("decimal(38,2)", ["12345678901234567890.10", "12345678901234567890.99"], None, None, True),
        ("long", ["9007199254740992", "9007199254740993"], None, "9007199254740992", False),
        ("float", ["0.10000000149011612", "0.20000000298023224"], "0.1", "0.2", True),
        ("double", ["0.1", "1e22"], "0.1", "10000000000000000000000.0", True),
        ("string", ['"' + "x" * 32 + '"', '"' + "z" * 32 + '\x7f"'], '"' + "x" * 32 + 'y"', None, False),
        ("string", ['"' + "x" * 32 + '"', '"' + "z" * 32 + '\x7f"'], None, '"' + "z" * 32 + 'A"', False),
        ("string", ['"' + "x" * 32 + '"', '"' + "z" * 32 + '\x7f"'], None, '"' + "z" * 32 + '\U0010ffff"', True),
        (
            "timestamp",
            ['"1970-01-01T00:00:01.0005Z"', '"1970-01-01T00:00:01.0009Z"'],
            '"1970-01-01T00:00:01.0009Z"',
            None,
            False,
        ),
        (
            "timestamp",
            ['"1970-01-01T00:00:01.0005Z"', '"1970-01-01T00:00:01.0009Z"'],
            None,
            '"1970-01-01T00:00:01.000Z"',
            True,
        ),
        (
            "timestamp",
            ['"1970-01-01T00:00:01.0005Z"', '"1970-01-01T00:00:01.0009Z"'],
            None,
            '"1970-01-01T00:00:01.0008Z"',
            False,
        ),
    ],
)
@pytest.mark.parametrize("read", ["footers", "rows"])
def test_bounds_that_hold_for_all_rows_stay_and_others_do_not(
    kind: str, rows: list[str], low: str | None, high: str | None, is_kept: bool, read: str
) -> None:
    bounds = f'{{"numRecords":2,"minValues":{{"a":{low or rows[0]}}},"maxValues":{{"a":{high or rows[1]}}}'
    stats = f'{bounds},"nullCount":{{"a":0}}}}'
    values = [json.loads(row, parse_float=Decimal) for row in rows]
    if kind in ("float", "double"):
        values = [float(value) for value in values]
    arrow = {"decimal(38,2)": pa.decimal128(38, 2), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
    if kind == "timestamp":
        values = [500 + 1_000_000, 900 + 1_000_000]
        arrow[kind] = pa.timestamp("us", "UTC")
    elif kind.startswith("decimal"):
        values = [Decimal(value) for value in values]
    data = parquet({"a": pa.array(values, arrow.get(kind, pa.string()))})
    table = Files(field("a", kind)).file("a.parquet", data, stats=stats).table()

    done = table.stats(all=True, read=read)

    if is_kept:
        assert not done.versions
    elif read == "rows" or kind != "string":  # a long text in a footer may be truncated
        assert done.versions
        assert not wrong(table)


ODD_BOUNDS: Mapping[str, tuple[str, pa.Array, Any, Any]] = {
    # as Delta for Spark writes them: type, rows, minimum, maximum
    "NaN": ("double", pa.array([-1.5, float("nan")]), -1.5, "NaN"),
    "NaN alone": ("float", pa.array([float("nan")], pa.float32()), "NaN", "NaN"),
    "infinity": ("double", pa.array([-1.5, float("inf")]), -1.5, "Infinity"),
    "negative infinity": ("double", pa.array([-float("inf"), 2.0]), "-Infinity", 2.0),
    "before year 0": ("date", pa.array([-735_525, 0], pa.int32()).cast(pa.date32()), "-0044-03-15", "1970-01-01"),
    "after 9999": ("date", pa.array([0, 3_789_782], pa.int32()).cast(pa.date32()), "1970-01-01", "+12346-02-14"),
    "no text is above": ("string", pa.array(["", 70 * "\U0010ffff"]), "", None),
    "wider": ("long", pa.array([3, 5]), 1, 9),
    "nulls alone": ("long", pa.nulls(2, pa.int64()), 1, 9),
}


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize("name", ODD_BOUNDS)
def test_bounds_that_are_not_written_here_are_right_all_the_same(name: str, read: str) -> None:
    kind, values, low, high = ODD_BOUNDS[name]
    ends = [{} if one is None else {"x": one} for one in (low, high)]
    stats = {"numRecords": len(values), "minValues": ends[0], "maxValues": ends[1]}
    text = json.dumps(stats | {"nullCount": {"x": values.null_count}})
    table = Files(field("x", kind)).file("a.parquet", parquet({"x": values}), stats=text).table()

    plan = ComputeStats(StatsRequest(all=True, read=read), examines=True).plan(table)
    done = table.stats(all=True, read=read)

    assert (0, True) == (plan.due, plan.is_noop)
    assert not done.versions
    assert json.loads(text) == stats_of(table)["a.parquet"]


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        ("double", [-1.5, float("nan")], -1.0, "NaN"),
        ("double", [-1.5, 2.5], -1.5, 2.0),
        ("double", [-float("inf"), 2.5], -1.5, 2.5),
        ("boolean", [True, False], True, True),
    ],
)
def test_bounds_that_lose_rows_go_where_none_can_replace_them(
    kind: str, values: list[Any], low: Any, high: Any, read: str
) -> None:
    stats = {"numRecords": 2, "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}
    data = parquet({"x": values})
    table = Files(field("x", kind)).file("a.parquet", data, stats=json.dumps(stats)).table()
    assert "stats.bounds-not-covering" in wrong(table)

    plan = ComputeStats(StatsRequest(all=True, read=read), examines=True).plan(table)
    table.stats(all=True, read=read)

    assert 1 == plan.due
    assert "stats.bounds-not-covering" not in wrong(table)


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize("everything", [False, True])
def test_a_column_that_is_younger_than_a_file_is_not_missing(everything: bool, read: str) -> None:
    """
    A check passes; null counts of it are added all the same, also within structs.
    """
    stats = {"numRecords": 1, "minValues": {"s": {"a": 1}}, "maxValues": {"s": {"a": 1}}, "nullCount": {"s": {"a": 0}}}
    inside = {"type": "struct", "fields": [field("a", "long"), field("b", "double")]}
    files = Files(field("s", inside), field("y", "long"))
    table = files.file("a.parquet", parquet({"s": [{"a": 1}]}), stats=json.dumps(stats)).table()

    plan = ComputeStats(StatsRequest(all=everything, read=read), examines=True).plan(table)
    table.stats(all=everything, read=read)
    after = ComputeStats(StatsRequest(all=everything, read=read), examines=True).plan(table)

    assert (0, 1, True) == (plan.due, plan.younger_columns, plan.is_noop)
    assert {"s": {"a": 0, "b": 1}, "y": 1} == stats_of(table)["a.parquet"]["nullCount"]
    assert (0, 0) == (after.due, after.younger_columns)


def test_a_wrong_null_count_of_a_younger_column_is_due() -> None:
    stats = '{"numRecords":1,"minValues":{"x":1},"maxValues":{"x":1},"nullCount":{"x":0,"y":0}}'
    files = Files(field("x", "long"), field("y", "long"))
    table = files.file("a.parquet", parquet({"x": [1]}), stats=stats).table()

    assert 1 == ComputeStats(StatsRequest(all=True), examines=True).plan(table).due


@pytest.mark.parametrize("has_vector", [False, True])
@pytest.mark.parametrize(
    ("kind", "low", "high", "nulls"),
    [
        ("long", 9, 1, 0),
        ("double", 1.5, -2e300, 0),
        ("decimal(20,2)", 1.02, 1.0, 0),
        ("string", "b", "a", 0),
        ("boolean", True, False, 0),
        ("date", "2026-01-02", "2026-01-01", 0),
        ("timestamp", "2026-01-01T00:00:00.002Z", "2026-01-01T00:00:00.001Z", 0),
        ("long", 1, 9, 3),
        ("long", 1, 9, -1),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_what_contradicts_itself_is_replaced_or_left_out(
    is_known: bool, kind: str, low: Any, high: Any, nulls: int, has_vector: bool
) -> None:
    """
    Footers have no bounds, or those of all rows, which are not tight behind a deletion vector.
    """

    def text(low: Any, high: Any, nulls: int | None) -> str:
        ends = {"minValues": {"b": 1}, "maxValues": {"b": 2}, "nullCount": {"b": 0}}
        for part, value in zip(ends, (low, high, nulls), strict=True):
            ends[part] |= {} if value is None else {"a": value}
        return json.dumps({"numRecords": 2, **ends})

    types: dict[tuple[str, ...], DataType] = {("a",): PrimitiveType(kind), ("b",): PrimitiveType("long")}
    repaired = text(low, high, 1) if nulls else text(high, low, nulls)
    new = repaired if is_known else text(None, None, None)

    found = merged(text(low, high, nulls), new, types, has_vector=has_vector, from_rows=False).text

    if is_known and not has_vector:
        assert json.loads(repaired) == json.loads(found or "")
    elif nulls:
        assert json.loads(text(low, high, None)) == json.loads(found or "")
    else:
        assert json.loads(text(None, None, nulls)) == json.loads(found or "")


def test_claims_that_rows_contradict_are_left_out() -> None:
    """
    Some rows are deleted: NaN has no bounds, and a null count of some rows says nothing. A count of 0 would hide nulls.
    """
    stats = (
        '{"numRecords":6,"minValues":{"f":1.0},"maxValues":{"f":2.0},'
        '"nullCount":{"f":1,"b":0,"xs":0},"tightBounds":false}'
    )
    values = {
        "f": [1.0, 2.0, float("nan"), None, 1.0, 1.0],
        "b": [True, None, True, True, True, True],
        "xs": pa.array([[1], [], None, [], [], []], pa.list_(pa.int64())),
    }
    lists = {"type": "array", "elementType": "long", "containsNull": True}
    fields = field("f", "double"), field("b", "boolean"), field("xs", lists)
    table = Files(*fields).file("a.parquet", parquet(values), deleted=[5], stats=stats).table()

    table.stats(all=True, read="rows")

    left = {"numRecords": 6, "minValues": {}, "maxValues": {}, "nullCount": {"f": 1}, "tightBounds": False}
    assert left == stats_of(table)["a.parquet"]
    assert not table.stats(all=True, read="rows").versions


@pytest.mark.parametrize(
    ("newer", "codes"),
    [
        (
            protocol(3, 7, reader_features=[], writer_features=["rowTracking", "domainMetadata", "newThing"]),
            ("protocol.unknown-feature", "protocol.unknown-feature"),
        ),
        (protocol(1, 8), ("protocol.version-out-of-range", "protocol.version-out-of-range")),
    ],
)
def test_files_of_a_newer_protocol_are_not_added_again(newer: Line, codes: tuple[str, str]) -> None:
    """
    Adds of it may have fields that deltacli does not know and would lose.
    """
    builder, data = TableBuilder(), parquet(WHOLE)
    builder.file("a.parquet", data)
    schema = json.dumps({"type": "struct", "fields": [field("x", "long")]})
    builder.commit(commit_info(), newer, metadata(schema_string=schema, partition_columns=[]))
    action = add("a.parquet", size=len(data))
    action["add"]["newField"] = {"a": 1}
    builder.commit(commit_info(), action)
    table = open_at(builder.in_memory())

    acts: list[Callable[[], object]] = [table.stats, lambda: table.set_properties(ROW_IDS, upgrade_protocol=True)]
    for code, act in zip(codes, acts, strict=True):
        with pytest.raises(Refused) as caught:
            act()
        assert code == caught.value.code

    assert 1 == table.snapshot().version


ROW_IDS = {"delta.enableRowTracking": "true"}


@pytest.mark.parametrize(("kind", "value"), [("string", "x"), ("binary", b"x")])
@pytest.mark.parametrize("everything", [False, True])
def test_a_check_of_footers_names_files_whose_rows_are_needed(kind: str, value: Any, everything: bool) -> None:
    """
    Arrow may hide values behind null structs, so a footer does not tell the nulls of such a field.
    """
    inside = {"type": "struct", "fields": [field("v", kind)]}
    stats = '{"numRecords":1,"nullCount":{"x":0},"minValues":{"x":1},"maxValues":{"x":1}}'
    files = Files(field("x", "long"), field("s", inside))
    table = files.file("a.parquet", parquet({"x": [1], "s": [{"v": value}]}), stats=stats).table()
    check = ComputeStats(StatsRequest(all=everything), examines=True)

    plan = check.plan(table)
    done = table.stats(all=everything)
    table.stats(read="rows", all=everything)
    after = check.plan(table)

    assert (1, 1, False) == (plan.due, plan.needs_rows, plan.is_noop)
    assert ([], 1) == (done.versions, done.needs_rows)
    assert (0, 0) == (after.due, after.needs_rows)


def test_bounds_that_footers_lack_need_no_rows() -> None:
    """
    NaN may forbid them, so a check would fail for ever.
    """
    stats = '{"numRecords":1,"nullCount":{"x":0},"minValues":{},"maxValues":{}}'
    table = Files(field("x", "double")).file("a.parquet", parquet({"x": [float("nan")]}), stats=stats).table()

    plan = ComputeStats(StatsRequest(), examines=True).plan(table)

    assert (0, 0, True) == (plan.due, plan.needs_rows, plan.is_noop)
