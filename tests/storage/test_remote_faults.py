"""A store behind fsspec: its faults become ours, secrets stay out of them, and nothing is written to it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

import fsspec
import pytest

from deltacli.core.errors import NoAtomicCreate, StorageFailed, UsageError
from deltacli.storage import WalkEntry
from deltacli.storage.fsspec_errors import find_endpoint
from deltacli.storage.fsspec_storage import FsspecStorage, missing_hadoop_error
from deltacli.storage.retry import Retry
from tests.support.clocks import FakeClock


class BrokenSystem:
    """A file system whose every call fails in the same way."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Callable[..., object]:
        def fail(*arguments: object, **options: object) -> object:
            raise self._fault

        return fail


def test_hdfs_without_a_class_path_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLASSPATH", raising=False)

    with pytest.raises(UsageError) as raised:
        FsspecStorage("hdfs://node:8020/t", {})

    assert "usage.missing-library" == raised.value.code
    assert "hdfs:// needs Java and Hadoop on this machine" in raised.value.message
    assert "\n" not in "".join([raised.value.message, *raised.value.facts.values()])


def test_a_library_of_hadoop_that_is_missing_is_named() -> None:
    """
    In place of the hundred places in which it was looked for.
    """
    fault = OSError("Unable to load libjvm\n" + "dlopen(/usr/lib/jvm/libjvm.so) failed\n" * 100)

    found = missing_hadoop_error("hdfs", fault)

    assert found is not None
    assert found.message.endswith(": libjvm cannot be loaded")
    assert missing_hadoop_error("s3", fault) is None


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
def test_errors_of_a_remote_store_are_translated(
    verb: str, fault: Exception, code: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FsspecStorage("memory://faults", {}, retry=Retry(0))
    monkeypatch.setattr(storage, "_file_system", BrokenSystem(fault))
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
    storage = FsspecStorage("memory://read-only", {})
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
    """A file system without modification times that contains a file, a link and a directory marker."""

    def ls(self, place: str, detail: bool) -> list[dict[str, object]]:  # noqa: ARG002  (of fsspec)
        return [self.info(f"{place}/{name}") for name in ("file", "link")] + [self.info(f"{place}/")]

    def info(self, place: str) -> dict[str, object]:
        return {"name": place, "size": 3, "type": "file", "islink": place.endswith("link")}


def test_a_missing_time_is_not_treated_as_old(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FsspecStorage("memory://timeless", {})
    monkeypatch.setattr(storage, "_file_system", Timeless())

    assert [WalkEntry("", ["file"], [3], None, ["link"])] == list(storage.walk("", lambda _, names: names))
    assert ([-1, -1], [-1, -1]) == storage.stat_many(["file", "link"])


def test_passwords_in_urls_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = FsspecStorage("memory://me:hunter2@host/t", {})
    monkeypatch.setattr(storage, "_file_system", BrokenSystem(OSError("no route to sftp://me:hunter2@host/t?sig=abc")))

    with pytest.raises(StorageFailed) as raised:
        storage.read("a")

    assert "memory://me:…@host/t" == storage.uri
    assert "OSError: no route to sftp://me:…@host/t?sig=…" == raised.value.facts["store says"]
    assert "hunter2" not in f"{raised.value.message}{raised.value.__cause__}"


class CredentialUnavailableError(Exception):
    """Named as in a cloud's library, whose exceptions are no OSError."""


class ServiceResponseError(Exception):
    """The same, of a connection that broke."""


class HttpError(Exception):
    """The same, of an answer."""

    status = 503


def raised_from(fault: Exception, cause: Exception) -> Exception:
    """A library's fault with the system's behind it."""
    fault.__cause__ = cause
    return fault


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (CredentialUnavailableError("no managed identity"), "storage.credentials"),
        (
            ValueError("Must provide either a connection_string or account_name with credentials!!"),
            "storage.credentials",
        ),
        (raised_from(RuntimeError("giving up"), socket.gaierror(-2, "Name not known")), "storage.unreachable"),
        (raised_from(RuntimeError("giving up"), ConnectionRefusedError()), "storage.unreachable"),
        (KeyError("LastModified"), "storage.failed"),
    ],
)
def test_lasting_faults_of_a_library_are_storage_errors_without_retries(
    fault: Exception, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    storage = FsspecStorage("memory://faults", {}, retry=Retry(pause=waits.append))
    monkeypatch.setattr(storage, "_file_system", BrokenSystem(fault))

    with pytest.raises(StorageFailed) as raised:
        list(storage.list_from("_delta_log"))

    assert (code, 7, []) == (raised.value.code, raised.value.exit_code, waits)


@pytest.mark.parametrize(
    "fault", [ConnectionResetError(), TimeoutError(), HttpError(), raised_from(ServiceResponseError(), OSError())]
)
def test_a_passing_fault_of_a_remote_store_is_repeated_within_the_budget(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    storage = FsspecStorage("memory://faults", {}, retry=clock.retry(budget_seconds=60))
    monkeypatch.setattr(storage, "_file_system", BrokenSystem(fault))

    with pytest.raises(StorageFailed) as raised:
        storage.read("a")

    assert 50 < clock.now <= 60
    assert "(--retry-budget)" in raised.value.facts["tried"]


def test_reading_an_open_file_is_retried_and_its_errors_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A file is read long after it was opened, by Arrow.
    """
    clock, faults = FakeClock(), [ConnectionResetError(), ConnectionResetError(), RuntimeError("gone")]
    storage = FsspecStorage("memory://faults", {}, retry=clock.retry())

    class Breaking(BrokenSystem):
        def info(self, _place: str) -> dict[str, object]:
            return {"type": "file", "size": 4}

        def cat_file(self, _place: str, start: int, end: int) -> bytes:
            if faults:
                raise faults.pop(0)
            return b"rows"[start:end]

    monkeypatch.setattr(storage, "_file_system", Breaking(OSError()))
    with storage.open("a") as file:
        with pytest.raises(StorageFailed) as raised:
            file.read(4)
        found = file.read(4)

    assert ("storage.failed", 2, b"rows") == (raised.value.code, len(clock.waits), found)


@pytest.fixture
def unmade(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A file system for sftp whose library must not be asked; holds the URIs it was made for."""
    made: list[str] = []

    class Unmade(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "sftp"

        def __init__(self, **options: object) -> None:
            made.append(str(options))
            super().__init__()

    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "sftp", Unmade)
    return made


@pytest.mark.parametrize("fault", [socket.gaierror(-2, "Name not known"), ConnectionRefusedError()])
def test_an_unknown_host_is_reported_before_its_library_tries(fault: OSError, unmade: list[str]) -> None:
    asked: list[tuple[str, int]] = []

    def connect(endpoint: tuple[str, int], _timeout: float) -> object:
        asked.append(endpoint)
        raise fault

    storage = FsspecStorage("sftp://host/t", {}, connect=connect)

    with pytest.raises(StorageFailed) as raised:
        storage.read("a")

    assert ("storage.unreachable", [("host", 22)], []) == (raised.value.code, asked, unmade)


@pytest.mark.parametrize(
    ("uri", "environment", "endpoint"),
    [
        ("sftp://host:2222/t", {}, ("host", 2222)),
        ("ftp://host/t", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://me:pw@host/t", {}, ("host", 443)),
        ("https://host:port/t", {}, None),
        ("memory://t", {}, None),
    ],
)
def test_the_endpoint_of_a_store_is_known(
    uri: str, environment: dict[str, str], endpoint: tuple[str, int] | None
) -> None:
    assert endpoint == find_endpoint(uri, environment)
