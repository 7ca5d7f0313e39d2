"""The local file system and its oddities."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from deltacli.core.errors import PermissionRefused, StorageFailed
from deltacli.storage import LocalStorage, PathKind, is_address_of, open_storage
from tests.support.builder import EPOCH_MS, TableBuilder


def test_modification_times_are_milliseconds(tmp_path: Path, table_builder: TableBuilder) -> None:
    storage = LocalStorage(str(table_builder.commits(2).write(tmp_path)))

    assert [EPOCH_MS, EPOCH_MS + 1_000] == [stat.modified_ms for stat in storage.list_from("_delta_log")]


def test_names_that_are_not_utf8_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"b\xff.parquet")).write_bytes(b"odd")
    (tmp_path / "a.parquet").write_bytes(b"")
    (tmp_path / "é.parquet").write_bytes(b"")
    storage = LocalStorage(str(tmp_path))

    names = [stat.name for stat in storage.list_from("")]

    assert ["a.parquet", os.fsdecode(b"b\xff.parquet"), "é.parquet"] == names
    assert b"odd" == storage.read(names[1])


def test_links_are_followed_and_dangling_ones_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"1234")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link to directory").symlink_to(tmp_path / "directory")
    storage = LocalStorage(str(tmp_path))

    assert [("link", 4), ("real", 4)] == [(stat.name, stat.size_bytes) for stat in storage.list_from("")]
    assert ["directory", "link to directory"] == storage.list_directories("")


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert [] == list(LocalStorage(str(tmp_path)).list_from(""))


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (errno.EACCES, PermissionRefused, "storage.permission"),
        (errno.EPERM, PermissionRefused, "storage.permission"),
        (errno.EIO, StorageFailed, "storage.failed"),
    ],
)
def test_system_errors_name_the_file_and_the_reason(
    fault: int, kind: type[StorageFailed], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(kind) as raised:
        LocalStorage(str(tmp_path)).read("file")

    assert code == raised.value.code
    assert f"{tmp_path}/file" in raised.value.message
    assert os.strerror(fault).lower() in raised.value.message


def test_a_relative_path_and_a_home_directory_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert f"file://{tmp_path}/t" == open_storage("t").uri == open_storage("./t/").uri == open_storage("~/t").uri


@pytest.mark.parametrize("uri", ["file:{path}", "file://{path}", "file://localhost{path}", "FILE://{path}"])
def test_a_file_uri_is_decoded(uri: str, tmp_path: Path) -> None:
    (tmp_path / "a b%").mkdir()
    (tmp_path / "a b%" / "file").write_bytes(b"")

    storage = open_storage(uri.format(path=f"{tmp_path}/a%20b%25"))

    assert PathKind.FILE is storage.kind_of("file")
    assert f"file://{tmp_path}/a%20b%25" == storage.uri


def test_a_percent_sign_in_a_path_is_a_percent_sign(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()

    assert PathKind.DIRECTORY is open_storage(str(tmp_path / "a%20b")).kind_of("")
    assert f"file://{tmp_path}/a%2520b" == open_storage(str(tmp_path / "a%20b")).uri


@pytest.mark.parametrize("name", ["\ud800", "\0", "a\udcff"])
def test_an_address_that_no_directory_can_have_names_no_store(name: str, tmp_path: Path) -> None:
    """An address comes from JSON, which can have any text."""
    assert not is_address_of(LocalStorage(str(tmp_path)), f"file:{tmp_path}/{name}")
    assert not is_address_of(LocalStorage(str(tmp_path)), name)
    assert is_address_of(LocalStorage(str(tmp_path)), f"file:{tmp_path}")
