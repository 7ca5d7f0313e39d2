"""Type changes that no reader may accept: reading rows and changes fails for the entries that `validate` reports so."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.core.errors import Refused, Unreadable
from deltacli.delta.schema.type_changes import BAD_ENTRY, NOT_ALLOWED
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.rules.framework.base import Severity
from tests.support.actions import commit_info
from tests.support.builder import TableBuilder
from tests.support.reading import NOW_MS, open_at
from tests.support.validating import validate_table
from tests.support.widening import WIDENING, field, metadata, protocol, struct

PREVIEW = ("typeWidening-preview",)
STRING_TO_INTEGER = [{"fromType": "string", "toType": "integer"}]
NARROWING = [{"fromType": "long", "toType": "integer"}]
SHORT_DECIMAL = [{"fromType": "integer", "toType": "decimal(10,1)"}]
PREVIEW_DECIMAL = [{"fromType": "byte", "toType": "decimal(3,0)"}]


def table_with(entries: Any, features: tuple[str, ...]) -> TableBuilder:  # Any: JSON values
    types = {id(SHORT_DECIMAL): "decimal(10,1)", id(PREVIEW_DECIMAL): "decimal(3,0)"}
    column = field("c", types.get(id(entries), "integer"), **{"delta.typeChanges": entries})
    actions = [{"protocol": protocol(*features)}, {"metaData": metadata(struct(column), {})}]
    return TableBuilder().commit(commit_info("CREATE TABLE"), *actions)


REFUSED = [
    (STRING_TO_INTEGER, WIDENING, NOT_ALLOWED),
    (NARROWING, WIDENING, NOT_ALLOWED),
    (SHORT_DECIMAL, WIDENING, NOT_ALLOWED),
    (SHORT_DECIMAL, PREVIEW, NOT_ALLOWED),
    (PREVIEW_DECIMAL, WIDENING, NOT_ALLOWED),
    ([{"fromType": "integer"}], WIDENING, BAD_ENTRY),
    ([{"fromType": "short", "toType": "unsupported"}], WIDENING, BAD_ENTRY),
    (5, WIDENING, BAD_ENTRY),
    ([5], PREVIEW, BAD_ENTRY),
    ("[]", WIDENING, BAD_ENTRY),
]


@pytest.mark.parametrize(("entries", "features", "code"), REFUSED)
def test_rows_of_unsupported_type_changes_are_not_read(entries: Any, features: tuple[str, ...], code: str) -> None:
    storage = table_with(entries, features).in_memory()
    table = open_at(storage)

    found = validate_table(storage, EmbeddedEngine(), select=["typewidening.*"], now_ms=NOW_MS).findings

    assert code in [finding.rule.id for finding in found if finding.severity is Severity.ERROR]
    for read in (lambda: table.snapshot().scan(), lambda: table.changes(from_version=0)):
        with pytest.raises(Unreadable, match="column c") as raised:
            read()
        assert (code, 3) == (raised.value.code, raised.value.exit_code)


@pytest.mark.parametrize(
    ("entries", "features"),
    [
        ([], WIDENING),
        ([{"fromType": "short", "toType": "integer"}], WIDENING),
        ([{"fromType": "integer", "toType": "int"}], WIDENING),
        ([{"fromType": "void", "toType": "integer"}], WIDENING),
        (PREVIEW_DECIMAL, PREVIEW),
        (STRING_TO_INTEGER, ()),
        (5, ()),
    ],
)
def test_rows_of_type_changes_that_readers_accept_are_read(entries: Any, features: tuple[str, ...]) -> None:
    storage = table_with(entries, features).in_memory()
    table = open_at(storage)

    found = validate_table(storage, EmbeddedEngine(), select=["typewidening.*"], now_ms=NOW_MS).findings

    assert [] == [finding.message for finding in found if "readers must refuse" in finding.message]
    assert [] == list(table.snapshot().scan())
    assert [] == list(table.changes(from_version=0))


def test_an_older_version_without_the_change_is_read() -> None:
    builder = table_with([], WIDENING)
    column = field("c", "integer", **{"delta.typeChanges": NARROWING})
    builder.commit(commit_info("ALTER TABLE"), {"metaData": metadata(struct(column), {})})
    table = open_at(builder.in_memory())

    assert [] == list(table.snapshot(version=0).scan())
    with pytest.raises(Unreadable, match="version 1"):
        table.snapshot().scan()


def test_the_feature_is_not_added_to_a_table_that_no_reader_could_read_with_it() -> None:
    columns = struct(field("c", "integer", **{"delta.typeChanges": NARROWING}), field("d", "integer"))
    actions = [{"protocol": protocol()}, {"metaData": metadata(columns, {})}]
    table = open_at(TableBuilder().commit(commit_info("CREATE TABLE"), *actions).in_memory())

    with pytest.raises(Refused) as by_feature:
        table.add_features(["typeWidening"])
    with pytest.raises(Refused) as by_type:
        table.widen_type(("d", "long"), enable=True, upgrade_protocol=True)

    assert ("features.would-activate", "widen.history-refused") == (by_feature.value.code, by_type.value.code)
    assert 0 == table.snapshot().version
