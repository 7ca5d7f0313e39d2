"""`checkpoint` on a store that fails: at every call of the writing, in every form, the table reads as before, nothing
half counts, nothing is left over, and running it again does it.
"""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from deltacli.core.errors import FileMissing, NoSpace, StorageFailed
from deltacli.delta.log.segment import Hint, read_hint
from deltacli.operations.checkpoint.checkpoint import (
    CheckpointPlan,
    CheckpointRequest,
    plan_checkpoint,
    write_checkpoint,
)
from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints
from deltacli.storage import Created, Storage
from deltacli.work.checkpoints import encoding, sidecars, verifying
from tests.support.builder import HINT, LOG, TableBuilder
from tests.support.checkpointing import FORMS, Form, any_form_table, expired, left_alone, log_names, write
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS, open_at, state_document

form_of = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where drafts of a store in memory lie."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def plan_with(form: Form, builder: TableBuilder, **others: Any) -> tuple[MemoryStorage, FaultyStorage, CheckpointPlan]:
    """A plan whose store can fail from now on."""
    inner = builder.in_memory()
    storage = FaultyStorage(inner)
    plan = plan_checkpoint(open_at(storage), CheckpointRequest(**form.request(**others)))
    storage.calls.clear()
    return inner, storage, plan


def calls_of(form: Form) -> list[tuple[str, str]]:
    _, storage, plan = plan_with(form, any_form_table(form))
    write_checkpoint(plan)
    return storage.calls


def check_table(storage: Storage, builder: TableBuilder) -> None:
    """The newest version is the model's, every complete checkpoint tells it, and the hint names one that is there."""
    state = builder.states[-1]
    wanted = [found.document(now_ms=NOW_MS) for found in (state, expired(state))]
    table = open_at(storage)
    assert state_document(table) in wanted
    assert {"checkpoint.multipart-incomplete"} >= set(table.snapshot().problems)
    assert {CheckpointVerdict.AGREES} >= {found.verdict for found in verify_checkpoints(table)}
    try:
        hint = read_hint(storage.read(HINT))
    except FileMissing:
        return
    assert isinstance(hint, Hint)
    assert table.snapshot(version=hint.version).segment.checkpoint is not None


def check_rerun(inner: MemoryStorage, form: Form, builder: TableBuilder) -> None:
    """Running it again leaves a checkpoint that suffices alone, and the hint at it."""
    result = write(open_at(inner), CheckpointRequest(**form.request()))
    check_table(inner, builder)
    assert builder.newest == result.hint_version
    sidecars = [f"{LOG}/_sidecars/{name}" for name in log_names(inner, f"{LOG}/_sidecars")] if "v2" in form.name else []
    alone = open_at(left_alone(inner, [*(file.path for file in result.files), *sidecars]))
    assert expired(builder.states[-1]).document(now_ms=NOW_MS) == state_document(alone)


@form_of
def test_the_calls_that_can_fail(form: Form) -> None:
    verbs = [verb for verb, _ in calls_of(form)]

    assert ["put"] == [verb for verb in verbs if verb.startswith("put")]
    assert "put" == verbs[-1]
    assert {"classic": 1, "multi-part": 3}.get(form.name, 4) == verbs.count("publish") == verbs.count("begin")


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[] if form.name in ("classic", "v2-json") else pytest.mark.soak) for form in FORMS],
    ids=lambda form: form.name,
)
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_fault_at_any_call_changes_nothing_and_a_rerun_mends_it(
    form: Form, fault: Fault, scratch: Path, in_turn: InTurn
) -> None:
    builder = any_form_table(form)
    for at in in_turn(range(1, len(calls_of(form)) + 1)):
        inner, storage, plan = plan_with(form, builder)
        storage.fail(at, fault)

        with pytest.raises(StorageFailed):
            write_checkpoint(plan)

        assert [] == list(scratch.iterdir()), storage.calls[-1]
        check_table(inner, builder)
        check_rerun(inner, form, builder)


@form_of
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNSENT])
def test_a_creation_without_an_answer_is_looked_at(form: Form, fault: Fault, scratch: Path, in_turn: InTurn) -> None:
    builder = any_form_table(form)
    places = [number for number, (verb, _) in enumerate(calls_of(form), 1) if verb == "publish"]
    for at in in_turn(places):
        inner, storage, plan = plan_with(form, builder)
        storage.fail(at, fault)

        if fault is Fault.LOST:
            assert builder.newest == write_checkpoint(plan).hint_version
        else:
            with pytest.raises(StorageFailed, match="cannot be written") as caught:
                write_checkpoint(plan)
            assert {"why": "nobody answered", "next": "run the same command again"} == caught.value.facts

        assert [] == list(scratch.iterdir())
        check_table(inner, builder)
        check_rerun(inner, form, builder)


