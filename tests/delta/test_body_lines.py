"""The lines of files: equal from actions and from columns, with the same row ids, and no file twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.arrow import batches as arrow_rows
from deltacli.core.errors import Refused
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.commit_content import NextVersion, body_lines, encoded_files
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from tests.support.actions import Line, add, deletion_vector, remove

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
VECTORS = st.none() | st.builds(deletion_vector, st.sampled_from(["a", "b"]), offset=st.none() | st.integers(0, 1))
VALUES = st.dictionaries(st.sampled_from(["p", "q"]), st.none() | TEXTS, max_size=2)
IDS = st.none() | st.integers(0, 9)


@st.composite
def lines(draw: st.DrawFn) -> list[Line]:
    """Adds and removes of different files, as writers leave them."""
    found: list[Line] = []
    for name in draw(st.lists(TEXTS.map(lambda text: f"{text}.parquet"), unique=True, max_size=6)):
        if draw(st.booleans()):
            others: dict[str, Any] = {
                "baseRowId": draw(IDS),
                "defaultRowCommitVersion": draw(IDS),
                "tags": draw(st.none() | VALUES),
            }
            records = draw(st.integers(0, 3) | st.just(10**12))
            vector, values = draw(VECTORS), draw(VALUES)
            action = add(name, records=records, vector=vector, partition_values=values, **others)["add"]
            found.append({"add": {key: value for key, value in action.items() if value is not None}})
        else:
            found.append(remove(name, vector=draw(VECTORS), deleted_ms=draw(IDS), partitionValues=draw(VALUES)))
    return found


def batches_of(found: Sequence[Line]) -> Iterator[tuple[str, RecordBatch]]:
    schemas = {"add": action_schemas().add, "remove": action_schemas().remove}
    for kind, group in groupby(found, lambda line: next(iter(line))):
        yield kind, build_action_batch([line[kind] for line in group], schemas[kind], "t")


def in_columns(found: Sequence[Line], slot: NextVersion) -> list[Any]:  # Any: JSON
    return parsed(encoded_files(lambda: batches_of(found), slot))


def in_lines(found: Sequence[Line], slot: NextVersion) -> list[Any]:  # Any: JSON
    return parsed(body_lines(found, slot))


def parsed(body: Iterator[bytes]) -> list[Any]:  # Any: JSON
    return [json.loads(line) for line in b"".join(body).split(b"\n")[:-1]]


ENCODERS = (in_columns, in_lines)


def fresh_rows(found: Sequence[Line]) -> int:
    adds = [line["add"] for line in found if "add" in line]
    return sum(json.loads(one["stats"])["numRecords"] for one in adds if one.get("baseRowId") is None)


@given(found=lines(), first=st.none() | st.integers(0, 9), rows=st.integers(1, 3))
def test_columns_are_encoded_as_their_actions_are(found: list[Line], first: int | None, rows: int) -> None:
    slot = NextVersion(7, first, fresh_rows(found))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_rows, "_MAX_PIECE_ROWS", rows)
        lines = in_columns(found, slot)

    assert in_lines(found, slot) == lines
    plain = [{kind: without_ids(action) for kind, action in line.items()} for line in lines]
    assert [{kind: without_ids(action) for kind, action in line.items()} for line in found] == plain
    adds = [line["add"] for line in lines if "add" in line]
    assert all((first is None) == ("baseRowId" not in one) == ("defaultRowCommitVersion" not in one) for one in adds)


def without_ids(action: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    return {key: value for key, value in action.items() if key not in ("baseRowId", "defaultRowCommitVersion")}


def test_row_ids_follow_each_other_and_old_ones_stay() -> None:
    found = [add("a", records=3), add("b", records=1, baseRowId=2, defaultRowCommitVersion=1), add("c", records=4)]

    lines = in_columns(found, NextVersion(7, 10, 7))

    assert [(10, 7), (2, 1), (13, 7)] == [(x["add"]["baseRowId"], x["add"]["defaultRowCommitVersion"]) for x in lines]


@pytest.mark.parametrize("stats", [None, "{}", '{"numRecords":-1}', "no JSON"])
def test_a_file_without_a_number_of_records_is_refused_by_name(stats: str | None) -> None:
    found = [add("a", records=3), add("b", stats=stats)]

    for encode in ENCODERS:
        with pytest.raises(Refused, match=r"^b has no number of records") as raised:
            encode(found, NextVersion(7, 10, 3))
        assert "rowtracking.base-row-id-missing" == raised.value.code
        assert 2 == len(encode(found, NextVersion(7)))


def test_ids_are_never_more_or_fewer_than_the_mark_says() -> None:
    for encode in ENCODERS:
        with pytest.raises(ValueError):
            encode([add("a", records=3)], NextVersion(7, 10, 2))


V, W = deletion_vector("v"), deletion_vector("w")
TWICE = {
    "add, add": [add("a"), add("a")],
    "add, add of the same vector": [add("a", vector=V), add("a", vector=V)],
    "add, add with a vector": [add("a"), add("a", vector=V)],
    "add, add of another vector": [add("a", vector=V), add("a", vector=W)],
    "remove, remove": [remove("a"), remove("a")],
    "remove, remove with a vector": [remove("a"), remove("a", vector=V)],
    "remove, remove of another vector": [remove("a", vector=V), remove("a", vector=W)],
    "add, remove": [add("a"), remove("a")],
    "add, remove of the same vector": [remove("a", vector=V), add("a", vector=V)],
    "other spelling": [add("a%20b"), add("./a b")],
}
ONCE = {
    "a new vector": [remove("a"), add("a", vector=V)],
    "another vector": [remove("a", vector=V), add("a", vector=W)],
    "a vector that goes": [add("a"), remove("a", vector=V)],
    "another path": [add("p=1/a"), add("p=2/a"), remove("b")],
}


@pytest.mark.parametrize("found", TWICE.values(), ids=TWICE)
def test_a_file_that_comes_twice_is_refused_by_name(found: list[Line]) -> None:
    others = [add(f"{number}") for number in range(9)]
    for encode in ENCODERS:
        with pytest.raises(Refused, match=r"would contain .*a.* twice") as raised:
            encode([found[0], *others, found[1]], NextVersion(7))
        assert "action.duplicate-path" == raised.value.code


@pytest.mark.parametrize("found", ONCE.values(), ids=ONCE)
def test_a_file_may_change_its_vector(found: list[Line]) -> None:
    for encode in ENCODERS:
        assert found == encode(found, NextVersion(7))
