"""`validate` of Paimon tables on the command line: formats, baselines, directories with tables of both formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.paimon.answers import SCHEMAS, Capture, ask, lines
from tests.support.builder import TableBuilder
from tests.support.paimon_builder import ID, NAME, PaimonBuilder, field
from tests.support.paimon_corpus import manifest

MAP = field(10, "m", {"type": "MAP", "key": "INT", "value": "INT"})


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """A table with an error and a warning."""
    built = PaimonBuilder(tmp_path / "lake" / "paimon").schema(ID, NAME).snapshot(0, adds={"a": 0})
    return built.schema(ID, NAME, MAP, highestFieldId=9)


def checked(capture: Capture, *arguments: object) -> tuple[int, Any]:  # Any: JSON values
    """Return the exit code and the document, which matches its schema."""
    code, out, err = ask(capture, "validate", *arguments, "--json")
    found = json.loads(out)
    assert [] == [fault.message for fault in SCHEMAS["deltacli.validate"].iter_errors(found)], err
    return code, found


def rules(document: Any) -> list[str]:  # Any: JSON values
    return [finding["rule"] for table in document["tables"] for finding in table["findings"]]


def test_every_step_of_a_branch_is_part_of_one_bar(table: PaimonBuilder, capsys: Capture) -> None:
    table.schema(ID, NAME, prefix="branch/branch-dev/", id=0)
    _, _, err = ask(capsys, "validate", table.root, "--progress", "json")

    steps = [step for step in map(json.loads, err.splitlines()) if step["type"] == "progress"]
    parts = [step for step in steps if step["step"] not in ("looking for tables", "checking branches")]
    assert {
        "reading schemas",
        "reading snapshots",
        "reading lists of manifests",
        "reading the newest manifests",
        "checking schemas",
    } == {step["step"] for step in parts}
    assert [] == [step for step in parts if "share" not in step]
    assert [2] == [step["done"] for step in steps if step["step"] == "checking branches" and step["done"]]


def test_findings_have_a_document_a_verdict_and_lines(table: PaimonBuilder, capsys: Capture) -> None:
    code, found = checked(capsys, table.root)
    told = lines(capsys, "validate", table.root)

    assert (1, "paimon", ["paimon.highest-field-id", "paimon.map-key-nullable"]) == (
        code,
        found["tableFormat"],
        rules(found),
    )
    (one,) = found["tables"]
    assert (1, "wrong rows can be read (paimon.highest-field-id); 1 other problem") == (
        one["version"],
        one["verdict"]["sentence"],
    )
    assert ["finding", "finding", "summary"] == [line["type"] for line in told]
    assert "schema/schema-1" == told[0]["location"]["path"]


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "sarif", "junit", "github"])
def test_every_format_has_the_findings(form: str, table: PaimonBuilder, capsys: Capture) -> None:
    code, out, _ = ask(capsys, "validate", table.root, "--format", form)

    assert (1, True) == (code, all(rule in out for rule in ("paimon.highest-field-id", "paimon.map-key-nullable")))


def test_a_healthy_table_can_be_read(table: PaimonBuilder, capsys: Capture) -> None:
    table.schema(ID, NAME, id=1)

    code, found = checked(capsys, table.root)

    assert (0, "its schemas can be read; nothing found") == (code, found["tables"][0]["verdict"]["sentence"])


def test_a_baseline_accepts_findings(table: PaimonBuilder, tmp_path: Path, capsys: Capture) -> None:
    known = tmp_path / "known.json"
    ask(capsys, "validate", table.root, "--write-baseline", known)
    table.schema(ID, NAME, MAP, highestFieldId=9, options={"bucket": "0"})

    code, found = checked(capsys, table.root, "--baseline", known)

    assert (1, 2) == (code, found["baseline"]["accepted"])
    expected = {"bucket", "highest-field-id", "map-key-nullable", "option-of-old-rows"}
    assert {f"paimon.{name}" for name in expected} == set(rules(found))


def test_tables_of_both_formats_are_found_below_a_directory(table: PaimonBuilder, capsys: Capture) -> None:
    TableBuilder().commits(1).write(table.root.parent / "delta")

    code, found = checked(capsys, table.root.parent)

    assert (1, "delta") == (code, found["tableFormat"])
    assert {"delta": None, "paimon": "paimon"} == {
        one["table"].rpartition("/")[2]: one.get("tableFormat") for one in found["tables"]
    }


def test_profiles_belong_to_a_format(table: PaimonBuilder, capsys: Capture) -> None:
    delta = TableBuilder().commits(1).write(table.root.parent / "delta")

    of_delta = ask(capsys, "validate", table.root, "--profile", "current")
    of_paimon = ask(capsys, "validate", delta, "--profile", "cpp")
    code, found = checked(capsys, table.root, "--profile", "cpp")

    assert (2, "error: --profile current is for Delta tables") == (of_delta[0], of_delta[2].splitlines()[0])
    assert (2, "error: --profile cpp is for Paimon tables") == (of_paimon[0], of_paimon[2].splitlines()[0])
    assert (1, 2) == (code, found["summary"]["errors"])


def test_rules_are_selected_ignored_and_listed(table: PaimonBuilder, capsys: Capture) -> None:
    _, selected = checked(capsys, table.root, "--select", "paimon.map-*")
    _, ignored = checked(capsys, table.root, "--ignore", "paimon.map-*")
    _, listed, _ = ask(capsys, "validate", "--list-rules", "--table-format", "paimon", "--json")
    _, of_delta, _ = ask(capsys, "validate", "--list-rules", "--json")

    assert (["paimon.map-key-nullable"], ["paimon.highest-field-id"]) == (rules(selected), rules(ignored))
    document = json.loads(listed)
    assert [] == list(SCHEMAS["deltacli.rules"].iter_errors(document))
    assert {"paimon"} == {document["tableFormat"], *(item["rule"].partition(".")[0] for item in document["items"])}
    assert "paimon." not in of_delta


def test_without_manifests_the_references_of_data_files_stay_unchecked(table: PaimonBuilder, capsys: Capture) -> None:
    table.snapshot(1, adds={"b": 7})

    _, whole = checked(capsys, table.root, "--select", "paimon.schema-missing")
    _, part = checked(capsys, table.root, "--select", "paimon.schema-missing", "--no-refs")

    assert (["paimon.schema-missing"], []) == (rules(whole), rules(part))
    assert ["the schemas that manifests and data files name, because of --no-refs"] == part["tables"][0]["notChecked"]


def test_every_table_of_the_corpus_has_a_document(corpus: Path, capsys: Capture) -> None:
    for folder in ("pypaimon", "broken"):
        code, found = checked(capsys, corpus / folder)

        assert (1, len(manifest()[folder])) == (code, len(found["tables"]))
