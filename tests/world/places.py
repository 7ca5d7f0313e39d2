"""A table on a disk or in an object store, whose calls that write tell a listener: there another directory may come to
be at its path, and its files change.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from deltacli.api.table import Table
from deltacli.core.machine import Machine, system_clock
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import Creation, Deletion, Draft, LocalStorage, Storage
from deltacli.storage.base import Capabilities
from tests.support.builder import LOG, Files, StoredFile
from tests.support.in_memory import MemoryStorage

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")


class Listener:
    """What the calls that write are told to; does nothing."""

    def begins(self) -> None:
        """Called before a draft is written to, and before another file of the log than a commit is created."""

    def commits(self) -> None:
        """Called before a commit is created."""

    def committed(self) -> None:
        """Called after a commit was tried."""

    def wrote(self) -> None:
        """Called after a file was created, replaced or deleted."""


class ToldDraft:
    """A draft that tells when it begins and when it is published."""

    def __init__(self, inner: Draft, listener: Listener, path: str) -> None:
        self._inner, self._listener, self._path = inner, listener, path

    @property
    def local_path(self) -> str:
        return self._inner.local_path

    def publish(self, *, replace: bool = False) -> Creation:
        return _created(self._listener, self._path, lambda: self._inner.publish(replace=replace), is_draft=True)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        self._listener.begins()
        return self

    def __exit__(self, *exception: object) -> None:
        self._inner.__exit__(*exception)


def _created(listener: Listener, path: str, create: Callable[[], Creation], *, is_draft: bool = False) -> Creation:
    if _COMMIT.fullmatch(path) is None:
        if path.startswith((f"{LOG}/", "schema/")) and not is_draft:
            listener.begins()
        done = create()
    else:
        listener.commits()
        done = create()
        listener.committed()
    listener.wrote()
    return done


class ToldDisk(LocalStorage):
    """A directory of this machine."""

    listener = Listener()

    def bind_to_directory(self, *place: Any) -> LocalStorage:  # Any: as in the store
        found = super().bind_to_directory(*place)
        if found is not self:
            found.__class__ = ToldDisk
            found.listener = self.listener  # type: ignore[attr-defined]
        return found

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        create = super().put_if_absent
        return _created(self.listener, path, lambda: create(path, data, modified_ms=modified_ms))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        super().put(path, data, modified_ms=modified_ms)
        self.listener.wrote()

    def draft(self, path: str) -> Draft:
        return ToldDraft(super().draft(path), self.listener, path)

    def copy_within(self, source: str, target: str) -> Creation:
        done = super().copy_within(source, target)
        self.listener.wrote()
        return done

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path, deletion in super().delete_many(paths):
            self.listener.wrote()
            yield path, deletion


class ToldObjects(MemoryStorage):
    """An object store, whose objects are as old as the clock says."""

    listener = Listener()
    time: Time

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(has_cheap_requests=False, parallel_reads=1, atomic_create=True)

    @property
    def files(self) -> Files:
        """All objects."""
        return {path: StoredFile(data, at_ms) for path, (data, at_ms) in sorted(self._files.items())}

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        self.write(path, data, modified_ms=modified_ms or self.time.now_ms)
        self.listener.wrote()

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        create = super().put_if_absent
        return _created(self.listener, path, lambda: create(path, data, modified_ms=modified_ms or self.time.now_ms))

    def draft(self, path: str) -> Draft:
        from deltacli.storage.scratch_draft import ScratchDraft

        def content(place: str) -> bytes:
            return Path(place).read_bytes()

        create, put = super().put_if_absent, self.write
        inner = ScratchDraft(
            lambda place: create(path, content(place), modified_ms=self.time.now_ms),
            lambda place: put(path, content(place), modified_ms=self.time.now_ms),
        )
        return ToldDraft(inner, self.listener, path)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path, deletion in super().delete_many(paths):
            self.listener.wrote()
            yield path, deletion


@dataclass
class Time:
    """The clocks of a machine: the real ones, moved. Nothing waits."""

    moved_ms: int = 0
    waited_s: float = 0.0
    begun_ms: int = field(default_factory=system_clock)
    """When the table was made, which is the same in its copies."""

    def __post_init__(self) -> None:
        self.machine = Machine(lambda: self.now_ms, lambda: time.monotonic() + self.waited_s, lambda _: None)

    @property
    def now_ms(self) -> int:
        """What the clock says."""
        return system_clock() + self.moved_ms

    def wait(self, seconds: int) -> None:
        """Let time go by."""
        self.waited_s += seconds
        self.moved_ms += seconds * 1_000


class World(Protocol):
    """The table and what lies beside it, by name."""

    time: Time
    listener: Listener
    closing: ExitStack
    """What ends with it."""

    @property
    def kind(self) -> str:
        """`disk` or `objects`."""

    def table(self) -> Table:
        """The table, opened anew."""

    def uri_of(self, name: str) -> str:
        """Where something beside the table is."""

    def files(self, name: str) -> Files:
        """The files of the table (`own`), or of what lies beside it."""

    def write(self, name: str, files: Files) -> None:
        """Let these be the files."""

    def names(self) -> list[str]:
        """The names of all that is there."""


@dataclass
class DiskWorld:
    """Directories. The table is reached through a link."""

    root: Path
    listener: Listener
    time: Time = field(default_factory=Time)
    kind: str = "disk"
    closing: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._at = {name: self.root / name for name in ("own", "copy", "equal", "source")}
        (self.root / "own").mkdir(parents=True)
        (self.root / "table").symlink_to(self.root / "own")

    def table(self) -> Table:
        store = ToldDisk(str(self.root / "table"))
        store.listener = self.listener
        return Table(store, engine=EmbeddedEngine(threads=1), open_other=self._open, machine=self.time.machine)

    def _open(self, uri: str) -> Storage:
        store = ToldDisk(uri.removeprefix("file://"))
        store.listener = self.listener
        return store

    def uri_of(self, name: str) -> str:
        return str(self._at.get(name, self.root / name))

    def names(self) -> list[str]:
        return [name for name in (*self._at, "beside") if self._of(name).exists()]

    def _of(self, name: str) -> Path:
        return self._at.get(name, self.root / name)

    def files(self, name: str) -> Files:
        found: Files = {}
        waiting = [os.fspath(self._of(name))]
        begin = len(waiting[0]) + 1
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        waiting.append(entry.path)
                    elif not entry.name.startswith("."):
                        data = Path(entry.path).read_bytes()
                        found[entry.path[begin:]] = StoredFile(data, entry.stat().st_mtime_ns // 1_000_000)
        return found

    def write(self, name: str, files: Files) -> None:
        root = self._of(name)
        now = self.files(name) if root.exists() else {}
        for path in now.keys() - files.keys():
            (root / path).unlink()
        for path, file in files.items():
            if now.get(path) != file:
                place = root / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.unlink(missing_ok=True)  # another file, as all engines write it
                place.write_bytes(file.data)
                os.utime(place, ns=(file.modified_ms * 1_000_000,) * 2)

    def switch_link(self, name: str) -> None:
        """Let the link to the table lead elsewhere."""
        (self.root / "table").unlink()
        (self.root / "table").symlink_to(self._at[name])

    def rename(self, name: str) -> None:
        """Rename the table's directory, and put another one in its place."""
        place = self._at["own"]
        self._at["own"] = place.rename(self.root / "away")
        self._at[name] = self._at[name].rename(place)


