"""Hadoop's checksum files beside the files of a local disk: none of them outlives the bytes that it was written for."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import PermissionRefused
from deltacli.storage import Created, Deleted, Existed, LocalStorage, Missing, open_storage
from deltacli.storage.copy_process import CopyProcess
from deltacli.storage.hadoop_checksums import HadoopChecksum, get_checksum_path, get_checksummed_path, is_checksum_name
from deltacli.storage.outcomes import Creation, Failed
from deltacli.storage.output_file import open_replacement
from tests.support.hadoop import checksum_content, checksum_file, orphaned_checksums, unfit_checksums, write_checksum

NAME = "log/00000000000000000007.json"
OLD, NEW = b"old " * 400, b"new " * 300

Write = Callable[[Path], object]
Patch = pytest.MonkeyPatch


def _put(root: Path) -> None:
    LocalStorage(str(root)).put(NAME, NEW)


def _put_bound(root: Path) -> None:
    LocalStorage(str(root)).bind_to_directory().put(NAME, NEW)


def _put_if_absent(root: Path) -> Creation:
    return LocalStorage(str(root)).put_if_absent(NAME, NEW)


def _publish(root: Path, *, replace: bool = False) -> Creation:
    with LocalStorage(str(root)).draft(NAME) as draft:
        Path(draft.local_path).write_bytes(NEW)
        return draft.publish(replace=replace)


def _publish_over(root: Path) -> Creation:
    return _publish(root, replace=True)


def _copy_within(root: Path) -> Creation:
    (root / "source").write_bytes(NEW)
    return LocalStorage(str(root)).copy_within("source", NAME)


def _origin(root: Path) -> LocalStorage:
    origin = root.with_name("origin")
    (origin / NAME).parent.mkdir(parents=True)
    (origin / NAME).write_bytes(NEW)
    return LocalStorage(str(origin))


def _copy_group(root: Path) -> Creation:
    return LocalStorage(str(root)).copy_group(_origin(root), [NAME])[0]


def _copy_group_bound(root: Path) -> Creation:
    return LocalStorage(str(root)).bind_to_directory().copy_group(_origin(root), [NAME])[0]


def _copy_beside(root: Path) -> Creation:
    with CopyProcess(_origin(root).bind_to_directory(), LocalStorage(str(root)).bind_to_directory()) as beside:
        copied = beside.copy_group([NAME])
    assert copied is not None
    return copied[0]


def _replace_output(root: Path) -> None:
    with open_replacement(str(root / NAME)) as sink:
        sink.write(NEW)


CREATIONS: dict[str, Callable[[Path], Creation]] = {
    "put_if_absent": _put_if_absent,
    "draft": _publish,
    "copy_within": _copy_within,
    "copy_group": _copy_group,
    "copy_group of a bound store": _copy_group_bound,
    "copy_group of a second process": _copy_beside,
}
REPLACEMENTS: dict[str, Write] = {
    "put": _put,
    "put of a bound store": _put_bound,
    "draft": _publish_over,
    "a result": _replace_output,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a subdirectory `log`."""
    directory = tmp_path / "root"
    (directory / "log").mkdir(parents=True)
    return directory


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_file_that_is_replaced_loses_its_checksum_file(name: str, root: Path) -> None:
    (root / NAME).write_bytes(OLD)
    write_checksum(root / NAME)

    REPLACEMENTS[name](root)

    assert NEW == (root / NAME).read_bytes()
    assert not checksum_file(root / NAME).exists()


@pytest.mark.parametrize("name", [*CREATIONS, *REPLACEMENTS])
def test_a_new_file_is_not_read_with_the_checksum_file_of_an_earlier_one(name: str, root: Path) -> None:
    write_checksum(root / NAME, OLD)

    (CREATIONS | REPLACEMENTS)[name](root)

    assert NEW == (root / NAME).read_bytes()
    assert not checksum_file(root / NAME).exists()


@pytest.mark.parametrize("name", CREATIONS)
def test_a_writer_that_was_faster_keeps_its_checksum_file(name: str, root: Path) -> None:
    (root / NAME).write_bytes(OLD)
    write_checksum(root / NAME)

    assert Existed() == CREATIONS[name](root)

    assert OLD == (root / NAME).read_bytes()
    assert checksum_content(OLD) == checksum_file(root / NAME).read_bytes()


