"""`checkpoint` on every real table: what the manifest says of a version can be read from its checkpoint alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from deltacli.core.errors import DeltacliError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.checkpoint.checkpoint import StatsForm, write_checkpoint
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from deltacli.table.version import Snapshot
from tests.corpus.test_corpus import run
from tests.support import corpus
from tests.support.corpus import CorpusTable, Document, facts_of_snapshot
from tests.support.corpus_checkpoints import (
    CLASSIC,
    LOG,
    MULTI_PART,
    Form,
    copy_log,
    digest_of,
    files_of,
    forms_of,
    leave_alone,
    open_copy,
    plan,
    tombstones_of,
    write,
)
from tests.support.validating import validate_table

NOW_MS = 1_767_400_000_000
"""2026-01-03: two days after the time that every file of the archive has."""

REFUSED: dict[tuple[str, int], str] = {
    # (table, version) -> why a version that can be read gets no checkpoint.
    ("delta-rs/table-with-domain-metadata", 108): "log.checkpoint-commit-missing",
    ("derived/only-checkpoint-a", 10): "log.checkpoint-commit-missing",
    ("derived/crc-wrong-a", 1): "crc.num-files",
    ("derived/two-adds-in-one-commit-a", 1): "action.duplicate-path",  # with two sizes, of which engines use either
    # A file is added as a path, and removed as the URI of that: its purpose. Engines that compare texts read it.
    ("golden/canonicalized-paths-normal-a", 1): "path.same-file-two-spellings",
    ("golden/canonicalized-paths-special-b", 1): "path.same-file-two-spellings",
    ("kernel-rs-golden/canonicalized-paths-normal-a", 1): "path.same-file-two-spellings",
    ("kernel-rs-golden/canonicalized-paths-special-b", 1): "path.same-file-two-spellings",
}

TWO_STATES = {("dat/no_stats", 2), ("derived/checkpoint-wrong-a", 2), ("spark/delta-0.1.0", 3)}
"""Versions whose checkpoint, which is a classic one, tells another state than their commits, or less: it is not written
again here.
"""

STATS: dict[str, StatsForm] = {
    # Its properties put statistics in no column, so the manifest's numbers would be lost.
    "dat/no_stats": StatsForm.JSON,
}

EXPLAINED: dict[str, str] = {
    # Rules that may report what they did not report before -> why that is right.
    "property.stats-struct-unset": "the table has a checkpoint now, to which the unset property applies",
    "checkpoint.replay-unavailable": "the commits below had been cleaned up: nothing can be compared with them",
    "sidecar.orphan": "the classic checkpoint that named the sidecar was replaced",
    "checkpoint.several-forms": "the version has a checkpoint of another form already",
}
ONLY_IN: dict[str, set[tuple[str, str]]] = {
    # Rules of the above that may only do so here, as (table, form).
    "checkpoint.replay-unavailable": {("delta-rs/checkpoint_with_partitions", "multi-part")},
    "sidecar.orphan": {("kernel-rs/v2-classic-checkpoint-json", "classic")},
}

LARGE = {"kernel-rs/300k-add-files-100-col-partitioned"}
"""Compared by counts and digests, not row by row."""

TABLES = corpus.tables()
WRITABLE = [table for table in TABLES if table.entry["outcome"] != "error" and table.entry.get("writable", True)]
UNWRITABLE = [table for table in TABLES if table not in WRITABLE]


def known_versions(table: CorpusTable) -> list[Document]:
    """The versions whose state the manifest knows."""
    return [version for version in table.versions if "error" not in version]


def some_versions(table: CorpusTable) -> list[Document]:
    """The newest version, the oldest one and one between them, as far as there are so many."""
    known = known_versions(table)
    chosen = {len(known) - 1} if table.id in LARGE else {0, len(known) // 2, len(known) - 1}
    return [known[index] for index in sorted(chosen, reverse=True)]


def cases(*, whole: bool, refused: bool = True) -> pytest.MarkDecorator:
    """Each table but large ones with the forms its newest version allows; unless `whole`, one in four in parts."""
    found = [
        (table, form)
        for index, table in enumerate(WRITABLE)
        for form in allowed(table, known_versions(table)[-1])
        if table.id not in LARGE
        and (refused or not is_refused(table))
        and (whole or form is not MULTI_PART or index % 4 == 0)
    ]
    named = [pytest.param(table, form, id=f"{table.id}-{form.name}") for table, form in found]
    return pytest.mark.parametrize("table, form", named)


def is_refused(table: CorpusTable) -> bool:
    """True where the newest version gets no checkpoint."""
    return (table.id, known_versions(table)[-1]["version"]) in REFUSED


def allowed(table: CorpusTable, version: Document) -> list[Form]:
    """The forms to write a version in."""
    has_two = (table.id, version["version"]) in TWO_STATES
    return [form for form in forms_of(table, version) if not (has_two and form is CLASSIC)]


def each(tables: list[CorpusTable]) -> pytest.MarkDecorator:
    """One case a table."""
    chosen = [pytest.param(table, id=table.id) for table in tables]
    return pytest.mark.parametrize("table", chosen)


@cases(whole=False)
def test_the_newest_version_can_be_read_from_its_checkpoint_alone(
    table: CorpusTable, form: Form, root: Path, tmp_path: Path
) -> None:
    prove_alone(table, known_versions(table)[-1], form, root, tmp_path)


@pytest.mark.matrix
@each(WRITABLE)
def test_new_and_old_versions_can_be_read_from_their_checkpoints_alone(
    table: CorpusTable, root: Path, tmp_path: Path
) -> None:
    for version in some_versions(table):
        for form in allowed(table, version):
            prove_alone(table, version, form, root, tmp_path / f"{version['version']}-{form.name}")


def prove_alone(table: CorpusTable, version: Document, form: Form, root: Path, place: Path) -> None:
    """Write a checkpoint, delete everything else, and compare what is left with the manifest and with what was."""
    number = version["version"]
    copy_log(table, root, place)
    if (table.id, number) in REFUSED:
        with pytest.raises(DeltacliError) as raised:
            write(place, number, form)
        assert (4, REFUSED[table.id, number]) == (raised.value.exit_code, raised.value.code)
        return
    planned = plan(place, number, form, stats=STATS.get(table.id, StatsForm.KEEP))
    rows = None if table.id in LARGE else (files_of(planned.snapshot), tombstones_of(planned.snapshot))
    result = write_checkpoint(planned)
    leave_alone(place, result)

    alone = open_copy(place)
    expected = {**table.facts(version), "base_checkpoint": number}
    document = summarize(alone, version=number, digest=True).as_json()
    snapshot = alone.snapshot()
    assert expected == facts_of_snapshot(document, list(expected))
    assert form.layout.value == document["logSegment"]["checkpoint"]["layout"]
    assert problems_of(expected) == document["logSegment"]["problems"]
    assert number == snapshot.version
    assert 0 == result.expired_tombstones_dropped
    assert (version["live_files"], version["tombstones"]) == (
        result.actions.get("add", 0),
        result.actions.get("remove", 0),
    )
    if rows is not None:
        prove_rows(rows, snapshot, has_stats=result.plan.columns.has_stats)


def prove_rows(rows: tuple[list[Document], list[Document]], snapshot: Snapshot, *, has_stats: bool) -> None:
    """Every field of every file and tombstone is what it was; statistics where they are kept as text."""
    files, tombstones = rows
    assert tombstones == tombstones_of(snapshot)
    if has_stats:
        assert files == files_of(snapshot)
    else:
        assert without_stats(files) == without_stats(files_of(snapshot))


def problems_of(facts: Document) -> list[str]:
    """Return what is still worked around when only a checkpoint is left."""
    features = facts["protocol"]["writerFeatures"] or ()
    is_catalog_managed = any(name.startswith("catalog") for name in features)
    has_no_schema = facts["metadata"]["schema"] is None
    return ["action.missing-required"] * has_no_schema + ["catalog.unpublished-possible"] * is_catalog_managed


def without_stats(files: list[Document]) -> list[Document]:
    """Files as compared where statistics are kept as columns, which test_checkpoint_statistics looks at."""
    return [{name: value for name, value in row.items() if name != "stats"} for row in files]


def goes_on(table: CorpusTable) -> bool:
    """True where an older version that can get a checkpoint leads to the newest, commit by commit."""
    known = [version["version"] for version in known_versions(table)]
    return len(known) > 1 and not table.entry["log"]["commit_gaps"] and (table.id, known[0]) not in REFUSED


@pytest.mark.matrix
@each([table for table in WRITABLE if goes_on(table)])
def test_newer_commits_go_on_from_the_checkpoint_of_an_old_version(
    table: CorpusTable, root: Path, tmp_path: Path
) -> None:
    oldest, newest = known_versions(table)[0], known_versions(table)[-1]
    copy_log(table, root, tmp_path)
    result = write(tmp_path, oldest["version"], CLASSIC, stats=STATS.get(table.id, StatsForm.KEEP))
    leave_alone(tmp_path, result, newer_commits=True)

    expected = {**table.facts(newest), "base_checkpoint": oldest["version"]}
    if newest["base_checkpoint"] is not None:  # which another engine wrote, and dropped tombstones by its own clock
        expected = {name: fact for name, fact in expected.items() if not name.startswith("tombstone")}
    document = summarize(open_copy(tmp_path), version=newest["version"], digest=True).as_json()
    assert expected == facts_of_snapshot(document, list(expected))


@each(
    [
        table
        for table in WRITABLE
        if table.entry.get("latest_tombstones") and table.id not in LARGE and not is_refused(table)
    ]
)
def test_a_later_clock_drops_the_expired_tombstones_and_no_others(
    table: CorpusTable, root: Path, tmp_path: Path
) -> None:
    version = known_versions(table)[-1]
    tombstones = [(path, deleted_ms or 0) for path, deleted_ms in table.entry["latest_tombstones"]]
    times = sorted(deleted_ms for _, deleted_ms in tombstones)
    cutoff = times[len(times) // 2]
    copy_log(table, root, tmp_path)

    result = write(tmp_path, version["version"], CLASSIC, now_ms=cutoff + retention_ms(table, version))
    leave_alone(tmp_path, result)

    snapshot = open_copy(tmp_path).snapshot()
    left = sorted((row["path"], row["deletionTimestamp"]) for row in tombstones_of(snapshot))
    kept = [deleted_ms for _, deleted_ms in tombstones if deleted_ms > cutoff]
    assert sorted(kept) == sorted(deleted_ms for _, deleted_ms in left)
    assert len(tombstones) - len(kept) == result.expired_tombstones_dropped > 0
    assert version["live_files"] == snapshot.counts()[0].count


def retention_ms(table: CorpusTable, version: Document) -> int:
    """How long tombstones are kept, by the manifest."""
    properties = table.facts(version)["metadata"]["configuration"]
    text = properties.get("delta.deletedFileRetentionDuration", "interval 7 days")
    found = re.fullmatch(r"interval (\d+) (week|day|hour|second|millisecond)s?", text)
    assert found, text
    units = {"week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "second": 1000, "millisecond": 1}
    return int(found[1]) * units[found[2]]


@each(UNWRITABLE)
def test_tables_that_must_not_be_written_are_refused_and_stay_as_they_are(
    table: CorpusTable, root: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    place = tmp_path / "table"
    place.mkdir()
    if (table.path(root) / LOG).is_dir():
        copy_log(table, root, place)
    before = digest_of(place)

    answer = run(capsysbinary, "checkpoint", str(place), "--json", "--force")

    assert answer.exit_code in (3, 4)
    assert ("", "error", answer.exit_code) == (answer.stdout, answer.error["type"], answer.error["exit"])
    assert answer.error["message"]
    assert before == digest_of(place)


@each([table for table in WRITABLE if table.id not in LARGE and not is_refused(table)][::6])
def test_validate_has_nothing_against_a_classic_checkpoint(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    prove_sound(table, CLASSIC, root, tmp_path)


@pytest.mark.matrix
@cases(whole=True, refused=False)
def test_validate_has_nothing_against_any_checkpoint(
    table: CorpusTable, form: Form, root: Path, tmp_path: Path
) -> None:
    prove_sound(table, form, root, tmp_path)


def prove_sound(table: CorpusTable, form: Form, root: Path, place: Path) -> None:
    """Compare what validate finds before a checkpoint of the newest version with what it finds after it."""
    number = known_versions(table)[-1]["version"]
    copy_log(table, root, place)
    before = findings(place)
    write(place, number, form, now_ms=NOW_MS)

    appeared = sorted((findings(place) - before).elements(), key=str)
    unexplained = [
        found
        for found in appeared
        if found[0] not in EXPLAINED or (table.id, form.name) not in ONLY_IN.get(found[0], {(table.id, form.name)})
    ]
    assert [] == unexplained


CLEANED: dict[str, str] = {
    # Rules that may report only when the older commits and checkpoints are gone -> why that is right.
    "action.bad-modification-time": "the clock here is older than some files, which only a commit's own time excuses",
    "checkpoint.replay-unavailable": "nothing is left to compare the checkpoint with",
    "checkpoint.v2-compat-missing": "only a checkpoint that old clients do not know is left",
    "hint.missing": "the version is older than the newest, whose hint was deleted",
    "log.mtime-vs-commitinfo": "the one commit left has the archive's time, before its own",
    "property.stats-struct-unset": EXPLAINED["property.stats-struct-unset"],
}


@pytest.mark.matrix
@cases(whole=True, refused=False)
def test_of_a_cleaned_log_only_that_is_reported_which_cleaning_brings(
    table: CorpusTable, form: Form, root: Path, tmp_path: Path
) -> None:
    copy_log(table, root, tmp_path)
    before = {rule for rule, *_ in findings(tmp_path)}

    leave_alone(tmp_path, write(tmp_path, known_versions(table)[-1]["version"], form, now_ms=NOW_MS))

    assert set() == {rule for rule, *_ in findings(tmp_path)} - before - CLEANED.keys()


def findings(place: Path) -> Counter[tuple[str, str, int | None, str | None]]:
    """What validate finds: rule ids and places."""
    found = validate_table(
        open_storage(str(place)), EmbeddedEngine(), level="log", max_findings=0, now_ms=NOW_MS
    ).findings
    return Counter((one.rule.id, one.place.path, one.place.line, one.place.key) for one in found)
