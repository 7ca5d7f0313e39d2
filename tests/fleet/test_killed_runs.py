"""Runs that are killed at any moment, and two at once: after resuming, the lake is as after an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from deltacli.cli.app import run
from deltacli.fleet.running.journal import JournalWriter, read_record
from tests.cli.support import ROOT
from tests.fleet.lake import DAMAGED, HEALTHY, data_files, live_digest, tree_of, write_lake
from tests.support.waiting import SECONDS, wait_until

COPIES = 3
NAMES = [f"{name}-{number}" for name in HEALTHY for number in range(COPIES)]
RECORDS = 2 + 2 * (2 + 3 + 3 + 2) * COPIES
"""About as many lines as a run writes."""


def begin(home: Path, *options: str) -> subprocess.Popen[bytes]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("DELTACLI_")}
    return subprocess.Popen(
        [sys.executable, "-m", "deltacli", "fleet", "run", "--yes", "--json", *options],
        cwd=home,
        env={**settings, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def lines_in(home: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (home / "fleet-state" / "journal").glob("*"))


def kill_after(home: Path, lines: int, seconds: float) -> bool:
    """Start or resume a run, and kill it some time after the journal has so many lines, or let it end. Return True if
    it was killed.
    """
    process = begin(home, "--resume")
    wait_until(lambda: process.poll() is not None or lines_in(home) >= lines, f"{lines} lines in the journal")
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.communicate()
    return process.returncode < 0


def effects(home: Path) -> Counter[tuple[str, str]]:
    """Count the steps with effect by table and step, from every whole line of the journal."""
    found: Counter[tuple[str, str]] = Counter()
    for record in records(home):
        if record["type"] == "step-finished" and record["state"] == "done" and record["step"] != "validate":
            found[Path(record["table"]).name, record["step"]] += 1
    return found


def torn_lines(home: Path) -> list[bytes]:
    """Return the lines of the journal that are no events."""
    lines = [line for path in (home / "fleet-state" / "journal").glob("*") for line in path.read_bytes().split(b"\n")]
    return [line for line in lines if line and read_record(line) is None]


def records(home: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((home / "fleet-state" / "journal").glob("*")):
        found += [dict(record) for line in path.read_bytes().split(b"\n") if (record := read_record(line))]
    return found


def state_of(home: Path) -> dict[str, tuple[list[str], str, bool]]:
    """Return what a run must achieve for each healthy table: its data files, its live files, a young checkpoint."""
    return {
        name: (
            data_files(home / "lake" / name),
            live_digest(home / "lake" / name),
            bool(list((home / "lake" / name / "_delta_log").glob("*.checkpoint.parquet"))),
        )
        for name in NAMES
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("undisturbed")
    write_lake(home, COPIES)
    shutil.copytree(home, home / "copy")
    process = begin(home)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 5
    return home


def killed_and_resumed(undisturbed: Path, home: Path, chance: random.Random) -> int:
    """Kill a run and its resumptions at random moments, then let it end, and compare the lakes; return the kills."""
    shutil.copytree(undisturbed / "copy", home)
    damaged = {name: tree_of(home / "lake" / f"{name}-0") for name in DAMAGED}

    kills = 0
    for lines in sorted(chance.sample(range(RECORDS), chance.randint(1, 3))):
        kills += kill_after(home, lines, chance.uniform(0, 0.1))
        assert len(torn_lines(home)) <= kills
    last = begin(home, "--resume")
    out, err = last.communicate(timeout=SECONDS)

    assert 5 == last.returncode, (out, err)
    assert 0 == orjson.loads(out)["summary"]["left"]
    assert state_of(undisturbed) == state_of(home)
    assert damaged == {name: tree_of(home / "lake" / f"{name}-0") for name in DAMAGED}
    assert {1} >= set(effects(home).values())
    return kills


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_killed_run_resumes_where_it_was(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    killed_and_resumed(undisturbed, tmp_path / "home", random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5, 55))
def test_runs_killed_at_a_hundred_moments(
    undisturbed: Path, tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("kills", killed_and_resumed(undisturbed, tmp_path / "home", random.Random(seed)))


@pytest.mark.long
def test_two_runs_at_once_do_nothing_twice(undisturbed: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(undisturbed / "copy", home)

    both = [begin(home), begin(home)]
    summaries = [orjson.loads(process.communicate(timeout=SECONDS)[0])["summary"] for process in both]

    assert [0, 0] == [summary["failed"] + summary["left"] for summary in summaries]
    assert state_of(undisturbed) == state_of(home)
    assert {1} == set(effects(home).values())
    assert effects(undisturbed) == effects(home)


def test_a_resumed_run_does_not_repeat_what_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lake(tmp_path)
    killed = JournalWriter(tmp_path / "fleet-state", "20240101T000000000Z-00000000")
    killed.write("run-started", 1)
    garbage = str(tmp_path / "lake" / "garbage")
    killed.write("step-finished", 2, table=garbage, step="vacuum", state="refused", exit=4)
    killed.close()

    assert 5 == run(["fleet", "run", "--yes", "--resume", "--output", "report.json", "--json"])

    report = orjson.loads(Path("report.json").read_bytes())
    steps = next(table["steps"] for table in report["tables"] if table["table"] == garbage)
    assert (True, "20240101T000000000Z-00000000") == (report["resumed"], report["run"])
    assert ["validate"] == [step["kind"] for step in steps]
    assert ["left-1.parquet", "left-2.parquet"] == data_files(Path(garbage))[:2]