@pytest.mark.parametrize("name", ["put_if_absent", "draft", "copy_within"])
def test_a_writer_that_is_faster_between_both_steps_keeps_its_checksum_file(
    name: str, root: Path, monkeypatch: Patch
) -> None:
    write_checksum(root / NAME, b"of an earlier file")
    real = os.link

    def link(*arguments: Any, **options: Any) -> None:  # Any: as the real one
        (root / NAME).write_bytes(OLD)
        write_checksum(root / NAME)
        real(*arguments, **options)

    monkeypatch.setattr(os, "link", link)

    assert Existed() == CREATIONS[name](root)
    assert checksum_content(OLD) == checksum_file(root / NAME).read_bytes()


@pytest.mark.parametrize("name", ["put", "draft"])
def test_the_checksum_file_of_another_writer_at_the_same_time_goes_if_it_does_not_fit(
    name: str, root: Path, monkeypatch: Patch
) -> None:
    """Hadoop renames a file before its checksum file: ours may come in between."""
    (root / NAME).write_bytes(OLD)
    real = os.replace

    def replace(*arguments: Any, **options: Any) -> None:  # Any: as the real one
        real(*arguments, **options)
        write_checksum(root / NAME, b"of the other writer")

    monkeypatch.setattr(os, "replace", replace)
    REPLACEMENTS[name](root)

    assert not checksum_file(root / NAME).exists()


def test_the_checksum_file_of_another_writer_stays_if_it_fits(root: Path, monkeypatch: Patch) -> None:
    real = os.replace

    def replace(source: str, target: str) -> None:
        real(source, target)
        Path(target).write_bytes(OLD)  # the other one came last
        write_checksum(Path(target))

    monkeypatch.setattr(os, "replace", replace)
    _put(root)

    assert checksum_content(OLD) == checksum_file(root / NAME).read_bytes()


@pytest.mark.parametrize(("name", "call"), [("put", "replace"), ("put_if_absent", "link")])
def test_a_crash_in_between_leaves_no_checksum_file_of_other_bytes(
    name: str, call: str, root: Path, monkeypatch: Patch
) -> None:
    if name == "put":
        (root / NAME).write_bytes(OLD)
    write_checksum(root / NAME, OLD)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, call, die)
    with pytest.raises(KeyboardInterrupt):
        (CREATIONS | REPLACEMENTS)[name](root)

    assert [] == unfit_checksums(root)
    assert not checksum_file(root / NAME).exists()


