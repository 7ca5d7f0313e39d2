"""A target that cannot be written is named as the cause, and the source, which is intact, is not blamed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.changing.change import execute_change
from deltacli.changing.clone_notes import CloneNote
from deltacli.cli.errors import report_error
from deltacli.core.errors import CONTINUE, ConflictLost, OutcomeUnknown, PartlyDone, StorageFailed
from deltacli.operations.clone import Clone
from deltacli.operations.copy.execute import Copy
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.operations.log.crc_and_compact import Checksum, LogCompaction
from deltacli.storage import Created, Creation, Existed, LocalStorage, Unknown
from deltacli.storage.base import Draft, stat_created
from deltacli.table.handle import TableHandle
from tests.operations.copy.tables import SHAPES

CAUSE = "HTTP 507 InsufficientStorage"


class _UnwritableDraft:
    """A draft that the store does not take."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @property
    def local_path(self) -> str:
        return self._draft.local_path

    def publish(self, *, replace: bool = False) -> Creation:  # noqa: ARG002  (as in the port)
        return Unknown(CAUSE)

    def __enter__(self) -> _UnwritableDraft:
        self._draft.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._draft.__exit__(*exception)


class UnwritableStorage(LocalStorage):
    """A store that answers every creation of a file whose name ends so with an error."""

    endings: tuple[str, ...] = ()

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        if path.endswith(self.endings):
            return Unknown(CAUSE)
        return super().put_if_absent(path, data, modified_ms=modified_ms)

    def draft(self, path: str) -> Draft:
        draft = super().draft(path)
        return _UnwritableDraft(draft) if path.endswith(self.endings) else draft

    def copy_group(self, source: LocalStorage, paths: Sequence[str]) -> list[Creation]:
        if paths[0].endswith(self.endings):
            return [Unknown(CAUSE)] * len(paths)
        return super().copy_group(source, paths)


def unwritable(place: Path, *endings: str) -> UnwritableStorage:
    store = UnwritableStorage(str(place))
    store.endings = endings
    return store


@pytest.fixture
def source(tmp_path: Path) -> Path:
    SHAPES["whole"](tmp_path / "source")
    return tmp_path / "source"


@pytest.mark.parametrize("ending", [".parquet", "00001.json"])
def test_a_copy_names_the_target_and_the_answer_of_its_store(ending: str, source: Path, tmp_path: Path) -> None:
    target = unwritable(tmp_path / "target", ending)

    with pytest.raises((StorageFailed, PartlyDone)) as ended:
        execute_change(Copy(target, CopyRequest(replica=True)), open_table(source))
    done = execute_change(Copy(LocalStorage(str(tmp_path / "target")), CopyRequest(replica=True)), open_table(source))

    assert CAUSE == ended.value.facts["why"]
    assert target.uri in ended.value.message
    assert "storage.failed" == ended.value.code
    assert done.verified


def test_a_note_that_cannot_be_written_is_no_other_copy(source: Path, tmp_path: Path) -> None:
    from deltacli.operations.copy.note import NOTE_PATH

    with pytest.raises(StorageFailed) as ended:
        execute_change(Copy(unwritable(tmp_path / "target", NOTE_PATH), CopyRequest()), open_table(source))

    assert CAUSE == ended.value.facts["why"]
    assert not isinstance(ended.value, ConflictLost)


def test_a_target_that_goes_away_is_not_the_source(source: Path, tmp_path: Path) -> None:
    class Leaving(LocalStorage):
        def copy_group(self, source: LocalStorage, paths: Sequence[str]) -> list[Creation]:
            shutil.rmtree(tmp_path / "target")
            return super().copy_group(source, paths)

    with pytest.raises((StorageFailed, PartlyDone)) as ended:
        execute_change(Copy(Leaving(str(tmp_path / "target")), CopyRequest()), open_table(source))

    assert ended.value.code != "copy.source-changed"


def without_files(pattern: str, place: Path) -> LocalStorage:
    """Return a target of which another process deletes files as soon as they have been copied."""

    class Vacuumed(LocalStorage):
        def sync(self) -> None:
            super().sync()
            for path in place.rglob(pattern):
                path.unlink()

    return Vacuumed(str(place))


@pytest.mark.parametrize("level", list(CopyLevel))
@pytest.mark.parametrize(("shape", "pattern"), [(shape, "*.parquet") for shape in SHAPES] + [("whole", "*.bin")])
def test_files_that_a_vacuum_of_the_target_deletes_are_copied_again_as_the_error_says(
    shape: str, pattern: str, level: CopyLevel, tmp_path: Path
) -> None:
    SHAPES[shape](tmp_path / "source")
    table, target = open_table(tmp_path / "source"), tmp_path / "target"

    with pytest.raises(PartlyDone) as ended:
        execute_change(Copy(without_files(pattern, target), CopyRequest(replica=True, level=level)), table)
    done = execute_change(Copy(LocalStorage(str(target)), CopyRequest(replica=True)), table)

    assert ("copy.target-changed", "missing") == (ended.value.code, ended.value.facts["problem"])
    assert CONTINUE in ended.value.facts["so far"]
    assert done.verified
    assert () == table.copy(str(target), replica=True, check=True, level=level).differences


def write_checksum(table: TableHandle) -> object:
    return execute_change(Checksum(None), table)


def compact_log(table: TableHandle) -> object:
    return execute_change(LogCompaction(0, 1), table)


@pytest.mark.parametrize(("write", "ending"), [(write_checksum, ".crc"), (compact_log, ".compacted.json")])
def test_derived_files_of_the_log_have_the_cause(
    write: Callable[[TableHandle], object], ending: str, source: Path
) -> None:
    with pytest.raises(StorageFailed) as ended:
        write(open_table(source).replace_storage(unwritable(source, ending)))

    assert CAUSE == ended.value.facts["why"]
    assert ended.value.message.partition("/_delta_log/")[2].endswith(f"{ending} cannot be written")


def test_an_unknown_commit_of_a_clone_leads_to_the_clone(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    target = open_table(source).replace_storage(unwritable(clone, ".json"))

    with pytest.raises(OutcomeUnknown) as ended:
        execute_change(Clone(open_table(source).snapshot()), target)
    document = report_error(ended.value, ["clone", str(source), str(clone), "--yes"], str(source))

    assert f"deltacli log cat {clone} 0" == document["hint"]
    assert f"error: {clone}: " in capsys.readouterr().err


def test_a_note_of_a_clone_says_why_it_is_unknown(source: Path) -> None:
    note = CloneNote("id", "file:///elsewhere", 0, 0)

    with pytest.raises(OutcomeUnknown) as ended:
        note.write(unwritable(source, ".json", ""))

    assert CAUSE == ended.value.facts["why"]


@pytest.mark.parametrize("outcome", [Unknown(CAUSE), Created(), Existed()])
def test_a_file_that_is_not_there_is_an_error_about_that_file(outcome: Creation, tmp_path: Path) -> None:
    store = LocalStorage(str(tmp_path))
    (tmp_path / "there").write_bytes(b"12")

    assert 2 == stat_created(store, "there", outcome).size_bytes
    with pytest.raises(StorageFailed) as ended:
        stat_created(store, "absent", outcome)
    assert type(ended.value) is StorageFailed
    assert ended.value.message.startswith(f"{store.uri}/absent")
