"""Reading the files of a log one by one, so that an unreadable file does not affect the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltacli.core.errors import (
    CommitCorrupt,
    DeltacliError,
    FileMissing,
    PathExternal,
    PermissionRefused,
    StorageFailed,
)
from deltacli.core.hints import command
from deltacli.core.units import plural
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY, Place
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.delta.paths import decode
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import FILE_OUTSIDE
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.raw_lines import LineScanner, ScannedLines
from deltacli.rules.framework.views import LocatedAction
from deltacli.rules.log.commit_lines import BAD_JSON
from deltacli.storage import ReadStorage
from deltacli.table.find_log import read_hint_file
from deltacli.work.commits.reading import is_large, stream_lines

MOST_BYTES = 4 << 20
"""How far into a file is read; commits of megabytes are not worth a wait."""
LONGEST_LINE = 64 << 10
_PIECE = 256 << 10


def read_log_line(storage: ReadStorage, path: str, line: int) -> bytes | None:
    """Return line `line` (from 1) of a file, without its end; None where it is too far in, too long, or unreadable."""
    data, read = b"", 0
    try:
        while read < MOST_BYTES:
            piece = storage.read_range(path, read, _PIECE)
            read += len(piece)
            *whole, data = (data + piece).split(b"\n")
            if line <= len(whole):
                return _short(whole[line - 1])
            line -= len(whole)
            if len(piece) < _PIECE:
                return _short(data) if line == 1 else None
    except DeltacliError:
        pass  # the finding says what is wrong without its line
    return None


def _short(line: bytes) -> bytes | None:
    return line if 0 < len(line) <= LONGEST_LINE else None


class RefusedLogFiles:
    """The refused files of the log of a table at a URI; `refused` has the refusals by name."""

    def __init__(self, uri: str) -> None:
        self._table = decode(uri.removeprefix("file://")) if uri.startswith("file://") else uri
        self.refused: dict[str, PathExternal] = {}

    def not_checked(self) -> Iterator[str]:
        """Yield one sentence about all of them."""
        if self.refused:
            yield f"{self._files}: not opened without {self._command}"

    def findings(self, listing: LogListing, *, is_rebuilt: bool) -> Iterator[Finding]:
        """Yield the finding for a table whose newest version needs one of them; `is_rebuilt`: the version was
        rebuilt.
        """
        if not self.refused or not (self._are_needed(listing) if is_rebuilt else self._hold_actions(listing)):
            return
        first, refusal = next(iter(self.refused.items()))
        rule = FILE_OUTSIDE._replace(fix=FILE_OUTSIDE.fix._replace(advice=f"if you trust the table: {self._command}"))
        message = f"the newest version cannot be read without {self._files}, which was not opened"
        yield rule.at(Place(f"{LOG_DIRECTORY}/{first}"), message, seen=refusal.facts.get("leads to"))

    def _are_needed(self, listing: LogListing) -> bool:
        """Return whether a commit after the newest checkpoint was refused, or a file of each form of that
        checkpoint.
        """
        newest = max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)
        forms = [checkpoint.files for checkpoint in listing.checkpoints if checkpoint.version == newest]
        commits = (file.name for version, file in listing.commits.items() if version > newest)
        return any(name in self.refused for name in commits) or (
            bool(forms) and all(any(file.name in self.refused for file in files) for files in forms)
        )

    def _hold_actions(self, listing: LogListing) -> bool:
        """Return whether a commit or a checkpoint was refused, so that an older start has to be used."""
        checkpoints = (file.name for checkpoint in listing.checkpoints for file in checkpoint.files)
        commits = (file.name for file in listing.commits.values())
        return not self.refused.keys().isdisjoint([*checkpoints, *commits])

    @property
    def _files(self) -> str:
        count = len(self.refused)
        which = "which lies" if count == 1 else f"the first {next(iter(self.refused))}, which lie"
        name = next(iter(self.refused)) if count == 1 else plural(count, "file")
        return f"{name} of the log, {which} outside the table"

    @property
    def _command(self) -> str:
        prefix = next(iter(self.refused.values())).prefix or "PREFIX"
        return command("validate", table=self._table, allow_external=[prefix])


Fault = StorageFailed | PathExternal
"""The reason why a file could not be read."""

FAULTS = (StorageFailed, PathExternal)

Scan = ScannedLines | Fault
"""The lines of a file, or the reason why it could not be read."""


class LogReader:
    """Reads files of one log, several at a time where that is faster; the scanner caches valid lines."""

    def __init__(self, storage: ReadStorage, engine: Engine) -> None:
        self.scanner = LineScanner()
        self._storage = storage
        self._engine = engine

    def scan(self, files: Sequence[LogFile]) -> dict[str, Scan]:
        """Scan commits or compactions; return the lines or the fault by name. Large files are read in blocks."""
        small = [file for file in files if not is_large(file)]
        content = dict(zip([file.name for file in small], self.read(small), strict=True))
        scans: dict[str, Scan] = {}
        for file in files:
            place = Place(f"{LOG_DIRECTORY}/{file.name}", None, file.version)
            data = content.get(file.name)
            if data is None:
                scans[file.name] = self._scan_large(file, place)
            else:
                scans[file.name] = data if isinstance(data, FAULTS) else self.scanner.scan(data, place)
        return scans

    def actions_of(self, files: Sequence[LogFile]) -> list[list[LocatedAction]] | None:
        """Return the actions of each file, None if one of them cannot be read completely."""
        scanned = self.scan(files).values()
        sound = [lines for lines in scanned if not isinstance(lines, FAULTS)]
        if len(sound) < len(files) or not all(lines.is_readable and not lines.broken for lines in sound):
            return None
        return [lines.actions for lines in sound]

    def read(self, files: Sequence[LogFile]) -> list[bytes | Fault]:
        """Return the bytes of files, or the reason why they could not be read."""
        at_once = self._storage.capabilities.parallel_reads
        return list(self._engine.run(self._read_one, files, at_once=at_once))

    def _read_one(self, file: LogFile) -> bytes | Fault:
        try:
            if file.name == HINT_NAME:
                return read_hint_file(self._storage)
            return self._storage.read(f"{LOG_DIRECTORY}/{file.name}")
        except FAULTS as fault:
            self.require_tolerable(fault)
            return fault

    def require_tolerable(self, fault: Fault) -> None:
        """Raise a fault that would affect every other file, too, such as a network failure; not one of a single
        file.
        """
        if (
            not isinstance(fault, FileMissing | PermissionRefused | PathExternal)
            and not self._storage.capabilities.cheap_listing
        ):
            raise fault

    def _scan_large(self, file: LogFile, place: Place) -> Scan:
        try:
            return self.scanner.scan_lines(stream_lines(self._storage, file), place)
        except FAULTS as fault:
            self.require_tolerable(fault)
            return fault
        except CommitCorrupt as corrupt:  # a line that does not fit into memory, or a file that was truncated meanwhile
            return ScannedLines([], [], [BAD_JSON.at(place, corrupt.message)], False)
