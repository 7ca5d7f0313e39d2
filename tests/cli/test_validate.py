"""`deltacli validate`: tables, exit codes, text, baselines, and the ways a run can end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.cli.running.validation_run import get_failure_exit_code
from deltacli.core.errors import DeltacliError, NotATable, StorageFailed
from deltacli.delta.log.segment import Place
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.table.handle import TableHandle
from tests.cli.conftest import BAD, Run
from tests.cli.pty_session import Session, gate
from tests.cli.screen import as_pasted
from tests.cli.support import ROOT, Result, deltacli
from tests.cli.test_documents import validate as assert_valid
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of

ONLY = ("--select", "commit.*")


def names_of(result: Result) -> list[str]:
    """The tables of a document, by their last two names."""
    return ["/".join(table["table"].split("/")[-2:]) for table in result.document["tables"]]


# The whole program


def test_a_time_of_a_row_is_shown_by_the_program_itself(tmp_path: Path) -> None:
    """Its start leaves packages out that pyarrow looks for when a zone becomes a value for the first time."""
    rows = pa.table({"ts": pa.array([0, -1], pa.timestamp("us", "UTC"))})
    data = parquet_bytes(rows)
    constraint = {"delta.constraints.c": "ts >= '1970-01-01 00:00:00'"}
    table = TableBuilder().file("a.parquet", data)
    table.commit(
        protocol(1, 3),
        metadata(schema_string=schema_of(rows), configuration=constraint),
        add("a.parquet", size=len(data)),
    )

    result = deltacli("validate", table.write(tmp_path), "--level", "data", "--select", "constraint.*", "--json")

    assert (0, ["constraint.violated"]) == (
        result.code,
        [finding["rule"] for finding in result.document["tables"][0]["findings"]],
    )


# Text


@pytest.mark.parametrize("group", ["rule", "path"])
def test_each_fix_of_a_rule_is_shown(group: str, tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"share":Infinity}}]}'
    table = TableBuilder().commit(protocol(), metadata(schema_string=schema))
    table.commit(raw=b'{"commitInfo":{"share":NaN}}')
    root = table.write(tmp_path / "t")
    only = ("--select", "commit.number-not-finite", "--group", group)

    found = deltacli("validate", root, *only, "--json").document["tables"][0]["findings"]
    text = "".join(deltacli("validate", root, *only).out.split())

    fixes = {"".join(finding["fix"]["repair"].replace("file://", "").split()) for finding in found}
    assert 2 == len(fixes)
    assert all(fix in text for fix in fixes)


def test_a_finding_is_a_line_that_an_editor_can_jump_to(lake: Path, validate: Run) -> None:
    for name in ("lake/bad", "./lake/bad", str(lake / "lake" / "bad"), "lake/bad/"):
        first, *rest = validate(name, *ONLY).out.splitlines()

        place, _, message = first.partition(": error: ")
        assert f"{name.rstrip('/')}/_delta_log/00000000000000000015.json:1" == place
        assert message.endswith(" [commit.bad-json]")
        assert ["table", "version", "errors", "warnings", "infos"] == rest[-4].split()
        assert [name, "15", "1", "0", "0"] == rest[-3].split()


def test_the_seen_value_and_the_fix_follow_the_finding_and_the_fix_appears_once(lake: Path, validate: Run) -> None:
    Path("lake/bad/_delta_log/00000000000000000016.json").write_text(BAD)

    full = validate("lake/bad", *ONLY).out
    brief = validate("lake/bad", *ONLY, "--brief").out

    assert 2 == full.count("    seen ")
    assert 1 == full.count("    fix ")
    assert [line for line in full.splitlines() if not line.startswith("    ")] == brief.splitlines()


def test_a_clean_table_prints_only_its_summary_line(lake: Path, validate: Run) -> None:
    result = validate("lake/deep/good", *ONLY)

    assert (0, "") == (result.code, result.err)
    assert [["table", "version", "errors", "warnings", "infos"], ["lake/deep/good", "14", "0", "0", "0"]] == [
        line.split() for line in result.out.splitlines()
    ]


def test_on_a_terminal_the_last_line_is_what_to_run_next(lake: Path) -> None:
    with Session("validate", "lake/bad", *ONLY, "--color", "never") as session:
        found = as_pasted(session.finish()[1]).splitlines()[-1]
    with Session("validate", "lake/deep/good", *ONLY, "--color", "never") as session:
        clean = as_pasted(session.finish()[1]).splitlines()[-1]
    with Session("validate", "lake/bad", *ONLY, "--max-findings", "1", "--color", "never") as session:
        capped = as_pasted(session.finish()[1]).splitlines()

    assert "next: deltacli repair lake/bad --dry-run" == found
    assert "next: deltacli validate lake/deep/good --select 'commit.*' --color never --level storage" == clean
    assert not capped[-1].endswith("--max-findings 0")


def test_findings_above_the_limit_are_counted_and_the_next_command_shows_them(lake: Path, validate: Run) -> None:
    Path("lake/bad/_delta_log/00000000000000000015.json").write_text(BAD * 3)

    result = validate("lake/bad", *ONLY, "--max-findings", "2")
    everything = validate("lake/bad", *ONLY, "--max-findings", "0", "--json")
    document = validate("lake/bad", *ONLY, "--max-findings", "2", "--json").document
    with Session("validate", "lake/bad", *ONLY, "--max-findings", "2", "--color", "never") as session:
        last = as_pasted(session.finish()[1]).splitlines()[-1]

    assert "lake/bad: 1 more of commit.bad-json is not shown" in result.out
    assert 3 == len(everything.document["tables"][0]["findings"])
    assert (False, {"commit.bad-json": 1}) == (document["complete"], document["tables"][0]["suppressed"])
    assert last.startswith("next: deltacli validate lake/bad --select 'commit.*'")
    assert last.endswith("--max-findings 0")


def test_names_cannot_send_control_sequences_to_a_terminal(sample: Path, tmp_path: Path) -> None:
    odd = tmp_path / "a\x1b[31mb"
    shutil.copytree(sample, odd)
    (odd / "_delta_log" / f"{15:020d}.json").write_text(BAD)

    assert "\x1b" not in deltacli("validate", odd, *ONLY).out


# Exit codes


def test_the_exit_code_depends_on_the_severity_of_findings(lake: Path, validate: Run) -> None:
    gap = Path("lake/deep/good/_delta_log/00000000000000000003.json")
    gap.unlink()
    only = ("--select", "log.gap")

    assert 1 == validate("lake/bad", *ONLY).code
    assert 0 == validate("lake/bad", *ONLY, "--exit-zero").code
    assert [0, 1, 1] == [
        validate("lake/deep/good", *only, "--fail-on", weight).code for weight in ("error", "warning", "info")
    ]


def test_a_table_that_cannot_be_opened_is_reported_as_findings(lake: Path, validate: Run) -> None:
    shutil.rmtree("lake/bad/_delta_log")

    result = validate("lake/bad", "--json")

    assert (1, "") == (result.code, result.err)
    assert ["log.not-a-table"] == [finding["rule"] for finding in result.document["tables"][0]["findings"]]


def test_nothing_at_the_path_is_exit_3_and_nothing_on_stdout(lake: Path, validate: Run) -> None:
    text = validate("none")
    document = validate("none", "--format", "ndjson")

    assert (3, "", 3, "") == (text.code, text.out, document.code, document.out)
    assert text.err.startswith("error: none: no such file or directory\n")
    assert_valid(document.error, "error")
    assert ("table.path-missing", "none") == (document.error["code"], document.error["table"])


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv", "sarif", "junit", "github"])
def test_where_one_path_is_missing_the_others_are_checked(form: str, lake: Path, validate: Run) -> None:
    result = validate("none", "lake/bad", "neither", *ONLY, "--format", form)

    assert 3 == result.code
    assert 2 == result.err.count("no such file or directory")
    assert "commit.bad-json" in result.out
    if form == "json":
        assert ["none", "neither"] == [failure["table"] for failure in result.document["failures"]]
        assert not result.document["complete"]
    if form == "ndjson":
        assert not json.loads(result.out.splitlines()[-1])["complete"]


def test_where_every_path_is_missing_each_is_named(lake: Path, validate: Run) -> None:
    result = validate("none", "neither")

    assert (3, "") == (result.code, result.out)
    assert ["error: none: no such file or directory", "error: neither: no such file or directory"] == [
        line for line in result.err.splitlines() if line.startswith("error")
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("t", "--select", "comit.bad-json"), ("'comit.bad-json'", "did you mean 'commit.bad-json'?")),
        (("t", "--select", "commit.*", "--ignore", "commit.*"), ("no rule is left",)),
        (("t", "--select", "log.nested-table"), ("no rule is left", "log.nested-table", "--level storage")),
        (("t", "--max-findings", "-1"), ("negative",)),
        (("t", "--level", "rows"), ("rows",)),
        (("t", "--format", "xml"), ("xml",)),
        (("t", "--baseline", "none.json"), ("none.json", "no such file", "--write-baseline none.json", "hint: ls .")),
        (("--list-rules", "--format", "sarif"), ("--list-rules", "csv")),
        (("t", "--write-baseline", "t/_delta_log/x"), ("inside the log",)),
    ],
)
def test_a_wrong_command_line_is_exit_2(
    arguments: tuple[str, ...], words: tuple[str, ...], lake: Path, validate: Run
) -> None:
    result = validate(*arguments)

    assert (2, "") == (result.code, result.out)
    assert all(word in result.err for word in words), result.err


def test_formats_of_findings_belong_to_validate_alone(lake: Path, validate: Run) -> None:
    result = deltacli("history", "lake/bad", "--format", "sarif", cwd=lake)
    variable = deltacli("history", "lake/bad", cwd=lake, DELTACLI_FORMAT="junit")

    assert (2, 2) == (result.code, variable.code)
    assert "'junit'" in variable.err
    assert "sarif" in deltacli("validate", "lake/bad", *ONLY, cwd=lake, DELTACLI_FORMAT="sarif").out


def test_findings_above_the_limit_have_the_severity_of_their_rule(
    lake: Path, validate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule may report a light case first, and what lies above the limit is counted only."""
    rule = CATALOGUE.rules["log.gap"]
    light = rule.at(Place("_delta_log"), "a light case", severity=Severity.INFO)

    def check(table: TableHandle, *_: object, on_finding: Callable[[Finding], None]) -> Validation:
        on_finding(light)
        return Validation(table.uri, 0, "log", (light,), {"log.gap": 1}, (), frozenset({"log.gap"}))

    monkeypatch.setattr("deltacli.operations.validate.validate.validate_table", check)

    assert 1 == validate("lake/bad").code


