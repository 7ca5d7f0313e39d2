"""A run leaves nothing due: its own checkpoints repair findings, and its own commits are in a checkpoint."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from deltacli.fleet.running.run import FleetReport
from tests.fleet.lake import data_files, with_files
from tests.fleet.sessions import session_on
from tests.support import damage
from tests.support.builder import TableBuilder

POLICY = """\
[policies.base]
checkpoint = {{ commits = {commits} }}
log-expire = {{ retention = "30d", consent = true }}
vacuum = {{ every = "7d", retention = "14d", max-delete = "100%", consent = true }}
validate = {{ every = "1d", fail-on = "warning", select = ["hint.*", "commit.*"] }}
[groups.lake]
policy = "base"
globs = ["lake/*"]
"""


def steps_of(report: FleetReport) -> dict[str, list[tuple[str, str]]]:
    return {
        Path(table.name).name: [(step.step.kind, step.outcome.state) for step in table.steps] for table in report.tables
    }


def write_policy(root: Path, commits: int) -> None:
    (root / "fleet.toml").write_text(POLICY.format(commits=commits))


def test_a_finding_that_the_checkpoint_repairs_does_not_refuse_the_deletions_of_the_run(tmp_path: Path) -> None:
    stale = with_files(TableBuilder().commits(12).checkpoint(9).hint(9), 12).damaged(damage.torn_hint())
    stale.write(tmp_path / "lake" / "stale")
    write_policy(tmp_path, 2)

    first = session_on(tmp_path).run()
    second = session_on(tmp_path).run()

    kinds = ["validate", "checkpoint", "validate", "log-expire", "vacuum", "checkpoint"]
    assert {"stale": list(zip(kinds, ["findings", *["done"] * 5], strict=True))} == steps_of(first)
    assert (0, {}) == (first.exit_code, steps_of(second))
    assert [0, 4] == [first.summary()[state] for state in ("findings", "done")]
    assert not [name for name in data_files(tmp_path / "lake" / "stale") if name.startswith("left")]


def test_a_finding_that_stays_still_refuses_the_deletions(tmp_path: Path) -> None:
    torn = with_files(TableBuilder().commits(12).checkpoint(9).hint(9), 12)
    torn.damaged(damage.truncate_commit(5)).write(tmp_path / "lake" / "torn")
    write_policy(tmp_path, 2)

    report = session_on(tmp_path).run()

    kinds = ["validate", "checkpoint", "validate", "log-expire", "vacuum"]
    states = ["findings", "done", "findings", "refused", "refused"]
    assert {"torn": list(zip(kinds, states, strict=True))} == steps_of(report)
    assert 5 == report.exit_code
    assert [name for name in data_files(tmp_path / "lake" / "torn") if name.startswith("left")]


def test_a_budget_that_ends_before_the_second_validation_leaves_the_deletions(tmp_path: Path) -> None:
    stale = with_files(TableBuilder().commits(12).checkpoint(9).hint(9), 12).damaged(damage.torn_hint())
    stale.write(tmp_path / "lake" / "stale")
    write_policy(tmp_path, 2)
    now = [0.0]

    session = session_on(tmp_path, ticks=lambda: now[0])
    session.request = replace(session.request, time_budget_ms=3_600_000)
    open_table = session.open_table

    def open_slowly(name: str) -> object:
        now[0] += 3_599.99  # the validation and the checkpoint share one table
        return open_table(name)

    session.open_table = open_slowly  # type: ignore[assignment]  # returns what it wraps
    report = session.run()
    session = session_on(tmp_path)
    session.request = replace(session.request, resume=True)
    resumed = session.run()

    assert {"stale": [("validate", "findings")]} == steps_of(report)
    assert report.left == 3
    assert ("vacuum", "done") in steps_of(resumed)["stale"]
    assert 0 == resumed.exit_code


@pytest.mark.parametrize("commits", [1, 2, 8])
def test_the_second_run_does_nothing(tmp_path: Path, commits: int) -> None:
    chance = random.Random(commits)
    for number in range(5):
        count = chance.randint(1, 14)
        table = TableBuilder().commits(count)
        if chance.random() < 0.7:
            version = chance.randrange(count)
            table.checkpoint(version)
            if chance.random() < 0.8:
                table.hint(chance.choice([version, version, max(0, version - 1)]))
                if chance.random() < 0.4:
                    table.damaged(damage.torn_hint())
        with_files(table, count).write(tmp_path / "lake" / f"t{number}")
    write_policy(tmp_path, commits)

    first = session_on(tmp_path).run()
    second = session_on(tmp_path).run()

    ended = {name: dict(steps) for name, steps in steps_of(first).items()}
    unrepaired = {name for name, states in ended.items() if "findings" == states.get("validate")}
    assert {} == {name: steps for name, steps in steps_of(second).items() if name not in unrepaired}
    assert {"done"} == {states["vacuum"] for name, states in ended.items() if name not in unrepaired}
    assert len(unrepaired) < 5
