"""The walk of `validate` over logs with holes: nothing is taken for known that is not, and nothing ends it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PermissionRefused
from deltacli.core.machine import fixed_clock
from deltacli.operations.validate.validate import Validation
from deltacli.storage import open_storage
from tests.rules.table_builder import NOW_MS, Action, TableBuilder, column, struct

LOG = "_delta_log/"


def commit(version: int) -> str:
    return f"{LOG}{version:020d}.json"


def inspect(table: TableBuilder, root: Path, **choice: str) -> Validation:
    return table_at(table.write(root / "t")).validate(**choice)  # type: ignore[arg-type]


def table_at(root: Path) -> Table:
    return Table(open_storage(str(root)), clock=fixed_clock(NOW_MS))


def errors_of(found: Validation) -> set[str]:
    return {finding.rule.id for finding in found.findings if finding.severity.value == "error"}


def rules_of(found: Validation) -> set[str]:
    return {finding.rule.id for finding in found.findings}


def long_table(*, last: int = 14, checkpoint: int = 10) -> TableBuilder:
    """A table with column mapping that has a checkpoint at 10."""
    fields = [column("id", "long"), column("name", "string"), column("p", "string")]
    for number, field in enumerate(fields, 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    table = TableBuilder(schema=struct(*fields), protocol=protocol, properties=properties).derive(checksums=False)
    table.checkpoint_version = checkpoint
    while max(table.commits) < last:
        table.commit(table.new_add("b", 10 + max(table.commits), max(table.commits) + 1))
    for actions in table.commits.values():
        for action in actions:
            for kind in ("add", "remove"):
                if kind in action:
                    action[kind]["partitionValues"] = {"col-3": "b"}
                    action[kind].pop("stats", None)
    return table


def comment(table: TableBuilder, version: int) -> None:
    """Let a commit change the description of the table."""
    table.commits[version].append(table.change_metadata(description="trips"))


def test_leftover_commits_before_a_checkpoint_do_not_start_the_log(tmp_path: Path) -> None:
    table = long_table()
    comment(table, 7)
    for version in range(6):
        table.drop(commit(version))

    assert set() == errors_of(inspect(table, tmp_path))


@pytest.mark.parametrize("is_torn", [True, False])
def test_the_actions_of_a_lost_commit_are_not_compared_with_checkpoints(tmp_path: Path, is_torn: bool) -> None:
    table = long_table()
    comment(table, 4)
    table.commits[4].append({"txn": {"appId": "loader", "version": 9}})
    if is_torn:
        table.edit_lines(4, lambda data: data[:-20])
    else:
        table.drop(commit(4))

    found = inspect(table, tmp_path)

    assert ({"commit.bad-json"} if is_torn else set()) == errors_of(found)
    assert any("up to the next checkpoint" in sentence for sentence in found.not_checked)


def test_commits_after_a_torn_one_are_not_compared_with_the_state(tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    vector: Action = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
    }
    path = table.add(3)["path"]
    table.commit({"remove": {"path": path, "dataChange": True, "deletionVector": vector | {"cardinality": 6}}})
    table.edit_lines(3, lambda data: data[:-20])

    assert {"commit.bad-json"} == errors_of(inspect(table, tmp_path)) - {"dv.feature-missing"}


@pytest.mark.parametrize(
    "change",
    [
        lambda add: add.update(path="p=a/x\ud800.parquet"),
        lambda add: add.update(
            deletionVector={"storageType": "u", "pathOrInlineDv": "\ud800" + "x" * 20, "offset": 1, "sizeInBytes": 36}
            | {"cardinality": 1}
        ),
        lambda add: add.update(stats='{"numRecords":1,"minValues":{"name":"\ud800"}}'),
        lambda add: add.update(tags={"a": 1}),
    ],
    ids=["path", "vector", "statistics", "tags"],
)
@pytest.mark.parametrize("begins_with_checkpoint", [True, False])
def test_text_and_tags_that_no_column_takes_end_nothing(
    tmp_path: Path, change: object, begins_with_checkpoint: bool
) -> None:
    table = TableBuilder().derive(checksums=False, files=False)
    table.edit_rows(lambda rows: [row for row in rows if "add" not in row])
    change(table.add(3 if begins_with_checkpoint else 1))  # type: ignore[operator]
    if begins_with_checkpoint:
        table.drop(commit(0))
        table.drop(commit(1))

    found = inspect(table, tmp_path)

    assert "validate.check-crashed" not in rules_of(found)
    assert begins_with_checkpoint or "checkpoint.missing-add" in rules_of(found)


@pytest.mark.halved
def test_a_rule_is_heard_though_another_of_its_check_floods(tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False, files=False)
    twice = [table.new_add("b", number, 3) for number in range(10_000, 20_200)]
    table.commits[3] += [*twice, *twice, table.new_remove("b", 4, 3)]
    root = table.write(tmp_path / "t")

    found = table_at(root).validate(select=["action.add-remove-same-key"])

    assert {"action.add-remove-same-key"} == rules_of(found)
    assert "action.add-remove-same-key" in rules_of(table_at(root).validate())


@pytest.mark.parametrize(
    ("in_log", "in_checkpoint"),
    [
        ({"p": ""}, {"p": None}),
        ({"p": "a"}, {"p": "a"}),
    ],
)
def test_an_empty_partition_value_is_null(
    tmp_path: Path, in_log: dict[str, str], in_checkpoint: dict[str, str | None]
) -> None:
    table = TableBuilder()
    table.add(1, 1)["partitionValues"] = in_log

    def edit(rows: list[Action]) -> None:
        for row in rows:
            if "add" in row and row["add"]["path"] == table.add(1, 1)["path"]:
                row["add"] = row["add"] | {"partitionValues": in_checkpoint}

    table.edit_rows(edit)

    assert "checkpoint.add-differs" not in rules_of(inspect(table, tmp_path))


@pytest.mark.parametrize(
    ("in_log", "in_checkpoint", "differs"),
    [
        ('{"minValues":{"t":"2020-01-01"}}', '{"minValues":{"t":"2020-01-01T00:00:00.000"}}', False),
        ('{"maxValues":{"t":"2020-01-01T00:00:00.999Z"}}', '{"maxValues":{"t":"2020-01-01T00:00:01.000Z"}}', False),
        ('{"minValues":{"t":"2020-01-01"}}', '{"minValues":{"t":"2020-01-02 00:00:00"}}', True),
        ('{"minValues":{"t":"a"}}', '{"minValues":{"t":"b"}}', True),
        ('{"numRecords":1}', '{"numRecords":1.0}', False),
        ('{"numRecords":1}', '{"numRecords":2}', True),
        ('{"numRecords":1,"nullCount":{"a":0}}', '{"numRecords":1}', False),
    ],
)
def test_statistics_are_compared_by_value(tmp_path: Path, in_log: str, in_checkpoint: str, differs: bool) -> None:
    table = TableBuilder(schema=struct(column("id", "long"), column("t", "timestamp_ntz"), column("p", "string")))
    table.set_stats(2, in_log)

    def edit(rows: list[Action]) -> None:
        for row in rows:
            if "add" in row and row["add"]["path"] == table.add(2)["path"]:
                row["add"] = row["add"] | {"stats": in_checkpoint}

    table.edit_rows(edit)

    assert differs == ("checkpoint.add-differs" in rules_of(inspect(table, tmp_path)))


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        (b"{}", {"commit.line-not-object"}),
        (b'{"add":null}', {"commit.line-not-object"}),
        (b'{"add":null,"commitInfo":{}}', {"commitinfo.several"}),
    ],
)
def test_a_line_without_an_action_is_reported_as_such(tmp_path: Path, line: bytes, rules: set[str]) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.edit_lines(3, lambda data: data + line + b"\n")

    found = inspect(table, tmp_path)

    assert rules == {rule for rule in rules_of(found) if rule.startswith("commit") and rule != "commitinfo.missing"}


def test_a_million_keys_of_one_object_are_not_counted_by_each_other(tmp_path: Path) -> None:
    keys = ",".join(f'"k{number}":0' for number in range(200_000))
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.edit_lines(3, lambda data: data + b'{"unknown":{"k0":1,' + keys.encode() + b"}}\n")

    assert {"commit.duplicate-key", "commit.unknown-action"} <= rules_of(inspect(table, tmp_path))


@pytest.mark.parametrize("name", ["a%00b.parquet", "x" * 300, "nowhere.parquet"])
def test_a_sidecar_of_any_name_is_missing_at_worst(tmp_path: Path, name: str) -> None:
    features = ["v2Checkpoint"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    table = TableBuilder(protocol=protocol).derive(checksums=False)

    def edit(rows: list[Action]) -> list[Action]:
        sidecar = {"path": name, "sizeInBytes": 10, "modificationTime": 1}
        small = [row for row in rows if "add" not in row and "remove" not in row]
        return [*small, {"checkpointMetadata": {"version": 2}}, {"sidecar": sidecar}]

    table.edit_rows(edit)

    found = inspect(table, tmp_path)

    assert "sidecar.missing" in rules_of(found)
    assert "validate.check-crashed" not in rules_of(found)


def test_links_that_lead_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    table = TableBuilder()
    table.edit_files(lambda root: os.symlink(".", root / "loop"))

    assert set() == errors_of(inspect(table, tmp_path, level="storage"))


@pytest.mark.long
def test_directories_deeper_than_calls_may_be_are_listed(tmp_path: Path) -> None:
    table = TableBuilder()

    def nest(root: Path) -> None:
        place = os.open(root, os.O_RDONLY)
        for _ in range(1_100):
            os.mkdir("d", dir_fd=place)
            inner = os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.close(place)

    table.edit_files(nest)

    found = inspect(table, tmp_path, level="storage")
    subprocess.run(["rm", "-rf", str(tmp_path / "t")], check=True)  # Python's own removal goes as deep as calls may

    assert "validate.check-crashed" not in rules_of(found)


def test_a_file_that_may_not_be_read_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableBuilder()
    table.add(1)["size"] = -1
    storage = open_storage(str(table.write(tmp_path / "t")))
    read = storage.read

    def refuse(path: str) -> bytes:
        if path in (f"{LOG}{2:020d}.crc", commit(3)):
            raise PermissionRefused(f"{path}: permission denied")
        return read(path)

    monkeypatch.setattr(type(storage), "read", lambda _, path: refuse(path))

    found = Table(storage, clock=fixed_clock(NOW_MS)).validate(level="storage")

    unread = {finding.place.path for finding in found.findings if finding.rule.id == "validate.file-unreadable"}
    assert {f"{LOG}{2:020d}.crc", commit(3)} == unread
    assert "action.negative-size" in rules_of(found)


def test_unknown_fields_are_reported_once_per_file(tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    for number in range(20, 40):
        table.commits[3].append(table.new_add("b", number, 3, rowGroups=number))

    found = inspect(table, tmp_path)

    told = [finding for finding in found.findings if finding.rule.id == "commit.unknown-field"]
    assert 1 == len(told)
    assert "20 actions" in told[0].message
    assert 3 == told[0].place.line
