"""The files of a version that a plan reads: where Spark finds each, and why it may have to be read by our own scan.

Spec: Add File and Remove File; Per-file Statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.errors import DataUnreadable, FileMissing
from deltacli.core.hints import command
from deltacli.delta.paths import canonical, decode
from deltacli.storage.secrets import without_secrets
from deltacli.table.scan import Selection, data_files
from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    import pyarrow

    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot
    from deltacli.work.rows.table_files import TableFiles

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ALIASES = {"s3": "s3", "s3a": "s3", "s3n": "s3"}
"""Schemes that name one store. Spark is given the one that the caller wrote."""


class SparkFile(NamedTuple):
    """A live file. `location` is how Spark is given it, not encoded; `place` is how its own spelling is compared."""

    file: DataFile
    location: str
    place: str
    inner: str | None
    """The path below the table's directory; None for a file elsewhere."""

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.place.rpartition("/")[2]


@dataclass
class LiveFiles:
    """The files of a version that may have matching rows, and how many were pruned."""

    files: list[DataFile]
    by_partition: int = 0
    by_statistics: int = 0


def find_live_files(snapshot: Snapshot, selection: Selection) -> LiveFiles:
    """Return the live files, without those that the condition excludes. Raises DataUnreadable (`partition.*`)."""

    def judged(adds: pyarrow.RecordBatch) -> LiveFiles:
        if selection.predicate is None:
            return LiveFiles(data_files(adds, snapshot.config, selection.needed))
        from deltacli.delta.predicate.prune import prune_files

        pruned = prune_files(adds, selection.predicate, snapshot.config)
        kept = data_files(pc.filter(adds, pruned.kept), snapshot.config, selection.needed)
        by_partition = pruned.by_partition.true_count
        return LiveFiles(kept, by_partition, adds.num_rows - len(kept) - by_partition)

    found = LiveFiles([])
    for part in snapshot.file_actions.map_actions("add", judged, fields=_FIELDS):
        found.files += part.files
        found.by_partition += part.by_partition
        found.by_statistics += part.by_statistics
    return found


_FIELDS = ("path", "size", "partitionValues", "stats", "deletionVector")


class Locations:
    """Where Spark finds files of a table. `uri` is the table as the caller wrote it."""

    def __init__(self, files: TableFiles, storage: ReadStorage, uri: str) -> None:
        self._files, self._storage = files, storage
        scheme = _SCHEME.match(uri)
        self._scheme = scheme[1] if scheme else None
        self.root_place = canonical(storage.uri).rstrip("/")
        self.root = self._spelled(self.root_place)

    def locate(self, file: DataFile) -> SparkFile:
        """Return the place of a file. Raises PathExternal and UsageError as `TableFiles.locate` does."""
        storage, inner = self._files.locate(file.path)
        if decode(file.path) != file.path and (other := self._files.as_written(file.path)) is not None:
            storage, inner = self._existing((storage, inner), other)
        root = self.root_place if storage is self._storage else canonical(storage.uri).rstrip("/")
        place = f"{root}/{inner}"
        return SparkFile(file, self._spelled(place), place, inner if storage is self._storage else None)

    def _existing(self, decoded: tuple[ReadStorage, str], written: tuple[ReadStorage, str]) -> tuple[ReadStorage, str]:
        """Return which of two spellings exists: some writers do not encode paths."""
        for storage, path in (decoded, written):
            try:
                storage.stat(path)
            except FileMissing:
                continue
            return storage, path
        return decoded

    def _spelled(self, place: str) -> str:
        if place.startswith("/"):
            return f"file:{place}"
        scheme = _SCHEME.match(place)
        if scheme and self._scheme and _ALIASES.get(self._scheme) == _ALIASES.get(scheme[1], scheme[1]):
            return f"{self._scheme}://{place[scheme.end() :]}"
        return place


def odd_name(file: SparkFile) -> str | None:
    """Return why Spark would skip a file without an error, or cannot open it; None where it reads the file."""
    name = file.name
    if name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_"):
        return "Spark skips files with such a name"
    if ":" in name:
        return "Spark cannot open a name with a colon"
    try:
        file.place.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return None


def repeated_places(files: list[SparkFile]) -> Iterator[SparkFile]:
    """Yield each file that has the place of an earlier one. A list of paths gives Spark such a file once or twice."""
    seen: set[str] = set()
    for file in files:
        if file.place in seen:
            yield file
        seen.add(file.place)


def missing_file(file: SparkFile) -> DataUnreadable:
    """Return the error for a live file that Spark does not find."""
    return DataUnreadable(
        f"{without_secrets(decode(file.file.path))} does not exist",
        code="data.file-missing",
        facts={"file": without_secrets(file.location)},
        hint=command("validate", level="storage"),
    )
