"""Half a surrogate pair that an older writer left in the schema: it can be replaced, and nothing crashes over it."""

from __future__ import annotations

import pytest

from deltacli.errors import Refused
from tests.support.altering import Altering, change, fields_of, table_of

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
