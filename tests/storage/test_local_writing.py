"""Writing local files when the system fails in the middle: nothing, or the whole, and never a word that is not true."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import NoAtomicCreate, PermissionRefused, StorageFailed
from deltacli.storage import Created, Existed, LocalStorage, Unknown, local_write
from deltacli.storage.copy_process import CopyProcess
from deltacli.storage.outcomes import Failed

Patch = pytest.MonkeyPatch


def failing(
    patch: Patch, name: str, code: int, *, when: Callable[..., bool] = lambda *_: True, after: bool = False
) -> None:
    """Let a call of the system fail, before or `after` it did its work, `when` its arguments say so."""
    real = getattr(os, name)

    def call(*arguments: Any, **options: Any) -> Any:  # Any: as the real one
        if not when(*arguments):
            return real(*arguments, **options)
        if after:
            real(*arguments, **options)
        raise OSError(code, os.strerror(code))

    patch.setattr(os, name, call)


def is_directory(descriptor: int, *_: object) -> bool:
    return os.path.isdir(f"/proc/self/fd/{descriptor}")


def is_file(descriptor: int, *_: object) -> bool:
    return not is_directory(descriptor)


BOTOCORE_ERRORS: dict[str, tuple[str, int, dict[str, Any], type[StorageFailed]]] = {  # Any: options of `failing`
    "no space for the name": ("open", errno.ENOSPC, {}, StorageFailed),
    "read-only file system": ("open", errno.EROFS, {}, PermissionRefused),
    "not allowed": ("open", errno.EACCES, {}, PermissionRefused),
    "disk full": ("write", errno.ENOSPC, {}, StorageFailed),
    "disk full after some bytes": ("write", errno.ENOSPC, {"after": True}, StorageFailed),
    "file not synced": ("fsync", errno.EIO, {"when": is_file}, StorageFailed),
    "no space on a network, told at close": ("close", errno.EDQUOT, {"when": is_file, "after": True}, StorageFailed),
    "link fails": ("link", errno.EIO, {}, StorageFailed),
}


@pytest.mark.parametrize("fault", list(BOTOCORE_ERRORS))
@pytest.mark.parametrize("verb", ["put_if_absent", "put"])
def test_a_fault_leaves_nothing_behind(fault: str, verb: str, tmp_path: Path, monkeypatch: Patch) -> None:
    name, code, how, kind = BOTOCORE_ERRORS[fault]
    storage = LocalStorage(str(tmp_path))
    storage.put("log/before", b"")
    failing(monkeypatch, "replace" if (verb, name) == ("put", "link") else name, code, **how)

    with pytest.raises(kind) as raised:
        getattr(storage, verb)("log/new", b"data")
    monkeypatch.undo()

    assert ["before"] == os.listdir(tmp_path / "log")
    assert f"{tmp_path}/log/new cannot be written: {os.strerror(code).lower()}" == raised.value.message
    assert 7 == raised.value.exit_code


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: Patch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))

    assert Created() == LocalStorage(str(tmp_path)).put_if_absent("new", b"0123456789")
    assert b"0123456789" == (tmp_path / "new").read_bytes()


def test_a_directory_that_cannot_be_synced_after_the_link_leaves_the_outcome_open(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    failing(monkeypatch, "fsync", errno.EIO, when=is_directory)

    outcome = LocalStorage(str(tmp_path)).put_if_absent("new", b"data")

    assert isinstance(outcome, Unknown)
    assert "input/output error" in outcome.cause
    assert ["new"] == os.listdir(tmp_path)
    assert b"data" == (tmp_path / "new").read_bytes()


def test_a_file_system_that_rejects_directory_syncs_is_accepted(tmp_path: Path, monkeypatch: Patch) -> None:
    failing(monkeypatch, "fsync", errno.EINVAL, when=is_directory)

    assert Created() == LocalStorage(str(tmp_path)).put_if_absent("new", b"data")


@pytest.mark.parametrize("code", [errno.EEXIST, errno.EIO])
def test_a_link_whose_reply_was_lost_is_recognized_as_ours(code: int, tmp_path: Path, monkeypatch: Patch) -> None:
    failing(monkeypatch, "link", code, after=True)

    assert Created() == LocalStorage(str(tmp_path)).put_if_absent("new", b"data")
    assert ["new"] == os.listdir(tmp_path)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_hard_links_a_rename_without_replacement_is_used(code: int, tmp_path: Path, monkeypatch: Patch) -> None:
    failing(monkeypatch, "link", code)
    storage = LocalStorage(str(tmp_path))

    assert [Created(), Existed()] == [storage.put_if_absent("new", data) for data in (b"mine", b"theirs")]
    assert ["new"] == os.listdir(tmp_path)
    assert b"mine" == (tmp_path / "new").read_bytes()


def test_without_links_and_such_renames_the_store_is_read_only(tmp_path: Path, monkeypatch: Patch) -> None:
    failing(monkeypatch, "link", errno.EOPNOTSUPP)
    monkeypatch.setattr(local_write, "_renameat2", lambda: None)

    with pytest.raises(NoAtomicCreate) as raised:
        LocalStorage(str(tmp_path)).put_if_absent("new", b"data")

    assert (4, "storage.no-atomic-create") == (raised.value.exit_code, raised.value.code)
    assert [] == os.listdir(tmp_path)


def test_a_draft_of_a_killed_writer_is_not_a_log_file(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(os, "unlink", lambda _: None)
    storage = LocalStorage(str(tmp_path))

    storage.put_if_absent("00000000000000000000.json", b"data")

    assert 2 == len(os.listdir(tmp_path))
    assert ["00000000000000000000.json"] == [stat.name for stat in storage.list_from("", "0")]


def test_a_directory_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()

    [(_, outcome)] = LocalStorage(str(tmp_path)).delete_many(["directory"])

    assert Failed("it is a directory") == outcome


def test_an_existing_file_that_cannot_be_read_may_be_ours(tmp_path: Path, monkeypatch: Patch) -> None:
    """
    The link was made, its answer was lost, and the file system forgets the file for a moment.
    """
    failing(monkeypatch, "link", errno.EEXIST, after=True)
    failing(monkeypatch, "lstat", errno.ESTALE)

    outcome = LocalStorage(str(tmp_path)).put_if_absent("log/0", b"ours")

    assert isinstance(outcome, Unknown)
    assert b"ours" == (tmp_path / "log" / "0").read_bytes()


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, lambda place: place.symlink_to("nothing"), os.mkfifo],
    ids=["a directory", "a link to nothing", "a pipe"],
)
def test_a_name_that_is_taken_by_no_file_is_no_conflict(make: Callable[[Path], object], tmp_path: Path) -> None:
    """A writer that took it for a file of another one would try it for ever."""
    make(tmp_path / "name")

    with pytest.raises(StorageFailed, match="name cannot be written: it exists, but is not a file"):
        LocalStorage(str(tmp_path)).put_if_absent("name", b"x")

    assert ["name"] == os.listdir(tmp_path)


# -- groups of copies --------------------------------------------------------------------------------------------------


@pytest.fixture
def origin(tmp_path: Path) -> LocalStorage:
    (tmp_path / "from" / "p=1").mkdir(parents=True)
    (tmp_path / "to").mkdir()
    for name, mode in (("a", 0o644), ("p=1/b", 0o600), ("p=1/c", 0o444)):
        (tmp_path / "from" / name).write_bytes(name.encode() * 1_000)
        (tmp_path / "from" / name).chmod(mode)
        os.utime(tmp_path / "from" / name, ns=(5, 7))
    return LocalStorage(str(tmp_path / "from"))


GROUP = ["a", "p=1/b", "p=1/c"]
WITHOUT: dict[str, tuple[str, int, dict[str, Any]]] = {  # Any: options of `failing`
    "": ("open", 0, {"when": lambda *_: False}),
    "no unnamed files": (
        "open",
        errno.EOPNOTSUPP,
        {"when": lambda _, flags, *__: flags & os.O_TMPFILE == os.O_TMPFILE},
    ),
    "an older kernel": ("open", errno.EISDIR, {"when": lambda _, flags, *__: flags & os.O_TMPFILE == os.O_TMPFILE}),
    "no /proc": ("link", errno.ENOENT, {"when": lambda source, _: source.startswith("/proc/")}),
    "no links of them": ("link", errno.EPERM, {"when": lambda source, _: source.startswith("/proc/")}),
}


@pytest.mark.parametrize("lack", list(WITHOUT))
def test_a_group_is_copied_on_every_file_system(
    lack: str, origin: LocalStorage, tmp_path: Path, monkeypatch: Patch
) -> None:
    name, code, how = WITHOUT[lack]
    target = LocalStorage(str(tmp_path / "to")).bind_to_directory()
    (tmp_path / "to" / "a").write_bytes(b"mine")
    failing(monkeypatch, name, code, **how)

    assert target.copy_group(origin, GROUP) == [Existed(), Created(), Created()]
    target.sync()
    monkeypatch.undo()

    found = sorted(str(path.relative_to(target.root)) for path in Path(target.root).rglob("*") if path.is_file())
    assert found == GROUP
    assert (tmp_path / "to" / "a").read_bytes() == b"mine"
    for path in GROUP[1:]:
        made, given = tmp_path / "to" / path, tmp_path / "from" / path
        assert made.read_bytes() == given.read_bytes()
        assert (made.stat().st_mode, made.stat().st_mtime_ns) == (given.stat().st_mode, 7)


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_group_goes_to_no_other_directory(
    is_bound: bool, origin: LocalStorage, tmp_path: Path, monkeypatch: Patch
) -> None:
    target = LocalStorage(str(tmp_path / "to"))
    target = target.bind_to_directory() if is_bound else target
    (tmp_path / "to" / "p=1").mkdir()
    real, looks = target.require_same_directory, []

    def switch() -> None:
        """Another directory is at the place after the last look."""
        real()
        looks.append(1)
        if len(looks) == 2:
            (tmp_path / "to").rename(tmp_path / "old")
            (tmp_path / "to" / "p=1").mkdir(parents=True)

    monkeypatch.setattr(target, "require_same_directory", switch)
    if is_bound:
        target.copy_group(origin, GROUP[1:])
        assert (tmp_path / "old" / "p=1" / "b").read_bytes() == b"p=1/b" * 1_000
    else:
        with pytest.raises(StorageFailed):
            target.copy_group(origin, GROUP[1:])
    assert [path for path in (tmp_path / "to").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_of_a_group_that_changes_meanwhile_is_no_copy(
    grows: bool, origin: LocalStorage, tmp_path: Path, monkeypatch: Patch
) -> None:
    target, real = LocalStorage(str(tmp_path / "to")).bind_to_directory(), os.copy_file_range

    def change(*arguments: Any) -> int:  # Any: as the real one
        os.truncate(tmp_path / "from" / "p=1" / "b", 9_000 if grows else 10)
        return real(*arguments)

    monkeypatch.setattr(os, "copy_file_range", change)
    with pytest.raises(StorageFailed, match="was changed meanwhile"):
        target.copy_group(origin, GROUP)
    assert list((tmp_path / "to").iterdir()) == []


@pytest.fixture
def beside(origin: LocalStorage, tmp_path: Path) -> Iterator[CopyProcess]:
    with CopyProcess(origin, LocalStorage(str(tmp_path / "to")).bind_to_directory()) as process:
        yield process


def process_of(beside: CopyProcess) -> subprocess.Popen[bytes]:
    assert beside._process is not None
    return beside._process


def test_another_process_copies_a_group_alike(beside: CopyProcess, origin: LocalStorage, tmp_path: Path) -> None:
    group = [*GROUP, "p=1/\udcff \n"]
    Path(origin.root, group[-1]).write_bytes(b"no name in UTF-8")
    (tmp_path / "to" / "a").write_bytes(b"mine")
    assert beside.copy_group(group) == [Existed(), Created(), Created(), Created()]
    assert beside.copy_group(group) == [Existed()] * 4
    for path in group[1:]:
        made, given = Path(tmp_path / "to", path), Path(origin.root, path)
        assert made.read_bytes() == given.read_bytes()
        assert (made.stat().st_mode, made.stat().st_mtime_ns) == (given.stat().st_mode, given.stat().st_mtime_ns)
    assert (tmp_path / "to" / "a").read_bytes() == b"mine"


@pytest.mark.parametrize("fault", ["missing", "outside", "no file", "other directory", "killed", "no program", "busy"])
def test_what_another_process_cannot_copy_is_left_to_this_one(
    fault: str, beside: CopyProcess, origin: LocalStorage, tmp_path: Path, monkeypatch: Patch
) -> None:
    group, program = [*GROUP, "d"], process_of(beside)
    target, place = tmp_path / "to", Path(origin.root, "d")
    place.write_bytes(b"d")
    match fault:
        case "missing":
            place.unlink()
        case "outside":
            (tmp_path / "d").write_bytes(b"d")
            place.unlink()
            place.symlink_to(tmp_path / "d")
        case "no file":
            place.unlink()
            os.mkfifo(place)
        case "other directory":
            assert beside.copy_group(["a"]) == [Created()]
            target.rename(tmp_path / "old")
            target.mkdir()
        case "killed":
            program.kill()
            program.wait()
        case "no program":
            monkeypatch.setattr("sys.executable", "/nowhere/python")
            beside = CopyProcess(origin, LocalStorage(str(target)))
        case "busy":
            beside._lock.acquire()
    assert beside.copy_group(group) is None
    assert list(target.iterdir()) == []
    if fault == "busy":
        beside._lock.release()
        assert beside.copy_group(group) == [Created()] * 4
    else:
        assert beside._process is None
        assert beside.copy_group(group) is None


def test_another_process_ends_with_this_one(origin: LocalStorage, tmp_path: Path) -> None:
    code = (
        "import os; from deltacli.storage.copy_process import CopyProcess, LocalStorage\n"
        f"here, there = LocalStorage({origin.root!r}), LocalStorage({str(tmp_path / 'to')!r}).bind_to_directory()\n"
        "beside = CopyProcess(here, there)\n"
        "assert beside.copy_group(['a']) is not None\n"
        "print(beside._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert found.returncode == -9
    with suppress(ProcessLookupError):  # it has ended, and is forgotten
        process = os.pidfd_open(int(found.stdout))
        assert select.select([process], [], [], 30)[0], "it still runs"
        os.close(process)
