"""Half a surrogate pair that an older writer left in the schema: it can be replaced, and nothing crashes over it."""

from __future__ import annotations

import json
import re

import pytest

from deltacli.core.errors import Refused
from deltacli.delta.schema.column_path import ColumnFinder
from deltacli.delta.schema.types import parse_schema
from tests.support.actions import metadata, protocol
from tests.support.altering import MAPPED, Altering, change, drop, fields_of, rename, table_of
from tests.support.builder import TableBuilder

HALF = "caf\udce9"


def test_a_comment_with_half_a_character_is_replaced() -> None:
    altering = Altering(table_of("a int, b int", a={"comment": HALF}))

    verdict = altering.make(change("comment", "a", comment="café"))

    assert "ok" == verdict
    assert {"comment": "café"} == altering.field("a")["metadata"]


def test_the_document_of_such_a_change_has_the_schema_before() -> None:
    altering = Altering(table_of("a int, b int", a={"comment": HALF}))

    plan = altering.table.alter([change("comment", "a", comment="café")], dry_run=True)

    before = plan.as_json(dry_run=True)["schemaBefore"]
    assert HALF == before["fields"][0]["metadata"]["comment"]


def test_a_column_whose_name_has_half_a_character_is_refused_and_others_are_read() -> None:
    table = Altering(table_of([*fields_of("a int"), {**fields_of("b int")[0], "name": HALF}])).table

    with pytest.raises(Refused) as refused:
        table.snapshot().scan()

    assert "commit.lone-surrogate" == refused.value.code
    assert ["a"] == table.snapshot().scan(columns=["a"]).to_arrow().schema.names


@pytest.mark.parametrize("name", [r"a\ud800b", r"`a\ud800b`", r"s.a\ud800b"])
@pytest.mark.parametrize("kind", ["rename", "drop"])
def test_a_column_whose_name_has_half_a_character_is_named_as_messages_show_it(kind: str, name: str) -> None:
    half = {**fields_of("x int")[0], "name": "a\ud800b"}
    struct = {**fields_of("s int")[0], "type": {"type": "struct", "fields": [half, *fields_of("y int")]}}
    where = [half] if "." not in name else [struct]
    altering = Altering(table_of([*fields_of("a int"), *where]))
    altering.make(MAPPED)

    verdict = altering.make(rename(name, "ab") if kind == "rename" else drop(name))

    assert "ok" == verdict
    assert not re.search("[\ud800-\udfff]", json.dumps(altering.last_info, ensure_ascii=False))
    assert ["a\ud800b"] * (kind == "rename") == re.findall("a\ud800b", json.dumps(altering.schema, ensure_ascii=False))


def test_an_exact_name_comes_before_an_escaped_one() -> None:
    field = fields_of("x int")[0]
    fields = [{**field, "name": "a\ud800"}, {**field, "name": r"a\ud800"}]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))

    assert r"a\ud800" == ColumnFinder(schema).find(r"a\ud800").column.name


def test_half_a_character_in_a_property_stops_no_change() -> None:
    schema = json.dumps({"type": "struct", "fields": fields_of("a int")})
    lines = protocol(1, 2), metadata(schema_string=schema, configuration={"owner": HALF})
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    altering = Altering(TableBuilder().commit(raw=raw))

    assert "ok" == altering.make(change("comment", "a", comment="x"))
    assert "text.not-unicode" == altering.make(change("comment", "a", comment="\ud801"))
