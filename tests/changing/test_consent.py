"""What was agreed to is what is done: a plan that somebody has read, or the command whatever its plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change, plan_change
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.plan import Plan
from deltacli.core.errors import ConflictLost, DeltacliError, Refused, UsageError
from deltacli.operations.change.alter import Alteration, AlterationRequest
from deltacli.operations.change.drop_feature import DropFeature
from deltacli.operations.change.properties_and_features import FeaturesAddition, PropertiesChange, PropertyEdits
from deltacli.operations.change.widen_type import Widening, WidenRequest
from deltacli.storage import LocalStorage
from tests.support.actions import add as add_file
from tests.support.actions import commit_info, metadata, to_bytes
from tests.support.altering import MAPPED, add, change, rename, table_of
from tests.support.builder import commit_path
from tests.support.committing import commits
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at

Event = Callable[[Any], object]


WIDENS = {"delta.enableTypeWidening": "true"}


def a_table() -> MemoryStorage:
    return table_of("a smallint, b int", features=["typeWidening"], properties=WIDENS).in_memory()


def append(storage: Any) -> None:
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
        return consent_to_plan(shown) if who == "person" else consent_to_command(shown)

    before = None
    try:
        done: Any = execute_change(WIDEN, table, plan=plan, ask=ask).committed_version
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
        return consent_to_plan(shown)

    with pytest.raises(ConflictLost) as lost:
        execute_change(change_of, table, ask=ask)

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
    with pytest.raises(UsageError, match="without a name"):
        open_at(storage).set_properties({"": "x"})


def set_owner(storage: Any) -> None:
    open_at(storage).set_properties({"owner": "you"})


def add_feature(storage: Any) -> None:
    open_at(storage).add_features(["domainMetadata"])


SETTINGS: dict[str, tuple[Any, tuple[Event, ...], Event]] = {
    "set": (PropertiesChange(PropertyEdits({"owner": "us", "team": "a"})), (append, add_other_column), set_owner),
    "unset": (PropertiesChange(PropertyEdits(drop=("delta.enableTypeWidening", "owner"))), (append,), set_owner),
    "add": (FeaturesAddition(["deletionVectors", "domainMetadata"]), (append, set_owner), add_feature),
    "drop": (DropFeature("typeWidening"), (append, set_owner), widen_first),
}
"""Change, what other writers may do meanwhile, and what makes it another change than somebody has read."""


@pytest.mark.parametrize("place", ["disk", "memory"])
@pytest.mark.parametrize(
    ("change", "event", "is_other"),
    [
        pytest.param(change, event, event is other, id=f"{name}-{event.__name__}")
        for name, (change, events, other) in SETTINGS.items()
        for event in (*events, other)
    ],
)
def test_settings_are_changed_as_somebody_has_read(
    change: Any, event: Event, is_other: bool, place: str, tmp_path: Path
) -> None:
    for who, consent in (("person", consent_to_plan), ("command", consent_to_command)):
        storage: Any = a_table()
        if place == "disk":
            built = table_of("a smallint, b int", features=["typeWidening"], properties=WIDENS)
            storage = LocalStorage(str(built.write(tmp_path / who)))
        given = partial(_agree, storage, event, consent)

        if is_other and who == "person":
            with pytest.raises(ConflictLost) as lost:
                execute_change(change, open_at(storage), ask=given)
            assert {"agreed to 1", "now 1"} <= lost.value.facts.keys()
            assert 2 == len(commits(storage))
        else:
            execute_change(change, open_at(storage), ask=given)
            assert 2 < len(commits(storage))


def _agree(storage: Any, event: Event, consent: Callable[[Plan], Consent], shown: Plan) -> Consent:
    event(storage)
    return consent(shown)


def test_a_plan_that_is_executed_later_is_what_was_read() -> None:
    storage = a_table()
    table = open_at(storage)
    plans = [table.plan_set_properties({"owner": "us"}) for _ in range(2)]
    adds = [table.plan_add_features(["deletionVectors"]) for _ in range(2)]
    alters = [table.plan_alter([add("c", "int")]) for _ in range(2)]

    assert 1 == table.execute_properties(plans[0]).committed_version
    assert 2 == table.execute_add_features(adds[0]).committed_version
    assert 3 == table.execute_alter(alters[0]).committed_version
    assert [None, None, None] == [
        table.execute_properties(plans[1]).committed_version,
        table.execute_add_features(adds[1]).committed_version,
        table.execute_alter(alters[1]).committed_version,
    ]
    widens = [table.plan_widen_type(("c", "long"), enable=True, upgrade_protocol=True) for _ in range(2)]
    assert [4, None] == [table.execute_widen_type(one).committed_version for one in widens]
    assert 5 == table.execute_properties(table.plan_unset_properties(["owner"])).committed_version
    plan = table.plan_drop_features("deletionVectors")
    with pytest.raises(UsageError, match="another table"):
        open_at(MemoryStorage("other")).execute_drop_features(plan)
    assert table.execute_drop_features(plan).is_made
