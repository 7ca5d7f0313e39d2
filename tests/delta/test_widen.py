"""Plans of wider types as a whole: consent, protocol, versions, several columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deltacli.core.errors import Unreadable, UsageError
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import decimal_parts
from deltacli.delta.schema.widening import plan_widening
from tests.support.widening import (
    ENABLED,
    array,
    codes,
    config_of,
    field,
    map_of,
    metadata,
    planned,
    protocol,
    struct,
)

LEGACY = {"minReaderVersion": 1, "minWriterVersion": 2}
FIELDS = [field("a", "byte"), field("m", map_of("date", array("float"))), field("d", "date")]


def entries(schema_string: str, number: int) -> list[Any]:  # Any: JSON values
    return list(json.loads(schema_string)["fields"][number]["metadata"]["delta.typeChanges"])


def test_several_columns_are_one_commit() -> None:
    plan = planned(FIELDS, ("A", "int"), ("m.value.element", "double"), ("m.key", "timestamp_ntz"), ("d", "date"))

    assert [("a", "integer"), ("m.value.element", "double"), ("m.key", "timestamp_ntz")] == [
        (change.column, change.to_type) for change in plan.due
    ]
    after = plan.metadata_after
    assert after is not None
    assert ["value.element", "key"] == [entry["fieldPath"] for entry in entries(after["schemaString"], 1)]
    assert {**plan.metadata_before, "schemaString": after["schemaString"]} == after
    assert plan.protocol_after is None


def test_the_present_type_is_nothing_to_do_and_needs_no_consent() -> None:
    fields = [field("a", "decimal(10, 2)", CURRENT_DEFAULT="f(x)"), field("b", "long")]

    plan = planned(fields, ("a", "DECIMAL(10,2)"), ("b", "bigint"), protocol_action=LEGACY, configuration={})

    assert plan.is_noop
    assert ([], None, None, False) == (
        codes(plan),
        plan.protocol_after,
        plan.metadata_after,
        plan.enables_property,
    )


@pytest.mark.parametrize("change", [("b", "x"), ("b", "long"), ("m", "long")])
def test_an_unknown_column_or_type_is_a_usage_error(change: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        planned(FIELDS, change)
    with pytest.raises(UsageError):
        planned(FIELDS)


@pytest.mark.parametrize("again", ["a", "A", "`a`"])
def test_a_column_named_twice_is_a_usage_error(again: str) -> None:
    with pytest.raises(UsageError, match="column a is named twice"):
        planned(FIELDS, ("a", "int"), (again, "long"))


def test_one_refused_column_blocks_all() -> None:
    plan = planned(FIELDS, ("a", "long"), ("d", "long"))

    assert [True, False] == [change.is_allowed for change in plan.changes]
    assert plan.metadata_after is None
    shown = plan.changes[1].as_json()
    assert ("d", "date", "long", False) == (shown["column"], shown["fromType"], shown["toType"], shown["allowed"])
    assert ["code", "message", "wayOut"] == list(shown["refusals"][0])


# -- consent ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "false", "TRUE ", "true"])
@pytest.mark.parametrize("enable", [False, True])
def test_the_property_is_set_only_with_consent(value: str | None, enable: bool) -> None:
    configuration = {"x": "1"} | ({} if value is None else {"delta.enableTypeWidening": value})
    is_on = value in ("TRUE ", "true")

    plan = planned(FIELDS, ("a", "long"), configuration=configuration, enable=enable)

    assert plan.enables_property == (not is_on)
    if is_on or enable:
        after = plan.metadata_after
        assert after is not None
        assert configuration | ({} if is_on else ENABLED) == after["configuration"]
    else:
        assert [("widen.not-enabled", "--enable")] == [(one.code, one.hint) for one in plan.all_refusals]


def test_the_protocol_is_upgraded_only_with_consent() -> None:
    without = planned(FIELDS, ("a", "long"), protocol_action=LEGACY)
    upgraded = planned(FIELDS, ("a", "long"), protocol_action=LEGACY, upgrade_protocol=True)

    assert [("widen.protocol-upgrade-needed", "--upgrade-protocol")] == [
        (one.code, one.hint) for one in without.all_refusals
    ]
    assert "lacks typeWidening; " in without.refusals[0].message
    assert without.metadata_after is None
    assert without.protocol_after == upgraded.protocol_after
    assert upgraded.metadata_after is not None
    assert upgraded.protocol_after is not None
    assert ["appendOnly", "invariants", "typeWidening"] == upgraded.protocol_after["writerFeatures"]
    assert ("typeWidening",) == upgraded.added_features
    assert LEGACY == upgraded.protocol_before


@pytest.mark.parametrize(
    ("features", "to_type", "added"),
    [
        (["typeWidening", "timestampNtz"], "timestamp_ntz", ()),
        (["typeWidening"], "timestamp_ntz", ("timestampNtz",)),
        (["typeWidening", "timestampWithoutTimezone"], "timestamp_ntz", ()),
        (["typeWidening-preview"], "timestamp_ntz", ("timestampNtz",)),
        ([], "timestamp_ntz", ("typeWidening", "timestampNtz")),
    ],
)
def test_a_time_without_zone_brings_its_feature(features: list[str], to_type: str, added: tuple[str, ...]) -> None:
    plan = planned(FIELDS, ("d", to_type), protocol_action=protocol(*features), upgrade_protocol=True)

    assert added == plan.added_features
    assert bool(added) == (plan.protocol_after is not None)


def test_a_feature_in_one_list_only_needs_consent_too() -> None:
    half = protocol("typeWidening") | {"readerFeatures": []}

    assert ["widen.protocol-upgrade-needed"] == codes(planned(FIELDS, ("a", "long"), protocol_action=half))
    plan = planned(FIELDS, ("a", "long"), protocol_action=half, upgrade_protocol=True)
    assert protocol("typeWidening") == plan.protocol_after


def test_an_invalid_protocol_is_refused() -> None:
    illegal = {"minReaderVersion": 3, "minWriterVersion": 5}

    plan = planned(FIELDS, ("a", "long"), protocol_action=illegal, upgrade_protocol=True)

    assert ["protocol.reader3-needs-writer7"] == codes(plan)
    assert plan.metadata_after is None


def test_the_lists_of_a_protocol_keep_their_order_where_they_are_known() -> None:
    names = ["timestampNtz", "appendOnly"]
    raw = metadata(struct(*FIELDS), ENABLED)
    config = config_of(protocol(*names), raw)

    def listed(config: TableConfiguration) -> list[str]:
        plan = plan_widening(config, raw, [("a", "long")], commit_version=1, enable=False, upgrade_protocol=True)
        assert plan.protocol_after is not None
        return list(plan.protocol_after["writerFeatures"])

    assert [*names, "typeWidening"] == listed(config)
    assert [*sorted(names), "typeWidening"] == listed(replace(config, raw_protocol=None))


# -- the preview -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "version"),
    [
        (["typeWidening-preview"], 5),
        (["typeWidening"], None),
        (["typeWidening", "typeWidening-preview"], None),
    ],
)
def test_entries_have_the_version_of_the_commit_only_with_the_preview_feature(
    features: list[str], version: int | None
) -> None:
    plan = planned(FIELDS, ("a", "long"), protocol_action=protocol(*features))

    after = plan.metadata_after
    assert after is not None
    assert [version] == [entry.get("tableVersion") for entry in entries(after["schemaString"], 0)]
    assert plan.protocol_after is None


# -- the rest --------------------------------------------------------------------------------------------------------


def test_change_data_is_reported() -> None:
    def cautions(value: str) -> list[str]:
        configuration = ENABLED | {"delta.enableChangeDataFeed": value}
        return [one.code for one in planned(FIELDS, ("a", "long"), configuration=configuration).warnings]

    assert ["widen.change-data-feed"] == cautions("true")
    assert [] == cautions("false")


def test_actions_out_of_a_checkpoint_become_actions_of_a_commit() -> None:
    plain = metadata(struct(field("a", "byte")), ENABLED)
    of_checkpoint = plain | {
        "name": None,
        "format": {"provider": "parquet", "options": []},
        "configuration": [("delta.enableTypeWidening", "true"), ("x", "1")],
    }
    names = protocol("typeWidening") | {"more": None}

    plan = plan_widening(
        config_of(names, of_checkpoint),
        of_checkpoint,
        [("a", "short")],
        commit_version=1,
        enable=False,
        upgrade_protocol=False,
    )

    after = plan.metadata_after
    assert after is not None
    assert {**plain, "configuration": {**ENABLED, "x": "1"}, "schemaString": after["schemaString"]} == after
    assert protocol("typeWidening") == plan.protocol_before


def test_a_table_without_a_schema_is_unreadable() -> None:
    raw = metadata("", {})
    config = config_of(protocol("typeWidening"), metadata(struct(), {}))

    for broken in (raw, raw | {"schemaString": None}):
        with pytest.raises(Unreadable):
            plan_widening(config, broken, [("a", "long")], commit_version=1, enable=True, upgrade_protocol=True)


def test_a_plan_shows_what_it_does_and_not_the_whole_schema() -> None:
    shown = repr(planned(FIELDS, ("a", "long")))

    assert "column='a', from_type='byte', to_type='long'" in shown
    assert "schemaString" not in shown


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        *[(kind, kind.upper()) for kind in ("binary", "string", "boolean", "timestamp", "varchar(5)", "variant")],
        ("timestamp_ntz", " timestamp_ntz "),
        ("string collate UNICODE", "string collate UNICODE"),
    ],
)
def test_the_present_type_is_nothing_to_do_also_where_nothing_widens_to_it(kind: str, asked: str) -> None:
    plan = planned([field("a", kind)], ("a", asked), protocol_action=LEGACY, configuration={})

    assert (True, []) == (plan.is_noop, codes(plan))


@pytest.mark.parametrize("type_text", ["decimal({},2)", "decimal(10,{})", "dec( {} )", "varchar({})", "{}"])
def test_a_type_with_thousands_of_digits_is_a_usage_error(type_text: str) -> None:
    with pytest.raises(UsageError):
        planned([field("a", "decimal(10,2)")], ("a", type_text.format("9" * 100_000)))


@pytest.mark.parametrize("kind", ["decimal({},2)", "decimal(10,{})"])
def test_a_type_with_thousands_of_digits_cannot_be_widened(kind: str) -> None:
    plan = planned([field("a", kind.format("9" * 100_000))], ("a", "decimal(38,2)"))

    assert ["widen.not-allowed"] == codes(plan)


@pytest.mark.parametrize("name", ["decimal({},2)", "decimal(10,{})", "decimal({})"])
def test_a_decimal_of_thousands_of_digits_is_not_a_decimal(name: str) -> None:
    assert decimal_parts(name.format("9" * 100_000)) is None
