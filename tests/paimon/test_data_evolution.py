"""What queries of Paimon 1.x miss in tables with data evolution is said before a type changes, and afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.paimon import open_paimon
from deltacli.paimon.data_evolution import MISSED_ROWS, find_missed_rows
from deltacli.paimon.types import parse_type
from tests.paimon.answers import SCHEMAS, Capture, ask
from tests.support.paimon_builder import PaimonBuilder, field

EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
NUMBER = field(0, "id", "INT")
PRICE = field(1, "price", "DECIMAL(10, 2)")
WIDER = field(1, "price", "DECIMAL(14, 4)")


def build(root: Path, *schemas: list[Any], options: Mapping[str, str] = EVOLVING) -> Path:  # Any: JSON values
    table = PaimonBuilder(root)
    for fields in schemas:
        table.schema(*fields, primaryKeys=[], options=dict(options))
    table.snapshot(0, adds={"a": 0})
    return root


def codes(warnings: list[dict[str, str]]) -> list[str]:
    return [warning["code"] for warning in warnings if warning["code"] == MISSED_ROWS]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("TINYINT", "SMALLINT"),
        ("INT", "BIGINT"),
        ("INT", "DOUBLE"),
        ("INT", "DECIMAL(12, 2)"),
        ("INT", "DECIMAL(10, 0)"),
        ("BIGINT", "DECIMAL(19, 0)"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL(9, 2)", "DECIMAL(18, 4)"),
        ("DECIMAL(18, 2)", "DECIMAL(19, 2)"),
        ("DATE", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP(4)"),
        ("TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(9)"),
        ("INT", "STRING"),
        ("STRING", "VARCHAR(3)"),
    ],
)
def test_values_that_are_stored_otherwise_are_missed(before: str, after: str) -> None:
    assert find_missed_rows(parse_type(before), parse_type(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INT NOT NULL", "INT"),
        ("CHAR(3)", "STRING"),
        ("VARCHAR(3)", "STRING"),
        ("VARBINARY(3)", "BYTES"),
        ("DECIMAL(9, 2)", "DECIMAL(18, 2)"),
        ("DECIMAL(19, 2)", "DECIMAL(38, 2)"),
        ("TIMESTAMP(0)", "TIMESTAMP(3)"),
        ("TIMESTAMP(6)", "TIMESTAMP(9)"),
    ],
)
def test_values_that_are_stored_alike_are_found(before: str, after: str) -> None:
    assert find_missed_rows(parse_type(before), parse_type(after)) is None


@pytest.mark.parametrize("command", [("widen-type", "price", "DECIMAL(14, 4)"), ("alter", "type", "price", "DOUBLE")])
def test_the_plan_of_another_type_warns(command: tuple[str, ...], tmp_path: Path, capsys: Capture) -> None:
    root = build(tmp_path / "t", [NUMBER, PRICE])
    name, *words = command
    allowed = ["--allow-lossy"] if name == "alter" else []

    code, out, err = ask(capsys, name, root, *words, *allowed, "--dry-run", "--json")

    assert 0 == code, err
    assert [MISSED_ROWS] == codes(json.loads(out)["warnings"])


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["price", "DECIMAL(12, 2)"], EVOLVING),
        (["price", "DECIMAL(14, 4)"], {}),
        (["price", "DECIMAL(14, 4)"], EVOLVING | {"deltacli.min-paimon": "2"}),
        (["price", "DECIMAL(14, 4)", "--min-paimon", "2"], EVOLVING),
    ],
)
def test_a_plan_after_which_nothing_is_missed_does_not_warn(
    words: list[str], options: dict[str, str], tmp_path: Path, capsys: Capture
) -> None:
    root = build(tmp_path / "t", [NUMBER, PRICE], options=options)

    code, out, err = ask(capsys, "widen-type", root, *words, "--dry-run", "--json")

    assert 0 == code, err
    assert [] == codes(json.loads(out)["warnings"])


def test_a_table_without_rows_misses_none(tmp_path: Path, capsys: Capture) -> None:
    PaimonBuilder(tmp_path / "t").schema(NUMBER, PRICE, primaryKeys=[], options=EVOLVING)
    _, out, _ = ask(capsys, "widen-type", tmp_path / "t", "price", "DECIMAL(14, 4)", "--yes", "--json")

    assert [] == codes(json.loads(out)["warnings"])
    assert () == open_paimon(tmp_path / "t").explain().warnings


def test_explain_says_it_afterwards_in_every_form(tmp_path: Path, capsys: Capture) -> None:
    root = build(tmp_path / "t", [NUMBER, PRICE], [NUMBER, WIDER | {"name": "the price"}])

    code, out, _ = ask(capsys, "explain", root, "--json")
    _, text, _ = ask(capsys, "explain", root)
    _, lines, _ = ask(capsys, "explain", root, "--format", "ndjson")

    found = json.loads(out)
    assert 0 == code
    assert [] == [fault.message for fault in SCHEMAS["deltacli.explain"].iter_errors(found)]
    assert [] == [fault.message for fault in SCHEMAS["explain"].iter_errors(json.loads(lines.splitlines()[0]))]
    ((code_of_warning, message),) = open_paimon(root).explain().warnings
    assert [{"code": code_of_warning, "message": message}] == found["warnings"]
    assert "`the price`" in message
    assert "before schema 1" in message
    assert "data-evolution.enabled" in text


def test_files_of_all_older_layouts_are_concerned(tmp_path: Path) -> None:
    columns = [[NUMBER, field(1, "n", name)] for name in ("STRING", "INT", "BIGINT", "BIGINT")]

    ((_, message),) = open_paimon(build(tmp_path / "t", *columns)).explain().warnings

    assert "miss rows of files written before schema 2" in message


@pytest.mark.parametrize(
    "schemas",
    [
        pytest.param([[NUMBER, PRICE], [NUMBER]], id="dropped"),
        pytest.param([[NUMBER, PRICE], [NUMBER, field(2, "price", "DECIMAL(14, 4)")]], id="another column"),
        pytest.param([[NUMBER, PRICE], [NUMBER, PRICE | {"name": "renamed"}]], id="renamed"),
        pytest.param(
            [
                [NUMBER, field(1, "a", {"type": "ARRAY", "element": "INT"})],
                [NUMBER, field(1, "a", {"type": "ARRAY", "element": "BIGINT"})],
            ],
            id="element",
        ),
    ],
)
def test_explain_says_nothing_of_other_changes(schemas: list[list[Any]], tmp_path: Path) -> None:  # Any: JSON values
    assert () == open_paimon(build(tmp_path / "t", *schemas)).explain().warnings


def test_an_older_schema_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    root = build(tmp_path / "t", [NUMBER, PRICE], [NUMBER, WIDER], [NUMBER, WIDER])
    (root / "schema" / "schema-1").write_bytes(b"")

    ((_, message),) = open_paimon(root).explain().warnings

    assert "before schema 2" in message
