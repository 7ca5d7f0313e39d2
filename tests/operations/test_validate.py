"""`Table.validate`: the API, its choice of rules and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import deltacli
from deltacli.api.table import Table
from deltacli.core.errors import NotATable
from deltacli.core.machine import fixed_clock
from deltacli.rules.framework.base import CATALOGUE, Area, Finding
from deltacli.rules.framework.views import CommitView
from deltacli.storage import open_storage
from tests.rules.table_builder import NOW_MS, TableBuilder


def table_at(root: Path) -> Table:
    return Table(open_storage(str(root)), clock=fixed_clock(NOW_MS))


def rules_of(found: deltacli.Validation) -> list[str]:
    return [finding.rule.id for finding in found.findings]


@pytest.fixture
def damaged(tmp_path: Path) -> Table:
    """A table whose last commit has a negative size and an empty partition map, and lacks a file."""
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.drop(table.add(3)["path"])
    table.add(3)["size"] = -1
    table.add(3)["partitionValues"] = {}
    return table_at(table.write(tmp_path / "t"))


def test_the_level_determines_what_is_checked(damaged: Table) -> None:
    assert ["action.negative-size", "partition.key-missing"] == sorted(rules_of(damaged.validate()))
    assert "data.file-missing" in rules_of(damaged.validate(level="storage"))
    assert 3 == damaged.validate().version


def test_rules_are_chosen_by_globs(damaged: Table) -> None:
    assert ["partition.key-missing"] == rules_of(damaged.validate(select=["partition.*", "stats.*"]))
    assert ["action.negative-size"] == rules_of(damaged.validate(ignore=["part*"]))
    assert [] == rules_of(damaged.validate(select=["action.*"], ignore=["*.negative-size"]))


def test_findings_of_one_rule_are_limited_and_counted(tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.commits[3] += [table.new_add("b", number, 3, size=-1) for number in range(10, 40)]
    root = table.write(tmp_path / "t")

    found = table_at(root).validate(select=["action.negative-size"], max_findings=5)

    assert 5 == len(found.findings)
    assert {"action.negative-size": 25} == dict(found.suppressed)
    assert 30 == len(table_at(root).validate(select=["action.negative-size"], max_findings=0).findings)


def test_a_check_that_fails_is_reported_and_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area = Area("broken")
    rule = next(iter(CATALOGUE.rules.values()))

    @area.check(CommitView, rule)
    def check_that_fails(_: CommitView) -> Iterator[Finding]:
        raise ZeroDivisionError("by zero")

    real = CATALOGUE.find_checks
    monkeypatch.setattr(
        CATALOGUE, "find_checks", lambda view: [*(c for c in area.checks if c.view is view), *real(view)]
    )
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.add(3)["size"] = -1

    found = table_at(table.write(tmp_path / "t")).validate()

    assert ["action.negative-size", "validate.check-crashed"] == sorted(rules_of(found))
    crash = next(finding for finding in found.findings if finding.rule.id == "validate.check-crashed")
    assert "check_that_fails" in crash.message
    assert rule.id in crash.message


def test_unknown_features_are_reported_as_not_checked(tmp_path: Path) -> None:
    features = ["fromTheFuture"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    root = TableBuilder(protocol=protocol).write(tmp_path / "t")

    found = table_at(root).validate()

    assert ["protocol.unknown-feature"] == rules_of(found)
    assert ["the requirements of the unknown feature fromTheFuture on the log and the files"] == list(found.not_checked)


def test_only_a_path_without_anything_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert ["log.not-a-table"] == rules_of(table_at(tmp_path / "empty").validate())
    with pytest.raises(NotATable):
        table_at(tmp_path / "nowhere").validate()
