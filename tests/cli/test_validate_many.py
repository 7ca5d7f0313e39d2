"""`validate` of several tables: a row per table and the totals; findings of one table, or where they are asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.pty_session import Session
from tests.cli.support import deltacli

NOW = ("--now", "2026-02-01")
FINDING = "the line is not JSON"


@pytest.fixture
def several(sample: Path, tmp_path: Path) -> Path:
    """A directory with the tables a, b and c; the newest commit of b is damaged."""
    for name in "abc":
        shutil.copytree(sample, tmp_path / name)
    (tmp_path / "b" / "_delta_log" / f"{14:020}.json").write_text("{")
    return tmp_path


def test_each_table_has_a_row_with_its_verdict_and_the_last_row_has_the_totals(several: Path) -> None:
    result = deltacli("validate", *"abc", *NOW, cwd=several)

    rows = {line.split("  ")[0]: line for line in result.out.splitlines()}
    assert (1, ["table", "a", "b", "c", "all 3 tables"]) == (result.code, list(rows))
    assert "commit.bad-json" in rows["b"]
    assert "not checked" in rows["b"]
    assert ["14", "1"] == rows["b"].split()[1:3]
    assert "1 at risk" in rows["all 3 tables"]
    assert "(logs only)" in rows["all 3 tables"]
    assert FINDING not in result.out


@pytest.mark.parametrize("option", ["-v", "--brief", "--group=path"])
def test_findings_of_several_tables_are_shown_on_request(option: str, several: Path) -> None:
    result = deltacli("validate", *"abc", *NOW, option, cwd=several)

    assert 1 == result.code
    assert FINDING in result.out


def test_findings_of_one_table_are_shown(several: Path) -> None:
    for names in ["b"], ["b", "nowhere"]:
        result = deltacli("validate", *names, *NOW, cwd=several)

        assert FINDING in result.out


def test_documents_have_the_findings_of_all_tables(several: Path) -> None:
    document = deltacli("validate", *"abc", *NOW, "--json", cwd=several).document
    lines = deltacli("validate", *"abc", *NOW, "--format", "ndjson", cwd=several).out
    markdown = deltacli("validate", *"abc", *NOW, "--format", "markdown", cwd=several).out

    assert 1 == document["summary"]["errors"]
    assert [1, 0, 0] == sorted((table["summary"]["errors"] for table in document["tables"]), reverse=True)
    assert FINDING in lines
    assert FINDING in markdown


def test_a_path_that_cannot_be_validated_has_a_row_and_is_not_counted(several: Path) -> None:
    result = deltacli("validate", *"abc", "nowhere", *NOW, cwd=several)

    *_, missing, total = result.out.splitlines()
    assert 3 == result.code
    assert missing.startswith("nowhere ")
    assert "table.path-missing" in missing
    assert total.startswith("all 3 tables ")
    assert "1 path not validated" in total


def test_a_limit_and_a_baseline_are_columns(several: Path) -> None:
    (several / "b" / "_delta_log" / f"{14:020}.json").write_text("{\n" * 3)
    deltacli("validate", *"abc", *NOW, "--write-baseline", "known.json", cwd=several)

    known = deltacli("validate", *"abc", *NOW, "--baseline", "known.json", cwd=several)
    limited = deltacli("validate", *"abc", *NOW, "--max-findings", "1", cwd=several)

    assert (0, 1) == (known.code, limited.code)
    assert "accepted" in known.out.splitlines()[0]
    assert "not shown" in limited.out.splitlines()[0]


def test_a_terminal_names_the_command_that_shows_the_findings(several: Path) -> None:
    tables = [several / name for name in "abc"]

    with Session("validate", *tables, *NOW, "--color", "never", "--no-pager", size=(1_000, 200)) as session:
        code, said = session.finish()

    assert 1 == code
    (command,) = [line for line in said.splitlines() if line.startswith("findings of each table: ")]
    assert command.split(": ", 1)[1].startswith("deltacli validate ")
    assert command.rstrip().endswith(" -v")
    words = command.rstrip().split(": ", 1)[1].split()[1:]
    assert FINDING in deltacli(*words, cwd=several).out
