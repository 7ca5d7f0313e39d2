"""Where a finding lies, what it says, and from which number on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.times import format_timestamp
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.rules.actions import single_actions
from deltacli.rules.log import history
from deltacli.rules.paths import faults_of_path
from deltacli.storage import LocalStorage, open_storage
from tests.rules.corruptions_deletion_vectors import table_with_a_vector
from tests.rules.corruptions_log_files import commit_often
from tests.rules.corruptions_metadata import (
    created_time_missing,
    files_said_to_be_orc,
    format_with_an_option,
    partitioned_by,
)
from tests.rules.corruptions_row_tracking import tracked_table
from tests.rules.corruptions_storage import RecentTable
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.support.validating import validate_table


def inspect(table: TableBuilder, root: Path) -> Validation:
    storage = open_storage(str(table.write(root)))
    return validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS)


def test_commits_are_far_behind_above_so_many_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By half of the history and more than ten versions, or by more than so many whatever the history."""
    monkeypatch.setattr(history, "FAR_BEHIND", 20)
    table = TableBuilder()
    commit_often(table, 50)
    read_by = {5: -1, 12: -2, 14: 3, 16: 4, 20: 20, 24: 11, 25: 11, 48: 26, 49: 28}
    for version, read in read_by.items():
        table.action(version, "commitInfo").update(readVersion=read, isBlindAppend=False)

    found = inspect(table, tmp_path / "t").findings

    assert [16, 25, 48] == [one.place.version for one in found if one.rule.id == "history.concurrent-version-hole"]


@pytest.mark.parametrize(("gone", "tail"), [([2], ""), ([2, 3], "; so do older ones, down to version 1")])
def test_versions_that_lack_files_are_reported_newest_first(gone: list[int], tail: str, tmp_path: Path) -> None:
    table = RecentTable()
    table.commits[3].append(table.new_remove("b", 2, 3))
    for version in gone:
        table.drop(table.action(version, "remove")["path"])

    found = {finding.rule.id: finding for finding in inspect(table, tmp_path / "t").findings}

    broken = found["history.time-travel-broken"]
    assert broken.message.endswith(f".parquet{tail}")
    assert f"_delta_log/{max(gone) - 1:020d}.json" == broken.place.path


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, "no hint: the log has no checkpoint"), (0, "the newest checkpoint, 0")]
)
def test_a_hint_ahead_of_its_log_is_reported_with_the_newest_checkpoint(
    checkpoint: int | None, expected: str, tmp_path: Path
) -> None:
    table = TableBuilder()
    table.checkpoint_version = checkpoint
    table.put("_delta_log/_last_checkpoint", '{"version":9,"size":5}')

    found = inspect(table, tmp_path / "t").findings

    assert [expected] == [finding.expected for finding in found if finding.rule.id == "hint.ahead-of-log"]


class WrittenBesideStorage(LocalStorage):
    """A table of which somebody writes a checkpoint after its log was listed."""

    def list_directories(self, directory: str) -> list[str]:
        if directory == "_delta_log":
            open_table(self.root).checkpoint()
        return super().list_directories(directory)


def test_a_hint_that_was_written_after_the_listing_is_not_ahead(tmp_path: Path) -> None:
    table = TableBuilder()
    table.checkpoint_version = 0

    found = validate_table(WrittenBesideStorage(str(table.write(tmp_path / "t"))), EmbeddedEngine(), now_ms=NOW_MS)

    assert [] == [finding.rule.id for finding in found.findings if finding.rule.id.startswith("hint.")]


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ('{"version":2}', "the hint has no size"),
        ('{"version":2,"size":"5"}', "the size of the hint is not a valid number"),
    ],
)
def test_a_missing_size_and_an_odd_one_are_distinguished(hint: str, message: str, tmp_path: Path) -> None:
    table = TableBuilder()
    table.put("_delta_log/_last_checkpoint", hint)

    assert [message] == [finding.message for finding in inspect(table, tmp_path / "t").findings]


@pytest.mark.parametrize("version", [0, 4])
def test_a_missing_vector_is_reported_with_the_version_of_its_add(version: int, tmp_path: Path) -> None:
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
        ("p=b/a b", ["p=b/a b has a space unescaped, which a URI must escape"]),
        ("a\x01", ["a has the control character 1 unescaped, which a URI must escape"]),
        ('a"', ['a" has " unescaped, which a URI must escape']),
        ("a%80", ["the escapes of a%80 are not UTF-8"]),
        ("a%FF", ["the escapes of a%FF are not UTF-8"]),
        ("a%C3%A9", []),
        ("s3://bucket/", ["s3://bucket/ points outside the table"]),
        ("/x", ["/x is absolute without a scheme, so each engine uses its own default store"]),
        ("a/", ["a/ has a trailing slash"]),
        ("a//b", ["a//b has two slashes in a row"]),
        ("_delta_log/x", ["the data file _delta_log/x is in _delta_log"]),
        (
            f"{0:020d}.json",
            [f"the data file {0:020d}.json is named {0:020d}.json, like a file of the log"],
        ),
    ],
)
def test_faults_of_a_path_are_described(path: str, expected: list[str]) -> None:
    found = [fault.message for fault in faults_of_path(path, "file:///lake/t")]

    assert expected == [message for message in found if "hidden directory" not in message]


