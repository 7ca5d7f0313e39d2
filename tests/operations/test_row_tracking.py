"""Row tracking enabled on a table with rows: the cases of the reference as data, faults at each request, other writers
beside it, and the ids that are read afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError, Refused, Unreadable, UsageError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.change import row_tracking
from deltacli.storage import Storage
from deltacli.storage.outcomes import Deleted
from tests.support.actions import Action, Line, add, commit_info, domain, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.committing import Rivals, commits, infos
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import NOW_MS, open_at
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline
from tests.support.validating import validate_table

ENABLE = {"delta.enableRowTracking": "true"}
FEATURES = ["domainMetadata", "rowTracking", "deletionVectors"]
NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}


def rows(count: int, first: int = 0, **more: Sequence[Any]) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), **more})


def table(
    files: Mapping[str, pa.Table],
    *,
    features: Sequence[str] | None = FEATURES,
    configuration: Mapping[str, str] | None = None,
    vectors: Mapping[str, Action] | None = None,
    uncounted: Sequence[str] = (),
    ids: Mapping[str, int] | None = None,
    mark: int | None = None,
    **parquet: Any,  # Any: what pyarrow's writer takes
) -> TableBuilder:
    """A table of one version with these files; those of `ids` have row ids already."""
    listed = {"reader_features": ["deletionVectors"], "writer_features": list(features)} if features else {}
    born = protocol(3, 7, **listed) if listed else protocol(1, 2)
    builder = TableBuilder()
    lines: list[Line] = [commit_info(), born, metadata(configuration=configuration)]
    for path, data in files.items():
        content = parquet_bytes(data, **parquet)
        builder.file(path, content)
        given: Action = {"baseRowId": ids[path], "defaultRowCommitVersion": 0} if ids and path in ids else {}
        wide = {"numRecords": data.num_rows, "tightBounds": False}
        stats = None if path in uncounted else json.dumps(wide)
        vector = (vectors or {}).get(path)
        lines.append(add(path, size=len(content), stats=stats, vector=vector, modified_ms=EPOCH_MS, **given))
    if mark is not None:
        lines.append(domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": mark})))
    return builder.commit(*lines)


def enable(storage: Storage, **more: Any) -> Any:  # Any: an outcome
    return opened(storage).set_properties(ENABLE, upgrade_protocol=True, **more)


def opened(storage: Storage) -> Table:
    return open_at(storage, engine=EmbeddedEngine(1))


def bases(storage: Storage) -> dict[str, int | None]:
    return {one["path"]: one["baseRowId"] for batch in opened(storage).snapshot().files() for one in batch.to_pylist()}


def mark(storage: Storage) -> int:
    found = {one.domain: one.configuration for one in opened(storage).snapshot().domains}
    number: int = json.loads(found["delta.rowTracking"])["rowIdHighWaterMark"]
    return number


def row_ids(storage: Storage, **request: Any) -> dict[int, tuple[int, int]]:
    found = opened(storage).snapshot().scan(row_ids=True, **request).to_arrow().to_pylist()
    return {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in found}


def errors(storage: Storage, level: str = "data") -> list[str]:
    of_builder = ["log.mtime-order", "dv.written-while-disabled", "hint.missing"]  # and of faults beside a checkpoint
    found = validate_table(storage, EmbeddedEngine(1), now_ms=NOW_MS, level=level, ignore=of_builder).findings
    return [f"{one.rule.id}: {one.message}" for one in found if one.severity.value != "info"]


def require_sound(storage: Storage, expected_rows: int) -> None:
    """All rows have ids, no two the same one, and nothing is wrong with the table."""
    found = opened(storage).snapshot().scan(row_ids=True).to_arrow()
    assert expected_rows == found.num_rows
    assert expected_rows == len({*found["_row_id"].to_pylist()} - {None})
    assert [] == errors(storage)


# -- enabling: cases 99 to 111 -----------------------------------------------------------------------------------------

CASES: dict[str, tuple[TableBuilder, dict[int, int], int]] = {
    # a table, base -> rows of the file with it, and the mark
    "99: three files of 10, 5 and 0 rows": (
        table({"a": rows(10), "b": rows(5, 10), "c": rows(0)}, features=None),
        {10: 10, 5: 5},
        14,
    ),
    "100: a file without statistics": (table({"a": rows(3), "b": rows(4, 3)}, uncounted=["a"]), {3: 3, 4: 4}, 6),
    "101: 10 rows, 2 deleted": (
        table({"a": rows(10), "b": rows(5, 10)}, vectors={"a": inline([1, 2])}),
        {10: 10, 5: 5},
        14,
    ),
    "104: one file has ids": (table({"a": rows(10), "b": rows(5, 10)}, ids={"a": 20}, mark=29), {10: 10, 5: 5}, 34),
}


@pytest.mark.parametrize("case", CASES)
def test_files_get_ids_for_their_physical_rows(case: str) -> None:
    builder, counts, highest = CASES[case]
    inner = builder.in_memory()
    before = bases(inner)

    outcome = enable(inner)

    after = bases(inner)
    assert highest == mark(inner)
    assert {path: base for path, base in before.items() if base is not None}.items() <= after.items()
    spans = sorted((base, counted(inner, path)) for path, base in after.items() if base is not None)
    assert len(after) == len(spans)
    assert all(one[0] + one[1] <= other[0] for one, other in pairwise(spans))
    assert sorted(counts) == sorted(rows for _, rows in spans if rows)
    operations = [info["operation"] for info in infos(inner)][1:]
    assert ["ROW TRACKING BACKFILL", "SET TBLPROPERTIES"] == operations[-2:]
    assert (["UPGRADE PROTOCOL"] if "99" in case else []) == operations[:-2]
    assert "true" == infos(inner)[-1]["tags"]["rowTrackingEnablementOnly"]
    assert outcome.versions == list(range(1, len(commits(inner))))
    assert [] == errors(inner)


def counted(storage: Storage, path: str) -> int:
    adds = [one for batch in opened(storage).snapshot().files() for one in batch.to_pylist() if one["path"] == path]
    number: int = json.loads(adds[0]["stats"])["numRecords"]
    return number


def test_statistics_keep_the_spelling_of_their_numbers() -> None:
    """
    A decimal of 20 digits is another one as a double. Statistics that are not JSON go.
    """
    files = {name: rows(3, 3 * place) for place, name in enumerate("abc")}
    builder = table(files, uncounted=["a"])
    lines = builder.in_memory()
    stats = '{"minValues":{"x":12345678901234567890.12},"nullCount":{"x":0}}'
    adds = [one for kind, one in commits(lines)[0] if kind == "add"]
    again = [
        {"add": {**one, "stats": stats if one["path"] == "a" else "nonsense", "dataChange": False}} for one in adds
    ]
    inner = builder.commit(commit_info(), *again[:2]).in_memory()

    enable(inner)

    found = {one["path"]: one["stats"] for kind, one in commits(inner)[2] if kind == "add"}
    assert f'{{"numRecords":3,{stats[1:]}' == found["a"]
    assert '{"numRecords":3}' == found["b"]


def test_rows_that_the_log_may_count_without_the_deleted_ones_are_counted_in_the_file() -> None:
    """
    With 8 ids for 10 physical rows, the next file would get two of them once more.
    """
    builder = table({"a": rows(10)}, vectors={"a": inline([1, 2])})
    action = {**dict(commits(builder.in_memory())[0])["add"]}
    tight = json.dumps({"numRecords": 8, "minValues": {"id": 0}, "maxValues": {"id": 9}})
    inner = builder.commit(commit_info(), {"add": {**action, "stats": tight, "dataChange": False}}).in_memory()

    assert 1 == enable(inner, dry_run=True).backlog.uncounted
    enable(inner)

    assert 9 == mark(inner)
    assert 10 == counted(inner, "a")


def test_groups_are_commits_of_their_own_and_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Case 102, with groups of two files.
    """
    monkeypatch.setattr(row_tracking, "FILES_PER_COMMIT", 2)
    monkeypatch.setattr(row_tracking, "_COMMITS_PER_CHECKPOINT", 2)
    inner = table({f"f{n}": rows(3, 3 * n) for n in range(5)}).in_memory()

    assert {"files": 5, "uncounted": 0, "commits": 3} == enable(inner, dry_run=True).as_json()["rowIds"]
    enable(inner)

    assert ["0", "1", "2"] == [info["operationParameters"]["batchId"] for info in infos(inner)[1:4]]
    require_sound(inner, 15)


