"""Kernel reads what deltacli has written: rows, names of columns, older versions, and conditions that skip files."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.engines import require_jars, running_java
from tests.judges.kernel.changes import CHANGES, Change, build_table
from tests.judges.kernel.reader import KernelReader

PAIMON = "paimon-"


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelReader]:
    """Kernel in a Java process, one for all tests of this module."""
    jars = [jar for jar in require_jars() if not jar.name.startswith(PAIMON)]
    with running_java(jars) as jvm:
        yield KernelReader(jvm)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_kernel_reads_all_rows_after(change: Change, kernel: KernelReader, tables: Path) -> None:
    directories = {"table": tables / "table", "other": tables / "other"}
    before = build_table(directories["table"])
    for words in change.commands:
        deltacli(*(word.format(**directories) for word in words))
    target = directories[change.target]
    expected = sorted(change.change_rows(before), key=repr)

    with Comparison(change.name) as comparison:
        comparison.equal("rows", expected, kernel.rows(target))
        comparison.equal("columns", columns_of(target), kernel.columns(target))
        if change.target == "table":
            comparison.equal("rows of version 0", sorted(before, key=repr), kernel.rows(target, version=0))
        for question, is_wanted, operator, column, literal in CONDITIONS:
            found = kernel.rows(target, where=kernel.comparison(operator, column, literal))
            # NaN is not equal to itself, so rows are compared by their representation.
            returned = set(map(repr, found))
            missing = [row for row in expected if is_wanted(row) and repr(row) not in returned]
            comparison.equal(f"rows missing where {question}", [], missing)


def columns_of(table: Path) -> list[str]:
    """Return the names of the columns as deltacli shows them."""
    schema = deltacli("schema", "show", table, "--format", "json").document()
    return [column["name"] for column in schema["schema"]["fields"]]


def _is_above(value: Any, least: float) -> bool:
    """Return whether a number is above another one, where NaN is above all numbers."""
    return value is not None and (value > least or isnan(value))


CONDITIONS = (
    ("id = 5", lambda row: row[0] == 5, "=", "id", 5),
    ("id > 20", lambda row: row[0] > 20, ">", "id", 20),
    ("ratio > 100", lambda row: _is_above(row[2], 100.0), ">", "ratio", 100.0),
    ("p = 'é x'", lambda row: "é x" in row, "=", "p", "é x"),
)
"""A condition, the rows that fulfil it, and the condition as Kernel takes it."""
