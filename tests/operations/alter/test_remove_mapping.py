"""`features drop columnMapping`: files get the names of the table, rows stay what they were, for every reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, PartlyDone, Refused
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import Storage, open_storage
from tests.differential.test_rows import PEERS
from tests.support.actions import Line, add, commit_info, domain, protocol
from tests.support.altering import MAPPED, drop, rename, table_of
from tests.support.altering import add as add_column
from tests.support.committing import Rivals, commits, infos
from tests.support.effort import InTurn, examples
from tests.support.faulty import Fault, FaultyStorage
from tests.support.peers import Task, ask_for_rows, has_peer, peer_python
from tests.support.reading import NOW_MS, open_at
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline
from tests.support.validating import validate_table

COLUMNS = "a int, b int, s struct<x: int, y: int>, gone string, p string"
SCHEMA = pa.schema(
    {"a": pa.int32(), "b": pa.int32(), "s": pa.struct({"x": pa.int32(), "y": pa.int32()}), "gone": pa.string()}
)
FEATURES = ["appendOnly", "invariants", "columnMapping", "deletionVectors", "rowTracking", "domainMetadata"]
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_ids",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_versions",
}
RENAMED = [
    rename("a", "c"),
    rename("b", "a"),
    rename("c", "b"),
    rename("s.x", "z"),
    rename("p", "q"),
    drop("gone"),
    add_column("gone", "string"),
]
"""Two columns change their names, and a dropped one comes back."""

Row = dict[str, Any]


def file(name: str, first: int, p: str, *, deleted: tuple[int, ...] = (), **others: Any) -> tuple[str, bytes, Line]:
    """Three rows of a partition, and their add."""
    numbers = range(first, first + 3)
    rows = [{"a": n, "b": -n, "s": {"x": n, "y": 9}, "gone": f"g{n}"} for n in numbers]
    data = parquet_bytes(pa.Table.from_pylist(rows, SCHEMA))
    vector = inline(deleted) if deleted else None
    return name, data, add(name, size=len(data), records=3, partition_values={"p": p}, vector=vector, **others)


def built(properties: Mapping[str, str] | None = None, features: list[str] | None = None, **table: Any) -> Storage:
    builder = table_of(
        COLUMNS, features=features or FEATURES, partitions=["p"], properties={**TRACKED, **(properties or {})}, **table
    )
    lines = []
    for name, data, line in (
        file("f", 0, "x", baseRowId=0, defaultRowCommitVersion=1),
        file("g", 10, "y", deleted=(1,), baseRowId=3, defaultRowCommitVersion=1),
    ):
        builder.file(name, data)
        lines.append(line)
    mark = domain("delta.rowTracking", '{"rowIdHighWaterMark":5}')
    storage = builder.commit(commit_info(), mark, *lines).in_memory()
    open_at(storage).alter([MAPPED])
    return storage


def rows(table: Table, version: int | None = None) -> list[Row]:
    found = [row for batch in table.snapshot(version=version).scan() for row in batch.to_pylist()]
    return sorted(found, key=str)


def files(table: Table) -> list[Row]:
    found = [row for batch in table.snapshot().files() for row in batch.to_pylist()]
    return [{**row, "partitionValues": dict(row["partitionValues"])} for row in found]


def copies(storage: Storage) -> set[str]:
    """The files that were written, whether or not a version has them."""
    return {
        f"{entry.directory}/{name}".lstrip("/")
        for entry in storage.walk("", lambda _, names: names)
        for name in entry.names
        if name.endswith(".zstd.parquet")
    }


def unmap(storage: Storage) -> str:
    table = open_at(storage)
    try:
        table.drop_features("columnMapping")
    except DeltacliError as error:
        return error.code
    return "ok"


def errors(storage: Storage, level: str = "data") -> list[str]:
    found = validate_table(storage, EmbeddedEngine(), now_ms=NOW_MS, level=level)
    return [f"{finding.rule.id}: {finding.message}" for finding in found.findings if finding.severity == "error"]


def test_files_get_the_names_of_the_table_and_rows_stay() -> None:
    """6.3, 6.43, 6.44, 6.45: partitions, vectors, row ids, nested names, a name that was used before."""
    storage = built()
    table = open_at(storage)
    for one in RENAMED:
        table.alter([one])
    before, newest = rows(table), table.snapshot().version
    ids = sorted((row["baseRowId"], row["path"]) for row in files(table))

    assert "ok" == unmap(storage)

    after = table.snapshot()
    assert 5 == len(before)
    assert before == rows(table) == rows(table, newest)
    assert not {"columnMapping"} & after.protocol.supported_features
    assert "columnMapping" not in f"{after.metadata.schema_string}{dict(after.properties)}"
    assert {"f", "g"}.isdisjoint(row["path"] for row in files(table))
    assert {"x", "y"} == {row["partitionValues"]["q"] for row in files(table)}
    assert [("REMOVE COLUMN MAPPING", "2")] == [
        (info["operation"], info["operationMetrics"]["numRewrittenFiles"])
        for info in infos(storage)
        if info["operation"].startswith("REMOVE")
    ]
    for row in files(table):
        stored = pq.read_table(pa.BufferReader(storage.read(unquote(row["path"]))))
        assert ["b", "a", "s", "gone", "_ids", "_versions"] == stored.column_names
        assert [None] == stored["gone"].unique().to_pylist()
        first = 0 if row["partitionValues"]["q"] == "x" else 3
        assert [first, *([first + 1] if not first else []), first + 2] == stored["_ids"].to_pylist()
    assert [(0, "f"), (3, "g")] == ids
    assert [] == errors(storage)
    assert "features.not-present" == unmap(storage)


def test_a_mapping_that_is_off_goes_without_a_copy() -> None:
    """6.10: the schema has entries that nothing uses."""
    entries = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "other"}
    data = parquet_bytes(pa.table({"a": pa.array([1, 2], pa.int32())}))
    builder = table_of("a int", features=["columnMapping"], a=entries)
    storage = builder.file("f", data).commit(commit_info(), add("f", size=len(data), records=2)).in_memory()

    assert "ok" == unmap(storage)
    assert ([{"a": 1}, {"a": 2}], ["f"]) == (rows(open_at(storage)), [row["path"] for row in files(open_at(storage))])
    assert {} == open_at(storage).snapshot().schema.fields[0].metadata
    assert [] == errors(storage)


def test_a_column_that_was_only_dropped_does_not_come_back() -> None:
    storage = built()
    table = open_at(storage)
    table.alter([drop("gone")])

    assert "ok" == unmap(storage)
    table.alter([add_column("gone", "string")])

    assert {None} == {row["gone"] for row in rows(table)}
    assert {"f", "g"}.isdisjoint(row["path"] for row in files(table))


@pytest.mark.parametrize(
    ("changes", "features", "code"),
    [
        ([rename("a", "a b")], None, "alter.name"),
        ([rename("s.x", "x=1")], None, "alter.name"),
        ([], [*FEATURES, "icebergCompatV2"], "features.required"),
    ],
    ids=["6.46", "8.41", "8.22"],
)
def test_what_keeps_the_mapping(changes: list[Any], features: list[str] | None, code: str) -> None:
    storage = built(features=features)
    for one in changes:
        open_at(storage).alter([one])
    count = len(commits(storage))

    assert (code, count) == (unmap(storage), len(commits(storage)))


def test_clustering_columns_get_their_names() -> None:
    features = ["columnMapping", "clustering", "domainMetadata"]
    builder = table_of("a int, s struct<x: int>", features=features, clustering=[["s", "x"]])
    data = parquet_bytes(pa.Table.from_pylist([{"a": 1, "s": {"x": 2}}]).cast(SCHEMA_OF_CLUSTERED))
    stats = '{"numRecords":1,"minValues":{"s":{"x":2}},"maxValues":{"s":{"x":2}},"nullCount":{"s":{"x":0}}}'
    storage = builder.file("f", data).commit(commit_info(), add("f", size=len(data), stats=stats)).in_memory()
    table = open_at(storage)
    for one in (MAPPED, rename("s.x", "n"), rename("s", "t")):
        table.alter([one])

    assert "ok" == unmap(storage)
    assert ['{"clusteringColumns":[["t","n"]],"domainName":"delta.clustering"}'] == [
        one.configuration for one in table.snapshot().domains
    ]
    assert [] == errors(storage)


SCHEMA_OF_CLUSTERED = pa.schema({"a": pa.int32(), "s": pa.struct({"x": pa.int32()})})


@pytest.mark.parametrize(
    "winner",
    [
        [
            commit_info(),
            file("h", 20, "x", baseRowId=6, defaultRowCommitVersion=4)[2],
            domain("delta.rowTracking", '{"rowIdHighWaterMark":8}'),
        ],
        [commit_info(), {"remove": {"path": "f", "dataChange": True, "deletionTimestamp": 0}}],
        [commit_info(), protocol(3, 7, reader_features=FEATURES[2:4], writer_features=[*FEATURES, "changeDataFeed"])],
    ],
    ids=["adds", "removes", "protocol"],
)
def test_what_others_write_meanwhile_is_renamed_too(winner: list[Line]) -> None:
    storage = built()
    name, data, _ = file("h", 20, "x")
    storage.put_if_absent(name, data)
    table = open_at(storage)
    table.alter([rename("a", "n")])

    assert "ok" == unmap(Rivals(storage, winner))

    adds, is_removed = "add" in winner[1], "remove" in winner[1]
    assert (8 if adds else 2 if is_removed else 5) == len(rows(table))
    assert all(row["n"] is not None for row in rows(table))
    assert {unquote(row["path"]) for row in files(table)} == copies(storage)
    assert [] == errors(storage, "log")


def test_a_damaged_file_keeps_the_mapping_and_leaves_nothing_behind() -> None:
    """8.44."""
    storage = built()
    open_at(storage).alter([rename("a", "n")])
    list(storage.delete_many(["g"]))
    storage.put_if_absent("g", b"PAR1 broken PAR1")
    count = len(commits(storage))

    assert unmap(storage).startswith("data.")
    assert count == len(commits(storage))
    assert set() == copies(storage)


class FaultyCreations(FaultyStorage):
    """Counts creations only: threads make other calls between them in another order each time."""

    def step(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        return super().step(verb, path, call) if "pub" in verb or "put" in verb else call()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.LOST, Fault.UNSENT])
def test_a_fault_at_any_call_loses_nothing(fault: Fault, in_turn: InTurn) -> None:
    def prepared() -> Storage:
        storage = built()
        for one in (rename("a", "n"), rename("p", "q")):
            open_at(storage).alter([one])
        return storage

    kind = FaultyStorage if fault is Fault.BEFORE else FaultyCreations
    counting = kind(prepared())
    expected = rows(open_at(prepared()))
    assert "ok" == unmap(counting)

    for at in in_turn(range(1, len(counting.calls) + 1), 39 if fault is Fault.BEFORE else 18):
        storage = prepared()
        verdict = unmap(kind(storage, at, fault))
        assert expected == rows(open_at(storage)), (at, verdict)
        assert unmap(storage) in ("ok", "features.not-present")
        assert expected == rows(open_at(storage))
    assert [] == errors(storage)


def test_a_run_that_stops_half_way_says_how_to_go_on() -> None:
    storage = built()
    open_at(storage).alter([rename("a", "n")])
    counting = FaultyStorage(built())
    assert "ok" == unmap(counting)
    faulty = FaultyStorage(storage, len(counting.calls) - 3, Fault.BEFORE)

    with pytest.raises(PartlyDone, match="columnMapping is not dropped yet") as raised:
        open_at(faulty).drop_features("columnMapping")

    assert raised.value.hint is not None
    assert "columnMapping" in raised.value.hint


NAMES = ("a", "b", "c", "D", "e")


@pytest.mark.halved
@examples(6)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(NAMES), st.booleans()), max_size=7))
def test_any_names_give_the_same_rows(steps: list[tuple[int, str, bool]]) -> None:
    storage = built()
    table = open_at(storage)
    for number, name, is_new in steps:
        known = [field.name for field in table.snapshot().schema.fields if field.name not in ("s", "p")]
        asked = add_column(name, "int") if is_new else rename(known[number % len(known)], name)
        try:
            table.alter([asked])
            if is_new and number % 3 == 0 and len(known) > 1:
                table.alter([drop(known[number % len(known)])])
        except Refused:
            continue
    before = rows(table)

    assert "ok" == unmap(storage)
    assert before == rows(table)
    assert [] == errors(storage)


@pytest.mark.parametrize("peer", PEERS)
def test_other_engines_read_the_newest_version_and_no_old_one_wrong(peer: str, tmp_path: Path) -> None:
    """Clients that do not know column mapping read the table again; old versions they refuse."""
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip("no other engine")
    builder = table_of(COLUMNS, features=["columnMapping"], partitions=["p"])
    for name, data, line in (file("f", 0, "x"), file("g", 10, "y")):
        builder.file(name, data)
        builder.commit(commit_info(), line)
    place = builder.write(tmp_path / "t")
    table = open_table(place)
    for one in (MAPPED, *RENAMED):
        table.alter([one])
    versions = [0, 2, 3, 5, table.snapshot().version]
    assert "ok" == unmap(open_storage(str(place)))
    versions.append(table.snapshot().version)

    asked = [Task(str(version), str(place), version) for version in versions]
    answers = ask_for_rows(python, PEERS[peer], asked, tmp_path)

    assert answers[-1].refusal is None, answers[-1]
    for answer in answers:
        if answer.place is None:
            continue
        with pa.ipc.open_file(answer.place) as opened:
            found = opened.read_all()
        expected = rows(table, answer.task.version)
        assert expected == sorted(found.to_pylist(), key=str), answer.task
        schema = table.snapshot(version=answer.task.version).schema
        assert [field.name for field in schema.fields] == found.column_names
