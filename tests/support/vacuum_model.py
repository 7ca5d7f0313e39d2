"""A small table on the disk that knows which files each of its versions needs. It shares no code with deltacli.

All times are the model's own: of files, of commits, and of the clock that deltacli is given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.small_vectors import Descriptor, inline, vector_file, vector_path
from tests.support.vacuum_steps import NewFile, Spelling, Stamp, Start, Vectors

HOUR_MS = 3_600_000
START_MS = 472_000 * HOUR_MS
DEFAULT_HOURS = 168
WRONG_BY_HOURS = 30
ROWS = 3
Action = dict[str, Any]  # Any: JSON values
Key = tuple[str, str]
"""The path of a file on the disk, and of its vector the place and the offset."""

_FIELDS = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}] + [
    {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("p", "_p")
]
SCHEMA = json.dumps({"type": "struct", "fields": _FIELDS})


@cache
def content() -> bytes:
    """A Parquet file of three rows: all data files look like that."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), sink)
    found: bytes = sink.getvalue().to_pybytes()
    return found


class Vector(NamedTuple):
    """A deletion vector: its file on the disk (None: inline), and the rows that it takes away."""

    path: str | None
    descriptor: Descriptor
    rows: frozenset[int]

    @property
    def key(self) -> str:
        return f"{self.descriptor['storageType']}{self.descriptor['pathOrInlineDv']}@{self.descriptor.get('offset')}"


class Live(NamedTuple):
    """A data file as a version has it."""

    path: str
    logged: str
    values: Mapping[str, str]
    vector: Vector | None = None

    @property
    def key(self) -> Key:
        return self.path, "" if self.vector is None else self.vector.key

    @property
    def paths(self) -> frozenset[str]:
        """Its files on the disk."""
        vector = None if self.vector is None else self.vector.path
        return frozenset({self.path} if vector is None else {self.path, vector})

    @property
    def rows(self) -> int:
        return ROWS - (0 if self.vector is None else len(self.vector.rows))


class Removal(NamedTuple):
    """A tombstone: the files it names, and its time (0 where it has none)."""

    paths: frozenset[str]
    moment_ms: int


@dataclass(frozen=True)
class Version:
    """A commit and what it left."""

    file_ms: int
    stamp_ms: int | None
    live: Mapping[Key, Live]
    partition: str | None
    own_ms: int
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    moment_ms: int = 0
    """What its removes give as their time."""
    untimely: frozenset[str] = frozenset()
    """Removed files of which the remove does not tell that it was so late."""
    is_ours: bool = True
    """Made by the model, not by deltacli."""

    @property
    def named(self) -> frozenset[str]:
        return self.added | self.removed | self.changes


