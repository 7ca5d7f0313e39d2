"""Checkpoints that are written: replayed alone they say what the model says, in every form and of every version."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, note
from hypothesis import strategies as st

from deltacli.core.errors import ProtocolUnsupported, Refused
from deltacli.delta.log.segment import Hint, read_hint
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest
from deltacli.table.version import Snapshot
from tests.support import strategies
from tests.support.actions import Action, metadata, protocol
from tests.support.builder import EPOCH_MS, HINT, TableBuilder
from tests.support.checkpointing import expired, left_alone, write
from tests.support.effort import examples
from tests.support.in_memory import MemoryStorage
from tests.support.model import num_records
from tests.support.reading import NOW_MS, STATE_FIELDS, open_at, state_document

DAY_MS = 86_400_000
RETENTIONS = {None: 7 * DAY_MS, "interval 1 week": 7 * DAY_MS, "interval 8 days": 8 * DAY_MS, "interval 0 seconds": 0}
TRANSACTIONS = {
    None: None,
    "interval 4 weeks": NOW_MS - EPOCH_MS,
    "interval 4 weeks 1 millisecond": NOW_MS - EPOCH_MS + 1,
    "no interval": None,
}
FEATURES = {
    "classic": [],
    "multi-part": [],
    "v2": ["v2Checkpoint"],
}


@st.composite
def layouts(draw: st.DrawFn, names: tuple[str, ...] = ("classic", "multi-part", "v2")) -> dict[str, Any]:
    """Options that choose a form."""
    match draw(st.sampled_from(names)):
        case "classic":
            return {"layout": "classic"}
        case "multi-part":
            return {"layout": "multi-part", "parts": draw(st.integers(2, 5))}
        case _:
            rows = draw(st.sampled_from([1, 2, 3, 1000]))
            return {"layout": "v2", "rows_per_file": rows, "v2_top": draw(st.sampled_from(["json", "parquet"]))}


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableBuilder, int | None, int | None, dict[str, Any]]:
    """A log, what its newest version keeps for how long, and the form of its next checkpoint."""
    builder = draw(strategies.described_logs(max_commits=5))
    layout = draw(layouts())
    features = FEATURES[layout["layout"]]
    retention, transactions = draw(st.sampled_from(list(RETENTIONS))), draw(st.sampled_from(list(TRANSACTIONS)))
    configuration = {"delta.deletedFileRetentionDuration": retention} if retention else {}
    configuration |= {"delta.setTransactionRetentionDuration": transactions} if transactions else {}
    last = draw(st.lists(strategies.adds(), max_size=3))
    builder.commit(
        protocol(3, 7, reader_features=features, writer_features=[*features, "domainMetadata"]),
        metadata(configuration=configuration),
        *last,
    )
    builder = draw(strategies.checkpointed(builder))
    return builder, RETENTIONS[retention], TRANSACTIONS[transactions], layout


def whole_rows(snapshot: Snapshot) -> list[str]:
    """Live files with every field, and tombstones with those that a checkpoint keeps."""
    adds = [row for batch in snapshot.files() for row in batch.to_pylist(maps_as_pydicts="strict")]
    removes = [row for batch in snapshot.tombstones() for row in batch.to_pylist(maps_as_pydicts="strict")]
    without = {"dataChange": False}
    found = [repr(("add", row | without)) for row in adds]
    return sorted(found + [repr(("remove", row | without | {"stats": None, "tags": None})) for row in removes])


def is_kept(row: str, retention_ms: int) -> bool:
    values = eval(row)
    return values[0] == "add" or (values[1]["deletionTimestamp"] or 0) > NOW_MS - retention_ms


@examples(10)
@given(tables())
def test_the_newest_version_survives_in_its_checkpoint_alone(
    table: tuple[TableBuilder, int, int | None, dict[str, Any]],
) -> None:
    builder, retention_ms, transactions_ms, layout = table
    storage = builder.in_memory()
    expected = expired(builder.states[-1], retention_ms=retention_ms, transactions_ms=transactions_ms)
    before = whole_rows(open_at(storage).snapshot())

    result = write(open_at(storage), CheckpointRequest(**layout, force=True))
    alone = open_at(left_alone(storage, [file.path for file in result.files]))

    note(f"{result.files} {result.actions}")
    wanted = expected.document(now_ms=NOW_MS)
    wanted["tombstones"] |= {"expired": state_document(alone)["tombstones"]["expired"]}  # type: ignore[operator]
    assert {name: wanted[name] for name in STATE_FIELDS} == state_document(alone)
    assert [row for row in before if is_kept(row, retention_ms)] == whole_rows(alone.snapshot())
    assert layout["layout"] == alone.snapshot().checkpoint_layout
    assert len(builder.states[-1].tombstones) - len(expected.tombstones) == result.expired_tombstones_dropped
    assert counted(expected.actions()) == {
        kind: count for kind, count in result.actions.items() if kind not in ("checkpointMetadata", "sidecar")
    }
    sizes = {file.path: file.size_bytes for file in result.files}
    assert sizes == {path: len(storage.read(path)) for path in sizes}
    rows = [file.rows for file in result.files if file.rows is not None]
    assert sum(result.actions.values()) == sum(rows)
    assert all(count <= layout["rows_per_file"] for count in rows[1:] if layout["layout"] == "v2")


def counted(lines: list[Action]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        for kind in line:
            found[kind] = found.get(kind, 0) + 1
    return found


@examples(6)
@given(strategies.described_logs(), st.data())
def test_every_version_that_can_be_rebuilt_survives_in_its_checkpoint_alone(
    builder: TableBuilder, data: st.DataObject
) -> None:
    """In any order, one after the other: the hint never moves backwards, and names an existing checkpoint."""
    builder = data.draw(strategies.checkpointed(builder))
    storage = builder.in_memory()
    versions = data.draw(st.permutations(sorted(builder.reconstructable())))
    hinted = -1
    for version in versions:
        has_v2 = "v2Checkpoint" in (builder.states[version].protocol or {}).get("readerFeatures", [])
        layout = data.draw(layouts(("classic", "v2") if has_v2 else ("classic", "multi-part")))
        stats = data.draw(st.sampled_from(["keep", "json", "struct", "both"]))

        try:
            result = write(open_at(storage), CheckpointRequest(version=version, stats=stats, **layout))
        except ProtocolUnsupported:
            assert any("future" in name for name in (builder.states[-1].protocol or {})["readerFeatures"])
            return
        except Refused as refused:  # a checkpoint of another form is there, or a file has several spellings
            code = refused.code
            result = write(open_at(storage), CheckpointRequest(version=version, stats=stats, force=True, **layout))
        else:
            code = ""
        assert any(code in note for note in result.plan.notes) or not code

        if not result.skipped:
            alone = open_at(left_alone(storage, [file.path for file in result.files]))
            wanted = expired(builder.states[version]).document(now_ms=NOW_MS)
            assert wanted == state_document(alone)
        hinted = check_hint(storage, hinted, result.hint_version)


def check_hint(storage: MemoryStorage, before: int, told: int | None) -> int:
    """Check that the version of the hint is not below `before`, has a checkpoint, and is the reported one."""
    try:
        data = storage.read(HINT)
    except Exception:  # noqa: BLE001  (there is none)
        assert told is None
        return before
    hint = read_hint(data)
    assert isinstance(hint, Hint)
    assert hint.version >= before
    assert told in (None, hint.version)
    snapshot = open_at(storage).snapshot(version=hint.version)
    assert snapshot.segment.checkpoint is not None
    assert hint.version == snapshot.segment.checkpoint.version
    assert () == tuple(problem for problem in snapshot.problems if problem.startswith("hint"))
    content = json.loads(data)
    if "checkpointSchema" in content:
        assert names(content["checkpointSchema"]) == set(
            pq.read_schema(storage.open(f"_delta_log/{snapshot.segment.checkpoint.files[0].name}")).names
        )
    return hint.version


def names(schema: dict[str, Any]) -> set[str]:
    return {field["name"] for field in schema["fields"]}


@examples(7)
@given(strategies.described_logs(max_commits=3), st.sampled_from(["struct", "both"]))
def test_parsed_statistics_equal_those_of_the_texts(builder: TableBuilder, stats: str) -> None:
    builder.commit(protocol(), metadata())
    storage = builder.in_memory()
    result = write(open_at(storage), CheckpointRequest(stats=stats))

    column = pq.read_table(storage.open(result.files[0].path)).column("add").combine_chunks()

    rows = {
        (row["path"], repr(row["deletionVector"])): row for row in column.to_pylist(maps_as_pydicts="strict") if row
    }
    assert len(builder.states[-1].live) == len(rows)
    for action in builder.states[-1].live.values():
        found = [row for (path, _), row in rows.items() if path == action["path"]]
        parsed = [(row["stats_parsed"] or {}).get("numRecords") for row in found]
        assert num_records(action) in parsed
        assert ("stats" in found[0]) == (stats == "both")
        if stats == "both":
            assert action.get("stats") in [row["stats"] for row in found]
