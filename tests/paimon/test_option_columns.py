"""Options that name columns: they are the same while they name the same columns, whatever the names of these are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.paimon import open_paimon
from deltacli.core.errors import Refused
from deltacli.paimon.evolution.evolve import EvolutionSettings, evolve
from deltacli.paimon.evolution.requests import RenameColumn, SetOption
from deltacli.paimon.schema import Schema, read_schema
from deltacli.paimon.schema_changes import (
    Change,
    ChangeKind,
    Loss,
    changes_between,
    find_options_of_other_columns,
    meaning_for_old_rows,
    sentence,
)
from tests.paimon.answers import Capture, ask
from tests.paimon.test_rules import check
from tests.support.paimon_builder import PaimonBuilder, field

COLUMNS = {0: "id", 1: "v", 2: "s", 3: "w"}
OPTIONS = (ChangeKind.SET_OPTION, ChangeKind.REMOVE_OPTION)
PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def fields(names: Mapping[int, str]) -> list[Any]:  # Any: JSON values
    return [field(number, name, "STRING" if number == 2 else "INT NOT NULL") for number, name in names.items()]


def schema(names: Mapping[int, str], options: Mapping[str, str], keys: Sequence[str] = ()) -> Schema:
    content = PaimonBuilder.content(fields(names), options={"bucket": "2"} | dict(options), primaryKeys=list(keys))
    return read_schema(content)


def option_changes(before: Schema, after: Schema) -> list[Change]:
    changes = [change for change in changes_between(before, after) if change.kind in OPTIONS]
    return [*changes, *find_options_of_other_columns(before, after)]


RENAMES: Mapping[str, tuple[dict[int, str], dict[str, str], dict[str, str]]] = {
    "bucket-key": ({0: "key"}, {"bucket-key": "id"}, {"bucket-key": "key"}),
    "a bucket key of two columns": ({3: "x"}, {"bucket-key": "id,w"}, {"bucket-key": "id,x"}),
    "rowkind.field": ({2: "kind"}, {"rowkind.field": "s"}, {"rowkind.field": "kind"}),
    "a name with a comma": ({2: "s,v"}, {"rowkind.field": "s"}, {"rowkind.field": "s,v"}),
    "sequence.field with a blank": ({1: "x"}, {"sequence.field": "w, v"}, {"sequence.field": "w, x"}),
    "the blank goes": ({1: "x"}, {"sequence.field": "w, v"}, {"sequence.field": "w,x"}),
    "the head of a sequence group": (
        {1: "x"},
        PARTIAL | {"fields.v.sequence-group": "s"},
        PARTIAL | {"fields.x.sequence-group": "s"},
    ),
    "a member of a sequence group": (
        {2: "x"},
        PARTIAL | {"fields.v,w.sequence-group": "s"},
        PARTIAL | {"fields.v,w.sequence-group": "x"},
    ),
    "an aggregate function": (
        {1: "x"},
        AGGREGATION | {"fields.v.aggregate-function": "sum"},
        AGGREGATION | {"fields.x.aggregate-function": "sum"},
    ),
    "columns that swap their names": (
        {1: "w", 3: "v"},
        AGGREGATION | {"fields.v.aggregate-function": "sum", "fields.w.aggregate-function": "max"},
        AGGREGATION | {"fields.w.aggregate-function": "sum", "fields.v.aggregate-function": "max"},
    ),
    "remove-record-on-sequence-group": (
        {1: "x"},
        PARTIAL | {"partial-update.remove-record-on-sequence-group": "v", "fields.v.sequence-group": "s"},
        PARTIAL | {"partial-update.remove-record-on-sequence-group": "x", "fields.x.sequence-group": "s"},
    ),
}


@pytest.mark.parametrize("name", RENAMES)
def test_an_option_that_follows_a_renamed_column_is_the_same_option(name: str) -> None:
    renamed, old_options, new_options = RENAMES[name]
    before = schema(COLUMNS, old_options, ["id"])
    after = schema(COLUMNS | renamed, new_options, [(COLUMNS | renamed)[0]])

    changes = option_changes(before, after)

    assert changes
    assert {Loss.LOSSLESS} == {change.loss for change in changes}
    assert {None} == {meaning_for_old_rows(change, before, after) for change in changes}


OTHER_COLUMNS: Mapping[str, tuple[dict[int, str], dict[str, str], dict[str, str]]] = {
    "another column": ({}, {"bucket-key": "id"}, {"bucket-key": "v"}),
    "another column beside a rename": ({0: "key"}, {"bucket-key": "id"}, {"bucket-key": "v"}),
    "another order": ({0: "key"}, {"bucket-key": "id,v"}, {"bucket-key": "v,key"}),
    "the old name": ({0: "v", 1: "id"}, {"bucket-key": "id"}, {"bucket-key": "id"}),
    "the name of a new column": ({2: "x", 9: "s"}, {"rowkind.field": "s"}, {"rowkind.field": "s"}),
    "no column": ({0: "key"}, {"bucket-key": "id"}, {"bucket-key": "gone"}),
}


@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_an_option_that_names_another_column_has_changed(name: str) -> None:
    renamed, old_options, new_options = OTHER_COLUMNS[name]

    changes = option_changes(schema(COLUMNS, old_options), schema(COLUMNS | renamed, new_options))

    assert [Loss.REFUSED] == [change.loss for change in changes]


def test_a_column_that_takes_the_place_of_a_dropped_one_is_another_column() -> None:
    left = {number: name for number, name in COLUMNS.items() if number != 1}
    before = schema(COLUMNS, {"bucket-key": "v"})
    after = schema(left | {9: "v"}, {"bucket-key": "v"})

    assert [Loss.REFUSED] == [change.loss for change in option_changes(before, after)]


def test_a_sequence_field_of_another_column_concerns_old_rows_although_its_text_is_the_same() -> None:
    before = schema(COLUMNS, {"sequence.field": "v"}, ["id"])
    after = schema(COLUMNS | {1: "w", 3: "v"}, {"sequence.field": "v"}, ["id"])

    (change,) = option_changes(before, after)

    assert meaning_for_old_rows(change, before, after)


def test_another_function_of_a_renamed_column_concerns_old_rows() -> None:
    before = schema(COLUMNS, AGGREGATION | {"fields.v.aggregate-function": "sum"}, ["id"])
    after = schema(COLUMNS | {1: "x"}, AGGREGATION | {"fields.x.aggregate-function": "max"}, ["id"])

    assert all(meaning_for_old_rows(change, before, after) for change in option_changes(before, after))


def test_a_primary_key_of_another_column_with_the_same_name_has_changed() -> None:
    before = schema(COLUMNS, {}, ["id"])
    after = schema(COLUMNS | {0: "v", 1: "id"}, {}, ["id"])

    (change,) = [change for change in changes_between(before, after) if change.kind is ChangeKind.PRIMARY_KEYS]

    assert Loss.REFUSED is change.loss
    assert "->" not in sentence(change)


@pytest.mark.parametrize(
    ("column", "keys", "options"),
    [
        ("id", [], {"bucket-key": "id"}),
        ("id", ["id"], {"bucket-key": "id"}),
        ("v", ["id"], {"sequence.field": "v"}),
        ("s", ["id"], {"rowkind.field": "s"}),
        ("v", ["id"], PARTIAL | {"fields.v.sequence-group": "s,w"}),
        ("s", ["id"], PARTIAL | {"fields.v.sequence-group": "s,w"}),
        ("v", ["id"], AGGREGATION | {"fields.v.aggregate-function": "sum"}),
        (
            "v",
            ["id"],
            PARTIAL | {"partial-update.remove-record-on-sequence-group": "v", "fields.v.sequence-group": "s,w"},
        ),
    ],
)
def test_a_rename_leaves_a_table_without_findings_and_with_a_history_of_what_happened(
    column: str, keys: list[str], options: dict[str, str], tmp_path: Path, capsys: Capture
) -> None:
    table = PaimonBuilder(tmp_path / "t")
    table.schema(*fields(COLUMNS), primaryKeys=keys, options={"bucket": "2"} | options).snapshot(0, adds={"a": 0})
    assert not check(table.root).findings

    code, _, err = ask(capsys, "alter", table.root, "rename", column, "renamed", "--yes")
    assert 0 == code, err
    _, out, _ = ask(capsys, "history", table.root, "--json")

    assert [] == [finding.message for finding in check(table.root).findings]
    changes = json.loads(out)["schemas"][0]["changes"]
    assert {"lossless"} == {change["class"] for change in changes}
    assert ("renameColumn", column, "renamed") in [
        (change["kind"], change.get("from"), change.get("to")) for change in changes
    ]


def test_a_bucket_key_cannot_be_moved_to_another_column_by_renames() -> None:
    before = schema(COLUMNS, {"bucket-key": "id"})
    renames = [RenameColumn(("id",), "former"), RenameColumn(("v",), "id")]

    with pytest.raises(Refused) as refused:
        evolve(before, [*renames, SetOption("bucket-key", "id")], EvolutionSettings(True), time_ms=0)
    after = evolve(before, [*renames, SetOption("bucket-key", "former")], EvolutionSettings(True), time_ms=0)

    assert "alter.option" == refused.value.code
    assert "former" == after.options["bucket-key"]


@pytest.mark.parametrize(
    ("options", "rule"), [({"bucket-key": "id"}, "immutable-option"), ({"sequence.field": "id"}, "option-of-old-rows")]
)
def test_columns_that_swap_their_names_under_an_option_are_reported(
    options: dict[str, str], rule: str, tmp_path: Path
) -> None:
    keys = [] if "bucket-key" in options else ["w"]
    table = PaimonBuilder(tmp_path / "t")
    for names in (COLUMNS, COLUMNS | {0: "v", 1: "id"}):
        table.schema(*fields(names), primaryKeys=keys, options={"bucket": "2"} | options)
    table.snapshot(0, adds={"a": 0})

    (finding,) = check(table.root).findings
    assert f"paimon.{rule}" == finding.rule.id
    assert finding.seen != finding.expected
    assert not finding.message.startswith("set ")


def test_a_plan_that_lets_another_column_order_rows_warns(tmp_path: Path) -> None:
    table = PaimonBuilder(tmp_path / "t")
    table.schema(*fields(COLUMNS), primaryKeys=["id"], options={"bucket": "2", "sequence.field": "v"}).snapshot(0)
    renames = [RenameColumn(("v",), "former"), RenameColumn(("w",), "v")]

    plan = open_paimon(table.root).plan_alter([*renames, SetOption("sequence.field", "v")])
    without = open_paimon(table.root).plan_alter(renames)

    assert "old-rows" in [code for code, _ in plan.warnings]
    assert "old-rows" not in [code for code, _ in without.warnings]
