"""Optimizing built tables: the cases of the reference suite, what is committed, and what another writer does to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, OutcomeUnknown, PartlyDone, UsageError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.optimize.plan import plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.storage import Capabilities
from deltacli.work.rewrite.pieces import RewriteSpec
from tests.support.actions import Line, add, commit_info, metadata, remove
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.file_racing import SCHEMA
from tests.support.optimizing import Ids, chances, data_files, execute, last_commit, live_paths, rows_of
from tests.support.reading import open_at
from tests.support.rewriting import TARGET, live_adds, pieces, run
from tests.support.small_vectors import inline
from tests.support.storage import FAR, NEAR, RecordingStorage

TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row_version",
}


def optimized(table: Table, **how: Any) -> Any:
    before = rows_of(table)
    done = table.optimize(**how)
    assert before == rows_of(table)
    assert [] == [found for found in table.validate(level="data").findings if found.severity == "error"]
    return done


def values_of_new_files(table: Table) -> set[str | None]:
    return {action["partitionValues"]["p"] for kind, action in last_commit(table.writable()) if kind == "add"}


def test_small_files_of_each_partition_become_one() -> None:
    ids = (
        Ids().append("a", "b").append("c", p="1").append("d", "e", p=None).append("f", p="").append("g%2520h", p="x=/y")
    )
    table = ids.append("i", p="x=/y").table()

    done = optimized(table)

    assert (6, 3, {"alone": 2}) == (done.files_removed, done.files_added, dict(done.plan.skipped))
    info, *actions = [action for _, action in last_commit(table.writable())]
    assert "OPTIMIZE" == info["operation"]
    assert {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False} == info["operationParameters"]
    assert {False} == {action["dataChange"] for action in actions}
    added = {action["path"].rpartition("/")[0] for kind, action in last_commit(table.writable()) if kind == "add"}
    assert {"p=0", "p=__HIVE_DEFAULT_PARTITION__", "p=x%253D%252Fy"} == added
    assert plan_optimize(table, OptimizeRequest()).is_noop


def test_an_empty_text_stays_one_for_readers_that_do_not_take_it_for_null() -> None:
    table = Ids().append("a", "b", p=None).append("c", "d", p="").table()

    optimized(table)

    assert {None, ""} == values_of_new_files(table)


def test_a_value_keeps_the_spelling_that_most_readers_parse() -> None:
    """
    Readers built on a Delta kernel open no table with a decimal without the digits of its scale.
    """
    ids = Ids()
    ids.builder.commit(metadata(partition_columns=["p"], schema_string=SCHEMA.replace("string", "decimal(9,2)")))

    table = ids.append("a", p="1").append("b", p="+1.00").append("c", p="1.00").table()

    optimized(table)

    assert {"1.00"} == values_of_new_files(table)


def test_files_that_become_much_smaller_are_not_merged_once_more() -> None:
    """
    Each of the small files is mostly footer, so two of them become a file that is hardly larger than one.
    """
    ids = Ids(partitioned=False).append(*"abcdefgh")
    target = 2 * len(ids.builder.files["a"].data) + 99
    table = ids.table()

    done = optimized(table, target_size=target)

    assert (8, 4) == (done.files_removed, done.files_added)
    assert done.bytes_added < 4 * target // 2
    assert table.optimize(target_size=target).plan.is_noop
    assert not table.optimize(target_size=2 * target).plan.is_noop


def test_sizes_above_all_files_are_those_of_any_file() -> None:
    table = Ids(partitioned=False).append(*"abc").table()

    done = optimized(table, target_size="999999999PiB", min_size="999999999PiB")

    assert (3, 1) == (done.files_removed, done.files_added)


def test_deleted_rows_above_the_ratio_are_purged() -> None:
    ids = Ids(partitioned=False)
    ids.append("a", "b", rows=100, deleted=range(6)).append("c", rows=100, deleted=(0,)).append("d", rows=1)
    least = min(len(file.data) for path, file in ids.builder.files.items() if path in "ac") - 1
    table = ids.table()

    done = optimized(table, min_size=least)

    assert (3, 1, 2) == (done.files_removed, done.files_added, done.vectors)
    assert "c" in live_paths(table)


def test_a_purge_leaves_no_vector_and_has_nothing_to_do_again() -> None:
    ids = Ids("appendOnly", configuration={"delta.appendOnly": "true"}).append("a", "b", "c", rows=9)
    table = ids.append("d", deleted=(1,)).append("e", deleted=(0, 1, 2)).table()

    done = optimized(table, purge=True)

    assert (2, 1, 2) == (done.files_removed, done.files_added, done.vectors)
    info = last_commit(table.writable())[0][1]
    assert ("REORG", {"predicate": "[]", "applyPurge": True}) == (info["operation"], info["operationParameters"])
    assert table.optimize(purge=True).plan.is_noop


def test_files_without_a_live_row_have_no_successor() -> None:
    table = Ids(partitioned=False).append("a", deleted=(0, 1, 2)).append("b", rows=90).table()

    done = optimized(table)

    assert (1, 0) == (done.files_removed, done.files_added)
    assert {"b"} == live_paths(table)


def test_columns_that_were_dropped_are_purged() -> None:
    mapped = json.loads(SCHEMA)
    for number, field in enumerate(mapped["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    on = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    ids = Ids("columnMapping", partitioned=False)
    ids.append("a")
    mapped["fields"][0] |= {"name": "other", "metadata": {**mapped["fields"][0]["metadata"]}}
    mapped["fields"][0]["metadata"]["delta.columnMapping.physicalName"] = "col-9"
    ids.builder.commit(commit_info(), metadata(configuration=on, schema_string=json.dumps(mapped)))
    table = ids.table()

    done = optimized(table, purge=True)

    assert (1, 1) == (done.files_removed, done.files_added)
    path = next(iter(live_paths(table)))
    assert 2 == len(path.partition("/")[0])  # a random prefix
    assert table.optimize(purge=True).plan.is_noop


def test_row_ids_are_kept() -> None:
    ids = Ids("rowTracking", "domainMetadata", configuration=TRACKED)
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":5}', "removed": False}
    lines = [ids.line("a", baseRowId=0, defaultRowCommitVersion=1)]
    lines.append(ids.line("b", baseRowId=3, defaultRowCommitVersion=1, deleted=(0,)))
    ids.builder.commit(commit_info("WRITE"), *lines, {"domainMetadata": mark})
    table = ids.table()

    optimized(table)

    actions = last_commit(table.writable())
    assert {"delta.rowTracking.preserved": "true"} == actions[0][1]["tags"]
    new = next(action for kind, action in actions if kind == "add")
    assert (6, 2) == (new["baseRowId"], new["defaultRowCommitVersion"])
    import io

    import pyarrow.parquet as pq

    stored = pq.read_table(io.BytesIO(table.storage.read(new["path"]))).to_pydict()
    found = {stored["id"][row]: (stored["_row_id"][row], stored["_row_version"][row]) for row in range(5)}
    assert {0: (0, 1), 1: (1, 1), 2: (2, 1), 4: (4, 1), 5: (5, 1)} == found


def test_a_limit_of_bytes_and_one_of_time_leave_whole_commits() -> None:
    ids = Ids().append("a", "b").append("c", "d", p="1")
    size = 3 * len(ids.builder.files["a"].data)

    limited = optimized(ids.table(), max_bytes=size)
    late = optimized(ids.table(), time_budget_ms=0)

    assert (2, {"max-bytes": 2}) == (limited.files_removed, dict(limited.plan.skipped))
    assert ([], {"time-budget": 4}) == (late.versions, dict(late.skipped))


def test_the_plan_says_what_a_query_gains() -> None:
    table = two_partitions().append("e", p="2").table()
    plan = plan_optimize(table, OptimizeRequest())
    size = plan.selection.size_bytes

    assert {"filesPerQueryBefore": 1.67, "filesPerQueryAfter": 1.0, "bytes": size} == {
        name: value for name, value in plan.as_json()["estimate"].items() if name != "seconds"
    }


def test_invalid_requests() -> None:
    for how in ({"target_size": "x"}, {"min_files": 1}, {"max_bytes": 0}, {"purge_ratio": 2}, {"where": "id = 1"}):
        with pytest.raises(UsageError):
            Ids().append("a", "b").table().optimize(**how)


# -- other writers ----------------------------------------------------------------------------------------------------


def racing(ids: Ids, *lines: Line, **how: Any) -> tuple[Table, Any]:
    """Optimize while another writer commits just before us."""
    storage = ids.builder.in_memory()
    table = open_at(storage)
    plan = plan_optimize(table, OptimizeRequest(**how))
    version = table.snapshot().version + 1
    text = b"".join(json.dumps(line).encode() + b"\n" for line in (commit_info("RIVAL"), *lines))
    storage.put_if_absent(f"_delta_log/{version:020}.json", text)
    before = rows_of(table)
    done = execute(plan)
    assert before == rows_of(table)
    assert live_paths(table) >= {path for path in data_files(storage) if "part-" in path}, "files were left"
    return table, done


def two_partitions() -> Ids:
    return Ids().append("a", "b").append("c", "d", p="1")


def test_an_append_does_not_disturb() -> None:
    ids = two_partitions()

    table, done = racing(ids, ids.line("e"))

    assert (4, [4]) == (done.files_removed, done.versions)
    assert "e" in live_paths(table)


@pytest.mark.parametrize("kind", ["removed", "marked"])
def test_only_the_bin_that_was_touched_is_dropped(kind: str) -> None:
    ids = two_partitions()
    gone = remove("a", partitionValues={"p": "0"}, extendedFileMetadata=True)
    data = ids.builder.files["a"].data
    marked = add("a", size=len(data), records=3, partition_values={"p": "0"}, vector=inline([1]))

    table, done = racing(ids, gone, *([marked] if kind == "marked" else []))

    assert (2, [4], {"conflict": 2}) == (done.files_removed, done.versions, dict(done.skipped))
    assert ({"a", "b"} if kind == "marked" else {"b"}) <= live_paths(table)


def test_another_property_changes_nothing_another_schema_drops_all() -> None:
    on = {"delta.enableDeletionVectors": "true"}
    same = metadata(configuration={**on, "k": "v"}, partition_columns=["p"], schema_string=SCHEMA)
    other = json.loads(SCHEMA)
    other["fields"].append({"name": "n", "type": "integer", "nullable": True, "metadata": {}})
    wider = metadata(configuration=on, partition_columns=["p"], schema_string=json.dumps(other))

    _, done = racing(two_partitions(), same)
    _, dropped = racing(two_partitions(), wider)

    assert (4, 0) == (done.files_removed, done.dropped)
    assert ([], 1, {"conflict": 4}) == (dropped.versions, dropped.dropped, dict(dropped.skipped))


def test_a_winner_between_two_groups_is_seen_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The first group of the run commits behind a writer that removes a file of the second, which must not be committed.
    """
    monkeypatch.setattr("deltacli.operations.optimize.plan.COMMIT_BINS", 1)
    ids = two_partitions()
    assert 2 == len(plan_optimize(ids.table(), OptimizeRequest()).groups)

    table, done = racing(ids, remove("d", partitionValues={"p": "1"}, extendedFileMetadata=True))

    assert (2, 1, {"conflict": 2}) == (done.files_removed, done.dropped, dict(done.skipped))
    assert "c" in live_paths(table)


