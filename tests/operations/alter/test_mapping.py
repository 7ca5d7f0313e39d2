"""What the reference suites assert about column mapping, renames and drops, as data. Differences are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from tests.support.altering import MAPPED, Case, add, change, drop, flat, nested, partitioned, rename, table_of
from tests.support.builder import TableBuilder
from tests.support.reading import open_at, open_built
from tests.support.renamed_columns import CHANGES, VERSIONS, in_order, make_renamed, replaced_table, retyped_table
from tests.support.rows import parquet_bytes, schema_of
from tests.support.rows import table_of as rows_table


def mapped(columns: str = "a int, b string", **table: Any) -> Callable[[], TableBuilder]:
    """A table with column mapping: legacy ids and names, as an engine wrote them."""

    def build() -> TableBuilder:
        return table_of(columns, **{"versions": (1, 4), **table})

    return build


def checked(condition: str, columns: str = "a int, b string, s struct<x: int, y: int>") -> Callable[[], TableBuilder]:
    return mapped(columns, properties={"delta.constraints.c": condition})


def generated() -> TableBuilder:
    return table_of(
        "a int, g int, s struct<x: int, y: int>",
        versions=(1, 4),
        g={"delta.generationExpression": "a + s.x"},
    )


def entry(name: str, number: int, physical: str) -> dict[str, Any]:
    """A field with entries of a mapping."""
    entries = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": "integer", "nullable": True, "metadata": entries}


def entries(*fields: dict[str, Any], highest: str | None = "9") -> TableBuilder:
    """A table with a mapping that somebody else made."""
    properties = {"delta.columnMapping.mode": "name"}
    if highest is not None:
        properties["delta.columnMapping.maxColumnId"] = highest
    return table_of(fields, features=["columnMapping"], properties=properties)


MAPPING = [
    Case(
        "6.1",
        nested,
        (MAPPED,),
        "ok",
        lambda t: t.ids() == [1, 2, 5, 7, 10, 11] and t.properties["delta.columnMapping.maxColumnId"] == "11",
    ),
    Case(
        "6.1 names",
        nested,
        (MAPPED,),
        "ok",
        lambda t: all(f["metadata"]["delta.columnMapping.physicalName"] == f["name"] for f in t.schema),
    ),
    Case("6.2", flat, (change("mapping", mode="id"),), "usage"),
    Case("6.4", flat, (change("mapping", mode="nmae"),), "usage"),
    Case(
        "6.5",
        mapped(),
        (MAPPED,),
        "ok",
        lambda t: t.table.snapshot().protocol.min_reader_version == 3,
        "Spark writes (2,5), which deltalake 1.6.6 reads wrong without an error",
    ),
    Case(
        "6.6",
        lambda: table_of("a int", features=["appendOnly"]),
        (MAPPED,),
        "ok",
        lambda t: (
            "columnMapping" in (t.table.snapshot().protocol.reader_features or ())
            and "columnMapping" in (t.table.snapshot().protocol.writer_features or ())
        ),
    ),
    Case("6.7", lambda: table_of("`a.b` int, a struct<b: int>"), (MAPPED,)),
    Case("6.8", flat, ({"changes": [MAPPED, add("n", "int")]},), "usage.change"),
    Case(
        "6.9",
        lambda: table_of("a int, b int", a={"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"}),
        (MAPPED,),
        "alter.mapping-exists",
    ),
    Case(
        "6.10",
        flat,
        (add("n", json.dumps({"type": "struct", "fields": [entry("x", 5, "y")]})),),
        "ok",
        lambda t: t.schema[-1]["type"]["fields"][0]["metadata"] == {},
    ),
    Case(
        "6.12",
        lambda: entries(entry("a", 1, "a"), entry("b", 2, "b"), highest=None),
        (add("n", "int"),),
        "ok",
        lambda t: t.properties["delta.columnMapping.maxColumnId"] == "3",
        "the reference refuses any change of such a table",
    ),
    Case(
        "6.13",
        lambda: entries(entry("a", 1, "a"), entry("b", 1, "b")),
        (change("comment", "a", comment="c"),),
        "mapping.id-duplicate",
    ),
    Case(
        "6.13 names",
        lambda: entries(entry("a", 1, "a"), entry("b", 2, "a")),
        (add("n", "int"),),
        "mapping.physical-path-duplicate",
    ),
    Case(
        "6.15",
        flat,
        (MAPPED, add("n", "struct<a: int>")),
        "ok",
        lambda t: (
            t.properties["delta.columnMapping.maxColumnId"] == "4"
            and t.schema[-1]["metadata"]["delta.columnMapping.physicalName"].startswith("col-")
        ),
    ),
    Case("6.16", flat, (MAPPED, change("move", "v2", position="first")), "ok", lambda t: t.ids() == [2, 1]),
    Case("6.17", flat, (add("n", "struct<`a b`: int, `c;d`: int>"),), "alter.name"),
    Case(
        "6.21",
        flat,
        (MAPPED, rename("v1", "n")),
        "ok",
        lambda t: t.parameters == {"oldColumnPath": "v1", "newColumnPath": "n"},
    ),
    Case("6.21 nested", nested, (MAPPED, rename("s.a", "n")), "ok", lambda t: t.parameters["newColumnPath"] == "s.n"),
    Case(
        "6.21 partition",
        partitioned,
        (MAPPED, rename("p", "q")),
        "ok",
        lambda t: list(t.table.snapshot().metadata.partition_columns) == ["q"],
    ),
    Case("6.22", flat, (MAPPED, rename("v1", "V1")), "alter.column-exists"),
    Case("6.22 same", flat, (MAPPED, rename("v1", "v1")), "alter.column-exists"),
    Case("6.23", flat, (MAPPED, rename("v1", "v2")), "alter.column-exists"),
    Case(
        "6.24",
        flat,
        (MAPPED, rename("v1", "n"), add("v1", "int")),
        "ok",
        lambda t: len({f["metadata"]["delta.columnMapping.physicalName"] for f in t.schema}) == 3,
    ),
    Case("6.25", checked("a > 0"), (MAPPED, rename("a", "n")), "alter.check-constraint"),
    Case("6.25 parent", checked("s.x > 0"), (MAPPED, rename("s", "n")), "alter.check-constraint"),
    Case("6.25 child", checked("s is not null"), (MAPPED, rename("s.x", "n")), "alter.check-constraint"),
    Case(
        "6.25 text",
        checked("b != 'a'"),
        (MAPPED, rename("a", "n")),
        "alter.check-constraint",
        differs="engines that quote names with single quotes' twin could mean the column, so it is refused",
    ),
    Case("6.25 function", checked("array(1)[0] > 0"), (MAPPED, rename("b", "array2")), "ok"),
    Case("6.26", checked("s.x > 0"), (MAPPED, rename("s.y", "n"))),
    Case(
        "6.27",
        mapped("s struct<x: int not null>"),
        (MAPPED, rename("s.x", "n")),
        "ok",
        lambda t: t.schema[0]["type"]["fields"][0]["nullable"] is False,
    ),
    Case(
        "6.28",
        checked("m[1] > 0", "m map<int, int>, xs array<struct<q: int>>"),
        (MAPPED, rename("m", "n")),
        "alter.check-constraint",
    ),
    Case("6.29", generated, (MAPPED, rename("a", "n")), "alter.generated-column"),
    Case("6.29 other", generated, (MAPPED, rename("s.y", "n"))),
    Case("6.31", nested, (MAPPED, rename("xs.element.q", "n"), rename("m.key.k", "n"), rename("m.value.v", "n"))),
    Case("6.32 key", nested, (MAPPED, rename("m.key", "n")), "alter.part"),
    Case("6.32 value", nested, (MAPPED, rename("m.value", "n")), "alter.part"),
    Case("6.32 element", nested, (MAPPED, rename("xs.element", "n")), "alter.part"),
    Case("6.33", flat, (drop("v1"),), "alter.mapping-needed"),
    Case(
        "6.34",
        nested,
        (MAPPED, {"changes": [drop("v1"), drop("s.a")]}),
        "ok",
        lambda t: t.parameters["columns"] == '["v1","s.a"]',
    ),
    Case("6.35", flat, (MAPPED, drop("v1"), drop("v2")), "alter.last-column"),
    Case("6.35 struct", nested, (MAPPED, drop("xs.element.q")), "alter.last-column"),
    Case(
        "6.36",
        lambda: table_of(
            [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in (("a", "integer"), ("v", "void"))
            ]
        ),
        (MAPPED, drop("a")),
    ),
    Case("6.35 partition", partitioned, (MAPPED, {"changes": [drop("v1"), drop("v2")]}), "alter.last-column"),
    Case("6.37", flat, (MAPPED, {"changes": [drop("v1"), drop("v2")]}), "alter.last-column"),
    Case("6.38", partitioned, (MAPPED, drop("p")), "alter.partition-column"),
    Case("6.38 unmapped", partitioned, (drop("p"),), "alter.partition-column"),
    Case("6.25 unmapped", checked("a > 0"), (rename("a", "n"),), "alter.check-constraint"),
    Case("6.39", checked("a > 0"), (MAPPED, drop("a")), "alter.check-constraint"),
    Case("6.39 generated", generated, (MAPPED, drop("a")), "alter.generated-column"),
    Case("6.39 other", checked("s.x > 0"), (MAPPED, drop("s.y"))),
    Case("6.40", generated, (MAPPED, drop("g"))),
    Case("6.41", nested, (MAPPED, drop("m.key")), "alter.part"),
    Case("6.42", lambda: table_of("xs array<struct<q: int, r: int>>"), (MAPPED, drop("xs.element.q"))),
    Case(
        "clustering",
        lambda: table_of(
            "a int, s struct<x: int, y: int>", features=["clustering", "domainMetadata"], clustering=[["s", "x"]]
        ),
        (MAPPED, drop("s")),
        "alter.clustering-column",
        differs="Spark compares whole names only and lets the struct around a clustering column go",
    ),
    Case(
        "clustering moved",
        lambda: table_of(
            ", ".join(f"c{n} int" for n in range(33)), features=["clustering", "domainMetadata"], clustering=[["c31"]]
        ),
        (change("move", "c32", position="first"),),
        "alter.clustering-statistics",
        differs="Spark looks at the old schema, so one such move succeeds and the next one fails",
    ),
    Case(
        "statistics renamed",
        mapped(properties={"delta.dataSkippingStatsColumns": "b, a"}),
        (MAPPED, rename("a", "n")),
        "ok",
        lambda t: t.properties["delta.dataSkippingStatsColumns"] == "b,n",
    ),
    Case(
        "statistics dropped",
        mapped(properties={"delta.dataSkippingStatsColumns": "b,a"}),
        (MAPPED, drop("a")),
        "ok",
        lambda t: t.properties["delta.dataSkippingStatsColumns"] == "b",
    ),
]


@pytest.mark.parametrize("case", MAPPING, ids=lambda case: case.id)
def test_the_cases_of_the_reference_suites(case: Case) -> None:
    case.check()


def test_conditions_are_about_physical_names_in_files() -> None:
    """6.18: row groups are skipped by the name that a column has in files, under the name that it has now."""
    rows = pa.table({"a": [1, 2], "b": [5, 6]})
    table = open_built(rows_table({"f.parquet": parquet_bytes(rows, row_group_size=1)}, schema_of(rows)))
    for one in (MAPPED, rename("a", "c"), rename("b", "a")):
        table.alter([one], upgrade_protocol=True)

    assert [{"c": 2, "a": 6}] == [row for batch in table.snapshot().scan(where="a = 6") for row in batch.to_pylist()]
    assert [{"c": 1, "a": 5}] == [row for batch in table.snapshot().scan(where="c = 1") for row in batch.to_pylist()]


def test_versions_and_changes_across_a_rename_and_a_drop(tmp_path: Path) -> None:
    """Each version has its own names; changes have those of the last version, also those of change data files."""
    make_renamed(tmp_path)
    table = open_table(tmp_path)

    for version, rows in VERSIONS.items():
        assert in_order(rows) == in_order(table.snapshot(version=version).scan().to_arrow().to_pylist()), version
    for (first, last), rows in CHANGES.items():
        found = table.changes(from_version=first, to_version=last).to_arrow().drop_columns(["_commit_timestamp"])
        assert in_order(rows) == in_order(found.to_pylist()), (first, last)
    assert [{"id": 1, "name": "X", "s": {"q": 1}}] == [
        row for batch in table.snapshot(version=5).scan(where="name = 'X'") for row in batch.to_pylist()
    ]
    assert [] == [one for one in table.validate(level="data").findings if one.severity == "error"]


def test_changes_across_a_removal_of_the_mapping_are_refused(tmp_path: Path) -> None:
    """Without it, the `a` of old files would be read as the `a` that was added later."""
    make_renamed(tmp_path)
    table = open_table(tmp_path)
    removed, *_ = table.drop_features("columnMapping").versions
    assert (removed, VERSIONS[9]) == (
        10,
        sorted(table.snapshot().scan().to_arrow().to_pylist(), key=lambda row: row["id"]),
    )

    for first in (0, 9):
        with pytest.raises(Refused, match="version 10 removed column mapping"):
            table.changes(from_version=first).to_arrow()
    for (first, last), rows in CHANGES.items():
        assert len(rows) == table.changes(from_version=first, to_version=last).to_arrow().num_rows
    assert 0 == table.changes(from_version=10).to_arrow().num_rows

    for one in (MAPPED, rename("a", "name"), add("a", "string")):  # names in files are those of columns again
        table.alter([one], upgrade_protocol=True)
    with pytest.raises(Refused, match="version 10 removed column mapping"):
        table.changes(from_version=1).to_arrow()


REPLACED = [
    # its versions, first and last version, code of the error or the values of the changes
    ([("a", "col-x"), ("a", "col-y"), ("a", "col-y")], (0, 2), "changes.columns-replaced"),
    ([("a", "col-x"), ("a", "col-y"), ("a", "col-y")], (1, 1), "changes.columns-replaced"),
    ([("a", "col-x"), ("a", "col-y"), ("a", "col-y")], (2, 2), [1, 2]),
    ([("a", "col-x"), ("a", "col-y")], (0, 0), [0]),
    (["a", "b"], (0, 1), "changes.columns-replaced"),
    (["a", "b", "a"], (0, 2), "changes.columns-replaced"),
    (["a", "a"], (0, 1), [0, 0, 1]),
    ([("a", "a"), "a"], (0, 1), "changes.mapping-removed"),
]


@pytest.mark.parametrize(("versions", "span", "expected"), REPLACED)
def test_changes_across_a_table_created_anew(versions: Any, span: tuple[int, int], expected: Any) -> None:
    """They have no null that was never in the table: the reference refuses such ranges, too."""
    table = open_built(replaced_table(*versions))

    try:
        rows = table.changes(from_version=span[0], to_version=span[1]).to_arrow()
        found: Any = rows["a"].to_pylist()
    except Refused as error:
        found = error.code

    assert expected == found


def test_changes_across_a_column_of_another_type_are_refused() -> None:
    """The values of older files are not of the type that the column has in the range."""
    kinds = pa.array([1], pa.int32()), pa.array([2]), pa.array(["x"]), pa.array([3])
    table = open_built(retyped_table(*kinds))

    assert [1, 1, 2] == table.changes(from_version=0, to_version=1).to_arrow()["a"].to_pylist()
    with pytest.raises(Refused, match="version 2 replaced the column a, long before, by one of type string") as caught:
        table.changes(from_version=0, to_version=2).to_arrow()
    assert ("changes.columns-replaced", "0-1") == (caught.value.code, caught.value.facts["versions to read apart"])
    with pytest.raises(Refused, match="version 3 replaced the column a, string before"):
        table.changes(from_version=0).to_arrow()


def test_a_column_dropped_and_added_in_one_commit_is_not_read_across_it(tmp_path: Path) -> None:
    """The plan says so. Each side has its own values; the new column has none of the old one."""
    make_renamed(tmp_path)
    table = open_table(tmp_path)
    before = table.changes(from_version=5, to_version=9).to_arrow()

    done = table.alter([drop("a"), add("a", "string")])

    assert any("drops and adds a;" in one.message for one in done.evolution.cautions)
    assert {None} == set(table.snapshot().scan().to_arrow()["a"].to_pylist())
    assert before.equals(table.changes(from_version=5, to_version=9).to_arrow())
    with pytest.raises(Refused, match="version 10 replaced columns"):
        table.changes(from_version=8).to_arrow()


def test_changes_across_a_restored_schema_are_refused() -> None:
    """The column of the versions between had the name of another one."""
    storage = rows_table({"f": parquet_bytes(pa.table({"a": [1]}))}, schema_of(pa.table({"a": [1]}))).in_memory()
    table = open_at(storage)
    for one in (MAPPED, add("b", "int"), drop("a"), add("a", "int")):
        table.alter([one], upgrade_protocol=True)
    newest = table.snapshot().version
    assert newest == table.changes(from_version=1).to_version
    assert 0 == table.changes(from_version=1).to_arrow().num_rows
    table.restore(version=1)

    with pytest.raises(Refused, match=f"version {newest + 1} replaced columns"):
        table.changes(from_version=newest).to_arrow()
