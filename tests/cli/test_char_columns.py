"""CHAR(n) and VARCHAR(n): their types are shown, and `read` notes where Spark would show other values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.schema.types import PrimitiveType, StructField, is_padded
from tests.cli.support import Result, deltacli
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder

DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
NOTE = "Spark pads char(n)"


def column(name: str, kind: Any, declared: str | None = None) -> dict[str, Any]:  # Any: JSON
    return {"name": name, "type": kind, "nullable": True, "metadata": {} if declared is None else {DECLARED: declared}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    inside = {"type": "struct", "fields": [column("c", "string")]}
    fields = [
        column("code", "string", "char(5)"),
        column("name", "string", "varchar(7)"),
        column("inside", inside, "struct<c:char(3)>"),
        column("plain", "string"),
    ]
    rows = pa.table({"code": ["ab"], "name": ["x"], "inside": [{"c": "q"}], "plain": ["p"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    builder = TableBuilder().commit(
        protocol(),
        metadata(schema_string=json.dumps({"type": "struct", "fields": fields}), partition_columns=[]),
        add("a.parquet", size=len(data), records=1, partition_values={}),
    )
    builder.file("a.parquet", data)
    builder.write(tmp_path / "tbl")
    return tmp_path


def run(home: Path, *words: str) -> Result:
    done = deltacli(*words, cwd=home)
    assert done.code == 0, done.err
    return done


def test_the_schema_shows_types_as_they_were_declared(home: Path) -> None:
    tree = run(home, "schema", "show", "./tbl").out
    rows = run(home, "schema", "show", "./tbl", "--format", "csv").out.splitlines()

    assert "code: char(5)" in tree
    assert "name: varchar(7)" in tree
    assert "inside: struct declared as struct<c:char(3)>" in tree
    assert "plain: string" in tree
    assert ["char(5)", "varchar(7)", "struct", "string", "string"] == [row.split(",")[1] for row in rows[1:]]
    fields = run(home, "schema", "show", "./tbl", "--json").document["schema"]["fields"]
    assert ["string", "string"] == [field["type"] for field in fields[:2]]


@pytest.mark.parametrize(
    ("options", "is_noted"),
    [
        ([], True),
        (["--columns", "code"], True),
        (["--columns", "inside"], True),
        (["--columns", "name,plain"], False),
        (["--columns", "plain", "--where", "code = 'ab'"], True),
        (["--count"], False),
        (["--count", "--where", "code = 'ab   '"], True),
        (["--format", "json"], True),
    ],
)
def test_a_read_notes_columns_that_spark_pads(options: list[str], is_noted: bool, home: Path) -> None:
    done = run(home, "read", "./tbl", *options)

    assert is_noted == (NOTE in done.err)
    assert NOTE not in done.out


@pytest.mark.parametrize(
    ("kind", "declared", "expected"),
    [
        ("string", "char(5)", True),
        ("string", "CHAR (5)", True),
        ("string", "varchar(5)", False),
        ("string", "array<char(1)>", True),
        ("string", "map<varchar(2),varchar(3)>", False),
        ("char(5)", None, True),
        ("varchar(5)", None, False),
        ("string", None, False),
    ],
)
def test_only_char_is_padded(kind: str, declared: str | None, expected: bool) -> None:
    stated = {} if declared is None else {DECLARED: declared}

    assert expected == is_padded(StructField("c", PrimitiveType(kind), True, stated))
