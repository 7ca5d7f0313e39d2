"""A store in memory that keeps the versions of its files: as S3 does, with delete markers, or as a soft delete does."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from deltacli.core.errors import FileMissing
from deltacli.storage import Created, Creation, Deleted, Deletion, Existed
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState
from tests.support.in_memory import MemoryStorage


class _Kept(NamedTuple):
    """A version; `data` is None for a delete marker."""

    number: int
    data: bytes | None
    modified_ms: int


class VersionedMemory(MemoryStorage):
    """`is_soft`: what is deleted cannot be read before it was brought back, and what is overwritten is lost.
    `keeps=False`: versioning was never enabled. `now_ms` is the time of delete markers and copies.
    """

    def __init__(self, name: str = "table", *, is_soft: bool = False, keeps: bool = True) -> None:
        super().__init__(name)
        self.is_soft, self.keeps = is_soft, keeps
        self.now_ms = 0
        self._history: defaultdict[str, list[_Kept]] = defaultdict(list)
        self._number = 0

    @property
    def versions(self) -> Versions:  # type: ignore[override]  # a store without them has None
        return Versions(self)

    def write(self, path: str, data: bytes, *, modified_ms: int = 0) -> None:
        super().write(path, data, modified_ms=modified_ms)
        self._keep(path, data, modified_ms)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        outcome = super().put_if_absent(path, data, modified_ms=modified_ms)
        if isinstance(outcome, Created):
            self._keep(path, data, modified_ms or 0)
        return outcome

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path, outcome in super().delete_many(paths):
            if isinstance(outcome, Deleted):
                self._keep(path, None, self.now_ms)
            yield path, outcome

    def forget(self, path: str) -> None:
        """Lose all versions of a file but the current one, as a lifecycle rule does."""
        self._history[path] = [kept for kept in self._history[path][-1:] if kept.data is not None]

    def _keep(self, path: str, data: bytes | None, modified_ms: int) -> None:
        with self._lock:
            self._number += 1
            if not self.keeps:
                return
            if self.is_soft:
                is_overwritten = data is not None
                self._history[path] = [] if is_overwritten else self._history[path][-1:]
            if data is not None or not self.is_soft:
                self._history[path].append(_Kept(self._number, data, modified_ms))


class Versions:
    """The versions of the files of a `VersionedMemory`."""

    def __init__(self, store: VersionedMemory) -> None:
        self._store = store

    def keeping(self) -> VersionRetention:
        how = "soft delete" if self._store.is_soft else "versioning"
        return VersionRetention(self._store.keeps, f"{how} is {'enabled' if self._store.keeps else 'disabled'}")

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        with self._store._lock:
            paths = sorted(path for path in self._store._history if path.startswith(prefix))
            found = [each for path in paths for each in self._of(path)]
        yield from found

    def read(self, version: ObjectVersion) -> bytes:
        data = self._data(version)
        if data is None or not version.is_readable:
            raise FileMissing(f"version {version.version_id} of {version.path} does not exist")
        return data

    def open(self, version: ObjectVersion) -> Any:  # Any: as in the port
        return io.BytesIO(self.read(version))

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        store, data = self._store, self._data(version)
        if data is None:
            raise FileMissing(f"version {version.version_id} of {version.path} does not exist")
        with store._lock:
            listed = self._of(version.path)
            current = next((each for each in listed if each.state is VersionState.CURRENT), None)
            if current is not None and (instead_of is None or current.version_id != instead_of.version_id):
                return Existed()
            found = next(each for each in listed if each.version_id == version.version_id)
            if current is None and found.keeps_time:
                history = store._history[version.path]
                while history[-1].data is None:
                    history.pop()
                store._files[version.path] = (data, version.modified_ms)
                return Created()
        store.write(version.path, data, modified_ms=store.now_ms)
        return Created()

    def _data(self, version: ObjectVersion) -> bytes | None:
        for kept in self._store._history[version.path]:
            if str(kept.number) == version.version_id:
                return kept.data
        return None

    def _of(self, path: str) -> tuple[ObjectVersion, ...]:
        """The versions of a path, newest first."""
        found, is_hidden = list[ObjectVersion](), True
        is_live = path in self._store._files
        for kept in reversed(self._store._history[path]):
            is_newest = not found
            if kept.data is None:
                state = VersionState.DELETE_MARKER
            elif is_newest and is_live:
                state = VersionState.CURRENT
            else:
                state = VersionState.SOFT_DELETED if self._store.is_soft else VersionState.NONCURRENT
            size, tag = len(kept.data or b""), str(hash(kept.data))
            keeps_time = is_hidden and kept.data is not None and not is_live
            found.append(ObjectVersion(path, str(kept.number), size, kept.modified_ms, state, tag, keeps_time))
            is_hidden = is_hidden and kept.data is None
        return tuple(found)
