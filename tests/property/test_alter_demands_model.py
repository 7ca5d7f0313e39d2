"""Random changes between appends, against a model of rows: columns, defaults, NOT NULL and CHECK constraints.

The model predicts each verdict. What is refused leaves the log as it was, and each version keeps its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import DeltacliError
from deltacli.engine.embedded import EmbeddedEngine
from tests.support.actions import add as add_file
from tests.support.actions import commit_info
from tests.support.altering import MAPPED, Altering, add, change, drop, rename, table_of
from tests.support.appending import append
from tests.support.committing import commits
from tests.support.effort import examples
from tests.support.reading import NOW_MS
from tests.support.rows import parquet_bytes
from tests.support.validating import validate_table

Row = dict[str, int | None]
ROWS: list[Row] = [{"a": 1, "b": None, "c": 4}, {"a": 3, "b": 2, "c": 0}]
NAMES = ("a", "b", "c", "A", "d", "E.f")
DEFAULTS: dict[str, Any] = {"2": 2, "-1": -1, "null": None, "1 + 1": ..., "'x'": NotImplemented, "b": NotImplemented}
"""SQL -> the value; `...`: only other engines compute it, NotImplemented: it is no default."""


def _holds(compare: Callable[[int, int], bool]) -> Callable[[int | None, int | None], bool]:
    return lambda left, right: left is not None and right is not None and compare(left, right)


CONDITIONS: dict[str, Callable[[int | None, int | None], bool]] = {
    "{0} >= 0": lambda left, _: left is not None and left >= 0,
    "{0} <> 2": lambda left, _: left is not None and left != 2,
    "{0} is null or {0} < 4": lambda left, _: left is None or left < 4,
    "{0} is not null or {1} is not null": lambda left, right: left is not None or right is not None,
    "{0} >= {1}": _holds(lambda left, right: left >= right),
}


class Condition(NamedTuple):
    """A CHECK constraint: its SQL, its columns, and what it says."""

    text: str
    columns: tuple[str, str]
    holds: Callable[[int | None, int | None], bool]

    def names(self, column: str) -> bool:
        return column in self.columns and f"`{column}`" in self.text

    def is_kept(self, row: Row) -> bool:
        return self.holds(*(row.get(name) for name in self.columns))


@dataclass
class Model:
    """A table by its rows. Each method returns the verdict, and makes the change where it is `ok`."""

    rows: list[Row]
    columns: list[str]
    defaults: dict[str, str] = field(default_factory=dict)
    not_null: set[str] = field(default_factory=set)
    constraints: dict[str, Condition] = field(default_factory=dict)

    def add(self, name: str) -> str:
        if name in self.columns:
            return "alter.column-exists" if name in self.not_null else "nothing"
        if self._is_taken(name):
            return "alter.column-exists"
        self.columns.append(name)
        self.rows = [{**row, name: None} for row in self.rows]
        return "ok"

    def rename(self, old: str, new: str) -> str:
        if self._is_taken(new):
            return "alter.column-exists"
        if self._is_checked(old):
            return "alter.check-constraint"
        self.columns = [new if name == old else name for name in self.columns]
        self.rows = [{new if name == old else name: value for name, value in row.items()} for row in self.rows]
        if old in self.defaults:
            self.defaults[new] = self.defaults.pop(old)
        self.not_null = {new if name == old else name for name in self.not_null}
        return "ok"

    def drop(self, name: str) -> str:
        if len(self.columns) == 1:
            return "alter.last-column"
        if self._is_checked(name):
            return "alter.check-constraint"
        self.columns.remove(name)
        self.rows = [{one: value for one, value in row.items() if one != name} for row in self.rows]
        self.defaults.pop(name, None)
        self.not_null.discard(name)
        return "ok"

    def default(self, name: str, text: str | None) -> str:
        if text is not None and DEFAULTS[text] is NotImplemented:
            return "alter.default"
        if self.defaults.get(name) == text:
            return "nothing"
        self.defaults.pop(name, None)
        if text is not None:
            self.defaults[name] = text
        return "ok"

    def set_not_null(self, name: str) -> str:
        if name in self.not_null:
            return "nothing"
        if any(row[name] is None for row in self.rows):
            return "alter.rows-violate"
        self.not_null.add(name)
        return "ok"

    def set_nullable(self, name: str) -> str:
        verdict = "ok" if name in self.not_null else "nothing"
        self.not_null.discard(name)
        return verdict

    def add_constraint(self, name: str, condition: Condition) -> str:
        known = self.constraints.get(name.lower())
        if known is not None:
            return "nothing" if known.text == condition.text else "alter.constraint-exists"
        if not all(condition.is_kept(row) for row in self.rows):
            return "alter.rows-violate"
        self.constraints[name.lower()] = condition
        return "ok"

    def drop_constraint(self, name: str) -> str:
        return "alter.constraint-missing" if self.constraints.pop(name.lower(), None) is None else "ok"

    def append(self, rows: list[Row]) -> str:
        given = rows[0]
        values = {name: DEFAULTS[text] for name, text in self.defaults.items() if name not in given}
        lacking = [name for name in self.not_null if name not in given and name not in self.defaults]
        if lacking or ... in values.values():
            return "append.missing-column"
        whole = [{name: {**values, **row}.get(name) for name in self.columns} for row in rows]
        if not all(self._is_allowed(row) for row in whole):
            return "append.constraint"
        self.rows = self.rows + whole
        return "ok"

    def _is_allowed(self, row: Row) -> bool:
        return all(row[name] is not None for name in self.not_null) and all(
            one.is_kept(row) for one in self.constraints.values()
        )

    def _is_taken(self, name: str) -> bool:
        return name.lower() in [one.lower() for one in self.columns]

    def _is_checked(self, name: str) -> bool:
        return any(one.names(name) for one in self.constraints.values())


def _counted(rows: list[Row]) -> Counter[tuple[tuple[str, int | None], ...]]:
    """Rows without an order, their columns with theirs."""
    return Counter(tuple(row.items()) for row in rows)


class Pair:
    """A table and its model."""

    def __init__(self) -> None:
        data = parquet_bytes(pa.Table.from_pylist(ROWS).cast(pa.schema([(name, pa.int32()) for name in "abc"])))
        builder = table_of("a int, b int, c int").file("f", data)  # without statistics
        self.table = Altering(builder.commit(commit_info(), add_file("f", size=len(data))))
        assert self.table.make(MAPPED) == "ok"
        self.model = Model([dict(row) for row in ROWS], list("abc"))
        self.seen = {2: self.model.rows}

    def step(self, kind: str, first: int, second: int, name: str, text: str, rows: list[list[int | None]]) -> None:
        """Make a change or an append in both, and compare."""
        model, before = self.model, commits(self.table.storage)
        column, other = (model.columns[number % len(model.columns)] for number in (first, second))
        path = f"`{column}`"
        make, asked = self.table.make, f"c{second % 3}" if first % 2 else f"C{second % 3}"
        match kind:
            case "append":
                expected, found = self._append(first, second, rows)
            case "add":
                expected, found = model.add(name), make(add(f"`{name}`", "int"))
            case "rename":
                expected, found = model.rename(column, name), make(rename(path, name))
            case "drop":
                expected, found = model.drop(column), make(drop(path))
            case "default":
                value = None if first % 4 == 3 else text
                expected, found = model.default(column, value), make(change("default", path, default=value))
            case "not-null":
                expected, found = model.set_not_null(column), make(change("not-null", path))
            case "nullable":
                expected, found = model.set_nullable(column), make(change("nullable", path))
            case "check":
                template, holds = list(CONDITIONS.items())[first % len(CONDITIONS)]
                condition = Condition(template.format(path, f"`{other}`"), (column, other), holds)
                expected = model.add_constraint(asked, condition)
                found = make(change("add-constraint", name=asked, expression=condition.text))
            case _:
                expected = model.drop_constraint(asked)
                found = make(change("drop-constraint", name=asked))

        assert (kind, expected) == (kind, found)
        after = commits(self.table.storage)
        assert before == after[: len(before)]
        assert (1 if expected == "ok" else 0) == len(after) - len(before)
        if expected == "ok":
            self.seen[len(after) - 1] = model.rows
            self.require_rows(len(after) - 1)

    def _append(self, first: int, second: int, rows: list[list[int | None]]) -> tuple[str, str]:
        columns = self.model.columns
        given = [name for number, name in enumerate(columns) if number == first % len(columns) or second >> number & 1]
        new: list[Row] = [dict(zip(given, row, strict=False)) for row in rows]
        data = pa.Table.from_pylist(new).cast(pa.schema([(name, pa.int32()) for name in given]))
        expected = self.model.append(new)
        try:
            append(self.table.table, data)
        except DeltacliError as error:
            return expected, error.code
        return expected, "ok"

    def require_rows(self, version: int) -> None:
        rows: list[Any] = [
            row for batch in self.table.table.snapshot(version=version).scan() for row in batch.to_pylist()
        ]
        assert _counted(self.seen[version]) == _counted(rows), version


KINDS = ("append",) * 4 + (
    "add",
    "rename",
    "drop",
    "default",
    "default",
    "not-null",
    "nullable",
    "check",
    "check",
    "uncheck",
)
VALUES = st.one_of(st.none(), st.integers(0, 4))
STEPS = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 63),
    st.integers(0, 63),
    st.sampled_from(NAMES),
    st.sampled_from(sorted(DEFAULTS)),
    st.lists(st.lists(VALUES, min_size=7, max_size=7), min_size=1, max_size=3),
)


@examples(30)
@given(st.lists(STEPS, min_size=4, max_size=14))
def test_rows_keep_what_is_demanded(steps: list[tuple[str, int, int, str, str, list[list[int | None]]]]) -> None:
    pair = Pair()
    for step in steps:
        pair.step(*step)

    for version in pair.seen:
        pair.require_rows(version)
    findings = validate_table(pair.table.storage, EmbeddedEngine(), now_ms=NOW_MS, level="data").findings
    assert [] == [finding for finding in findings if finding.severity == "error"]
