"""What was agreed to is what is done: a plan that somebody has read, or the command whatever its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.changing.change import carry_out, plan_change
from deltacli.changing.gate import Consent, Plan, for_plan, standing
from deltacli.errors import ConflictLost, DeltacliError, Refused, UsageError
from deltacli.operations.change.alter import Alteration, AlterationRequest
from deltacli.operations.change.widen_type import Widening, WidenRequest
from tests.support.actions import add as add_file
from tests.support.actions import commit_info, metadata, to_bytes
from tests.support.altering import MAPPED, add, change, rename, table_of
from tests.support.builder import commit_path
from tests.support.committing import commits
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at

Event = Callable[[MemoryStorage], object]


def a_table() -> MemoryStorage:
    storage = table_of("a smallint, b int", features=["typeWidening"], properties={"delta.enableTypeWidening": "true"})
    return storage.in_memory()


def append(storage: MemoryStorage) -> None:
    storage.put(commit_path(1), to_bytes([commit_info("WRITE"), add_file("new.parquet")]))


def add_other_column(storage: MemoryStorage) -> None:
    open_at(storage).alter([add("z", "int")])


def widen_first(storage: MemoryStorage) -> None:
    open_at(storage).widen_type(("a", "int"))


def drop_the_column(storage: MemoryStorage) -> None:
    text = '{"type":"struct","fields":[{"name":"b","type":"integer","nullable":true,"metadata":{}}]}'
    storage.put(commit_path(1), to_bytes([commit_info("X"), metadata(schema_string=text)]))


def roll_back(storage: MemoryStorage) -> None:
    storage.put(commit_path(0), storage.read(commit_path(0)) + b"\n", modified_ms=1)


WIDEN = Widening(WidenRequest((("a", "long"),)))


@pytest.mark.parametrize(
    ("event", "person", "command"),
    [
        (append, 2, 2),
        (add_other_column, 2, 2),
        (widen_first, ConflictLost, 2),  # from integer, not from short
        (drop_the_column, UsageError, UsageError),
        (roll_back, Refused, Refused),
    ],
)
@pytest.mark.parametrize("who", ["person", "command"])
def test_behind_a_winner_only_what_was_agreed_to_is_done(
    who: str, event: Event, person: object, command: object
) -> None:
    storage = a_table()
    table = open_at(storage)
    plan = plan_change(WIDEN, table)
    expected = person if who == "person" else command

    def ask(shown: Plan) -> Consent:
        event(storage)
        return for_plan(shown) if who == "person" else standing(shown)

    before = None
    try:
        done: Any = carry_out(WIDEN, table, plan=plan, ask=ask).committed_version
    except DeltacliError as fault:
        done, before = type(fault), fault

    assert expected == done
    assert isinstance(done, type) or done == len(commits(storage)) - 1
    if isinstance(before, ConflictLost):
        assert "a short -> long" == before.facts["agreed to 1"]
        assert "a integer -> long" == before.facts["now 1"]
    if isinstance(before, Refused):
        assert "plan.other-past" == before.code


def test_a_plan_that_adds_a_feature_is_not_committed_for_one_that_does_not() -> None:
    """
    The question names no feature; meanwhile another writer drops it.
    """
    storage = table_of("a int", features=["columnMapping"], properties={}).in_memory()
    change_of = Alteration(AlterationRequest([MAPPED], upgrade_protocol=True))
    table = open_at(storage)

    def ask(shown: Plan) -> Consent:
        storage.put(
            commit_path(1), to_bytes([commit_info("X"), {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}])
        )
        return for_plan(shown)

    with pytest.raises(ConflictLost) as lost:
        carry_out(change_of, table, ask=ask)

    assert "feature columnMapping" in lost.value.facts.values()
    assert 2 == len(commits(storage))


@pytest.mark.parametrize(
    "alteration",
    [
        add("caf\udce9", "int"),
        change("table-comment", comment="\ud800"),
        change("name", name="a\udfff"),
        rename("a", "\ud83d"),
    ],
)
def test_half_a_character_is_refused_before_anything_is_planned(alteration: dict[str, Any]) -> None:
    storage = a_table()

    with pytest.raises(UsageError) as refused:
        open_at(storage).alter([alteration])

    assert "text.not-unicode" == refused.value.code
    assert 1 == len(commits(storage))


def test_half_a_character_that_an_older_writer_left_is_kept() -> None:
    storage = a_table()
    kept = storage.read(commit_path(0)).replace(b'"metaData":{', b'"metaData":{"description":"\\ud800",')
    storage.put(commit_path(0), kept)

    assert 1 == open_at(storage).alter([add("c", "int")]).committed_version
    with pytest.raises(UsageError):
        open_at(storage).set_properties({"x": "\ud801"})
