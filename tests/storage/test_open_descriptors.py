"""A descriptor is closed once, also if an object that holds it is copied."""

from __future__ import annotations

import copy
import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.sharing.client.shared_files import StoredUrls
from deltacli.sharing.client.shared_version import HiddenFile
from deltacli.storage.local import LocalStorage
from deltacli.storage.open_descriptor import OpenDescriptor


def read_stored_url(urls: StoredUrls) -> object:
    return urls.find("part-0.parquet")


def store_urls(_: Path) -> StoredUrls:
    urls = StoredUrls()
    urls.add("part-0.parquet", "https://example.com/part-0.parquet", 10, None)
    urls.finish()
    return urls


def hide_file(directory: Path) -> HiddenFile:
    path = directory / "hidden"
    path.write_bytes(b"content")
    return HiddenFile(os.open(path, os.O_RDONLY), 7)


HOLDERS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], object]]] = {
    "a store that is bound to its directory": (
        lambda directory: LocalStorage(str(directory)).bind_to_directory(),
        lambda store: os.fstat(store._directory.descriptor).st_ino,
    ),
    "a file without a name": (hide_file, lambda file: file.read(0, 7)),
    "stored URLs": (store_urls, read_stored_url),
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_that_is_deleted_closes_nothing(name: str, make_copy: Callable[[Any], Any], tmp_path: Path) -> None:
    create, read = HOLDERS[name]
    holder = create(tmp_path)
    before = read(holder)

    copied = make_copy(holder)
    assert before == read(copied)
    del copied
    gc.collect()

    assert before == read(holder)


@pytest.mark.parametrize("name", HOLDERS)
def test_no_other_process_gets_a_descriptor_of_this_one(name: str, tmp_path: Path) -> None:
    holder = HOLDERS[name][0](tmp_path)

    with pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(holder)


def test_the_last_object_closes_the_descriptor(tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    descriptor = OpenDescriptor(number)
    other = copy.copy(descriptor)

    del descriptor
    os.fstat(number)
    del other
    gc.collect()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
