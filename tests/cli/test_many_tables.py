"""`checkpoint`, `vacuum` and `optimize` on several tables: plans, one consent, exit codes, documents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.cli.app import run
from deltacli.cli.running.many import EXIT_CODE_ORDER, first_exit_code
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import EXIT_CODES, PermissionRefused
from deltacli.operations.vacuum.full_plan import VacuumChange
from tests.cli.pty_session import Session
from tests.cli.support import ROOT, Result, deltacli
from tests.docs.test_schemas import faults, line_faults

Json = dict[str, Any]  # Any: JSON values

NOW = ("--now", "2026-02-01")
COMMANDS = {"vacuum": [*NOW], "optimize": [], "checkpoint": []}


@pytest.fixture
def several(sample: Path, tmp_path: Path) -> Path:
    """A directory with the tables a, b and c."""
    for name in "abc":
        shutil.copytree(sample, tmp_path / name)
    return tmp_path


def newest(table: Path) -> int:
    return max(int(path.stem) for path in (table / "_delta_log").glob("*.json"))


def many(result: Result) -> list[Json]:
    """Return the documents of a result, which match their schemas."""
    assert [] == faults(result.document, "deltacli.many")
    found: list[Json] = result.document["documents"]
    for one in found:
        assert [] == faults(one, one.get("kind", "error"))
    return found


def broken(table: Path) -> None:
    """Break the newest commit of a table."""
    (table / "_delta_log" / f"{newest(table):020}.json").write_text("{")


# -- plans and consent -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_of_several_has_the_document_that_it_has_alone(command: str, several: Path) -> None:
    words = ["--json", "--dry-run", *(COMMANDS[command] or NOW)]
    alone = [deltacli(command, name, *words, cwd=several).document for name in "abc"]

    result = deltacli(command, *"abc", *words, cwd=several)

    assert (0, "", True) == (result.code, result.err, result.document["complete"])
    assert alone == many(result)


def test_without_consent_all_plans_are_shown_and_nothing_is_changed(several: Path) -> None:
    result = deltacli("vacuum", *"abc", *NOW, cwd=several)
    document = deltacli("vacuum", *"abc", *NOW, "--json", cwd=several)

    assert ["table", "a", "b", "c", "all"] == [line.split()[0] for line in result.out.splitlines()]
    lines = result.err.splitlines()
    what = "delete 33 files (54.6 KiB) of 3 tables: a 11, b 11, c 11"
    assert (4, f"error: nothing was changed: confirmation is required to {what}") == (result.code, lines[0])
    assert "hint: deltacli vacuum a b c --now 2026-02-01 --yes" == lines[-1]
    assert [True] * 3 == [one["dryRun"] for one in many(document)]
    assert (4, "consent.missing") == (document.code, document.error["code"])
    assert [14] * 3 == [newest(several / name) for name in "abc"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_one_question_has_the_sums_and_the_number_of_each_table(answer: str, several: Path) -> None:
    tables = [several / name for name in "abc"]

    with Session("optimize", *tables, "--color", "never", "--no-pager", size=(1_000, 200)) as session:
        asked = session.read_until("[y/N] ")
        session.type(f"{answer}\n")
        code, said = session.finish()

    each = ", ".join(f"{table} 21" for table in tables)
    assert f"rewrite 63 files (98.8 KiB) of 3 tables: {each}? [y/N]" in asked
    assert 1 == said.count("[y/N]")
    assert (answer == "n") is ("cancelled; nothing was changed" in said)
    expected = (0, [15] * 3) if answer == "y" else (4, [14] * 3)
    assert expected == (code, [newest(table) for table in tables])


def test_the_question_says_where_copies_are_kept(several: Path) -> None:
    result = deltacli("vacuum", "a", "b", "--quarantine", "quar", *NOW, cwd=several)

    assert "of 2 tables, with copies in quar: a 11, b 11" in result.err


def test_yes_executes_all(several: Path) -> None:
    result = deltacli("vacuum", *"abc", *NOW, "--yes", "--json", cwd=several)

    assert (0, "") == (result.code, result.err)
    assert [(11, 15, 16)] * 3 == [
        (one["deleted"]["files"], one["startVersion"], one["endVersion"]) for one in many(result)
    ]


def test_checkpoints_need_no_consent(several: Path) -> None:
    result = deltacli("checkpoint", *"abc", "--version", "13", "--json", cwd=several)

    assert (0, [13] * 3) == (result.code, [one["version"] for one in many(result)])
    assert all((several / name / "_delta_log" / f"{13:020}.checkpoint.parquet").exists() for name in "abc")


# -- one of several that fails -----------------------------------------------------------------------------------------


def test_an_error_on_one_table_does_not_stop_the_others(several: Path) -> None:
    broken(several / "b")

    result = deltacli("vacuum", *"abc", *NOW, "--yes", "--json", cwd=several)

    first, second, third = many(result)
    assert (3, False) == (result.code, result.document["complete"])
    assert ("error", 3, "b") == (second["type"], second["exit"], second["table"])
    assert {**result.error, "uri": (several / "b").as_uri()} == second
    assert (11, 11) == (first["deleted"]["files"], third["deleted"]["files"])


def test_a_refused_plan_of_one_table_leaves_the_others_to_be_confirmed(several: Path) -> None:
    shutil.copytree(several / "a", several / "b" / "inner")

    result = deltacli("vacuum", *"abc", *NOW, "--yes", cwd=several)

    assert (4, [16, 14, 16]) == (result.code, [newest(several / name) for name in "abc"])
    assert result.err.startswith("error: b: nothing was changed: ")
    assert "note: 2 of 3 tables done; failed: b" == result.err.splitlines()[-1]


def replaced(table: Path) -> None:
    """Put a copy of a table in its place."""
    shutil.copytree(table, table.with_name("copy"))
    shutil.rmtree(table)
    table.with_name("copy").rename(table)


def rewritten(table: Path) -> None:
    """Put another commit in the place of the newest one."""
    os.utime(table / "_delta_log" / f"{14:020}.json", ns=(0, 0))


def compacted(table: Path) -> None:
    """Do by another run a part of what the plan wants to do. It does the rest, as on one table."""
    assert 0 == deltacli("optimize", table, "--where", "day = '2026-01-01'", "--yes").code


@pytest.mark.parametrize(
    ("happens", "code", "said", "versions"),
    [
        (replaced, 4, "plan.other-place", [15, 14, 15]),
        (rewritten, 4, "plan.other-past", [15, 14, 15]),
        (compacted, 0, '"conflict":', [15, 16, 15]),
    ],
)
def test_each_plan_is_looked_at_again_before_the_deed(
    happens: Callable[[Path], None], code: int, said: str, versions: list[int], several: Path
) -> None:
    tables = [several / name for name in "abc"]

    with Session("optimize", *tables, "--format", "ndjson", "--color", "never", size=(1_000, 200)) as session:
        session.read_until("[y/N] ")
        happens(tables[1])
        session.type("y\n")
        ended, seen = session.finish()

    assert (code, versions) == (ended, [newest(table) for table in tables])
    assert said in seen


def test_an_interruption_stops_between_tables_and_tells_what_is_done(
    several: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    calls: list[object] = []

    def interrupted(*given: Any, **options: Any) -> Any:  # Any: those of `execute_change`
        calls.append(given)
        if len(calls) == 2:
            raise Interrupted(signal.SIGINT)
        return execute_change(*given, **options)

    monkeypatch.setattr("deltacli.api.prepared_change.execute_change", interrupted)
    code = run(["vacuum", *(str(several / name) for name in "abc"), *NOW, "--yes", "--json"])
    out, err = capfdbinary.readouterr()

    document, error = json.loads(out), json.loads(err.splitlines()[-1])
    first, second, third = document["documents"]
    assert (130, False, 11) == (code, document["complete"], first["deleted"]["files"])
    assert ["interrupted"] * 2 == [one["code"] for one in (second, third)]
    assert [str(several / name) for name in "bc"] == [one["table"] for one in (second, third)]
    assert [] == faults(document, "deltacli.many")
    assert error["message"].startswith("interrupted; 1 of 3 tables done; ")
    assert [16, 14, 14] == [newest(several / name) for name in "abc"]


@pytest.mark.parametrize("asks", ["--yes", "--dry-run"])
def test_an_interruption_of_the_plans_leaves_a_document_of_what_is_known(
    asks: str, several: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    plan, calls = VacuumChange.plan, list[object]()

    def interrupted(change: VacuumChange, *given: Any, **options: Any) -> Any:  # Any: those of `plan`
        calls.append(change)
        if len(calls) == 2:
            raise Interrupted(signal.SIGINT)
        return plan(change, *given, **options)

    monkeypatch.setattr(VacuumChange, "plan", interrupted)
    names = [str(several / name) for name in "abc"]
    code = run(["vacuum", *names, *NOW, asks, "--json"])
    out, err = capfdbinary.readouterr()

    document = json.loads(out)
    kinds = [one.get("kind", one.get("code")) for one in document["documents"]]
    first = "interrupted" if asks == "--yes" else "deltacli.vacuum"
    assert (130, False, [first, "interrupted", "interrupted"]) == (code, document["complete"], kinds)
    assert [] == faults(document, "deltacli.many")
    uris = [one.get("uri", one["table"]) for one in document["documents"]]
    assert [Path(name).as_uri() for name in names] == uris
    assert "interrupted" == json.loads(err.splitlines()[-1])["code"]
    assert [14, 14, 14] == [newest(several / name) for name in "abc"]


@pytest.mark.parametrize(
    ("fault", "code"), [(RuntimeError("x"), 70), (OSError(5, "Input/output error"), 7), (MemoryError(), 7)]
)
def test_an_unexpected_error_of_one_table_does_not_stop_the_others(
    fault: Exception,
    code: int,
    several: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    calls: list[object] = []

    def failing(*given: Any, **options: Any) -> Any:  # Any: those of `execute_change`
        calls.append(given)
        if len(calls) == 2:
            raise fault
        return execute_change(*given, **options)

    monkeypatch.setattr("deltacli.api.prepared_change.execute_change", failing)
    ended = run(["vacuum", *(str(several / name) for name in "abc"), *NOW, "--yes", "--json"])

    _, second, _ = json.loads(capfdbinary.readouterr().out)["documents"]
    assert (code, code, str(several / "b")) == (ended, second["exit"], second["table"])
    assert [16, 14, 16] == [newest(several / name) for name in "abc"]


@pytest.mark.parametrize("stop", [Interrupted(signal.SIGINT), PermissionRefused("no"), RuntimeError("x")])
def test_what_was_done_before_an_error_is_in_the_document(
    stop: BaseException, several: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    execute, calls = VacuumChange.execute, list[object]()

    def stopping(change: VacuumChange, gate: Any) -> None:  # Any: a gate of vacuum
        execute(change, gate)
        calls.append(gate)
        if len(calls) == 2:
            raise stop

    monkeypatch.setattr(VacuumChange, "execute", stopping)
    run(["vacuum", *(str(several / name) for name in "abc"), *NOW, "--yes", "--json"])

    document = json.loads(capfdbinary.readouterr().out)
    assert [] == faults(document, "deltacli.many")
    _, done, error, *_ = document["documents"]
    assert (11, "error", str(several / "b")) == (done["deleted"]["files"], error["type"], error["table"])


@pytest.mark.parametrize("is_both", [False, True])
def test_a_table_of_another_format_does_not_stop_the_others(is_both: bool, several: Path) -> None:
    other = several / "c" if is_both else several / "p"
    (other / "schema").mkdir(parents=True)
    (other / "schema" / "schema-0").write_text('{"id":0,"fields":[]}')

    named = deltacli("optimize", other.name, "a", "--dry-run", "--json", cwd=several)
    found = deltacli("optimize", "*", "--dry-run", "--json", cwd=several)

    error, _ = many(named)
    assert (2, 2, other.name) == (named.code, error["exit"], error["table"])
    assert (0, 2 if is_both else 3) == (found.code, len(many(found)))
    assert f"{other.name} is left out" in found.err


def test_tables_that_are_left_out_are_one_note_and_are_not_counted(several: Path) -> None:
    for name in ("p", "q\x1b[31m"):
        (several / name / "schema").mkdir(parents=True)
        (several / name / "schema" / "schema-0").write_text('{"id":0,"fields":[]}')
    broken(several / "b")

    found = deltacli("vacuum", "*", *NOW, "--dry-run", cwd=several)

    (note,) = (line for line in found.err.splitlines() if "left out" in line)
    assert note.startswith("note: p, q\\x1b[31m are left out: ")
    assert "note: 2 of 3 tables done; failed: b" == found.err.splitlines()[-1]


def test_a_wrong_command_line_changes_none(several: Path) -> None:
    result = deltacli("optimize", "a", "b", "--zorder", "absent", "--yes", "--json", cwd=several)

    assert (2, "") == (result.code, result.out)
    assert [14, 14] == [newest(several / name) for name in "ab"]


@pytest.mark.parametrize(
    "words",
    [
        "vacuum a b --save-plan plan.parquet",
        "vacuum a b --apply plan.parquet --yes",
        "vacuum a b --apply plan.parquet --accept-copy --yes",
        "vacuum a b --explain x",
        "vacuum a b --quarantine q --purge-older 1d",
        "checkpoint a b --output x",
    ],
)
def test_options_of_one_table_are_refused(words: str, several: Path) -> None:
    result = deltacli(*words.split(), cwd=several)

    assert (2, "") == (result.code, result.out)
    assert result.err.splitlines()[0].endswith(" works on one table")
    assert not (several / "plan.parquet").exists()


@pytest.mark.parametrize("first", range(9))
def test_the_exit_code_that_counts_first_is_that_of_the_run(first: int) -> None:
    order = (70, 8, 7, 3, 5, 6, 4, 1, 0)

    assert order[first] == first_exit_code(order[first:]) == first_exit_code(order[: first - 1 if first else None : -1])


def test_every_exit_code_has_its_place() -> None:
    assert sorted(EXIT_CODES) == sorted(EXIT_CODE_ORDER)


# -- which tables ------------------------------------------------------------------------------------------------------


def test_a_table_that_is_named_twice_is_done_once(several: Path) -> None:
    os.symlink("a", several / "link")

    result = deltacli("checkpoint", "a", "./a", "link", str(several / "b"), "--dry-run", "--json", cwd=several)

    assert [(several / name).as_uri() for name in "ab"] == [one["table"] for one in many(result)]
    assert ["./a", "link"] == [json.loads(line)["message"].split()[0] for line in result.err.splitlines()]
    assert "link is the same table as a, which is done once" in result.err


def test_a_pattern_stands_for_the_tables_that_match(several: Path) -> None:
    (several / "deep").mkdir()
    (several / "c").rename(several / "deep" / "c")

    result = deltacli("checkpoint", "./**", "--dry-run", "--json", cwd=several)
    none = deltacli("checkpoint", "x*", "--json", cwd=several)

    assert [(several / name).as_uri() for name in ("a", "b", "deep/c")] == [one["table"] for one in many(result)]
    assert (3, "no table matches this pattern") == (none.code, many(none)[0]["message"])


def test_the_current_directory_that_a_pattern_finds_has_a_name(several: Path) -> None:
    result = deltacli("checkpoint", "**", "--dry-run", "--json", cwd=several / "a")

    assert [(several / "a").as_uri()] == [one["table"] for one in many(result)]


def test_a_table_whose_name_looks_like_a_pattern_is_one_table(several: Path) -> None:
    (several / "a").rename(several / "a[1]*")

    result = deltacli("checkpoint", "a[1]*", "--dry-run", "--json", cwd=several)

    assert (0, "deltacli.checkpoint") == (result.code, result.document["kind"])


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("vacuum a plan.parquet --yes", "it is a file; did you mean --apply", "--apply plan.parquet"),
        ("vacuum a new.parquet", "there is no such file or directory; did you mean --save-plan", "--save-plan"),
        ("vacuum a quar --yes", "it is a directory without _delta_log; did you mean --quarantine", "--quarantine quar"),
        ("optimize a ride --yes", "there is no such file or directory; did you mean --zorder ride?", "--zorder ride"),
        ("vacuum a 30 --yes", "there is no such file or directory; did you mean --retention 30d?", "--retention 30d"),
        ("checkpoint a b x/c", "there is no such file or directory", "deltacli checkpoint --help"),
        ("checkpoint . a", "it is a directory without _delta_log", "deltacli checkpoint a"),
    ],
)
def test_the_value_of_a_forgotten_option_is_no_table_and_nothing_is_done(
    words: str, said: str, hint: str, several: Path
) -> None:
    (several / "plan.parquet").touch()
    (several / "quar").mkdir()

    result = deltacli(*words.split(), *(NOW if words.startswith("vacuum") else ()), "--json", cwd=several)

    assert (2, "") == (result.code, result.out)
    assert said in result.error["message"]
    assert hint in (result.error["hint"] or "")
    assert [14] * 3 == [newest(several / name) for name in "abc"]


# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.mark.halved
def test_eight_tables_are_one_document_one_stream_and_one_table(sample: Path, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(8)]
    for name in names:
        shutil.copytree(sample, tmp_path / name)
    uris = [(tmp_path / name).as_uri() for name in names]
    words = ["vacuum", *names, *NOW, "--dry-run"]

    document = deltacli(*words, "--files", "--json", cwd=tmp_path)
    lines = [json.loads(line) for line in deltacli(*words, "--format", "ndjson", cwd=tmp_path).out.splitlines()]
    header, *rows = deltacli(*words, "--format", "csv", cwd=tmp_path).out.splitlines()

    assert uris == [one["table"] for one in many(document)]
    assert [11] * 8 == [len(one["items"]) for one in many(document)]
    assert {"type": "end", "complete": True, "count": 96} == lines.pop()
    assert [] == [fault for line in lines for fault in line_faults(line)]
    assert [uri for uri in uris for _ in range(12)] == [line["table"] for line in lines]
    assert "table,path,sizeBytes,modificationTimeMs,reason,removedAtVersion" == header
    assert [uri for uri in uris for _ in range(11)] == [row.split(",")[0] for row in rows]


def test_a_stream_has_the_error_of_a_table_and_is_not_complete(several: Path) -> None:
    result = deltacli("checkpoint", "x*", "b", "--verify", "--format", "ndjson", cwd=several)

    lines = [json.loads(line) for line in result.out.splitlines()]
    assert ["error", "verification", "end"] == [line["type"] for line in lines]
    assert [] == [fault for line in lines for fault in line_faults(line)]
    assert (3, False, "x*") == (result.code, lines[-1]["complete"], lines[0]["table"])


def test_details_of_each_table_come_with_a_heading_on_request(several: Path) -> None:
    result = deltacli("optimize", "a", "b", "--dry-run", "-v", cwd=several)
    markdown = deltacli("optimize", "a", "b", "--dry-run", "-v", "--format", "markdown", cwd=several)
    check = deltacli("optimize", "a", "b", "--check", cwd=several)

    alone = [deltacli("optimize", name, "--dry-run", cwd=several).out for name in "ab"]
    short = deltacli("optimize", "a", "b", "--dry-run", cwd=several).out
    assert f"a:\n{alone[0]}\nb:\n{alone[1]}\n{short}" == result.out
    assert ["### a", "### b"] == [line for line in markdown.out.splitlines() if line.startswith("#")]
    assert 1 == check.code


# -- one row per table, and the totals ---------------------------------------------------------------------------------


def rows_of(result: Result) -> list[list[str]]:
    """Return the rows of the table that a command prints for several tables, without its heading."""
    return [line.split() for line in result.out.splitlines()[1:]]


WORDS = {"vacuum": [*NOW], "optimize": [], "stats": ["--all"], "checkpoint": []}


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("mode", ["--dry-run", "--yes"])
def test_each_table_is_one_row_and_the_last_line_has_the_totals(command: str, mode: str, several: Path) -> None:
    broken(several / "b")
    words = [command, *"abc", *WORDS[command], *([] if command == "checkpoint" and mode == "--yes" else [mode])]
    totals = deltacli(*words, "--json", cwd=several).document if mode == "--dry-run" else None

    result = deltacli(*words, cwd=several)

    state = "planned" if mode == "--dry-run" else "done"
    assert ["a", "b", "c", "all"] == [row[0] for row in rows_of(result)]
    assert [state, "(commit.bad-json)", state] == [row[-1] for row in rows_of(result)[:3]]
    assert f"2 {state}, 1 failed" in result.out.splitlines()[-1]
    if totals is not None:
        assert {"planned": 2, "failed": 1} == totals["total"]["states"]
        assert totals["total"]["files"] == sum(one["files"] or 0 for one in totals["tables"])


def test_what_was_done_is_counted_and_not_what_was_planned(several: Path) -> None:
    done = deltacli("vacuum", *"ab", *NOW, "--yes", "--json", cwd=several).document

    assert [(11, "done"), (11, "done")] == [(one["files"], one["state"]) for one in done["tables"]]
    assert 22 == done["total"]["files"]
    assert sum(one["deleted"]["sizeBytes"] for one in done["documents"]) == done["total"]["sizeBytes"]


def test_a_refused_table_is_counted_and_its_files_are_in_no_sum(several: Path) -> None:
    shutil.copytree(several / "a", several / "b" / "inner")

    text = deltacli("vacuum", *"abc", *NOW, "--dry-run", cwd=several)
    document = deltacli("vacuum", *"abc", *NOW, "--dry-run", "--json", cwd=several).document

    assert (1, 22) == (document["total"]["refused"], document["total"]["files"])
    assert [11, None, 11] == [one["files"] for one in document["tables"]]
    assert "2 planned, 1 refused" in text.out.splitlines()[-1]
    assert document["tables"][1]["code"] in text.out


def test_tables_with_nothing_to_do_are_rows_of_zeros(several: Path) -> None:
    deltacli("optimize", *"abc", "--yes", cwd=several)

    again = deltacli("optimize", *"abc", "--dry-run", cwd=several)
    document = deltacli("optimize", *"abc", "--yes", "--json", cwd=several).document

    assert [["0", "0"]] * 3 == [row[1:3] for row in rows_of(again)[:3]]
    assert {"tables": 3, "files": 0, "sizeBytes": 0, "refused": 0, "states": {"nothing to do": 3}} == document["total"]


def test_thirty_tables_take_thirty_two_lines_and_a_short_question(sample: Path, tmp_path: Path) -> None:
    names = [f"t{number:02}" for number in range(30)]
    for name in names:
        shutil.copytree(sample, tmp_path / name)

    result = deltacli("vacuum", "*", *NOW, cwd=tmp_path)

    assert [*names, "all"] == [row[0] for row in rows_of(result)]
    assert "delete 330 files" in result.err
    assert "and 25 more" in result.err


def test_the_rows_are_shown_once_where_nobody_agrees(several: Path) -> None:
    with Session("vacuum", *(several / name for name in "ab"), *NOW, "--color", "never", size=(200, 60)) as session:
        asked = session.read_until("[y/N] ")
        session.type("n\n")
        _, said = session.finish()

    assert 1 == asked.count("all 2 tables")
    assert 1 == said.count("all 2 tables")


def test_a_verification_counts_the_files_of_the_checkpoints(several: Path) -> None:
    checkpoint = next((several / "b" / "_delta_log").glob("*.checkpoint.parquet"))
    checkpoint.write_bytes(b"PAR1")

    result = deltacli("checkpoint", *"ab", "--verify", cwd=several)

    assert (1, [["a", "1", "done"], ["b", "1", "findings"]]) == (result.code, rows_of(result)[:2])


def test_a_listing_of_the_files_is_shown_for_each_table(several: Path) -> None:
    result = deltacli("vacuum", "a", "b", *NOW, "--dry-run", "--files", cwd=several)

    assert ["a:", "b:"] == [line for line in result.out.splitlines() if line.endswith(":")]
    assert 22 == sum(line.count(".parquet") for line in result.out.splitlines())


@pytest.mark.parametrize(("hard", "code", "made"), [(200, 0, 15), (60, 2, 14)])
def test_the_limit_of_open_files_is_raised_or_refused_before_anything_is_done(
    hard: int, code: int, made: int, several: Path
) -> None:
    line = f'ulimit -S -n 60 && ulimit -H -n {hard} && "{sys.executable}" -m deltacli optimize a b c --yes --json'

    done = subprocess.run(
        ["bash", "-c", line],
        cwd=several,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert (code, code == 2) == (done.returncode, "3 tables at once need 67 open files" in done.stderr)
    assert [made] * 3 == [newest(several / name) for name in "abc"]
