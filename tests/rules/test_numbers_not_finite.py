"""NaN and Infinity in commits: an error as long as readers of the newest version read the commit."""

from __future__ import annotations

import json
from pathlib import Path

from deltacli import open_table
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


def test_a_commit_above_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    assert [Severity.ERROR] == severities(table_with_nan_in(CHECKPOINT + 1).write(tmp_path / "t"))


def test_a_commit_that_a_checkpoint_covers_is_a_warning(tmp_path: Path) -> None:
    for version in (CHECKPOINT, CHECKPOINT - 1):
        assert [Severity.WARNING] == severities(table_with_nan_in(version).write(tmp_path / f"{version}"))


def test_the_advised_checkpoint_ends_the_error(tmp_path: Path) -> None:
    root = table_with_nan_in(CHECKPOINT + 1).write(tmp_path / "t")

    open_table(str(root)).checkpoint()

    assert [Severity.WARNING] == severities(root)


def test_a_schema_remains_an_error_because_a_checkpoint_has_it_too(tmp_path: Path) -> None:
    table = TableBuilder()
    metadata = table.action(0, "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"]["share"] = float("inf")
    metadata["schemaString"] = json.dumps(schema)

    assert [Severity.ERROR] == severities(table.write(tmp_path / "t"))