def test_a_second_time_there_is_only_the_property_and_the_columns_are_reused() -> None:
    """
    Case 103, after it was turned off in between. Nothing is to do where it is on.
    """
    inner = table({"a": rows(3)}).in_memory()
    enable(inner)
    named = {key: value for key, value in opened(inner).snapshot().properties.items() if key in NAMES}
    assert enable(inner).is_noop

    opened(inner).set_properties({"delta.enableRowTracking": "false"})
    outcome = enable(inner)

    assert 1 == len(outcome.versions)
    assert named.items() <= opened(inner).snapshot().properties.items()


@pytest.mark.parametrize("step", ["plan", "race"])
def test_a_suspended_table_is_refused(step: str) -> None:
    """
    Case 105.
    """
    suspended = metadata(configuration={"delta.rowTrackingSuspended": "true"})
    builder = table({"a": rows(3)})
    store: Any = (
        builder.commit(commit_info(), suspended).in_memory()
        if step == "plan"
        else Rivals(builder.in_memory(), [commit_info(), suspended])
    )

    with pytest.raises(Refused) as raised:
        enable(store)

    assert "rowtracking.suspended" == raised.value.code
    assert {"a": None} == bases(store)


def test_a_name_that_a_column_has_is_not_taken() -> None:
    """
    Case 106.
    """

    class Machine:
        names = iter(["taken", "1", "2"])

        def new_uuid(self) -> str:
            return next(self.names)

    fields: list[Action] = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "_Row-ID-col-taken")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    inner = table({"a": rows(3)}).commit(commit_info(), metadata(schema_string=schema)).in_memory()
    machine: Any = Machine()

    names = row_tracking.materialized_names(opened(inner).snapshot().config, machine)

    assert ["_row-id-col-1", "_row-commit-version-col-2"] == list(names.values())


