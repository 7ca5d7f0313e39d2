"""Random changes of columns, against a model of rows: every column keeps its values, new ones are null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import Refused
from tests.support.altering import MAPPED, add, change, drop, rename
from tests.support.effort import examples
from tests.support.reading import open_built
from tests.support.rows import parquet_bytes, schema_of, table_of

Row = dict[str, Any]
ROWS: list[Row] = [
    {"a": 1, "b": "x", "s": {"p": 1, "q": None}, "xs": [{"u": 1, "v": 2}]},
    {"a": None, "b": "", "s": None, "xs": None},
    {"a": 3, "b": None, "s": {"p": None, "q": 4}, "xs": [{"u": None, "v": 5}, None]},
]
NAMES = ("a", "b", "c", "d", "E.f", "e")
KINDS = ("add", "rename", "drop", "move", "comment", "add in s", "rename in xs", "drop in s")


def fields_of(rows: list[Row], *way: str) -> list[str]:
    """The names of the columns, or of a nested struct."""
    first: Any = rows[0]
    for step in way:
        first = first[step][0] if isinstance(first[step], list) else first[step]
    return list(first)


def edited(value: Any, way: tuple[str, ...], edit: Any) -> Any:
    """A row whose struct at the end of a way is edited."""
    if value is None:
        return None
    if isinstance(value, list):
        return [edited(one, way, edit) for one in value]
    if not way:
        return edit(value)
    return {name: edited(one, way[1:], edit) if name == way[0] else one for name, one in value.items()}


def was_added(rows: list[Row], way: tuple[str, ...], name: str) -> bool:
    """Whether a column is one that was added: it has no value. To add it again changes nothing."""
    found: list[Any] = []
    for row in rows:
        edited(row, way, lambda one: found.append(one[name]))
    return not any(value is not None for value in found)


def renamed(row: Row, old: str, new: str) -> Row:
    return {new if name == old else name: value for name, value in row.items()}


def moved_first(row: Row, name: str) -> Row:
    return {name: row[name], **row}


def quoted(*names: str) -> str:
    return ".".join(name if name == "element" else f"`{name}`" for name in names)


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.sampled_from(NAMES)), max_size=8))
def test_columns_keep_their_values(steps: list[tuple[str, int, str]]) -> None:
    data = pa.Table.from_pylist(ROWS)
    table = open_built(table_of({"f.parquet": parquet_bytes(data)}, schema_of(data)))
    table.alter([MAPPED], upgrade_protocol=True)
    rows = [dict(row) for row in ROWS]
    for kind, number, name in steps:
        way = ("s",) if kind.endswith("s") and " in " in kind and "xs" not in kind else ("xs",) if "xs" in kind else ()
        if way and way[0] not in rows[0]:
            continue
        known = fields_of(rows, *way)
        chosen, prefix = known[number % len(known)], (*way, "element") if way == ("xs",) else way
        is_taken = name.lower() in [one.lower() for one in known]
        is_kept = not way and chosen in ("s", "xs")  # nested changes go on
        match kind.split()[0]:
            case "add":
                is_same = name in known and was_added(rows, way, name)
                asked, is_possible = add(quoted(*prefix, name), "int"), is_same or not is_taken
                after = [edited(row, way, lambda one, name=name: {**one, name: None}) for row in rows]
            case "rename":
                asked, is_possible = rename(quoted(*prefix, chosen), name), not is_taken
                after = [edited(row, way, lambda one, a=chosen, b=name: renamed(one, a, b)) for row in rows]
            case "drop":
                asked, is_possible = drop(quoted(*prefix, chosen)), len(known) > 1
                after = [
                    edited(row, way, lambda one, a=chosen: {n: v for n, v in one.items() if n != a}) for row in rows
                ]
            case "move":
                asked, is_possible = change("move", quoted(chosen), position="first"), True
                after = [moved_first(row, chosen) for row in rows]
            case _:
                asked, is_possible, after = change("comment", quoted(chosen), comment=name), True, rows
        if is_kept and kind in ("rename", "drop"):
            continue
        if not is_possible:
            with pytest.raises(Refused, match=r"already exists|differs in case|the only field"):
                table.alter([asked])
            continue
        table.alter([asked])
        rows = after

    batches = list(table.snapshot().scan())
    found = [row for batch in batches for row in batch.to_pylist()]

    assert rows == found
    assert [list(row) for row in rows] == [list(row) for row in found]
