"""V2 checkpoints on any engine: pieces that run twice, or fail after they wrote a file, leave no file behind that no
checkpoint references.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import open_table
from deltacli.core.errors import StorageFailed
from deltacli.core.machine import fixed_clock
from deltacli.delta.checkpoint.content import Columns
from deltacli.delta.checkpoint.layout import is_sidecar_of, sidecar_name
from deltacli.delta.log.state import TableConfiguration
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.checkpoint.file_writer import StateRows
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.storage import Storage
from deltacli.table.find_log import list_log
from deltacli.work.checkpoints.encoding import FileEncoder
from deltacli.work.checkpoints.reading import open_checkpoint
from deltacli.work.checkpoints.sidecars import SidecarPiece, WriteSidecars
from deltacli.work.parquet_encoding import Encoding
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.support import corpus
from tests.support.actions import add, remove
from tests.support.builder import HINT, LOG
from tests.support.checkpointing import FORMS, any_form_table, left_alone, log_names
from tests.support.corpus_checkpoints import BEFORE_ALL_MS, copy_log, files_of, open_copy, tombstones_of
from tests.support.faulty import Answer, Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS, open_at, state_document
from tests.support.shipping import ShippingEngine

SIDECARS = f"{LOG}/_sidecars"
V2: dict[str, Any] = {"layout": "v2", "rows_per_file": 1, "stats": "both"}
_BYTES_A_SIDECAR = 300
"""Of a piece for four sidecars, which names a few row groups, and of its result."""

ENGINES = pytest.mark.parametrize("engine", [EmbeddedEngine, ShippingEngine])


def with_sidecars() -> MemoryStorage:
    """A table with a checkpoint of several sidecars, and newer commits that decide some of its files."""
    builder = any_form_table(FORMS[2])
    for name in ("f", "g", "h", "i"):
        builder.commit(add(f"{name}.parquet", size=40, records=4))
    storage = builder.in_memory()
    open_at(storage).checkpoint(**V2)
    newest = builder.newest
    builder.commit(remove("c.parquet", deleted_ms=NOW_MS), add("j.parquet", size=50, records=5))
    storage.write(f"{LOG}/{newest + 1:020d}.json", builder.in_memory().read(f"{LOG}/{newest + 1:020d}.json"))
    return storage


def shipping() -> ShippingEngine:
    return ShippingEngine(varying=("WriteSidecars",))


def made(engine: type[Engine]) -> Engine:
    return shipping() if engine is ShippingEngine else engine()


def named(storage: Storage) -> set[str]:
    """The names of the sidecars of all checkpoints that can be read."""
    stores = TableStores(storage)
    return {
        path.rpartition("/")[2]
        for instance in list_log(storage).checkpoints
        for path in open_checkpoint(stores, instance).sidecars
    }


class FailsToPublish(FaultyStorage):
    """Fails at one of the times that it publishes a sidecar."""

    def step(self, verb: str, path: str, call: Callable[[], Answer]) -> Answer:
        return super().step(verb, path, call) if verb == "publish" and "_sidecars" in path else call()


def with_newer_commit(source: corpus.CorpusTable, place: Path) -> dict[str, Any]:
    """Copy a log, write a checkpoint with few file actions in each sidecar, and append a commit.

    Returns the options of the checkpoint.
    """
    copy_log(source, corpus.unpacked(), place)
    snapshot = open_copy(place).snapshot()
    files, _ = snapshot.counts()
    options = V2 | {"rows_per_file": 1 + files.count // 10}
    open_copy(place).checkpoint(**options, force=True)
    (place / LOG / f"{snapshot.version + 1:020d}.json").write_text(
        '{"commitInfo":{"inCommitTimestamp":4102444800000}}\n'
    )
    return options


@pytest.mark.long
def test_every_corpus_table_gets_the_same_rows_from_any_engine(tmp_path: Path) -> None:
    shipped = shipping()
    of_v2 = [
        table
        for table in corpus.tables()
        if table.newest is not None
        and "v2Checkpoint" in (table.entry["protocols"][table.newest["protocol"]].get("writerFeatures") or ())
    ]
    for number, source in enumerate(of_v2):
        answers = []
        for engine in (EmbeddedEngine(), shipped):
            place = tmp_path / f"{number}-{type(engine).__name__}"
            options = with_newer_commit(source, place)
            result = open_table(str(place), engine=engine, clock=fixed_clock(BEFORE_ALL_MS)).checkpoint(**options)
            snapshot = open_copy(place).snapshot()
            assert snapshot.segment.checkpoint is not None
            assert result.version == result.hint_version == snapshot.segment.checkpoint.version, source.id
            answers.append((files_of(snapshot), tombstones_of(snapshot), result.actions))
        assert answers[0] == answers[1], source.id

    assert shipped.shipped.pieces["WriteSidecars"] >= 6
    assert shipped.shipped.piece_bytes["WriteSidecars"] <= 4 * _BYTES_A_SIDECAR
    assert shipped.shipped.result_bytes["WriteSidecars"] <= 4 * _BYTES_A_SIDECAR


@ENGINES
def test_rows_of_row_groups_and_of_newer_commits_get_sidecars_of_their_own(engine: type[Engine]) -> None:
    storage = with_sidecars()
    before = state_document(open_at(storage))
    foreseen = open_at(storage).checkpoint(**V2, dry_run=True)

    result = open_at(storage, engine=made(engine)).checkpoint(**V2)

    assert foreseen.actions == result.actions
    assert [1] * (len(result.files) - 1) == [file.rows for file in result.files[1:]]
    assert before == state_document(open_at(storage))
    assert [] == sorted(set(log_names(storage, SIDECARS)) - named(storage))
    assert () == open_at(storage).validate(select=("checkpoint.v2-tags",)).findings
    assert {CheckpointVerdict.AGREES} == {found.verdict for found in verify_checkpoints(open_at(storage))}


@ENGINES
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.UNSENT])
def test_a_sidecar_that_cannot_be_published_leaves_no_others_and_the_hint_where_it_was(
    engine: type[Engine], fault: Fault
) -> None:
    storage = with_sidecars()
    before, hint = set(log_names(storage, SIDECARS)), storage.read(HINT)
    failed, at, step = 0, 0, 3 if engine is ShippingEngine else 2
    while True:
        at += step
        faulty = FailsToPublish(left_alone(storage, storage._files), at, fault)
        try:
            open_at(faulty, engine=made(engine)).checkpoint(**V2)
        except StorageFailed:
            failed += 1
            assert before == set(log_names(faulty, SIDECARS)), at
            assert hint == faulty.read(HINT)
        else:  # the fault was in an attempt that was repeated, or there was none
            assert before < named(faulty) == set(log_names(faulty, SIDECARS)), at
        if at > len(faulty.calls):
            break

    assert failed >= 2


def test_a_file_that_cannot_be_proven_where_it_was_written_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = with_sidecars()
    before = set(log_names(storage, SIDECARS))
    encode = FileEncoder.finish

    def damaged(encoder: Any) -> Any:
        encoded = encode(encoder)
        data = bytearray(Path(encoder._place).read_bytes())
        data[len(data) // 2] ^= 1
        Path(encoder._place).write_bytes(bytes(data))
        return encoded

    monkeypatch.setattr(FileEncoder, "finish", damaged)

    with pytest.raises(StorageFailed) as caught:
        open_at(storage, engine=shipping()).checkpoint(**V2)

    assert "checkpoint.not-proven" == caught.value.code
    assert before == set(log_names(storage, SIDECARS))


def test_a_task_that_nobody_waits_for_ends_at_its_next_batch_without_a_file() -> None:
    storage = with_sidecars()
    before = set(log_names(storage, SIDECARS))
    snapshot = open_at(storage).snapshot()
    rows = StateRows(snapshot, Columns(), TableConfiguration(metadata=snapshot.metadata), NOW_MS)
    values = {"touched": snapshot.file_actions.changed_after_checkpoint, "converter": rows.converter}
    task, answers = WriteSidecars(snapshot.version, "run", Encoding(), 1), iter([False, False, True])

    with pytest.raises(CancelledError):
        task(
            SidecarPiece(1, snapshot.file_actions.pieces),
            TaskContext(TableStores(storage), values, is_cancelled=lambda: next(answers)),
        )

    assert before == set(log_names(storage, SIDECARS))


def test_only_sidecars_of_this_run_are_swept() -> None:
    own = sidecar_name(3, 2, "run.attempt")

    assert is_sidecar_of(own, 3, "run")
    for name, version, unique in ((own, 4, "run"), (own, 3, "ru"), (own, 3, "other"), (own, 3, "attempt")):
        assert not is_sidecar_of(name, version, unique)