def test_the_worst_failure_is_the_exit_code() -> None:
    failures: list[tuple[str, DeltacliError]] = [
        ("a", NotATable("nothing")),
        ("b", StorageFailed("no answer")),
        ("c", NotATable("nothing")),
    ]

    assert 7 == get_failure_exit_code(failures)


# Tables


@pytest.mark.parametrize(
    ("arguments", "tables"),
    [
        (("lake",), ["lake/bad", "deep/good"]),
        (("lake/**",), ["lake/bad", "deep/good"]),
        (("**/good",), ["deep/good"]),
        (("lake/b?d", "lake/bad"), ["lake/bad"]),
        (("lake/*",), ["lake/bad", "deep/good"]),
        (("lake/deep/good", "lake"), ["deep/good", "lake/bad"]),
        (("lake/bad/_delta_log", "lake/bad/day=2026-01-01", "lake/bad"), ["lake/bad"]),
        (("lake/bad", "lake/bad/", "./lake/bad"), ["lake/bad"]),
    ],
)
def test_tables_are_found_below_directories_and_behind_patterns(
    arguments: tuple[str, ...], tables: list[str], lake: Path, validate: Run
) -> None:
    result = validate(*arguments, *ONLY, "--json")

    assert "" == result.err
    assert tables == names_of(result)
    assert (len(tables) == 1) == (result.document["table"] is not None)


