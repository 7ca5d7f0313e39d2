"""What stands in the way of a wider type: each guard by an example, and its silence without it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from deltacli.delta.schema.widening import parses
from tests.support.widening import ENABLED, WIDENING, Json, array, codes, field, map_of, planned, protocol, struct

NESTED = struct(field("b", "integer"), field("B2", "date"), field("c.d", "short"))
FIELDS = [
    field("id", "integer"),
    field("other", "integer"),
    field("s", NESTED),
    field("m", map_of("integer", struct(field("v", "float")))),
    field("xs", array("decimal(10,2)")),
    field("ys", array(struct(field("b", "integer"), field("c", "integer")))),
    field("user", "integer"),
]

WITH_EXPRESSIONS = protocol(*WIDENING, "generatedColumns", "identityColumns")
"""A protocol without which the metadata of generated and identity columns has no effect."""


def refused(fields: list[Json], *change: str, **table: Any) -> list[str]:  # Any: what `planned` takes
    column, to_type = change
    return codes(planned(fields, (column, to_type), **table))


def constrained(text: str, column: str, to_type: str = "long", key: str = "delta.constraints.c") -> list[str]:
    return refused(FIELDS, column, to_type, configuration=ENABLED | {key: text})


# -- expressions of others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "to_type"),
    [
        ("ID > 0", "id", "long"),
        ("`id` is not null", "id", "long"),
        ("abs(other + id) < 3", "id", "long"),
        ("t.id > 0", "id", "long"),
        ("catalog.db.t.s.B > 0", "s.b", "long"),
        ("s is not null", "s.b", "long"),
        ("S.`C.D` = 1", "s.`c.d`", "long"),
        ("m[1].v > 0", "m.value.v", "double"),
        ("size(m) > 0", "m.key", "long"),
        ("size(ys.b) > 0", "ys.element.b", "long"),
        ("exists(xs, x -> x > 1)", "xs.element", "decimal(12,2)"),
        ("hash(*) > 0", "id", "long"),
        ('"id" > 0', "id", "long"),
        ("user > 0", "user", "long"),
        ("id >", "other", "long"),
        ("(select max(id) from t) > 1", "other", "long"),
        ("gone > 0", "other", "long"),
        ("", "other", "long"),
    ],
)
def test_a_constraint_that_refers_to_the_column_or_may(text: str, column: str, to_type: str) -> None:
    assert ["widen.check-constraint"] == constrained(text, column, to_type)


@pytest.mark.parametrize(
    ("text", "column", "to_type"),
    [
        ("other > 0", "id", "long"),
        ("s.b > 0", "s.`c.d`", "long"),
        ("s.b > 0 and s.b2 > 'id'", "m.key", "long"),
        ("t.other > 0", "id", "long"),
        ("exists(xs, id -> id > 1)", "id", "long"),
        ("current_date > DATE '2020-01-01'", "user", "long"),
        ("s.b2 > 'b'", "id", "long"),
    ],
)
def test_a_constraint_on_other_columns_does_not_block(text: str, column: str, to_type: str) -> None:
    assert [] == constrained(text, column, to_type)


def test_the_key_of_a_constraint_is_known_in_any_case_and_other_properties_are_none() -> None:
    assert ["widen.check-constraint"] == constrained("id > 0", "id", key="Delta.Constraints.C")
    assert [] == constrained("id > 0", "id", key="my.constraints.c")


def test_the_refusal_names_the_column_the_types_and_the_way_out() -> None:
    (refusal,) = planned(
        FIELDS, ("ID", "bigint"), configuration=ENABLED | {"delta.constraints.Positive": "id   > 0"}
    ).all_refusals

    assert "id cannot become long: the CHECK constraint Positive refers to it, id > 0" == refusal.message
    assert "drop the constraint Positive, widen, add it again" == refusal.hint


def test_a_constraint_that_cannot_be_parsed_is_reported() -> None:
    configuration = ENABLED | {"delta.constraints.c": "(select 1) = 1"}

    (refusal,) = planned(FIELDS, ("id", "long"), configuration=configuration).all_refusals

    assert "is not understood and may refer to it" in refusal.message


@pytest.mark.parametrize(
    ("expression", "found"),
    [("id + 1", ["widen.generated-column"]), ("other + 1", []), (7, ["widen.generated-column"])],
)
def test_a_generated_column_made_from_the_column(expression: object, found: list[str]) -> None:
    generated = field("g", "long", **{"delta.generationExpression": expression})

    assert found == refused([*FIELDS, generated], "id", "long", protocol_action=WITH_EXPRESSIONS)
    assert [] == refused([*FIELDS, generated], "id", "long")


@pytest.mark.parametrize(
    ("invariant", "found"),
    [
        ('{"expression":{"expression":"id > 0"}}', ["widen.invariant"]),
        ('{"expression":{"expression":"other > 0"}}', []),
        ("id > 0", ["widen.invariant"]),
        ("other > 0", []),
        ('{"expression":"other > 0"}', ["widen.invariant"]),
        (7, ["widen.invariant"]),
    ],
)
def test_an_invariant_of_another_column(invariant: object, found: list[str]) -> None:
    assert found == refused([*FIELDS, field("i", "string", **{"delta.invariants": invariant})], "id", "long")


# -- what the column itself is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"delta.generationExpression": "other + 1"}, ["widen.generation-expression"]),
        ({"delta.invariants": "other > 0"}, ["widen.invariant"]),
        ({"delta.identity.start": 1}, ["widen.identity"]),
        ({"delta.identity.highWaterMark": 9, "delta.identity.step": 1}, ["widen.identity"]),
        ({"__CHAR_VARCHAR_TYPE_STRING": "struct<b:int,c:char(3)>"}, ["widen.char-varchar"]),
        ({"comment": "plain", "identity.start": 1}, []),
    ],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_column_or_its_parents_may_have_other_roles(
    metadata: dict[str, Any], found: list[str], is_nested: bool
) -> None:
    if is_nested:
        holder, place = field("n", struct(field("b", array("integer"))), **metadata), "n.b.element"
    else:
        holder, place = field("n", "integer", **metadata), "n"

    assert found == refused([*FIELDS, holder], place, "long", protocol_action=WITH_EXPRESSIONS)
    inert = ("widen.generation-expression", "widen.identity")
    assert [code for code in found if code not in inert] == refused([*FIELDS, holder], place, "long")


def test_a_text_of_limited_length_is_refused_as_such() -> None:
    column = field("a", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")

    assert ["widen.char-varchar"] == refused([column], "a", "long")
    assert ["widen.char-varchar"] == refused([field("a", "varchar(3)")], "a", "long")
    assert ["widen.not-allowed"] == refused([field("a", "string")], "a", "long")


@pytest.mark.parametrize(
    ("from_type", "default", "to_type", "found"),
    [
        ("integer", "42", "long", []),
        ("integer", "-42L", "decimal(10,0)", []),
        ("integer", "null", "long", []),
        ("integer", "CAST(NULL AS INT)", "long", []),
        ("integer", "cast('7' as int)", "long", []),
        ("integer", "12345678901", "decimal(10,0)", ["widen.default"]),
        ("integer", "42.5", "long", ["widen.default"]),
        ("float", "4.5", "double", []),
        ("float", "1.5F", "double", []),
        ("date", "DATE '2020-01-01'", "timestamp_ntz", []),
        ("date", "date '2020-13-01'", "timestamp_ntz", ["widen.default"]),
        ("date", "'2020-01-01'", "timestamp_ntz", ["widen.default"]),
        ("date", "20200101", "timestamp_ntz", ["widen.default"]),
        ("integer", "date '2020-01-01'", "long", ["widen.default"]),
        ("date", "current_date()", "timestamp_ntz", ["widen.default"]),
        ("integer", "'7'", "long", ["widen.default"]),
        ("integer", "1 + 1", "long", ["widen.default"]),
        ("integer", "", "long", ["widen.default"]),
        ("integer", 7, "long", ["widen.default"]),
    ],
)
def test_a_default_that_is_surely_a_value_of_the_wider_type(
    from_type: str, default: object, to_type: str, found: list[str]
) -> None:
    assert found == refused([field("a", from_type, CURRENT_DEFAULT=default)], "a", to_type)


@pytest.mark.parametrize(
    ("default", "found"), [("null", []), ("array(1)", ["widen.default"]), ("1", ["widen.default"])]
)
def test_a_default_of_a_parent_of_the_column_may_only_be_null(default: str, found: list[str]) -> None:
    assert found == refused([field("a", array("integer"), CURRENT_DEFAULT=default)], "a.element", "long")


# -- other formats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "features", "change", "found"),
    [
        ({}, ["icebergCompatV1"], ("id", "double"), ["widen.iceberg-compat"]),
        ({}, ["icebergCompatV1"], ("id", "long"), []),
        ({"delta.enableIcebergCompatV2": "true"}, [], ("s.B2", "timestamp_ntz"), ["widen.iceberg-compat"]),
        ({"delta.enableIcebergCompatV2": "false"}, [], ("s.B2", "timestamp_ntz"), []),
        ({}, ["icebergCompatV3"], ("xs.element", "decimal(12,3)"), ["widen.iceberg-compat"]),
        ({}, ["icebergWriterCompatV1"], ("small", "short"), ["widen.iceberg-compat"]),
        ({}, ["icebergWriterCompatV1"], ("small", "long"), []),
        ({}, ["icebergCompatV2"], ("small", "short"), []),
        ({"delta.universalFormat.enabledFormats": "iceberg"}, [], ("id", "double"), ["widen.uniform"]),
        ({"delta.universalFormat.enabledFormats": "hudi, iceberg"}, [], ("id", "long"), []),
        ({"delta.universalFormat.enabledFormats": ""}, [], ("id", "double"), []),
    ],
)
def test_other_formats_allow_less(
    configuration: dict[str, str], features: list[str], change: tuple[str, str], found: list[str]
) -> None:
    names = protocol(*WIDENING, *features)

    assert found == refused(
        [*FIELDS, field("small", "byte")], *change, protocol_action=names, configuration=ENABLED | configuration
    )


@pytest.mark.parametrize(
    ("change", "way_out"),
    [
        (("id", "double"), "widen it to long"),
        (("s.`c.d`", "double"), "widen it to integer or long"),
        (("xs.element", "decimal(12,3)"), "keep the scale: decimal(p,2) with p > 10"),
        (("s.B2", "timestamp_ntz"), "turn the compatibility off and drop its feature"),
    ],
)
def test_the_hint_suggests_a_type_that_the_other_format_allows(change: tuple[str, str], way_out: str) -> None:
    (refusal,) = planned(FIELDS, change, protocol_action=protocol(*WIDENING, "icebergCompatV2")).all_refusals

    assert way_out == refusal.hint


def test_metadata_of_another_format_is_reported() -> None:
    uniform = ENABLED | {"delta.universalFormat.enabledFormats": "iceberg"}

    (caution,) = planned(FIELDS, ("id", "long"), configuration=uniform).warnings

    assert "widen.uniform" == caution.code


# -- partition values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("from_type", "to_type", "texts", "found"),
    [
        ("integer", "long", ["1", "-7", None, ""], []),
        ("integer", "long", ["1", "1.5"], ["widen.partition-value"]),
        ("integer", "decimal(12,2)", ["1", "0007"], []),
        ("integer", "decimal(10,0)", ["12345678901"], ["widen.partition-value"]),
        ("date", "timestamp_ntz", ["2020-01-01", "1969-12-31"], []),
        ("date", "timestamp_ntz", ["2020-02-30"], ["widen.partition-value"]),
        ("date", "timestamp_ntz", ["+294248-01-01"], ["widen.partition-value"]),
        ("date", "timestamp_ntz", ["__HIVE_DEFAULT_PARTITION__"], ["widen.partition-value"]),
        ("float", "double", ["0.1", "NaN", "-Infinity", "1E10"], []),
        ("float", "double", ["one"], ["widen.partition-value"]),
    ],
)
def test_partition_values_must_be_values_of_the_wider_type(
    from_type: str, to_type: str, texts: list[str | None], found: list[str]
) -> None:
    fields = [field("P", from_type), field("x", "string")]

    assert found == refused(fields, "p", to_type, partition_columns=["P"], partition_values=lambda _: texts)


def test_partition_values_are_read_by_physical_name_and_only_if_needed() -> None:
    asked: list[str] = []

    def values(name: str) -> Iterable[str]:
        asked.append(name)
        return ["1"]

    fields = [field("p", "integer", **{"delta.columnMapping.physicalName": "col-1"}), field("x", "integer")]
    table = {
        "protocol_action": protocol(*WIDENING, "columnMapping"),
        "configuration": ENABLED | {"delta.columnMapping.mode": "name"},
        "partition_columns": ["p"],
        "partition_values": values,
    }

    assert [] == refused(fields, "x", "long", **table)
    assert [] == refused(fields, "p", "integer", **table)
    assert [] == asked
    assert [] == refused(fields, "p", "long", **table)
    assert ["col-1"] == asked


def test_unread_partition_values_are_a_refusal() -> None:
    assert ["widen.partition-value"] == refused([field("p", "integer")], "p", "long", partition_columns=["p"])


def test_a_nested_field_with_the_name_of_a_partition_column_is_not_one() -> None:
    fields = [field("b", "integer"), field("s", NESTED)]

    assert [] == refused(fields, "s.b", "long", partition_columns=["b"])


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (9, "9 partition values cannot be read as that: x0, x1, x2, …"),
        (3, "3 partition values cannot be read as that: x0, x1, x2"),
        (1, "1 partition value cannot be read as that: x0"),
    ],
)
def test_wrong_values_are_counted_and_few_shown(count: int, shown: str) -> None:
    (refusal,) = planned(
        [field("p", "integer")],
        ("p", "long"),
        partition_columns=["p"],
        partition_values=lambda _: [f"x{number}" for number in range(count)],
    ).all_refusals

    assert f"p cannot become long: {shown}" == refusal.message


@pytest.mark.parametrize(
    ("text", "is_value"),
    [
        ("+294247-01-10 04:00:54.775807", True),
        ("+294247-01-10 04:00:54.775808", False),
        ("-290308-12-21 19:59:05.224192", True),
        ("-290308-12-21 19:59:05.224191", False),
    ],
)
def test_times_end_where_microseconds_do(text: str, is_value: bool) -> None:
    assert is_value == parses("timestamp_ntz", text)


@pytest.mark.parametrize(
    ("from_type", "to_type", "caution"),
    [
        ("date", "timestamp_ntz", "widen.partition-date"),
        ("float", "double", "widen.partition-float"),
        ("integer", "decimal(12,2)", "widen.partition-decimal"),
        ("decimal(5,2)", "decimal(7,4)", "widen.partition-decimal"),
    ],
)
def test_partition_values_that_other_readers_read_differently_are_reported(
    from_type: str, to_type: str, caution: str
) -> None:
    def cautions(partition_columns: list[str]) -> list[str]:
        plan = planned(
            [field("p", from_type)],
            ("p", to_type),
            partition_columns=partition_columns,
            partition_values=lambda _: [],
        )
        return [found.code for found in plan.warnings]

    assert [caution] == cautions(["p"])
    assert [] == cautions([])


@pytest.mark.parametrize(
    ("from_type", "to_type"), [("decimal(5,2)", "decimal(10,2)"), ("integer", "decimal(10,0)"), ("integer", "long")]
)
def test_partition_values_that_keep_their_decimal_places_are_not_reported(from_type: str, to_type: str) -> None:
    plan = planned([field("p", from_type)], ("p", to_type), partition_columns=["p"], partition_values=lambda _: [])

    assert () == plan.warnings


# -- types and history -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("from_type", "to_type", "way_out"),
    [
        ("long", "integer", "long can become decimal(p,s) with p-s >= 20"),
        ("integer", "decimal(11,2)", "integer can become long, double or decimal(p,s) with p-s >= 10"),
        ("double", "float", "add a column, and copy the values into it"),
        ("void", "long", "deltacli alter {table} type a long"),
    ],
)
def test_a_change_that_is_not_allowed_names_those_that_are(from_type: str, to_type: str, way_out: str) -> None:
    (refusal,) = planned([field("a", from_type)], ("a", to_type)).all_refusals

    assert ("widen.not-allowed", way_out) == (refusal.code, refusal.hint)
    assert refusal.message.startswith(f"a cannot become {to_type}: ")


def test_a_broken_history_is_not_continued() -> None:
    entries = [{"fromType": "byte", "toType": "short"}]
    broken = field("a", "integer", **{"delta.typeChanges": entries})

    assert ["widen.history-broken"] == refused([broken], "a", "long")
    assert ["widen.history-broken"] == refused([field("a", "integer", **{"delta.typeChanges": "[]"})], "a", "long")
    whole = field("a", "short", **{"delta.typeChanges": entries})
    assert [] == refused([whole], "a", "long")


@pytest.mark.parametrize(("path", "found"), [("element.key", ["widen.history-path"]), ("element.value", [])])
def test_a_history_in_the_wrong_place_is_reported(path: str, found: list[str]) -> None:
    entries = [{"fromType": "decimal(6, 2)", "toType": "decimal(10, 4)", "fieldPath": path}]
    column = field("e", array(map_of("string", "decimal(10, 4)")), **{"delta.typeChanges": entries})

    plan = planned([column], ("e.element.value", "decimal(12,4)"))

    assert [] == codes(plan)
    assert found == [caution.code for caution in plan.warnings]
