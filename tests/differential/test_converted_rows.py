"""A converted directory has the rows that DuckDB reads from its files, for every reader; so have its manifests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from tests.differential.test_rows import PEERS as READERS
from tests.support.parquet_lake import lake, put
from tests.support.peers import ENVIRONMENT_VARIABLE, Task, ask_for_rows, has_peer, peer_python


def rows_of(script: str, place: Path, directory: Path, *columns: str) -> list[str]:
    """The rows that a peer reads, as texts, in an order of their own."""
    python = peer_python()
    peer = "deltalake" if "deltalake" in script else "duckdb"
    if python is None or not has_peer(python, peer):
        pytest.skip(f"{ENVIRONMENT_VARIABLE} names no interpreter with {peer}")
    directory.mkdir()
    (answer,) = ask_for_rows(python, script, [Task("t", str(place), None)], directory)
    assert answer.place is not None, answer.refusal
    with pa.memory_map(str(answer.place)) as source:
        return texts(pa.ipc.open_file(source).read_all(), *columns)


def texts(table: pa.Table, *columns: str) -> list[str]:
    """Rows as texts: days and times as ISO 8601 in UTC."""
    names = columns or sorted(table.column_names)
    return sorted(repr([(name, _text(row[name])) for name in names]) for row in table.select(names).to_pylist())


def _text(value: object) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat().removesuffix("+00:00")
    return str(value) if isinstance(value, float) else value


@pytest.mark.parametrize("script", READERS.values())
def test_the_rows_are_those_of_a_scan_of_the_files(script: str, tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    before = rows_of("parquet_with_duckdb.py", place, tmp_path / "before")

    open_table(place).convert()

    assert 7 == len(before)
    assert before == texts(open_table(place).snapshot().scan().to_arrow())
    assert before == rows_of(script, place, tmp_path / "after")


def test_manifests_name_the_rows_of_the_newest_version(tmp_path: Path) -> None:
    place = lake(tmp_path / "t")
    before = rows_of("parquet_with_duckdb.py", place, tmp_path / "before")
    table = open_table(place)
    table.convert()
    assert (1,) == tuple(table.optimize().versions)

    table.manifest()

    assert before == rows_of("parquet_with_duckdb.py", place, tmp_path / "after")


FILTERED = """
import json, sys
from deltalake import DeltaTable
filters = [("x", "=", 2.0), ("x", ">", 1.0), ("x", "<", 9.0), ("s", "=", sys.argv[2])]
table = DeltaTable(sys.argv[1])
print(json.dumps([len(table.to_pyarrow_table(columns=["x"], filters=[one])) for one in filters]))
"""


@pytest.mark.xfail(strict=True, reason="deltalake skips files where minValues lacks a column")
@pytest.mark.parametrize("rewrites", [False, True])
def test_filters_on_floats_and_long_texts_find_their_rows(rewrites: bool, tmp_path: Path) -> None:
    python, last = peer_python(), "\U0010ffff" * 70
    if python is None or not has_peer(python, "deltalake"):
        pytest.skip(f"{ENVIRONMENT_VARIABLE} names no interpreter with deltalake")
    put(tmp_path / "t", "a.parquet", x=[1.5, 2.0], s=["a", last])
    put(tmp_path / "t", "b.parquet", x=[2.0, float("nan")], s=["b", last])
    put(tmp_path / "t", "c.parquet", x=[2.0, float("inf")], s=["c", last])
    table = open_table(tmp_path / "t")
    table.convert()
    if rewrites:
        assert (1,) == tuple(table.optimize().versions)

    done = subprocess.run(
        [python, "-c", FILTERED, str(tmp_path / "t"), last], capture_output=True, text=True, check=True
    )

    assert [3, 5, 4, 3] == json.loads(done.stdout)


LEFT_BY_OTHERS = """
import shutil, sys
import duckdb, pyarrow, deltalake
deltalake.write_deltalake(sys.argv[1], pyarrow.table({"x": [1]}))
shutil.rmtree(sys.argv[1] + "/_delta_log")
duckdb.sql("copy (select 1::variant as v) to '" + sys.argv[2] + "'")
"""


def test_files_of_a_lost_table_and_variants_are_recognized(tmp_path: Path) -> None:
    python = peer_python()
    if python is None or not (has_peer(python, "deltalake") and has_peer(python, "duckdb")):
        pytest.skip(f"{ENVIRONMENT_VARIABLE} names no interpreter with deltalake and duckdb")
    lost, variant = tmp_path / "lost", tmp_path / "v" / "a.parquet"
    variant.parent.mkdir()
    subprocess.run([python, "-c", LEFT_BY_OTHERS, str(lost), str(variant)], check=True)

    (unknowable,) = open_table(lost).plan_convert().unknowable
    (conflict,) = open_table(variant.parent).plan_convert().conflicts

    assert "delta-rs version" in unknowable.evidence
    assert ("v", "variant") == (conflict.column, conflict.seen)