def test_paths_that_a_shell_expands_inside_tables_are_skipped_silently(lake: Path) -> None:
    everything = [str(path.relative_to(lake)) for path in sorted(Path("lake").resolve().rglob("*"))]

    result = deltacli("validate", *everything, *ONLY, "--json", cwd=lake)

    assert ["lake/bad", "deep/good"] == names_of(result)
    assert "" == result.err


def test_a_path_inside_a_table_names_the_table(lake: Path, validate: Run) -> None:
    inside = next(path for path in Path("lake/bad").iterdir() if path.name.startswith("day="))

    partition = validate(str(inside), str(inside / "x.parquet"))
    log = validate("./lake/bad/_delta_log")

    assert (3, 3) == (partition.code, log.code)
    assert "hint: deltacli validate ./lake/bad" == log.err.splitlines()[-1]
    assert "this path is inside a table" in partition.err


def test_a_file_next_to_tables_is_skipped_with_a_note_and_alone_is_an_error(lake: Path, validate: Run) -> None:
    Path("lake/README").write_text("")

    beside = validate("lake/README", "lake/deep/good", *ONLY)
    alone = validate("lake/README", *ONLY)

    assert (0, "note: lake/README is a file next to tables and was skipped\n") == (beside.code, beside.err)
    assert (3, "") == (alone.code, alone.out)
    assert "this is a file" in alone.err


