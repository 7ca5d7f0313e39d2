"""Damages of SQL that a table keeps, and of identity columns."""

from __future__ import annotations

import json
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import Action, TableBuilder, column, struct

LEGACY: Action = {"minReaderVersion": 1, "minWriterVersion": 6}


def features(*names: str) -> Action:
    return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(names)}


def field(name: str, data_type: Any, **metadata: Any) -> Action:
    made = column(name, data_type)
    made["metadata"] = {key.replace("__", "."): value for key, value in metadata.items()}
    return made


def constrained(text: str) -> TableBuilder:
    return TableBuilder(protocol=features("checkConstraints"), properties={"delta.constraints.sound": text})


def table_with(made: Action, feature: str) -> TableBuilder:
    schema = struct(column("id", "long"), column("name", "string"), made, column("p", "string"))
    return TableBuilder(schema=schema, protocol=features(feature))


@damage("constraint.bad-sql")
def constraint_without_its_right_side() -> TableBuilder:
    return constrained("id > 0 AND name <>")


@damage("constraint.bad-sql")
def constraint_on_a_column_that_is_gone() -> TableBuilder:
    return constrained("id > 0 OR gone IS NULL")


@damage("constraint.bad-sql")
def constraint_that_is_a_number() -> TableBuilder:
    return constrained("(id + 1)")


@damage("constraint.bad-sql")
def constraint_that_is_a_text_column() -> TableBuilder:
    return constrained("name")


@damage("invariant.bad-json")
def invariant_without_inner_expression() -> TableBuilder:
    return table_with(field("c", "long", delta__invariants='{"expression":"c > 0"}'), "invariants")


@damage("invariant.bad-json")
def invariant_as_bare_sql() -> TableBuilder:
    """A warning: the old drafts have it so."""
    return table_with(field("c", "long", delta__invariants="c > 0"), "invariants")


@damage("invariant.bad-json")
def invariant_that_is_no_sql() -> TableBuilder:
    text = json.dumps({"expression": {"expression": "c > (0"}})
    return table_with(field("c", "long", delta__invariants=text), "invariants")


@damage("generated.bad-sql")
def generated_from_a_column_that_is_gone() -> TableBuilder:
    return table_with(field("c", "date", delta__generationExpression="CAST(gone AS DATE)"), "generatedColumns")


@damage("generated.bad-sql")
def generated_at_random() -> TableBuilder:
    return table_with(field("c", "double", delta__generationExpression="id + rand()"), "generatedColumns")


@damage("generated.bad-sql")
def generated_by_no_sql() -> TableBuilder:
    return table_with(field("c", "string", delta__generationExpression="concat(name, 'x)"), "generatedColumns")


def table_by_day(source: str, day: str, expression: str, **bounds: str) -> TableBuilder:
    """A table partitioned by a generated column; the bounds are those of the file of version 3."""
    schema = struct(
        column("id", "long"),
        column("name", "string"),
        column("at", source),
        field("p", day, delta__generationExpression=expression),
    )
    table = TableBuilder(schema=schema, protocol=features("generatedColumns"))
    for version in table.commits:
        for action in table.commits[version]:
            for kind in ("add", "remove"):
                if kind in action:
                    value = "2024" if day == "integer" else "2024-03-01"
                    action[kind]["partitionValues"] = {"p": value}
                    action[kind]["path"] = f"p={value}/{action[kind]['path'].rpartition('/')[2]}"
    stats = table.stats(3)
    stats["minValues"]["at"], stats["maxValues"]["at"], stats["nullCount"]["at"] = bounds["low"], bounds["high"], 0
    table.set_stats(3, stats)
    return table


@damage("generated.partition")
def day_after_the_last_time() -> TableBuilder:
    return table_by_day(
        "timestamp",
        "date",
        "CAST(at AS DATE)",
        low="2024-02-28T01:00:00.000Z",
        high="2024-02-29T05:59:59.999Z",  # more than 18 hours before the day: no zone is that far from UTC
    )


@damage("generated.partition")
def day_before_the_first_date() -> TableBuilder:
    return table_by_day("date", "date", "to_date(`at`)", low="2024-03-02", high="2024-03-02")


@damage("generated.partition")
def year_of_other_dates() -> TableBuilder:
    return table_by_day("date", "integer", "year(at)", low="2025-01-01", high="2025-02-01")


@damage("default.bad-sql")
def default_without_quotes() -> TableBuilder:
    return table_with(field("c", "string", CURRENT_DEFAULT="unknown"), "allowColumnDefaults")


@damage("default.bad-sql")
def default_that_is_no_sql() -> TableBuilder:
    return table_with(field("c", "string", CURRENT_DEFAULT="'it's'"), "allowColumnDefaults")


@damage("default.bad-sql")
def default_of_a_variant() -> TableBuilder:
    """An error."""
    table = table_with(field("c", "variant", CURRENT_DEFAULT="parse_json('1')"), "allowColumnDefaults")
    table.protocol |= {
        "minReaderVersion": 3,
        "readerFeatures": ["variantType"],
        "writerFeatures": ["variantType", "allowColumnDefaults"],
    }
    return table


IDENTITY: dict[str, Any] = {
    "delta__identity__start": 1,
    "delta__identity__step": 1,
    "delta__identity__allowExplicitInsert": False,
    "delta__identity__highWaterMark": 40,
}


def identity_table(data_type: str = "long", **changes: Any) -> TableBuilder:
    metadata = {key: value for key, value in (IDENTITY | changes).items() if value is not None}
    return table_with(field("c", data_type, **metadata), "identityColumns")


@damage("identity.incomplete")
def identity_without_step() -> TableBuilder:
    return identity_table(delta__identity__step=None)


@damage("identity.incomplete")
def identity_with_start_as_text() -> TableBuilder:
    return identity_table(delta__identity__start="1")


@damage("identity.step-zero")
def identity_with_step_zero() -> TableBuilder:
    return identity_table(delta__identity__step=0)


@damage("identity.type")
def identity_of_integers() -> TableBuilder:
    return identity_table("integer")


@damage("identity.immutable-changed")
def identity_with_another_step() -> TableBuilder:
    table = identity_table()
    text = table.metadata["schemaString"].replace('"delta.identity.step": 1', '"delta.identity.step": 2')
    table.commit(table.change_metadata(schemaString=text), operation="SET TBLPROPERTIES")
    return table