@dataclass
class VacuumedTable:
    """A table in the directory `base`, which holds other things as well."""

    base: Path
    start: Start
    now_ms: int = START_MS
    versions: list[Version] = field(default_factory=list)
    tombstones: dict[Key, Removal] = field(default_factory=dict)
    """Those of the newest version according to its log; a checkpoint omits the expired ones."""
    gone: dict[str, Live] = field(default_factory=dict)
    """What was removed, by path."""
    stamped_from: int | None = None
    """The version from which in-commit timestamps count."""
    enablement: dict[str, str] = field(default_factory=dict)
    own: int | None = None
    partition: str | None = None
    misread: set[str] = field(default_factory=set)
    """Files whose path stands unencoded in the log, and reads as another one."""
    count: int = 0

    def __post_init__(self) -> None:
        self.own, self.partition = self.start.own, self.start.partition
        outside = self.base / "outside"
        outside.mkdir(parents=True)
        (outside / "target.parquet").write_bytes(content())
        (self.base / "beside.parquet").write_bytes(content())
        self.root.mkdir()
        features = ["deletionVectors", "inCommitTimestamp", "changeDataFeed", "appendOnly", "invariants"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
        if self.start.stamped:
            self.stamped_from = 0
        self._commit([{"protocol": protocol | {"writerFeatures": features}}, self._metadata()], {})

    @property
    def root(self) -> Path:
        return self.base / self.start.root

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    @property
    def own_ms(self) -> int:
        return (DEFAULT_HOURS if self.own is None else self.own) * HOUR_MS

    # --- what writers do ---

    def write(self, files: Iterable[NewFile], removed: Collection[Live], stamp: Stamp, changes: int | None) -> None:
        added = [self._new_file(file) for file in files]
        actions: list[Action] = []
        cdc: list[str] = []
        if changes is not None:
            path = f"_change_data/cdc-{self._next()}.parquet"
            self.put(path, content(), changes)
            cdc.append(path)
            values = self._values()
            size = len(content())
            actions.append({"cdc": {"path": path, "partitionValues": values, "size": size, "dataChange": False}})
        self._change(added, removed, stamp, actions, cdc)

    def remove(self, removed: Collection[Live], stamp: Stamp) -> None:
        if removed:
            self._change([], removed, stamp)

    def mark(self, marked: Collection[Live], how: Vectors, stamp: Stamp, age: int) -> None:
        """Take one more row from each file, by vectors that share a file."""
        marked = [live for live in marked if live.rows > 1]
        if not marked:
            return
        rows = [frozenset(range(ROWS - live.rows + 1)) for live in marked]
        number = self._next()
        uuid = UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC834 + 12345) % 2**128)
        prefix = "ab" if how is Vectors.PREFIXED else ""
        path: str | None = f"vectors/dv {number}" if how is Vectors.ODD_NAME else vector_path(uuid, prefix)
        stored = vector_file(rows)
        if how is Vectors.INLINE:
            found, path = [inline(some) for some in rows], None
        elif how in (Vectors.RELATIVE, Vectors.PREFIXED):
            found = [stored.relative(place, uuid, prefix) for place in range(len(rows))]
        else:
            uri = f"file://{quote(f'{self.root}/{path}')}"
            found = [stored.absolute(place, uri) for place in range(len(rows))]
        if path is not None:
            self.put(path, stored.data, age)
        vectors = [Vector(path, descriptor, some) for descriptor, some in zip(found, rows, strict=True)]
        self._change([live._replace(vector=one) for live, one in zip(marked, vectors, strict=True)], marked, stamp)

    def add_again(self, live: Live, *, anew: bool) -> None:
        if anew:
            live = live._replace(vector=None)
            self.put(live.path, content(), 0)
        self._change([live], [], Stamp.NOW)

    def restore(self, version: Version) -> None:
        """Make the newest version what an older one was."""
        added = [live for key, live in version.live.items() if key not in self.newest.live]
        removed = [live for key, live in self.newest.live.items() if key not in version.live]
        if added or removed:
            self._change(added, removed, Stamp.NOW)

    def set_own(self, hours: int) -> None:
        self.own = hours
        self._commit([self._metadata()], dict(self.newest.live))

    def repartition(self, column: str | None) -> None:
        self.partition = column
        self._change([], list(self.newest.live.values()), Stamp.NOW, [self._metadata()])

    def stamp_commits(self) -> None:
        """Switch in-commit timestamps on."""
        if self.stamped_from is None:
            self.stamped_from = len(self.versions)
            self.enablement = {
                "delta.inCommitTimestampEnablementVersion": str(self.stamped_from),
                "delta.inCommitTimestampEnablementTimestamp": str(self._next_ms()),
            }
            self._commit([self._metadata()], dict(self.newest.live))

    def put(self, path: str, data: bytes, age: int) -> None:
        """Write a file below the table that is so many hours old."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        set_time(place, self.now_ms - age * HOUR_MS)

    # --- what deltacli did ---

    def look(self, *, checkpointed: bool = False) -> None:
        """Take up what a call has left: its commits, the tombstones it dropped, and times of files that are real."""
        if checkpointed:
            least = self.now_ms - self.own_ms
            self.tombstones = {key: one for key, one in self.tombstones.items() if one.moment_ms > least}
        while (path := self.root / "_delta_log" / f"{len(self.versions):020d}.json").exists():
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            assert {"commitInfo"} == {kind for action in actions for kind in action}, actions
            info = actions[0]["commitInfo"]
            stamp = None if self.stamped_from is None else info["inCommitTimestamp"]
            live = self.newest.live
            self.versions.append(Version(self.now_ms, stamp, live, self.partition, self.own_ms, is_ours=False))
        self.reconcile()

    def reconcile(self) -> None:
        """Nothing is younger than the clock."""
        for directory, names, files in os.walk(self.root, topdown=False):
            for name in [*files, *names, "."]:
                place = Path(directory, name)
                if not place.is_symlink() and place.stat().st_mtime_ns > self.now_ms * 1_000_000:
                    set_time(place, self.now_ms)

    # --- what is known ---

    def present(self) -> list[int]:
        """The versions whose commits are still in the log."""
        names = sorted(path.name for path in (self.root / "_delta_log").iterdir())
        return [int(name[:20]) for name in names if re.fullmatch(r"\d{20}\.json", name)]

    def rebuildable(self) -> list[int]:
        """The versions that can be read."""
        present = set(self.present())
        found = []
        checkpoints = {int(path.name[:20]) for path in (self.root / "_delta_log").glob("*.checkpoint.parquet")}
        for version in range(len(self.versions)):
            start = version
            while start in present and start not in checkpoints and start:
                start -= 1
            if start in present and (start in checkpoints or start == 0):
                found.append(version)
        return found

    def times(self, versions: Iterable[int]) -> dict[int, int]:
        """The commit times of versions, according to a history of these alone."""
        found: dict[int, int] = {}
        last = -1
        for number in versions:
            version = self.versions[number]
            last = max(version.file_ms, last + 1)
            is_stamped = self.stamped_from is not None and number >= self.stamped_from
            found[number] = version.stamp_ms if is_stamped and version.stamp_ms is not None else last
        return found

    def _new_file(self, new: NewFile) -> Live:
        path = new.folder + new.name.format(self._next())
        self.put(path, content(), new.age)
        match new.spelling:
            case Spelling.ENCODED:
                logged = quote(path, safe="/=")
            case Spelling.RAW:
                logged = path
                if unquote(path) != path:
                    self.misread.add(path)
            case other:
                logged = other.value.removesuffix("/") + quote(f"{self.root}/{path}", safe="/=")
        return Live(path, logged, self._values())

    def _values(self) -> dict[str, str]:
        return {} if self.partition is None else {self.partition: "1"}

    def _change(
        self,
        added: Collection[Live],
        removed: Collection[Live],
        stamp: Stamp,
        others: Collection[Action] = (),
        changes: Collection[str] = (),
    ) -> None:
        moment = {
            Stamp.NOW: self._next_ms(),
            Stamp.EARLY: self.now_ms - WRONG_BY_HOURS * HOUR_MS,
            Stamp.LATE: self.now_ms + WRONG_BY_HOURS * HOUR_MS,
            Stamp.NONE: None,
        }[stamp]
        actions = [*others, *(_remove(live, moment) for live in removed), *(_add(live, self.now_ms) for live in added)]
        live = {key: one for key, one in self.newest.live.items() if one not in removed}
        for one in removed:
            self.tombstones[one.key] = Removal(one.paths, moment or 0)
            self.gone[one.path] = one
        for one in added:
            self.tombstones.pop(one.key, None)
            self.gone.pop(one.path, None)
        paths = _paths(removed)
        self._commit(
            actions,
            live | {one.key: one for one in added},
            added=_paths(added),
            removed=paths,
            changes=frozenset(changes),
            moment_ms=moment or 0,
            untimely=paths if stamp in (Stamp.NONE, Stamp.EARLY) else frozenset(),
        )

    def _commit(self, actions: Collection[Action], live: Mapping[Key, Live], **named: Any) -> None:  # Any: fields
        number = len(self.versions)
        info: Action = {"timestamp": self.now_ms, "operation": "WRITE"}
        stamp, file_ms = None, self.now_ms
        if self.stamped_from is not None and number >= self.stamped_from:
            info["inCommitTimestamp"] = stamp = self._next_ms()
            file_ms -= 500 * HOUR_MS
        path = f"_delta_log/{number:020d}.json"
        lines = [json.dumps(action, ensure_ascii=False) for action in ({"commitInfo": info}, *actions)]
        self.put(path, "".join(f"{line}\n" for line in lines).encode(), 0)
        set_time(self.root / path, file_ms)
        self.versions.append(Version(file_ms, stamp, live, self.partition, self.own_ms, **named))

    def _next_ms(self) -> int:
        """The time of a commit that carries it: above that of the commit before."""
        times = self.times(range(len(self.versions)))
        return max(self.now_ms, times[max(times)] + 1) if times else self.now_ms

    def _metadata(self) -> Action:
        configuration = dict(self.enablement)
        if self.own is not None:
            configuration["delta.deletedFileRetentionDuration"] = f"interval {self.own} hours"
        if self.stamped_from is not None:
            configuration["delta.enableInCommitTimestamps"] = "true"
        return {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA,
                "partitionColumns": [] if self.partition is None else [self.partition],
                "configuration": configuration | {"delta.enableDeletionVectors": "true"},
                "createdTime": START_MS,
            }
        }

    def _next(self) -> int:
        self.count += 1
        return self.count


def set_time(place: Path, moment_ms: int) -> None:
    os.utime(place, ns=(moment_ms * 1_000_000,) * 2)


def _paths(files: Iterable[Live]) -> frozenset[str]:
    return frozenset(path for live in files for path in live.paths)


def _add(live: Live, now_ms: int) -> Action:
    found: Action = {
        "path": live.logged,
        "partitionValues": live.values,
        "size": len(content()),
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": json.dumps({"numRecords": ROWS}),
    }
    return {"add": found if live.vector is None else found | {"deletionVector": live.vector.descriptor}}


def _remove(live: Live, moment_ms: int | None) -> Action:
    found: Action = {"path": live.logged, "dataChange": True}
    if moment_ms is not None:
        found["deletionTimestamp"] = moment_ms
    return {"remove": found if live.vector is None else found | {"deletionVector": live.vector.descriptor}}
