"""The real tables of the corpus: every fact of its manifest, for every version, by API and by command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deltacli.api.table import Table
from deltacli.cli import app
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from tests.support import corpus
from tests.support.corpus import CorpusTable, Document, facts_of_history, facts_of_snapshot

NOW_MS = 1_767_225_600_000
LARGE = ("kernel-rs/300k-add-files-100-col-partitioned",)
"""Its listings are gigabytes."""

UNREADABLE: dict[tuple[str, int | None], str] = {
    # (table, version; None: the newest) -> error code. All of them exit with 3.
    ("delta-rs-err/table_c", None): "log.gap",
    ("delta-rs-err/table_d", None): "protocol.unknown-feature",
    ("delta-rs-err/table_d", 0): "protocol.unknown-feature",
    ("delta-rs-err/table_h", None): "protocol.unknown-feature",
    ("delta-rs-err/table_h", 9999): "protocol.unknown-feature",
    ("derived/commit-truncated-a", None): "commit.bad-json",
    ("derived/commit-truncated-a", 3): "commit.bad-json",
    ("derived/empty-directory-a", None): "log.not-a-table",
    ("derived/first-commit-missing-a", None): "log.start-missing",
    ("derived/unknown-reader-feature-a", None): "protocol.unknown-feature",
    ("derived/unknown-reader-feature-a", 2): "protocol.unknown-feature",
    ("golden/deltalog-invalid-protocol-version", None): "protocol.version-out-of-range",
    ("golden/deltalog-invalid-protocol-version", 0): "protocol.version-out-of-range",
    ("golden/deltalog-state-reconstruction-without-protocol", None): "protocol.missing",
    ("golden/deltalog-state-reconstruction-without-protocol", 0): "protocol.missing",
    ("kernel-rs/crc-malformed", None): "log.not-a-table",
}

PROBLEMS: dict[str, tuple[str, ...]] = {
    # Table -> what had to be worked around at its newest version. All other tables: nothing.
    "delta-rs/table-with-domain-metadata": ("log.checkpoint-commit-missing",),
    "derived/checkpoint-part-missing-a": ("checkpoint.multipart-incomplete", "hint.checkpoint-missing"),
    "derived/checkpoint-truncated-a": ("checkpoint.unreadable",),
    "derived/last-checkpoint-dangling-a": ("hint.ahead-of-log", "hint.checkpoint-missing"),
    "derived/last-checkpoint-garbage-a": ("hint.bad-json",),
    "derived/sidecar-missing-a": ("sidecar.missing",),
    "derived/two-adds-in-one-commit-a": ("action.duplicate-path",),
    "golden/canonicalized-paths-normal-a": ("action.missing-required",),
    "golden/canonicalized-paths-special-b": ("action.missing-required",),
    "golden/corrupted-last-checkpoint": ("action.missing-required",),
    "golden/corrupted-last-checkpoint-kernel": ("hint.bad-json",),
    "golden/deltalog-commit-info": ("action.missing-required",),
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": (
        "action.missing-required",
        "checkpoint.no-metadata",
    ),
    "golden/update-deleted-directory": ("action.missing-required",),
    "kernel-java/catalog-owned-preview": ("catalog.unpublished-possible",),
    "kernel-rs-uc/catalog_managed_0": ("catalog.unpublished-possible",),
}

REBUILT_FROM_COMMITS = {("golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata", 10)}
"""The checkpoint lacks its metaData; the manifest allows a reader to rebuild the version from the commits, as we do."""

GAPS: dict[str, tuple[tuple[int, int], ...]] = {
    "delta-rs-err/table_c": ((12, 12),),
    "delta-rs-err/table_g": ((14, 9998),),
    "delta-rs-err/table_h": ((14, 9998),),
    "derived/commit-hole-before-checkpoint-a": ((9, 9),),
}
"""Table -> holes between its commit files. All other tables: none."""

NO_LOG = dict.fromkeys(("derived/empty-directory-a", "kernel-rs/crc-malformed"), "log.not-a-table")
"""Table -> error code of its history."""

TABLES = corpus.tables()


def each_table(chosen_from: Iterable[CorpusTable] = TABLES, *, long: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Return one case per table. Some are left to the long suite."""
    chosen = [
        pytest.param(table, id=table.id, marks=[pytest.mark.long] if table.id in long else []) for table in chosen_from
    ]
    return pytest.mark.parametrize("table", chosen)


