"""Creating a version of a schema: on stores that fail, beside writers that replace files, and in random sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.changing.change import execute_change
from deltacli.core.errors import DeltacliError, OutcomeUnknown, Refused, UsageError
from deltacli.core.machine import Machine
from deltacli.operations.paimon.alter import AlterOutcome, AlterRequest, SchemaAlteration
from deltacli.paimon.conversions import parse_sql_type
from deltacli.paimon.evolution.evolve import EvolutionSettings, evolve
from deltacli.paimon.evolution.requests import (
    AddColumn,
    DropColumn,
    Move,
    MoveKind,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateNullability,
    UpdatePosition,
    UpdateType,
)
from deltacli.paimon.schema import Schema, read_schema
from deltacli.paimon.types import walk_fields
from deltacli.storage import Storage
from deltacli.table.handle import TableHandle
from tests.support.effort import examples
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.paimon_builder import ID, NAME, PaimonBuilder

ADD = AddColumn(("price",), parse_sql_type("INT"))
BOTOCORE_ERRORS = (Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT, Fault.DELAYED, Fault.DUPLICATED)
OF_CREATIONS = (Fault.LOST, Fault.UNSENT, Fault.DELAYED)


def table() -> MemoryStorage:
    storage = MemoryStorage()
    storage.put("schema/schema-0", PaimonBuilder.content([ID, NAME]))
    storage.put("snapshot/snapshot-1", b"{}")
    return storage


def alter(storage: Storage, *changes: SchemaChange) -> AlterOutcome:
    change = SchemaAlteration(AlterRequest(changes or (ADD,)))
    return execute_change(change, TableHandle(storage, clock=lambda: 5, machine=Machine(sleep=lambda _: None)))


def schemas(storage: Storage) -> list[Schema]:
    names = sorted(stat.name for stat in storage.list_from("schema") if stat.name.startswith("schema-"))
    return [read_schema(storage.read(f"schema/{name}")) for name in names]


def prices(storage: Storage) -> int:
    return len({schema.id for schema in schemas(storage) for field in schema.fields if field.name == "price"})


def cases() -> Iterator[tuple[int, Fault]]:
    counting = FaultyStorage(table())
    alter(counting)
    for number, (verb, _) in enumerate(counting.calls, 1):
        is_creation = verb == "put_if_absent"
        for fault in BOTOCORE_ERRORS:
            # A creation that raises wrote nothing: the port promises it.
            if is_creation == (fault in OF_CREATIONS) or fault is Fault.DUPLICATED or (fault is Fault.BEFORE):
                yield number, fault


@pytest.mark.parametrize(("number", "fault"), list(cases()))
def test_what_is_said_of_a_change_is_true_whichever_call_fails(number: int, fault: Fault) -> None:
    inner = table()
    storage = FaultyStorage(inner, number, fault, delay=2)

    try:
        outcome: AlterOutcome | DeltacliError = alter(storage)
    except DeltacliError as failed:
        outcome = failed
    storage.arrive()

    match outcome:
        case AlterOutcome(committed=committed):
            assert (1, 1) == (committed, prices(inner))
        case OutcomeUnknown():
            assert prices(inner) <= 1
        case _:
            assert 0 == prices(inner)


class Rival(FaultyStorage):
    """A store in which other writers rename files over ours, as Paimon's writers do: over
    those of `replaced`. With `then`, the second version is made from ours before that.
    """

    def __init__(self, inner: MemoryStorage, *, then: bool = False, replaced: tuple[int, ...] = (1,)) -> None:
        super().__init__(inner)
        self._table, self._is_due, self._then = inner, True, then
        self._waiting = list(replaced)
        for number in self._waiting:
            inner.put(f"schema/.schema-{number}.12-34.tmp", b"")

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Any:  # Any: as in the port
        answer = super().put_if_absent(path, data, modified_ms=modified_ms)
        if self._then and self._is_due:
            self._is_due = False
            built = evolve(
                read_schema(data), [SetOption("on", "ours")], EvolutionSettings(has_snapshots=True), time_ms=6
            )
            self._table.put("schema/schema-2", built.encode())
        return answer

    def rename(self, seconds: float) -> None:
        """Replace the next file, while it is waited for."""
        if not seconds:  # a pause between attempts
            return
        number = self._waiting.pop(0)
        content = PaimonBuilder.content([ID, NAME], id=number, comment="theirs", highestFieldId=10)
        self._table.put(f"schema/schema-{number}", content)
        list(self._table.delete_many([f"schema/.schema-{number}.12-34.tmp"]))


@pytest.mark.parametrize(
    ("then", "replaced", "comments"),
    [
        pytest.param(False, (1,), [None, "theirs", "theirs"], id="alone"),
        pytest.param(True, (1,), [None, "theirs", None, None], id="with a version built on ours, ours on top"),
        pytest.param(True, (1, 3), [None, "theirs", None, "theirs", "theirs"], id="and that one replaced too"),
    ],
)
def test_a_change_that_another_writer_replaces_is_made_again(
    then: bool, replaced: tuple[int, ...], comments: list[str | None]
) -> None:
    inner = table()
    storage = Rival(inner, then=then, replaced=replaced)

    request = AlterRequest((ADD,))
    machine = Machine(sleep=storage.rename, random_bytes=bytes)
    outcome = execute_change(SchemaAlteration(request), TableHandle(storage, clock=lambda: 5, machine=machine))

    assert len(comments) - 1 == outcome.committed
    assert comments == [schema.comment for schema in schemas(inner)]
    assert "price" in {field.name for field in schemas(inner)[-1].fields}


NAMES = ("a", "b", "c", "d")
TYPES = ("INT", "BIGINT", "STRING", "ROW<a INT, b ROW<c INT>>", "ARRAY<ROW<a INT>>", "MAP<STRING, ROW<b INT>>")
PATHS = st.sampled_from(
    [(name,) for name in NAMES]
    + [(name, *more) for name in NAMES for more in (("a",), ("b", "c"), ("element", "a"), ("value", "b"), ("key",))]
)


def changes() -> st.SearchStrategy[SchemaChange]:
    types = st.sampled_from(TYPES).map(parse_sql_type)
    names = st.sampled_from(NAMES)
    moves = st.builds(Move, names, st.sampled_from(MoveKind), names)
    return st.one_of(
        st.builds(AddColumn, PATHS, types, st.none() | st.text(max_size=5)),
        st.builds(RenameColumn, PATHS, names | st.text(max_size=3)),
        st.builds(DropColumn, PATHS),
        st.builds(UpdateType, PATHS, types, st.booleans()),
        st.builds(UpdateNullability, PATHS, st.booleans()),
        st.builds(UpdateComment, PATHS, st.none() | st.text()),
        st.builds(UpdatePosition, moves),
        st.builds(SetOption, st.text(min_size=1, max_size=3), st.text()),
    )


@given(st.lists(changes(), max_size=30))
@examples(25)
def test_random_sequences_keep_ids_unique_and_have_the_form_of_java(sequence: list[SchemaChange]) -> None:
    schema = read_schema(PaimonBuilder.content([ID, NAME], highestFieldId=1))
    settings = EvolutionSettings(has_snapshots=True, allow_lossy=True, with_options=True)
    given_ids = {field.id for _, field in walk_fields(schema.fields)}
    for change in sequence:
        before = schema
        try:
            schema = evolve(before, [change], settings, time_ms=before.id)
        except (Refused, UsageError):
            continue
        ids = [field.id for _, field in walk_fields(schema.fields)]
        known = {field.id for _, field in walk_fields(before.fields)}

        assert len(ids) == len(set(ids))
        assert max(ids) <= schema.highest_field_id >= before.highest_field_id
        assert not (set(ids) - known) & given_ids
        assert read_schema(schema.encode()) == schema
        assert schema.encode() == read_schema(schema.encode()).encode()
        given_ids |= set(ids)