@pytest.mark.parametrize("name", ["put", "put_if_absent"])
def test_nothing_is_published_beside_a_checksum_file_that_cannot_be_removed(
    name: str, root: Path, monkeypatch: Patch
) -> None:
    checksum = write_checksum(root / NAME, OLD)
    real = os.unlink

    def unlink(place: str, **options: Any) -> None:  # Any: as the real one
        if str(place) == str(checksum):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), place)
        real(place, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(PermissionRefused):
        (CREATIONS | REPLACEMENTS)[name](root)
    monkeypatch.undo()

    assert [checksum.name] == os.listdir(root / "log")


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_file_is_deleted_with_its_checksum_file(is_bound: bool, root: Path) -> None:
    (root / NAME).write_bytes(OLD)
    (root / "log/other").write_bytes(OLD)
    for path in (root / NAME, root / "log/other"):
        write_checksum(path)
    storage = LocalStorage(str(root))

    [(_, outcome)] = (storage.bind_to_directory() if is_bound else storage).delete_many([NAME])

    assert Deleted() == outcome
    assert [".other.crc", "other"] == sorted(os.listdir(root / "log"))


def test_the_checksum_file_of_a_file_that_is_gone_already_goes_too(root: Path) -> None:
    """As after a run that was killed before it had removed it, or one of an earlier release."""
    write_checksum(root / NAME, OLD)

    [(_, outcome)] = LocalStorage(str(root)).delete_many([NAME])

    assert Missing() == outcome
    assert [] == os.listdir(root / "log")


def test_a_directory_that_cannot_be_deleted_keeps_its_neighbour(root: Path) -> None:
    neighbour = write_checksum(root / "log", b"")

    [(_, outcome)] = LocalStorage(str(root)).delete_many(["log"])

    assert isinstance(outcome, Failed)
    assert neighbour.exists()


def test_a_version_checksum_of_delta_is_a_file_like_others(root: Path) -> None:
    """`N.crc` is not the checksum file of `N.json`, and it has a checksum file of its own."""
    commit, version_checksum = root / NAME, root / NAME.replace(".json", ".crc")
    for path in (commit, version_checksum):
        path.write_bytes(OLD)
        write_checksum(path)

    LocalStorage(str(root)).put(NAME, NEW)

    assert OLD == version_checksum.read_bytes()
    assert checksum_file(version_checksum).exists()
    LocalStorage(str(root)).put(NAME.replace(".json", ".crc"), NEW)
    assert not checksum_file(version_checksum).exists()


def test_checksum_files_have_no_checksum_files(root: Path) -> None:
    checksum = write_checksum(root / NAME, OLD)
    odd = write_checksum(checksum, b"")

    assert [(f"log/{checksum.name}", Deleted())] == list(LocalStorage(str(root)).delete_many([f"log/{checksum.name}"]))
    assert odd.exists()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nothing")], ids=["directory", "link"])
def test_what_hadoop_takes_for_no_checksum_file_does_not_stop_a_writer(
    make: Callable[[Path], object], root: Path
) -> None:
    make(checksum_file(root / NAME))

    assert Created() == _put_if_absent(root)
    _put(root)

    assert NEW == (root / NAME).read_bytes()


def test_the_longest_name_leaves_no_room_for_that_of_a_checksum_file(root: Path) -> None:
    storage = LocalStorage(str(root))
    name = f"log/{'n' * 255}"

    assert Created() == storage.put_if_absent(name, OLD)
    storage.put(name, NEW)
    assert [(name, Deleted())] == list(storage.delete_many([name]))


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_directory_with_orphaned_checksum_files_only_counts_as_empty(is_bound: bool, root: Path) -> None:
    (root / "log/p=1").mkdir()
    for name in ("a.parquet", "b.parquet"):
        write_checksum(root / "log/p=1" / name, OLD)
    storage = LocalStorage(str(root))
    storage = storage.bind_to_directory() if is_bound else storage

    assert ["log/p=1"] == [entry.directory for entry in storage.walk("", lambda _, names: names) if entry.is_empty]
    assert Deleted() == storage.remove_directory("log/p=1")
    assert [] == os.listdir(root / "log")


@pytest.mark.parametrize("other", ["a.parquet", ".hidden", "_SUCCESS", "directory/"])
def test_a_directory_with_anything_else_keeps_all_of_it(other: str, root: Path) -> None:
    if other.endswith("/"):
        (root / "log" / other).mkdir()
    else:
        (root / "log" / other).write_bytes(OLD)
    write_checksum(root / "log/b.parquet", OLD)
    before = sorted(os.listdir(root / "log"))
    storage = LocalStorage(str(root))

    assert not any(entry.is_empty for entry in storage.walk("log", lambda *_: ()))
    assert isinstance(storage.remove_directory("log"), Failed)
    assert before == sorted(os.listdir(root / "log"))


def test_a_file_uri_is_a_local_disk_and_fsspec_writes_to_none(root: Path) -> None:
    (root / NAME).write_bytes(OLD)
    write_checksum(root / NAME)
    open_storage(f"file://{root}").put(NAME, NEW)
    assert [] == [*unfit_checksums(root), *orphaned_checksums(root)]

    assert not open_storage(f"local://{root}").capabilities.atomic_create


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 1700])
@pytest.mark.parametrize("block", [1, 300, 512, 5000])
def test_a_checksum_file_fits_its_file_and_no_other(size: int, block: int) -> None:
    data = bytes(number % 251 for number in range(size))
    blocks = [data[start : start + block] for start in range(0, size, block)]
    written = checksum_content(data)
    content = HadoopChecksum.parse(written)
    assert content is not None

    assert content.find_mismatch(blocks) is None
    assert size // 512 * 512 == content.find_mismatch([*blocks, b"x"])
    longer = HadoopChecksum.parse(checksum_content(data + b"x" * 600))
    assert longer is not None
    assert (None if size % 512 == 0 else size // 512 * 512) == longer.find_mismatch(blocks)
    if size:
        torn = HadoopChecksum.parse(written[:-1])
        assert torn is not None
        assert torn.find_mismatch(blocks) is not None


@pytest.mark.parametrize("data", [b"", b"crc\0", b"crc\1\0\0\2\0", b"not a checksum file"])
def test_hadoop_ignores_a_file_with_another_header(data: bytes) -> None:
    assert HadoopChecksum.parse(data) is None


def test_names() -> None:
    assert get_checksum_path("a/b.parquet") == "a/.b.parquet.crc"
    assert get_checksum_path("b.parquet") == ".b.parquet.crc"
    assert get_checksum_path("a/.b.parquet.crc") is None
    assert get_checksummed_path("a/.b.parquet.crc") == "a/b.parquet"
    assert not is_checksum_name("00000000000000000000.crc")
    assert not is_checksum_name(".crc")
