"""Optional interfaces are found through stores that forward to another store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.operations.repair.log_files import WithoutFiles
from deltacli.storage import LocalStorage
from deltacli.storage.directory_identity import DirectoryStore, is_directory_store
from deltacli.storage.optional_interfaces import (
    PrefixStore,
    SharedDirectoryStore,
    SharedTableStore,
    StoreWithGrant,
    is_prefix_store,
    is_shared_table,
)
from tests.support.in_memory import MemoryStorage

PROTOCOLS = (DirectoryStore, PrefixStore, SharedDirectoryStore, SharedTableStore, StoreWithGrant)


class Forwarding:
    """A store that forwards everything."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def test_a_wrapped_directory_is_still_a_directory(tmp_path: Path) -> None:
    directory = LocalStorage(str(tmp_path))

    assert is_directory_store(directory)
    assert is_directory_store(Forwarding(directory))
    assert is_directory_store(WithoutFiles(directory, frozenset()))
    assert not is_shared_table(Forwarding(directory))


def test_a_store_without_directories_is_none_when_it_is_wrapped() -> None:
    assert not is_directory_store(Forwarding(MemoryStorage()))
    assert not is_prefix_store(Forwarding(MemoryStorage()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_isinstance_cannot_be_used_by_mistake(protocol: type) -> None:
    with pytest.raises(TypeError):
        isinstance(MemoryStorage(), protocol)