def open_corpus(table: CorpusTable, root: Path) -> Table:
    return Table(open_storage(str(table.path(root))), clock=fixed_clock(NOW_MS))


def expected_facts(table: CorpusTable, version: Document) -> Document:
    """The manifest's facts, or what takes their place where we know better than the manifest requires."""
    facts = table.facts(version)
    if (table.id, version["version"]) in REBUILT_FROM_COMMITS:
        facts["base_checkpoint"] = None
    return facts


def test_the_corpus_is_the_one_these_tests_were_written_for(root: Path) -> None:
    versions = [version for table in TABLES for version in table.versions]

    assert 194 == len(TABLES)
    assert 717 == len(versions)
    assert 3 == len([version for version in versions if "error" in version])
    assert 740 == sum(len(table.history) for table in TABLES)
    assert {"ok": 173, "either": 11, "error": 10} == {
        outcome: len([table for table in TABLES if table.entry["outcome"] == outcome])
        for outcome in ("ok", "either", "error")
    }


def test_the_tables_of_exceptions_name_tables_of_the_corpus(root: Path) -> None:
    ids = {table.id for table in TABLES}
    refused = {table for table, _ in UNREADABLE}
    must_be_refused = {table.id for table in TABLES if table.entry["outcome"] == "error"}

    assert set() == (refused | set(PROBLEMS) | set(GAPS) | set(NO_LOG)) - ids
    assert must_be_refused == {table for table, version in UNREADABLE if version is None}


@each_table()
def test_every_version_matches_the_manifest(table: CorpusTable, root: Path) -> None:
    opened = open_corpus(table, root)

    for version in table.versions:
        number = version["version"]
        if (code := UNREADABLE.get((table.id, number))) is not None:
            assert (3, code) == error_of(opened, number)
            continue
        expected = expected_facts(table, version)
        document = summarize(opened, version=number, digest=True).as_json()

        assert number == document["version"]
        assert expected == facts_of_snapshot(document, list(expected))


@each_table()
def test_the_newest_version_is_read_or_refused_as_the_manifest_allows(table: CorpusTable, root: Path) -> None:
    opened = open_corpus(table, root)

    if (code := UNREADABLE.get((table.id, None))) is not None:
        assert (3, code) == error_of(opened, None)
        return
    snapshot = opened.snapshot()

    assert table.entry["latest_listed_version"] == snapshot.version
    assert PROBLEMS.get(table.id, ()) == snapshot.problems


@each_table(long=LARGE)
def test_counting_and_listing_agree_with_the_manifest(table: CorpusTable, root: Path) -> None:
    opened = open_corpus(table, root)

    for version in table.versions:
        if (table.id, version["version"]) in UNREADABLE:
            continue
        snapshot = opened.snapshot(version=version["version"])
        files, tombstones = snapshot.counts()
        listed = sum(batch.num_rows for batch in snapshot.files())
        listed_tombstones = sum(batch.num_rows for batch in snapshot.tombstones())
        counted = {
            "live_files": files.count,
            "live_bytes": files.size_bytes,
            "files_with_dv": files.deletion_vectors,
            "dv_cardinality": files.deleted_rows,
            "num_records": files.records,
            "files_without_num_records": files.files_without_records,
            "rows": files.rows,
            "tombstones": tombstones.count,
        }
        facts = table.facts(version)

        assert {name: fact for name, fact in facts.items() if name in counted} == {
            name: count for name, count in counted.items() if name in facts
        }
        assert (version["live_files"], version["tombstones"]) == (listed, listed_tombstones)


