"""What a vacuum must keep and what it must delete, derived from the history of a table and its directory."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tests.support.vacuum_model import VacuumedTable

_VECTOR = re.compile(r"(?:.*/)?deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin")


class Entry(NamedTuple):
    """Something in a directory, without its name."""

    kind: str
    size: int
    modified_ns: int
    content: str


Listing = dict[str, Entry]


def listing(directory: Path) -> Listing:
    """Everything below a directory: files `f`, directories `d`, links `l`."""
    found: Listing = {}
    for above, directories, files in os.walk(directory):
        for name in [*directories, *files]:
            place = Path(above, name)
            info = place.lstat()
            if stat.S_ISLNK(info.st_mode):
                entry = Entry("l", 0, info.st_mtime_ns, os.readlink(place))
            elif stat.S_ISDIR(info.st_mode):
                entry = Entry("d", 0, info.st_mtime_ns, "")
            else:
                digest = hashlib.md5(place.read_bytes(), usedforsecurity=False).hexdigest()
                entry = Entry("f", info.st_size, info.st_mtime_ns, digest)
            found[place.relative_to(directory).as_posix()] = entry
    return found


def files_of(table: VacuumedTable, entries: Listing) -> set[str]:
    """The regular files below the root, of a listing of its surroundings."""
    prefix = f"{table.start.root}/"
    files = (path for path, entry in entries.items() if entry.kind == "f" and path.startswith(prefix))
    return {path.removeprefix(prefix) for path in files}


class Needs:
    """What a table needs at a moment: files written before `cutoff_ms` may go."""

    def __init__(self, table: VacuumedTable, cutoff_ms: int, keep: Collection[int]) -> None:
        self._table = table
        self.cutoff_ms = cutoff_ms
        self.keep = set(keep)
        self.times = table.times(table.present())
        self.rebuildable = set(table.rebuildable())

    @property
    def reaches_back(self) -> bool:
        """True if every commit since the cutoff is in the log."""
        first = min(self.times)
        return first == 0 or self.times[first] < self.cutoff_ms

    def inside(self) -> set[int]:
        """The versions that were the newest at any moment since the cutoff, and those to be kept."""
        versions = range(len(self._table.versions))
        times = self._table.times(versions)
        return {v for v in versions if v + 1 not in times or times[v + 1] > self.cutoff_ms} | self.keep

    def must_stay(self) -> dict[str, str]:
        """Files that a version inside the retention needs, with the reason."""
        table = self._table
        found: dict[str, str] = {}
        for number in sorted(self.inside()):
            for live in table.versions[number].live.values():
                for path in live.paths:
                    if number in self.rebuildable or self._is_told(path, number):
                        found[path] = f"version {number} needs it"
        for number, time_ms in self.times.items():
            if time_ms >= self.cutoff_ms:
                found |= dict.fromkeys(table.versions[number].changes, f"changes of version {number}")
        return found

    def stays(self) -> set[str]:
        """Everything that the rules protect: what must stay, what retained commits name, unexpired tombstones."""
        table = self._table
        found = set(self.must_stay())
        for number, time_ms in self.times.items():
            if time_ms >= self.cutoff_ms:
                found |= table.versions[number].named
            if table.versions[number].moment_ms >= self.cutoff_ms:
                found |= table.versions[number].removed
        for removal in table.tombstones.values():
            if removal.moment_ms >= self.cutoff_ms:
                found |= removal.paths
        return found

    def eligible(self, entries: Listing) -> set[str]:
        """What a full run must delete: old, visible files of a table that nothing protects. Where the log does not
        reach back to the cutoff, only those of which it tells that they were removed before.
        """
        stays, known = self.stays(), self._known()
        shown = {
            path
            for path in files_of(self._table, entries)
            if self.is_old(path, entries)
            and path not in stays
            and self.is_visible(path, entries, self._columns())
            and (path in known or is_known_by_name(path))
        }
        if self.reaches_back:
            return shown
        expired = {path for removal in self._table.tombstones.values() for path in removal.paths}
        return {path for path in shown if path in expired}

    def may_go(self, path: str, entries: Listing) -> bool:
        """True for an old regular file that is a table's by its name or by any commit that ever was, is not hidden and
        not protected."""
        table = self._table
        ever = {path for version in table.versions for path in version.named}
        columns = {version.partition for version in table.versions}
        is_ours = path in ever or is_known_by_name(path)
        return is_ours and self.is_visible(path, entries, columns) and path not in self.stays()

    def is_old(self, path: str, entries: Listing) -> bool:
        return entries[f"{self._table.start.root}/{path}"].modified_ns // 1_000_000 < self.cutoff_ms

    def is_removable(self, path: str, entries: Listing) -> bool:
        """True for an old empty directory, by its path beside the root's, that is neither hidden nor another table."""
        below = path.removeprefix(f"{self._table.start.root}/")
        return (
            entries[path].kind == "d"
            and below != path
            and not any(other.startswith(f"{path}/") for other in entries)
            and entries[path].modified_ns // 1_000_000 < self.cutoff_ms
            and self.is_visible(f"{below}/x", entries, self._columns())
        )

    def is_visible(self, path: str, entries: Listing, columns: Collection[str | None]) -> bool:
        """True if no part of a path is hidden, and none of its directories is a table of its own."""
        parts = path.split("/")
        shown = ("_delta_index", "_change_data", *(f"{column}=" for column in columns))
        if any(part.startswith((".", "_")) and not part.startswith(shown) for part in parts):
            return False
        above = ("/".join([self._table.start.root, *parts[:length]]) for length in range(1, len(parts)))
        return not any(f"{directory}/_delta_log" in entries for directory in above)

    def removed(self) -> set[str]:
        """What commits of the log that are not retained have removed, as far as their paths read as they are meant, and
        none of them was hidden to a run in between, by the partition columns that were known then.
        """
        table = self._table
        old = [table.versions[number] for number, time_ms in self.times.items() if time_ms < self.cutoff_ms]
        found = {path for version in old for path in version.removed | version.changes} - table.misread
        every = [{partition} for partition in {version.partition for version in table.versions}]
        return {path for path in found if all(self.is_visible(path, {}, columns) for columns in every)}

    def _is_told(self, path: str, version: int) -> bool:
        """True unless a commit that is gone from the log removed the file and did not give the time."""
        table = self._table
        for number in range(version + 1, len(table.versions)):
            if path in table.versions[number].removed:
                return number in self.times or path not in table.versions[number].untimely
        return True

    def _known(self) -> set[str]:
        table = self._table
        found = {path for number in self.times for path in table.versions[number].named}
        found |= {path for removal in table.tombstones.values() for path in removal.paths}
        return found

    def _columns(self) -> set[str | None]:
        return {self._table.versions[number].partition for number in self.times}


def is_known_by_name(path: str) -> bool:
    """True for names of data files, deletion vectors, change data and indexes."""
    return (
        path.endswith(".parquet")
        or _VECTOR.fullmatch(path) is not None
        or path.startswith(("_change_data/", "_delta_index/"))
    )
