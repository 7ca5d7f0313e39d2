"""Disks and object stores in memory, whose every call lets others act, and may go wrong.

A path leads to a tree of files, which is what an inode of a directory is: a link or a rename lets another tree be at
the path between any two calls. The stores are asked what all others are asked (`tests/storage`).
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.storage.base import Capabilities, Draft, FileStat, PathKind, ShouldDescend, WalkEntry, is_flat_level
from deltacli.storage.directory_identity import DirectoryIdentity, other_directory_refusal
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Existed, Failed, Missing, Unknown
from tests.simulation.schedule import FaultKind, Schedule
from tests.support.builder import Files, StoredFile

T = TypeVar("T")
_SLOW_SECONDS = (0.5, 6.0, 61.0, 90.0)
_OF_DISKS = Capabilities(has_cheap_requests=True, parallel_reads=1, atomic_create=True, has_directories=True)
_OF_OBJECTS = Capabilities(has_cheap_requests=False, parallel_reads=1, atomic_create=True, lists_flat=True)
_numbers = itertools.count(1)


class Watcher(Protocol):
    """Whoever is told of each change of a tree."""

    def changed(
        self, tree: Tree, path: str, before: StoredFile | None, after: StoredFile | None, actor: str
    ) -> None: ...

    def environment(self, changes: Mapping[str, StoredFile | None]) -> None:
        """The world changed: these files are there, or are gone."""

    def landing_of(self, actor: str) -> Callable[[Callable[[], object]], None]:  # noqa: ARG002
        """Return what lets a request of an actor land later."""
        return _landed


@dataclass(eq=False)
class Tree:
    """One directory of files."""

    name: str
    files: Files = field(default_factory=dict)
    watchers: list[Watcher] = field(default_factory=list)
    directories: dict[str, int] = field(default_factory=dict)
    """Path and time of each directory in it, of a disk."""
    inode: int = field(default_factory=lambda: next(_numbers))

    def __post_init__(self) -> None:
        for path, file in [*self.files.items()]:
            self._make_parents(path, file.modified_ms)

    def put(self, path: str, file: StoredFile, actor: str) -> None:
        """Create or replace a file."""
        before = self.files.get(path)
        self.files[path] = file
        self._make_parents(path, file.modified_ms)
        self._tell(path, before, file, actor)

    def delete(self, path: str, actor: str) -> bool:
        """Delete a file; return whether it was there."""
        before = self.files.pop(path, None)
        if before is not None:
            self._tell(path, before, None, actor)
        return before is not None

    def happen(self, changes: Mapping[str, StoredFile | None]) -> None:
        """Let the world change files: None for one that is gone."""
        for path, file in changes.items():
            if file is None:
                self.files.pop(path, None)
            else:
                self.files[path] = file
                self._make_parents(path, file.modified_ms)
        for watcher in self.watchers:
            watcher.environment(changes)

    def become(self, files: Files) -> None:
        """Let the world put other files in the place of all."""
        gone: dict[str, StoredFile | None] = dict.fromkeys(path for path in self.files if path not in files)
        self.happen(gone | {path: file for path, file in files.items() if self.files.get(path) != file})

    def _tell(self, path: str, before: StoredFile | None, after: StoredFile | None, actor: str) -> None:
        for watcher in self.watchers:
            watcher.changed(self, path, before, after, actor)

    def _make_parents(self, path: str, modified_ms: int) -> None:
        while path:
            path = path.rpartition("/")[0]
            if path:
                self.directories.setdefault(path, modified_ms)


class World:
    """All trees, by the paths that lead to them."""

    def __init__(self, schedule: Schedule, *, is_disk: bool = True) -> None:
        self.schedule = schedule
        self.is_disk = is_disk
        self.places: dict[str, Tree] = {}
        self.watchers: list[Watcher] = []
        """Of trees that are yet to be made."""
        self.directory = os.path.join(tempfile.gettempdir(), f"simulation-{os.getpid()}-{next(_numbers)}")
        """Where drafts and saved plans are, which the product writes to real paths."""
        self._scratch = itertools.count(1)

    def storage(self, uri: str, actor: str) -> Store:
        """The store at a path, which may be below another, or not be there yet."""
        name = uri.rstrip("/")
        above = [one for one in self.places if name == one or name.startswith(f"{one}/")]
        place = max(above, key=len, default=name)
        kind = DiskStore if self.is_disk else ObjectStore
        return kind(self, place, name[len(place) + 1 :], actor)

    def scratch(self) -> str:
        """A path of this machine where nothing is."""
        os.makedirs(self.directory, exist_ok=True)
        return os.path.join(self.directory, str(next(self._scratch)))

    def close(self) -> None:
        """Remove what is left there."""
        shutil.rmtree(self.directory, ignore_errors=True)


class Store:
    """Files below a path."""

    def __init__(self, world: World, place: str, prefix: str, actor: str) -> None:
        self._world, self._place, self._prefix, self.actor = world, place, prefix, actor

    @property
    def uri(self) -> str:
        return f"{self._place}/{self._prefix}" if self._prefix else self._place

    @property
    def capabilities(self) -> Capabilities:
        raise NotImplementedError

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def versions(self) -> None:
        return None

    # Reading

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        files, _, _ = self._in(directory, self._read(f"list {directory or '.'} from {start or '-'}", directory))
        return iter(
            FileStat(name, len(file.data), file.modified_ms)
            for name, file in sorted(files.items(), key=_bytewise)
            if name >= start
        )

    def list_directories(self, directory: str) -> list[str]:
        return sorted(self._in(directory, self._read(f"list directories of {directory or '.'}", directory))[1])

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        waiting = [(directory, 0)]
        while waiting:
            path, depth = waiting.pop()
            try:
                tree = self._read(f"walk {path or '.'}", path)
                files, below, everything = self._in(path, tree)
            except FileMissing:
                if path == directory:
                    raise
                continue
            if self.capabilities.lists_flat and is_flat_level(depth, len(below)):
                yield _entry(path, everything)
                continue
            if files or self.capabilities.has_directories:
                if self.capabilities.has_directories and not files and not below:
                    modified_ms = tree.directories.get(self._below(path), 0)
                    yield WalkEntry(path, [], None, None, [], is_empty=True, directory_modified_ms=modified_ms)
                elif self.capabilities.has_directories:
                    yield WalkEntry(path, list(files), None, None, [])
                else:
                    yield _entry(path, files)
            waiting += [(f"{path}/{name}" if path else name, depth + 1) for name in enter(path, sorted(below))]

    def read(self, path: str) -> bytes:
        return self._get(path, self._read(f"read {path}", path)).data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = self._get(path, self._read(f"read {path} {offset}+{length}", path)).data
        return data[offset : offset + length]

    def open(self, path: str) -> Any:  # Any: a file, as in the port
        return io.BytesIO(self._get(path, self._read(f"open {path}", path)).data)

    def tag(self, path: str, opened: Any) -> str:
        data: bytes = opened.getvalue()
        self._read(f"tag {path}", path)
        return f"{len(data)}-{zlib.crc32(data)}"

    def kind_of(self, path: str) -> PathKind:
        tree = self._read(f"kind of {path or '.'}", path)
        if self._below(path) in tree.files:
            return PathKind.FILE
        return PathKind.DIRECTORY if self._is_directory(path, tree) else PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        file = self._get(path, self._read(f"stat {path}", path))
        return FileStat(path.rpartition("/")[2], len(file.data), self._told_ms(file.modified_ms))

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        sizes, times = [], []
        for path in paths:
            file = self._read(f"stat {path}", path).files.get(self._below(path))
            sizes.append(-1 if file is None else len(file.data))
            times.append(-1 if file is None else self._told_ms(file.modified_ms))
        return sizes, times

    # Writing

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        def create(sent_to: Tree | None = None) -> Creation:
            tree = self._to_write() if sent_to is None else sent_to
            if self._below(path) in tree.files or self._is_directory(path, tree):
                return Existed()
            self._write(tree, path, data, modified_ms)
            return Created()

        kind = self._step(f"create {path} {_digest(data)}", is_write=True)
        schedule = self._world.schedule
        match kind:
            case FaultKind.LOST:
                create()
                return Unknown("no answer")
            case FaultKind.UNSENT:
                return Unknown("no answer")
            case FaultKind.DELAYED | FaultKind.SILENT:
                tree = self._to_write()
                effect: Callable[[], object] = partial(create, tree)
                for watcher in tree.watchers:
                    effect = partial(watcher.landing_of(self.actor), effect)
                schedule.later(effect, is_long=kind is FaultKind.SILENT)
                return Unknown("no answer")
            case FaultKind.DUPLICATED:
                create()
                return create()
            case FaultKind.FAIL_AFTER:  # an error means that nothing was written
                raise _failed(path)
        return self._with(kind, path, create)

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        kind = self._step(f"put {path} {_digest(data)}", is_write=True)
        self._with(kind, path, lambda: self._write(self._to_write(), path, data, modified_ms))

    def draft(self, path: str) -> Draft:
        self._step(f"draft of {path}")
        self._to_write()
        return _Draft(self, path, self._world.scratch())

    def copy_within(self, source: str, target: str) -> Creation:
        if self._place not in self._world.places:  # above the places of both
            origin = self._world.storage(f"{self.uri}/{source}", self.actor)
            goal = self._world.storage(f"{self.uri}/{target}", self.actor)
            return goal.put_if_absent("", origin.read(""))
        file = self._get(source, self._read(f"copy {source}", source))
        return self.put_if_absent(target, file.data, modified_ms=file.modified_ms)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        self._to_write()
        for path in paths:
            kind = self._step(f"delete {path}", is_write=True)
            if kind is FaultKind.FAIL_AFTER:  # and says nothing about it
                self._delete(path)
                yield path, Failed("the store failed")
                continue
            yield path, self._with(kind, path, lambda: self._delete(path))  # noqa: B023  (called at once)

    def remove_directory(self, path: str) -> Deletion:
        raise NotImplementedError

    # How

    def _step(self, call: str, *, is_write: bool = False) -> FaultKind | None:
        schedule = self._world.schedule
        assert schedule.current in ("", self.actor.partition("'")[0]), (
            f"{self.actor} calls while {schedule.current} acts: {call}"
        )
        is_creation = call.startswith("create ")
        return schedule.step(f"{self._place.rpartition('/')[2]}: {call}", is_write=is_write, is_creation=is_creation)

    def _read(self, call: str, path: str) -> Tree:
        """The tree at the path, once it is asked."""
        return self._with(self._step(call), path, lambda: self._world.places.get(self._place) or Tree("nothing"))

    def _with(self, kind: FaultKind | None, path: str, effect: Callable[[], T]) -> T:
        """Do something with what goes wrong about it."""
        schedule = self._world.schedule
        if kind is FaultKind.FAIL_BEFORE:
            raise _failed(path)
        if kind is FaultKind.SLOW_BEFORE:
            schedule.sleep(schedule.random.choice(_SLOW_SECONDS), is_in_call=True)
        found = effect()
        if kind is FaultKind.SLOW_AFTER:
            schedule.sleep(schedule.random.choice(_SLOW_SECONDS))
        if kind is FaultKind.CRASH_AFTER:
            schedule.crash()
        if kind is FaultKind.FAIL_AFTER:
            raise _failed(path)
        return found

    def _to_write(self) -> Tree:
        """The tree that is written to. Raises Refused where another one is at the path of a store that is bound."""
        if self._place not in self._world.places:
            tree = Tree(self._place.rpartition("/")[2], watchers=[*self._world.watchers])
            self._world.places[self._place] = tree
        return self._world.places[self._place]

    def _write(self, tree: Tree, path: str, data: bytes, modified_ms: int | None) -> None:
        keeps = self.capabilities.has_directories
        stamp = modified_ms if modified_ms is not None and keeps else self._world.schedule.time_ms
        tree.put(self._below(path), StoredFile(data, stamp), self.actor)

    def _delete(self, path: str) -> Deletion:
        tree = self._to_delete()
        if tree.delete(self._below(path), self.actor):
            return Deleted()
        return Failed("it is a directory") if self._is_directory(path, tree) else Missing()

    def _to_delete(self) -> Tree:
        return self._to_write()

    def _told_ms(self, modified_ms: int) -> int:
        return modified_ms

    def _below(self, path: str) -> str:
        return f"{self._prefix}/{path}".strip("/") if self._prefix else path

    def _get(self, path: str, tree: Tree) -> StoredFile:
        try:
            return tree.files[self._below(path)]
        except KeyError:
            raise FileMissing(f"{self.uri}/{path} does not exist") from None

    def _in(self, directory: str, tree: Tree) -> tuple[dict[str, StoredFile], set[str], dict[str, StoredFile]]:
        """The files in a directory, the names of the directories in it, and all files below."""
        if not self._is_directory(directory, tree):
            raise FileMissing(f"{self.uri}/{directory} does not exist")
        at = self._below(directory)
        prefix = f"{at}/" if at else ""
        everything = {path[len(prefix) :]: file for path, file in [*tree.files.items()] if path.startswith(prefix)}
        names = {path.partition("/")[0] for path in everything if "/" in path}
        if self.capabilities.has_directories:
            names |= {path[len(prefix) :].partition("/")[0] for path in tree.directories if path.startswith(prefix)}
        return {name: file for name, file in everything.items() if "/" not in name}, names, everything

    def _is_directory(self, path: str, tree: Tree) -> bool:
        raise NotImplementedError


class ObjectStore(Store):
    """Objects: a listing is flat, there are no directories, and the time of one object is told in seconds."""

    @property
    def capabilities(self) -> Capabilities:
        return _OF_OBJECTS

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the port)
        return Missing()

    def _told_ms(self, modified_ms: int) -> int:
        return modified_ms // 1_000 * 1_000

    def _is_directory(self, path: str, tree: Tree) -> bool:
        prefix = f"{self._below(path)}/"
        return any(name.startswith(prefix) for name in [*tree.files]) if self._below(path) else bool(tree.files)


class DiskStore(Store):
    """A directory, which can be held."""

    _held: Tree | None = None

    @property
    def capabilities(self) -> Capabilities:
        return _OF_DISKS

    @property
    def directory_identity(self) -> DirectoryIdentity | None:
        return None if self._held is None else ("simulation", 0, self._held.inode)

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> DiskStore:
        if self._held is not None and identity in (None, self.directory_identity):
            self.require_same_directory()
            return self
        tree = self._world.places.get(self._place)
        if identity is not None and (tree is None or identity[2] != tree.inode):
            raise other_directory_refusal(self.uri)
        store = DiskStore(self._world, self._place, self._prefix, self.actor)
        store._held = tree
        return store

    def require_same_directory(self) -> None:
        if self._held is not None and self._world.places.get(self._place) is not self._held:
            raise other_directory_refusal(self.uri)

    def remove_directory(self, path: str) -> Deletion:
        self._step(f"remove directory {path}", is_write=True)
        tree = self._to_write()
        at = self._below(path)
        if at not in tree.directories:
            return Failed("not a directory") if at in tree.files or not path else Missing()
        if any(name.startswith(f"{at}/") for name in (*tree.files, *tree.directories)):
            return Failed("directory not empty")
        del tree.directories[at]
        return Deleted()

    def _to_write(self) -> Tree:
        self.require_same_directory()
        return super()._to_write()

    def _to_delete(self) -> Tree:
        return self._held or self._to_write()

    def _is_directory(self, path: str, tree: Tree) -> bool:
        at = self._below(path)
        return at in tree.directories if at else tree.name != "nothing"


class _Draft:
    """A file of this machine that is sent when it is published."""

    def __init__(self, store: Store, path: str, place: str) -> None:
        self._store, self._path, self.local_path = store, path, place

    def publish(self, *, replace: bool = False) -> Creation:
        with open(self.local_path, "rb") as file:
            data = file.read()
        if not replace:
            return self._store.put_if_absent(self._path, data)
        self._store.put(self._path, data)
        return Created()

    def __enter__(self) -> Self:
        with open(self.local_path, "wb"):
            return self

    def __exit__(self, *_: object) -> None:
        os.unlink(self.local_path)


def _entry(path: str, files: Mapping[str, StoredFile]) -> WalkEntry:
    columns = [[*files], [len(file.data) for file in files.values()], [file.modified_ms for file in files.values()]]
    names, sizes, times = columns
    return WalkEntry(path, names, sizes, times, [])  # type: ignore[arg-type]


def _failed(path: str) -> StorageFailed:
    return StorageFailed(f"{path}: the store failed")


def _digest(data: bytes) -> str:
    return f"[{len(data)} {zlib.crc32(data):08x}]"


def _bytewise(item: tuple[str, StoredFile]) -> bytes:
    return item[0].encode("utf-8", "surrogateescape")


def _landed(effect: Callable[[], object]) -> None:
    """Do what nobody waits for."""
    effect()