def newest_readable(table: CorpusTable) -> int | None:
    """The newest version that must be readable."""
    number: int | None = table.entry.get(
        "latest_version" if (table.id, None) in UNREADABLE else "latest_listed_version"
    )
    return None if (table.id, number) in UNREADABLE else number


@each_table(table for table in TABLES if "latest_live_paths" in table.entry and newest_readable(table) is not None)
def test_the_newest_files_and_tombstones_are_those_of_the_manifest(table: CorpusTable, root: Path) -> None:
    snapshot = open_corpus(table, root).snapshot(version=newest_readable(table))
    live = sorted(unquote(path) for batch in snapshot.files() for path in batch.column("path").to_pylist())
    tombstones = sorted(
        [unquote(path), deleted_ms]
        for batch in snapshot.tombstones()
        for path, deleted_ms in zip(
            batch.column("path").to_pylist(), batch.column("deletionTimestamp").to_pylist(), strict=True
        )
    )

    assert table.entry["latest_live_paths"] == live
    assert table.entry["latest_tombstones"] == tombstones


@each_table()
def test_history_matches_the_manifest(table: CorpusTable, root: Path) -> None:
    opened = open_corpus(table, root)

    if table.id in NO_LOG:
        with pytest.raises(DeltacliError) as raised:
            opened.history(counts=True)
        assert (3, NO_LOG[table.id]) == (raised.value.exit_code, raised.value.code)
        return
    history = opened.history(counts=True)
    readable = [item.as_json() for item in history.items if item.problem is None]
    broken = {item.version: item.problem for item in history.items if item.problem is not None}

    assert table.history == facts_of_history(readable)
    assert GAPS.get(table.id, ()) == history.gaps
    assert ({3: "commit.bad-json"} if table.id == "derived/commit-truncated-a" else {}) == broken


@each_table()
def test_snapshot_on_the_command_line(
    table: CorpusTable, root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    answer = run(capsysbinary, "snapshot", str(table.path(root)), "--json", "--digest")

    if (code := UNREADABLE.get((table.id, None))) is not None:
        assert (3, "") == (answer.exit_code, answer.stdout)
        assert ("error", code, 3) == (answer.error["type"], answer.error["code"], answer.error["exit"])
        return
    document = answer.document
    newest = next(version for version in table.versions if version["version"] == document["version"])
    expected = expected_facts(table, newest)

    assert (0, "deltacli.snapshot", True) == (answer.exit_code, document["kind"], document["complete"])
    assert table.entry["latest_listed_version"] == document["version"]
    assert expected == facts_of_snapshot(document, list(expected))
    assert list(PROBLEMS.get(table.id, ())) == document["logSegment"]["problems"]


@each_table()
def test_history_on_the_command_line(
    table: CorpusTable, root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    answer = run(capsysbinary, "history", str(table.path(root)), "--json", "--counts")

    if table.id in NO_LOG:
        assert (3, "") == (answer.exit_code, answer.stdout)
        assert NO_LOG[table.id] == answer.error["code"]
        return
    document = answer.document
    readable = [item for item in document["items"] if "problem" not in item]

    assert (0, "deltacli.history", True) == (answer.exit_code, document["kind"], document["complete"])
    assert table.history == facts_of_history(readable)
    assert [list(gap) for gap in GAPS.get(table.id, ())] == document["gaps"]


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stderr)
        return found


def run(streams: pytest.CaptureFixture[bytes], *arguments: str) -> Answer:
    """Run the command line in this process."""
    code = app.run(list(arguments))
    out, err = streams.readouterr()
    return Answer(code, out.decode(), err.decode())


def error_of(table: Table, version: int | None) -> tuple[int, str]:
    """Exit code and error code of reading a version that must not be readable."""
    with pytest.raises(DeltacliError) as raised:
        summarize(table, version=version)
    return raised.value.exit_code, raised.value.code
