"""Damages of what commits hold and of what their actions do to each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import NOW_MS, Action, TableBuilder

DAY_MS = 86_400_000
INLINE_VECTOR: Action = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}


def with_features(*features: str, reader: tuple[str, ...] = (), **properties: str) -> TableBuilder:
    """A table with table features. Keys of properties have `_` for `.`, and lack `delta.`."""
    protocol: Action = {"minReaderVersion": 3 if reader else 1, "minWriterVersion": 7}
    if reader:
        protocol["readerFeatures"] = list(reader)
    protocol["writerFeatures"] = [*features, *reader]
    named = {f"delta.{key.replace('_', '.')}": value for key, value in properties.items()}
    return TableBuilder(protocol=protocol, properties=named)


def with_domains() -> TableBuilder:
    """A table that has a domain in use."""
    table = with_features("domainMetadata")
    table.commit(domain("app.settings", "{}"))
    return table


def domain(name: str, configuration: str, *, removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def with_vectors() -> TableBuilder:
    """A table whose last commit gives the file of partition b a deletion vector."""
    table = with_features(reader=("deletionVectors",), enableDeletionVectors="true")
    table.commit(
        table.new_remove("b", 2, 4),
        again(table, 4, INLINE_VECTOR),
        operation="DELETE",
    )
    return table


def again(table: TableBuilder, version: int, vector: Action) -> Action:
    """The add of the file of partition b with a deletion vector."""
    time = table.time_of(1) - 1000
    stats = json.dumps({"numRecords": 10, "tightBounds": False})
    return table.new_add("b", 2, version, modificationTime=time, stats=stats, deletionVector=vector)


def with_changes() -> TableBuilder:
    """A table with a change data feed in use: its last commit deletes a file, and says which rows."""
    table = TableBuilder(
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed"]},
        properties={"delta.enableChangeDataFeed": "true"},
    )
    for kind in ("add", "remove"):
        table.action(2, kind)["dataChange"] = False  # else it needs change data as well
    table.commit(table.new_remove("b", 2, 4), new_change(1), operation="DELETE")
    return table


def new_change(number: int, **changes: Any) -> Action:
    cdc = {
        "path": f"_change_data/p=b/cdc-{number:05d}-c000.snappy.parquet",
        "partitionValues": {"p": "b"},
        "size": 1001,
        "dataChange": False,
    }
    return {"cdc": cdc | changes}


# -- whole commits ----------------------------------------------------------------------------------------------------


@damage("commit.checkpoint-only-action")
def sidecar_in_a_commit() -> TableBuilder:
    table = TableBuilder()
    sidecar = {"path": "3a0d65cd.parquet", "sizeInBytes": 2304, "modificationTime": table.time_of(3)}
    table.commits[3].append({"sidecar": sidecar})
    return table


@damage("commit.checkpoint-only-action")
def checkpoint_metadata_in_a_commit() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append({"checkpointMetadata": {"version": 3}})
    return table


@damage("commit.duplicate-metadata")
def the_same_metadata_twice() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [table.change_metadata(), table.change_metadata()]
    return table


@damage("commit.duplicate-protocol")
def the_same_protocol_twice() -> TableBuilder:
    table = TableBuilder()
    table.commits[0].append({"protocol": dict(table.protocol)})
    return table


@damage("commit.duplicate-txn")
def two_transactions_of_one_application() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [{"txn": {"appId": "stream", "version": version}} for version in (8, 7)]
    return table


@damage("commit.duplicate-domain")
def one_domain_twice() -> TableBuilder:
    table = with_domains()
    table.commit(domain("app.settings", '{"a":1}'), domain("app.settings", '{"a":2}'))
    return table


@damage("commit.first-without-protocol")
def protocol_in_version_1() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    protocol = table.commits[0].pop(1)
    assert "protocol" in protocol
    table.commits[1].append(protocol)
    return table


@damage("commit.first-without-metadata")
def metadata_in_version_1() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    metadata = table.commits[0].pop(2)
    assert "metaData" in metadata
    table.commits[1].append(metadata)
    return table


@damage("commit.unknown-action")
def action_of_the_future() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append({"futureAction": {"a": 1}})
    return table


@damage("commitinfo.missing")
def no_provenance() -> TableBuilder:
    table = TableBuilder()
    del table.commits[3][0]
    return table


@damage("commitinfo.several")
def two_commit_infos() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append(table.info(3))
    return table


# A text names no operation, either.
@damage("commitinfo.not-object", also=("history.operation-missing",))
def commit_info_is_a_text() -> TableBuilder:
    table = TableBuilder()
    table.commits[3][0] = {"commitInfo": "WRITE"}
    return table


# -- the fields of file actions ---------------------------------------------------------------------------------------


@damage("action.negative-size")
def size_below_zero() -> TableBuilder:
    table = TableBuilder()
    table.add(1)["size"] = -5
    table.action(2, "remove")["size"] = 1001
    return table


@damage("action.negative-size")
def size_zero() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["size"] = 0
    resize(table, table.path_of("b", 4), 0)
    return table


@damage("action.negative-size")
def size_of_a_remove_below_zero() -> TableBuilder:
    table = TableBuilder()
    table.action(2, "remove")["size"] = -1
    return table


# The size is compared with the file, too.
@damage("action.negative-size", also=("cdc.size-mismatch",))
def size_of_a_change_file_below_zero() -> TableBuilder:
    table = with_changes()
    table.action(4, "cdc")["size"] = -1
    return table


def resize(table: TableBuilder, path: str, size: int) -> None:
    """Give a data file another size, and the time it had."""

    def edit(root: Path) -> None:
        import os

        time = (root / path).stat().st_mtime_ns
        (root / path).write_bytes(b"x" * size)
        os.utime(root / path, ns=(time, time))

    table.edit_files(edit)


@damage("action.bad-modification-time")
def modification_time_0() -> TableBuilder:
    table = TableBuilder()
    table.add(1)["modificationTime"] = 0
    return table


@damage("action.bad-modification-time")
def modification_time_in_seconds() -> TableBuilder:
    table = TableBuilder()
    table.add(1)["modificationTime"] //= 1000
    return table


@damage("action.bad-modification-time")
def file_made_a_day_after_its_commit() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["modificationTime"] = table.time_of(3) + DAY_MS + 1
    return table


# A checkpoint's own adds are judged only where the commits below it are gone.
@damage("action.bad-modification-time", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def file_of_a_checkpoint_made_tomorrow() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    table.edit_rows(edit_first_add(modificationTime=NOW_MS + DAY_MS + 1))
    return without_the_first_commits(table)


def edit_first_add(**changes: Any) -> Any:
    def edit(rows: list[Action]) -> None:
        next(row["add"] for row in rows if "add" in row).update(changes)

    return edit


def without_the_first_commits(table: TableBuilder) -> TableBuilder:
    """The table after a cleanup of its log: the checkpoint of version 2 is where it begins."""
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
    return table


# It counts as expired, and the file is still there.
@damage("action.deletion-timestamp-missing", also=("data.expired-tombstone-present",))
def remove_without_time() -> TableBuilder:
    table = TableBuilder()
    del table.action(2, "remove")["deletionTimestamp"]
    return table


@damage("action.deletion-timestamp-odd")
def removed_after_the_commit() -> TableBuilder:
    table = TableBuilder()
    table.action(2, "remove")["deletionTimestamp"] = table.time_of(2) + 3_600_001
    return table


@damage("action.deletion-timestamp-odd")
def removed_before_the_file_was_made() -> TableBuilder:
    table = TableBuilder()
    table.action(2, "remove")["deletionTimestamp"] = table.add(1)["modificationTime"] - 3_600_001
    return table


# The writer gives both in seconds, so the file outlives its tombstone.
@damage("action.deletion-timestamp-odd", also=("action.bad-modification-time", "data.expired-tombstone-present"))
def removed_in_seconds_as_it_was_added() -> TableBuilder:
    table = TableBuilder()
    for version, kind, name in ((1, "add", "modificationTime"), (2, "remove", "deletionTimestamp")):
        table.action(version, kind)[name] = table.time_of(version) // 1000
    return table


@damage("action.deletion-timestamp-odd", also=("action.bad-modification-time", "data.expired-tombstone-present"))
def removed_at_zero_as_it_was_added() -> TableBuilder:
    table = TableBuilder()
    table.action(1, "add")["modificationTime"] = table.action(2, "remove")["deletionTimestamp"] = 0
    return table


@damage("action.extended-metadata-lie")
def extended_metadata_without_size() -> TableBuilder:
    table = TableBuilder()
    del table.action(2, "remove")["size"]
    return table


@damage("action.extended-metadata-lie")
def extended_metadata_without_partition_values() -> TableBuilder:
    table = TableBuilder()
    del table.action(2, "remove")["partitionValues"]
    return table


@damage("action.remove-size-missing")
def remove_without_size() -> TableBuilder:
    table = TableBuilder()
    for name in ("size", "extendedFileMetadata"):
        del table.action(2, "remove")[name]
    return table


@damage("action.path-empty")
def empty_path() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("b", 5, 4, path=""))
    table.commit(table.new_remove("b", 5, 5, path=""), operation="DELETE")
    return table


@damage("action.tags-null-value")
def tag_without_value() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["tags"] = {"INSERTION_TIME": None}
    return table


@damage("action.tags-null-value")
def tag_with_a_number() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["tags"] = {"INSERTION_TIME": 12}
    return table


@damage("action.cdc-datachange-true")
def change_file_that_changes_data() -> TableBuilder:
    table = with_changes()
    table.action(4, "cdc")["dataChange"] = True
    return table


# -- file actions against each other ----------------------------------------------------------------------------------


@damage("action.duplicate-path")
def two_adds_of_one_path() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("b", 5, 4), table.new_add("b", 5, 4))
    return table


@damage("action.duplicate-path")
def two_removes_of_one_path() -> TableBuilder:
    table = TableBuilder()
    table.commits[2].append(table.new_remove("a", 1, 2))
    return table


@damage("action.duplicate-path")
def removes_with_the_vector_and_without() -> TableBuilder:
    """
    The second remove misses the live file; what matters is that one of them hits it.
    """
    table = with_vectors()
    table.commit(
        table.new_remove("b", 2, 5), table.new_remove("b", 2, 5, deletionVector=INLINE_VECTOR), operation="DELETE"
    )
    return table


@damage("action.add-remove-same-key")
def remove_and_add_of_a_new_file() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_remove("b", 5, 4), table.new_add("b", 5, 4))
    return table


@damage("action.add-remove-same-key")
def remove_and_add_of_one_file() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_remove("b", 2, 4), table.new_add("b", 2, 4, modificationTime=table.time_of(1) - 1000))
    return table


@damage("action.readd-without-remove")
def another_vector_without_a_remove() -> TableBuilder:
    table = with_vectors()
    del table.commits[4][1]
    return table


@damage("action.remove-of-unknown")
def remove_of_a_file_that_never_was() -> TableBuilder:
    table = TableBuilder()
    table.commits[2].append(table.new_remove("a", 9, 2))
    return table


@damage("action.remove-dv-mismatch")
def remove_without_the_vector() -> TableBuilder:
    table = with_vectors()
    table.commit(table.new_remove("b", 2, 5), operation="DELETE")
    return table


@damage("action.remove-dv-mismatch")
def vector_replaced_by_a_remove_of_another() -> TableBuilder:
    """
    The add with the newer vector is not to blame: its commit names the path, with the wrong old vector.
    """
    table = with_vectors()
    table.commit(
        table.new_remove("b", 2, 5),
        again(table, 5, INLINE_VECTOR | {"pathOrInlineDv": "0rr91" + "0" * 50}),
        operation="DELETE",
    )
    return table


@damage("action.datachange-false-new-data")
def new_file_without_data_change() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("b", 5, 4, dataChange=False))
    return table


@damage("action.datachange-false-new-data")
def rearranged_into_more_rows() -> TableBuilder:
    table = TableBuilder()
    table.commit(
        table.new_remove("b", 2, 4, dataChange=False),
        table.new_add("b", 5, 4, dataChange=False, stats=json.dumps({"numRecords": 11})),
        operation="OPTIMIZE",
    )
    return table


@damage("action.datachange-mixed")
def data_changes_in_a_part_of_the_commit() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.new_add("b", 5, 4), table.new_add("b", 6, 4, dataChange=False))
    return table


@damage("action.cdc-only")
def changes_without_files() -> TableBuilder:
    table = with_changes()
    table.commit(new_change(2))
    return table


# -- applications and domains -----------------------------------------------------------------------------------------


@damage("txn.version-decrease")
def application_that_goes_back() -> TableBuilder:
    table = TableBuilder()
    for version, applied in ((1, 5), (3, 4)):
        table.commits[version].append({"txn": {"appId": "stream", "version": applied}})
    return table


@damage("txn.last-updated-missing")
def transaction_that_may_expire() -> TableBuilder:
    table = TableBuilder(properties={"delta.setTransactionRetentionDuration": "interval 7 days"})
    table.commits[3].append({"txn": {"appId": "stream", "version": 4}})
    return table


@damage("txn.count-high")
def an_application_for_each_run() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [{"txn": {"appId": f"run-{number}", "version": 1}} for number in range(10_001)]
    return table


@damage("domain.system-unknown")
def system_domain_of_the_future() -> TableBuilder:
    table = with_domains()
    table.commit(domain("delta.somethingNew", "{}"))
    return table


@damage("domain.without-feature")
def domain_in_an_old_table() -> TableBuilder:
    table = TableBuilder()
    table.commits[3].append(domain("app.settings", "{}"))
    return table


@damage("domain.tombstone-empty")
def removed_domain_without_configuration() -> TableBuilder:
    table = with_domains()
    table.commit(domain("app.settings", "", removed=True))
    return table
