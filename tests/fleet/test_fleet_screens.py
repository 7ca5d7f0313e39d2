"""The tables of `fleet plan`, `run` and `status` on a terminal of 80 columns, and what they end with."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.cli.render.fleet.check import policy_check_result
from deltacli.cli.render.fleet.plan import plan_result
from deltacli.cli.render.fleet.status import StatusResult, status_result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import count_cells, shorten
from deltacli.core.times import DAY_MS, format_timestamp
from deltacli.engine.embedded import EmbeddedEngine
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


def status_of(sink: io.BytesIO, terminal: Terminal, most: int) -> StatusResult:
    status = read_status(Path("fleet-state"), (), read_fleet_file(Path("fleet.toml")), NOW_DAY)
    result = status_result("fleet.toml", status, NOW_DAY, most=most)
    result.draw(sink, terminal)
    return result


def shown_status(width: int, most: int) -> StatusResult:
    return status_of(io.BytesIO(), Terminal(True, width, colour=False), most)


def status_screen(width: int = 80, most: int = 0) -> list[str]:
    sink = io.BytesIO()
    status_of(sink, Terminal(True, width, colour=False), most)
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

    lines = status_screen(most=20)

    table = [line.rstrip() for line in lines[2 : lines.index("")]]
    assert [
        ("z", "validate: 12 data files are missing"),
        ("lake/c", "commit 3 is missing"),
        ("lake/b", "validate: 2 findings: x.y"),
        ("lake/d", "vacuum lacks consent = true in the policy"),
        ("lake/a_harmless", "last checkpoint is 326 days old (limit 2d)"),
        ("lake/a_harmless", "100 % small files (limit 40 %)"),
        ("sound", "none"),
    ] == [tuple(re.split(" {2,}", line)) for line in table]
    assert "5 of 6 tables have alerts: 1 may lose rows, 1 cannot be read" == lines[-1].removeprefix("status").strip()
    following = [line.strip() for line in lines[lines.index("") :] if "deltacli " in line]
    assert "deltacli validate z" in following[0]
    assert max(map(len, lines)) <= 80
    assert ["z", "lake/c"] == [line.split()[0] for line in status_screen(most=2)[2:4]]
    assert [True, False] == ["more with --limit 0" in "\n".join(status_screen(most=most)) for most in (2, 0)]
    assert "last checkpoint is 326 days old" in "\n".join(status_screen(most=0))


@pytest.mark.parametrize("width", [80, 120])
def test_an_alert_of_many_tables_is_one_row_and_a_note_counts_tables(fleet: Path, width: int) -> None:
    place = "/srv/warehouse/production/eu-central-1"
    lost = [f"{place}/bronze/täglich_{number}" for number in range(4)]
    refused = [f"{place}/silver/facts_{number}" for number in range(28)]
    sound = f"{place}/gold/注文"
    missing = {"message": "3 data files are missing", "details": {"findings": [MISSING]}}
    write_run(
        1,
        *(step(table, "vacuum", "refused", code="fleet.consent", message="long") for table in refused),
        *(step(table, "validate", "findings", **missing) for table in lost),
        facts(sound),
    )

    lines = status_screen(width, most=20)
    cut = shown_status(width, most=1)

    rows = " ".join(" ".join(lines[4 : lines.index("", 2)]).split())
    names = ", ".join(f"bronze/täglich_{number}" for number in range(4))
    assert f"tables below {place}/" == lines[0]
    assert [rows.count(word) for word in ("3 data files are missing", "lacks consent", "28 tables", "none")] == [1] * 4
    assert all(name in rows for name in names.split(", "))
    assert 1 == sum("add consent = true" in line for line in lines)
    assert max(map(count_cells, lines)) <= width
    assert [("showing 4 of 33 tables", "to show all"), ("", "to name each table")] == [
        cut.left_out(),
        shown_status(width, most=20).left_out(),
    ]


def test_rows_that_are_cut_are_noted_also_where_each_table_has_one(fleet: Path) -> None:
    counts = {"liveFiles": 100, "smallFiles": 100, "tombstones": 0, "rules": {}}
    old = {"commitsBehind": 1, "checkpointMs": NOW_DAY - 326 * DAY_MS}
    tables = [f"{fleet}/lake/{name}" for name in ("t1", "t2")]
    write_run(
        1,
        *(facts(table, **old) for table in tables),
        *(step(table, "validate", "done", details=counts) for table in tables),
    )

    assert [("showing 1 of 2 rows", "to show all"), ("", "")] == [
        shown_status(80, most=most).left_out() for most in (1, 2)
    ]


def test_a_pipe_has_the_columns_of_a_screen_with_whole_names(fleet: Path) -> None:
    write_run(1, step("/srv/warehouse/a", "validate", "findings", message="x"), facts("/srv/warehouse/b"))
    sink = io.BytesIO()

    status_of(sink, Terminal(False, None, colour=False), 0)

    rows = [re.split(" {2,}", line) for line in sink.getvalue().decode().partition("\n\n")[0].splitlines()]
    assert [["table", "alert"], ["/srv/warehouse/a", "validate: x"], ["/srv/warehouse/b", "none"]] == rows


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


def test_a_plan_folds_the_names_of_tables(tmp_path: Path) -> None:
    names = ["lake/kernel/first-commit-missing", *(f"lake/{'long-' * 12}{number}" for number in range(2))]
    for name in names:
        TableBuilder().commits(2).write(tmp_path / name)
    (tmp_path / "fleet.toml").write_text(POLICY.replace('["lake/a"]', str(names).replace("'", '"')))
    planned = plan_fleet(read_fleet_file(tmp_path / "fleet.toml"), open_storage, EmbeddedEngine(), NOW_MS)
    result = plan_result(planned, {})
    result.most = 20
    sink = io.BytesIO()

    result.draw(sink, Terminal(True, 80, colour=False))

    lines = sink.getvalue().decode().splitlines()
    assert "".join(line[:20].strip() for line in lines[2:5]).startswith("lake/kernel/first-commit-missing")


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

    result = plan_result(planned, {})
    result.most = 20
    result.draw(shown, Terminal(True, width, colour=False))
    plan_result(planned, {}).draw(piped, Terminal(False, None, colour=False))

    lines = shown.getvalue().decode().splitlines()
    first = [re.split(r"  +(?:g  +)?", line)[:2] for line in lines[2:4]]
    assert [["lake/long", "checkpoint"], ["5 tables", "validate"]] == sorted(first, reverse=True)
    assert result.drawn_screen is not None
    assert planned.summary()["calls"] == sum(row.row.step.estimate.calls for row in result.drawn_screen.rows)
    assert 6 == piped.getvalue().decode().partition("\n\n")[0].count("/lake/")


def test_a_number_of_files_that_exempts_tables_is_no_alert(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(
        POLICY + '[policies.q]\nalerts = { failed-rules = 1 }\n[groups.h]\npolicy = "q"\ntables = ["b"]\n'
    )
    sink = io.BytesIO()

    policy_check_result(read_fleet_file(tmp_path / "fleet.toml")).draw(sink, Terminal(True, 400, colour=False))

    first, second = [re.split(" {2,}", line.strip()) for line in sink.getvalue().decode().splitlines()[2:4]]
    assert (["checkpoint-age", "failed-rules", "small-files"], "tables with fewer than 20 data files") == (
        sorted(first[-2].split()),
        first[-1],
    )
    assert "failed-rules" == second[-1]