HIGHER = domain("delta.rowTracking", '{"rowIdHighWaterMark":114}')
RESTORED = [commit_info("RESTORE"), remove("a"), add("d", records=2, baseRowId=115, defaultRowCommitVersion=1)]
RESTORED.append(domain("delta.rowTracking", '{"rowIdHighWaterMark":116}'))


@pytest.mark.parametrize(
    ("theirs", "expected", "highest"),
    [
        ([commit_info(), remove("a")], {"b": 0}, 4),  # 107
        ([commit_info(), HIGHER], {"a": 120, "b": 115}, 129),  # 108
        (RESTORED, {"b": 117, "d": 115}, 121),  # 110
    ],
)
def test_a_backfill_follows_the_commits_of_others(theirs: list[Line], expected: dict[str, int], highest: int) -> None:
    """
    Case 109 as well: the version that was lost is not the one of the rows.
    """
    inner = table({"a": rows(10), "b": rows(5, 10)}).in_memory()

    enable(Rivals(inner, theirs))

    assert expected == bases(inner)
    assert highest == mark(inner)
    assert {2} == {one["defaultRowCommitVersion"] for kind, one in commits(inner)[2] if kind == "add"}
    assert "ROW TRACKING BACKFILL" == infos(inner)[2]["operation"]


def test_a_file_without_ids_that_comes_before_the_property_gets_some_first() -> None:
    """
    Case 111.
    """
    content = parquet_bytes(rows(5, 10))
    inner = table({"a": rows(10)}).file("late", content).in_memory()
    late = [commit_info(timestamp=EPOCH_MS), add("late", size=len(content), records=5, modified_ms=EPOCH_MS)]

    class BeforeTheProperty(Rivals):
        def put_if_absent(self, path: str, data: bytes, **options: Any) -> Any:  # Any: as in the port
            put = super().put_if_absent if b"metaData" in data else inner.put_if_absent
            return put(path, data, **options)

        def draft(self, path: str) -> Any:  # Any: a draft
            return inner.draft(path)

    enable(BeforeTheProperty(inner, late))

    done = ["ROW TRACKING BACKFILL", "WRITE", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    assert done == [info["operation"] for info in infos(inner)][1:]
    require_sound(inner, 15)


def test_ids_that_overlap_already_are_refused() -> None:
    inner = table({"a": rows(10), "b": rows(5), "c": rows(1)}, ids={"a": 0, "b": 5}, mark=9).in_memory()

    with pytest.raises(Refused) as raised:
        enable(inner)

    assert raised.value.code.startswith("rowtracking.")
    assert 1 == len(commits(inner))


def test_rows_of_files_with_ids_are_counted_before_others_get_ids() -> None:
    """
    A writer that took a missing number of records for none left the high-water mark within the ids of its file.
    """
    builder = table({"a": rows(10), "b": rows(5, 10)}, ids={"a": 0}, mark=0, uncounted=["a"])
    inner = builder.in_memory()
    with pytest.raises(Refused) as raised:
        enable(inner)
    assert "rowtracking.high-water-mark" == raised.value.code
    assert 1 == len(commits(inner))

    sound = table({"a": rows(10), "b": rows(5, 10)}, ids={"a": 0}, mark=9, uncounted=["a"]).in_memory()
    assert 0 == enable(sound).backlog.uncounted
    assert {"a": 0, "b": 10} == bases(sound)


def test_a_file_that_must_be_counted_and_is_gone_is_found_before_the_protocol_is_changed() -> None:
    inner = table({"a": rows(10), "b": rows(5, 10)}, features=None, uncounted=["b"]).in_memory()
    assert [Deleted()] == [one for _, one in inner.delete_many(["b"])]
    for is_plan in (True, False):
        with pytest.raises(DataUnreadable) as raised:
            enable(inner, dry_run=is_plan)
        assert "data.file-missing" == raised.value.code
    assert 1 == len(commits(inner))


@pytest.mark.parametrize(
    ("builder", "code"),
    [
        (table({"a": rows(10)}, mark=2**63 - 5), "rowtracking.high-water-mark"),
        (table({"a": rows(10)}, features=["rowTracking", "deletionVectors"]), "domain.without-feature"),
        (
            table({"a": rows(10)}, features=["domainMetadata", "deletionVectors"]).commit(
                commit_info(), domain("delta.rowTracking", "{}")
            ),
            "rowtracking.high-water-mark",
        ),
    ],
    ids=["ids are used up", "no domains", "no mark, and the feature is to be added"],
)
def test_what_stops_the_backfill_stops_the_plan(builder: TableBuilder, code: str) -> None:
    inner = builder.in_memory()
    before = len(commits(inner))
    for is_plan in (True, False):
        with pytest.raises(Refused) as raised:
            enable(inner, dry_run=is_plan)
        assert code == raised.value.code
    assert before == len(commits(inner))


def test_a_plan_stays_as_it_was_when_it_is_executed() -> None:
    inner = table({"a": rows(10)}).in_memory()
    plan = opened(inner).plan_set_properties(ENABLE)

    assert [1, 2] == opened(inner).execute_properties(plan).versions
    assert [] == plan.versions


def test_footers_that_the_plan_has_read_are_not_read_again() -> None:
    inner = table({"a": rows(10), "b": rows(5, 10)}, uncounted=["b"]).in_memory()
    spies = FaultyStorage(inner), FaultyStorage(inner)

    counts = enable(spies[0], dry_run=True).backlog.counts
    assert [("b", 5)] == [(path, rows) for (path, _), rows in counts.items()]
    enable(spies[1])

    planned, done = ([path for _, path in spy.calls].count("b") for spy in spies)
    assert 0 < done == planned
    require_sound(inner, 15)


@pytest.mark.parametrize("names", [("ID", "v"), ("v", "Id"), ("_same", "_SAME")])
def test_names_that_would_mix_ids_with_other_values_are_replaced_and_never_read(names: tuple[str, str]) -> None:
    bad = dict(zip(NAMES, names, strict=True))
    inner = table({"a": rows(10)}, configuration=bad).in_memory()
    enable(inner)
    had = opened(inner).snapshot().properties
    stored = {had[key].lower() for key in NAMES}
    assert 2 == len(stored - {"id"})
    assert {n: (n, 1) for n in range(10)} == row_ids(inner)

    broken = table({"a": rows(3)}, ids={"a": 5}, mark=9, configuration={**ENABLE, **bad}).in_memory()
    with pytest.raises(Unreadable) as raised:
        row_ids(broken)
    assert "rowtracking.column-names" == raised.value.code


def test_without_consent_to_more_features_nothing_is_done() -> None:
    inner = table({"a": rows(10)}, features=None).in_memory()

    with pytest.raises(Refused) as raised:
        opened(inner).set_properties(ENABLE)

    assert "properties.feature-needed" == raised.value.code
    plan = enable(inner, dry_run=True)
    document = plan.as_json()
    assert ["domainMetadata", "rowTracking"] == document["protocolAfter"]["writerFeatures"][-2:]
    assert document["clients"]
    assert 1 == len(commits(inner))


def test_other_properties_bring_their_features_in_the_same_commit() -> None:
    inner = table({"a": rows(10)}, features=None).in_memory()

    opened(inner).set_properties({"delta.enableDeletionVectors": "true"}, upgrade_protocol=True)

    assert ["commitInfo", "protocol", "metaData"] == [kind for kind, _ in commits(inner)[1]]
    assert [] == errors(inner)


# -- faults and other writers ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_fault_at_any_request_leaves_a_table_that_a_second_run_finishes(
    monkeypatch: pytest.MonkeyPatch, in_turn: InTurn
) -> None:
    monkeypatch.setattr(row_tracking, "FILES_PER_COMMIT", 2)
    monkeypatch.setattr(row_tracking, "_COMMITS_PER_CHECKPOINT", 2)
    builder = table({f"f{n}": rows(2, 2 * n) for n in range(3)}, features=None, uncounted=["f1"])
    whole = FaultyStorage(builder.in_memory())
    enable(whole)
    for at, (verb, _) in in_turn([*enumerate(whole.calls, 1)]):
        for fault in (Fault.BEFORE, Fault.AFTER, *([Fault.LOST] if verb in ("put_if_absent", "publish") else [])):
            inner = builder.in_memory()
            try:
                enable(FaultyStorage(inner, at, fault))
            except DeltacliError:
                given = {path: base for path, base in bases(inner).items() if base is not None}
                assert 6 == opened(inner).snapshot().scan().count()
                enable(inner)
                assert given.items() <= bases(inner).items()
            require_sound(inner, 6)
            assert 2 == sum(kind == "metaData" for actions in commits(inner) for kind, _ in actions)
    assert len(whole.calls) > 30


