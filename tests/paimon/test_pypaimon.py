"""Tables that deltacli changed, read by the real pypaimon, and tables that both change in turn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.core.alter_verbs import Details, Verb
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration, read_newest
from deltacli.paimon.conversions import parse_sql_type
from deltacli.paimon.evolution.requests import AddColumn, RenameColumn, SchemaChange, UpdateType, changes_of
from deltacli.paimon.schema import Schema, is_true
from deltacli.paimon.schema_changes import Loss, judge_cast
from deltacli.paimon.types import AtomicType, DataField, type_text, with_nullability
from deltacli.storage import open_storage
from deltacli.table.handle import TableHandle
from tests.support.paimon_corpus import manifest
from tests.support.pypaimon import Pypaimon, PypaimonError

pytestmark = pytest.mark.long

WIDER = ("BIGINT", "DOUBLE", "DECIMAL(38, 10)", "STRING", "BYTES")
UNREAD = 45
"""At most so many tables that pypaimon itself cannot read, before anything is changed."""


def alter(root: Path, *changes: SchemaChange) -> Schema:
    outcome = execute_change(SchemaAlteration(AlterRequest(changes)), TableHandle(open_storage(str(root))))
    assert outcome.committed is not None
    assert outcome.after is not None
    return outcome.after


def words(root: Path, verb: Verb, *text: str) -> Schema:
    return alter(root, *changes_of(verb, text, Details()))


def test_a_table_that_both_change_in_turn_keeps_its_rows(tmp_path: Path) -> None:
    fields = [("id", "long"), ("name", "string"), ("qty", "int")]
    with Pypaimon(tmp_path / "wh") as peer:
        peer.ask("create", table="t", fields=fields, keys=["id"], options={"bucket": "1"})
        peer.ask("write", table="t", rows=[{"id": 1, "name": "a", "qty": 5}])
        root = peer.root("t")

        words(root, Verb.ADD, "price", "DECIMAL(10, 2)")
        words(root, Verb.RENAME, "name", "customer")
        peer.ask("write", table="t", rows=[{"id": 2, "customer": "b", "qty": 6, "price": None}])
        peer.ask("add", table="t", names=["theirs"])
        words(root, Verb.TYPE, "qty", "BIGINT")
        words(root, Verb.MOVE, "theirs", "first")
        peer.ask("rename", table="t", column="theirs", name="ours")
        peer.ask("retype", table="t", column="ours", data_type="BIGINT")
        words(root, Verb.DROP, "price")
        peer.ask("write", table="t", rows=[{"ours": 9, "id": 3, "customer": "c", "qty": 7_000_000_000}])
        found = peer.ask("read", table="t")

    types = {"ours": "BIGINT", "id": "BIGINT NOT NULL", "customer": "STRING", "qty": "BIGINT"}
    rows = [
        {"ours": None, "id": 1, "customer": "a", "qty": 5},
        {"ours": None, "id": 2, "customer": "b", "qty": 6},
        {"ours": 9, "id": 3, "customer": "c", "qty": 7_000_000_000},
    ]
    assert types == found["types"]
    assert sorted(rows, key=str) == found["rows"]
    assert 4 == read_newest(open_storage(str(root)), "main").schema.highest_field_id


def test_every_table_of_the_corpus_keeps_its_rows_under_new_types(corpus: Path, tmp_path: Path) -> None:
    home = tmp_path / "wh"
    unread, wrong, seen = [], [], 0
    with Pypaimon(home) as peer:
        for number, table in enumerate(_tables()):
            root = home / "db.db" / f"t{number}"
            shutil.copytree(corpus / table, root)
            try:
                before = peer.ask("read", table=root.name)
            except PypaimonError as fault:
                unread.append((table, str(fault)[:200]))
                continue
            schema = read_newest(open_storage(str(root)), "main").schema
            changes = tuple(_changes(schema))
            after = alter(root, *changes)
            try:
                found = peer.ask("read", table=root.name)
            except PypaimonError as fault:
                found = str(fault)[:300]
            seen += 1
            if _expected(before, schema, after, changes) != found:
                wrong.append((table, changes, found))

    assert [] == wrong
    assert seen >= 15
    assert len(unread) <= UNREAD, unread


def _tables() -> list[str]:
    found = [f"{writer}/{table}" for writer in ("pypaimon", "java") for table in manifest()[writer]]
    return [table for table in found if "rand_" not in table]


def _changes(schema: Schema) -> list[SchemaChange]:
    """Return a new column, a new name, and a wider type, where the table has a column for it."""
    keys = {*schema.primary_keys, *schema.partition_keys}
    free = [field for field in schema.fields if field.name not in keys and not _is_in_options(schema, field)]
    found: list[SchemaChange] = [AddColumn(("added",), parse_sql_type("ROW<a INT>"))]
    for field in free:
        if (wider := _wider(field)) is not None:
            found.append(UpdateType((field.name,), wider))
            break
    # pypaimon reads a renamed column of a table with data evolution as null, also after its own rename.
    is_renamed = free and not is_true(schema.options, "data-evolution.enabled")
    return [*found, RenameColumn((free[-1].name,), "renamed")] if is_renamed else found


def _is_in_options(schema: Schema, field: DataField) -> bool:
    return any(field.name in text for item in schema.options.items() for text in item)


def _wider(field: DataField) -> AtomicType | None:
    for text in WIDER:
        data_type = with_nullability(parse_sql_type(text), field.type.nullable)
        is_other = isinstance(data_type, AtomicType) and data_type != field.type
        if is_other and judge_cast(field.type, data_type).loss is Loss.LOSSLESS:
            assert isinstance(data_type, AtomicType)
            return data_type
    return None


def _expected(before: Any, old: Schema, new: Schema, changes: tuple[SchemaChange, ...]) -> Any:  # Any: JSON values
    """Return the answer of pypaimon after the changes: the same values, with other names and types."""
    names = {field.id: field.name for field in new.fields}
    renamed = {field.name: names[field.id] for field in old.fields}
    rows = [{renamed[name]: value for name, value in row.items()} | {"added": None} for row in before["rows"]]
    aliases = {"TIMESTAMP_LTZ(6)": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    types = {renamed[name]: aliases.get(text, text) for name, text in before["types"].items()}
    types["added"] = "ROW<a: INT>"
    types |= {renamed[change.path[0]]: type_text(change.type) for change in changes if isinstance(change, UpdateType)}
    return {"types": types, "rows": sorted(rows, key=str)}
