"""Tables at the very edge of a rule: exactly the named rules report, on the one side and on the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.delta.rules import history, transactions
from deltacli.delta.rules.path_spelling import faults_of_path
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate import Validation, validate_table
from deltacli.quantities import format_timestamp
from deltacli.storage import open_storage
from tests.rules.damages_deletion_vectors import table_with_a_vector
from tests.rules.damages_hint import with_hint
from tests.rules.damages_history import vacuumed
from tests.rules.damages_log_files import commit_often
from tests.rules.damages_mapping import MappedTable, mapped
from tests.rules.damages_mapping import usual_fields as mapped_fields
from tests.rules.damages_metadata import (
    created_time_missing,
    files_said_to_be_orc,
    format_with_an_option,
    partitioned_by,
)
from tests.rules.damages_partitions import table_by
from tests.rules.damages_row_tracking import PROTOCOL as TRACKING
from tests.rules.damages_row_tracking import again, mark, tagged, tracked_table
from tests.rules.damages_storage import RecentTable
from tests.rules.table_builder import DEFAULT_SCHEMA, NOW_MS, TableBuilder, column, struct

EDGES: list[tuple[frozenset[str], Callable[[], TableBuilder]]] = []


def edge(*rules: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which exactly these rules report."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        EDGES.append((frozenset(rules), make))
        return make

    return register


def inspect(table: TableBuilder, root: Path) -> Validation:
    storage = open_storage(str(table.write(root)))
    return validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS)


# -- history ---------------------------------------------------------------------------------------------------------


@edge()
def vacuum_that_tells_no_parameters() -> TableBuilder:
    table = vacuumed()
    del table.action(4, "commitInfo")["operationParameters"]
    return table


@edge("history.vacuum-start-without-end")
def write_after_a_vacuum_that_was_broken_off() -> TableBuilder:
    table = vacuumed()
    table.action(5, "commitInfo")["operation"] = "WRITE"
    return table


@edge()
def end_of_a_vacuum_that_began_before_the_log() -> TableBuilder:
    table = TableBuilder()
    table.commit(operation="VACUUM END")
    return table


@edge()
def engine_that_is_not_named() -> TableBuilder:
    table = TableBuilder()
    table.action(3, "commitInfo")["engineInfo"] = ""
    return table


@edge("history.concurrent-version-hole")
def commit_prepared_before_there_was_a_table() -> TableBuilder:
    table = TableBuilder()
    commit_often(table, 14)
    table.action(13, "commitInfo").update(readVersion=-1, isBlindAppend=False)
    return table


# -- hints -----------------------------------------------------------------------------------------------------------


@edge("hint.size-wrong")
def hint_that_counts_no_files() -> TableBuilder:
    return with_hint(numOfAddFiles=0)


@edge("hint.size-wrong")
def wrong_hint_at_the_first_version() -> TableBuilder:
    table = with_hint(size=7)
    table.checkpoint_version = 0
    return table


# -- schemas ---------------------------------------------------------------------------------------------------------


def overwritten(table: TableBuilder, **parameters: str) -> TableBuilder:
    """Another type for `id`, by an overwrite of one of three files."""
    fields = [column("id", "string"), column("name", "string"), column("p", "string")]
    version = table.commit(table.change_metadata(schemaString=json.dumps(struct(*fields))), table.new_remove("b", 4, 4))
    table.action(version, "commitInfo")["operationParameters"] = {"mode": "Overwrite"} | parameters
    return table


@edge("schema.type-changed-illegally")
def overwrite_of_a_part_leaves_files_of_the_old_type() -> TableBuilder:
    return overwritten(TableBuilder(), predicate="(p = 'b')")


@edge("schema.type-changed-illegally")
def overwrite_that_removed_nothing() -> TableBuilder:
    table = overwritten(TableBuilder())
    table.commits[4].pop()
    return table


@edge("metadata.partition-column-nested")
def partition_column_named_as_a_field_of_a_struct() -> TableBuilder:
    schema = struct(*DEFAULT_SCHEMA["fields"], column("address", struct(column("country", "string"))))
    return partitioned_by("p", "country", schema=schema, values={"country": "AT"})


@edge("metadata.partition-column-duplicate")
def later_metadata_names_a_partition_column_twice() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.change_metadata(partitionColumns=["p", "p"]))
    return table


# -- partitions ------------------------------------------------------------------------------------------------------

def in_directory(table: TableBuilder, directory: str, **values: str | None) -> TableBuilder:
    """One more file, in a directory."""
    table.commit(table.new_add("x", 5, 4, path=f"{directory}/part-00005.parquet", partitionValues=values))
    return table


@edge()
def directory_of_the_same_number_in_other_digits() -> TableBuilder:
    return in_directory(table_by("ratio", "double", "1.0"), "ratio=1", ratio="1.0")


@edge("partition.dir-mismatch")
def directory_of_another_number() -> TableBuilder:
    return in_directory(table_by("ratio", "double", "1.0"), "ratio=10", ratio="1.0")


@edge("partition.dir-mismatch")
def directory_of_a_later_partition() -> TableBuilder:
    return in_directory(TableBuilder(), "p=c", p="b")


@edge("partition.unparsable")
def directory_of_a_value_that_does_not_parse() -> TableBuilder:
    return in_directory(table_by("year", "integer", "2026"), "year=2026", year="MMXXVI")


@edge()
def hives_directory_of_nulls() -> TableBuilder:
    return in_directory(TableBuilder(), "p=__HIVE_DEFAULT_PARTITION__", p=None)


@edge("partition.dir-mismatch")
def hives_directory_of_nulls_for_a_value() -> TableBuilder:
    return in_directory(TableBuilder(), "p=__HIVE_DEFAULT_PARTITION__", p="b")


@edge("partition.dir-mismatch")
def directory_of_a_value_for_null() -> TableBuilder:
    return in_directory(TableBuilder(), "p=b", p=None)


@edge("partition.dir-mismatch")
def second_directory_of_another_value() -> TableBuilder:
    table = TableBuilder(partition_columns=("p", "name"))
    for actions in table.commits.values():
        for action in actions:
            for kind in action.keys() & {"add", "remove"}:
                action[kind]["partitionValues"]["name"] = "x"
                action[kind].pop("stats", None)
    in_directory(table, "p=b/name=y", p="b", name="x")
    del table.add(4)["stats"]
    return table


@edge()
def values_in_a_partition_column_that_forbids_null() -> TableBuilder:
    return table_by("year", "integer", "2026", nullable=False)


@edge("partition.empty-string")
def empty_text_in_a_partition_column_that_forbids_null() -> TableBuilder:
    table = table_by("word", "string", "x", nullable=False)
    table.add(3)["partitionValues"] = {"word": ""}
    return table


# -- paths and files -------------------------------------------------------------------------------------------------


def comes_back(vector_before: bool, vector: bool) -> TableBuilder:
    """A file of another size under the path of one that was removed."""
    table = table_with_a_vector()
    descriptor = table.add(4)["deletionVector"]
    stats = table.add(4)["stats"]
    path = table.add(4)["path"]
    if vector_before:
        table.commit(table.new_remove("b", 4, 5, deletionVector=descriptor), operation="DELETE")
    else:
        table.commit(table.new_remove("b", 2, 5), operation="DELETE")
        path = table.add(1, 1)["path"]
    more = {"deletionVector": descriptor, "stats": stats} if vector else {}
    table.commit(table.new_add("b", 2, 6, path=path, size=7, **more))
    table.put(path, b"x" * 7, modified_ms=table.time_of(6))
    return table


@edge("path.not-unique-over-history")
def another_file_comes_back_with_a_vector() -> TableBuilder:
    return comes_back(vector_before=False, vector=True)


@edge("path.not-unique-over-history")
def another_file_comes_back_with_the_vector_it_went_with() -> TableBuilder:
    return comes_back(vector_before=True, vector=True)


@edge("data.orphan-young")
def file_named_as_the_escapes_of_another() -> TableBuilder:
    table = in_directory(TableBuilder(), "p=b/a%20b", p="b")
    table.put("p=b/a%20b/part-00005.parquet", b"x")
    return table


@edge("data.file-missing")
def missing_file_whose_path_has_two_readings() -> TableBuilder:
    table = in_directory(TableBuilder(), "p=b/a%2520b", p="b")
    table.drop("p=b/a%20b/part-00005.parquet")
    return table


@edge("data.orphan-young", "iceberg.metadata-at-risk")
def directory_of_metadata_that_is_not_iceberg() -> TableBuilder:
    table = TableBuilder()
    table.put("metadata/x.parquet", b"x")
    return table


@edge("data.orphan-young", "iceberg.metadata-at-risk")
def unknown_file_beside_iceberg() -> TableBuilder:
    table = TableBuilder()
    table.put("metadata/v1.metadata.json", b"{}")
    table.put("p=a/x.parquet", b"x")
    return table


# -- row tracking ----------------------------------------------------------------------------------------------------


@edge("rowtracking.overlap")
def two_files_share_their_last_row_id() -> TableBuilder:
    table = tracked_table()
    table.commit(table.new_remove("b", 2, 4, baseRowId=10, defaultRowCommitVersion=1), operation="DELETE")
    table.action(4, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
    table.add(3)["baseRowId"] = 29
    return table


@edge("feature.supported-not-used")
def row_tracking_is_supported_and_no_file_has_ids() -> TableBuilder:
    return TableBuilder(protocol=dict(TRACKING))


@edge("rowtracking.high-water-mark", "feature.supported-not-used")
def no_mark_for_the_very_first_row() -> TableBuilder:
    table = TableBuilder(protocol=dict(TRACKING))
    table.add(3).update(baseRowId=0, defaultRowCommitVersion=3, stats='{"numRecords":1}')
    return table


@edge("rowtracking.preserved-tag")
def commit_of_adds_that_does_not_tell() -> TableBuilder:
    table = tracked_table()
    del table.action(3, "commitInfo")["tags"]
    return table


@edge("rowtracking.base-row-id-changed")
def added_again_with_other_row_ids_and_no_version() -> TableBuilder:
    table = tracked_table()
    version = tagged(table, again(table, baseRowId=40), mark(49))
    del table.add(version)["defaultRowCommitVersion"]
    table.configure({"delta.rowTrackingSuspended": "true", "delta.enableRowTracking": "false"})
    return table


@edge("rowtracking.commit-version")
def added_again_with_another_version_and_no_row_ids() -> TableBuilder:
    table = tracked_table()
    version = tagged(table, again(table, defaultRowCommitVersion=4))
    del table.add(version)["baseRowId"]
    table.configure({"delta.enableRowTracking": "false"})
    return table


# -- column mapping --------------------------------------------------------------------------------------------------


@edge("mapping.max-id-too-small")
def greatest_id_there_is_above_the_counter() -> TableBuilder:
    return MappedTable(mapped("x", "long", 2**31 - 1), max_id=3)


@edge("mapping.physical-path-duplicate")
def two_fields_of_a_struct_with_one_physical_name() -> TableBuilder:
    return MappedTable(mapped("s", struct(mapped("a", "long", 5, "x"), mapped("b", "long", 6, "x")), 4), max_id=6)


@edge("mapping.max-id-decreased")
def counter_goes_down_to_the_highest_id() -> TableBuilder:
    return MappedTable(max_id=9).change(*mapped_fields(), maxColumnId="3")


@edge("history.restore-risk", "checkpoint.replay-unavailable")
def log_of_a_mapped_table_begins_with_a_checkpoint() -> TableBuilder:
    table = MappedTable()
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
        table.drop(f"_delta_log/{version:020d}.crc")
    return table


@edge()
def replaced_table_gives_ids_anew() -> TableBuilder:
    one, two, three = mapped_fields()
    table = MappedTable().change(mapped("name", "string", 1, "x"), mapped("id", "long", 2, "y"), three)
    removes = [table.new_remove(partition, number, 4) for partition, number in (("b", 2), ("a", 3), ("b", 4))]
    table.commits[4] += removes
    table.action(4, "commitInfo")["operation"] = "REPLACE TABLE"
    return table


@edge("mapping.name-missing")
def field_loses_its_physical_name() -> TableBuilder:
    one, two, three = mapped_fields()
    del two["metadata"]["delta.columnMapping.physicalName"]
    return MappedTable().change(one, two, three).change(*mapped_fields())


@edge("mapping.mode-invalid")
def mode_changes_to_none_of_the_three() -> TableBuilder:
    return MappedTable().change(*mapped_fields(), mode="names")


@edge("schema.bad-json")
def mapped_table_loses_its_schema() -> TableBuilder:
    table = MappedTable()
    table.commit(table.change_metadata(schemaString="[]"))
    return table


@edge()
def nested_ids_are_asked_for_by_a_property_alone() -> TableBuilder:
    return MappedTable(mapped("x", "long", 4), properties={"delta.enableIcebergCompatV2": "false"}, max_id=4)


# -- statistics ------------------------------------------------------------------------------------------------------


@edge("stats.cardinality-exceeds")
def vector_of_a_file_without_rows() -> TableBuilder:
    table = table_with_a_vector()
    table.set_stats(4, '{"numRecords":0,"tightBounds":false}')
    return table


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path / "t")

    assert rules == {finding.rule.id for finding in found.findings}, found.findings


@pytest.mark.parametrize(("behind", "is_told"), [(20, False), (21, True)])
def test_a_commit_is_far_behind_above_so_many_versions(
    behind: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "FAR_BEHIND", 20)
    table = TableBuilder()
    commit_often(table, 50)
    table.action(49, "commitInfo").update(readVersion=48 - behind, isBlindAppend=False)

    rules = {finding.rule.id for finding in inspect(table, tmp_path / "t").findings}

    assert is_told is ("history.concurrent-version-hole" in rules)


@pytest.mark.parametrize(("gone", "tail"), [([2], ""), ([2, 3], "; so do older ones, down to version 1")])
def test_versions_that_lack_files_are_told_from_the_newest_to_the_oldest(
    gone: list[int], tail: str, tmp_path: Path
) -> None:
    table = RecentTable()
    table.commits[3].append(table.new_remove("b", 2, 3))
    for version in gone:
        table.drop(table.action(version, "remove")["path"])

    found = {finding.rule.id: finding for finding in inspect(table, tmp_path / "t").findings}

    broken = found["history.time-travel-broken"]
    assert broken.message.endswith(f"among them{tail}")
    assert f"_delta_log/{max(gone) - 1:020d}.json" == broken.place.path


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, "no hint: the log has no checkpoint"), (0, "the newest checkpoint, 0")]
)
def test_a_hint_ahead_of_its_log_is_told_what_there_is(
    checkpoint: int | None, expected: str, tmp_path: Path
) -> None:
    table = TableBuilder()
    table.checkpoint_version = checkpoint
    table.put("_delta_log/_last_checkpoint", '{"version":9,"size":5}')

    found = inspect(table, tmp_path / "t").findings

    assert [expected] == [finding.expected for finding in found if finding.rule.id == "hint.ahead-of-log"]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ('{"version":2}', "the hint has no size"),
        ('{"version":2,"size":"5"}', "the size of the hint is no number that counts"),
    ],
)
def test_a_size_that_is_missing_and_one_that_is_odd_are_told_apart(hint: str, message: str, tmp_path: Path) -> None:
    table = TableBuilder()
    table.put("_delta_log/_last_checkpoint", hint)

    assert [message] == [finding.message for finding in inspect(table, tmp_path / "t").findings]


@pytest.mark.parametrize("version", [0, 4])
def test_a_missing_vector_is_told_with_the_version_of_its_add(version: int, tmp_path: Path) -> None:
    table = table_with_a_vector(has_file=False)
    if not version:
        table.derive(checkpoint=False, checksums=False)
        table.commits = {0: [action for number in (0, 4) for action in table.commits[number] if "remove" not in action]}
        table.commits[0].pop(3)

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "dv.file-missing"]

    assert [version] == [finding.place.version for finding in found]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("p=b/a b", ["p=b/a b holds a blank as such, which a URI must escape"]),
        ("a\x01", ["a\x01 holds the control character 1 as such, which a URI must escape"]),
        ("a\"", ['a" holds " as such, which a URI must escape']),
        ("a%80", ["the escapes of a%80 are not UTF-8"]),
        ("a%FF", ["the escapes of a%FF are not UTF-8"]),
        ("a%C3%A9", []),
        ("s3://bucket/", ["s3://bucket/ leads out of the table"]),
        ("/x", ["/x is absolute without a scheme: each engine looks in its own default store"]),
        ("a/", ["a/ has a slash at its end"]),
        ("a//b", ["a//b has two slashes in a row"]),
        ("_delta_log/x", ["the data file _delta_log/x lies in _delta_log"]),
        (
            f"{0:020d}.json",
            [f"the data file {0:020d}.json is named {0:020d}.json, like a file of the log"],
        ),
    ],
)
def test_what_is_wrong_with_a_path_is_said_in_words(path: str, expected: list[str]) -> None:
    found = [fault.message for fault in faults_of_path(path, "file:///lake/t")]

    assert expected == [message for message in found if "hidden directory" not in message]


def test_a_remove_does_not_repeat_what_its_add_said(tmp_path: Path) -> None:
    table = TableBuilder()
    version = table.commit(table.new_add("b", 5, 4, path="p=b/part 5.parquet"))
    table.commit(table.new_remove("b", 5, 5, path="p=b/part 5.parquet"), operation="DELETE")

    found = inspect(table, tmp_path / "t").findings

    assert [("path.not-encoded", version)] == [(finding.rule.id, finding.place.version) for finding in found]


@pytest.mark.parametrize(("files", "told"), [(1, "1 live file lies on s3://x"), (2, "2 live files lie on s3://x")])
def test_files_on_other_stores_are_counted(files: int, told: str, tmp_path: Path) -> None:
    table = TableBuilder()
    for number in range(files):
        table.commit(table.new_add("b", 7 + number, 4, path=f"s3://x/part-{number}.parquet"))

    found = [one.message for one in inspect(table, tmp_path / "t").findings if one.rule.id == "data.unreachable"]

    assert [f"{told}, which was not looked at"] == found


@pytest.mark.parametrize(
    ("stored", "reading"), [("p=b/a b.parquet", "decoded twice"), ("p=b/a%2520b.parquet", "as it stands")]
)
def test_a_file_under_another_reading_of_its_path_is_told_with_it(stored: str, reading: str, tmp_path: Path) -> None:
    table = TableBuilder().derive(files=False)
    for version in (1, 2, 3):
        for action in table.commits[version]:
            if "add" in action:
                table.put(action["add"]["path"], b"x" * action["add"]["size"], modified_ms=NOW_MS - 6 * 3_600_000)
    version = table.commit(table.new_add("b", 5, 4, path="p=b/a%2520b.parquet"))
    table.put(stored, b"x" * 1005, modified_ms=table.time_of(4))

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "path.double-encoded"]

    assert [(True, version)] == [(one.message.endswith(reading), one.place.version) for one in found]


@pytest.mark.parametrize(("files", "tail"), [(1, "the log"), (2, "the log in 2 files")])
def test_a_directory_of_another_value_is_told_once(files: int, tail: str, tmp_path: Path) -> None:
    table = TableBuilder()
    adds = [table.new_add("b", 5 + number, 4, partitionValues={"p": "c"}) for number in range(files)]
    table.commit(*adds)

    found = [one.message for one in inspect(table, tmp_path / "t").findings]

    assert [f"the directory names another value of partition column p than {tail}"] == found


@pytest.mark.parametrize(("files", "tail"), [(1, "an empty string"), (2, "an empty string in 2 files")])
def test_an_unusual_partition_value_is_told_once(files: int, tail: str, tmp_path: Path) -> None:
    table = TableBuilder()
    adds = [table.new_add("", 5, 4, path=f"part-{number}.parquet") for number in range(files)]
    table.commit(*adds)

    assert [f"partition column p is {tail}"] == [one.message for one in inspect(table, tmp_path / "t").findings]


def test_an_overwritten_file_is_told_with_the_time_of_its_commit(tmp_path: Path) -> None:
    table = TableBuilder()
    table.touch(table.add(3)["path"], table.time_of(3) + 300_001)

    found = inspect(table, tmp_path / "t").findings

    assert [f"<= {format_timestamp(table.time_of(3))}"] == [finding.expected for finding in found]


@pytest.mark.parametrize(("version", "kind"), [(3, "add"), (1, "add")])
def test_a_file_without_row_ids_is_told_with_the_commit_that_brought_it(
    version: int, kind: str, tmp_path: Path
) -> None:
    table = tracked_table().derive(checkpoint=False, checksums=False)
    del table.action(version, kind, 1 if version == 1 else 0)["baseRowId"]

    found = inspect(table, tmp_path / "t").findings

    assert [("rowtracking.base-row-id-missing", version)] == [(one.rule.id, one.place.version) for one in found]


def test_a_commit_that_does_not_tell_of_row_ids_is_told_at_its_provenance(tmp_path: Path) -> None:
    table = tracked_table()
    info = table.commits[3].pop(0)
    del info["commitInfo"]["tags"]
    table.commits[3].append(info)

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "rowtracking.preserved-tag"]

    assert [len(table.commits[3])] == [one.place.line for one in found]


@pytest.mark.parametrize(("applications", "is_told"), [(5, False), (6, True)])
def test_applications_are_many_above_a_number(
    applications: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MOST_APPLICATIONS", 5)
    table = TableBuilder()
    table.commit(*({"txn": {"appId": f"app-{number}", "version": 1}} for number in range(applications)))

    rules = {finding.rule.id for finding in inspect(table, tmp_path / "t").findings}

    assert is_told is ("txn.count-high" in rules)


@pytest.mark.parametrize(
    "make",
    [lambda: partitioned_by("p", "p"), created_time_missing, files_said_to_be_orc, format_with_an_option],
    ids=["partition columns", "created time", "provider", "options"],
)
def test_what_a_later_metadata_repeats_is_told_once(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    table = make()
    table.commit(table.change_metadata(name="renamed"), operation="SET TBLPROPERTIES")

    assert [0] == [finding.place.version for finding in inspect(table, tmp_path / "t").findings]


@pytest.mark.parametrize(("before", "after"), [(["p"], []), ([], ["p"])])
def test_another_partitioning_is_told_with_both(before: list[str], after: list[str], tmp_path: Path) -> None:
    table = TableBuilder(partition_columns=tuple(before))
    table.commit(table.change_metadata(partitionColumns=after), operation="REPLACE TABLE")

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "metadata.partitioning-changed"]

    assert [(2, ", ".join(after) or "none", ", ".join(before) or "none")] == [
        (one.place.line, one.seen, one.expected) for one in found
    ]
