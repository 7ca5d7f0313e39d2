"""What the suites of Delta-Spark expect of CONVERT and CLONE, as data: the same verdict here, or a named difference.

Left out is what only SQL, a catalog or the settings of a session can say: 9.5, 9.6, 9.8, 9.9, 9.20, 9.29, 9.32 to 9.35,
9.37, 9.38 of CONVERT, and overrides of CLONE (10.8 to 10.11, 10.14 to 10.16).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from tests.support.parquet_lake import put

NAN = float("nan")
Files = dict[str, dict[str, Any] | bytes]  # Any: values of columns


class Case(NamedTuple):
    """`partition` is what the user gives; `outcome` a code, or rows in the order of their texts. `difference` is what
    Spark does otherwise.
    """

    number: str
    files: Files
    outcome: str | list[dict[str, Any]]
    partition: str | None = None
    difference: str = ""
    exclude: tuple[str, ...] = ()


ONE: dict[str, Any] = {"id": [1]}
CONVERSIONS = (
    Case("9.1", {"k=1/a.parquet": ONE}, [{"id": 1, "k": 1}], "k int"),
    Case("9.3", {"a.parquet": {"x": [NAN, 1.0]}}, [{"x": 1.0}, {"x": NAN}]),
    Case("9.4", {"a.parquet": ONE, "b.json": b"{}"}, "convert.conflicts"),
    Case("9.7", {"a.parquet": ONE, "b.json": b"{}"}, [{"id": 1}], exclude=("*.json",), difference="left out by name"),
    Case("9.10", {"k=1/l=2/a.parquet": ONE}, "convert.conflicts", "k int"),
    Case("9.11", {"k=1/l=2/a.parquet": ONE}, "convert.conflicts", "k int, l22 int"),
    Case("9.12", {"k=randomstring/a.parquet": ONE}, "convert.conflicts", "k int"),
    Case("9.13a", {"a.parquet": ONE, "k=1/b.parquet": ONE}, "convert.conflicts"),
    Case("9.13b", {"a.parquet": ONE, "k=1/b.parquet": ONE}, "convert.conflicts", "k int"),
    Case("9.14a", {"_hidden": b""}, "convert.no-files"),
    Case("9.14b", {}, "table.path-missing"),
    Case("9.15", {"a.parquet": ONE, "b.parquet": {"id": ["x"]}}, "convert.conflicts"),
    Case("9.16", {"a.parquet": ONE, "b.parquet": {"b": [2]}}, [{"id": 1, "b": None}, {"id": None, "b": 2}]),
    Case(
        "9.18",
        {"a.parquet": {"id": pa.array([1], pa.int16())}, "b.parquet": {"id": pa.array([70_000], pa.int32())}},
        [{"id": 1}, {"id": 70_000}],
    ),
    Case(
        "9.19",
        {"a.parquet": ONE, "_spark_metadata/0": b"v1"},
        "convert.spark-metadata",
        difference="takes the files that it names",
    ),
    Case("9.21a", {"a b=1/a.parquet": ONE}, "convert.conflicts"),
    Case("9.21b", {"k=a b/a.parquet": ONE}, [{"id": 1, "k": "a b"}], difference="refuses values with these characters"),
    Case("9.22", {"k=%25!@#$^&*-?.+<_>%2F/a.parquet": ONE}, [{"id": 1, "k": "%!@#$^&*-?.+<_>/"}]),
    Case("9.23", {"a.parquet": ONE, "random_dir/": b"", "k=1/": b""}, [{"id": 1}]),
    Case("9.24", {"x=y.parquet": ONE, "none": {"id": [2]}}, [{"id": 1}, {"id": 2}]),
    Case("9.25", {"_k=1/.l=2/a.parquet": ONE}, [{"id": 1, "_k": 1, ".l": 2}]),
    Case("9.26", {"id=7/a.parquet": ONE}, [{"id": 7}]),
    Case(
        "9.27",
        {"d=__HIVE_DEFAULT_PARTITION__/a.parquet": ONE, "d=2026-01-01/b.parquet": {"id": [2]}},
        [{"id": 1, "d": None}, {"id": 2, "d": "2026-01-01"}],
        "d date",
    ),
    Case("9.28", {"k=/a.parquet": ONE}, [{"id": 1, "k": None}], "k string"),
)


@pytest.mark.parametrize("case", CONVERSIONS, ids=lambda case: case.number)
def test_a_conversion_ends_as_in_spark(case: Case, tmp_path: Path) -> None:
    place = tmp_path / "k=v"  # 9.36: what is above the table is no partition of it
    write(place, case.files)

    outcome = outcome_of(lambda: open_table(place).convert(partition=case.partition, exclude=case.exclude))

    if outcome is None:
        found = open_table(place).snapshot().scan().to_arrow().to_pylist()
        assert not isinstance(case.outcome, str), found
        assert sorted(map(texts, case.outcome)) == sorted(map(texts, found))
        assert all("numRecords" in json.loads(one["stats"]) for one in actions_of(place, "add"))  # 9.2
        fields = json.loads(actions_of(place, "metaData")[0]["schemaString"])["fields"]
        assert all(one["nullable"] for one in fields)  # 9.17
        outcome = outcome_of(lambda: open_table(place).convert())
        assert "convert.is-table" == outcome  # 9.30, 9.31: Spark does nothing
    else:
        assert case.outcome == outcome


@pytest.mark.parametrize(
    ("number", "target", "outcome"),
    [
        ("10.1", {}, None),
        ("10.2", {"a.parquet": ONE}, "clone.target-not-empty"),
        ("10.3", "with rows", "clone.target-exists"),
        ("10.4", "without rows", None),
    ],
)
def test_a_clone_ends_as_in_spark(number: str, target: Files | str, outcome: str | None, tmp_path: Path) -> None:
    write(tmp_path / "source", {"a.parquet": ONE})
    open_table(tmp_path / "source").convert()
    write(tmp_path / "clone", target if isinstance(target, dict) else {"b.parquet": ONE})
    if isinstance(target, str):
        open_table(tmp_path / "clone").convert()
    if target == "without rows":
        remove = {"remove": {"path": "b.parquet", "deletionTimestamp": 1, "dataChange": True}}
        (tmp_path / "clone" / "_delta_log" / f"{1:020}.json").write_text(json.dumps(remove))
    before = (tmp_path / "source" / "_delta_log" / f"{0:020}.json").read_bytes()

    assert outcome == outcome_of(lambda: open_table(tmp_path / "source").clone(tmp_path / "clone", version=0))

    if target == "without rows":
        last = open_table(tmp_path / "clone", allow_external=[tmp_path.as_uri()]).snapshot()
        assert 2 == last.version
        assert actions_of(tmp_path / "clone", "metaData")[0]["id"] == last.metadata.id
        assert [{"id": 1}] == last.scan().to_arrow().to_pylist()
    elif outcome is None:
        (add,), (info,) = (actions_of(tmp_path / "clone", kind) for kind in ("add", "commitInfo"))
        assert f"file:{tmp_path}/source/a.parquet" == add["path"]  # as Hadoop spells it
        assert "0" == info["operationParameters"]["sourceVersion"]
        protocols = [actions_of(tmp_path / name, "protocol") for name in ("source", "clone")]
        assert protocols[0] == protocols[1]  # 10.7
    assert before == (tmp_path / "source" / "_delta_log" / f"{0:020}.json").read_bytes()  # 10.5


def write(place: Path, files: Files) -> None:
    for path, content in files.items():
        if path.endswith("/"):
            (place / path).mkdir(parents=True)
        elif isinstance(content, bytes):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        else:
            put(place, path, **content)


def outcome_of(change: Callable[[], object]) -> str | None:
    try:
        change()
    except DeltacliError as fault:
        return fault.code
    return None


def texts(row: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((name, str(value)) for name, value in row.items())


def actions_of(place: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (place / "_delta_log" / f"{0:020}.json").read_text().splitlines())
    return [line[kind] for line in lines if kind in line]