# -- reading: cases 112 to 118 -----------------------------------------------------------------------------------------


def tracked(files: Mapping[str, pa.Table], ids: Mapping[str, int], **more: Any) -> TableBuilder:
    return table(files, ids=ids, mark=1000, configuration={**ENABLE, **NAMES}, **more)


STORED = {"_row-id-col-1": pa.array([None, 7, None], pa.int64())}


def test_deleted_rows_count_in_the_positions_of_others() -> None:
    """
    Case 112.
    """
    inner = tracked({"a": rows(5)}, {"a": 10}, vectors={"a": inline([1])}).in_memory()

    assert {0: (10, 0), 2: (12, 0), 3: (13, 0), 4: (14, 0)} == row_ids(inner)


def test_an_id_in_the_file_counts_more_than_the_position() -> None:
    """
    Cases 113 and 118. The smallest and largest id that a row group stores say nothing of the others.
    """
    inner = tracked({"a": rows(3, **STORED)}, {"a": 10}).in_memory()
    far = tracked({"a": rows(3, **STORED)}, {"a": 100}, row_group_size=1).in_memory()

    assert [10, 7, 12] == [found for found, _ in row_ids(inner).values()]
    assert [100, 7, 102] == [found for found, _ in row_ids(far).values()]
    for wanted, row in ((7, 1), (100, 0), (102, 2)):
        assert [row] == list(row_ids(far, where=f"_row_id = {wanted}"))
    assert {} == row_ids(far, where="_row_id = 101")


