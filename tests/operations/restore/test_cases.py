"""Restores of built tables: the cases of the reference suite as data, and what never goes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from deltacli.core.errors import (
    ConflictLost,
    PartlyDone,
    ProtocolUnsupported,
    Refused,
    StorageFailed,
    UsageError,
    VersionAbsent,
)
from deltacli.delta.log.row_ids import MATERIALIZED_NAMES
from deltacli.operations.restore.restore import RestoreRequest, plan_restore
from tests.support.actions import Line, add, commit_info, domain, metadata, protocol, remove, txn
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.committing import Rivals
from tests.support.reading import open_at
from tests.support.restoring import Restoring, append, keys
from tests.support.small_vectors import inline

Edit = Callable[[TableBuilder], object]
DAY = "interval {} days"


def born(
    configuration: Mapping[str, str] | None = None, *, features: Sequence[str] = (), **fields: Any
) -> TableBuilder:
    """A table with one file of ten rows."""
    readers = [name for name in features if name in ("columnMapping", "deletionVectors")]
    first = protocol(3, 7, reader_features=readers, writer_features=list(features)) if features else protocol()
    builder = TableBuilder().commit(commit_info(), first, metadata(configuration=configuration, **fields))
    return append(builder, "a")


def configured(builder: TableBuilder, configuration: Mapping[str, str], **fields: Any) -> TableBuilder:
    return builder.commit(commit_info(), metadata(configuration=configuration, **fields))


def properties_after(builder: TableBuilder, version: int) -> dict[str, str]:
    restoring = Restoring(builder)
    restoring.restore(version)
    configuration: dict[str, str] = (restoring.state().metadata or {})["configuration"]
    return configuration


# -- files ------------------------------------------------------------------------------------------------------------


def test_only_what_was_appended_goes() -> None:
    restoring = Restoring(append(append(born(), "b"), "c"))

    done = restoring.restore(2)

    assert (4, {"a", "b"}) == (done.committed_version, {path.decode() for path, _ in keys(restoring.state())})
    commit = restoring.newest_commit()
    assert {"commitInfo", "remove"} == set(commit)
    [info], [gone] = commit["commitInfo"], commit["remove"]
    assert ("RESTORE", {"version": 2, "timestamp": None}, False) == (
        info["operation"],
        info["operationParameters"],
        info["isBlindAppend"],
    )
    assert {
        "numRestoredFiles": "0",
        "restoredFilesSize": "0",
        "numRemovedFiles": "1",
        "removedFilesSize": "7",
        "numOfFilesAfterRestore": "2",
        "tableSizeAfterRestore": "14",
    } == info["operationMetrics"]
    assert ("c", True, True, 7) == (gone["path"], gone["dataChange"], gone["extendedFileMetadata"], gone["size"])


def test_a_restore_is_undone_and_restored_to() -> None:
    """
    Files that come back are what their first add said, with dataChange true.
    """
    builder = append(born(), "b", stats='{"numRecords":3,"minValues":{"id":"\\u00fc\\""}}', tags={"k": None, "l": "\n"})
    restoring = Restoring(builder.commit(commit_info("DELETE"), remove("a"), remove("b")))

    first = restoring.restore(2)
    assert builder.states[2].live == restoring.state().live
    second = restoring.restore(3)
    third = restoring.restore(4)

    assert [4, 5, 6] == [done.committed_version for done in (first, second, third)]
    assert builder.states[2].live == restoring.state().live


def test_nothing_is_committed_where_nothing_differs() -> None:
    restoring = Restoring(append(born(), "b"))

    newest, later = restoring.restore(2), restoring.table.restore(timestamp_ms=EPOCH_MS + 99_000, trust_listing=True)

    assert (None, None, 2) == (newest.committed_version, later.committed_version, restoring.table.snapshot().version)


def test_a_time_chooses_the_newest_version_until_then() -> None:
    restoring = Restoring(append(append(born(), "b"), "c"))

    done = restoring.table.restore(timestamp_ms=EPOCH_MS + 2_500, trust_listing=True)

    assert (2, {"version": None, "timestamp": "2023-11-14T22:13:22.500Z"}) == (
        done.plan.target.version,
        restoring.newest_commit()["commitInfo"][0]["operationParameters"],
    )


def test_a_delete_by_vectors_is_undone_by_the_vector_alone() -> None:
    """
    The file is the same, and readers of changes derive the difference of the vectors.
    """
    vector = inline([1, 4])
    builder = born({"delta.enableDeletionVectors": "true"}, features=["deletionVectors"])
    builder.commit(commit_info("DELETE"), remove("a"), add("a", records=10, size=7, deletionVector=vector))
    restoring = Restoring(builder)

    done = restoring.restore(1)

    commit = restoring.newest_commit()
    assert [("a", None)] == [(one["path"], one.get("deletionVector")) for one in commit["add"]]
    assert [("a", vector)] == [(one["path"], one["deletionVector"]) for one in commit["remove"]]
    assert (10, 8) == (done.plan.difference.added_amount.rows, done.plan.difference.removed_amount.rows)

    restoring.restore(2)
    assert builder.states[2].live == restoring.state().live


def test_the_same_file_in_another_spelling_stays() -> None:
    builder = append(born(), "b%20c").commit(commit_info(), remove("b%20c"))
    restoring = Restoring(append(builder, "./b%20c"))
    restoring.storage.put("b c", b"x" * 7)

    assert restoring.restore(2).committed_version is None


def test_an_append_only_table_is_restored_where_removals_are_allowed() -> None:
    restoring = Restoring(append(born({"delta.appendOnly": "true"}), "b"))

    with pytest.raises(Refused, match=r"delta\.appendOnly is true, and 1 file.* would be removed") as refused:
        restoring.restore(1)

    assert "restore.append-only" == refused.value.code
    assert 3 == restoring.restore(1, allow_removals=True).committed_version


def test_an_append_only_table_gets_lost_files_back() -> None:
    restoring = Restoring(append(born({"delta.appendOnly": "true"}), "b").commit(commit_info(), remove("b")))

    assert restoring.restore(2).committed_version == 4


# -- what never goes back ---------------------------------------------------------------------------------------------

PROPERTIES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    # then, now, after
    "properties come back": ({"a": "1", "b": "1"}, {"a": "2", "c": "1"}, {"a": "1", "b": "1"}),
    "the longer retention of now stays": (
        {"delta.deletedFileRetentionDuration": DAY.format(2), "delta.logRetentionDuration": DAY.format(40)},
        {"delta.deletedFileRetentionDuration": DAY.format(30), "delta.logRetentionDuration": DAY.format(20)},
        {"delta.deletedFileRetentionDuration": DAY.format(30), "delta.logRetentionDuration": DAY.format(40)},
    ),
    "a default is a retention, too": (
        {"delta.deletedFileRetentionDuration": DAY.format(2), "delta.logRetentionDuration": DAY.format(31)},
        {},
        {"delta.logRetentionDuration": DAY.format(31)},
    ),
    "checkpoints stay protected": (
        {"delta.requireCheckpointProtectionBeforeVersion": "3"},
        {"delta.requireCheckpointProtectionBeforeVersion": "20"},
        {"delta.requireCheckpointProtectionBeforeVersion": "20"},
    ),
    "protection that came later stays": (
        {},
        {"delta.requireCheckpointProtectionBeforeVersion": "20"},
        {"delta.requireCheckpointProtectionBeforeVersion": "20"},
    ),
    "the highest column id stays, also without mapping": (
        {},
        {"delta.columnMapping.maxColumnId": "9"},
        {"delta.columnMapping.maxColumnId": "9"},
    ),
    "the longer retention of transactions of now stays": (
        {"delta.setTransactionRetentionDuration": DAY.format(2)},
        {"delta.setTransactionRetentionDuration": DAY.format(9)},
        {"delta.setTransactionRetentionDuration": DAY.format(9)},
    ),
    "transactions that stay for ever do": ({"delta.setTransactionRetentionDuration": DAY.format(2)}, {}, {}),
    "transactions that stayed for ever do again": ({}, {"delta.setTransactionRetentionDuration": DAY.format(2)}, {}),
    "names of stored row ids stay": (
        {"delta.rowTracking.materializedRowIdColumnName": "_old"},
        {"delta.rowTracking.materializedRowIdColumnName": "_new", "delta.enableRowTracking": "true"},
        {"delta.rowTracking.materializedRowIdColumnName": "_new"},
    ),
}


@pytest.mark.parametrize("case", PROPERTIES)
def test_properties(case: str) -> None:
    then, now, after = PROPERTIES[case]
    builder = configured(born(then, features=["domainMetadata", "rowTracking", "columnMapping"]), now)

    assert after == properties_after(builder, 1)


def test_in_commit_timestamps_stay_on_with_their_beginning() -> None:
    on = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "5",
    }
    builder = born(features=["inCommitTimestamp"])
    builder.commit(commit_info(inCommitTimestamp=5), metadata(configuration=on))
    restoring = Restoring(builder.commit(commit_info(inCommitTimestamp=9), add("b", size=7)))

    restoring.restore(1)

    commit = restoring.newest_commit()
    assert on == (restoring.state().metadata or {})["configuration"]
    assert commit["commitInfo"][0]["inCommitTimestamp"] > 9


def test_in_commit_timestamps_that_come_back_begin_with_the_restore() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    builder = TableBuilder()
    builder.commit(
        commit_info(inCommitTimestamp=1),
        protocol(1, 7, writer_features=["inCommitTimestamp"]),
        metadata(configuration=on),
    )
    builder.commit(commit_info(inCommitTimestamp=2), metadata())
    restoring = Restoring(builder)

    restoring.restore(0)

    configuration = (restoring.state().metadata or {})["configuration"]
    assert ("true", "2") == (
        configuration["delta.enableInCommitTimestamps"],
        configuration["delta.inCommitTimestampEnablementVersion"],
    )


def identity(mark: int | None, step: int = 1, name: str = "id") -> str:
    marks = {} if mark is None else {"delta.identity.highWaterMark": mark}
    field = {
        "delta.identity.start": 0,
        "delta.identity.step": step,
        **marks,
        "delta.identity.allowExplicitInsert": False,
    }
    return json.dumps(
        {"type": "struct", "fields": [{"name": name, "type": "long", "nullable": True, "metadata": field}]}
    )


@pytest.mark.parametrize(
    ("then", "now", "step", "after"),
    [(10, 20, 1, 20), (30, 20, 1, 30), (None, 20, 1, 20), (-10, -20, -1, -20), (-30, -20, -1, -30)],
)
def test_marks_of_identity_columns_go_on(then: int | None, now: int, step: int, after: int) -> None:
    builder = born(schema_string=identity(then, step))
    restoring = Restoring(append(configured(builder, {}, schema_string=identity(now, step)), "b"))

    restoring.restore(1)

    schema = json.loads((restoring.state().metadata or {})["schemaString"])
    assert after == schema["fields"][0]["metadata"]["delta.identity.highWaterMark"]


def test_a_target_whose_column_has_a_text_as_metadata_is_refused() -> None:
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": "x"}]}
    builder = configured(born(schema_string=json.dumps(schema)), {}, schema_string=identity(20))
    restoring = Restoring(append(builder, "b"))

    with pytest.raises(Refused, match="`metadata` of the field id is not an object"):
        restoring.restore(0)


@pytest.mark.parametrize("key", ["step", "highWaterMark"])
@pytest.mark.parametrize("value", ['"x"', "null", "[]", "1e999", "1.5", "true"])
def test_a_mark_goes_on_where_the_target_says_none_that_can_be_read(key: str, value: str) -> None:
    written = identity(9).replace(
        f'"delta.identity.{key}": {9 if key == "highWaterMark" else 1}', f'"delta.identity.{key}": {value}'
    )
    assert f": {value}" in written
    restoring = Restoring(append(configured(born(schema_string=written), {}, schema_string=identity(20)), "b"))

    restoring.restore(0)

    after = json.loads(str((restoring.state().metadata or {})["schemaString"]))["fields"][0]["metadata"]
    assert 20 == after["delta.identity.highWaterMark"]


MODES = [
    *(("none", "none", True), ("name", "name", True), ("id", "none", True), ("name", "none", True)),
    *(("none", "name", True), ("none", "id", False), ("name", "id", False), ("id", "name", False)),
]


@pytest.mark.parametrize(("now", "then", "is_possible"), MODES)
def test_modes_of_column_mapping(now: str, then: str, is_possible: bool) -> None:
    builder = born(
        {"delta.columnMapping.mode": then, "delta.columnMapping.maxColumnId": "4"}, features=["columnMapping"]
    )
    restoring = Restoring(append(configured(builder, {"delta.columnMapping.mode": now}), "b"))

    plan = plan_restore(restoring.table, RestoreRequest(version=1, trust_listing=True))

    codes = [one.code for one in plan.refusals if one.code.startswith("restore.")]  # the columns have no ids
    assert ([] if is_possible else ["restore.mapping-mode"]) == codes


def test_a_metadata_without_configuration_is_no_difference() -> None:
    lacking = metadata()
    del lacking["metaData"]["configuration"]
    restoring = Restoring(TableBuilder().commit(commit_info(), protocol(), lacking).commit(commit_info()))

    assert restoring.restore(0).committed_version is None


def test_the_protocol_only_grows_and_a_dropped_feature_comes_back() -> None:
    builder = born(features=["deletionVectors", "domainMetadata"])
    builder.commit(commit_info("DROP FEATURE"), protocol(1, 7, writer_features=["rowTracking", "domainMetadata"]))
    restoring = Restoring(builder)

    restoring.restore(1)

    found = restoring.state().protocol or {}
    assert (3, 7, ["deletionVectors"], {"deletionVectors", "domainMetadata", "rowTracking"}) == (
        found["minReaderVersion"],
        found["minWriterVersion"],
        found["readerFeatures"],
        {*found["writerFeatures"]},
    )


def test_a_feature_that_excludes_one_of_now_is_refused_by_name() -> None:
    builder = born({}, features=["icebergCompatV1", "columnMapping"])
    readers = ["columnMapping", "deletionVectors"]
    builder.commit(commit_info(), protocol(3, 7, reader_features=readers, writer_features=readers))
    restoring = Restoring(append(builder, "b"))

    with pytest.raises(Refused, match="icebergCompatV1, which excludes deletionVectors") as refused:
        restoring.restore(1)

    assert "restore.features" == refused.value.code


def test_vectors_come_back_only_where_they_are_on() -> None:
    """
    Where they are on now they stay on, although they were off then.
    """
    on, vector = {"delta.enableDeletionVectors": "true"}, inline([1])
    builder = configured(born(on, features=["deletionVectors"]), on)
    builder.commit(commit_info(), remove("a"), add("a", records=10, size=7, deletionVector=vector))
    configured(builder, {}).commit(commit_info(), remove("a", vector=vector))

    off = Restoring(builder)
    with pytest.raises(Refused) as refused:
        off.restore(4)
    assert ("restore.vectors-off", 5) == (refused.value.code, off.table.snapshot().version)

    switched_on = Restoring(configured(builder, on))
    done = switched_on.restore(4)
    assert (7, on) == (done.committed_version, (switched_on.state().metadata or {})["configuration"])


WRONG_TARGETS: list[dict[str, Any]] = [{}, {"version": 1, "timestamp_ms": 1}, {"version": -1}]


def test_a_target_that_cannot_be_read_and_versions_that_are_not_there() -> None:
    future = protocol(3, 7, reader_features=["future"], writer_features=["future"])
    restoring = Restoring(born().commit(commit_info(), future).commit(commit_info(), protocol()))

    with pytest.raises(ProtocolUnsupported):
        restoring.restore(2)
    with pytest.raises(VersionAbsent, match="the newest is 3"):
        restoring.restore(4)
    for wrong in WRONG_TARGETS:
        with pytest.raises(UsageError):
            restoring.table.restore(**wrong)


def test_a_table_of_a_catalog_is_refused() -> None:
    features = ["catalogManaged", "inCommitTimestamp"]
    builder = TableBuilder().commit(
        commit_info(inCommitTimestamp=1),
        protocol(3, 7, reader_features=["catalogManaged"], writer_features=features),
        metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
    )
    restoring = Restoring(builder.commit(commit_info(inCommitTimestamp=2), add("a", size=7)))

    with pytest.raises(Refused) as refused:
        restoring.restore(0)

    assert "catalog.managed" == refused.value.code


# -- row ids ----------------------------------------------------------------------------------------------------------


def mark(number: int) -> Line:
    return domain("delta.rowTracking", f'{{"rowIdHighWaterMark":{number}}}')


def test_row_ids_return_and_their_mark_stays() -> None:
    builder = born(features=["domainMetadata", "rowTracking"])
    builder.commit(commit_info(), mark(19), add("b", size=7, records=10, baseRowId=10, defaultRowCommitVersion=2))
    builder.commit(commit_info(), remove("b"))
    restoring = Restoring(builder)

    restoring.restore(2)

    commit = restoring.newest_commit()
    assert [("b", 10, 2)] == [(one["path"], one["baseRowId"], one["defaultRowCommitVersion"]) for one in commit["add"]]
    assert "domainMetadata" not in commit


def test_row_ids_that_others_may_have_by_now_are_refused() -> None:
    """
    Dropping the feature removes the mark, so the next writer with row tracking begins at 0 again.
    """
    builder = born(features=["domainMetadata", "rowTracking"])
    builder.commit(commit_info(), mark(19), add("b", size=7, records=10, baseRowId=10, defaultRowCommitVersion=2))
    dropped = domain("delta.rowTracking", "", removed=True)
    builder.commit(commit_info("DROP FEATURE"), dropped, protocol(1, 7, writer_features=["domainMetadata"]))
    restoring = Restoring(builder)

    with pytest.raises(Refused, match="ids up to 19") as refused:
        restoring.restore(2)

    assert "restore.row-ids" == refused.value.code
    assert restoring.restore(1).committed_version == 4


@pytest.mark.parametrize("is_named", [False, True])
def test_row_ids_that_a_file_which_stays_has_are_refused_or_given_anew(is_named: bool) -> None:
    """
    Row tracking was dropped, added again, and has numbered as many rows as then. Where it has other names for stored
    ids by now, that is known, and the rows that come back get new ids.
    """

    def on(name: str) -> Line:
        named = {"delta.rowTracking.materializedRowIdColumnName": name} if is_named else {}
        return metadata(configuration=named, partition_columns=["p"], schema_string=partitioned)

    partitioned = '{"type":"struct","fields":[{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
    of: list[dict[str, Any]] = [
        {"size": 7, "records": 10, "baseRowId": 0, "partition_values": {"p": value}} for value in "12"
    ]
    tracked = protocol(1, 7, writer_features=["domainMetadata", "rowTracking"])
    builder = TableBuilder().commit(commit_info(), tracked, on("a"), add("a", **of[0]), mark(9))
    builder.commit(commit_info(), remove("a"), domain("delta.rowTracking", "", removed=True), on("b"))
    restoring = Restoring(builder.commit(commit_info(), add("b", **of[1]), mark(9)))

    if is_named:
        restoring.restore(0, where="p = '1'")
        assert {"a": 10, "b": 0} == {one["path"]: one["baseRowId"] for one in restoring.state().live.values()}
        assert mark(19)["domainMetadata"] == restoring.state().domains["delta.rowTracking"]
        return
    with pytest.raises(Refused, match="have row ids of files that stay") as refused:
        restoring.restore(0, where="p = '1'")
    assert "restore.row-ids" == refused.value.code


def test_row_ids_do_not_come_back_over_files_without_them() -> None:
    names = dict(zip(MATERIALIZED_NAMES, ("_row-id-col-1", "_row-commit-version-col-1"), strict=True))
    on = {"delta.enableRowTracking": "true", **names}
    builder = born(on, features=["domainMetadata", "rowTracking"])
    builder.commit(commit_info(), remove("a"), add("b", size=7, records=10, baseRowId=0), mark(9))
    configured(builder, {})
    complete, lacking = Restoring(builder), Restoring(configured(append(born(on), "b"), {}))

    assert 4 == complete.restore(2).committed_version
    with pytest.raises(Refused, match="files without row ids stay") as refused:
        lacking.restore(1)

    assert ("restore.row-ids", 3) == (refused.value.code, lacking.table.snapshot().version)


def test_files_of_a_time_before_row_tracking_get_fresh_ids() -> None:
    builder = append(born(), "b").commit(commit_info(), remove("a"), remove("b"))
    names = ["domainMetadata", "rowTracking"]
    builder.commit(commit_info(), protocol(1, 7, writer_features=names), mark(99))
    restoring = Restoring(builder)

    restoring.restore(2)

    commit = restoring.newest_commit()
    assert {("a", 100, 5), ("b", 110, 5)} == {
        (one["path"], one["baseRowId"], one["defaultRowCommitVersion"]) for one in commit["add"]
    } or {("b", 100, 5), ("a", 110, 5)} == {
        (one["path"], one["baseRowId"], one["defaultRowCommitVersion"]) for one in commit["add"]
    }
    assert ['{"rowIdHighWaterMark":119}'] == [one["configuration"] for one in commit["domainMetadata"]]


@pytest.mark.parametrize("where", [None, "p = '1'"])
@pytest.mark.parametrize("is_named_anew", [False, True])
def test_a_file_that_is_live_keeps_its_row_ids_when_it_comes_back_without_its_vector(
    is_named_anew: bool, where: str | None
) -> None:
    """
    The target is of a time before row tracking, or of an earlier one, and the rows were there all along.
    """
    then, now = (
        metadata(
            configuration={
                "delta.rowTracking.materializedRowIdColumnName": name,
                "delta.enableDeletionVectors": "true",
            },
            partition_columns=["p"],
            schema_string='{"type":"struct","fields":[{"name":"p","type":"string","nullable":true,"metadata":{}}]}',
        )
        for name in ("_then", "_now" if is_named_anew else "_then")
    )
    names = ["domainMetadata", "rowTracking", "deletionVectors"]
    tracked = protocol(3, 7, reader_features=["deletionVectors"], writer_features=names)
    of: dict[str, Any] = {"size": 7, "records": 10, "partition_values": {"p": "1"}}
    stored: dict[str, Any] = {"baseRowId": 5, "defaultRowCommitVersion": 0} if is_named_anew else {}
    builder = TableBuilder().commit(commit_info(), tracked, then, add("a", **of, **stored), add("b", **of), mark(14))
    ids: dict[str, Any] = {"baseRowId": 20, "defaultRowCommitVersion": 1}
    builder.commit(commit_info(), now, add("a", **of, **ids, dataChange=False), mark(29), remove("b"))
    vector = inline([1, 4])
    builder.commit(commit_info("DELETE"), remove("a"), add("a", **of, **ids, deletionVector=vector))
    restoring = Restoring(builder)

    restoring.restore(0, **({} if where is None else {"where": where}))

    found = {one["path"]: one for one in restoring.state().live.values()}
    assert {"a": 20, "b": 30} == {path: one["baseRowId"] for path, one in found.items()}
    assert (1, 3) == tuple(found[path]["defaultRowCommitVersion"] for path in "ab")
    assert "deletionVector" not in found["a"]
    assert mark(39)["domainMetadata"] == restoring.state().domains["delta.rowTracking"]
    found_codes = {one.rule.id for one in restoring.table.validate(level="log").findings if one.place.version == 3}
    assert {"rowtracking.base-row-id-changed", "rowtracking.commit-version"}.isdisjoint(found_codes)


def test_rows_that_are_not_counted_get_no_ids() -> None:
    builder = born().commit(commit_info(), add("b", size=7)).commit(commit_info(), remove("b"))
    builder.commit(commit_info(), protocol(1, 7, writer_features=["domainMetadata", "rowTracking"]))
    restoring = Restoring(builder)

    with pytest.raises(Refused) as refused:
        restoring.restore(2)

    assert "restore.rows-unknown" == refused.value.code


# -- domains and applications -----------------------------------------------------------------------------------------


def clustered(*names: str) -> Line:
    return domain(
        "delta.clustering", json.dumps({"clusteringColumns": [[name] for name in names]}, separators=(",", ":"))
    )


CLUSTERINGS: dict[str, tuple[list[Line], list[Line], str | None]] = {
    # of the target, of now, what is committed
    "never clustered": ([], [], None),
    "clustered since": ([], [clustered("id")], '{"clusteringColumns":[]}'),
    "by other columns since": ([clustered("id")], [clustered("b")], '{"clusteringColumns":[["id"]]}'),
    "by none since": ([clustered("id")], [clustered()], '{"clusteringColumns":[["id"]]}'),
    "by the same": ([clustered("id")], [], None),
    "no longer clustered": (
        [clustered("id")],
        [domain("delta.clustering", removed=True)],
        '{"clusteringColumns":[["id"]]}',
    ),
}


@pytest.mark.parametrize("case", CLUSTERINGS)
def test_clustering(case: str) -> None:
    then, now, expected = CLUSTERINGS[case]
    builder = born(features=["domainMetadata", "clustering"]).commit(commit_info(), *then)
    restoring = Restoring(append(builder.commit(commit_info(), *now), "b"))

    restoring.restore(2)

    written = restoring.newest_commit().get("domainMetadata", [])
    assert ([] if expected is None else [("delta.clustering", expected)]) == [
        (one["domain"], one["configuration"]) for one in written
    ]


def test_what_belongs_to_others_stays_and_is_named() -> None:
    builder = born(features=["domainMetadata"]).commit(
        commit_info(), txn("s1", 4), txn("s2", 1), domain("their", "then")
    )
    restoring = Restoring(
        append(builder.commit(commit_info(), txn("s1", 9), txn("s3", 7), domain("their", "now")), "b")
    )

    done = restoring.restore(2)

    assert {"commitInfo", "remove"} == set(restoring.newest_commit())
    assert ["the domains of other programs are kept: their"] == list(done.plan.notes)
    assert {
        "s1": "has committed 9 and had committed 4 then: it does not resend what it has sent since then",
        "s3": "has committed 7 and had not committed then: it does not resend what it has sent since then",
    } == {client.name: client.effect for client in done.plan.clients if client.kind == "application"}


# -- other writers ----------------------------------------------------------------------------------------------------

APPEND: list[Line] = [commit_info(), add("late", size=7, records=10)]
VACUUM: list[Line] = [commit_info("VACUUM START")]


def test_a_plan_that_was_agreed_to_is_not_changed_by_other_writers() -> None:
    restoring = Restoring(append(born(), "b"))
    restoring.storage.put("late", b"x" * 7)
    inner, restoring.storage = restoring.storage, Rivals(restoring.storage, VACUUM, APPEND)
    plan = plan_restore(restoring.table, RestoreRequest(version=1, trust_listing=True))

    with pytest.raises(ConflictLost) as lost:
        restoring.table.execute_restore(plan)

    removed = ("remove 1 file (7 B), rows: 10", "remove 2 files (14 B), rows: 20")
    assert removed == (lost.value.facts["agreed to 2"], lost.value.facts["now 2"])

    assert {"a", "b", "late"} == {path.decode() for path, _ in keys(Restoring.state(restoring))}
    assert 4 == open_at(inner).snapshot().version


def test_with_consent_given_before_a_late_append_goes_too() -> None:
    restoring = Restoring(append(born(), "b"))
    restoring.storage.put("late", b"x" * 7)
    restoring.storage = Rivals(restoring.storage, VACUUM, APPEND)

    done = restoring.restore(1)

    assert (5, 2) == (done.committed_version, done.plan.difference.removed_amount.files)
    assert {"a"} == {path.decode() for path, _ in keys(restoring.state())}


def test_a_change_of_clustering_by_another_writer_is_undone_too() -> None:
    builder = append(born(features=["domainMetadata", "clustering"]), "b")
    restoring = Restoring(builder)
    restoring.storage = Rivals(restoring.storage, [commit_info("CLUSTER BY"), clustered("id")])

    done = restoring.restore(1)

    written = restoring.newest_commit()["domainMetadata"]
    assert (4, ['{"clusteringColumns":[]}']) == (done.committed_version, [one["configuration"] for one in written])


@pytest.mark.parametrize("may_plan_again", [True, False])
def test_a_plan_whose_next_version_has_expired_is_not_committed_behind_newer_ones(may_plan_again: bool) -> None:
    builder = append(born(), "b")
    planned = Restoring(builder)
    before = {*builder.files}
    append(append(builder, "c"), "d").checkpoint(4)
    plan = plan_restore(planned.table, RestoreRequest(version=1, trust_listing=True))
    expired = f"_delta_log/{3:020d}.json"
    for path, file in builder.files.items():
        if path != expired and path not in before:
            planned.storage.put(path, file.data)

    with pytest.raises(Refused, match="commits after version 2, on which this was planned, are no longer in the log"):
        planned.table.execute_restore(plan, may_plan_again=may_plan_again)
    assert expired.rpartition("/")[2] not in {stat.name for stat in planned.storage.list_from("_delta_log")}


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), StorageFailed("the store is away")])
def test_what_prevents_the_last_look_names_the_version(monkeypatch: pytest.MonkeyPatch, stop: BaseException) -> None:
    def fails(*_: object, **__: object) -> None:
        raise stop

    restoring = Restoring(append(born(), "b").commit(commit_info(), remove("b")))
    monkeypatch.setattr("deltacli.operations.restore.restore.check_sizes", fails)

    with pytest.raises((KeyboardInterrupt, PartlyDone)) as raised:
        restoring.restore(2)

    said = [str(raised.value), *getattr(raised.value, "__notes__", ())]
    assert any("version 4 was committed" in one for one in said)
    assert 4 == restoring.table.snapshot().version
