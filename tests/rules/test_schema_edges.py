"""The very edges of rules about schemas, on the one side and on the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.schema.types import MAX_DEPTH, interval_name, is_type_name
from deltacli.rules.schema.schema import shown_path, walk_parts
from tests.rules.corruptions_schema import array_of, changed_schema, map_of, usual_fields, with_columns
from tests.rules.corruptions_widening import ARRAY_OF_MAPS, change, changed, table_with
from tests.rules.edges import Edges, Make, assert_reports, found_by
from tests.rules.table_builder import Action, TableBuilder, column, struct

EDGES = Edges()


@EDGES.reports("schema.type-changed-illegally")
def decimal_that_became_shorter() -> TableBuilder:
    before = with_columns(column("x", "decimal(10,2)"))
    return changed_schema(before, [*usual_fields(), column("x", "decimal(8,2)")])


@EDGES.reports("schema.unknown-type")
def interval_from_days_to_days() -> TableBuilder:
    return with_columns(column("span", "interval day to day"))


@EDGES.reports("schema.unknown-type")
def unknown_type_of_a_key() -> TableBuilder:
    return with_columns(column("m", map_of("bigint", "long")))


@EDGES.reports("schema.unknown-type")
def unknown_type_of_a_value() -> TableBuilder:
    return with_columns(column("m", map_of("long", "bigint")))


@EDGES.reports("schema.unknown-type")
def unknown_type_of_an_element() -> TableBuilder:
    return with_columns(column("xs", array_of("bigint")))


@EDGES.reports("schema.field-missing-key")
def map_without_the_type_of_its_keys() -> TableBuilder:
    without = map_of("string", "long")
    del without["keyType"]
    return with_columns(column("m", without))


@EDGES.reports("schema.field-missing-key")
def array_without_the_type_of_its_elements() -> TableBuilder:
    without = array_of("string")
    del without["elementType"]
    return with_columns(column("xs", without))


@EDGES.reports("schema.field-missing-key")
def field_without_a_type() -> TableBuilder:
    without = column("x", "string")
    del without["type"]
    return with_columns(without)


@EDGES.reports()
def ten_thousand_leaf_columns() -> TableBuilder:
    return with_columns(*(column(f"c{number}", "long") for number in range(9_997)))


def nested_in_arrays(depth: int) -> Any:
    found: Any = "long"
    for _ in range(depth):
        found = array_of(found)
    return found


@EDGES.reports()
def types_as_deep_as_may_be() -> TableBuilder:
    """The column itself lies below the root."""
    return with_columns(column("deep", nested_in_arrays(MAX_DEPTH - 1)))


@EDGES.reports("schema.bad-json")
def types_one_deeper_than_may_be() -> TableBuilder:
    return with_columns(column("deep", nested_in_arrays(MAX_DEPTH)))


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Make, tmp_path: Path) -> None:
    assert_reports(rules, make, tmp_path)


def test_void_columns_are_reported_at_the_struct_or_the_table(tmp_path: Path) -> None:
    def nothing_but_voids() -> TableBuilder:
        table = TableBuilder(schema=struct(column("id", "void"), column("p", "string")))
        for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
            table.set_stats(version, {"numRecords": 10}, number)
        return table

    of_table = found_by("schema.void-in-complex", nothing_but_voids, tmp_path / "table")
    of_struct = found_by(
        "schema.void-in-complex", lambda: with_columns(column("s", struct(column("a", "void")))), tmp_path / "struct"
    )

    said = "every column of {} is void, so nothing can be written"
    assert [said.format("the table")] == [finding.message for finding in of_table]
    assert [said.format("the struct s")] == [finding.message for finding in of_struct]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("", "the root of the schema"),
        ("a.b", "a.b"),
        ("x" * 120, "x" * 120),
        ("y" + "x" * 120, "…" + "x" * 120),
    ],
)
def test_a_long_path_is_shown_by_its_end(path: str, shown: str) -> None:
    assert shown == shown_path(path)


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("interval day", "interval day to second"),
        ("interval day to second", "interval day to second"),
        ("interval hour to minute", "interval day to second"),
        ("interval month", "interval year to month"),
        ("interval year to month", "interval year to month"),
        ("interval minute to hour", None),
        ("interval month to month", None),
        ("interval year to day", None),
        ("interval week", None),
    ],
)
def test_intervals_go_from_the_greater_unit_to_the_smaller(name: str, whole: str | None) -> None:
    assert whole == interval_name(name)
    assert (whole is not None) is is_type_name(name)


def test_a_walk_ends_where_types_are_too_deep() -> None:
    at_the_edge, beyond = (list(walk_parts(nested_in_arrays(depth))) for depth in (MAX_DEPTH, MAX_DEPTH + 1))

    assert [] == [part.path for part in at_the_edge if part.is_too_deep]
    assert [True] == [part.is_too_deep for part in beyond if part.value == "long"]
    assert [MAX_DEPTH + 1, MAX_DEPTH + 2] == [len(at_the_edge), len(beyond)]


# -- type widening ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_type", "entry", "message", "expected"),
    [
        (
            ARRAY_OF_MAPS,
            change("decimal(6,2)", "decimal(10,4)", "element.key"),
            "has the fieldPath element.key, which points to a string",
            "element.value",
        ),
        (
            ARRAY_OF_MAPS,
            change("decimal(6,2)", "decimal(10,4)"),
            "has no fieldPath, but the column is not primitive",
            "element.value",
        ),
        (
            ARRAY_OF_MAPS,
            change("decimal(6,2)", "decimal(10,4)", "element"),
            "has the fieldPath element, which does not point to a primitive type",
            "element.value",
        ),
        (
            ARRAY_OF_MAPS,
            change("decimal(6,2)", "decimal(8,3)", "element.key"),
            "has the fieldPath element.key, which points to a string",
            None,
        ),
        (
            map_of("long", array_of("long")),
            change("integer", "long", "value"),
            "has the fieldPath value, which does not point to a primitive type",
            None,
        ),
        (
            "long",
            change("integer", "long", "element"),
            "has the fieldPath element, which does not exist in that column",
            "no fieldPath",
        ),
    ],
)
def test_a_wrong_path_of_a_change_is_reported_with_the_only_right_one(
    data_type: Any, entry: Action, message: str, expected: str | None, tmp_path: Path
) -> None:
    (found,) = found_by("typewidening.bad-path", lambda: table_with(changed("c", data_type, entry)), tmp_path)

    assert f"the change of c from {entry['fromType']} to {entry['toType']} {message}" == found.message
    assert expected == found.expected
