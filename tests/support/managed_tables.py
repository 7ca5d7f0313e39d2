"""Tables that a catalog manages, made by hand from the protocol: some commits published, some staged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from deltacli.api.table import Table
from deltacli.catalogs.managed_store import ManagedStore, open_managed
from deltacli.core.errors import Refused
from deltacli.core.machine import Machine, fixed_clock, system_clock
from deltacli.delta.log.commit_content import CommitRequest, FilesAt, body_lines
from deltacli.storage import Storage
from deltacli.table.version import Snapshot
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove, to_bytes
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.catalog_state import FEATURES, MANAGED, NAME, UUID, CatalogState, MemoryCatalog, Row, ServerTable
from tests.support.in_memory import MemoryStorage

STEP_MS = 1_000
TAG = "6f1d2a52-6d1e-4a0f-9c55-3f6b8f0f9d11"
PROPERTIES = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "io.unitycatalog.tableId": UUID,
}


def stamp_of(version: int) -> int:
    """The in-commit timestamp of a built version."""
    return EPOCH_MS + STEP_MS * version


def managed_birth(
    features: Sequence[str] = FEATURES, properties: Mapping[str, str] = PROPERTIES, **fields: Any
) -> list[Line]:
    """Protocol and metaData of a table that a catalog manages."""
    readers = [name for name in features if name != "inCommitTimestamp" and name not in WRITERS]
    return [
        protocol(3, 7, reader_features=readers, writer_features=list(features)),
        metadata(configuration=dict(properties), **fields),
    ]


WRITERS = ("appendOnly", "domainMetadata", "clustering", "rowTracking", "changeDataFeed", "checkConstraints")


def managed_lines(version: int, *lines: Line, stamp_ms: int | None = None, first: Iterable[Line] = ()) -> list[Line]:
    """The lines of a commit: by default it adds a file of a hundred rows."""
    info = commit_info(
        "WRITE", timestamp=1, inCommitTimestamp=stamp_of(version) if stamp_ms is None else stamp_ms, txnId=f"t{version}"
    )
    return [info, *first, *(lines or [add(f"part-{version:05d}.parquet", size=100, records=100)])]


class ManagedTable:
    """A table and its catalog. `published` and `staged` are versions; versions in both have two files."""

    def __init__(
        self,
        published: Iterable[int],
        staged: Iterable[int] = (),
        *,
        latest: int | None = None,
        birth: Callable[[], list[Line]] = managed_birth,
        release: str = "0.6",
        store: Storage | None = None,
    ) -> None:
        self.builder = TableBuilder()
        staged, published = [*staged], {*published}
        newest = max([*staged, *published])
        for version in range(newest + 1):
            self.builder.commit(*managed_lines(version, first=birth() if version == 0 else ()))
        self.commits = {version: self.builder.files[commit_path(version)].data for version in range(newest + 1)}
        for version in range(newest + 1):
            if version not in published:
                del self.builder.files[commit_path(version)]
        self.state = CatalogState(release)
        self.server = ServerTable("memory://table")
        self.server.properties = {f"delta.feature.{name}": "supported" for name in FEATURES} | PROPERTIES
        assert self.server.properties[MANAGED] == "supported"
        self.state.tables[NAME] = self.server
        for version in staged:
            self.stage(version, self.commits[version], ratified=True)
        if latest is not None and not staged:
            self.server.rows = [Row(self._commit(latest, b"x", "gone"), is_backfilled=True)]
        elif not staged and newest:
            self.server.rows = [Row(self._commit(newest, self.commits[newest], "gone"), is_backfilled=True)]
        self._store = store
        self._opened: Storage | None = None
        self.notes: list[str] = []

    @property
    def now(self) -> ServerTable:
        """The table as the server has it now."""
        return self.state.tables[NAME]

    def _commit(self, version: int, data: bytes, tag: str, stamp_ms: int | None = None) -> dict[str, Any]:
        return {
            "version": version,
            "timestamp": stamp_of(version) if stamp_ms is None else stamp_ms,
            "file-name": f"{version:020d}.{tag}.json",
            "file-size": len(data),
            "file-modification-timestamp": stamp_of(version) + 1,
        }

    def stage(self, version: int, data: bytes, tag: str = TAG, *, ratified: bool = False) -> str:
        """Put a staged file into the table, and the commit into the catalog if it is ratified; return its path."""
        commit = self._commit(version, data, tag)
        path = f"_delta_log/_staged_commits/{commit['file-name']}"
        self.builder.file(path, data, modified_ms=commit["file-modification-timestamp"])
        if ratified:
            self.server.rows.append(Row(commit))
        return path

    @property
    def store(self) -> Storage:
        """The store of the location."""
        if self._opened is None:
            self._opened = self._store
            if self._opened is None:
                self._opened = self.builder.in_memory()
            else:
                for path, file in self.builder.files.items():
                    self._opened.put(path, file.data, modified_ms=file.modified_ms)
            self.now.store = self._opened
        return self._opened

    @property
    def memory(self) -> MemoryStorage:
        """The same, where it is in memory."""
        assert isinstance(self.store, MemoryStorage)
        return self.store

    def catalog(self, **decided: Any) -> MemoryCatalog:
        """Return a client of the catalog."""
        return MemoryCatalog(self.state, **decided)

    def open(
        self,
        catalog: MemoryCatalog | None = None,
        *,
        machine: Machine | None = None,
        now_ms: int | None = None,
        **opened: float,
    ) -> tuple[Table, MemoryCatalog]:
        """Open the table as a run does, by one request; return its handle and the client. `now_ms` is as `--now`, and
        `opened` as of `open_managed`.
        """
        catalog = catalog or self.catalog()
        own = machine or quiet_machine()
        managed: ManagedStore = open_managed(
            self.store, catalog, catalog.load(NAME), machine=own, note=self.notes.append, **opened
        )
        clock = system_clock if now_ms is None else fixed_clock(now_ms)
        return Table(managed, machine=own, name=str(NAME), clock=clock), catalog

    def staged_names(self) -> list[str]:
        """The names of all staged files."""
        return [stat.name for stat in self.store.list_from("_delta_log/_staged_commits")]

    def staged_names_or_none(self) -> list[str]:
        """The same, also where nothing was ever staged."""
        return self.staged_names() if self.store.kind_of("_delta_log/_staged_commits").value != "missing" else []

    def published_versions(self) -> list[int]:
        """The versions that have a published file."""
        names = [stat.name for stat in self.store.list_from("_delta_log")]
        return [int(name[:20]) for name in names if len(name) == 25 and name.endswith(".json")]

    def lines(self, version: int) -> list[Line]:
        """The lines of a published version."""
        return [json.loads(line) for line in self.store.read(commit_path(version)).splitlines()]


class QuietMachine:
    """A clock that moves a millisecond with each look and by what was waited for."""

    def __init__(self, now_ms: int, seed: int) -> None:
        self.at_ms, self._random = float(now_ms), random.Random(seed)

    def now_ms(self) -> int:
        self.at_ms += 1
        return int(self.at_ms)

    def monotonic(self) -> float:
        return self.at_ms / 1_000

    def sleep(self, seconds: float) -> None:
        self.at_ms += seconds * 1_000

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


def quiet_machine(now_ms: int = stamp_of(1_000), seed: int = 0) -> Machine:
    """Return a machine without a clock of its own."""
    quiet = QuietMachine(now_ms, seed)
    return Machine(quiet.now_ms, quiet.monotonic, quiet.sleep, quiet.random_bytes)


def rewritten(data: bytes) -> bytes:
    """Return another commit of the same version."""
    return to_bytes([json.loads(line) for line in data.splitlines()] + [add("other.parquet", size=1, records=1)])


def adding(path: str, *, rearranges: bool = False) -> Callable[[Snapshot], CommitRequest]:
    """Return what makes a request for one more file, which depends on no other."""
    line = add(path, size=1, records=1, dataChange=not rearranges)

    def make(_: Snapshot) -> CommitRequest:
        return CommitRequest("WRITE", body=lambda slot: body_lines([line], slot), is_blind_append=True)

    return make


def removing(path: str) -> Callable[[Snapshot], CommitRequest]:
    """Return what makes a request that takes a file away, and fails where it is not there any more."""

    def make(snapshot: Snapshot) -> CommitRequest:
        if path not in paths_of(snapshot):
            raise Refused(f"{path} is gone", code="test.gone")
        return CommitRequest(
            "DELETE", body=lambda slot: body_lines([remove(path, deleted_ms=1)], slot), reads=FilesAt([path])
        )

    return make


def paths_of(snapshot: Snapshot) -> list[str]:
    """The paths of the files of a version, each as often as it is there, sorted."""
    return sorted(path for batch in snapshot.files() for path in batch.column("path").to_pylist())


def proposed(body: bytes) -> dict[str, Any]:
    """Return the actions of a request by their names."""
    return {one["action"]: one for one in json.loads(body)["updates"]}
