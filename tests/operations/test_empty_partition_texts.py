"""An empty text in a partition column: null by the protocol, the text itself for Spark. `read` says what it decided."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.cli.app import run
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder


def table_by(root: Path, kind: str, *texts: str | None) -> Path:
    """Write a table with one row for each value of the partition column `p`."""
    fields = [
        {"name": name, "type": type_name, "nullable": True, "metadata": {}}
        for name, type_name in (("id", "integer"), ("p", kind))
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), sink)
    data = sink.getvalue().to_pybytes()
    table = TableBuilder()
    adds = []
    for number, text in enumerate(texts):
        table.file(f"{number}.parquet", data)
        adds.append(add(f"{number}.parquet", size=len(data), records=1, partition_values={"p": text}))
    schema = json.dumps({"type": "struct", "fields": fields})
    table.commit(protocol(), metadata(partition_columns=["p"], schema_string=schema), *adds)
    return table.write(root)


def read(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> str:
    """Run `deltacli read`, and return its notes."""
    assert 0 == run(["read", *arguments])
    return capsysbinary.readouterr().err.decode()


@pytest.mark.parametrize(
    "options", [[], ["--where", "p is null"], ["--columns", "p"], ["--count", "--where", "p is null"]]
)
def test_read_notes_that_it_is_null(
    options: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = table_by(tmp_path / "t", "string", "a", "")

    notes = read(capsysbinary, str(root), *options)

    assert "partition column p" in notes
    assert "partition.empty-" in notes
    assert {None, "a"} == set(open_table(root).snapshot().scan().to_arrow()["p"].to_pylist())
    assert "partition.empty-string" in {one.rule.id for one in open_table(root).validate(level="log").findings}


@pytest.mark.parametrize(
    ("kind", "texts", "options"),
    [
        ("string", ["a", None], []),
        ("string", ["a", ""], ["--columns", "id"]),
        ("integer", ["1", ""], []),
    ],
)
def test_read_says_nothing_of_what_all_engines_read_alike(
    kind: str, texts: list[str | None], options: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = table_by(tmp_path / "t", kind, *texts)

    assert "partition column" not in read(capsysbinary, str(root), *options)
