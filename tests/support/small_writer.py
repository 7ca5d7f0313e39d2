"""A small writer of Delta tables that knows what every version must read as. It shares no code with deltacli.

A table is a list of versions, each with its rows and with the changes that its commit made. All of it is plain Python:
slow, short, and apart from the files on the disk.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pyarrow as pa

from tests.support.small_parquet import Look, PartitionText, parquet
from tests.support.small_statistics import statistics
from tests.support.small_types import (
    Column,
    Row,
    Type,
    arrow_field,
    partition_value,
    plain,
    schema_string,
    shown,
)
from tests.support.small_vectors import Descriptor, inline, vector_file, vector_path

EPOCH_MS = 1_700_000_000_000
Action = dict[str, Any]  # Any: JSON values
Event = tuple[str, Row]
"""What happened to a row: insert, delete, update_preimage, update_postimage."""


@dataclass(frozen=True)
class DataFile:
    """A file on the disk: its rows in the order of the file."""

    path: str
    logged: str
    rows: tuple[Row, ...]
    texts: Mapping[str, str | None]
    size: int
    stats: str | None

    def without(self, deleted: Collection[int]) -> list[Row]:
        return [row for position, row in enumerate(self.rows) if position not in deleted]


@dataclass(frozen=True)
class Live:
    """A file in a version, with the rows that a vector takes from it."""

    file: DataFile
    vector: Descriptor | None = None
    deleted: frozenset[int] = frozenset()

    @property
    def rows(self) -> list[Row]:
        return self.file.without(self.deleted)


@dataclass(frozen=True)
class Version:
    """What a version must read as, and what its commit changed."""

    columns: tuple[Column, ...]
    partition: frozenset[int]
    rows: tuple[Row, ...]
    events: tuple[Event, ...]
    files: list[tuple[str, int]]
    """Path, decoded, and size of each file, ordered."""

    @property
    def schema(self) -> pa.Schema:
        """The exact schema that reading gives."""
        return pa.schema([arrow_field(column) for column in self.columns])

    def read_as(self, row: Row, names: Sequence[str] | None = None) -> tuple[object, ...]:
        """A row as this version shows it, in a form that can be counted."""
        by_name = {column.name: column for column in self.columns}
        chosen = self.columns if names is None else [by_name[name] for name in names]
        return tuple(plain(shown_value(row.get(column.number), column.type)) for column in chosen)

    def counted(self, names: Sequence[str] | None = None) -> Counter[tuple[object, ...]]:
        """The multiset of its rows."""
        return Counter(self.read_as(row, names) for row in self.rows)


def shown_value(value: object, kind: Type) -> object:
    """A value of a row, or the text of a partition value, as a type shows it."""
    if isinstance(value, PartitionText):
        return shown(partition_value(value.text, str(kind)), kind)
    return shown(value, kind)


@dataclass
class SmallTable:
    """A table on the disk, one commit after the other."""

    root: Path
    columns: tuple[Column, ...]
    partition: tuple[int, ...] = ()
    mapping: str = "none"
    configuration: dict[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    live: dict[str, Live] = field(default_factory=dict)
    removed: dict[str, Live] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    bare_removes: bool = False
    """Removes say no more than they must: no partition values, no size."""
    story: list[str] = field(default_factory=list)
    files: int = 0

    def __repr__(self) -> str:
        """The commits, for the report of a failing property."""
        logs = sorted((self.root / "_delta_log").glob("*.json"))
        commits = [log.read_text() if log.exists() else "" for log in logs]
        return "\n".join([f"<{self.mapping}, {self.features}>", *self.story, *commits])

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # Any: a printer of IPython's protocol
        printer.text(repr(self))

    @property
    def mapped(self) -> bool:
        return self.mapping != "none"

    @property
    def has_change_feed(self) -> bool:
        return self.configuration.get("delta.enableChangeDataFeed") == "true"

    @property
    def data_columns(self) -> list[Column]:
        """The columns that are not partition columns."""
        return [column for column in self.columns if column.number not in self.partition]

    @property
    def partition_columns(self) -> list[Column]:
        return [column for column in self.columns if column.number in self.partition]

    def create(self) -> SmallTable:
        """Version 0: a protocol, a schema, no files."""
        (self.root / "_delta_log").mkdir(parents=True, exist_ok=True)
        self._commit([self._protocol(), self._metadata()], [], story="create")
        return self

    def set_columns(self, columns: Sequence[Column], story: str) -> None:
        """Another schema from the next version on."""
        self.columns = tuple(columns)
        self._commit([self._metadata()], [], story=story)

    def new_file(
        self, rows: Iterable[Row], *, name: str = "", directory: str = "", look: Look | None = None,
        mode: str = "all", texts: Mapping[int, str | None] | None = None,
    ) -> DataFile:  # fmt: skip
        """Write a data file, which no version knows yet. `texts` are its partition values by column number."""
        found = {number: (texts or {}).get(number) for number in self.partition}
        held = tuple({**row, **{number: PartitionText(text) for number, text in found.items()}} for row in rows)
        path = "/".join(part for part in (directory, name or f"part-{self.files:05d}.parquet") if part)
        self.files += 1
        size = self.put(path, parquet(self.columns, held, self.usable(look or Look())))
        stats = statistics(self.columns, held, mode, self.files)
        return DataFile(path, quote(path, safe="/="), held, self._by_physical_name(found), size, stats)

    def usable(self, look: Look) -> Look:
        """The look as this table allows it: without mapping there are no ids, with it names are exact."""
        if not self.mapped:
            return replace(look, ids=False, foreign_names=False)
        return replace(look, upper_case=False, foreign_names=look.foreign_names and look.ids and self.mapping == "id")

    def append(self, files: Sequence[DataFile], story: str = "append") -> None:
        """Add files of new rows."""
        self.live |= {file.path: Live(file) for file in files}
        events: list[Event] = [("insert", row) for file in files for row in file.rows]
        self._commit([self._add(Live(file)) for file in files], events, story=story)

    def mark(
        self,
        deleted: Mapping[str, frozenset[int]],
        vectors: Mapping[str, Descriptor | None],
        *,
        added: Sequence[DataFile] = (),
        updates: Sequence[tuple[Row, Row]] = (),
        cdc: bool = False,
        story: str = "mark",
    ) -> None:
        """Let vectors delete rows of live files, and give back those that they no longer delete.

        `updates` are rows that `added` holds in another form: told as such only by change files.
        """
        actions: list[Action] = []
        events: list[Event] = []
        for path, positions in deleted.items():
            old = self.live[path]
            new = Live(old.file, vectors[path], positions)
            if old.vector != new.vector:
                actions += [self._remove(old), self._add(new)]
            events += [("delete", old.file.rows[position]) for position in sorted(positions - old.deleted)]
            events += [("insert", old.file.rows[position]) for position in sorted(old.deleted - positions)]
            self.live[path] = new
        actions += [self._add(Live(file)) for file in added]
        self.live |= {file.path: Live(file) for file in added}
        if cdc:
            before, after = [id(old) for old, _ in updates], [id(new) for _, new in updates]
            events = [event for event in events if id(event[1]) not in before]
            events += [("insert", row) for file in added for row in file.rows if id(row) not in after]
            events += [("update_preimage", row) for row, _ in updates]
            events += [("update_postimage", row) for _, row in updates]
            actions += self.change_files(events)
        else:
            events += [("insert", row) for file in added for row in file.rows]
        self._commit(actions, events, story=story)

    def replace_files(
        self,
        paths: Sequence[str],
        added: Sequence[DataFile],
        *,
        data_change: bool,
        told: Sequence[Event] | None = None,
        metadata: bool = False,
        story: str = "replace",
    ) -> None:
        """Remove files and add others; `told` is what change files say instead of the files themselves. With
        `metadata` the same commit says what the table has become.
        """
        actions = [self._metadata()] if metadata else []
        events: list[Event] = []
        for path in paths:
            old = self.live.pop(path)
            self.removed[path] = old
            actions.append(self._remove(old, data_change=data_change))
            events += [("delete", row) for row in old.rows]
        actions += [self._add(Live(file), data_change=data_change) for file in added]
        events += [("insert", row) for file in added for row in file.rows]
        self.live |= {file.path: Live(file) for file in added}
        if told is not None:
            events = list(told)
            actions += self.change_files(events)
        self._commit(actions, events if data_change else [], story=story)

    def add_again(self, path: str, *, story: str = "add again") -> None:
        """Bring a removed file back, with the vector that it had."""
        found = self.removed.pop(path)
        self.live[path] = found
        self._commit([self._add(found)], [("insert", row) for row in found.rows], story=story)

    def vectors(
        self, deleted: Mapping[str, frozenset[int]], *, how: str, uuid: UUID, prefix: str = "",
        run_keys: frozenset[int] | None = frozenset(),
    ) -> dict[str, Descriptor | None]:  # fmt: skip
        """Descriptors of vectors: inline (`i`), or all in one file that `u` or `p` finds; None without vectors."""
        chosen = [path for path, rows in deleted.items() if rows]
        found: dict[str, Descriptor | None] = dict.fromkeys(deleted)
        if how == "i":
            return found | {path: inline(deleted[path], run_keys=run_keys) for path in chosen}
        stored = vector_file([deleted[path] for path in chosen], run_keys=run_keys)
        self.put(vector_path(uuid, prefix), stored.data)
        for place, path in enumerate(chosen):
            if how == "u":
                found[path] = stored.relative(place, uuid, prefix)
            else:
                uri = f"file://{quote(str(self.root))}/{quote(vector_path(uuid, prefix))}"
                found[path] = stored.absolute(place, uri)
        return found

    def change_files(self, events: Sequence[Event]) -> list[Action]:
        """Write the change files of events, one for each partition."""
        groups: dict[tuple[PartitionText, ...], list[Event]] = {}
        for kind, row in events:
            groups.setdefault(tuple(row[number] for number in self.partition), []).append((kind, row))
        actions: list[Action] = []
        for values, group in groups.items():
            path = f"_change_data/cdc-{self.files:05d}.parquet"
            self.files += 1
            look = self.usable(Look())
            data = parquet(self.columns, [row for _, row in group], look, _change_type=[kind for kind, _ in group])
            texts = {number: value.text for number, value in zip(self.partition, values, strict=True)}
            actions.append(
                {
                    "cdc": {
                        "path": path,
                        "partitionValues": self._by_physical_name(texts),
                        "size": self.put(path, data),
                        "dataChange": False,
                    }
                }
            )
        return actions

    def put(self, path: str, data: bytes) -> int:
        """Write a file below the table; its size comes back."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return len(data)

    def commit_ms(self, version: int) -> int:
        """The time of a commit."""
        return EPOCH_MS + 1_000 * version

    def _commit(self, actions: Sequence[Action], events: Sequence[Event], *, story: str) -> None:
        version = len(self.versions)
        info: Action = {"timestamp": self.commit_ms(version), "operation": story}
        file_ms = self.commit_ms(version)
        if self.configuration.get("delta.enableInCommitTimestamps") == "true":
            info["inCommitTimestamp"], file_ms = file_ms, EPOCH_MS - 1_000_000
        lines = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in [{"commitInfo": info}, *actions])
        path = f"_delta_log/{version:020d}.json"
        self.put(path, lines.encode())
        os.utime(self.root / path, ns=(file_ms * 1_000_000,) * 2)
        rows = tuple(row for live in self.live.values() for row in live.rows)
        files = sorted((live.file.path, live.file.size) for live in self.live.values())
        self.versions.append(Version(self.columns, frozenset(self.partition), rows, tuple(events), files))
        self.story.append(f"{version}: {story}")

    def _protocol(self) -> Action:
        readers = [name for name in self.features if name in READER_FEATURES]
        return {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": readers,
                "writerFeatures": list(self.features),
            }
        }

    def _metadata(self) -> Action:
        configuration = dict(self.configuration)
        if self.mapped:
            configuration |= {"delta.columnMapping.mode": self.mapping, "delta.columnMapping.maxColumnId": "10000"}
        by_number = {column.number: column.name for column in self.columns}
        return {
            "metaData": {
                "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_string(self.columns, mapped=self.mapped),
                "partitionColumns": [by_number[number] for number in self.partition],
                "configuration": configuration,
                "createdTime": EPOCH_MS,
            }
        }

    def _add(self, live: Live, *, data_change: bool = True) -> Action:
        add: Action = {
            "path": live.file.logged,
            "partitionValues": dict(live.file.texts),
            "size": live.file.size,
            "modificationTime": EPOCH_MS,
            "dataChange": data_change,
        }
        stats = live.file.stats
        if live.vector is not None:
            add["deletionVector"] = live.vector
            if stats is None:  # a file with a vector must count its rows
                stats = json.dumps({"numRecords": len(live.file.rows)})
        if stats is not None:
            add["stats"] = stats
        return {"add": add}

    def _remove(self, live: Live, *, data_change: bool = True) -> Action:
        remove: Action = {
            "path": live.file.logged,
            "deletionTimestamp": self.commit_ms(len(self.versions)),
            "dataChange": data_change,
        }
        if not self.bare_removes:
            remove |= {"extendedFileMetadata": True, "partitionValues": dict(live.file.texts), "size": live.file.size}
        if live.vector is not None:
            remove["deletionVector"] = live.vector
        return {"remove": remove}

    def _by_physical_name(self, texts: Mapping[int, str | None]) -> dict[str, str | None]:
        names = {column.number: column.physical for column in self.columns}
        return {names[number]: text for number, text in texts.items()}


READER_FEATURES = ("deletionVectors", "columnMapping", "typeWidening", "timestampNtz", "v2Checkpoint")