def test_a_pattern_without_a_table_is_an_error(lake: Path, validate: Run) -> None:
    result = validate("lake/nothing*", *ONLY)

    assert 3 == result.code
    assert "no table matches this pattern" in result.err


@pytest.mark.parametrize("pattern", ["nothing/**", "nothing/*/t"])
def test_a_pattern_below_nothing_is_nothing_at_a_path(pattern: str, lake: Path, validate: Run) -> None:
    result = validate(pattern, *ONLY)

    assert (3, 1) == (result.code, result.err.count("error:"))
    assert "no such file or directory" in result.err


def test_several_tables_end_with_a_total(lake: Path, validate: Run) -> None:
    rows = [line.split() for line in validate("lake", *ONLY, "--brief").out.splitlines()[-6:-3]]

    assert ["lake/bad", "15", "1", "0", "0"] == rows[0]
    assert ["lake/deep/good", "14", "0", "0", "0"] == rows[1]
    assert ["all", "2", "tables", "1", "0", "0"] == rows[2]


# Ends


def test_findings_are_written_before_the_run_ends(lake: Path) -> None:
    with gate("00000000000000000015.json") as slow:
        out, inlet = os.pipe()
        arguments = ["lake/deep/good", f"gated://{lake}/lake/bad", "--select", "commit.*", "--format", "ndjson"]
        with Session("validate", *arguments, gate=slow, stdout=inlet) as session:
            os.close(inlet)
            slow.wait_for(1)
            first = json.loads(os.read(out, 65536))
            slow.open()
            rest = b""
            while block := os.read(out, 65536):
                rest += block
            code, _ = session.finish()
        os.close(out)

    assert ("summary", 1) == (first["type"], code)
    assert ["finding", "summary", "end"] == [json.loads(line)["type"] for line in rest.splitlines()]


