"""Types as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.evolution.requests import parse_sql_type
from deltacli.delta.schema.widened_schema import parse_type, possible_targets


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("byte", "byte"),
        ("TINYINT", "byte"),
        ("smallint", "short"),
        ("Int", "integer"),
        (" bigint ", "long"),
        ("real", "float"),
        ("float", "float"),
        ("double", "double"),
        ("decimal(20,2)", "decimal(20,2)"),
        ("DECIMAL ( 20 , 2 )", "decimal(20,2)"),
        ("numeric(38)", "decimal(38,0)"),
        ("dec(4,4)", "decimal(4,4)"),
        ("decimal", "decimal(10,0)"),
        ("date", "date"),
        ("timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_a_type_in_sql_or_as_in_the_schema(text: str, name: str) -> None:
    assert name == parse_type(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("decimal(39,0)", "a decimal has a precision of 1 to 38"),
        ("decimal(0)", "a decimal has a precision of 1 to 38"),
        ("decimal(2,3)", "a scale up to the precision"),
        ("decimal(-3,1)", "a decimal has a precision of 1 to 38"),
        ("timestamp", "a date can become timestamp_ntz"),
        ("string", "not a type that a column can be widened to"),
        ("varchar(3)", "not a type that a column can be widened to"),
        ("boolean", "not a type that a column can be widened to"),
        ("int8", "not a type that a column can be widened to"),
        ("", "not a type that a column can be widened to"),
        ("array<int>", "not a type that a column can be widened to"),
    ],
)
def test_types_that_no_column_can_be_widened_to_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match="cannot be used") as refused:
        parse_type(text)

    assert "usage.type" == refused.value.code
    assert reason in refused.value.message
    assert "decimal(p,s)" in refused.value.facts["possible"]


@pytest.mark.parametrize(
    ("from_type", "words"),
    [
        ("byte", "short, integer, long, double or decimal(p,s) with p-s >= 10"),
        ("long", "decimal(p,s) with p-s >= 20"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("decimal(12,2)", "decimal(p,s) with s >= 2 and p-s >= 10"),
        ("decimal(38,2)", ""),
        ("string", ""),
    ],
)
def test_the_possible_targets_of_a_type_are_listed(from_type: str, words: str) -> None:
    assert words == possible_targets(from_type)


@pytest.mark.parametrize("parse", [parse_type, parse_sql_type])
def test_only_a_part_of_a_type_is_answered_with_a_hint_to_quote_it(parse: Callable[[str], object]) -> None:
    hints: dict[str, object] = {}
    for text in ("decimal(20,", "decimal(39,2)", "decimal(39, 2)"):
        with pytest.raises(UsageError) as refused:
            parse(text)
        hints[text] = refused.value.hint

    assert "quote a type that contains spaces or brackets: 'decimal(20, 2)'" == hints.pop("decimal(20,")
    assert {None} == set(hints.values())