@dataclass
class ObjectWorld:
    """Prefixes of an object store."""

    listener: Listener
    time: Time = field(default_factory=Time)
    kind: str = "objects"
    closing: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._stores: dict[str, ToldObjects] = {}

    def _store(self, name: str) -> ToldObjects:
        if name not in self._stores:
            self._stores[name] = ToldObjects(name)
            self._stores[name].listener, self._stores[name].time = self.listener, self.time
        return self._stores[name]

    def table(self) -> Table:
        return Table(
            self._store("own"),
            engine=EmbeddedEngine(threads=1),
            open_other=lambda uri: self._store(uri.removeprefix("memory://")),
            machine=self.time.machine,
        )

    def uri_of(self, name: str) -> str:
        return f"memory://{name}"

    def names(self) -> list[str]:
        return list(self._stores)

    def files(self, name: str) -> Files:
        return self._store(name).files

    def write(self, name: str, files: Files) -> None:
        store = self._store(name)
        for path in store.files.keys() - files.keys():
            del store._files[path]
        for path, file in files.items():
            store.write(path, file.data, modified_ms=file.modified_ms)


def changed(before: Mapping[str, StoredFile], after: Mapping[str, StoredFile]) -> set[str]:
    """The paths of files that are new, gone, or have other bytes."""
    paths = before.keys() | after.keys()
    return {path for path in paths if _data(before, path) != _data(after, path)}


def _data(files: Mapping[str, StoredFile], path: str) -> bytes | None:
    file = files.get(path)
    return None if file is None else file.data
