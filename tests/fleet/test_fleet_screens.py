"""The tables of `fleet plan`, `run` and `status` on a terminal of 80 columns, and what they end with."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.cli.commands.fleet.plan import plan_result
from deltacli.cli.render.fleet.status import status_result
from deltacli.cli.terminal.term import Terminal, shorten
from deltacli.core.units import DAY_MS, format_timestamp
from deltacli.engine.base import EmbeddedEngine
from deltacli.fleet.planning.due import plan_fleet
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.fleet.status import read_status
from deltacli.storage import open_storage
from tests.cli.support import deltacli
from tests.docs.test_schemas import faults
from tests.fleet.lake import NOW_MS, write_lake
from tests.fleet.test_status import step, write_run
from tests.support.builder import TableBuilder

NOW_DAY = 400 * DAY_MS
MISSING = {"rule": "data.file-missing", "severity": "error", "message": "x", "path": "p"}
POLICY = """\
[policies.p]
validate = {}
alerts = { checkpoint-age = "2d", small-files = "40%", failed-rules = 9 }
[groups.g]
policy = "p"
tables = ["lake/a"]
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with a policy file the current one."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.toml").write_text(POLICY)
    return tmp_path


def facts(table: str, **numbers: int) -> tuple[str, dict[str, Any]]:
    return "table-facts", {"table": table, "facts": {"logBytes": 9, "logFiles": 9, "commitsBehind": 0, **numbers}}


def status_screen(width: int = 80, most: int = 0) -> list[str]:
    status = read_status(Path("fleet-state"), (), read_fleet_file(Path("fleet.toml")), NOW_DAY)
    sink = io.BytesIO()
    status_result("fleet.toml", status, NOW_DAY, most=most).draw(sink, Terminal(True, width, colour=False))
    return sink.getvalue().decode().splitlines()


def test_a_status_has_a_short_line_per_alert_and_the_worst_first(fleet: Path) -> None:
    counts = {"liveFiles": 100, "smallFiles": 100, "tombstones": 0, "rules": {}}
    old = {"commitsBehind": 1, "checkpointMs": NOW_DAY - 326 * DAY_MS}
    write_run(
        1,
        facts(f"{fleet}/lake/a_harmless", **old),
        step(f"{fleet}/lake/a_harmless", "validate", "done", details=counts),
        step(
            f"{fleet}/lake/b", "validate", "findings", message="2 findings: x.y", details={"findings": [{"rule": "x"}]}
        ),
        ("table-unreadable", {"table": f"{fleet}/lake/c", "code": "log.gap", "message": "commit 3 is missing"}),
        step(f"{fleet}/lake/d", "vacuum", "refused", code="fleet.consent", message="long"),
        step(
            f"{fleet}/z", "validate", "findings", message="12 data files are missing", details={"findings": [MISSING]}
        ),
        facts(f"{fleet}/sound"),
    )

    lines = status_screen()

    table = [line.rstrip() for line in lines[2 : lines.index("")]]
    assert [
        "z                validate: 12 data files are missing",
        "lake/c           commit 3 is missing",
        "lake/b           validate: 2 findings: x.y",
        "lake/d           vacuum lacks consent = true in the policy",
        "lake/a_harmless  last checkpoint is 326 days old (limit 2d)",
        "                 100 % small files (limit 40 %)",
        "sound",
        "no room for group, log; to show them: deltacli --format csv",
    ] == [line[:61].rstrip() for line in table]
    assert "5 of 6 tables have alerts, 1 loses rows, 1 cannot be read" == lines[-1].removeprefix("status").strip()
    following = [line.strip() for line in lines[lines.index("") :] if "deltacli " in line]
    assert "deltacli validate z" in following[0]
    assert max(map(len, lines)) <= 80
    assert ["z", "lake/c"] == [line.split()[0] for line in status_screen(most=2)[2:4]]
    assert [True, False] == ["more with --limit 0" in "\n".join(status_screen(most=most)) for most in (2, 0)]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_size_is_never_cut(fleet: Path, width: int) -> None:
    message = "1 data file is missing; 2 other findings: data.size-mismatch, hint.checkpoint-missing"
    table = f"{fleet}/table"
    step_of_table = step(table, "validate", "findings", message=message, details={"findings": [MISSING]})
    write_run(1, facts(table, logBytes=141_824), facts(f"{fleet}/other"), step(f"{fleet}/other", "validate", "done"))
    write_run(2, step_of_table)

    shown = "\n".join(status_screen(width))

    assert ("138.5 KiB" in shown, "138.5 K…" in shown) == (True, False)


def test_long_names_lose_their_middle() -> None:
    assert "s3://eve…rders_enriched" == shorten("s3://events/raw/orders_enriched", 23, keep_both=True)


