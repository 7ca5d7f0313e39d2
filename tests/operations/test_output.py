"""Directories of Parquet files: the whole result or nothing, whatever fails, and nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import DataUnreadable, DeltacliError, NoAtomicCreate, StorageFailed, UsageError
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import Storage, open_storage
from deltacli.work import parquet_writing as parquet_stream
from deltacli.work.outputs import output_files
from deltacli.work.outputs import row_outputs as rows
from deltacli.work.outputs.output_files import CLAIM, OutputTarget
from deltacli.work.outputs.row_outputs import WriteRows
from deltacli.work.task import TaskContext
from tests.support.faulty import Fault, FaultyStorage
from tests.support.rows import parquet_bytes, schema_of, table_of
from tests.support.s3 import S3Server

ROWS = pa.table({"id": pa.array(range(60), pa.int64()), "name": [f"name {number}" for number in range(60)]})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of six files of ten rows, each with five row groups."""
    files = {
        f"part-{number}.parquet": parquet_bytes(ROWS.slice(number * 10, 10), row_group_size=2) for number in range(6)
    }
    return table_of(files, schema_of(ROWS)).write(tmp_path / "table")


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a piece of its own."""
    monkeypatch.setattr(rows, "_LEAST_WEIGHT", 3 << 10)
    monkeypatch.setattr(rows, "PIECE_WEIGHT", 3 << 10)
    monkeypatch.setattr(rows, "_FILE_WEIGHT", 1)


def read_back(directory: Path) -> pa.Table:
    """The rows of the files, in the order of their names; a reader ignores the marker."""
    assert (directory / "_SUCCESS").exists()
    files = sorted(directory.glob("*.parquet"))
    assert len(files) + 1 == len(list(directory.iterdir()))
    return pa.concat_tables(pq.ParquetFile(file).read() for file in files)


@dataclass
class RememberingEngine(EmbeddedEngine):
    """Remembers what it was given, and calls a function before each piece."""

    before: Callable[[int], None] = lambda _: None
    spreads: list[tuple[Any, list[Any], Mapping[str, Any]]] = field(default_factory=list)  # Any: tasks and pieces

    def __post_init__(self) -> None:
        super().__init__(1)

    def run_tasks(self, task: Any, pieces: Iterable[Any], stores: Any, **options: Any) -> Iterator[Any]:
        given: list[Any] = []
        self.spreads.append((task, given, options.get("shared", {})))

        def noted() -> Iterator[Any]:
            for number, piece in enumerate(pieces):
                given.append(piece)
                self.before(number)
                yield piece

        return super().run_tasks(task, noted(), stores, **options)


@pytest.mark.usefixtures("_small_pieces")
def test_rows_are_written_piece_by_piece_in_the_order_of_the_files(table: Path, tmp_path: Path) -> None:
    written = open_table(table).snapshot().scan().write_parquet(tmp_path / "out")

    assert ROWS == read_back(tmp_path / "out").sort_by("id")
    assert (6, 60) == (len(written.files), written.rows)
    assert written.size_bytes == sum(file.stat().st_size for file in (tmp_path / "out").glob("*.parquet"))


@pytest.mark.usefixtures("_small_pieces")
def test_a_large_file_is_split_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table_of({"part.parquet": parquet_bytes(ROWS, row_group_size=6)}, schema_of(ROWS)).write(tmp_path / "t")
    monkeypatch.setattr(rows, "PIECE_WEIGHT", 256)
    monkeypatch.setattr(rows, "_LEAST_WEIGHT", 256)

    written = open_table(whole).snapshot().scan(where="id != 7").write_parquet(tmp_path / "out")

    assert ROWS.filter(pa.compute.not_equal(ROWS["id"], 7)) == read_back(tmp_path / "out")
    assert 10 == len(written.files)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("limit", [0, 1, 10, 25, 59, 60, 61])
def test_a_limit_is_exact(limit: int, table: Path, tmp_path: Path) -> None:
    written = open_table(table).snapshot().scan(limit=limit).write_parquet(tmp_path / "out")

    assert (min(limit, 60), limit < 60) == (written.rows, written.was_cut)
    assert written.rows == read_back(tmp_path / "out").num_rows


@pytest.mark.parametrize("limit", [None, 2, 6])
def test_file_actions_are_written_typed_and_cut_at_the_limit(limit: int | None, table: Path, tmp_path: Path) -> None:
    from deltacli.table.output import write_actions
    from deltacli.work.outputs.action_outputs import ActionColumns

    snapshot = open_table(table).snapshot()
    written = write_actions(
        snapshot.file_actions, tmp_path / "out", ActionColumns(("add", "remove"), ("path", "size")), limit
    )

    expected = pa.Table.from_batches(snapshot.files()).select(["path", "size"]).slice(0, limit)
    assert expected == read_back(tmp_path / "out")
    assert (limit == 2) is written.was_cut


def test_no_rows_are_one_file_with_the_schema(table: Path, tmp_path: Path) -> None:
    written = open_table(table).snapshot().scan(where="id > 100").write_parquet(tmp_path / "out")

    assert (1, 0) == (len(written.files), written.rows)
    assert ROWS.schema == read_back(tmp_path / "out").schema


def test_changes_keep_their_columns(table: Path, tmp_path: Path) -> None:
    changes = open_table(table).changes(from_version=0)

    changes.write_parquet(tmp_path / "out")

    assert changes.to_arrow().sort_by("id") == read_back(tmp_path / "out").sort_by("id")


def test_a_file_that_grows_too_large_is_continued_in_another(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "_MOST_FILE_BYTES", 1)
    monkeypatch.setattr(parquet_stream, "_ROWS_PER_GROUP", 4)

    written = open_table(table).snapshot().scan().write_parquet(tmp_path / "out")

    assert len(written.files) > 6
    assert ROWS == read_back(tmp_path / "out").sort_by("id")


def test_memory_holds_one_row_group_whatever_the_size_of_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltacli.work.outputs.output_files import write_batches

    monkeypatch.setattr(parquet_stream, "_BYTES_PER_GROUP", 4 << 20)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / CLAIM).write_text("run")
    stores = open_table(tmp_path).stores
    schema, peak, start = pa.schema([("x", pa.int64())]), [0], pa.total_allocated_bytes()

    def batches() -> Iterator[pa.RecordBatch]:
        random = Random(7)
        for _ in range(32):
            peak.append(pa.total_allocated_bytes() - start)
            yield pa.RecordBatch.from_arrays(
                [pa.Array.from_buffers(pa.int64(), 1 << 17, [None, pa.py_buffer(random.randbytes(1 << 20))])],
                schema=schema,
            )

    target = OutputTarget(str(tmp_path / "out"), "run")
    (file,) = write_batches(TaskContext(stores), target, 0, schema, batches())

    assert file.size_bytes > 24 << 20
    assert max(peak) < 16 << 20


# -- refusals ----------------------------------------------------------------------------------------------------------


def refused(table: Path | str, directory: Path | str) -> UsageError:
    with pytest.raises(UsageError) as found:
        open_table(table).snapshot().scan().write_parquet(directory)
    return found.value


def test_a_directory_that_is_not_empty_is_refused_with_its_content(table: Path, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / "out" / f"sub{number}").mkdir(parents=True)

    (tmp_path / "link").symlink_to(tmp_path / "out")

    for name in ("out", "link"):
        fault = refused(table, tmp_path / name)
        assert "sub0/, sub1/, sub2/, sub3/, sub4/ and 2 more" == fault.facts["found"]

    assert 7 == len(list((tmp_path / "out").iterdir()))


@pytest.mark.parametrize("inside", ["", "new", "_delta_log/new", "a/b/c"])
def test_a_directory_inside_a_table_is_refused(inside: str, table: Path, tmp_path: Path) -> None:
    other = table_of({}, schema_of(ROWS)).write(tmp_path / "other")
    (tmp_path / "link").symlink_to(table)
    before = sorted(tmp_path.rglob("*"))

    for around in (table, other, tmp_path / "link"):
        assert "is inside a table" in refused(table, around / inside).message

    assert before == sorted(tmp_path.rglob("*"))


def test_a_file_and_a_store_without_atomic_creation_are_refused(table: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")

    assert "is a file" in refused(table, tmp_path / "file").message
    with pytest.raises(NoAtomicCreate):
        open_table(table).snapshot().scan().write_parquet("memory://somewhere/out")

    assert "before" == (tmp_path / "file").read_text()


def test_of_two_runs_one_gets_the_directory(table: Path, tmp_path: Path) -> None:
    engine = RememberingEngine(before=lambda _: errors.append(refused(table, tmp_path / "out")))
    errors: list[UsageError] = []

    open_table(table, engine=engine).snapshot().scan().write_parquet(tmp_path / "out")

    assert [CLAIM] == [error.facts["found"] for error in errors]
    assert ROWS == read_back(tmp_path / "out").sort_by("id")


# -- faults ------------------------------------------------------------------------------------------------------------


def open_with(table: Path, out: Storage, engine: EmbeddedEngine | None = None) -> Table:
    """A table whose output goes to a given store."""
    stores = {out.uri: out}
    return Table(
        open_storage(str(table)),
        engine=engine or EmbeddedEngine(1),
        open_other=lambda uri: stores.get(uri) or open_storage(uri),
    )


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT])
def test_the_store_fails_at_any_call(fault: Fault, table: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("beside")
    whole = FaultyStorage(open_storage(str(tmp_path / "whole")))
    open_with(table, whole).snapshot().scan(limit=25).write_parquet(whole.uri)
    creations = {"put_if_absent", "publish"}
    outcomes = []

    for at, (verb, _) in enumerate(whole.calls, start=1):
        if fault in (Fault.LOST, Fault.UNSENT) and verb not in creations:
            continue
        out = tmp_path / f"out{at}"
        store = FaultyStorage(open_storage(str(out)), at, fault)
        try:
            written = open_with(table, store).snapshot().scan(limit=25).write_parquet(store.uri)
        except DeltacliError:
            assert not out.exists() or [] == os.listdir(out), (at, verb)
            outcomes.append("failed")
        else:
            assert 25 == written.rows == read_back(out).num_rows
            outcomes.append("done")

    assert "beside" == (tmp_path / "beside").read_text()
    assert {Fault.LOST: {"done"}, Fault.UNSENT: {"failed"}}.get(fault, {"failed"}) <= set(outcomes)


@pytest.mark.usefixtures("_small_pieces")
def test_an_unreadable_file_or_an_interruption_leaves_nothing(table: Path, tmp_path: Path) -> None:
    def interrupt(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_table(table, engine=RememberingEngine(before=interrupt)).snapshot().scan().write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (table / "part-4.parquet").unlink()

    with pytest.raises(DataUnreadable) as fault:
        open_table(table).snapshot().scan().write_parquet(tmp_path / "out")

    assert ("data.file-missing", []) == (fault.value.code, os.listdir(tmp_path / "out"))
    assert f"deltacli validate {table} --level storage" == fault.value.hint


@pytest.mark.parametrize("is_published", [False, True])
def test_an_attempt_that_outlives_its_run_leaves_no_file(
    is_published: bool, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The driver has deleted the claim before or after the attempt publishes its file.
    """
    engine = RememberingEngine()
    opened = open_table(table, engine=engine)
    opened.snapshot().scan().write_parquet(tmp_path / "out")
    before = sorted(os.listdir(tmp_path / "out"))
    ((task, pieces, shared),) = [spread for spread in engine.spreads if isinstance(spread[0], WriteRows)]
    if is_published:
        answers = chain([True], repeat(False))
        monkeypatch.setattr(OutputTarget, "is_claimed", lambda *_: next(answers))

    with pytest.raises(StorageFailed, match="is no longer written by this run"):
        task(pieces[0], TaskContext(opened.stores, shared))

    assert before == sorted(os.listdir(tmp_path / "out"))


