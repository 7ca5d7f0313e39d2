"""Queries of Spark in a fleet: what the deleting steps keep for them, and the alerts about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.fleet.policy_file.reading import read_fleet_file
from tests.cli.test_documents import validate
from tests.operations.streams.checkpoints import Checkpoint, delta, standing
from tests.operations.streams.tables import History, name_of
from tests.operations.streams.test_guard import BEHIND, DEAD, WITH_GARBAGE

POLICY = """
[policies.p]
log-expire = { every = "1h", protect-streams = ["chk/*"], consent = true }
vacuum = { every = "1h", protect-streams = ["chk/*"], max-delete = "100%", consent = true }
alerts = { stream-lag = "1d", stream-dead = 1 }
[groups.g]
policy = "p"
tables = ["tbl"]
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs a command on a fleet of one table in the current directory; returns its document."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text(POLICY)
    History(WITH_GARBAGE, checkpoints=(8, 16)).write(tmp_path / "tbl")

    def run_here(*arguments: str) -> Any:
        run(["fleet", *arguments, "--json"])
        out, err = capfdbinary.readouterr()
        return json.loads(out or err.splitlines()[-1])

    return run_here


def _states(document: Any) -> dict[str, str]:
    return {step["kind"]: step["state"] for step in document["tables"][0]["steps"]}


@pytest.mark.parametrize(
    "checkpoint, states, alerts",
    [
        (BEHIND, {"log-expire": "done", "vacuum": "done"}, {"stream-lag"}),
        (standing(delta(21)), {"log-expire": "done", "vacuum": "done"}, set()),
        (DEAD, {"log-expire": "refused", "vacuum": "refused"}, {"stream-dead", "stream-lag"}),
        (
            standing(delta(21), delta(15)).file("commits/7"),
            {"log-expire": "refused", "vacuum": "refused"},
            {"stream-dead", "stream-lag"},
        ),
    ],
    ids=["behind", "caught up", "dead", "an empty commit file"],
)
def test_steps_keep_what_queries_need_and_alerts_name_them(
    checkpoint: Checkpoint, states: dict[str, str], alerts: set[str], fleet: Any, tmp_path: Path
) -> None:
    checkpoint.write(tmp_path / "chk" / "q")

    ran = fleet("run", "--yes")
    status = fleet("status", "--metrics", "metrics.prom")

    assert states == _states(ran)
    validate(ran, "deltacli.fleet-run")
    validate(status, "deltacli.fleet-status")
    thresholds = {one["name"]: one["state"] for one in status["tables"][0]["thresholds"]}
    assert alerts == {name for name, state in thresholds.items() if state == "exceeded"} & {"stream-lag", "stream-dead"}
    assert "unknown" not in thresholds.values()
    lines = Path("metrics.prom").read_text().splitlines()
    dead = f" {int('stream-dead' in alerts)}"
    assert [line for line in lines if line.startswith("deltacli_fleet_dead_streams{") and line.endswith(dead)]
    assert bool(alerts) == (tmp_path / "tbl" / name_of(16)).exists()


def test_a_policy_needs_patterns_for_the_age(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(POLICY.replace('protect-streams = ["chk/*"], max', 'ignore-streams-older = "30d", max'))

    found = read_fleet_file(path)

    assert ["policies.p.vacuum.ignore-streams-older"] == [one.key for one in found.errors]
    (policy,) = found.policies
    assert f"{tmp_path}/chk/*" in str(policy.as_json()["log-expire"])
