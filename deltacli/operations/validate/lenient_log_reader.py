"""Reading the files of a log one by one, so that an unreadable file does not affect the others."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.log.place import Place
from deltacli.delta.log.segment import LogFile
from deltacli.delta.rules.framework.raw_lines import LineScanner, ScannedLines
from deltacli.delta.rules.log.commit_lines import BAD_JSON
from deltacli.engine.base import Engine
from deltacli.errors import CommitCorrupt, FileMissing, PathExternal, PermissionRefused, StorageFailed
from deltacli.storage import Storage
from deltacli.work.commits.reading import is_large, stream_lines

Fault = StorageFailed | PathExternal
"""The reason why a file could not be read."""

FAULTS = (StorageFailed, PathExternal)

Scan = ScannedLines | Fault
"""The lines of a file, or the reason why it could not be read."""


class LogReader:
    """Reads files of one log, several at a time where that is faster; the scanner caches valid lines."""

    def __init__(self, storage: Storage, engine: Engine) -> None:
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

    def read(self, files: Sequence[LogFile]) -> list[bytes | Fault]:
        """Return the bytes of files, or the reason why they could not be read."""
        at_once = self._storage.capabilities.parallel_reads
        return list(self._engine.run(self._read_one, files, at_once=at_once))

    def _read_one(self, file: LogFile) -> bytes | Fault:
        try:
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
