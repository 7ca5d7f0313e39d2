"""A staged file that is gone while its published copy is there: nothing is lost, and a publication mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltacli.core.errors import CatalogAnswerInvalid, LogIncomplete, Refused
from deltacli.table.rebuild import read_snapshot
from tests.support.actions import to_bytes
from tests.support.builder import commit_path
from tests.support.managed_tables import ManagedTable, managed_lines, stamp_of

STAGED = "_delta_log/_staged_commits"
NOW_MS = stamp_of(10)


def lacking(published: Callable[[bytes], bytes | None] = lambda data: data) -> ManagedTable:
    """A table with versions 1 to 3 in the catalog: 1 and 2 are published too, and the staged file of 2 is gone."""
    table = ManagedTable([0, 1], [1, 2, 3])
    list(table.memory.delete_many([f"{STAGED}/{table.now.rows[1].file_name}"]))
    data = published(table.commits[2])
    if data is not None:
        table.memory.write(commit_path(2), data)
    return table


def catalog_findings(table: ManagedTable) -> dict[str, list[tuple[int | None, str]]]:
    found: dict[str, list[tuple[int | None, str]]] = {}
    for finding in table.open(now_ms=NOW_MS)[0].validate(level="log").findings:
        if finding.rule.id.startswith("catalog."):
            found.setdefault(finding.rule.id, []).append((finding.place.version, finding.severity.value))
    return found


def test_publication_reports_it_and_goes_on() -> None:
    table = lacking()
    opened, catalog = table.open()

    plan = opened.plan_publish_catalog()
    done = opened.publish_catalog()

    assert [(one.version, one.is_there) for one in plan.items] == [(1, True), (2, True), (3, False)]
    assert (done.published, done.reported, catalog.reported) == ((1, 2, 3), 3, [3])
    assert table.now.unpublished == []
    assert [table.store.read(commit_path(version)) for version in (2, 3)] == [table.commits[2], table.commits[3]]
    assert len([note for note in table.notes if "version 2 is gone" in note]) == 1


def test_it_is_a_warning_of_validate_and_a_note_of_status() -> None:
    table = lacking()
    assert {"catalog.staged-missing": [(2, "warning")]} == catalog_findings(table)

    status = table.open()[0].status_catalog()
    assert [one.kind.value for one in status.divergence if one.kind.value in ("version", "missing-staged")] == []
    assert "published as ratified, but no longer staged: 2" in status.notes

    table.open()[0].publish_catalog()
    assert {} == catalog_findings(table)


def test_a_change_names_the_command_that_mends_it_and_works_after_it() -> None:
    table = lacking()
    with pytest.raises(Refused) as raised:
        table.open()[0].set_properties({"owner": "me"})
    assert str(raised.value.hint).startswith("deltacli catalog publish")

    table.open()[0].publish_catalog()

    assert table.open()[0].set_properties({"owner": "me"}).committed_version == 4


def other_time(_: bytes) -> bytes:
    return to_bytes(managed_lines(2, stamp_ms=stamp_of(2) + 1))


OTHERS: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "another time, the same size": other_time,
    "without the end of its last line": lambda data: data.removesuffix(b"\n"),
    "one byte more": lambda data: data[:-1] + b" \n",
    "cut off": lambda data: data[: len(data) // 2],
    "no JSON, the same size": lambda data: b"x" * len(data),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_published_file_that_is_not_as_ratified_does_not_stand_for_it(case: str) -> None:
    table = lacking(OTHERS[case])
    opened, catalog = table.open()

    with pytest.raises(Refused) as raised:
        opened.publish_catalog()

    assert (raised.value.code, raised.value.facts["version"]) == ("catalog.diverged", "2")
    assert catalog.reported == []
    status = table.open()[0].status_catalog()
    assert ("missing-staged", "2") in [(one.kind.value, one.name) for one in status.divergence]
    assert "catalog.staged-missing" not in str(status.notes)


def test_a_checkpoint_is_written_where_the_published_file_stands_for_the_staged_one() -> None:
    table = lacking()
    opened, catalog = table.open()

    assert opened.checkpoint().version == 3
    assert (table.published_versions(), catalog.reported) == ([0, 1, 2, 3], [3])
    assert read_snapshot(table.open()[0]).version == 3


# -- commits that are lost ---------------------------------------------------------------------------------------------


def without_commit(version: int, table: ManagedTable) -> ManagedTable:
    """The table without the staged file of a version, and without a published one."""
    row = next(row for row in table.now.rows if row.version == version)
    list(table.memory.delete_many([f"{STAGED}/{row.file_name}"]))
    return table


def reported_and_not_published() -> ManagedTable:
    """The catalog was told that 4 is published, and there is no file of it."""
    table = ManagedTable([0, 1, 2, 3, 4])
    list(table.memory.delete_many([commit_path(4)]))
    return table


LOST: dict[str, tuple[int, Callable[[], ManagedTable]]] = {
    "the newest": (4, lambda: without_commit(4, ManagedTable([0, 1], [2, 3, 4]))),
    "one in between": (3, lambda: without_commit(3, ManagedTable([0, 1], [2, 3, 4]))),
    "the newest, which was reported": (4, reported_and_not_published),
}


@pytest.mark.parametrize("level", ["log", "storage", "data"])
@pytest.mark.parametrize("case", LOST)
def test_a_lost_commit_is_a_finding_and_the_rest_is_checked(case: str, level: str) -> None:
    version, make = LOST[case]
    table = make()
    table.memory.write("_delta_log/odd-name", b"")

    found = table.open(now_ms=NOW_MS)[0].validate(level=level)

    by_rule = {finding.rule.id: finding for finding in found.findings}
    gap = by_rule["log.gap"]
    assert (gap.place.version, gap.severity.value, found.version) == (version, "error", 4)
    assert "catalog.diverged" not in by_rule
    assert "log.name-unknown" in by_rule
    assert not found.is_readable
    assert any("the consequences of" in sentence for sentence in found.not_checked)


@pytest.mark.parametrize("case", LOST)
def test_other_commands_still_refuse_a_lost_commit_after_a_validation(case: str) -> None:
    _, make = LOST[case]
    opened, _ = make().open(now_ms=NOW_MS)
    opened.validate()

    with pytest.raises(LogIncomplete):
        opened.snapshot()


def test_a_staged_file_of_another_size_is_a_finding() -> None:
    table = ManagedTable([0, 1], [2, 3])
    table.now.rows[-1].commit["file-size"] += 7

    findings = catalog_findings(table)

    assert findings == {"catalog.diverged": [(3, "error")]}


def test_an_answer_that_contradicts_itself_is_not_a_finding() -> None:
    table = without_commit(3, ManagedTable([0, 1], [2, 3, 4]))
    opened, _ = table.open()
    # The catalog is asked again when the staged file turns out to be gone.
    table.now.rows[-1].commit["version"] = 9

    with pytest.raises(CatalogAnswerInvalid):
        opened.validate()
