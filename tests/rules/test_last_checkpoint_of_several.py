"""A hint may mean any checkpoint of its version that has the form it names: it is right if it fits one of them."""

from __future__ import annotations

import json

import pytest

from deltacli.api.table import Table
from deltacli.delta.checkpoint.layout import Layout, TopFile
from deltacli.delta.log.segment import checksums
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint, write_checkpoint
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.reading import open_built

HINT = "_delta_log/_last_checkpoint"
V2 = protocol(3, 7, reader_features=["v2Checkpoint"], writer_features=["v2Checkpoint"])


def table_with(born: dict[str, object], *requests: CheckpointRequest) -> Table:
    """A table of one commit, and a checkpoint for each request."""
    files = [add(f"part-{number}.parquet", records=1) for number in range(9)]
    table = open_built(TableBuilder().commit(born, metadata(), *files))
    for request in requests:
        write_checkpoint(plan_checkpoint(table, request))
    return table


def hint_findings(table: Table) -> list[tuple[str, str | None]]:
    """What validate says of the hint."""
    return [(found.rule.id, found.place.key) for found in table.validate(select=["hint.*"]).findings]


@pytest.mark.parametrize("first", [2, 5, 9])
@pytest.mark.parametrize("second", [2, 5, 9])
@pytest.mark.parametrize("top", list(TopFile))
def test_the_hint_fits_the_last_of_several_v2_checkpoints(first: int, second: int, top: TopFile) -> None:
    requests = [
        CheckpointRequest(layout=Layout.V2, rows_per_file=rows, v2_top=top, force=True) for rows in (first, second)
    ]

    assert [] == hint_findings(table_with(V2, *requests))


@pytest.mark.parametrize("parts", [(2, 3), (3, 2)])
def test_the_hint_fits_the_parts_it_counts(parts: tuple[int, int]) -> None:
    requests = [CheckpointRequest(layout=Layout.MULTI_PART, parts=count, force=True) for count in parts]

    assert [] == hint_findings(table_with(protocol(), *requests))


def test_a_hint_that_fits_none_of_them_is_reported_once() -> None:
    requests = [CheckpointRequest(layout=Layout.V2, rows_per_file=rows, force=True) for rows in (2, 9)]
    table = table_with(V2, *requests)
    hint = json.loads(table.storage.read(HINT)) | {"numOfAddFiles": 8}
    del hint["checksum"]
    (checksum,) = checksums(hint)
    table.writable().put(HINT, json.dumps(hint | {"checksum": checksum}).encode())

    assert [("hint.size-wrong", "numOfAddFiles")] == hint_findings(table)


@pytest.mark.parametrize(
    ("born", "request_", "fields", "key", "seen"),
    [
        (protocol(), CheckpointRequest(layout=Layout.MULTI_PART, parts=3), {"parts": 5}, "parts", "5"),
        (protocol(), CheckpointRequest(layout=Layout.MULTI_PART, parts=3), {"parts": None}, "parts", "no parts"),
        (
            V2,
            CheckpointRequest(layout=Layout.V2),
            {"v2Checkpoint": {"path": "gone.json"}},
            "v2Checkpoint",
            "gone.json",
        ),
    ],
    ids=["other parts", "no parts", "another file"],
)
def test_a_form_that_the_version_does_not_have_is_named(
    born: dict[str, object], request_: CheckpointRequest, fields: dict[str, object], key: str, seen: str
) -> None:
    table = table_with(born, request_)
    hint = {name: value for name, value in (json.loads(table.storage.read(HINT)) | fields).items() if value is not None}
    del hint["checksum"]
    table.writable().put(HINT, json.dumps(hint).encode())

    (found,) = table.validate(select=["hint.checkpoint-missing"]).findings

    assert (key, seen) == (found.place.key, found.seen)
