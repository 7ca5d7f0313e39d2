"""A store behind fsspec: its faults become ours, secrets stay out of them, and nothing is written to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltacli.errors import NoAtomicCreate, StorageFailed
from deltacli.storage.remote import RemoteStorage


class BrokenSystem:
    """A file system whose every call fails in the same way."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Callable[..., object]:
        def fail(*arguments: object, **options: object) -> object:
            raise self._fault

        return fail


@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        (FileNotFoundError("x"), "storage.file-missing", 7),
        (PermissionError("denied"), "storage.permission", 7),
        (OSError("reset"), "storage.failed", 7),
        (TimeoutError(), "storage.failed", 7),
        (ConnectionError("refused"), "storage.failed", 7),
    ],
)
@pytest.mark.parametrize("verb", ["list_from", "list_directories", "read", "read_range", "open"])
def test_faults_of_a_remote_store_become_ours(
    verb: str, fault: Exception, code: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = RemoteStorage("memory://faults", {})
    monkeypatch.setattr(storage, "_fs", BrokenSystem(fault))
    calls: dict[str, Callable[[], object]] = {
        "list_from": lambda: list(storage.list_from("")),
        "list_directories": lambda: storage.list_directories(""),
        "read": lambda: storage.read("a"),
        "read_range": lambda: storage.read_range("a", 0, 1),
        "open": lambda: storage.open("a"),
    }

    with pytest.raises(StorageFailed) as raised:
        calls[verb]()

    assert (code, exit_code) == (raised.value.code, raised.value.exit_code)


@pytest.mark.parametrize("verb", ["put", "put_if_absent", "delete_many"])
def test_a_store_that_is_not_known_to_create_atomically_is_read_only(verb: str) -> None:
    storage = RemoteStorage("memory://read-only", {})
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: storage.put("a", b""),
        "put_if_absent": lambda: storage.put_if_absent("a", b""),
        "delete_many": lambda: list(storage.delete_many(["a"])),
    }

    with pytest.raises(NoAtomicCreate) as raised:
        calls[verb]()

    assert not storage.capabilities.atomic_create
    assert (4, "storage.no-atomic-create") == (raised.value.exit_code, raised.value.code)
    assert "memory://" in raised.value.facts["why"]


def test_passwords_in_urls_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = RemoteStorage("memory://me:hunter2@host/t", {})
    monkeypatch.setattr(storage, "_fs", BrokenSystem(OSError("no route to sftp://me:hunter2@host/t?sig=abc")))

    with pytest.raises(StorageFailed) as raised:
        storage.read("a")

    assert "memory://me:…@host/t" == storage.uri
    assert "OSError: no route to sftp://me:…@host/t?sig=…" == raised.value.facts["store says"]
    assert "hunter2" not in f"{raised.value.message}{raised.value.__cause__}"
