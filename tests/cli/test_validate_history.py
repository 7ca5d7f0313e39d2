"""`validate --trend`: one line per run, whatever becomes of the run, and what changed since the last one like it."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.running import trend_file
from deltacli.cli.running.trend_entries import TableTally, Tally, TrendEntry, find_comparable_entry, read_trend
from deltacli.cli.running.trend_file import Trend, compare_entries
from tests.cli.conftest import BAD, Run
from tests.cli.pty_session import Session
from tests.cli.support import ROOT
from tests.cli.test_documents import validate as assert_valid
from tests.support.waiting import SECONDS

ONLY = ("--select", "commit.*")
NOW = ("--now", "2026-11-20T06:00:00Z")
FILE = Path("trend.ndjson")


def lines(path: Path = FILE) -> list[Any]:  # Any: JSON
    return [json.loads(line) for line in path.read_text().splitlines()]


def entry(*rules: str, table: str = "t", level: str = "log", timestamp_ms: int = 0, errors: int = 0) -> TrendEntry:
    tally = Tally(errors, 0, 0, 0, 0, dict.fromkeys(rules, 1))
    return TrendEntry(timestamp_ms, level, {}, "error", [TableTally(table, 1, 0, tally)], [], 0)


def test_each_run_adds_a_line_with_its_scope_and_its_findings(lake: Path, validate: Run) -> None:
    Path("lake/bad/_delta_log/00000000000000000015.json").write_text(BAD * 3)

    codes = [
        validate("lake", *ONLY, *NOW, "--trend", str(FILE), "--max-findings", "1").code,
        validate("lake", "none", *ONLY, "--trend", str(FILE), "--exit-zero").code,
        validate("none", "--trend", str(FILE), "--level", "storage", "--fail-on", "info").code,
        validate("lake/deep", *ONLY, "--trend", str(FILE), "--format", "ndjson").code,
    ]
    first, second, third, fourth = lines()

    for line in (first, second, third, fourth):
        assert_valid(line, "deltacli.validate-history")
    assert [1, 3, 3, 0] == codes == [line["exitCode"] for line in (first, second, third, fourth)]
    assert (1795154400000, "2026-11-20T06:00:00.000Z") == (first["timestampMs"], first["timestamp"])
    assert ({"select": ["commit.*"]}, "log", "error") == (first["limits"], first["level"], first["failOn"])
    bad, good = first["tables"]
    assert ("lake/bad", 15, 3, 2, {"commit.bad-json": 3}) == tuple(
        bad[name] for name in ("table", "version", "errors", "suppressed", "rules")
    )
    assert ("lake/deep/good", 14, 0, {}) == tuple(good[name] for name in ("table", "version", "errors", "rules"))
    assert (3, {"commit.bad-json": 3}) == (first["errors"], first["rules"])
    assert (False, [{"table": "none", "code": "table.path-missing"}]) == (second["complete"], second["failures"])
    assert ([], {}, "storage", "info") == (third["tables"], third["limits"], third["level"], third["failOn"])


def test_accepted_findings_are_counted_separately(lake: Path, validate: Run) -> None:
    validate("lake", *ONLY, "--write-baseline", "known.json", "--trend", str(FILE))
    validate("lake", *ONLY, "--baseline", "known.json", "--trend", str(FILE))

    written, held = lines()

    assert [(1, 0), (0, 1)] == [(line["errors"], line["accepted"]) for line in (written, held)]
    assert [0, 0] == [written["exitCode"], held["exitCode"]]
    assert {"select": ["commit.*"], "baseline": True} == held["limits"]


def test_the_limits_of_the_run_are_named(lake: Path, validate: Run) -> None:
    validate("lake/deep", "--level", "data", "--sample", "5%", "--where", "trip > 1", "--trend", "h")

    assert {"sample": "5%", "where": "trip > 1"} == lines(Path("h"))[0]["limits"]


def test_tables_and_history_can_be_moved_together(lake: Path, validate: Run) -> None:
    (lake / "moved").mkdir()
    validate("lake", *ONLY, "--trend", str(FILE))
    for name in ("lake", FILE):
        shutil.move(name, lake / "moved" / name)
    validate("moved/lake", *ONLY, "--trend", "moved/trend.ndjson")

    before, after = read_trend(Path("moved/trend.ndjson").read_bytes(), "")

    assert before.is_comparable_with(after)


def test_a_wrong_command_line_adds_no_line(lake: Path, validate: Run) -> None:
    assert 2 == validate("lake", "--select", "no.rule", "--trend", str(FILE)).code
    assert not FILE.exists()


@pytest.mark.parametrize("start", [b"", b"\n\n"])
def test_a_last_line_without_its_end_gets_one(start: bytes, lake: Path, validate: Run) -> None:
    validate("lake", *ONLY, "--trend", str(FILE))
    FILE.write_bytes(start + FILE.read_bytes().rstrip(b"\n"))
    validate("lake", *ONLY, "--trend", str(FILE))

    assert start + b"{" == FILE.read_bytes()[: len(start) + 1]
    assert 2 == len(read_trend(FILE.read_bytes(), "trend.ndjson"))


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"deltacli.baseline","schemaVersion":1,"findings":[]}\n',
        '{"kind":"deltacli.validate-history","schemaVersion":2}',
        "\xff",
        '{"kind":"deltacli.validate-history","sch',
        "[]",
    ],
)
def test_a_file_that_is_not_a_trend_is_refused_before_anything_is_checked(text: str, lake: Path, validate: Run) -> None:
    validate("lake", *ONLY, "--trend", str(FILE))
    content = FILE.read_bytes() + text.encode("latin-1")
    FILE.write_bytes(content)

    result = validate("lake", *ONLY, "--trend", str(FILE), "--json")

    assert (2, "", "usage.history") == (result.code, result.out, result.error["code"])
    assert "trend.ndjson:2: the line is not a run of validate" == result.error["message"]
    assert content == FILE.read_bytes()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/trend.ndjson", "not found"),
        ("lake", "is not a regular file"),
        ("lake/bad/_delta_log/trend.ndjson", "inside the log"),
        ("known.json", "the same file"),
    ],
)
def test_an_unsuitable_trend_path_is_refused(name: str, said: str, lake: Path, validate: Run) -> None:
    result = validate("lake", *ONLY, "--write-baseline", "known.json", "--trend", name)

    assert (2, "") == (result.code, result.out)
    assert said in result.err


@pytest.mark.halved
def test_runs_that_end_together_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "trend.ndjson"
    program = (
        "import sys\nfrom deltacli.cli.running.trend_file import Trend\n"
        "from tests.cli.test_validate_history import entry\n"
        "trend = Trend(sys.argv[1])\nfor _ in range(200): trend.append(entry(*map('area.{}'.format, range(500))))\n"
    )

    runs = [subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT) for _ in range(2)]

    assert [0, 0] == [run.wait(SECONDS) for run in runs]
    assert 400 == len(read_trend(path.read_bytes(), "trend.ndjson"))


def test_a_lock_that_the_caller_holds_does_not_block_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `flock trend.ndjson deltacli validate …`."""
    monkeypatch.setattr(trend_file, "_LOCK_ATTEMPTS", 2)
    path = tmp_path / "trend.ndjson"
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        Trend(str(path)).append(entry("a.b"))

    assert 1 == len(read_trend(path.read_bytes(), "trend.ndjson"))


