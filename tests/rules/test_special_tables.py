"""Healthy tables with row tracking, clustering, type widening, Iceberg compatibility and expressions are silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules import corruptions_clustering as clustering
from tests.rules import corruptions_expressions as expressions
from tests.rules import corruptions_iceberg as iceberg
from tests.rules import corruptions_row_tracking as row_tracking
from tests.rules import corruptions_widening as widening
from tests.rules.table_builder import TableBuilder
from tests.rules.test_corruptions import inspect


def tracked() -> TableBuilder:
    """The mark is written again as it is; a file is added again with its ids; a file without rows takes no id."""
    table = row_tracking.tracked_table()
    full, empty = (
        table.new_add(
            "c", number, 4, baseRowId=40, defaultRowCommitVersion=4, stats=json.dumps({"numRecords": records})
        )
        for number, records in ((5, 10), (6, 0))
    )
    row_tracking.tagged(table, full, empty, row_tracking.mark(49))
    row_tracking.tagged(table, row_tracking.again(table), row_tracking.mark(49))
    return table


def tracked_under_the_name_of_the_protocol() -> TableBuilder:
    table = row_tracking.tracked_table()
    for version in (1, 2, 3):
        domain = table.action(version, "domainMetadata")
        domain["configuration"] = domain["configuration"].replace("rowIdHighWaterMark", "highWaterMark")
    return table


def clustered() -> TableBuilder:
    return clustering.clustered_table([["id"], ["NAME"]])


def clustered_as_the_protocol_shows() -> TableBuilder:
    return clustering.clustered_table(["id", "name"])


def widened() -> TableBuilder:
    """Two changes in a row, the property set in the commit of the first; and a change within an array."""
    table = widening.narrow_table()
    first = table.change_metadata(schemaString=widening.schema_text(widening.WIDENED))
    first["metaData"]["configuration"]["delta.enableTypeWidening"] = "true"
    table.commit(first, operation="CHANGE COLUMN")
    entries = (widening.change("integer", "long"), widening.change("long", "decimal(22, 2)"))
    second = widening.schema_text(widening.changed("id", "decimal(22,2)", *entries))
    table.commit(table.change_metadata(schemaString=second), operation="CHANGE COLUMN")
    return table


def widened_within_an_array() -> TableBuilder:
    change = widening.change("decimal(6,2)", "decimal(10,4)", "element.value")
    return widening.table_with(widening.changed("c", widening.ARRAY_OF_MAPS, change))


def changes_removed_before_any_file() -> TableBuilder:
    """The change is as old as the oldest file: no file of the older type is live."""
    table = widening.table_with(widening.changed("c", "long", widening.change("integer", "long")))
    table.commits[0].append(table.new_add("c", 9, 0))
    schema = json.loads(table.metadata["schemaString"])
    schema["fields"][2]["metadata"] = {}
    table.commit(table.change_metadata(schemaString=json.dumps(schema)), operation="SET TBLPROPERTIES")
    return table


def compatible_with_iceberg() -> TableBuilder:
    return iceberg.compatible_table(
        "V2", extra=iceberg.field_with_ids("list", iceberg.ARRAY, {"list.element": 8}), mode="id"
    )


def constrained() -> TableBuilder:
    return expressions.constrained("ID > 0 AND `name` <> 'x' OR any_function(p, id)")


def invariant() -> TableBuilder:
    text = json.dumps({"expression": {"expression": "c > 0"}})
    return expressions.table_with(expressions.field("c", "long", delta__invariants=text), "invariants")


def by_day_at_the_edge() -> TableBuilder:
    """The writer's zone may have been eighteen hours from UTC, and the greatest value is cut."""
    return expressions.table_by_day(
        "timestamp", "date", "CAST(at AS DATE)", low="2024-02-28T01:00:00.000Z", high="2024-02-29T05:59:59.999001Z"
    )


def by_year() -> TableBuilder:
    return expressions.table_by_day("date", "integer", "year(at)", low="2024-12-31", high="2025-02-01")


def default_value() -> TableBuilder:
    return expressions.table_with(
        expressions.field("c", "timestamp", CURRENT_DEFAULT="CURRENT_TIMESTAMP"), "allowColumnDefaults"
    )


def identity() -> TableBuilder:
    """The high water mark moves."""
    table = expressions.identity_table()
    text = table.metadata["schemaString"].replace(
        '"delta.identity.highWaterMark": 40', '"delta.identity.highWaterMark": 50'
    )
    table.commit(table.change_metadata(schemaString=text), operation="WRITE")
    return table


HEALTHY = (
    tracked,
    tracked_under_the_name_of_the_protocol,
    clustered,
    clustered_as_the_protocol_shows,
    widened,
    widened_within_an_array,
    changes_removed_before_any_file,
    compatible_with_iceberg,
    constrained,
    invariant,
    by_day_at_the_edge,
    by_year,
    default_value,
    identity,
)


@pytest.mark.parametrize("make", HEALTHY)
def test_a_healthy_table_is_silent(make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make().write(tmp_path / "t"))

    assert [] == [(finding.rule.id, finding.message) for finding in found.findings]


def test_an_early_preview_of_type_widening_allowed_shorter_decimals(tmp_path: Path) -> None:
    """What the stable feature makes an error is a warning there, if no digit is lost."""
    severities = []
    for number, digits in enumerate(("decimal(4,1)", "decimal(3,1)")):
        field = widening.changed("c", digits, widening.change("byte", digits, tableVersion=0))
        table = widening.table_with(field, features=(widening.PREVIEW,))
        found = inspect(table.write(tmp_path / str(number)))
        severities += [f.severity for f in found.findings if f.rule.id == "typewidening.change-not-allowed"]

    assert ["warning", "error"] == severities