def test_next_commands_keep_the_policy_file_the_state_and_the_groups(
    fleet: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.rename("fleet.toml", "other file.toml")
    options = ["--state", "else where", "--only", "g"]
    run(["fleet", "status", "other file.toml", *options])
    first = capfd.readouterr().out
    os.makedirs("else where")
    os.symlink("else where", "fleet-state")
    write_run(1, step("/t", "vacuum", "refused", code="consent.missing"), left=2)
    run(["fleet", "status", "other file.toml", *options])
    second = capfd.readouterr().out

    again = "deltacli fleet run 'other file.toml' --state 'else where' --only g"
    assert f"none yet: {again}\n" in first
    assert f"next        {again} --yes\n" in second
    assert f"to continue: {again} --resume\n" in second


def test_a_plan_leaves_out_estimates_before_it_cuts_the_names_of_tables(tmp_path: Path) -> None:
    names = ["lake/kernel/first-commit-missing", *(f"lake/{'long-' * 12}{number}" for number in range(2))]
    for name in names:
        TableBuilder().commits(2).write(tmp_path / name)
    (tmp_path / "fleet.toml").write_text(POLICY.replace('["lake/a"]', str(names).replace("'", '"')))
    planned = plan_fleet(read_fleet_file(tmp_path / "fleet.toml"), open_storage, EmbeddedEngine(), NOW_MS)
    sink = io.BytesIO()

    plan_result(planned, {}).draw(sink, Terminal(True, 80, colour=False))

    assert names[0] in sink.getvalue().decode()


def test_a_limit_holds_for_documents_lines_and_csv(fleet: Path) -> None:
    write_run(1, *(facts(f"{fleet}/{name}") for name in "abc"), step(f"{fleet}/a", "validate", "done"))
    asked = ("fleet", "status", "--limit", "2", "--format")

    document = deltacli(*asked, "json", cwd=fleet)
    lines = deltacli(*asked, "ndjson", cwd=fleet)
    rows = deltacli(*asked, "csv", cwd=fleet)
    whole = deltacli("fleet", "status", "--json", cwd=fleet).document

    assert [] == faults(document.document, "deltacli.fleet-status")
    assert (2, False) == (len(document.document["tables"]), document.document["complete"])
    assert (3, True) == (len(whole["tables"]), whole["complete"])
    assert '{"type":"end","complete":false,"count":3}' == lines.out.splitlines()[-1]
    assert 3 == len(rows.out.splitlines())
    assert "showing 2 of 3 rows" in rows.err


def test_a_plan_exits_with_1_for_due_steps_and_with_5_for_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_lake(tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = ["fleet", "plan", "--now", format_timestamp(NOW_MS)]
    sound = Path("fleet.toml").read_text().replace('globs = ["lake/*"]', 'tables = ["lake/fresh"]')
    Path("sound.toml").write_text(sound)
    Path("idle.toml").write_text(
        sound.replace('log-expire = { retention = "30d", consent = true }\n', "")
        .replace('vacuum = { every = "7d", retention = "14d", max-delete = "100%", consent = true }\n', "")
        .replace('validate = { every = "1d", ignore = ["hint.*"] }\n', "")
    )

    codes = [run([*asked, *rest]) for rest in ([], ["--exit-code"], ["sound.toml"], ["sound.toml", "--exit-code"])]
    idle = run([*asked, "idle.toml", "--exit-code"])
    text = capfd.readouterr().out

    assert ([5, 5, 0, 1], 0) == (codes, idle)
    assert text.endswith("plan  nothing is due for 1 table\n")


@pytest.mark.parametrize("width", [80, 160])
def test_a_plan_shows_tables_with_the_same_steps_once(tmp_path: Path, width: int) -> None:
    for name in ("a", "b", "c", "d", "long"):
        TableBuilder().commits(5 if name == "long" else 2).write(tmp_path / "lake" / name)
    policy = '[policies.p]\nvalidate = { every = "1d" }\ncheckpoint = { commits = 4 }\n'
    groups = '[groups.g]\npolicy = "p"\ntables = ["lake/a", "lake/b", "lake/long", "lake/c", "lake/d"]\n'
    (tmp_path / "fleet.toml").write_text(policy + groups)
    planned = plan_fleet(read_fleet_file(tmp_path / "fleet.toml"), open_storage, EmbeddedEngine(), NOW_MS)
    shown, piped = io.BytesIO(), io.BytesIO()

    plan_result(planned, {}).draw(shown, Terminal(True, width, colour=False))
    plan_result(planned, {}).draw(piped, Terminal(False, None, colour=False))

    names = [row[:18].strip() for row in shown.getvalue().decode().splitlines()[2:6] if row[:18].strip()]
    assert ["lake/long", "lake/a and 3 more"] == names
    assert 6 == piped.getvalue().decode().partition("\n\n")[0].count("/lake/")
