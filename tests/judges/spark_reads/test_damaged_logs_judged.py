"""Damaged logs that Spark reads: deltacli reads the same rows, or other ones by a decision, with a note (E83)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judges.answers import Comparison, KnownDifference
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove, to_bytes
from tests.support.builder import EPOCH_MS, TableBuilder

ONE, TWO, THREE = "one.parquet", "two.parquet", "three.parquet"
IDS = {ONE: 1, TWO: 2, THREE: 3}
RECORD = "docs/decisions, damaged logs"


def data_of(name: str) -> bytes:
    """Return a data file whose only row has the id of its name."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array([IDS[name]], pa.int64())}), sink)
    return bytes(sink.getvalue().to_pybytes())


def add_of(name: str) -> Line:
    return add(name, size=len(data_of(name)), records=1, modified_ms=EPOCH_MS)


def table_of(*then: Line, raw: bytes | None = None, name: str = f"{1:020d}.json") -> TableBuilder:
    """Describe a table with the file ONE, and a second commit in a file of any name."""
    table = TableBuilder()
    for path in IDS:
        table.file(path, data_of(path))
    table.commit(commit_info(timestamp=EPOCH_MS), protocol(), metadata(createdTime=EPOCH_MS), add_of(ONE))
    return table.file(f"_delta_log/{name}", to_bytes(then) if raw is None else raw)


def on_a_line(*actions: Line) -> bytes:
    return to_bytes([{kind: action for one in actions for kind, action in one.items()}])


def objects(*actions: Line) -> bytes:
    return b" ".join(json.dumps(action).encode() for action in actions) + b"\n"


def with_repeated_file() -> TableBuilder:
    """Describe a table whose checkpoint has the file ONE twice."""
    actions = [protocol(), metadata(createdTime=EPOCH_MS), add_of(ONE), add_of(TWO)]
    table = TableBuilder()
    for path in IDS:
        table.file(path, data_of(path))
    return table.commit(*actions).checkpoint(0, actions=[*actions, add_of(ONE)])


CASES = {
    "an add and a remove on a line": table_of(raw=on_a_line(add_of(TWO), remove(ONE))),
    "a remove and an add on a line": table_of(raw=on_a_line(remove(ONE), add_of(TWO))),
    "two adds on a line": table_of(raw=objects(add_of(TWO), add_of(THREE))),
    "a remove after an add on a line": table_of(raw=objects(add_of(TWO), remove(ONE))),
    "a remove, then an add of the file": table_of(remove(ONE), add_of(ONE)),
    "an add, then a remove of the file": table_of(add_of(TWO), remove(TWO)),
    "a file twice in a checkpoint": with_repeated_file(),
    "a short name": table_of(add_of(TWO), name="1.json"),
}
KNOWN = [
    KnownDifference("two adds on a line", "rows", f"Spark reads the first only, which would lose rows; {RECORD}"),
    KnownDifference("an add, then a remove of the file", "rows", f"the file may be live; {RECORD}"),
    KnownDifference("a short name", "rows", f"not a name of the protocol, and changes are refused; {RECORD}"),
]


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_log_is_read_as_spark_reads_it_or_as_decided(case: str, spark: SparkJudge, tables: Path) -> None:
    root = CASES[case].write(tables / "t")

    found = deltacli("read", root, "--format", "ndjson")

    assert "note" in found.stderr
    with Comparison(case, KNOWN) as comparison:
        comparison.equal("rows", spark.rows(root), rows_of(found.lines()))


def rows_of(lines: Sequence[Any]) -> list[tuple[Any, ...]]:  # Any: JSON documents, values
    """Return the rows among the lines of `read`, in the order of `SparkJudge.rows`."""
    return sorted((tuple(line["row"].values()) for line in lines if "row" in line), key=repr)