def test_sidecars_that_no_file_names_are_taken_back() -> None:
    form = FORMS[2]
    calls = calls_of(form)
    (at,) = [number for number, call in enumerate(calls, 1) if call[0] == "begin" and "_sidecars" not in call[1]]
    inner, storage, plan = plan_with(form, any_form_table(form))
    storage.fail(at, Fault.BEFORE)

    with pytest.raises(StorageFailed):
        write_checkpoint(plan)

    assert [] == [path for path in inner._files if "_sidecars" in path]


def flip(place: str, position: int) -> None:
    data = bytearray(Path(place).read_bytes())
    data[position] ^= 0x10
    Path(place).write_bytes(bytes(data))


@form_of
def test_a_byte_that_flips_on_the_disk_is_found_before_anybody_sees_it(
    form: Form, monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    builder = any_form_table(form)
    before = sorted(builder.in_memory()._files)
    for share in (0.6, 0.8, 0.95):
        inner, _, plan = plan_with(form, builder)
        with monkeypatch.context() as patch:
            flip_after_encoding(patch, share)
            with pytest.raises(StorageFailed) as caught:
                write_checkpoint(plan)

        assert "checkpoint.not-proven" == caught.value.code
        assert 7 == caught.value.exit_code
        assert before == sorted(inner._files)
        assert [] == list(scratch.iterdir())


def flip_after_encoding(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Damage each file, so far into it, between its encoding and its reading back."""
    finish = encoding.FileEncoder.finish

    def finish_and_damage(encoder: encoding.FileEncoder) -> encoding.EncodedFile:
        encoded = finish(encoder)
        flip(encoder._place, int(encoded.size_bytes * share))
        return encoded

    monkeypatch.setattr(encoding.FileEncoder, "finish", finish_and_damage)


@form_of
def test_a_full_disk_is_reported_with_the_name_of_the_checkpoint(
    form: Form, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(_: object, data: bytes) -> int:
        if bytes(data) == b"PAR1":  # the first bytes, which stay in a buffer
            return len(data)
        raise OSError(errno.ENOSPC, "any text")

    _, _, plan = plan_with(form, any_form_table(form))
    monkeypatch.setattr(encoding._Sink, "write", fill)

    with pytest.raises(NoSpace) as caught:
        write_checkpoint(plan)

    name, reason = caught.value.message.split(" cannot be written: ")
    assert (True, ".tmp" in name) == (name.startswith("_delta_log/"), False)
    assert ("no space left on device", f"df -h {scratch}") == (reason, caught.value.hint)


def test_a_byte_that_flips_in_the_json_top_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    form = FORMS[2]
    inner, _, plan = plan_with(form, any_form_table(form))
    write_lines = verifying.write_lines

    def write_and_damage(place: str, actions: Any, **options: Any) -> bytes:
        data = write_lines(place, actions, **options)
        flip(place, 40)
        return data

    monkeypatch.setattr(verifying, "write_lines", write_and_damage)

    with pytest.raises(StorageFailed) as caught:
        write_checkpoint(plan)

    assert "checkpoint.not-proven" == caught.value.code
    assert [] == [path for path in inner._files if "checkpoint" in path]


@pytest.mark.halved
def test_no_byte_of_a_draft_slips_through(monkeypatch: pytest.MonkeyPatch) -> None:
    form = FORMS[0]
    builder = any_form_table(form)
    size = write(open_at(builder.in_memory()), CheckpointRequest(**form.request())).files[0].size_bytes
    for position in range(0, size, 397):
        inner, _, plan = plan_with(form, builder)
        with monkeypatch.context() as patch:
            flip_after_encoding(patch, position / size)
            with pytest.raises(StorageFailed, match="was not published"):
                write_checkpoint(plan)
        assert [] == [path for path in inner._files if "checkpoint" in path]


def test_an_encoder_that_writes_other_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are those that were written, and not what was meant."""
    write_table = pyarrow.parquet.ParquetWriter.write_table

    def write_other(writer: Any, rows: Any, **options: Any) -> None:
        adds = rows.column("add").to_pylist(maps_as_pydicts="strict")
        for row in adds:
            if row and row["path"] == "c.parquet":
                row["size"] += 1
        maps = [row and row | {"partitionValues": [], "tags": None} for row in adds]
        position = rows.schema.get_field_index("add")
        column = pyarrow.array(maps, rows.schema.field("add").type)
        write_table(writer, rows.set_column(position, rows.schema.field("add"), column), **options)

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", write_other)
    inner, _, plan = plan_with(FORMS[0], any_form_table(FORMS[0]))

    with pytest.raises(StorageFailed, match=r"row group \d differs from the encoded values") as caught:
        write_checkpoint(plan)

    assert "checkpoint.not-proven" == caught.value.code
    assert [] == [path for path in inner._files if "checkpoint" in path]


@form_of
def test_a_full_disk_is_a_fault_of_the_store(form: Form, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    """The encoder is led to a device that takes nothing."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    encoder = encoding.FileEncoder
    for module in (encoding, sidecars):
        monkeypatch.setattr(
            module,
            "FileEncoder",
            lambda _, *arguments, **others: encoder("/dev/full", *arguments, **others),
        )
    inner, _, plan = plan_with(form, any_form_table(form))
    before = sorted(inner._files)

    with pytest.raises(StorageFailed, match=r"(?i)no space left") as caught:
        write_checkpoint(plan)

    assert 7 == caught.value.exit_code
    assert before == sorted(inner._files)
    assert [] == list(scratch.iterdir())


def test_what_another_writer_made_meanwhile_stays() -> None:
    form = FORMS[0]
    builder = any_form_table(form)
    inner, _, plan = plan_with(form, builder)
    theirs = write_checkpoint(plan)
    data, hint = inner.read(theirs.files[0].path), inner.read(HINT)

    inner2, _, late = plan_with(form, builder)
    inner2.write(theirs.files[0].path, data)
    result = write_checkpoint(late)

    assert (True, builder.newest) == (result.skipped, result.hint_version)
    assert data == inner2.read(theirs.files[0].path)
    assert b"checkpointSchema" in hint
    assert b"checkpointSchema" not in inner2.read(HINT)
    check_table(inner2, builder)


@pytest.mark.parametrize("parts_there", [(1,), (3,), (1, 3), (1, 2)])
@pytest.mark.parametrize("content", ["ours", "others", "nothing", "noise"])
def test_parts_that_were_left_over_are_kept_or_replaced(parts_there: tuple[int, ...], content: str) -> None:
    """A set that is not whole is no checkpoint: what another writer spread otherwise must not become a part of ours."""
    form = FORMS[1]
    builder = any_form_table(form)
    ours = builder.in_memory()
    paths = [file.path for file in write(open_at(ours), CheckpointRequest(**form.request())).files]
    inner = builder.in_memory()
    for part in parts_there:
        data = {"ours": ours.read(paths[part - 1]), "others": ours.read(paths[part % 3]), "nothing": b""}
        inner.write(paths[part - 1], data.get(content, b"PAR1"), modified_ms=7)

    result = write(open_at(inner), CheckpointRequest(**form.request()))

    assert not result.skipped
    kept = [part for part in parts_there if 7 == inner.stat(paths[part - 1]).modified_ms]
    assert kept == (list(parts_there) if content == "ours" else [])
    check_table(inner, builder)


def test_a_classic_file_of_no_bytes_is_replaced() -> None:
    form = FORMS[0]
    builder = any_form_table(form)
    inner = builder.in_memory()
    inner.write(f"{LOG}/{builder.newest:020d}.checkpoint.parquet", b"")

    result = write(open_at(inner), CheckpointRequest(**form.request()))

    assert (False, builder.newest) == (result.skipped, result.hint_version)
    check_table(inner, builder)
    check_rerun(inner, form, builder)


@pytest.mark.parametrize("data", [b"PAR1 noise PAR1", b"x" * 50], ids=["footer", "noise"])
def test_a_classic_checkpoint_that_can_not_be_read_is_replaced(data: bytes) -> None:
    form = FORMS[0]
    builder = any_form_table(form)
    inner = builder.in_memory()
    inner.write(f"{LOG}/{builder.newest:020d}.checkpoint.parquet", data)

    result = write(open_at(inner), CheckpointRequest(**form.request(if_behind=5)))

    assert (False, 5, builder.newest) == (result.skipped, result.plan.behind, result.hint_version)
    check_table(inner, builder)


def test_a_checkpoint_whose_pages_are_corrupt_costs_a_second_reading() -> None:
    form = FORMS[0]
    builder = any_form_table(form).checkpoint(2)
    name = f"{LOG}/{2:020d}.checkpoint.parquet"
    inner = builder.in_memory()
    data = bytearray(inner.read(name))
    group = pyarrow.parquet.read_metadata(inner.open(name)).row_group(0)
    (column,) = [
        group.column(index)
        for index in range(group.num_columns)
        if group.column(index).path_in_schema == "add.modificationTime"
    ]
    data[column.data_page_offset : column.data_page_offset + 8] = b"\xff" * 8
    inner.write(name, bytes(data))
    (found,) = verify_checkpoints(open_at(inner))

    result = write(open_at(inner), CheckpointRequest(**form.request()))

    assert CheckpointVerdict.UNREADABLE is found.verdict
    assert {name.rpartition("/")[2]: "checkpoint.unreadable"} == dict(result.plan.snapshot.skipped_checkpoints)
    alone = open_at(left_alone(inner, [file.path for file in result.files]))
    assert expired(builder.states[-1]).document(now_ms=NOW_MS) == state_document(alone)


def test_a_draft_is_published_once() -> None:
    """The port's own word, so that the store that fails is one."""
    storage = FaultyStorage(MemoryStorage(), 2, Fault.BEFORE)
    with storage.draft("a") as draft, pytest.raises(StorageFailed):
        draft.publish()
    with storage.draft("a") as draft:
        assert Created() == draft.publish()
