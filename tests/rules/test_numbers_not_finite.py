"""NaN and Infinity in commits: an error as long as readers of the newest version read the commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import CommitCorrupt
from deltacli.rules.framework.base import Severity
from tests.rules.table_builder import TableBuilder
from tests.rules.test_corruptions import inspect

CHECKPOINT = 2


def severities(root: Path) -> list[Severity]:
    found = inspect(root, "log").findings
    return [finding.severity for finding in found if finding.rule.id == "commit.number-not-finite"]


def table_with_nan_in(version: int) -> TableBuilder:
    table = TableBuilder()
    table.edit_lines(version, lambda data: data.replace(b'"commitInfo":{', b'"commitInfo":{"share":NaN,'))
    return table


def fixes(root: Path) -> list[str]:
    found = inspect(root, "log").findings
    return [finding.rule.fix.repair for finding in found if finding.rule.id == "commit.number-not-finite"]


def table_with_nan_in_schema() -> TableBuilder:
    table = TableBuilder()
    metadata = table.action(0, "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"]["share"] = float("inf")
    metadata["schemaString"] = json.dumps(schema)
    return table


def test_a_commit_above_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    assert [Severity.ERROR] == severities(table_with_nan_in(CHECKPOINT + 1).write(tmp_path / "t"))


def test_a_commit_that_a_checkpoint_covers_is_a_warning(tmp_path: Path) -> None:
    for version in (CHECKPOINT, CHECKPOINT - 1):
        assert [Severity.WARNING] == severities(table_with_nan_in(version).write(tmp_path / f"{version}"))


def test_the_advised_checkpoint_ends_the_error(tmp_path: Path) -> None:
    root = table_with_nan_in(CHECKPOINT + 1).write(tmp_path / "t")

    open_table(str(root)).checkpoint()

    assert [Severity.WARNING] == severities(root)


def test_a_covered_commit_has_no_advice_that_does_nothing(tmp_path: Path) -> None:
    root = table_with_nan_in(CHECKPOINT).write(tmp_path / "t")

    assert not any("TABLE" in fix for fix in fixes(root))
    assert open_table(str(root)).checkpoint(version=CHECKPOINT).skipped


@pytest.mark.parametrize("kind", ["commitInfo", "add"])
def test_a_checkpoint_is_advised_for_a_field_that_it_will_not_have(kind: str, tmp_path: Path) -> None:
    table = TableBuilder()
    table.action(CHECKPOINT + 1, kind)["share"] = {"of": [float("nan")]}
    root = table.write(tmp_path / "t")
    assert all("TABLE" in fix for fix in fixes(root))

    open_table(str(root)).checkpoint()

    assert [Severity.WARNING] == severities(root)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("add", "size", float("nan")),
        ("add", "dataChange", float("nan")),
        ("add", "tags", {"share": float("nan")}),
        ("add", "partitionValues", {"p": float("-inf")}),
        ("protocol", "minReaderVersion", float("nan")),
    ],
)
def test_no_checkpoint_is_advised_where_none_can_be_written(
    kind: str, field: str, value: object, tmp_path: Path
) -> None:
    table = TableBuilder()
    if kind == "protocol":
        table.commits[CHECKPOINT + 1].append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
    table.action(CHECKPOINT + 1, kind)[field] = value
    root = table.write(tmp_path / "t")

    assert fixes(root)
    assert not any("TABLE" in fix for fix in fixes(root))
    with pytest.raises(CommitCorrupt):
        open_table(str(root)).checkpoint()


def test_no_checkpoint_is_advised_for_a_schema(tmp_path: Path) -> None:
    assert not any("TABLE" in fix for fix in fixes(table_with_nan_in_schema().write(tmp_path / "t")))


def test_a_schema_remains_an_error_because_a_checkpoint_has_it_too(tmp_path: Path) -> None:
    assert [Severity.ERROR] == severities(table_with_nan_in_schema().write(tmp_path / "t"))