@pytest.mark.parametrize("form", ["table", "ndjson"])
def test_a_closed_pipe_ends_the_run_quietly(form: str, lake: Path) -> None:
    Path("lake/bad/_delta_log/00000000000000000015.json").write_text(BAD * 20_000)
    command = f"{sys.executable} -m deltacli validate lake/bad --select 'commit.*' --max-findings 0 --format {form}"

    done = subprocess.run(
        ["bash", "-c", f'{command} | head -c 100 > head; exit "${{PIPESTATUS[0]}}"'],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert (141, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("form", ["table", "ndjson"])
def test_an_interruption_reports_that_nothing_was_changed(form: str, lake: Path) -> None:
    with gate("00000000000000000015.json") as slow:
        arguments = [f"gated://{lake}/lake/bad", "--format", form, "--log-format", "text", "--output", "result"]
        with Session("validate", *arguments, gate=slow, environment={"DELTACLI_PROGRESS": "never"}) as session:
            slow.wait_for(1)
            session.send(signal.SIGINT)
            slow.open()
            code, shown = session.finish()

    assert (130, "interrupted; nothing was changed") == (code, shown.splitlines()[-1])
    assert ["lake"] == [path.name for path in lake.iterdir()]


def test_the_result_is_written_to_a_file_completely(lake: Path, validate: Run) -> None:
    result = validate("lake", *ONLY, "--format", "sarif", "--output", "result.sarif")

    assert (1, "") == (result.code, result.out)
    assert "note: 2 tables: 1 error, 0 warnings, 0 infos" == result.err.strip()
    assert "2.1.0" == json.loads(Path("result.sarif").read_text())["version"]


def test_progress_counts_tables(lake: Path, validate: Run) -> None:
    result = validate("lake", *ONLY, "--progress", "json")

    steps = [json.loads(line) for line in result.err.splitlines()]
    assert {"looking for tables", "validating"} <= {step["step"] for step in steps}
    assert (2, 2) == next((step["done"], step["total"]) for step in reversed(steps) if step["step"] == "validating")


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "mapped"])
def test_the_files_that_a_vacuum_is_said_to_delete_are_those_that_it_deletes(mapped: bool, tmp_path: Path) -> None:
    column = {"name": "_date", "type": "string", "nullable": True, "metadata": {}}
    configuration = {}
    if mapped:
        column["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "_col-1"}
        configuration = {"delta.columnMapping.mode": "name"}
    old = {"name": ".old", "type": "string", "nullable": True, "metadata": {}}
    before, now = ({"type": "struct", "fields": fields} for fields in ([old], [column]))
    place = (
        TableBuilder()
        .commit(protocol(2, 5), metadata(schema_string=json.dumps(before), partition_columns=[".old"]))
        .commit(metadata(schema_string=json.dumps(now), partition_columns=["_date"], configuration=configuration))
        .write(tmp_path / "t")
    )
    directories = [
        "_backup=2024",
        ".staging=1",
        "_dates",
        "_date",
        "_date=1",
        "_col-1=1",
        ".old=1",
        "%5Fdate=1",
        "x/_tmp=1",
    ]
    directories += ["x", "_change_data", "_delta_index_x", "%2Ehidden", "_other=1", "lance", "iceberg/data"]
    names = [f"{directory}/a{ending}" for directory in directories for ending in (".parquet", "", ".PARQUET", ".csv")]
    names += ["lance/_versions/1.manifest", "iceberg/metadata/v1.metadata.json", "_date=1/.b.parquet", "x/_b.parquet"]
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x")
        os.utime(place / name, (0, 0))

    found = deltacli(
        "validate", place, "--level", "storage", "--select", "data.orphan", "--format", "ndjson", "--max-findings", "0"
    )
    vacuum = deltacli("vacuum", place, "--dry-run", "--format", "ndjson")

    said = {line["location"]["path"] for line in map(json.loads, found.out.splitlines()) if line["type"] == "finding"}
    deleted = {line["path"] for line in map(json.loads, vacuum.out.splitlines()) if "path" in line}
    assert {"_date=1/a.parquet", "x/a.PARQUET"} <= said
    assert sorted(deleted) == sorted(said)
