"""`fleet run`: what is done, what is refused, and what a second run finds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.cli.app import run
from deltacli.storage import Storage, open_storage
from deltacli.storage.retry import ThrottledRetry
from tests.cli.test_documents import validate
from tests.fleet.lake import DAMAGED, HEALTHY, data_files, live_digest, tree_of, with_files, write_lake
from tests.fleet.sessions import session_of
from tests.rules.corruptions_commit_times import TimedTable
from tests.support import damage
from tests.support.builder import TableBuilder
from tests.support.faulty import Fault
from tests.support.optimizing import Ids, rows_of

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


def test_a_limit_in_a_pipe_keeps_the_worst(fleet: Command, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    document = fleet("run", "--limit", "2")[1]
    (again := Path("again.toml")).write_text(Path("fleet.toml").read_text())
    run(["fleet", "run", str(again), "--state", "again", "--format", "csv", "--limit", "2"])
    rows = capfdbinary.readouterr().out.decode().splitlines()[1:]

    assert {"gap", "torn"} == states(document).keys()
    assert {"gap", "torn"} == {Path(row.split(",")[0]).name for row in rows}


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


def test_a_vacuum_of_a_policy_keeps_copies_in_its_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    with_files(TableBuilder().commits(5), 5).write(tmp_path / "lake" / "garbage")
    quarantine = tmp_path / "quarantine"
    vacuum = f'vacuum = {{ quarantine = "{quarantine}", max-delete = "100%", consent = true }}'
    (tmp_path / "fleet.toml").write_text(
        f'[policies.base]\n{vacuum}\n[groups.lake]\npolicy = "base"\nglobs = ["lake/*"]\n'
    )
    before = tree_of(tmp_path / "lake" / "garbage")

    code = run(["fleet", "run", "--yes", "--json"])

    table = tmp_path / "lake" / "garbage"
    (manifest,) = quarantine.glob("*/*/manifest.json")
    named = json.loads(manifest.read_text())
    kept = {path.name: path.read_bytes() for path in manifest.parent.iterdir() if "manifest" not in path.name}
    assert (0, {"vacuum": "done"}) == (code, states(json.loads(capfdbinary.readouterr().out))["garbage"])
    assert (True, sorted(kept)) == (named["complete"], sorted(named["paths"]))
    assert {"left-1.parquet", "left-2.parquet"} <= set(kept)
    after = tree_of(table)
    assert not set(kept) & set(after)
    assert before == kept | {path: data for path, data in after.items() if path in before}


def test_a_missing_table_of_protect_from_is_named_and_its_table_is_no_unreadable_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    TableBuilder().commits(1).write(tmp_path / "t")
    (tmp_path / "fleet.toml").write_text(
        '[policies.base]\nvacuum = { protect-from = ["clone"], consent = true }\n'
        '[groups.lake]\npolicy = "base"\ntables = ["t"]\n'
    )
    message = f"{tmp_path}/clone: no such file or directory"

    planned = run(["fleet", "plan", "--details", "--json"]), json.loads(capfdbinary.readouterr().out)
    done = run(["fleet", "run", "--yes", "--json"]), json.loads(capfdbinary.readouterr().out)
    status = run(["fleet", "status", "--json"]), json.loads(capfdbinary.readouterr().out)

    assert (5, message) == (planned[0], planned[1]["tables"][0]["steps"][0]["plan"]["error"]["message"])
    assert (5, message) == (done[0], done[1]["tables"][0]["steps"][0]["message"])
    assert (1, 1, 0) == (status[0], status[1]["summary"]["alerts"], status[1]["summary"]["unreadable"])


def test_a_policy_can_skip_nested_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lake/garbage", "lake/garbage/inner"):
        with_files(TableBuilder().commits(5), 5).write(tmp_path / name)
    inner = tree_of(tmp_path / "lake" / "garbage" / "inner")
    codes = []
    for skip in ("false", "true"):
        vacuum = f'vacuum = {{ skip-nested-tables = {skip}, max-delete = "100%", consent = true }}'
        (tmp_path / "fleet.toml").write_text(
            f'[policies.base]\n{vacuum}\n[groups.lake]\npolicy = "base"\nglobs = ["lake/*"]\n'
        )
        run(["fleet", "run", "--yes", "--json"])
        (step,) = json.loads(capfdbinary.readouterr().out)["tables"][0]["steps"]
        codes.append((step["state"], step.get("code")))

    assert [("refused", "vacuum.nested-table"), ("done", None)] == codes
    assert inner == tree_of(tmp_path / "lake" / "garbage" / "inner")


def test_a_run_judges_thresholds_and_records_what_is_gone(fleet: Command, tmp_path: Path) -> None:
    policy, lake = tmp_path / "fleet.toml", tmp_path / "lake"
    for name in ("gap", "torn", "old"):
        shutil.rmtree(lake / name)
    watched = '[policies.base]\nalerts = { log-bytes = "1KiB", small-files = "50%", least-files = 8 }\n'
    policy.write_text(policy.read_text().replace("[policies.base]\n", watched))

    code, first = fleet("run", "--yes")
    shutil.rmtree(lake / "behind")
    again, second = fleet("run", "--yes")
    _, status = fleet("status")

    assert (1, 1) == (code, again)
    assert {("behind", "log-bytes"), ("behind", "small-files"), ("garbage", "log-bytes")} == {
        (Path(one["table"]).name, one["name"]) for one in first["alerts"]
    }
    assert [("garbage", "log-bytes")] == [(Path(one["table"]).name, one["name"]) for one in second["alerts"]]
    assert ["garbage", "fresh"] == [Path(one["table"]).name for one in status["tables"]]
    validate(second, "deltacli.fleet-run")


def test_only_a_group_and_no_later_than_the_clock(fleet: Command, tmp_path: Path) -> None:
    code, unknown = fleet("run", "--only", "lak")
    ahead, refused = fleet("run", "--yes", "--now", "2999-01-01T00:00:00Z")

    assert (2, "fleet.group") == (code, unknown["code"])
    assert (4, "clock.ahead", "omit --now, or show the plan with fleet plan") == (
        ahead,
        refused["code"],
        refused["hint"],
    )
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


def test_nothing_is_deleted_after_a_validation_that_could_not_be_completed(fleet: Command, tmp_path: Path) -> None:
    policy = tmp_path / "fleet.toml"
    policy.write_text(policy.read_text().replace("validate = {", 'validate = { baselines = "fleet.toml",'))
    kept = data_files(tmp_path / "lake" / "garbage")

    _, first = fleet("run", "--yes")
    journal = next((tmp_path / "fleet-state" / "journal").iterdir())
    journal.write_bytes(
        b"".join(
            line
            for line in journal.read_bytes().splitlines(keepends=True)
            if not (b'"vacuum"' in line or b'"run-finished"' in line)
        )
    )
    _, resumed = fleet("run", "--yes", "--resume")

    assert {"validate": "failed", "vacuum": "refused"} == states(first)["garbage"]
    assert {"vacuum": "refused"} == states(resumed)["garbage"]
    assert kept == data_files(tmp_path / "lake" / "garbage")


def test_leases_that_cannot_be_read_fail_a_step_and_not_the_run(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    leases = session.open_store(str(tmp_path / "fleet-state" / "leases"))
    opened: list[str] = []

    def open_it(name: str) -> Table:
        if not opened:  # the next request to the leases is the one before the vacuum of this table
            leases.fail(1, Fault.BEFORE)  # type: ignore[attr-defined]  # a faulty store
        opened.append(name)
        return open_table(name)

    session.open_table = open_it
    report = session.run()

    vacuums = {
        table.name: step.outcome.state for table in report.tables for step in table.steps if step.step.kind == "vacuum"
    }
    assert "failed" == vacuums.pop(opened[0])
    assert {"done", "nothing", "refused"} == set(vacuums.values())


def test_the_time_budget_includes_the_search(tmp_path: Path) -> None:
    now = [0.0]

    def open_slowly(uri: str) -> Storage:
        now[0] += 3_600
        return open_storage(uri)

    session = session_of(tmp_path, open_store=open_slowly, ticks=lambda: now[0])
    session.request = replace(session.request, time_budget_ms=3_600_000)
    report = session.run()

    assert (0, True) == (report.summary()["done"], report.left > 0)


def test_requests_to_a_host_are_a_fixed_time_apart() -> None:
    now, waits = [0.0], list[float]()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    policy = ThrottledRetry(60, 10, clock=lambda: now[0], pause=pause)
    for host in ("a", "a", "b", "a"):
        with policy.track_request(host):
            pass
    now[0] = 9.0
    with policy.track_request("a"):
        pass

    assert [0.1, 0.1] == [round(wait, 6) for wait in waits]


def test_small_files_are_compacted_in_their_window_from_a_share_on(fleet: Command, tmp_path: Path) -> None:
    """
    Six of seven files are small: 86 %.
    """
    place = Ids(partitioned=False).append(*"abcdef").append("g", rows=5_000).builder.write(tmp_path / "lake" / "small")
    table = Table(open_storage(str(place)))
    before = rows_of(table)

    def of(window: str, share: str, day: int, *words: str) -> dict[str, Any]:
        step = f'{{ every = "1d", target-size = "4KiB", small-files = "{share}", window = "{window}" }}'
        alerts = '{ small-files = "50%", least-files = 2 }'
        policy = f"[policies.p]\noptimize = {step}\nalerts = {alerts}\n"
        (tmp_path / "fleet.toml").write_text(f'{policy}[groups.g]\npolicy = "p"\ntables = ["lake/small"]\n')
        found = fleet(*words, "--now", f"2026-01-0{day}T23:30:00Z")[1]["tables"]
        return {step["kind"]: step for one in found for step in one["steps"]}

    assert {} == of("06:00-23:30", "30%", 1, "plan")
    assert False is of("23:00-01:00", "30%", 1, "plan")["optimize"]["destructive"]
    few = of("23:30-23:00", "90%", 1, "run")["optimize"]
    assert ("nothing", "6 of 7 data files are small (limit 90%)") == (few["state"], few["message"])
    done = of("23:00-01:00", "30%", 3, "run")["optimize"]
    assert ("done", 2, 2) == tuple(done[name] if name == "state" else done["details"][name] for name in KEPT)
    assert {} == of("23:00-01:00", "30%", 3, "run")
    assert before == rows_of(table)


def test_a_table_with_lost_files_is_not_written_to(fleet: Command, tmp_path: Path) -> None:
    """All lost files are counted, not only up to the limit of findings."""
    names = [f"f{number}" for number in range(102)]
    place = Ids(partitioned=False).append(*names).builder.write(tmp_path / "lake" / "lost")
    for name in names[1:]:
        (place / name).unlink()
    steps = (
        'optimize = {}\ncheckpoint = { commits = 1 }\nvacuum = { consent = true }\nvalidate = { level = "storage" }\n'
    )
    (tmp_path / "fleet.toml").write_text(f'[policies.p]\n{steps}[groups.g]\npolicy = "p"\ntables = ["lake/lost"]\n')
    before = tree_of(place)

    code, document = fleet("run", "--yes")

    (table,) = document["tables"]
    said = {step["kind"]: (step["state"], step["exit"], step.get("code"), step["message"]) for step in table["steps"]}
    left_out = ("refused", 4, "fleet.findings", "skipped, because files are lost or damaged")
    assert ("findings", 1, "data.file-missing", "101 data files are missing") == said.pop("validate")
    assert dict.fromkeys(("optimize", "checkpoint", "vacuum"), left_out) == said
    assert (5, before) == (code, tree_of(place))
    validate(document, "deltacli.fleet-run")


def test_a_step_that_was_done_again_has_one_row(
    fleet: Command, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """
    After the checkpoint, the validation with findings is repeated.
    """
    TableBuilder().commits(12).checkpoint(2).hint(2).damaged(damage.torn_hint()).write(tmp_path / "lake" / "again")
    steps = 'checkpoint = { commits = 1 }\nvalidate = { fail-on = "warning" }\n'
    (tmp_path / "fleet.toml").write_text(f'[policies.p]\n{steps}[groups.g]\npolicy = "p"\ntables = ["lake/again"]\n')

    run(["fleet", "run", "--format", "csv"])

    _, *rows = capfdbinary.readouterr().out.decode().splitlines()
    assert [["validate", "findings"], ["checkpoint", "done"]] == [row.split(",")[2:4] for row in rows]


KEPT = ("state", "liveFiles", "smallFiles")


def test_the_finding_that_makes_a_table_unreadable_is_the_first(fleet: Command, tmp_path: Path) -> None:
    """A finding about an earlier commit, which does not, comes after it."""
    table = TimedTable()
    table.action(1, "commitInfo")["inCommitTimestamp"] = table.action(0, "commitInfo")["inCommitTimestamp"]
    place = table.write(tmp_path / "lake" / "late")
    last = max((place / "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:-9])
    (tmp_path / "fleet.toml").write_text(
        '[policies.p]\nvalidate = {}\n[groups.g]\npolicy = "p"\ntables = ["lake/late"]\n'
    )

    _, document = fleet("run", "--yes")

    (step,) = document["tables"][0]["steps"]
    assert ("commit.bad-json", True) == (step.get("code"), "ict.not-monotone" in step["message"]), step