# -- faults -----------------------------------------------------------------------------------------------------------


def faulty(at: int, fault: Fault) -> tuple[FaultyStorage, list[Any], object]:
    ids = two_partitions()
    inner = ids.builder.in_memory()
    before = rows_of(open_at(inner))
    storage = FaultyStorage(inner, at, fault)
    try:
        found: object = open_at(storage, engine=EmbeddedEngine(threads=1)).optimize()
    except DeltacliError as error:
        found = error
    assert before == rows_of(open_at(inner)), (at, fault, storage.calls)
    return storage, before, found


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT, Fault.DUPLICATED])
def test_a_fault_at_any_call_loses_nothing(fault: Fault, in_turn: InTurn) -> None:
    calls = [verb for verb, _ in faulty(0, fault)[0].calls]
    found_chances = chances(calls, fault)
    assert len(found_chances) > 2
    for at, verb in in_turn(found_chances):
        storage, before, found = faulty(at, fault)
        table = open_at(storage)
        table.optimize()
        assert before == rows_of(table)
        assert 2 == len(live_paths(table)), (at, verb)
        if isinstance(found, OutcomeUnknown):
            assert any(name.startswith("new file") for name in found.facts)


@pytest.mark.parametrize("capabilities", [NEAR, FAR])
def test_a_damaged_file_is_left_alone_and_the_rest_goes_on(capabilities: Capabilities) -> None:
    ids = two_partitions().append("x", p="1")
    ids.builder.file("c", b"PAR1 damaged PAR1")
    table = open_at(RecordingStorage(ids.builder.in_memory(), capabilities=capabilities))

    with pytest.raises(PartlyDone) as caught:
        table.optimize()

    assert "c" == caught.value.facts["first"]
    assert {"c"} < live_paths(table)
    assert 3 == len(live_paths(table))


def test_small_files_of_a_far_store_are_read_at_the_same_time() -> None:
    names = [f"{number}.parquet" for number in range(6)]
    snapshot = Ids().append(*names[:3]).append(*names[3:], deleted=(1,)).table().snapshot()
    far = RecordingStorage(snapshot.table.writable(), capabilities=FAR, meet=len(names), meet_at=".parquet")
    (piece,) = pieces(live_adds(snapshot))

    done = run(far, RewriteSpec.make(snapshot.config, target_bytes=TARGET), piece)

    assert (names, 15) == (sorted(done.used), done.rows)


def test_a_file_that_is_larger_than_the_log_says_is_read_all_the_same() -> None:
    ids = Ids().append("a")
    line = ids.line("b")
    line["add"]["size"] -= 100
    ids.builder.commit(commit_info("WRITE"), line)

    done = open_at(RecordingStorage(ids.builder.in_memory(), capabilities=FAR)).optimize()

    assert (2, 1) == (done.files_removed, done.files_added)
