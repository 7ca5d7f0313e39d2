"""The files of a journal: one per run, old ones compressed in an archive, and the summary that makes most of them
unnecessary to read.

The summary names the files that it covers, with the bytes of each. So every line is read once: it is in the summary, or
read after it. A run is in the archive before its file is deleted, so a crash between any two writes loses nothing.
Without a summary, or with a damaged one, all files are read.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32
from zlib import error as compression_error

from deltacli.documents import dumps, loads
from deltacli.errors import UsageError
from deltacli.storage.replacement import replacement, unwritable
from deltacli.typing import JsonObject
from deltacli.units import DAY_MS, format_timestamp


def new_run_id(now_ms: int, newest: str | None = None) -> str:
    """Return the name of a run: names are in the order of their beginnings, also where the clock was set back, and no
    two are equal.
    """
    last_ms = -1 if newest is None else _begin_of(newest)
    moment = format_timestamp(max(now_ms, last_ms + 1)).replace("-", "").replace(":", "").replace(".", "")
    return f"{moment}-{secrets.token_hex(4)}"


def _begin_of(run: str) -> int:
    """Return the time in the name of a run, or of its file; -1 if it has no time."""
    try:
        moment = datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%S%fZ").replace(tzinfo=UTC)
    except ValueError:
        return -1
    return round(moment.timestamp() * 1_000)


JOURNAL = "journal"
ARCHIVE = "journal-archive"
SUMMARY = "journal-summary.ndjson"
SUFFIX = ".ndjson"
_COMPRESSED = f"{SUFFIX}.gz"
_FORMAT = 1
ARCHIVE_AFTER_MS = 7 * DAY_MS
"""Age from which the file of a run is archived."""
MOST_BYTES = 64 << 20
"""Bytes of journal from which younger files are archived, too, the oldest first."""

Record = JsonObject


class TableLines(NamedTuple):
    """What a summary has about a table: its state, and its trends as they are in the file."""

    state: Record
    trends: bytes


@dataclass(frozen=True)
class Summary:
    """What the journal has about the runs in some files. `files` is the number of bytes of each that are covered;
    `unfinished` are those of runs without an end, which are not archived.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    of_runs: Record = field(default_factory=dict)
    tables: Iterable[TableLines] = ()

    def write(self, state: Path) -> None:
        """Replace the summary of a state directory atomically. Raises StorageFailed."""
        head = {"fleetJournalSummary": _FORMAT, "files": self.files, "unfinished": self.unfinished, **self.of_runs}
        with replacement(str(state / SUMMARY)) as file:
            checksum = count = 0
            for line in self._lines(head):
                checksum = crc32(line, checksum)
                count += 1
                file.write(line)
            file.write(dumps({"lines": count, "crc32": checksum}) + b"\n")

    def _lines(self, head: Record) -> Iterator[bytes]:
        yield dumps(head) + b"\n"
        for table in self.tables:
            yield dumps(table.state) + b"\n"
            yield table.trends + b"\n"


def read_summary(state: Path) -> Summary:
    """Return the summary of a state directory; an empty one if it does not exist, is damaged, or does not
    belong to the files.
    """
    try:
        data = (state / SUMMARY).read_bytes()
        end = data.rindex(b"\n", 0, -1) + 1
        last = loads(data[end:])
        if crc32(memoryview(data)[:end]) != last["crc32"]:
            return Summary()
        head, *lines = data[: end - 1].split(b"\n")
        known = loads(head)
        if known.pop("fleetJournalSummary") != _FORMAT or len(lines) != last["lines"] - 1:
            return Summary()
        files = {str(name): int(size) for name, size in known.pop("files").items()}
        tables = [TableLines(loads(one), trends) for one, trends in zip(lines[::2], lines[1::2], strict=True)]
        found = Summary(files, tuple(known.pop("unfinished")), known, tables)
    except (OSError, ValueError, KeyError, TypeError):
        return Summary()
    return found if all(_size(state / JOURNAL / name, size) >= size for name, size in files.items()) else Summary()


