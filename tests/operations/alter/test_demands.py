"""NOT NULL and CHECK constraints: rows that exist are checked, statistics first; cases of the reference suite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from deltacli.core.errors import Refused
from tests.support.actions import Line, commit_info
from tests.support.actions import add as add_file
from tests.support.altering import MAPPED, Altering, change, drop, rename, table_of
from tests.support.altering import add as add_column
from tests.support.builder import TableBuilder
from tests.support.committing import Rivals, commits
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes

Json = Any  # Any: JSON values

ROWS: dict[str, list[Any]] = {
    "num": [1, 2, 3],
    "text": ["a", "b", None],
    "s": [{"x": 1}, {"x": 2}, None],
    "xs": [[1], [2], [None]],
}
COLUMNS = "num int, text string, s struct<x: bigint>, xs array<bigint>"


def added(name: str, rows: Mapping[str, list[Any]], stats: Mapping[str, Json] | None = None) -> tuple[str, bytes, Line]:
    """A file of rows, and its add."""
    data = parquet_bytes(pa.Table.from_pydict(dict(rows)).cast(_types(rows)))
    return name, data, add_file(name, size=len(data), stats=None if stats is None else json.dumps(stats))


def _types(rows: Mapping[str, list[Any]]) -> pa.Schema:
    kinds = {"num": pa.int32(), "text": pa.string(), "s": pa.struct({"x": pa.int64()}), "xs": pa.list_(pa.int64())}
    return pa.schema({name: kinds[name] for name in rows})


def with_rows(*files: tuple[str, bytes, Line], **table: Any) -> TableBuilder:
    builder = table_of(COLUMNS, **table)
    for name, data, _ in files:
        builder.file(name, data)
    return builder.commit(commit_info(), *(line for _, _, line in files))


def constraint(expression: str, name: str = "c") -> dict[str, Json]:
    return change("add-constraint", name=name, expression=expression)


CONDITIONS = {
    # id, condition -> verdict
    ("7.1", "num <"): "constraint.bad-sql",
    ("7.2", "3"): "constraint.bad-sql",
    ("7.3", "nmu > 0"): "usage.column",
    ("7.6", "num < 3"): "alter.rows-violate",
    ("7.7", "text != 'z'"): "alter.rows-violate",
    ("7.9", "s.x > 0"): "alter.rows-violate",
    ("7.9 array", "xs[0] > 0"): "alter.rows-violate",
    ("7.15", "num > 0;"): "ok",
    ("7.16", "((num)) > '0'"): "ok",
    ("7.16 functions", "length(coalesce(text, '')) < 9"): "ok",
    ("7.17", "current_timestamp() > timestamp'2000-01-01'"): "alter.rows-unknown",
    ("7.18", "my_udf(num) > 0"): "alter.rows-unknown",
    ("7.19", "hash(num) <> 0"): "alter.rows-unknown",
    ("true", "num > 0 and num < 9"): "ok",
}
"""Of 7.17 and 7.18 the reference accepts what only it can evaluate; here no engine has checked the rows."""


@pytest.mark.parametrize(("case", "condition"), CONDITIONS, ids=lambda value: value)
def test_a_constraint_holds_for_the_rows_that_exist(case: str, condition: str) -> None:
    table = Altering(with_rows(added("f", ROWS)))

    verdict = table.make(constraint(condition))

    assert CONDITIONS[case, condition] == verdict
    assert ("delta.constraints.c" in table.properties) == (verdict == "ok")
    if verdict == "constraint.bad-sql":  # an upgrade of the protocol would be in vain
        assert verdict == table.make(constraint(condition), consents=False)
    assert [] == table.errors()


NAMES = [
    ("7.4", [constraint("num > 0"), constraint("num > 1", "C")], "alter.constraint-exists"),
    ("7.4 again", [constraint("num > 0"), constraint("num > 0", "C")], "nothing"),
    ("7.5", [constraint("num > 0", "__CHAR_VARCHAR_STRING_LENGTH_CHECK__")], "alter.constraint-name"),
    ("7.10", [change("drop-constraint", name="x")], "alter.constraint-missing"),
    ("7.11", [constraint("num > 0", "Pos"), change("drop-constraint", name="pOS")], "ok"),
    ("7.12", [constraint("num   > 0", "Pos")], "ok"),
    ("7.13", [constraint("num > 0", "Pos")], "ok"),
    ("6.25 then", [constraint("num > 0"), MAPPED, rename("num", "n")], "alter.check-constraint"),
]


@pytest.mark.parametrize(("case", "changes", "verdict"), NAMES, ids=[case for case, _, _ in NAMES])
def test_names_of_constraints(case: str, changes: list[dict[str, Json]], verdict: str) -> None:
    table = Altering(with_rows(added("f", ROWS)))

    assert verdict == [table.make(one) for one in changes][-1]
    assert all(key == key.lower() for key in table.properties if key.startswith("delta.constraints"))
    if case == "7.12":
        assert {"name": "Pos", "expr": "num   > 0"} == table.parameters
    if case == "7.13":
        assert {"name": "Pos", "expr": "num > 0"} == table.parameters


NOT_NULL = {"num": "ok", "text": "alter.rows-violate", "s": "alter.rows-violate", "s.x": "alter.not-null"}


@pytest.mark.parametrize("column", NOT_NULL)
def test_a_column_without_nulls_becomes_not_null(column: str) -> None:
    """5.40: the reference refuses it even of an empty table, because it does not read the rows."""
    table = Altering(with_rows(added("f", ROWS)))

    assert NOT_NULL[column] == table.make(change("not-null", column))
    assert [] == table.errors()


PROVEN = {"numRecords": 3, "nullCount": {"num": 0}, "minValues": {"num": 1}, "maxValues": {"num": 3}}


def test_what_statistics_prove_is_not_read() -> None:
    storage = with_rows(("gone", b"", add_file("gone", size=9, stats=json.dumps(PROVEN)))).in_memory()
    list(storage.delete_many(["gone"]))
    table = Altering(storage)

    assert ["ok", "ok"] == [table.make(change("not-null", "num")), table.make(constraint("num > 0"))]
    assert "alter.rows-unknown" == table.make(constraint("num > 1", "d"))


@pytest.mark.parametrize(("rows", "verdict"), [(ROWS, 3), ({**ROWS, "num": [1, None, 3]}, None)])
def test_rows_that_a_winner_adds_are_checked_before_the_next_try(rows: Mapping[str, Any], verdict: int | None) -> None:
    storage = with_rows(added("f", ROWS)).in_memory()
    name, data, line = added("g", rows)
    storage.put_if_absent(name, data)
    reads = Reads(Rivals(storage, [commit_info(), line]))

    if verdict is None:
        with pytest.raises(Refused, match="1 null in 1 file violates column num"):
            open_at(reads).alter([change("not-null", "num")])
    else:
        assert verdict == open_at(reads).alter([change("not-null", "num")]).committed_version

    assert (3 if verdict is None else 4) == len(commits(storage))
    assert {"f": 1, "g": 1} == {path: reads.opened.count(path) for path in ("f", "g")}


def test_rows_are_checked_again_where_a_winner_replaces_the_column() -> None:
    storage = with_rows(added("f", ROWS)).in_memory()
    Altering(storage).make(MAPPED)
    Altering(storage).make(drop("num"), add_column("num", "int"))
    path = f"_delta_log/{len(commits(storage)) - 1:020d}.json"
    winner = storage.read(path)
    list(storage.delete_many([path]))

    with pytest.raises(Refused, match="3 nulls in 1 file violate column num"):
        open_at(Rivals(storage, winner)).alter([change("not-null", "num")])


class Reads:
    """Notes which files are opened."""

    def __init__(self, inner: Any) -> None:  # Any: a store
        self._inner = inner
        self.opened: list[str] = []

    def __getattr__(self, name: str) -> Any:  # Any: whatever the store has
        return getattr(self._inner, name)

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:  # Any: as in the port
        self.opened.append(path)
        return self._inner.open(path, *arguments, **options)


def clustered(*files: tuple[str, bytes, Line], partitions: tuple[str, ...] = ()) -> Altering:
    return Altering(with_rows(*files, partitions=partitions))


def cluster(*columns: str) -> dict[str, Json]:
    return change("cluster", columns=list(columns))


def test_a_table_is_clustered_by_columns_that_all_files_have_statistics_of() -> None:
    name, data, line = added("f", ROWS, PROVEN)
    table = clustered((name, data, line))

    assert "ok" == table.make(cluster("num"))
    assert {"oldClusteringColumns": "", "newClusteringColumns": "num"} == table.parameters
    assert "nothing" == table.make(cluster("num"))
    assert ["alter.clustering-statistics", "usage.column"] == [table.make(cluster(one)) for one in ("text", "xs")]
    assert ["ok", "nothing"] == [table.make(cluster()), table.make(cluster())]
    assert [] == table.errors()


def test_a_table_with_partitions_is_not_clustered() -> None:
    assert "alter.partitioned" == Altering(table_of("a int, p int", partitions=["p"])).make(cluster("a"))
    assert "ok" == Altering(table_of("a int, p int")).make(cluster("a", "p"))
