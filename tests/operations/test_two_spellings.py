"""What would settle a doubt about the spellings of a path, and thereby change what some engine reads, is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import deltacli
from deltacli.api.table import Table
from deltacli.core.errors import Refused
from deltacli.delta.paths.engine_readings import RULES_OF_SPELLINGS
from deltacli.rules.framework.base import Finding, Severity
from deltacli.table.ambiguous_files import find_ambiguous_files
from deltacli.table.file_references import FileReferenceCollector, read_references_of_commits
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.reading import large_commits, open_built
from tests.support.two_spellings import (
    AGREED,
    DIFFERING,
    RULE,
    write_checkpoint_of_texts,
    write_two_spellings,
)

CHANGES: dict[str, Callable[[Table], object]] = {
    "checkpoint": lambda table: table.checkpoint(),
    "multi-part checkpoint": lambda table: table.checkpoint(layout="multi-part", parts=2),
    "checksum": lambda table: table.write_checksum(),
    "compaction": lambda table: table.compact_log(0, 1),
    "row ids": lambda table: table.set_properties({"delta.enableRowTracking": "true"}, upgrade_protocol=True),
}


def log_files(table: Table) -> set[str]:
    return {file.name for file in Path(table.uri.removeprefix("file://"), "_delta_log").iterdir()}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(("path", "commit"), DIFFERING.values(), ids=DIFFERING)
def test_what_engines_read_in_different_ways_is_not_settled(
    path: str, commit: Sequence[str], change: Callable[[Table], object], tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)
    before = log_files(table)

    with pytest.raises(Refused) as caught:
        change(table)

    assert RULE == caught.value.code
    assert before == log_files(table)


@pytest.mark.parametrize("change", ["checkpoint", "multi-part checkpoint", "checksum", "compaction"])
@pytest.mark.parametrize(("path", "commit"), AGREED.values(), ids=AGREED)
def test_what_all_engines_read_alike_is_written(path: str, commit: Sequence[str], change: str, tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)
    before = log_files(table)

    CHANGES[change](table)

    assert before < log_files(table)


@pytest.mark.parametrize(
    ("path", "commits"),
    [
        ("a b.parquet", [["-a b.parquet"]]),
        ("a.parquet", [["-./a.parquet"], ["-a.parquet"]]),
        ("a.parquet", [["+./a.parquet"], ["-./a.parquet", "-a.parquet"]]),
        ("a.parquet", [["-a.parquet"], ["+./a.parquet"]]),
    ],
)
def test_several_spellings_with_one_meaning_prevent_no_checkpoint(
    path: str, commits: Sequence[Sequence[str]], tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", path, *commits)

    assert not table.checkpoint().skipped


def test_force_accepts_the_reading_of_deltacli_with_a_note(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])

    written = table.checkpoint(force=True)

    assert any(RULE in note for note in written.plan.notes)
    assert 2 == table.snapshot().counts()[0].count
    # From now on all engines begin with that checkpoint.
    assert not table.write_checksum().differences


@pytest.mark.parametrize(
    "commits",
    [
        *([commit] for path, commit in DIFFERING.values() if path == "a.parquet"),
        [["-a.parquet"], ["+a.parquet", "+./a.parquet"]],
        [["-a.parquet"], ["+a.parquet", "-./a.parquet"]],
        [["-a.parquet"], ["+./a.parquet"], ["-a.parquet"]],
    ],
)
def test_the_hint_of_a_refusal_finds_what_it_is_about(commits: Sequence[Sequence[str]], tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", *commits)

    with pytest.raises(Refused) as caught:
        table.checkpoint()

    assert all(rule in str(caught.value.hint) for rule in RULES_OF_SPELLINGS)
    assert table.validate(level="log", select=RULES_OF_SPELLINGS).findings


def test_a_checksum_is_not_said_to_settle_anything(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])

    with pytest.raises(Refused) as caught:
        table.write_checksum()

    assert "settle" not in caught.value.message


@pytest.mark.parametrize("commit", [["-ABSOLUTE"], ["+ABSOLUTE"]])
def test_validate_knows_all_addresses_of_a_table(commit: Sequence[str], tmp_path: Path) -> None:
    write_two_spellings(tmp_path / "t", "a.parquet", commit)
    (tmp_path / "link").symlink_to(tmp_path / "t")

    through_link = deltacli.open_table(str(tmp_path / "link"))

    assert findings_of(through_link)


def test_validate_knows_the_address_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    write_two_spellings(tmp_path / "link", "a.parquet", ["-ABSOLUTE"])

    assert findings_of(deltacli.open_table(str(tmp_path / "link")))


def test_a_checkpoint_is_looked_at_with_the_commits_after_it(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", "a.parquet", ["-./b.parquet"])
    table.checkpoint(version=0)

    with pytest.raises(Refused) as caught:
        table.checkpoint()

    assert RULE == caught.value.code


@pytest.mark.parametrize(
    ("path", "commit", "is_noted"),
    [
        ("a.parquet", ["+./a.parquet"], True),
        ("d/a.parquet", ["+d/../d/a.parquet"], True),
        ("a.parquet", ["-./a.parquet"], False),
        ("a.parquet", ["+%61.parquet"], False),
    ],
)
def test_force_notes_paths_that_deltalake_cannot_open(
    path: str, commit: Sequence[str], is_noted: bool, tmp_path: Path
) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)

    written = table.checkpoint(force=True)

    assert is_noted == any("path.not-normalised" in note for note in written.plan.notes)


def test_a_checkpoint_that_is_there_is_left_alone(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])
    table.checkpoint(force=True)

    assert table.checkpoint().skipped


def test_a_copy_does_not_begin_with_such_a_version(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])

    with pytest.raises(Refused) as caught:
        table.copy(str(tmp_path / "copy"), newest=True)

    assert RULE == caught.value.code
    assert not (tmp_path / "copy").exists()


def test_a_clone_does_not_choose_a_reading_either(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["added with a dot"])

    with pytest.raises(Refused) as caught:
        table.clone(str(tmp_path / "clone"))

    assert RULE == caught.value.code
    assert not (tmp_path / "clone").exists()


def test_a_whole_copy_has_the_same_commits(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])

    table.copy(str(tmp_path / "copy"))

    copied = deltacli.open_table(str(tmp_path / "copy"))
    with pytest.raises(Refused) as caught:
        copied.checkpoint()
    assert RULE == caught.value.code


def test_a_damaged_checkpoint_is_not_replaced_by_one_reading(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])
    table.checkpoint(force=True)
    checkpoint = tmp_path / "t" / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    checkpoint.write_bytes(b"damaged")

    plan = table.repair(dry_run=True).plan

    assert any(RULE in left.reason and "--force" in left.reason for left in plan.unrepaired)
    assert not any("checkpoint" in step.place.path for step in plan.steps)


def test_commits_that_are_read_in_blocks_are_looked_at_as_well(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])

    with large_commits(block_bytes=64), pytest.raises(Refused) as caught:
        table.checkpoint()

    assert RULE == caught.value.code


@pytest.mark.parametrize("kind", CheckpointKind)
def test_the_checkpoint_before_may_have_any_form(kind: CheckpointKind) -> None:
    features = ["v2Checkpoint"]
    lines = [protocol(3, 7, reader_features=features, writer_features=features), metadata()]
    builder = TableBuilder().commit(*lines, add("a"), add("./b"), add("c")).checkpoint(kind=kind)
    builder.commit(remove("b"), remove("c"))

    files = find_ambiguous_files(open_built(builder).snapshot())

    assert ["b"] == [file.name for file in files]


def live_names(table: Table) -> set[str]:
    return {path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()}


@pytest.mark.parametrize("layout", ["classic", "multi-part"])
def test_force_does_not_replace_what_a_usable_checkpoint_has_settled(layout: str, tmp_path: Path) -> None:
    table = write_checkpoint_of_texts(tmp_path / "t")
    files = log_files(table)
    assert "a.parquet" in live_names(table)

    with pytest.raises(Refused) as caught:
        table.checkpoint(force=True, layout=layout, parts=2 if layout == "multi-part" else None)

    assert RULE == caught.value.code
    assert any("a.parquet" in value for value in caught.value.facts.values())
    assert files == log_files(table)
    assert "a.parquet" in live_names(table)


def test_force_replaces_a_checkpoint_that_has_the_same_live_files(tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", *DIFFERING["removed with a dot"])
    table.checkpoint(force=True)
    before = live_names(table)

    assert not table.checkpoint(force=True).skipped
    assert before == live_names(table)


def test_force_replaces_a_checkpoint_whose_rows_are_damaged(tmp_path: Path) -> None:
    table = write_checkpoint_of_texts(tmp_path / "t")
    path = tmp_path / "t" / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)

    table.checkpoint(force=True)

    assert {"b.parquet", "c.parquet"} == live_names(deltacli.open_table(str(tmp_path / "t")))


def findings_of(table: Table) -> list[Finding]:
    return [finding for finding in table.validate(level="log").findings if finding.rule.id == RULE]


@pytest.mark.parametrize(("path", "commit"), DIFFERING.values(), ids=DIFFERING)
def test_the_advised_checkpoint_ends_the_error(path: str, commit: Sequence[str], tmp_path: Path) -> None:
    table = write_two_spellings(tmp_path / "t", path, commit)
    before = [finding for finding in findings_of(table) if finding.severity is Severity.ERROR]
    assert all("TABLE" in finding.rule.fix.repair for finding in before)

    table.checkpoint(force=True)

    assert {Severity.WARNING} >= {finding.severity for finding in findings_of(table)}
    assert len(before) <= len(findings_of(table))


def test_no_checkpoint_is_advised_where_one_has_settled_the_doubt(tmp_path: Path) -> None:
    table = write_checkpoint_of_texts(tmp_path / "t")

    (finding,) = findings_of(table)

    assert Severity.WARNING is finding.severity
    assert "TABLE" not in finding.rule.fix.repair
    left = [one.reason for one in table.repair(dry_run=True).plan.unrepaired if one.rule == RULE]
    assert [finding.rule.fix.repair] == left


def test_a_file_that_stays_live_is_an_error_whatever_a_checkpoint_covers(tmp_path: Path) -> None:
    """All engines still read the file that a remove by its absolute path was meant for."""
    table = write_two_spellings(tmp_path / "t", *AGREED["removed by the absolute path"])

    table.checkpoint()

    assert [Severity.ERROR] == [finding.severity for finding in findings_of(table)]


def test_repair_advises_no_checkpoint_that_would_be_refused(tmp_path: Path) -> None:
    table = write_checkpoint_of_texts(tmp_path / "t")
    (tmp_path / "t" / "a.parquet").unlink()

    plan = table.repair(dry_run=True).plan

    reasons = [left.reason for left in plan.unrepaired if left.rule == "checkpoint.extra-add"]
    assert any(RULE in reason for reason in reasons)
    assert not any("force" in reason for reason in reasons)
    assert not any(".checkpoint." in step.place.path for step in plan.steps)


def test_the_paths_of_many_commits_are_not_held_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.table.file_references._ROWS_PER_BATCH", 4)
    builder = TableBuilder().commit(protocol(), metadata(), add("./file-1"))
    for number in range(10):
        builder.commit(add(f"file-{number}"))
    snapshot = open_built(builder).snapshot()

    batches = [
        len(rows.path)
        for rows in read_references_of_commits(snapshot.table, snapshot.segment.commits, FileReferenceCollector())
    ]

    assert (4, 11) == (max(batches), sum(batches))
    assert ["file-1"] == [file.name for file in find_ambiguous_files(snapshot)]