@pytest.mark.parametrize("where", [None, "id >= 2"])
def test_positions_go_on_over_row_groups(where: str | None) -> None:
    """
    Case 114, also where a condition skips a group.
    """
    inner = tracked({"a": rows(6)}, {"a": 10}, row_group_size=3).in_memory()

    assert {n: (10 + n, 0) for n in range(2 if where else 0, 6)} == row_ids(inner, where=where)


def test_row_ids_are_refused_where_a_version_has_none() -> None:
    """
    Cases 115 and 117.
    """
    inner = table({"a": rows(3)}).in_memory()
    enable(inner)
    opened(inner).set_properties({"delta.enableRowTracking": "false"})
    for version in (0, 1, 3):
        with pytest.raises(Refused) as raised:
            opened(inner).snapshot(version=version).scan(row_ids=True)
        assert "rowtracking.not-enabled" == raised.value.code
    assert {0: (0, 1), 1: (1, 1), 2: (2, 1)} == {
        row["id"]: (row["_row_id"], row["_row_commit_version"])
        for row in opened(inner).snapshot(version=2).scan(row_ids=True).to_arrow().to_pylist()
    }


def test_a_file_that_lacks_ids_although_it_must_have_them_is_an_error() -> None:
    inner = tracked({"a": rows(3), "b": rows(3)}, {"a": 0}).in_memory()

    with pytest.raises(DeltacliError) as raised:
        row_ids(inner)

    assert "rowtracking.base-row-id-missing" == raised.value.code


OF_TEXT: dict[str, Sequence[str]] = {"_row-id-col-1": ["x", "y", "z"]}


