"""Frames of several versions in one query, and cached ones: each has the rows that it has alone.

Spark compares scans by the paths that they were given. Versions of a table with more than 32 files are all given as its
directory.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.spark import read_changes, read_share, read_table, register
from tests.cluster.grown_tables import Grown
from tests.cluster.share_server import serving
from tests.support.actions import Action, Line, add, metadata, remove
from tests.support.effort import is_soaking
from tests.support.row_counts import Rows, count_rows
from tests.support.rows import parquet_bytes, schema_of

WHERE = (None, None, "id < 60", "id % 2 = 0 or a > 5", "p = 1", "p = 0 and id > 20", "a is not null")
COLUMNS = (["id"], ["id", "a"], ["p", "id"], ["a", "p"], ["id", "p", "a"])


class Few(Grown):
    """A table of two directories, whose versions differ in some of many files."""

    def file(self, rows: int = 3) -> Line:
        number, part = self.rows, self.rows // rows % 2
        ids = range(number, number + rows)
        data = parquet_bytes(pa.table({"id": pa.array(ids, pa.int64()), "a": pa.array([each % 7 for each in ids])}))
        path = self.root / f"p={part}" / f"part-{number:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.rows += rows
        return add(f"p={part}/{path.name}", size=len(data), partition_values={"p": str(part)})

    def _metadata(self, **_: pa.DataType) -> Line:
        text = schema_of(pa.schema({"id": pa.int64(), "a": pa.int64(), "p": pa.int32()}).empty_table())
        feed = {"delta.enableChangeDataFeed": "true"}
        return metadata(schema_string=text, partition_columns=["p"], configuration=feed)

    def _removal(self, action: Action) -> Line:
        return remove(action["path"], size=action["size"], partitionValues=action["partitionValues"])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Few:
    """Six versions of 34 files and more: appended, removed, and rows deleted by a vector."""
    table = Few(tmp_path_factory.mktemp("versions") / "t")
    first = table.append(files=40)
    table.append(files=2, rows=5)
    table.remove(first[0])
    table.commit(*(table._removal(action) for action in first[1:5]), table.file(4))
    table.delete(first[7], [1])
    table.append(files=1)
    return table


@pytest.fixture(scope="module")
def address(table: Few, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), {"t": table.root}) as begin:
        yield f"{begin}t"


class Read(NamedTuple):
    """One way to read a version, and its rows as our own scan has them."""

    text: str
    frame: Any  # Any: a DataFrame
    columns: list[str]
    rows: Any  # Any: a pyarrow.Table

    def counts(self, names: list[str]) -> Rows:
        return count_rows([self.rows], names)


def drawn(choose: random.Random) -> tuple[str, list[str], str | None]:
    """How a version is read."""
    kind = choose.choices(["table", "source", "changes", "share", "feed"], [8, 1, 1, 1, 1])[0]
    return kind, choose.choice(COLUMNS), choose.choice(WHERE)


def read(how: tuple[str, list[str], str | None], version: int, session: Any, table: Few, address: str) -> Read:
    """One reading of a version."""
    kind, columns, where = how
    chosen: dict[str, Any] = {"columns": columns, "where": where}
    opened = open_table(table.root)
    match kind:
        case "table":
            frame = read_table(session, table.root, version=version, **chosen)
        case "source":
            columns, chosen = COLUMNS[-1], {}
            source = session.read.format("deltacli").option("versionAsOf", str(version))
            frame = source.load(str(table.root))
        case "share":
            frame = read_share(session, address, version=version, **chosen)
        case "feed":
            frame = read_share(session, address, changes_from=version, changes_to=version, **chosen)
        case _:
            frame = read_changes(session, table.root, version, version, **chosen)
    if kind in ("changes", "feed"):
        rows = opened.changes(from_version=version, to_version=version, **chosen).to_arrow()
    else:
        rows = opened.snapshot(version=version).scan(**chosen).to_arrow()
    return Read(f"{kind} {version} {columns} {where}", frame, columns, rows)


def combined(one: Any, other: Any, names: list[str]) -> Any:  # Any: DataFrames
    """All combinations of two frames in one query: rows, how often, and the name of the combination."""
    from pyspark.sql import functions as fn

    one, other = one.select(*names), other.select(*names)
    parts = {
        "one": one,
        "other": other,
        "union": one.union(other),
        "subtract": one.exceptAll(other),
        "subtracted": other.exceptAll(one),
        "intersect": one.intersectAll(other),
        "join": one.distinct().join(other.distinct(), names),
    }
    counted = [
        part.select(*names).groupBy(*names).agg(fn.count("*").alias("n")).withColumn("name", fn.lit(name))
        for name, part in parts.items()
    ]
    return reduce(lambda left, right: left.union(right), counted)


def expected(one: Rows, other: Rows) -> dict[str, Rows]:
    return {
        "one": one,
        "other": other,
        "union": one + other,
        "subtract": one - other,
        "subtracted": other - one,
        "intersect": one & other,
        "join": Counter(one.keys() & other.keys()),
    }


def found(frame: Any) -> dict[str, Rows]:  # Any: a DataFrame
    rows = frame.toArrow()
    by_name: dict[str, Rows] = {name: Counter() for name in expected(Counter(), Counter())}
    for *values, count, name in zip(*(rows.column(each).to_pylist() for each in rows.schema.names), strict=True):
        by_name[name][tuple(values)] = count
    return by_name


def test_smoke_versions_of_a_directory_are_not_taken_for_each_other(session: Any, tmp_path: Path) -> None:
    table = Few(tmp_path / "t")
    table.append(files=40)
    one = read_table(session, table.root)
    table.append(files=2, rows=5)
    other = read_table(session, table.root)

    assert [(120,), (130,)] == one.groupBy().count().union(other.groupBy().count()).collect()
    assert 10 == other.join(one, "id", "left_anti").count()
    assert 120 == one.cache().count()
    assert 130 == other.count()
    one.unpersist()


def test_smoke_two_frames_in_one_query_have_the_rows_of_each_alone(session: Any, table: Few, address: str) -> None:
    register(session)
    seed = int(os.environ.get("DELTACLI_SEED", "1"))
    choose = random.Random(seed)
    for number in range(200 if is_soaking() else 3):
        hows = [drawn(choose)] * 2 if choose.random() < 0.7 else [drawn(choose), drawn(choose)]  # more alike than not
        is_newest = choose.random() < 0.7  # then Spark has listed the same directory at two moments
        one = read(hows[0], table.version, session, table, address)
        table.append()
        version = table.version if is_newest else choose.randint(1, table.version)
        other = read(hows[1], version, session, table, address)
        names = [name for name in one.columns if name in other.columns]
        if not names:
            continue
        wanted = expected(one.counts(names), other.counts(names))
        cached = choose.choice([None, one.frame, other.frame])
        if cached is not None:
            cached.cache().count()

        assert wanted == found(combined(one.frame, other.frame, names)), (seed, number, one.text, other.text)

        if cached is not None:
            cached.unpersist()