def test_files_of_lost_attempts_are_deleted_and_others_are_kept(table: Path, tmp_path: Path) -> None:
    def lose(number: int) -> None:
        task = engine.spreads[-1][0]
        if not isinstance(task, WriteRows):
            return
        lost.append(task.target.file_name(number, "0" * 32, 0))
        (tmp_path / "out" / lost[0]).write_text("lost")
        (tmp_path / "out" / "part-00000-other.parquet").write_text("kept")

    lost: list[str] = []
    engine = RememberingEngine(before=lose)

    written = open_table(table, engine=engine).snapshot().scan().write_parquet(tmp_path / "out")

    names = [file.name for file in written.files]
    assert sorted([*names, "_SUCCESS", "part-00000-other.parquet"]) == sorted(os.listdir(tmp_path / "out"))


def test_a_directory_of_an_object_store(table: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    for file in (table / "_delta_log").iterdir():
        s3.put(bucket, f"lake/table/_delta_log/{file.name}", file.read_bytes())
    scan = open_table(table).snapshot().scan()

    written = scan.write_parquet(f"s3://{bucket}/lake/out")

    assert sorted(["_SUCCESS", *(file.name for file in written.files)]) == [
        key.removeprefix("lake/out/") for key in s3.keys(bucket) if key.startswith("lake/out/")
    ]
    assert 60 == written.rows
    for inside in ("lake/table", "lake/table/new"):
        assert "is inside a table" in refused(table, f"s3a://{bucket}/{inside}").message
    assert "is not empty" in refused(table, f"s3://{bucket}/lake/out/").message