def test_only_runs_of_the_same_tables_in_the_same_way_are_compared() -> None:
    now = entry("a.b")
    others = [entry(table="u"), entry(level="storage"), now._replace(limits={"select": ["a.*"]})]

    assert find_comparable_entry([], now) is None
    assert find_comparable_entry(others, now) is None
    assert 7 == (find_comparable_entry([entry(), entry(timestamp_ms=7), *others], now) or now).timestamp_ms


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (entry("a.b", errors=3), entry("c.d", errors=1), "2 errors fewer than 1970-01-01; new: c.d; gone: a.b"),
        (entry(errors=1), entry(errors=2), "1 error more than 1970-01-01"),
        (entry("a.b"), entry("a.b"), "as many findings as on 1970-01-01"),
        (entry(), entry(*"abcdefg"), "as many findings as on 1970-01-01; new: a, b, c, d, e and 2 more"),
    ],
)
def test_a_comparison_is_one_line(before: TrendEntry, now: TrendEntry, said: str) -> None:
    assert said == compare_entries(before, now._replace(timestamp_ms=86_400_000))
    assert said.replace("01-01", "01-01T00:00:00Z") == compare_entries(before, now)


def test_a_terminal_shows_what_changed_and_a_pipe_does_not(lake: Path, validate: Run) -> None:
    assert "" == validate("lake", *ONLY, *NOW, "--trend", str(FILE)).err
    Path("lake/bad/_delta_log/00000000000000000015.json").unlink()
    options = ("lake", *ONLY, "--now", "2026-11-21", "--trend", str(FILE))

    with Session("validate", *options) as session:
        _, shown = session.finish()
    piped = validate(*options)

    assert "note: 1 error fewer than 2026-11-20; gone: commit.bad-json" in shown
    assert "" == piped.err
    assert 3 == len(lines())


def test_the_former_name_of_the_option_does_the_same(lake: Path, validate: Run) -> None:
    validate("lake", *ONLY, "--history", str(FILE))
    both = validate("lake", *ONLY, "--history", str(FILE), "--trend", "other.ndjson")
    shown = validate("--help").out

    assert 1 == len(FILE.read_text().splitlines())
    expected = "error: --history is the former name of --trend; they name different files: trend.ndjson, other.ndjson"
    assert (2, expected) == (
        both.code,
        both.err.splitlines()[0],
    )
    assert ("--trend" in shown, "--history" in shown) == (True, False)