def test_a_remove_does_not_repeat_the_findings_of_its_add(tmp_path: Path) -> None:
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

    assert [f"{told}, which was not checked"] == found


@pytest.mark.parametrize(
    ("stored", "reading"), [("p=b/a b.parquet", "decoded twice"), ("p=b/a%2520b.parquet", "as it stands")]
)
def test_a_file_at_another_reading_of_its_path_is_reported_with_it(stored: str, reading: str, tmp_path: Path) -> None:
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
def test_a_directory_of_another_value_is_reported_once(files: int, tail: str, tmp_path: Path) -> None:
    table = TableBuilder()
    adds = [table.new_add("b", 5 + number, 4, partitionValues={"p": "c"}) for number in range(files)]
    table.commit(*adds)

    found = [one.message for one in inspect(table, tmp_path / "t").findings]

    assert [f"the directory names a different value of partition column p than {tail}"] == found


@pytest.mark.parametrize(("files", "tail"), [(1, "an empty string"), (2, "an empty string in 2 files")])
def test_an_unusual_partition_value_is_reported_once(files: int, tail: str, tmp_path: Path) -> None:
    table = TableBuilder()
    adds = [table.new_add("", 5, 4, path=f"part-{number}.parquet") for number in range(files)]
    table.commit(*adds)

    assert [f"partition column p is {tail}"] == [one.message for one in inspect(table, tmp_path / "t").findings]


def test_an_overwritten_file_is_reported_with_the_time_of_its_commit(tmp_path: Path) -> None:
    table = TableBuilder()
    table.touch(table.add(3)["path"], table.time_of(3) + 300_001)

    found = inspect(table, tmp_path / "t").findings

    assert [f"<= {format_timestamp(table.time_of(3))}"] == [finding.expected for finding in found]


@pytest.mark.parametrize(("version", "kind"), [(3, "add"), (1, "add")])
def test_a_file_without_row_ids_is_reported_with_the_commit_that_added_it(
    version: int, kind: str, tmp_path: Path
) -> None:
    table = tracked_table().derive(checkpoint=False, checksums=False)
    del table.action(version, kind, 1 if version == 1 else 0)["baseRowId"]

    found = inspect(table, tmp_path / "t").findings

    assert [("rowtracking.base-row-id-missing", version)] == [(one.rule.id, one.place.version) for one in found]


def test_a_commit_silent_about_row_ids_is_reported_at_its_commit_info(tmp_path: Path) -> None:
    table = tracked_table()
    info = table.commits[2].pop(0)
    del info["commitInfo"]["tags"]
    table.commits[2].append(info)

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "rowtracking.preserved-tag"]

    assert [len(table.commits[2])] == [one.place.line for one in found]


@pytest.mark.parametrize(("applications", "is_told"), [(5, False), (6, True)])
def test_applications_are_many_above_a_number(
    applications: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_actions, "MOST_APPLICATIONS", 5)
    table = TableBuilder()
    table.commit(*({"txn": {"appId": f"app-{number}", "version": 1}} for number in range(applications)))

    rules = {finding.rule.id for finding in inspect(table, tmp_path / "t").findings}

    assert is_told is ("txn.count-high" in rules)


@pytest.mark.parametrize(
    "make",
    [lambda: partitioned_by("p", "p"), created_time_missing, files_said_to_be_orc, format_with_an_option],
    ids=["partition columns", "created time", "provider", "options"],
)
def test_a_fault_repeated_by_later_metadata_is_reported_once(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    table = make()
    table.commit(table.change_metadata(name="renamed"), operation="SET TBLPROPERTIES")

    assert [0] == [finding.place.version for finding in inspect(table, tmp_path / "t").findings]


@pytest.mark.parametrize(("before", "after"), [(["p"], []), ([], ["p"])])
def test_a_changed_partitioning_is_reported_with_both(before: list[str], after: list[str], tmp_path: Path) -> None:
    table = TableBuilder(partition_columns=tuple(before))
    table.commit(table.change_metadata(partitionColumns=after), operation="REPLACE TABLE")

    found = [one for one in inspect(table, tmp_path / "t").findings if one.rule.id == "metadata.partitioning-changed"]

    assert [(2, ", ".join(after) or "none", ", ".join(before) or "none")] == [
        (one.place.line, one.seen, one.expected) for one in found
    ]
