"""The formats of `validate` against real output and against hostile names: schemas, XML, workflow commands."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft7Validator

from deltacli.cli.output.formats import FORMATS
from deltacli.cli.render.validate.findings import write_text
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name, working_path, working_uri
from deltacli.cli.render.validate.result import FindingsResult
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import CONTROL_CHARACTERS
from deltacli.core.errors import NotATable
from deltacli.delta.log.segment import Place
from deltacli.operations.validate.validate import Validation
from deltacli.rules.framework.base import Finding, Fix, Level, Rule, Severity
from tests.cli.support import ROOT, deltacli, make_sample
from tests.cli.test_documents import validate as assert_valid

SARIF = Draft7Validator(json.loads((ROOT / "tests/support/sarif/sarif-schema-2.1.0.json").read_text(encoding="utf-8")))
PIPE = Terminal(is_terminal=False, width=None, colour=False)
SCREEN = Terminal(is_terminal=True, width=80, colour=False)
TRICKS = "\x9b31m\x7f\u202e\u2066\u061c\u2028"
NASTY = f"100%: a,b\r\n::error::x\x1b[31m \x00 ]]> <&\"' {TRICKS} \ud800 é"
COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^,:\r\n]*,?)+)::([^\r\n]*)")

Json = Any  # Any: JSON values
RULE = Rule(
    "area.what-is-wrong",
    Severity.ERROR,
    Level.STORAGE,
    f"It is wrong: {NASTY}",
    "Section",
    Fix("broken", f"mend {NASTY}", "rows"),
    f"example {NASTY}",
)
QUIET = RULE._replace(id="area.silent", level=Level.LOG, fix=Fix("", "", ""), example="")


def make_table(*findings: Finding, name: str = "./lake/t", uri: str | None = None) -> CheckedTable:
    uri = uri or f"file://{Path.cwd()}/lake/t"
    validation = Validation(uri, 3, "storage", findings, {}, (f"something: {NASTY}",), frozenset({RULE.id, QUIET.id}))
    return CheckedTable(name, validation, findings, {RULE.id: 7}, 0, fails=True)


def make_checkup(*tables: CheckedTable, fail_on: Severity = Severity.ERROR) -> ValidationReport:
    failure = (f"none {NASTY}", NotATable(f"nothing {NASTY}", facts={"path": NASTY}))
    return ValidationReport("storage", fail_on, tables, (failure,), lambda: (RULE, QUIET))


def nasty() -> ValidationReport:
    """A finding whose every text is hostile, a light one without a line, and one about the table itself."""
    place = Place(f"_delta_log/{NASTY}.json", 4, 3, NASTY)
    return make_checkup(
        make_table(
            RULE.at(place, f"message {NASTY}", seen=NASTY, expected=NASTY),
            RULE.at(Place("_delta_log/x.json"), "a light one", severity=Severity.INFO),
            RULE.at(Place(""), "the table"),
        )
    )


def written(form: str, report: ValidationReport, terminal: Terminal = PIPE) -> bytes:
    sink = io.BytesIO()
    FORMATS[form].write(sink, FindingsResult(report, brief=False), terminal)
    return sink.getvalue()


@pytest.fixture
def bad(sample: Path, tmp_path: Path) -> Path:
    """A table with a torn commit and a gap, in lake/ next to a good one."""
    shutil.copytree(sample, tmp_path / "lake" / "good")
    table = Path(shutil.copytree(sample, tmp_path / "lake" / "bad"))
    (table / "_delta_log" / f"{3:020d}.json").unlink()
    (table / "_delta_log" / f"{15:020d}.json").write_text('{"add":{"path":"x"}\n')
    return table


ONLY = ("--select", "commit.*,log.gap")


# JSON, NDJSON, CSV


def test_json_and_ndjson_match_their_schemas_and_each_other(bad: Path) -> None:
    document = deltacli("validate", bad.parent, *ONLY, "--json").document
    *lines, end = map(json.loads, deltacli("validate", bad.parent, *ONLY, "--format", "ndjson").out.splitlines())

    assert_valid(document, "deltacli.validate")
    for line in [*lines, end]:
        assert_valid(line, line["type"])
    assert {"type": "end", "complete": True, "count": 4} == end
    assert [table["summary"] for table in document["tables"]] == [
        line["summary"] for line in lines if line["type"] == "summary"
    ]
    told = [finding for table in document["tables"] for finding in table["findings"]]
    streamed = [line for line in lines if line["type"] == "finding"]
    assert sorted(finding["rule"] for finding in told) == sorted(line["rule"] for line in streamed)
    assert {"errors": 1, "warnings": 1, "infos": 0, "rules": 2} == document["summary"]


def test_a_finding_in_json_is_complete(bad: Path) -> None:
    document = deltacli("validate", bad, "--select", "commit.bad-json", "--json").document
    (finding,) = document["tables"][0]["findings"]

    assert f"file://{bad}" == document["table"] == document["tables"][0]["table"]
    assert ("commit.bad-json", "error", "Delta Log Entries") == tuple(
        finding[name] for name in ("rule", "severity", "spec")
    )
    assert {"path": f"_delta_log/{15:020d}.json", "line": 1, "version": 15} == finding["location"]
    assert {"broken", "repair", "mend", "loss", "command"} == set(finding["fix"])


def test_hostile_documents_match_their_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(written("json", nasty()))

    document["failures"][0]["message"] = "x"
    assert_valid(document, "deltacli.validate")
    assert not document["complete"]


def test_csv_has_one_row_per_finding(bad: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(deltacli("validate", bad, *ONLY, "--format", "csv").out)))

    assert {"commit.bad-json": "1", "log.gap": ""} == {row["rule"]: row["line"] for row in rows}
    assert all(row["mend"] and row["table"] == f"file://{bad}" for row in rows)
    assert 3 == len(list(csv.reader(io.StringIO(written("csv", nasty()).decode(errors="replace"))))) - 1


@pytest.mark.parametrize("form", ["csv", "markdown", "github", "table"])
def test_lists_begin_with_the_errors_and_have_a_command_for_each(tmp_path: Path, form: str) -> None:
    damaged = make_sample(tmp_path / "t", damaged=True)
    arguments = ("validate", damaged, "--level", "storage", "--ignore", "data.expired-*", "--format", form)
    found, by_path = (deltacli(*arguments, *more).out for more in ((), ("--group", "path")))

    def order(text: str) -> list[int]:
        return [
            text.index(rule) for rule in ("data.file-missing", "hint.checkpoint-missing", "property.stats-struct-unset")
        ]

    body, plain = (text[text.find("| rule |") + 1 :] for text in (found, by_path))
    assert sorted(order(body)) == order(body)
    assert order(plain)[0] > order(plain)[2]
    if form == "csv":
        commands = {row["rule"]: row["command"] for row in csv.DictReader(io.StringIO(found))}
        assert f"deltacli repair {damaged} --dry-run" == commands["data.file-missing"]
        assert f"deltacli repair {damaged}" == commands["hint.checkpoint-missing"]
        assert commands["property.stats-struct-unset"].startswith(
            f"deltacli properties {damaged} set delta.checkpoint."
        )


def test_text_shows_control_characters_as_escapes() -> None:
    sink = io.BytesIO()

    write_text(sink, PIPE, nasty(), brief=False)

    text = sink.getvalue().decode("utf-8", "surrogateescape")
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert 3 == sum("[area.what-is-wrong]" in line for line in text.splitlines())


# SARIF


def test_sarif_matches_the_schema_of_oasis(bad: Path) -> None:
    result = deltacli("validate", "lake", "none", *ONLY, "--format", "sarif", cwd=bad.parents[1])
    document = json.loads(result.out)

    assert [] == [fault.message for fault in SARIF.iter_errors(document)]
    (made,) = document["runs"]
    rules = made["tool"]["driver"]["rules"]
    found = {item["ruleId"]: item for item in made["results"]}
    assert {"commit.bad-json": "error", "log.gap": "warning"} == {name: item["level"] for name, item in found.items()}
    assert all(rules[item["ruleIndex"]]["id"] == name for name, item in found.items())
    assert {"commit.bad-json", "commit.empty", "log.gap"} <= {rule["id"] for rule in rules}
    place = found["commit.bad-json"]["locations"][0]["physicalLocation"]
    assert (f"lake/bad/_delta_log/{15:020d}.json", 1) == (
        place["artifactLocation"]["uri"],
        place["region"]["startLine"],
    )
    assert "region" not in found["log.gap"]["locations"][0]["physicalLocation"]
    (run,) = made["invocations"]
    assert not run["executionSuccessful"]
    told = [(item["level"], item["message"]["text"].split(": ")[:2]) for item in run["toolExecutionNotifications"]]
    assert told == [
        ("warning", ["none", "no such file or directory [table.path-missing]"]),
        ("note", ["lake/bad", "not checked"]),
        ("note", ["lake/bad", "not checked"]),
    ]


def test_a_fingerprint_ignores_the_line_and_depends_on_everything_else() -> None:
    place = Place("_delta_log/x.json", 4, 3, "k")
    findings = [
        RULE.at(place, "message", seen=1),
        RULE.at(place._replace(line=9), "other words", seen=1),
        RULE.at(place, "message", seen=2),
        RULE.at(place, "message"),
        RULE.at(place._replace(key="j"), "message", seen=1),
        RULE.at(place._replace(path="y"), "message", seen=1),
        QUIET.at(place, "message", seen=1),
    ]

    document = json.loads(written("sarif", make_checkup(make_table(*findings))))

    prints = [item["partialFingerprints"]["deltacliFinding/v1"] for item in document["runs"][0]["results"]]
    assert prints[0] == prints[1]
    assert len(findings) - 1 == len(set(prints))


def test_hostile_sarif_matches_the_schema() -> None:
    document = json.loads(written("sarif", nasty(), SCREEN))

    assert [] == [fault.message for fault in SARIF.iter_errors(document)]
    uris = [
        item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for item in document["runs"][0]["results"]
    ]
    assert "lake/t" == uris[2]
    assert re.fullmatch(r"lake/t/_delta_log/100%25%3A%20a%2Cb%0D%0A[\x21-\x7e]*\.json", uris[0])


def test_damaged_sarif_is_refused_by_the_schema() -> None:
    document = json.loads(written("sarif", nasty()))
    del document["runs"][0]["results"][0]["message"]

    assert [] != list(SARIF.iter_errors(document))


# JUnit


def test_junit_has_one_suite_per_table_and_one_case_per_rule(bad: Path) -> None:
    result = deltacli("validate", "lake", "none", *ONLY, "--format", "junit", cwd=bad.parents[1])
    root = ElementTree.fromstring(result.out)
    suites = {suite.get("name"): suite for suite in root}

    assert ["lake/bad", "lake/good", "none"] == list(suites)
    assert ["1", "0", "0"] == [suite.get("failures") for suite in suites.values()]
    assert ["0", "0", "1"] == [suite.get("errors") for suite in suites.values()]
    assert (
        sum(int(suite.get("tests", "")) for suite in root)
        == int(root.get("tests", ""))
        == len(root.findall(".//testcase"))
    )
    cases = {case.get("name"): case for case in suites["lake/bad"].findall("testcase")}
    assert {"log.gap", "commit.bad-json", "commit.empty"} <= set(cases)
    failure = cases["commit.bad-json"].find("failure")
    assert failure is not None
    assert f"lake/bad/_delta_log/{15:020d}.json:1: error: " in (failure.text or "")
    assert "fix: " in (failure.text or "")
    assert ["system-out"] == [child.tag for child in cases["log.gap"]]
    assert [] == list(cases["commit.empty"])


def test_fail_on_determines_which_cases_fail(bad: Path) -> None:
    root = ElementTree.fromstring(deltacli("validate", bad, *ONLY, "--format", "junit", "--fail-on", "warning").out)

    assert {"log.gap", "commit.bad-json"} == {
        case.get("name") for case in root.iter("testcase") if case.find("failure") is not None
    }


def test_hostile_junit_is_xml() -> None:
    root = ElementTree.fromstring(written("junit", nasty()))

    (case, silent) = root[0].findall("testcase")
    failure = case.find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("2 findings, the first: message 100%: a,b")
    assert "\\x1b[31m \\x00 ]]> <&\"'" in (failure.text or "")
    assert ("area.silent", []) == (silent.get("name"), list(silent))
    assert ("1", "1") == (root.get("failures"), root.get("errors"))


# GitHub


def unescaped(text: str, *, is_property: bool = False) -> str:
    """What the runner makes of it."""
    pairs = [("%0D", "\r"), ("%0A", "\n"), *((("%3A", ":"), ("%2C", ",")) if is_property else ()), ("%25", "%")]
    for code, character in pairs:
        text = text.replace(code, character)
    return text


def test_github_gets_one_annotation_per_finding(bad: Path) -> None:
    result = deltacli("validate", "lake", *ONLY, "--format", "github", cwd=bad.parents[1])
    found = [COMMAND.fullmatch(line) for line in result.out.splitlines()]

    assert all(found)
    assert {"warning", "error", "notice"} == {match[1] for match in found if match}
    (error,) = (match for match in found if match and match[1] == "error")
    assert f"file=lake/bad/_delta_log/{15:020d}.json,line=1,title=commit.bad-json" == error[2]
    assert "\nfix: " in unescaped(error[3])
    assert "note: 2 tables: 1 error, 1 warning, 0 infos" == result.err.strip()


def test_text_cannot_end_a_workflow_command() -> None:
    lines = written("github", nasty()).decode().split("\n")[:-1]
    found = [COMMAND.fullmatch(line) for line in lines]

    assert 6 == len(lines)  # three findings, those not shown, what was not checked, and a path without a table
    assert all(found), lines
    first = found[0]
    assert first is not None
    properties = dict(pair.split("=", 1) for pair in first[2].split(","))
    assert "lake/t/_delta_log/100%: a,b\r\n::error::x" in unescaped(properties["file"], is_property=True)
    assert "4" == properties["line"]
    assert unescaped(first[3]).startswith("message 100%: a,b\\r\\n::error::x\\x1b[31m")


def test_a_percent_sign_is_not_an_escape() -> None:
    finding = RULE.at(Place("100%2C"), "100%0A")

    (line, *_) = written("github", make_checkup(make_table(finding))).decode().splitlines()

    assert line.startswith("::error file=lake/t/100%252C,title=area.what-is-wrong::100%250A%0Afix: ")


# Places


@pytest.mark.parametrize(
    ("name", "uri", "path", "text", "relative", "as_uri"),
    [
        ("./lake/t", "file://{cwd}/lake/t", "a b", "./lake/t/a b", "lake/t/a b", "lake/t/a%20b"),
        ("lake/t/", "file://{cwd}/lake/t", "", "lake/t/", "lake/t", "lake/t"),
        ("/x/t", "file:///x/t%20u", "p", "/x/t/p", "/x/t u/p", "file:///x/t%20u/p"),
        (".", "file://{cwd}", "_delta_log/a", "./_delta_log/a", "_delta_log/a", "_delta_log/a"),
        ("s3://b/t", "s3://b/t", "p q", "s3://b/t/p q", "s3://b/t/p q", "s3://b/t/p%20q"),
        ("s3://b/t", "s3://b/t", "", "s3://b/t", "s3://b/t", "s3://b/t"),
        ("t", "file://{cwd}/t", "s3://b/x%20y", "s3://b/x%20y", "s3://b/x%20y", "s3://b/x%20y"),
        ("t", "file://{cwd}/t", "at:03/x", "t/at:03/x", "t/at:03/x", "t/at%3A03/x"),
        ("t", "file://{cwd}/t", "/data/x", "/data/x", "/data/x", "file:///data/x"),
        ("t", "file://{cwd}/t", "{cwd}/u/x", "{cwd}/u/x", "u/x", "u/x"),
    ],
)  # fmt: skip
def test_places_are_written_for_editors_and_for_services(
    name: str, uri: str, path: str, text: str, relative: str, as_uri: str
) -> None:
    cwd = str(Path.cwd())
    table = make_table(name=name, uri=uri.format(cwd=cwd))
    place = Place(path.format(cwd=cwd))

    assert text.format(cwd=cwd) == place_name(table, place)
    assert relative == working_path(table, place)
    assert as_uri == working_uri(table, place)


# Names that would write on a terminal, or turn its text around


@pytest.mark.parametrize(
    ("form", "terminal"),
    [("github", PIPE), ("junit", PIPE), ("sarif", PIPE), ("sarif", SCREEN), ("markdown", PIPE)],
)
def test_control_characters_and_line_ends_of_names_do_not_reach_a_pipe(form: str, terminal: Terminal) -> None:
    table = make_table(RULE.at(Place(NASTY, key=NASTY), NASTY, seen=NASTY, expected=NASTY), name=f"./{NASTY}")

    text = written(form, make_checkup(table), terminal).decode()

    assert not CONTROL_CHARACTERS.search(text.replace("\n", ""))
    assert not any(line.lstrip().startswith("::error::x") for line in text.split("\n"))


def test_sarif_keeps_the_original_name() -> None:
    rule = RULE._replace(sentence="", fix=Fix("", "", ""), example="")
    finding = rule.at(Place("x"), "message", seen=TRICKS)
    table = CheckedTable("t", Validation("file:///t", 3, "log", (finding,), {}, ()), (finding,), {}, 0, fails=True)

    text = written("sarif", ValidationReport("log", Severity.ERROR, (table,), (), lambda: (rule,))).decode()

    document = json.loads(text)
    assert not CONTROL_CHARACTERS.search(text[:-1])
    assert TRICKS == document["runs"][0]["results"][0]["properties"]["seen"]


@pytest.mark.parametrize("by_path", [False, True])
def test_a_report_too_long_to_draw_has_one_line_per_finding_errors_first(*, by_path: bool) -> None:
    report = nasty()
    table = report.tables[0]
    note = table.findings[0]._replace(severity=Severity.INFO)
    error = note._replace(severity=Severity.ERROR)
    many = report._replace(tables=(table._replace(findings=(note,) * 1_000 + (error,)),))
    sink = io.BytesIO()

    FindingsResult(many._replace(by_path=by_path), brief=True).draw(sink, Terminal(True, 80, False))

    lines = [line for line in sink.getvalue().decode().splitlines() if f"[{note.rule.id}]" in line]
    assert 1_001 == len(lines)
    assert ": error: " in lines[-1 if by_path else 0]
