"""A store behind fsspec: its faults become ours, secrets stay out of them, and nothing is written to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltacli.errors import NoAtomicCreate, StorageFailed
from deltacli.storage import Walked
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
@pytest.mark.parametrize("verb", ["list_from", "list_directories", "walk", "stat_many", "read", "read_range", "open"])
def test_faults_of_a_remote_store_become_ours(
    verb: str, fault: Exception, code: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = RemoteStorage("memory://faults", {})
    monkeypatch.setattr(storage, "_fs", BrokenSystem(fault))
    calls: dict[str, Callable[[], object]] = {
        "list_from": lambda: list(storage.list_from("")),
        "list_directories": lambda: storage.list_directories(""),
        "walk": lambda: list(storage.walk("", lambda _, names: names)),
        "stat_many": lambda: storage.stat_many(["a"]),
        "read": lambda: storage.read("a"),
        "read_range": lambda: storage.read_range("a", 0, 1),
        "open": lambda: storage.open("a"),
    }

    if verb == "stat_many" and isinstance(fault, FileNotFoundError):
        assert ([-1], [-1]) == calls[verb]()
        return
    with pytest.raises(StorageFailed) as raised:
        calls[verb]()

    assert (code, exit_code) == (raised.value.code, raised.value.exit_code)


@pytest.mark.parametrize("verb", ["put", "put_if_absent", "delete_many", "remove_directory"])
def test_a_store_that_is_not_known_to_create_atomically_is_read_only(verb: str) -> None:
    storage = RemoteStorage("memory://read-only", {})
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: storage.put("a", b""),
        "put_if_absent": lambda: storage.put_if_absent("a", b""),
        "delete_many": lambda: list(storage.delete_many(["a"])),
        "remove_directory": lambda: storage.remove_directory("a"),
    }

    with pytest.raises(NoAtomicCreate) as raised:
        calls[verb]()

    assert not storage.capabilities.atomic_create
    assert (4, "storage.no-atomic-create") == (raised.value.exit_code, raised.value.code)
    assert "memory://" in raised.value.facts["why"]


class Timeless:
    """A file system that tells no times, and holds a file, a link and a directory's marker."""

    def ls(self, place: str, detail: bool) -> list[dict[str, object]]:  # noqa: ARG002  (of fsspec)
        return [self.info(f"{place}/{name}") for name in ("file", "link")] + [self.info(f"{place}/")]

    def info(self, place: str) -> dict[str, object]:
        return {"name": place, "size": 3, "type": "file", "islink": place.endswith("link")}


def test_a_time_nobody_tells_is_not_one_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = RemoteStorage("memory://timeless", {})
    monkeypatch.setattr(storage, "_fs", Timeless())

    assert [Walked("", ["file"], [3], None, ["link"])] == list(storage.walk("", lambda _, names: names))
    assert ([-1, -1], [-1, -1]) == storage.stat_many(["file", "link"])


def test_passwords_in_urls_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = RemoteStorage("memory://me:hunter2@host/t", {})
    monkeypatch.setattr(storage, "_fs", BrokenSystem(OSError("no route to sftp://me:hunter2@host/t?sig=abc")))

    with pytest.raises(StorageFailed) as raised:
        storage.read("a")

    assert "memory://me:…@host/t" == storage.uri
    assert "OSError: no route to sftp://me:…@host/t?sig=…" == raised.value.facts["store says"]
    assert "hunter2" not in f"{raised.value.message}{raised.value.__cause__}"