def _size(path: Path, otherwise: int) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return otherwise  # archived


class JournalFiles:
    """Reads what was added to the files of a journal, each line once. Raises UsageError where one cannot be read."""

    def __init__(self, state: Path, summary: Summary) -> None:
        self._directory, self._archive = state / JOURNAL, state / ARCHIVE
        self.offsets = dict(summary.files)
        self._unpacked = set(summary.files)
        """Names whose archived file has nothing to add."""
        self._archived: tuple[int, list[str]] = (-1, [])

    def names(self) -> list[str]:
        """Return the files of all runs, in the order of the runs."""
        return sorted({*_names_in(self._directory, SUFFIX), *self._archived_names()})

    def _archived_names(self) -> list[str]:
        """Return the names of archived runs, which are listed again only when the directory has changed."""
        try:
            changed_ns = self._archive.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed_ns != self._archived[0]:
            names = [name.removesuffix(".gz") for name in _names_in(self._archive, _COMPRESSED)]
            self._archived = changed_ns, names
        return self._archived[1]

    def added(self) -> Iterator[tuple[str, bytes]]:
        """Yield the whole lines that were added since the last time, with the names of their files."""
        try:
            for name in self.names():
                yield from ((name, line) for line in self.lines(name))
        except (OSError, EOFError, compression_error) as fault:
            reason = (getattr(fault, "strerror", None) or str(fault)).lower()
            raise UsageError(f"the journal {self._directory} cannot be read: {reason}", code="fleet.state") from fault

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the whole lines of a file that were not read before."""
        path = self._directory / name
        try:
            if path.stat().st_size > self.offsets.get(name, 0):
                with path.open("rb") as file:
                    yield from self._whole_lines(name, file)
        except FileNotFoundError:
            if name not in self._unpacked:
                with gzip.open(self._archive / f"{name}.gz") as packed:
                    yield from self._whole_lines(name, packed)
                self._unpacked.add(name)

    def _whole_lines(self, name: str, file: Any) -> Iterator[bytes]:  # Any: a file of bytes, compressed or not
        offset = self.offsets.get(name, 0)
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # being written, or torn
            offset += len(line)
            self.offsets[name] = offset
            yield line


def archive(state: Path, summary: Summary, newest: str, now_ms: int, *, most_bytes: int = MOST_BYTES) -> None:
    """Compress the files that a written summary covers: those of old runs, and the oldest until at most so many bytes
    are left. Runs that have not ended, and the newest one, are left alone. Raises StorageFailed.
    """
    directory = state / JOURNAL
    sizes = {name: _size(directory / name, -1) for name in _names_in(directory, SUFFIX)}
    left = sum(sizes.values())
    for name in sorted(sizes):
        is_old = now_ms - _begin_of(name) >= ARCHIVE_AFTER_MS
        is_covered = summary.files.get(name) == sizes[name] and name not in summary.unfinished
        if is_covered and name != newest and (is_old or left > most_bytes):
            _archive_file(directory / name, state / ARCHIVE)
            left -= sizes[name]


def _archive_file(path: Path, directory: Path) -> None:
    """Move a file into the archive: it is complete there before it is deleted here."""
    try:
        directory.mkdir(exist_ok=True)
        with (
            path.open("rb") as source,
            replacement(str(directory / f"{path.name}.gz")) as sink,
            gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=5, mtime=0) as packed,
        ):
            shutil.copyfileobj(source, packed)
        _sync(directory)
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return  # another run has archived it
    except OSError as fault:
        raise unwritable(str(path), fault) from fault


def _sync(directory: Path) -> None:
    """Write the names in a directory to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _names_in(directory: Path, suffix: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if name.endswith(suffix) and not name.startswith(".")]
    except FileNotFoundError:
        return []
