"""Actions, and what stands for them, at the very edge of a rule: exactly the named rules report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.times import DAY_MS, EARLIEST_PLAUSIBLE_MS, WRITER_SKEW_MS
from deltacli.delta.protocol.feature_use import Use, property_uses
from deltacli.delta.schema.types import ArrayType, PrimitiveType, parse_schema
from deltacli.delta.sql.stored import unknown_column
from deltacli.rules.actions.commit_contents import live_rows
from deltacli.rules.expressions.texts import column_type
from deltacli.rules.log.last_checkpoint import difference
from tests.rules.corruptions_actions import INLINE_VECTOR
from tests.rules.corruptions_compactions import Actions, compact, healthy
from tests.rules.corruptions_deletion_vectors import inline, table_with_a_vector, vector_protocol
from tests.rules.corruptions_expressions import constrained, features, field, table_by_day, table_with
from tests.rules.table_builder import Action, TableBuilder, column, struct
from tests.rules.test_corruptions import inspect, rules_of

EDGES: list[tuple[frozenset[str], Callable[[], TableBuilder]]] = []


def edge(*rules: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which exactly these rules report."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        EDGES.append((frozenset(rules), make))
        return make

    return register


# -- compactions -----------------------------------------------------------------------------------------------------


@edge("compaction.bad-name")
def compaction_of_one_version_is_not_compared() -> TableBuilder:
    return compact(TableBuilder(), 2, 2, lambda actions: actions.clear())


def with_vector_from_the_start() -> TableBuilder:
    """A table whose version 4 adds a file that has a deletion vector at once."""
    table = TableBuilder(protocol=vector_protocol(), properties={"delta.enableDeletionVectors": "true"})
    stats = json.dumps({"numRecords": 10, "tightBounds": False})
    table.commit(table.new_add("b", 5, 4, deletionVector=INLINE_VECTOR, stats=stats))
    return table


@edge()
def compaction_with_a_vector() -> TableBuilder:
    return compact(with_vector_from_the_start(), 1, 4)


@edge("compaction.content")
def compaction_that_lacks_a_file_with_a_vector() -> TableBuilder:
    def edit(actions: Actions) -> None:
        actions[:] = [action for action in actions if "deletionVector" not in action.get("add", {})]

    return compact(with_vector_from_the_start(), 1, 4, edit)


def with_other_domain(name: str) -> TableBuilder:
    def edit(actions: Actions) -> None:
        found = next(action for action in actions if action.get("domainMetadata", {}).get("domain") == name)
        found["domainMetadata"]["configuration"] = '{"other":1}'

    return compact(healthy(), 1, 4, edit)


@edge("compaction.content")
def compaction_with_another_configuration() -> TableBuilder:
    return with_other_domain("app.settings")


@edge()
def compaction_with_another_configuration_of_a_removed_domain() -> TableBuilder:
    return with_other_domain("app.other")


def with_other_add(**changes: Any) -> TableBuilder:
    """A compaction of a table whose last file has no value in its partition; the add of it is changed."""
    table = healthy()
    table.add(3).update(path="x.parquet", partitionValues={"p": None})

    def edit(actions: Actions) -> None:
        next(action["add"] for action in actions if action.get("add", {}).get("path") == "x.parquet").update(changes)

    return compact(table, 1, 4, edit)


@edge()
def compaction_that_writes_the_same_otherwise() -> TableBuilder:
    stats = json.loads(with_other_add().add(3)["stats"])
    return with_other_add(stats=json.dumps(stats, indent=1), tags={}, dataChange=False)


@edge()
def compaction_with_a_tag_that_has_no_value() -> TableBuilder:
    return with_other_add(tags={"ZONE": None})


@edge("compaction.content")
def compaction_without_the_key_of_a_null_partition() -> TableBuilder:
    return with_other_add(partitionValues={})


@edge("compaction.content")
def compaction_with_other_statistics() -> TableBuilder:
    return with_other_add(stats='{"numRecords":11}')


# -- deletion vectors ------------------------------------------------------------------------------------------------


@edge()
def short_inline_vector() -> TableBuilder:
    return inline(pathOrInlineDv="0" * 10, sizeInBytes=8)


@edge("dv.empty", "stats.records-disagree")
def vector_of_no_row_for_a_file_without_rows() -> TableBuilder:
    table = table_with_a_vector()
    table.add(4)["deletionVector"]["cardinality"] = 0
    table.set_stats(4, '{"numRecords":0,"tightBounds":false}')
    return table


# -- expressions -----------------------------------------------------------------------------------------------------


def generated(text: str, *more: Action) -> TableBuilder:
    """A generated text column among others."""
    made = field("c", "string", delta__generationExpression=text)
    schema = struct(column("id", "long"), column("name", "string"), made, *more, column("p", "string"))
    return TableBuilder(schema=schema, protocol=features("generatedColumns"))


@edge("generated.bad-sql")
def generated_from_the_time_of_day() -> TableBuilder:
    return generated("concat(name, current_date())")


@edge("generated.bad-sql")
def generated_from_the_user_who_writes() -> TableBuilder:
    return generated("upper(current_user)")


@edge()
def generated_from_a_column_named_like_a_function() -> TableBuilder:
    return generated("upper(current_user)", column("current_user", "string"))


@edge()
def generated_from_a_text_that_is_named_like_a_function() -> TableBuilder:
    return generated("concat(name, 'now')")


@edge()
def constraint_that_is_cast_to_a_condition() -> TableBuilder:
    return constrained("CAST(id AS BOOLEAN)")


@edge("constraint.bad-sql")
def constraint_that_is_cast_to_a_number() -> TableBuilder:
    return constrained("CAST(name AS BIGINT)")


@edge("default.bad-sql")
def default_is_wrong_beside_expressions_of_every_kind() -> TableBuilder:
    invariant = json.dumps({"expression": {"expression": "c > 0"}})
    table = table_with(field("c", "long", delta__invariants=invariant), "invariants")
    fields = json.loads(table.metadata["schemaString"])["fields"]
    fields.insert(0, field("d", "string", CURRENT_DEFAULT="unknown"))
    fields.insert(0, field("e", "long", delta__generationExpression="id + 1"))
    table.metadata["schemaString"] = json.dumps(struct(*fields))
    table.protocol["writerFeatures"] += ["allowColumnDefaults", "generatedColumns"]
    return table


def day_of_local_time(moment: str) -> TableBuilder:
    table = table_by_day("timestamp_ntz", "date", "CAST(at AS DATE)", low=moment, high=moment)
    table.protocol.update(
        minReaderVersion=3, readerFeatures=["timestampNtz"], writerFeatures=["timestampNtz", "generatedColumns"]
    )
    return table


@edge()
def last_moment_of_the_day() -> TableBuilder:
    return day_of_local_time("2024-03-01T23:59:59.999999")


@edge("generated.partition")
def first_moment_of_the_day_after() -> TableBuilder:
    return day_of_local_time("2024-03-02T00:00:00.000000")


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make().write(tmp_path / "t"))

    assert rules == rules_of(found), found.findings


def test_only_files_beyond_a_threshold_are_reported(tmp_path: Path) -> None:
    table = TableBuilder().derive(checkpoint=False, checksums=False)
    table.touch(f"_delta_log/{3:020d}.json", table.time_of(2) + 1)  # older than its commitInfo says: that one counts
    told, made = table.time_of(3), table.add(1)["modificationTime"]
    for name, time in (
        ("old", EARLIEST_PLAUSIBLE_MS),
        ("too-old", EARLIEST_PLAUSIBLE_MS - 1),
        ("young", told + DAY_MS),
        ("too-young", told + DAY_MS + 1),
    ):
        table.commits[3].append(table.new_add("b", 9, 3, path=f"p=b/{name}.parquet", modificationTime=time))
    removes: list[dict[str, Any]] = [
        {"size": 0},
        {"size": -1},
        {"deletionTimestamp": told + WRITER_SKEW_MS},
        {"deletionTimestamp": told + WRITER_SKEW_MS + 1},
        {"deletionTimestamp": made - WRITER_SKEW_MS},
        {"deletionTimestamp": made - WRITER_SKEW_MS - 1},
    ]
    for number, changes in enumerate(removes, start=20):
        table.commits[1].append(table.new_add("b", number, 1))
        table.commits[3].append(table.new_remove("b", number, 3, **changes))

    found = inspect(table.write(tmp_path / "t"))

    assert {
        ("action.bad-modification-time", "p=b/too-old.parquet"),
        ("action.bad-modification-time", "p=b/too-young.parquet"),
        ("action.negative-size", table.path_of("b", 21)),
        ("action.deletion-timestamp-odd", table.path_of("b", 23)),
        ("action.deletion-timestamp-odd", table.path_of("b", 25)),
    } == {(one.rule.id, one.place.key) for one in found.findings if one.rule.id.startswith("action.")}


# -- the parts of rules ----------------------------------------------------------------------------------------------

SCHEMA = parse_schema(
    json.dumps(
        struct(
            column("id", "long"),
            column("s", struct(column("a", "string"))),
            column("xs", {"type": "array", "elementType": "long", "containsNull": True}),
        )
    )
)


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        (("ID",), None),
        (("gone",), "gone"),
        (("s", "A"), None),
        (("s", "gone"), "s.gone"),
        (("s", "id"), "s.id"),  # a column of the table, but not of the struct
        (("t", "id"), None),
        (("lake", "t", "s", "a"), None),
        (("t", "gone"), "t.gone"),
        (("xs", "gone"), None),
    ],
)
def test_columns_may_be_named_with_their_table(path: tuple[str, ...], unknown: str | None) -> None:
    assert unknown == unknown_column(SCHEMA, path)


def test_the_type_of_a_column_is_found_whatever_the_case() -> None:
    assert PrimitiveType("long") == column_type(SCHEMA, ("ID",))
    assert PrimitiveType("string") == column_type(SCHEMA, ("S", "a"))
    assert isinstance(column_type(SCHEMA, ("xs",)), ArrayType)
    assert column_type(SCHEMA, ("xs", "element")) is None
    assert column_type(SCHEMA, ("s", "id")) is None


def test_a_policy_of_checkpoints_uses_the_feature_if_it_is_v2() -> None:
    key = "delta.checkpointPolicy"

    assert [Use("v2Checkpoint", "delta.checkpointPolicy is v2", key, True)] == list(property_uses({key: "v2"}))
    assert [] == list(property_uses({key: "classic"}))
    assert [] == list(property_uses({}))


@pytest.mark.parametrize(
    ("vector", "expected"),
    [(None, 9), ({"cardinality": 4}, 5), ({"cardinality": "4"}, None), ({"cardinality": True}, None), ({}, None)],
)
def test_rows_that_a_vector_hides_are_not_counted(vector: object, expected: int | None) -> None:
    assert expected == live_rows([{"stats": '{"numRecords":9}', "deletionVector": vector}])


@pytest.mark.parametrize(
    ("stored", "expected"),
    [((10, 2), None), ((10, 3), "d is decimal128(10, 3), not decimal(10,2)")],
)
def test_decimals_of_a_hint_have_the_digits_of_the_file(stored: tuple[int, int], expected: str | None) -> None:
    import pyarrow as pa

    schema = struct(column("d", "decimal(10,2)"))

    assert expected == difference(schema, pa.schema([("d", pa.decimal128(*stored))]))
