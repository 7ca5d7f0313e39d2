"""`fleet run`: what is done, what is refused, and what a second run finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.storage.retry import ThrottledRetry
from tests.cli.test_documents import validate
from tests.fleet.lake import DAMAGED, HEALTHY, data_files, live_digest, tree_of, write_lake

Command = Callable[..., tuple[int, Any]]  # Any: JSON values


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Run a command on a lake in the current directory; return its exit code and its document."""
    monkeypatch.chdir(tmp_path)
    write_lake(tmp_path)

    def run_here(*arguments: str) -> tuple[int, Any]:
        code = run(["fleet", *arguments, "--json"])
        out, err = capfdbinary.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    return run_here


def states(document: Any) -> dict[str, dict[str, str]]:
    return {
        Path(table["table"]).name: {step["kind"]: step["state"] for step in table["steps"]}
        for table in document["tables"]
    }


def test_a_run_does_what_the_plan_names_and_a_second_one_nothing(fleet: Command, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    before = {name: live_digest(lake / name) for name in HEALTHY}
    damaged = {name: tree_of(lake / name) for name in DAMAGED}

    _, plan = fleet("plan")
    code, first = fleet("run", "--yes")
    again, second = fleet("run", "--yes")

    done = states(first)
    assert {Path(t["table"]).name: [s["kind"] for s in t["steps"]] for t in plan["tables"] if t["steps"]} == {
        name: list(steps) for name, steps in done.items() if steps
    }
    assert {"validate": "done", "vacuum": "done"} == done["garbage"]
    assert {"validate": "done", "checkpoint": "done", "vacuum": "done"} == done["behind"]
    assert {"validate": "done", "log-expire": "done", "vacuum": "done"} == done["old"]
    assert {"validate": "done", "vacuum": "nothing"} == done["fresh"]
    assert {"validate": "findings", "vacuum": "refused"} == done["torn"]
    assert (5, 5, done["torn"]) == (code, again, states(second)["torn"])
    assert {"gap", "torn"} == states(second).keys()
    assert before == {name: live_digest(lake / name) for name in HEALTHY}
    assert damaged == {name: tree_of(lake / name) for name in DAMAGED}
    assert not [name for name in data_files(lake / "old") if name.startswith("left")]
    validate(first, "deltacli.fleet-run")


def test_destructive_steps_need_consent_twice(fleet: Command, tmp_path: Path) -> None:
    policy = tmp_path / "fleet.toml"
    kept = data_files(tmp_path / "lake" / "garbage")

    code, without_yes = fleet("run")
    policy.write_text(policy.read_text().replace(", consent = true", ""))
    again, without_consent = fleet("run", "--yes")

    steps = {step["kind"]: step for step in next(t for t in without_yes["tables"] if "/old" in t["table"])["steps"]}
    assert {"validate": 0, "log-expire": 4, "vacuum": 4} == {kind: step["exit"] for kind, step in steps.items()}
    assert "consent.missing" == steps["vacuum"]["code"]
    other = {step["kind"]: step for t in without_consent["tables"] if "/old" in t["table"] for step in t["steps"]}
    assert {"log-expire", "vacuum"} == {kind for kind, step in other.items() if step["code"] == "fleet.consent"}
    assert (5, 5) == (code, again)
    assert kept == data_files(tmp_path / "lake" / "garbage")


def test_only_a_group_and_no_later_than_the_clock(fleet: Command, tmp_path: Path) -> None:
    code, unknown = fleet("run", "--only", "lak")
    ahead, refused = fleet("run", "--yes", "--now", "2999-01-01T00:00:00Z")

    assert (2, "fleet.group") == (code, unknown["code"])
    assert (4, "clock.ahead") == (ahead, refused["code"])
    assert not (tmp_path / "fleet-state").exists()


def test_a_time_budget_leaves_the_rest_to_a_resumed_run(fleet: Command, tmp_path: Path) -> None:
    code, first = fleet("run", "--yes", "--time-budget", "0s")
    resumed_code, resumed = fleet("run", "--yes", "--resume")
    _, new = fleet("run", "--yes", "--resume")

    assert (5, {}, True) == (code, {k: v for k, v in states(first).items() if v}, first["summary"]["left"] > 0)
    assert first["run"] == resumed["run"] != new["run"]
    assert (True, 0, 5) == (resumed["resumed"], resumed["summary"]["left"], resumed_code)
    assert "done" == states(resumed)["garbage"]["vacuum"]
    assert 1 == len({path.name for path in (tmp_path / "fleet-state" / "journal").glob(f"{first['run']}*")})


def test_requests_to_a_host_are_a_fixed_time_apart() -> None:
    now, waits = [0.0], list[float]()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    policy = ThrottledRetry(60, 10, clock=lambda: now[0], pause=pause)
    for host in ("a", "a", "b", "a"):
        with policy.watched(host):
            pass
    now[0] = 9.0
    with policy.watched("a"):
        pass

    assert [0.1, 0.1] == [round(wait, 6) for wait in waits]
