"""`vacuum --explain` on the command line; what is known of a file is made by hand."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from deltacli.cli.app import run
from deltacli.operations.vacuum.explain import ExplainedCommit, FileExplanation
from deltacli.operations.vacuum.plan import VacuumRequest
from tests.cli.support import deltacli, make_sample
from tests.cli.vacuum_plans import DAY_MS, NOW_MS
from tests.docs.test_schemas import faults, line_faults


def test_one_file_is_explained_with_the_commits_that_name_it(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = FileExplanation(
        "day=1/a b.parquet",
        "kept",
        "Version 3 removed it within the retention.",
        (("size", "1.0 KiB"), ("written", "2026-01-01 09:00:00 UTC")),
        (
            ExplainedCommit(1, NOW_MS, "add", "WRITE", "12 rows"),
            ExplainedCommit(3, None, "remove", None, ""),
        ),
    )
    asked: list[tuple[VacuumRequest, str]] = []

    def explain(_table: object, request: VacuumRequest, path: str) -> FileExplanation:
        asked.append((request, path))
        return found

    monkeypatch.setattr("deltacli.operations.vacuum.explain.explain_file", explain)

    def run_here(*arguments: str) -> str:
        assert 0 == run(["vacuum", str(sample), *arguments])
        return capfd.readouterr().out

    screen = run_here("--explain", "day=1/a b.parquet", "--retention", "1d")
    document = json.loads(run_here("--explain", "x", "--json"))
    whole, end = map(json.loads, run_here("--explain", "x", "--format", "ndjson").splitlines())

    assert (VacuumRequest(retention_ms=DAY_MS), "day=1/a b.parquet") == asked[0]
    assert [
        "file     day=1/a b.parquet",
        "verdict  keep",
        "why      Version 3 removed it within the retention.",
        "size     1.0 KiB",
        "written  2026-01-01 09:00:00 UTC",
        "commits  1, 2026-02-02 02:40:00 UTC, add, WRITE, 12 rows",
        "         3, at an unknown time, remove",
    ] == screen.splitlines()[1:]
    assert [] == faults(document, "deltacli.vacuum-explain") + line_faults(whole)
    assert ("vacuum-explain", 1) == (whole["type"], end["count"])


def test_a_deletable_real_file_is_explained_by_the_commits_that_added_and_removed_it(
    sample: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert 0 == run(["vacuum", str(sample), "--dry-run", "--files", "--json"])
    item = json.loads(capfd.readouterr().out)["items"][0]

    assert 0 == run(["vacuum", str(sample), "--explain", item["path"], "--json"])
    document = json.loads(capfd.readouterr().out)

    assert [] == faults(document, "deltacli.vacuum-explain")
    assert (item["path"], "goes") == (document["path"], document["verdict"])
    assert ["add", "remove"] == [commit["action"] for commit in document["commits"]]
    assert item["removedAtVersion"] == document["commits"][-1]["version"]


def test_of_a_copied_log_vacuum_and_validate_say_until_when_removed_files_are_kept(tmp_path: Path) -> None:
    root = make_sample(tmp_path / "tbl")
    for file in (root / "_delta_log").iterdir():
        os.utime(file, (1769904000,) * 2)  # 2026-02-01
    now = ("--now", "2026-02-02T00:00:00Z")

    planned = deltacli("vacuum", "tbl", "--dry-run", *now, cwd=tmp_path).out
    found = deltacli("validate", "tbl", "--level", "storage", *now, cwd=tmp_path).out
    later = deltacli("vacuum", "tbl", "--dry-run", "--now", "2026-02-08T00:01:00Z", cwd=tmp_path).out

    kept = re.search(r"retained +\d+ +removed files, until (2026-02-0\d) 00:00:00 UTC: the log was copied", planned)
    assert kept, planned
    assert (
        f"its retention has ended; a vacuum keeps it until {kept[1]} 00:00:00 UTC, because the log was copied" in found
    )
    assert "the log was copied" not in later
