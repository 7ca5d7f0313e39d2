"""`validate --list-rules`."""

from __future__ import annotations

import csv
import io
import json

from tests.cli.conftest import Run
from tests.cli.pty_session import Session
from tests.cli.test_documents import validate as assert_valid


def test_rules_are_listed_in_every_format_with_an_example(validate: Run) -> None:
    document = validate("--list-rules", "--json").document
    lines = [json.loads(line) for line in validate("--list-rules", "--format", "ndjson").out.splitlines()]
    table = validate("--list-rules", "--select", "commit.bad-json,commit.huge").out.splitlines()
    rows = list(csv.DictReader(io.StringIO(validate("--list-rules", "--format", "csv").out)))

    assert_valid(document, "deltacli.rules")
    for line in lines:
        assert_valid(line, line["type"])
    assert [{"type": "rule", **item} for item in document["items"]] == lines[:-1]
    assert (3, True) == (len(table), table[1].startswith("commit.bad-json  error     log"))
    assert [item["example"] for item in document["items"]] == [row["example"] for row in rows]
    assert [] == [item["rule"] for item in document["items"] if not item["example"] or not item["checks"]]


def test_rules_are_chosen_by_level(validate: Run) -> None:
    def ids(*options: str) -> set[str]:
        return {item["rule"] for item in validate("--list-rules", "--json", *options).document["items"]}

    log, storage, footers, data = (ids("--level", level) for level in ("log", "storage", "footers", "data"))

    assert log < storage < footers < data == ids()
    assert {rule for rule in log if rule.startswith("hint.")} == ids("--select", "hint.*")
    assert data - {rule for rule in data if rule.startswith("hint.")} == ids("--ignore", "hint.*, nothing.such")


def test_a_list_on_a_terminal_is_wrapped_and_not_cut() -> None:
    with Session("validate", "--list-rules", "--select", "commit.bad-json", "--no-pager") as session:
        code, shown = session.finish()

    assert 0 == code
    assert "example" in shown
    assert "…" not in shown