def test_ids_of_another_type_are_an_error_and_not_other_ids() -> None:
    inner = tracked({"a": rows(3, 0, **OF_TEXT)}, {"a": 0}).in_memory()

    with pytest.raises(DeltacliError, match="holds the ids of rows"):
        row_ids(inner)


@pytest.mark.parametrize("name", ["_row_id", "_ROW_commit_version"])
def test_a_column_of_the_same_name_is_named(name: str) -> None:
    fields = [{"name": one, "type": "long", "nullable": True, "metadata": {}} for one in ("id", name)]
    schema = json.dumps({"type": "struct", "fields": fields})
    taken = metadata(schema_string=schema, configuration={**ENABLE, **NAMES})
    inner = tracked({"a": rows(3)}, {"a": 0}).commit(commit_info(), taken).in_memory()

    with pytest.raises(UsageError, match=name):
        opened(inner).snapshot().scan(row_ids=True)
    assert 3 == opened(inner).snapshot().scan().count()


def changes(storage: Storage, first: int, **more: Any) -> list[tuple[Any, ...]]:
    found = opened(storage).changes(from_version=first, row_ids=True, **more).to_arrow().to_pylist()
    return sorted((row["_change_type"], row["id"], row["_row_id"], row["_row_commit_version"]) for row in found)


def test_changes_have_the_ids_of_their_rows() -> None:
    """
    A remove without ids gets those of the earlier add. Rows of change data files have none.
    """
    builder = tracked({"a": rows(3), "b": rows(2, 3)}, {"a": 10, "b": 20})
    adds = [one for kind, one in commits(builder.in_memory())[0] if kind == "add"]
    marked = {**adds[0], "deletionVector": inline([1])}
    builder.commit(commit_info(), remove("a"), {"add": marked})
    builder.commit(commit_info(), remove("b"))
    content = parquet_bytes(rows(1).append_column("_change_type", [["delete"]]))
    builder.file("_change_data/c", content)
    cdc = {"path": "_change_data/c", "partitionValues": {}, "size": len(content), "dataChange": False}
    inner = builder.commit(commit_info(), {"cdc": cdc}).in_memory()

    assert [("delete", 1, 11, 0)] == changes(inner, 1, to_version=1)
    assert [("delete", 3, 20, 0), ("delete", 4, 21, 0)] == changes(inner, 2, to_version=2)
    assert [("delete", 0, None, None)] == changes(inner, 3)
    assert [(3, 20)] == [
        (row["id"], row["_row_id"])
        for row in opened(inner).changes(from_version=1, where="_row_id = 20", row_ids=True).to_arrow().to_pylist()
    ]


def test_changes_of_versions_before_row_tracking_are_refused() -> None:
    inner = table({"a": rows(3)}).in_memory()
    enable(inner)

    with pytest.raises(Refused) as raised:
        changes(inner, 0)

    assert "rowtracking.not-enabled" == raised.value.code
    assert str(raised.value.hint).endswith("--from 2 --row-ids")
    assert [] == changes(inner, 2)


@pytest.mark.parametrize(
    ("bases", "found"),
    [
        ({"a": 0, "b": 10, "c": 15}, []),
        ({"a": 0, "b": 9, "c": 15}, ["b"]),  # within the range of a file that the log counts
        ({"a": 0, "b": 10, "c": 14}, ["b"]),  # a file that the log counts begins within it
        ({"a": 5, "b": 5, "c": 15}, ["b"]),
        ({"a": 20, "b": 20, "c": 20}, []),  # b has no rows then
    ],
)
def test_footers_tell_whether_files_that_the_log_does_not_count_share_row_ids(
    bases: dict[str, int], found: list[str]
) -> None:
    counts = {"a": 10, "b": 0 if bases["c"] == 20 else 5, "c": 0 if bases["c"] == 20 else 3}
    files = {name: rows(count) for name, count in counts.items()}
    inner = table(files, ids=bases, mark=99, uncounted=["b"], configuration=ENABLE | NAMES).in_memory()

    log, footers = (validate_table(inner, EmbeddedEngine(1), now_ms=NOW_MS, level=one) for one in ("log", "footers"))

    told = {one.place.key for one in footers.findings if one.rule.id == "rowtracking.overlap"}
    assert found == sorted(name for name in told if name)
    assert [] == [one for one in log.findings if one.rule.id == "rowtracking.overlap"]
    assert [True, False] == [any("row ids of 1 file" in text for text in one.not_checked) for one in (log, footers)]
