"""What the reference suite asserts about columns, as data: situation, change, verdict. Differences are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deltacli.core.errors import UsageError
from tests.support.altering import (
    MAPPED,
    Altering,
    Case,
    add,
    change,
    drop,
    flat,
    names,
    nested,
    partitioned,
    rename,
    table_of,
)
from tests.support.builder import TableBuilder

Json = Any  # Any: JSON values


def texts(declared: str, data_type: str = "string") -> Callable[[], TableBuilder]:
    return lambda: table_of(f"c {data_type}, d int", c={"__CHAR_VARCHAR_TYPE_STRING": declared})


COLUMNS = [
    Case(
        "5.7",
        flat,
        (change("table-comment", comment="c"),),
        "ok",
        lambda t: t.table.snapshot().metadata.description == "c",
    ),
    Case(
        "5.13",
        flat,
        (add("v3", "bigint"),),
        "ok",
        lambda t: t.schema[-1] == {"name": "v3", "type": "long", "nullable": True, "metadata": {}},
    ),
    Case("5.14 element", nested, (add("xs.element.n", "int"),)),
    Case("5.14 key", nested, (add("m.key.n", "int"),)),
    Case("5.14 value", nested, (add("m.value.n", "int"),)),
    Case(
        "5.14 struct",
        nested,
        (add("s.n", "int"),),
        "ok",
        lambda t: [f["name"] for f in t.field("s")["type"]["fields"]] == ["a", "b", "n"],
    ),
    Case("5.15", nested, (add("xs.n", "int"),), "usage.column"),
    Case("5.16", nested, (add("m.n", "int"),), "usage.column"),
    Case("5.17 element", nested, (add("ints.element.n", "int"),), "usage.column"),
    Case("5.17 key", nested, (add("mi.key.n", "int"),), "usage.column"),
    Case("5.18", nested, (add("v1.n", "int"),), "usage.column"),
    Case("5.19 within", flat, (add("n", "struct<a: int not null>"),), "alter.not-null"),
    Case("5.20", flat, (add("n", "int", default="5"),), "alter.default-with-add"),
    Case("5.20 no value", flat, (add("n", "int", default="abc"),), "alter.default"),
    Case("5.21", partitioned, (add("n", "int"),), "ok", names("v1", "p", "v2", "n")),
    Case("5.22", flat, (add("n", "int", comment="c"),), "ok", lambda t: t.schema[-1]["metadata"] == {"comment": "c"}),
    Case("as it is", nested, (add("s.b", "string", position="after:a"),), "nothing"),
    Case(
        "as it was added", flat, (add("n", "varchar(9)", comment="c"), add("n", "varchar(9)", comment="c")), "nothing"
    ),
    Case("other type", flat, (add("v1", "bigint"),), "alter.column-exists"),
    Case("other comment", flat, (add("v1", "int", comment="c"),), "alter.column-exists"),
    Case("other place", flat, (add("v1", "int", position="last"),), "alter.column-exists"),
    Case("no default", flat, (add("n", "int", default=None),), "usage.change"),
    Case("5.23", flat, (add("V1", "int"),), "alter.column-exists"),
    Case("5.23 nested", nested, (add("s.A", "int"),), "alter.column-exists"),
    Case("5.24", flat, (add("`a b`", "int"),), "alter.name"),
    Case("5.24 nested", flat, (add("n", "struct<`a b`: int>"),), "alter.name"),
    Case("5.25", flat, (add("`x.y`", "int"),), "ok", lambda t: '"name":"`x.y`"' in t.parameters["columns"]),
    Case("5.26 first", flat, (add("n", "int", position="first"),), "ok", names("n", "v1", "v2")),
    Case("5.26 after", flat, (add("n", "int", position="after:v1"),), "ok", names("v1", "n", "v2")),
    Case("5.27", flat, (add("n", "int", position="after:x"),), "usage.column"),
    Case("5.28", flat, (add("n", "int", position="after:V1"),), "ok", names("v1", "n", "v2")),
    Case(
        "5.29",
        flat,
        (change("comment", "v1", comment="c"),),
        "ok",
        lambda t: t.schema[0]["metadata"] == {"comment": "c"},
    ),
    Case("5.29 partition", partitioned, (change("comment", "p", comment="c"),)),
    Case("5.29 nested", nested, (change("comment", "xs.element.q", comment="c"),)),
    Case("5.30 key", nested, (change("comment", "m.key", comment="c"),), "alter.part"),
    Case("5.30 value", nested, (change("comment", "m.value", comment="c"),), "alter.part"),
    Case("5.30 element", nested, (change("comment", "xs.element", comment="c"),), "alter.part"),
    Case("5.31", flat, (rename("v2", "v3"),), "alter.mapping-needed"),
    Case("5.32", flat, (change("type", "v1", type="string"),), "usage.type"),
    Case("5.32 element", nested, (change("type", "ints.element", type="string"),), "usage.type"),
    Case("5.33", flat, (change("move", "v2", position="first"),), "ok", names("v2", "v1")),
    Case("5.33 nested", nested, (change("move", "s.b", position="first"),)),
    Case("5.33 partition", partitioned, (change("move", "p", position="first"),), "ok", names("p", "v1", "v2")),
    Case(
        "5.34",
        flat,
        (change("move", "v2", position="after:v2"),),
        "nothing",
        differs="Spark commits a version that changes nothing",
    ),
    Case("5.35", nested, (change("move", "s.a", position="after:v1"),), "usage.column"),
    Case("5.36", flat, (change("move", "v1", position="after:x"),), "usage.column"),
    Case("5.36 unknown", flat, (change("move", "x", position="first"),), "usage.column"),
    Case("5.37", nested, (change("type", "s", type="struct<a: int not null, b: string>"),), "usage.column"),
    Case("5.38", nested, (change("type", "s", type="struct<a: int, b: string, c: int>"),), "usage.column"),
    Case("5.39", nested, (change("nullable", "m.key"),), "alter.part"),
    Case(
        "5.41",
        lambda: table_of("a int not null"),
        (change("nullable", "a"),),
        "ok",
        lambda t: t.schema[0]["nullable"] is True,
    ),
    Case("5.41 again", flat, (change("nullable", "v1"),), "nothing"),
    Case(
        "5.42",
        lambda: table_of([{"name": "v", "type": "void", "nullable": True, "metadata": {}}]),
        (change("type", "v", type="int"),),
        "ok",
        lambda t: t.schema[0]["type"] == "integer",
    ),
    Case("5.43", flat, (change("type", "v1", type="void"),), "usage.type"),
    Case(
        "5.44", texts("char(4)"), (change("type", "c", type="string"),), "ok", lambda t: t.schema[0]["metadata"] == {}
    ),
    Case(
        "5.44 key",
        texts("map<char(4),int>", "map<string, int>"),
        (change("type", "c.key", type="string"),),
        "ok",
        lambda t: t.schema[0]["metadata"] == {},
    ),
    Case("5.44 element", texts("array<char(4)>", "array<string>"), (change("type", "c.element", type="string"),)),
    Case("5.45", texts("char(4)"), (change("type", "c", type="varchar(4)"),)),
    Case(
        "5.45 longer",
        texts("varchar(4)"),
        (change("type", "c", type="varchar(5)"),),
        "ok",
        lambda t: t.schema[0]["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
    ),
    Case("5.45 shorter", texts("varchar(4)"), (change("type", "c", type="varchar(3)"),), "alter.char-varchar"),
    Case(
        "5.46",
        texts("varchar(4)"),
        (change("comment", "c", comment="x"), change("default", "c", default="'ab'")),
        "ok",
        lambda t: t.schema[0]["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] == "varchar(4)",
    ),
    Case("5.48", flat, (change("comment", "V1", comment="c"),), "ok", names("v1", "v2")),
    Case(
        "5.51",
        flat,
        ({"changes": [change("comment", "v1", comment="c"), change("comment", "v2", comment="d")]},),
        "ok",
        lambda t: t.last_info["operation"] == "CHANGE COLUMNS",
    ),
]


@pytest.mark.parametrize("case", COLUMNS, ids=lambda case: case.id)
def test_the_cases_of_the_reference_suite(case: Case) -> None:
    case.check()


def test_a_default_needs_the_feature_and_consent() -> None:
    """5.47: the reference refuses; here one option adds the feature in the same commit."""
    table = Altering(flat())

    refused = table.make(change("default", "v1", default="5"), consents=False)
    made = table.make(change("default", "v1", default="5"))

    assert ("alter.protocol-upgrade-needed", "ok") == (refused, made)
    assert "allowColumnDefaults" in table.table.snapshot().protocol.supported_features
    assert "5" == table.field("v1")["metadata"]["CURRENT_DEFAULT"]


def test_a_type_of_a_feature_needs_consent() -> None:
    """8.47: the reference refuses; here one option adds the feature in the same commit."""
    table = Altering(flat())

    refused = table.make(add("n", "timestamp_ntz"), consents=False)

    assert ("alter.protocol-upgrade-needed", "ok") == (refused, table.make(add("n", "timestamp_ntz")))
    assert "timestampNtz" in table.table.snapshot().protocol.supported_features


DEFAULTS = {
    "v1": {
        "5": "ok",
        "-5": "ok",
        "cast('5' as int)": "ok",
        "null": "ok",
        "'5'": "alter.default",
        "1.5": "alter.default",
        "99999999999": "alter.default",
        "v2": "alter.default",
        "5 +": "alter.default",
        "true": "alter.default",
    },
    "v2": {"'x'": "ok", "5": "ok", "current_user()": "ok", "x": "alter.default"},
}


@pytest.mark.parametrize(("column", "text"), [(name, text) for name, cases in DEFAULTS.items() for text in cases])
def test_a_default_is_a_value_of_the_column(column: str, text: str) -> None:
    table = Altering(flat())

    assert DEFAULTS[column][text] == table.make(change("default", column, default=text))
    assert [] == table.errors()


SHAPED = "named_struct('x', 1, 'y', 2)"


@pytest.mark.parametrize(
    ("made", "default", "verdict"),
    [
        (add("s.z", "int"), SHAPED, "alter.default"),
        (add("s.z", "int"), "NULL", "ok"),
        (drop("s.y"), SHAPED, "alter.default"),
        (drop("s.y"), "null", "ok"),
        (drop("s"), SHAPED, "ok"),
        (change("move", "s.y", position="first"), SHAPED, "alter.default"),
        (change("move", "s.y", position="last"), SHAPED, "nothing"),
        (change("move", "s", position="last"), SHAPED, "ok"),
        (rename("s.y", "z"), SHAPED, "ok"),
        (add("t", "int"), SHAPED, "ok"),
    ],
)
def test_a_default_keeps_the_fields_that_it_names(made: dict[str, Any], default: str, verdict: str) -> None:
    features = ["columnMapping", "allowColumnDefaults"]
    table = Altering(table_of("s struct<x: int, y: int>, a int", features=features, s={"CURRENT_DEFAULT": default}))
    assert "ok" == table.make(MAPPED)

    assert verdict == table.make(made)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (add("s.z", "int"), "ok"),
        (add("s.z", "int", position="first"), "alter.char-varchar"),
        (drop("s.y"), "alter.char-varchar"),
        (change("move", "s.y", position="first"), "alter.char-varchar"),
        (change("move", "s.y", position="last"), "nothing"),
        (rename("s.y", "z"), "ok"),
        (drop("s"), "ok"),
    ],
)
def test_lengths_of_fields_keep_their_positions(made: dict[str, Any], verdict: str) -> None:
    declared = {"__CHAR_VARCHAR_TYPE_STRING": "struct<x:varchar(3),y:int>"}
    table = Altering(table_of("s struct<x: string, y: int>, a int", features=["columnMapping"], s=declared))
    assert "ok" == table.make(MAPPED)

    assert verdict == table.make(made)


def test_collations_follow_a_rename() -> None:
    kept = {"__COLLATIONS": {"m.value": "icu.UNICODE_CI", "m.key": "spark.UTF8_LCASE", "m": "icu.DE", "mm.key": "x"}}
    table = Altering(table_of("m map<string, string>, a int", features=["columnMapping", "collations"], m=kept))

    assert "ok" == table.make(MAPPED)

    assert "ok" == table.make(rename("m", "a.b"))

    renamed = {"a.b.value": "icu.UNICODE_CI", "a.b.key": "spark.UTF8_LCASE", "a.b": "icu.DE", "mm.key": "x"}
    assert renamed == table.field("a.b")["metadata"]["__COLLATIONS"]


RESERVED = [
    ({"delta.enableChangeDataFeed": "true"}, "_Change_Type"),
    ({"delta.rowTracking.materializedRowIdColumnName": "_row-1"}, "_ROW-1"),
]


@pytest.mark.parametrize(("properties", "name"), RESERVED)
def test_names_that_writers_use_are_reserved(properties: Mapping[str, str], name: str) -> None:
    table = Altering(table_of("a int, s struct<x: int>", properties=properties, versions=(1, 4)))

    assert "alter.reserved-name" == table.make(add(f"`{name}`", "int"))
    assert "ok" == table.make(add(f"s.`{name}`", "int"))


@pytest.mark.parametrize(
    "changes", ["add", [1], [], {"change": "nope"}, [{"change": "add"}], [["add", "b", "int"]], add("b", "int")]
)
def test_what_is_no_change_is_an_error_of_usage(changes: Any) -> None:  # Any: what Python may be given
    with pytest.raises(UsageError) as raised:
        Altering(flat()).table.alter(changes)

    assert "usage.change" == raised.value.code


def test_a_change_that_is_made_already_is_not_made_again() -> None:
    table = Altering(flat())
    changes = [change("comment", "v1", comment="c"), change("name", name="n"), change("table-comment", comment="d")]

    assert ["ok", "nothing"] == [table.make(*changes), table.make(*changes)]
    assert ("ALTER TABLE", 2) == (table.last_info["operation"], len(table.table.history().items))
