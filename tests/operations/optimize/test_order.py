"""Sorting rows by a z-order or by the clustering columns: which files are chosen, what is written, what is refused."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import (
    DataUnreadable,
    DeltacliError,
    NoSpace,
    OutcomeUnknown,
    Refused,
    StorageFailed,
    UsageError,
)
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.optimize.plan import plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from tests.operations.optimize.test_cases import TRACKED
from tests.support.actions import Line, add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.optimizing import Ids, chances, data_files, last_commit, live_paths, rows_of
from tests.support.reading import open_at
from tests.support.shipping import ShippingEngine

COLUMNS = {"id": "long", "a": "long", "b": "string", "s": {"x": "double"}, "flag": "boolean"}
KINDS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("a", pa.int64()),
        pa.field("b", pa.string()),
        pa.field("s", pa.struct([("x", pa.float64())])),
        pa.field("flag", pa.bool_()),
    ]
)
CUBE, BY, TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "deltacli.zorderBy"


def schema(columns: Mapping[str, object]) -> str:
    fields = [
        {"name": name, "type": json.loads(schema(kind)) if isinstance(kind, dict) else kind, "nullable": True}
        | {"metadata": {}}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


class Points:
    """A table of random points that is clustered by some columns, if any are given."""

    def __init__(self, *features: str, by: Sequence[object] | None = None, **properties: str) -> None:
        names = ["deletionVectors", *features, *(["clustering", "domainMetadata"] if by is not None else [])]
        self._random = random.Random(0)
        self._ids = 0
        self.builder = TableBuilder().commit(
            commit_info("CREATE TABLE"),
            protocol(3, 7, reader_features=["deletionVectors"], writer_features=names),
            metadata(configuration=properties, schema_string=schema(COLUMNS)),
            *([] if by is None else [self.domain(by)]),
        )

    @staticmethod
    def domain(by: Sequence[object]) -> Line:
        paths = [[one] if isinstance(one, str) else one for one in by]
        text = json.dumps({"clusteringColumns": paths, "domainName": "delta.clustering"})
        return {"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}}

    def line(self, name: str, rows: int = 4, **others: Any) -> Line:
        chance = self._random
        found = [
            {
                "id": self._ids + number,
                "a": chance.choice([None, chance.randrange(1000)]),
                "b": f"{chance.randrange(1000):03}",
                "s": chance.choice([None, {"x": chance.choice([float("nan"), chance.random()])}]),
                "flag": None,
            }
            for number in range(rows)
        ]
        self._ids += rows
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(found, KINDS), out)
        self.builder.file(name, out.getvalue())
        return add(name, size=len(out.getvalue()), records=rows, partition_values={}, **others)

    def append(self, *names: str, **others: Any) -> Points:
        self.builder.commit(commit_info("WRITE"), *(self.line(name, **others) for name in names))
        return self

    def table(self) -> Table:
        return open_at(self.builder.in_memory())


def append_to(table: Table, points: Points, *lines: Line) -> None:
    """Commit lines, and the files of the builder that are not there yet."""
    storage = table.writable()
    for path, file in points.builder.files.items():
        storage.put_if_absent(path, file.data)
    version = table.snapshot().version + 1
    text = b"".join(json.dumps(line).encode() + b"\n" for line in (commit_info("WRITE"), *lines))
    storage.put_if_absent(f"_delta_log/{version:020}.json", text)


def shown_rows(table: Table) -> list[str]:
    """The rows, comparable although NaN does not equal itself."""
    return list(map(repr, rows_of(table)))


def sort(table: Table, **how: Any) -> Any:
    """Sort, and compare what can be read before and after."""
    before = shown_rows(table)
    done = table.optimize(**how)
    assert before == shown_rows(table)
    errors = [found.rule.id for found in table.validate(level="data").findings if found.severity == "error"]
    assert set(errors) <= {"stats.clustering-missing"}  # of the files of the test
    assert table.optimize(**how).plan.is_noop
    return done


def adds_of(table: Table) -> list[dict[str, Any]]:
    return [dict(action) for kind, action in last_commit(table.writable()) if kind == "add"]


def columns_of(table: Table, path: str, column: str) -> list[Any]:
    found: list[Any] = pq.read_table(io.BytesIO(table.storage.read(path)), columns=[column]).column(0).to_pylist()
    return found


# -- z-order ----------------------------------------------------------------------------------------------------------


def test_partitions_with_rows_that_are_not_sorted_are_sorted() -> None:
    table = Ids().append("a", "b", rows=50).append("c", p="1").table()

    done = sort(table, zorder=["id"])

    assert (3, 2) == (done.files_removed, done.files_added)
    info = last_commit(table.writable())[0][1]
    assert "OPTIMIZE" == info["operation"]
    assert {"predicate": "[]", "zOrderBy": '["id"]', "clusterBy": "[]", "auto": False} == info["operationParameters"]
    assert [{TAG: '["id"]'}] * 2 == [action["tags"] for action in adds_of(table)]
    assert table.optimize().plan.is_noop  # files of another order are not merged with these


def test_only_the_partition_with_a_new_file_is_sorted_again() -> None:
    ids = Ids().append("a", rows=50).append("c", p="1")
    table = ids.table()
    sort(table, zorder=["id"])
    line = ids.line("new", p="1")
    table.writable().put_if_absent("new", ids.builder.files["new"].data)
    append = b"".join(json.dumps(one).encode() + b"\n" for one in (commit_info("WRITE"), line))
    table.writable().put_if_absent(f"_delta_log/{table.snapshot().version + 1:020}.json", append)

    done = sort(table, zorder=["id"])

    assert (2, 1, {"sorted": 1}) == (done.files_removed, done.files_added, dict(done.plan.skipped))


def test_a_condition_limits_the_partitions() -> None:
    table = Ids().append("a", "b").append("c", p="1").table()

    done = sort(table, zorder=["id"], where="p = '1'")

    assert (1, {"a", "b"}) == (done.files_removed, {"a", "b"} & live_paths(table))
    assert "[\"p = '1'\"]" == last_commit(table.writable())[0][1]["operationParameters"]["predicate"]


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """New files of some hundred rows."""
    monkeypatch.setattr("deltacli.work.curve_sort._ROWS_A_BATCH", 100)
    monkeypatch.setattr("deltacli.work.rewrite.file_writing._LEAST_GROUP", 1 << 10)


@pytest.mark.halved
@pytest.mark.usefixtures("small_files")
def test_queries_on_the_columns_open_fewer_files() -> None:
    points = Points()
    points.append(*(f"f{number}" for number in range(16)), rows=500)
    table = points.table()

    def opened() -> int:
        """Count the files whose bounds include a value, of some queries for one value."""
        return sum(
            min(found) <= value <= max(found)
            for path in live_paths(table)
            for column, value in (("a", 100), ("a", 900), ("b", "500"), ("b", "950"))
            for found in [[one for one in columns_of(table, path, column) if one is not None]]
        )

    before, files = opened(), len(live_paths(table))
    sort(table, zorder=["a", "b"], target_size="4KiB")

    assert len(live_paths(table)) >= files
    assert opened() < before / 2


@pytest.mark.parametrize(
    ("columns", "expected"), [(["s.x"], '["s.x"]'), (["B", "`a`"], '["b","a"]'), (["a", "b", "s.x", "id"], None)]
)
def test_columns_are_named_as_the_schema_does(columns: list[str], expected: str | None) -> None:
    table = Points().append("x", "y").table()

    sort(table, zorder=columns)

    found = last_commit(table.writable())[0][1]["operationParameters"]["zOrderBy"]
    assert (expected or '["a","b","s.x","id"]') == found


def test_row_ids_follow_their_rows() -> None:
    ids = Ids("rowTracking", "domainMetadata", configuration=TRACKED)
    later = ids.line("b", rows=6, baseRowId=6, defaultRowCommitVersion=2, deleted=(0,))
    lines = [ids.line("a", rows=6, baseRowId=0, defaultRowCommitVersion=1), later]
    for line, most in zip(lines, (5, 11), strict=True):
        text = json.dumps({"rowIdHighWaterMark": most})
        mark = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": text, "removed": False}}
        ids.builder.commit(commit_info("WRITE"), line, mark)
    table = ids.table()

    sort(table, zorder=["id"])

    actions = last_commit(table.writable())
    assert {"delta.rowTracking.preserved": "true"} == actions[0][1]["tags"]
    stored = pq.read_table(io.BytesIO(table.storage.read(adds_of(table)[0]["path"]))).to_pydict()
    assert [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] == stored["id"]
    assert [7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5] == stored["_row_id"]
    assert [2] * 5 + [1] * 6 == stored["_row_version"]


def test_a_file_that_is_refused_does_not_make_every_run_sort_again() -> None:
    ids = Ids(partitioned=False).append("a", "b", "x")
    ids.builder.file("x", b"PAR1 damaged PAR1")
    table = ids.table()
    with pytest.raises(DeltacliError, match="could not be read"):
        table.optimize(zorder=["id"])
    version, files = table.snapshot().version, live_paths(table)

    plan = plan_optimize(table, OptimizeRequest(zorder=["id"]))
    with pytest.raises(DeltacliError, match="could not be read"):
        table.optimize(zorder=["id"])

    assert plan.is_noop
    assert ["x"] == [one.path for one in plan.damaged]
    assert (version, files) == (table.snapshot().version, live_paths(table))
    assert {path for path in data_files(table.writable()) if "part-" in path} <= files


def test_a_file_with_a_damaged_page_does_not_make_every_run_sort_again() -> None:
    ids = Ids(partitioned=False).append("a", "b", "x")
    whole = bytearray(ids.builder.files["x"].data)
    whole[4:40] = b"\xff" * 36
    ids.builder.file("x", bytes(whole))
    table = ids.table()
    with pytest.raises(DeltacliError, match="could not be read"):
        table.optimize(zorder=["id"])

    plan = plan_optimize(table, OptimizeRequest(zorder=["id"]))

    assert plan.is_noop
    assert {"sorted": 1} == {reason: count for reason, count in plan.skipped.items() if reason == "sorted"}
    assert ["x"] == [one.path for one in plan.damaged]


@pytest.mark.parametrize("how", [{"zorder": ["id"]}, {"cluster": True}])
def test_a_file_that_is_not_exact_is_not_sorted_again_and_again(how: dict[str, Any]) -> None:
    points = Points(by=["id"] if how.get("cluster") else None).append("a", "b")
    table = points.table()
    sort(table, **how)
    points.builder.files.clear()
    times = pa.table({"id": pa.array([1, 2]), "b": pa.array(["x", "y"]), "a": pa.array([1, 2])})
    out = io.BytesIO()
    pq.write_table(times, out, row_group_size=1)
    points.builder.file("late", out.getvalue())
    line = add("late", size=len(out.getvalue()), records=2, partition_values={})
    append_to(table, points, line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltacli.work.rewrite.exactness.Exactness.require", refuse_late)
        plan = plan_optimize(table, OptimizeRequest(**how))

    assert plan.is_noop
    assert {"optimize.value-not-exact": 1, "sorted": 1} == dict(plan.skipped)
    assert not plan_optimize(table, OptimizeRequest(**how)).is_noop


def refuse_late(_: object, opened: Any) -> None:
    """Refuse the file of two row groups."""
    if opened.parquet.metadata.num_row_groups == 2:
        raise DataUnreadable("refused", code="optimize.value-not-exact")


# -- clustering -------------------------------------------------------------------------------------------------------


def cubes_of(table: Table) -> dict[str, str]:
    """The cube of each live file that has one."""
    found = {}
    for batch in table.snapshot().files():
        for path, tags in zip(*(batch.column(name).to_pylist() for name in ("path", "tags")), strict=True):
            if dict(tags or ()).get(CUBE):
                found[path] = dict(tags)[CUBE]
    return found


@pytest.mark.parametrize("by", [["a"], ["a", "b"], ["b", "a", "id", ["s", "x"]]])
def test_files_become_one_cube(by: list[Any]) -> None:
    table = Points(by=by).append("a", "b").append("c", "d").table()

    done = sort(table, cluster=True)

    assert (4, 1) == (done.files_removed, done.files_added)
    names = json.dumps(["s.x" if isinstance(one, list) else one for one in by], separators=(",", ":"))
    expected = {"predicate": "[]", "zOrderBy": "[]", "clusterBy": names, "auto": False, "isFull": False}
    assert expected == last_commit(table.writable())[0][1]["operationParameters"]
    (new,) = adds_of(table)
    assert ("liquid", names) == (new["clusteringProvider"], new["tags"][BY])
    assert 1 == len(set(cubes_of(table).values()))
    if by == ["a"]:
        found = [value for value in columns_of(table, new["path"], "a") if value is not None]
        assert sorted(found) == found


def test_new_files_join_the_small_cube_which_alone_is_left_alone() -> None:
    points = Points(by=["a", "b"]).append("a", "b")
    table = points.table()
    sort(table, cluster=True)
    first = set(cubes_of(table).values())
    append_to(table, points, points.line("c"))

    done = sort(table, cluster=True)

    assert (2, 1) == (done.files_removed, done.files_added)
    assert first.isdisjoint(cubes_of(table).values())
    removes = [action for kind, action in last_commit(table.writable()) if kind == "remove"]
    assert first == {action["tags"][CUBE] for action in removes if action.get("tags")}


def test_a_complete_cube_stays_and_new_files_become_another(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = ("deltacli.operations.optimize.row_order.files_to_cluster.__kwdefaults__", {"complete_bytes": 1})
    points = Points(by=["a", "b"]).append("a", "b")
    table = points.table()
    sort(table, cluster=True)
    old = cubes_of(table)
    append_to(table, points, points.line("c"), points.line("d"))
    monkeypatch.setattr(*defaults)

    done = sort(table, cluster=True)

    assert (2, 1) == (done.files_removed, done.files_added)
    assert old.items() < cubes_of(table).items()
    monkeypatch.undo()
    assert 1 == len(set(cubes_of(table).values()) if sort(table, cluster=True) else ())


def test_cubes_of_other_columns_and_files_of_other_programs_stay() -> None:
    points = Points(by=["a", "b"]).append("a", "b")
    table = points.table()
    sort(table, cluster=True)
    old = set(live_paths(table))
    append_to(table, points, points.domain(["b"]), points.line("c"), points.line("d", clusteringProvider="other"))

    done = sort(table, cluster=True)

    assert {"other-clustering": 1, "clustering-provider": 1} == dict(done.plan.skipped)
    assert old | {"d"} < live_paths(table)
    assert 3 == len(live_paths(table))


def test_compaction_keeps_cubes_apart() -> None:
    one, other = ({"tags": {CUBE: name, BY: '["a"]'}, "clusteringProvider": "liquid"} for name in ("x", "y"))
    points = Points(by=["a"]).append("a", "b", **one).append("c", "d", **other).append("e", "f")
    table = points.table()

    done = table.optimize()

    assert (6, 3) == (done.files_removed, done.files_added)
    assert ["x", "y"] == sorted(cubes_of(table).values())
    assert [None, "liquid", "liquid"] == sorted((one.get("clusteringProvider") for one in adds_of(table)), key=str)
    assert "[]" == last_commit(table.writable())[0][1]["operationParameters"]["clusterBy"]


def test_bins_that_are_sorted_twice_elsewhere_are_committed_once(tmp_path: Path) -> None:
    points = Points(by=["a", "b"]).append("a", "b", rows=90)
    place = str(points.builder.write(tmp_path / "t"))
    engine = ShippingEngine(varying=("RewriteFiles",))

    done = sort(Table(open_storage(place), engine=engine, location=StoreLocation.of(place)), cluster=True)

    assert (2, 1, 1) == (done.files_removed, done.files_added, engine.shipped.pieces["RewriteFiles"])


# -- what is refused --------------------------------------------------------------------------------------------------

NOT_OF_TABLE: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    # what the table has, the request, the code, part of the message
    ({}, {"zorder": ["gone"]}, "usage.column", "there is no column gone"),
    ({}, {"zorder": ["ida"]}, "usage.column", "did you mean id"),
    ({"delta.dataSkippingNumIndexedCols": "1"}, {"zorder": ["b"]}, "usage.column", "no statistics"),
    ({}, {"zorder": ["flag"]}, "usage.column", "boolean"),
    ({}, {"zorder": ["s"]}, "usage.column", "struct"),
    ({}, {"zorder": ["a", "A"]}, "usage.column", "twice"),
    ({}, {"cluster": True}, "optimize.not-clustered", "no clustering columns"),
    ({"by": []}, {"cluster": True}, "optimize.not-clustered", "no clustering columns"),
    ({"by": ["a"]}, {"zorder": ["b"]}, "optimize.clustered", "supports clustering"),
    ({"by": []}, {"zorder": ["b"]}, "optimize.clustered", "supports clustering"),
    ({"by": []}, {"where": "a = 1"}, "optimize.clustered", "supports clustering"),
]
UNUSABLE: list[tuple[list[Any], dict[str, str], str]] = [
    (["a", "b", "id", ["s", "x"], "flag"], {}, "5 clustering columns"),
    (["gone"], {}, "gone is not in the schema"),
    (["flag"], {}, "boolean"),
    (["a", "a"], {}, "twice"),
    ([7], {}, "does not have a list"),
]
CONTRADICTIONS: list[dict[str, Any]] = [
    {"zorder": ["a"], "cluster": True},
    {"zorder": ["a"], "purge": True},
    {"cluster": True, "purge": True},
    {"cluster": True, "where": "a = 1"},
    {"zorder": ["a"], "min_files": 3},
    {"cluster": True, "min_size": "1MiB"},
    {"zorder": ["a"], "purge_ratio": 0.5},
    {"temp_dir": "/tmp"},
    {"zorder": "a,b"},
]


@pytest.mark.parametrize(("table", "how", "code", "message"), NOT_OF_TABLE)
def test_requests_that_do_not_fit_the_table(
    table: dict[str, Any], how: dict[str, Any], code: str, message: str
) -> None:
    opened = Points(**table).append("a", "b").table()

    with pytest.raises(UsageError, match=message) as caught:
        opened.optimize(**how)

    assert code == caught.value.code


@pytest.mark.parametrize(("by", "properties", "message"), UNUSABLE)
def test_clustering_columns_that_cannot_be_used(by: list[Any], properties: dict[str, str], message: str) -> None:
    table = Points(by=by, **properties).append("a", "b").table()

    with pytest.raises(Refused, match=message) as caught:
        table.optimize(cluster=True)

    assert ("optimize.clustering-columns", 4) == (caught.value.code, caught.value.exit_code)
    assert 1 == table.optimize().files_added  # compaction is possible


@pytest.mark.parametrize("how", CONTRADICTIONS)
def test_requests_that_contradict_themselves(how: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        OptimizeRequest(**how)


def test_a_partition_column_is_refused() -> None:
    with pytest.raises(UsageError, match="partition column"):
        Ids().append("a", "b").table().optimize(zorder=["p"])


# -- no space, faults -------------------------------------------------------------------------------------------------


def test_the_space_for_temporary_files_is_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Points().append("a", "b").table()
    monkeypatch.setattr("deltacli.work.curve_sort._TEMPORARY_SHARE", 1 << 40)
    monkeypatch.setattr("deltacli.work.spill.get_free_bytes", lambda _: 100)
    files = data_files(table.writable())

    with pytest.raises(NoSpace, match="no room") as caught:
        table.optimize(zorder=["a"], temp_dir="/scratch")

    assert (7, "df -h /scratch") == (caught.value.exit_code, caught.value.hint)
    assert files == data_files(table.writable())


@pytest.mark.parametrize("how", ["lost", "doubled", "changed"])
def test_rows_that_sorting_loses_are_noticed_before_the_commit(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Points().append("a", "b").table()
    before, files = shown_rows(table), data_files(table.writable())

    def cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if how == "changed":
            yield rows.set_column(0, rows.schema.field(0), pa.array(range(1, len(rows) + 1), pa.int64()))
        else:
            yield rows.slice(1)
            yield from [rows] if how == "doubled" else []

    monkeypatch.setattr("deltacli.work.curve_sort._cut_into_batches", cut)

    with pytest.raises(StorageFailed, match="other rows") as caught:
        table.optimize(zorder=["a"])

    assert "data.not-as-written" == caught.value.code
    assert (before, files) == (shown_rows(table), data_files(table.writable()))


def sorted_with(at: int, fault: Fault) -> tuple[FaultyStorage, object]:
    inner = Points(by=["a", "b"]).append("a", "b", rows=300).append("c", rows=300).builder.in_memory()
    before = shown_rows(open_at(inner))
    storage = FaultyStorage(inner, at, fault)
    try:
        found: object = open_at(storage, engine=EmbeddedEngine(threads=1)).optimize(cluster=True, target_size="2KiB")
    except DeltacliError as error:
        found = error
    assert before == shown_rows(open_at(inner)), (at, fault, storage.calls)
    return storage, found


@pytest.mark.halved
@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT, Fault.DUPLICATED])
def test_a_fault_at_any_call_loses_nothing(fault: Fault, in_turn: InTurn) -> None:
    """
    Of the new files of one cube none is left where their commit did not happen.
    """
    calls = [verb for verb, _ in sorted_with(0, fault)[0].calls]
    assert 2 < calls.count("publish"), calls
    for at, verb in in_turn(chances(calls, fault)):
        storage, found = sorted_with(at, fault)
        table = open_at(storage)
        new = {path for path in data_files(storage._inner) if "part-" in path}
        if isinstance(found, DeltacliError) and not isinstance(found, OutcomeUnknown) and verb != "delete_many":
            assert new <= live_paths(table), (at, verb)
        table.optimize(cluster=True)
        assert plan_optimize(table, OptimizeRequest(cluster=True)).is_noop
