"""Which types may become which. Spec: Type Widening."""

from __future__ import annotations

import pytest

from deltacli.delta.schema.type_changes import is_allowed_change, is_iceberg_change, is_primitive_name

ALLOWED = (
    ("byte", "short", True),
    ("byte", "long", True),
    ("integer", "bigint", True),
    ("float", "double", True),
    ("short", "double", False),
    ("integer", "decimal(10,0)", False),
    ("integer", "decimal(12, 2)", False),
    ("long", "decimal(20,0)", False),
    ("decimal(10,2)", "decimal(11,2)", True),
    ("decimal(10,2)", "decimal(11,3)", False),
    ("date", "timestamp_ntz", False),
)
REFUSED = (
    ("long", "integer"),
    ("long", "long"),
    ("long", "bigint"),
    ("long", "double"),
    ("short", "float"),
    ("double", "float"),
    ("integer", "decimal(11,2)"),
    ("long", "decimal(19,0)"),
    ("byte", "decimal(3,0)"),
    ("decimal(10,2)", "decimal(10,3)"),
    ("decimal(10,2)", "decimal(12,1)"),
    ("decimal(10,2)", "decimal(39,2)"),
    ("decimal(10,2)", "double"),
    ("date", "timestamp"),
    ("timestamp_ntz", "timestamp"),
    ("string", "binary"),
    ("void", "long"),
    ("anything", "long"),
)


@pytest.mark.parametrize(("from_type", "to_type", "is_known_to_iceberg"), ALLOWED)
def test_wider_types(from_type: str, to_type: str, is_known_to_iceberg: bool) -> None:
    assert is_allowed_change(from_type, to_type)
    assert is_known_to_iceberg == is_iceberg_change(from_type, to_type)


@pytest.mark.parametrize(("from_type", "to_type"), REFUSED)
def test_other_types(from_type: str, to_type: str) -> None:
    assert not is_allowed_change(from_type, to_type)


def test_the_same_decimal_is_not_a_change_for_iceberg() -> None:
    assert not is_iceberg_change("decimal(10,2)", "decimal(10,2)")


@pytest.mark.parametrize(
    "name", ["decimal(38,38)", "decimal(1,0)", "decimal(6, 2)", "INT", "interval day to second", "char(3)"]
)
def test_names_of_primitive_types(name: str) -> None:
    assert is_primitive_name(name)


@pytest.mark.parametrize("name", ["decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "array", "whole number", ""])
def test_types_that_are_not_primitive_are_recognized(name: str) -> None:
    assert not is_primitive_name(name)
