"""The step `copy` of a fleet: replicas, what keeps them from being made, and their lag."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.cli.app import run
from deltacli.fleet.policy_file.model import CopyPolicy
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.fleet.status import target_of
from tests.cli.test_documents import validate
from tests.fleet.lake import tree_of
from tests.operations.copy.tables import SHAPES
from tests.operations.copy.test_copy import append

Command = Callable[..., tuple[int, Any]]  # Any: JSON values
POLICY = """\
[policies.p]
copy = {{ to = "{to}", every = "1h"{more} }}
alerts = {{ copy-lag = "3h" }}
[groups.g]
policy = "p"
globs = ["lake/**"]
exclude = ["lake/**/more-*"]
"""


def policy(root: Path, to: str, more: str = "") -> Path:
    (root / "fleet.toml").write_text(POLICY.format(to=to, more=more))
    return root / "fleet.toml"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Run a command on two tables in the current directory; return its exit code and its document."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        SHAPES["whole"](tmp_path / "lake" / name)
    policy(tmp_path, "lake/safe/{name}")

    def run_here(command: str, day_hour: str, *arguments: str) -> tuple[int, Any]:
        now = [] if command == "check" else ["--now", f"2026-02-{day_hour}:00:00Z"]
        code = run(["fleet", command, *arguments, *now, "--json"])
        out, err = capfdbinary.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    return run_here


def steps_of(document: Any) -> dict[str, tuple[str, int]]:
    return {
        Path(table["table"]).name: (step["state"], step["exit"])
        for table in document["tables"]
        for step in table["steps"]
    }


def test_replicas_follow_their_tables_and_are_no_tables_of_the_fleet(fleet: Command, tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    first = fleet("run", "01T00")
    unchanged = fleet("run", "01T01")
    append(lake / "one")
    early = fleet("run", "01T01")
    behind = fleet("status", "01T01", "--metrics", "m.prom")
    lag = [line for line in Path("m.prom").read_text().splitlines() if "_lag_versions{" in line]
    later = fleet("run", "01T02")

    assert (0, {"one": ("done", 0), "two": ("done", 0)}) == (first[0], steps_of(first[1]))
    assert (0, {"one": ("nothing", 0), "two": ("nothing", 0)}) == (unchanged[0], steps_of(unchanged[1]))
    assert {} == steps_of(early[1])
    assert (0, [0, 1]) == (behind[0], sorted(int(line.rpartition(" ")[2]) for line in lag))
    assert {"one": ("done", 0), "two": ("nothing", 0)} == steps_of(later[1])
    for name in ("one", "two"):
        assert () == open_table(lake / name).copy(str(lake / "safe" / name), replica=True, check=True).differences
    validate(first[1], "deltacli.fleet-run")
    validate(behind[1], "deltacli.fleet-status")


def test_a_refused_copy_is_one_step_and_its_lag_an_alert(fleet: Command, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fleet("run", "01T00")
    append(lake / "safe" / "one", rows=20)  # of another writer
    append(lake / "one")
    append(lake / "two")
    before = tree_of(lake / "safe" / "one")

    code, document = fleet("run", "01T02")
    within = fleet("status", "01T02")[1]
    late, status = fleet("status", "01T03")

    assert (5, {"one": ("refused", 4), "two": ("done", 0)}) == (code, steps_of(document))
    assert before == tree_of(lake / "safe" / "one")
    states = [[one["state"] for one in table["thresholds"]] for table in (*within["tables"], *status["tables"])]
    assert [["ok"], ["ok"], ["exceeded"], ["ok"]] == states
    worst = status["tables"][0]
    assert 1 == late
    assert "copy-lag: the replica lacks 1 version, and was up to date 3 hours ago (limit 3h)" in worst["alerts"]
    assert [f"deltacli copy {lake}/one {lake}/safe/one --replica --dry-run"] == worst["next"]


def test_a_copy_that_was_cut_short_is_continued_by_the_next_run(fleet: Command, tmp_path: Path) -> None:
    policy(tmp_path, "lake/safe/{name}", ', time-budget = "0s"')
    cut = fleet("run", "01T00")
    policy(tmp_path, "lake/safe/{name}")

    code, document = fleet("run", "01T01")

    assert (5, {"one": ("partly", 5), "two": ("partly", 5)}) == (cut[0], steps_of(cut[1]))
    assert (0, {"one": ("done", 0), "two": ("done", 0)}) == (code, steps_of(document))


def test_tables_that_share_a_target_do_not_mix(fleet: Command, tmp_path: Path) -> None:
    SHAPES["whole"](tmp_path / "lake" / "other" / "one")
    append(tmp_path / "lake" / "other" / "one")

    code, document = fleet("run", "01T00", "--jobs", "1")
    copied = tree_of(tmp_path / "lake" / "safe" / "one")
    again = fleet("run", "01T02")[1]

    assert 5 == code
    assert ["done", "done", "refused"] == sorted(step["state"] for one in document["tables"] for step in one["steps"])
    assert "refused" in [step["state"] for one in again["tables"] for step in one["steps"]]
    assert copied.keys() == tree_of(tmp_path / "lake" / "safe" / "one").keys()


@pytest.mark.parametrize(
    ("to", "is_fault"),
    [
        ("lake/{name}", True),
        ("lake/{path}", True),
        ("/{path}", True),
        ("lake/safe/{name}", False),
        ("lake/{name}-copy", False),
    ],
)
def test_a_target_that_matches_the_tables_of_a_group_is_a_fault(to: str, is_fault: bool, tmp_path: Path) -> None:
    found = read_fleet_file(policy(tmp_path, to))

    assert is_fault == any("the target of copy matches its tables" in one.message for one in found.errors)


@pytest.mark.parametrize(
    ("to", "more", "fault"),
    [
        ("safe", "", "is the same directory for every table"),
        ("safe/{table}", "", "has a special character that is not part of {path} or {name}"),
        ("safe/*/{name}", "", "has a special character that is not part of {path} or {name}"),
        ("s3://safe/{path}", ', rate = "fast"', "is not a size"),
        ("s3://safe/{path}", ', rate = "50"', "is less than 1 KiB/s"),
        ("s3://safe/{path}", ', level = "rows"', "invalid value 'rows'"),
        ("s3://safe/{path}", ", threads = 0", "invalid value 0"),
        ("s3://safe/{path}", ', rate = "50MiB/s", threads = 2, time-budget = "1h", keep-external = true', None),
    ],
)
def test_a_target_names_each_table(tmp_path: Path, to: str, more: str, fault: str | None) -> None:
    found = read_fleet_file(policy(tmp_path, to, more))

    assert ([] if fault is None else [True]) == [fault is not None and fault in one.message for one in found.errors]


@pytest.mark.parametrize(
    ("to", "table", "target"),
    [
        ("s3://safe/{path}", "s3://lake/a/b", "s3://safe/lake/a/b"),
        ("/safe/{path}", "/lake/a/", "/safe/lake/a"),
        ("/safe/{name}", "abfss://c@host/lake/{path}", "/safe/{path}"),
        ("/safe/{path}", "s3://lake/../../etc", "/safe/lake/%2E%2E/%2E%2E/etc"),
        ("file:///safe/{name}", "/lake/100% {name}", "file:///safe/100%25%20%7Bname%7D"),
    ],
)
def test_the_target_of_a_table(to: str, table: str, target: str) -> None:
    assert target == target_of(CopyPolicy(to=to), table)
