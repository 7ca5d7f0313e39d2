"""Listing a table for a vacuum: directory by directory, without hidden ones and other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.vacuum.names import HiddenNames, kind_of_directories
from deltacli.errors import FileMissing, UsageError
from deltacli.operations.vacuum.candidates import ListedFiles
from deltacli.operations.vacuum.surroundings.other_tables import TELLING, kind_at
from deltacli.storage import PathKind, Storage, WalkEntry, link_targets

_FILES_A_BATCH = 131_072


@dataclass
class TableWalk:
    """Walks over the files of a table once and records other entries."""

    storage: Storage
    names: HiddenNames
    """The rules known when the walk begins; a directory `key=value` is entered in any case."""
    directory: str = ""
    tables: dict[str, str] = field(default_factory=dict)
    """Directories that are tables of their own, '' where the root is also another one -> the format."""
    links: list[str] = field(default_factory=list)
    """Entries that are neither files nor directories, by path: links, and rarely others."""
    hidden_directories: list[str] = field(default_factory=list)
    """Hidden directories that were not entered."""
    empty_directories: list[tuple[str, int]] = field(default_factory=list)
    """Empty directories with their times in epoch milliseconds."""

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files. Raises UsageError where the start directory is not part of the table."""
        if self.directory:
            self.require_part()
        held = _Held()
        for walked in self.storage.walk(self.directory, self._enter):
            self.links += links_in(walked)
            self._note_table(walked.directory, walked.odd)  # its log may be a link
            if walked.is_empty and walked.directory and walked.directory_modified_ms is not None:
                self.empty_directories.append((walked.directory, walked.directory_modified_ms))
            held.take(walked)
            if len(held) >= _FILES_A_BATCH:
                yield held.flush()
        if len(held):
            yield held.flush()

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        names = [name for name in directories if path or name != LOG_DIRECTORY]
        if self._note_table(path, names) and path:
            return ()
        below = f"{path}/" if path else ""
        visible = [name for name in names if "=" in name or not self.names.hides_directory(below + name)]
        self.hidden_directories += [below + name for name in set(names).difference(visible)]
        return visible

    def _note_table(self, directory: str, names: Sequence[str]) -> bool:
        """Record that a directory is a table if an entry has a name that indicates one."""
        kind = kind_of_directories([name for name in names if directory or name != LOG_DIRECTORY])
        if kind is not None:
            self.tables[directory] = kind
        return kind is not None

    def require_part(self) -> None:
        """Check that the start directory exists and is neither hidden nor inside another table; for the root record
        whether it is another table.
        """
        shared = kind_at(self.storage, "")
        if shared is not None:
            self.tables[""] = shared
        parts = self.directory.split("/")
        for length in range(1, len(parts) + 1):
            above = "/".join(parts[:length])
            if self.names.hides_directory(above):
                raise UsageError(
                    f"--prefix {self.directory}: {parts[length - 1]} is hidden, and vacuum skips hidden directories"
                )
            if self._is_link(above):
                raise UsageError(f"--prefix {self.directory}: {above} is a link, and vacuum does not follow links")
            kind = self._kind_at(above)
            if kind is not None:
                raise UsageError(f"--prefix {self.directory}: {above} is a {kind} table of its own")

    def _is_link(self, path: str) -> bool:
        return self.storage.capabilities.has_directories and [*link_targets(self.storage, [path])] != [(path, path)]

    def _kind_at(self, path: str) -> str | None:
        try:
            return kind_at(self.storage, path)
        except FileMissing:
            if self.storage.kind_of(path) is PathKind.FILE:
                raise UsageError(f"--prefix {self.directory}: this is a file, not a directory") from None
            raise UsageError(
                f"--prefix {self.directory}: the table has no such directory", facts={"looked for": path}
            ) from None


def links_in(walked: WalkEntry) -> list[str]:
    """Return entries of a directory that are neither files nor directories, by path: links, and rarely others."""
    below = f"{walked.directory}/" if walked.directory else ""
    return [below + name for name in walked.odd if name and not name.endswith("/")]


class _Held:
    """Collects files of several directories into columns."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._sizes: list[int] | None = []
        self._times: list[int] | None = []
        self._is_plain = True

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, walked: WalkEntry) -> None:
        prefix = f"{walked.directory}/" if walked.directory else ""
        if walked.sizes is not None or walked.directory.rpartition("/")[2] in TELLING:
            self._is_plain = False
        self._paths += [prefix + name for name in walked.names] if prefix else walked.names
        if walked.sizes is None or walked.modified_ms is None:
            self._sizes = self._times = None
        elif self._sizes is not None and self._times is not None:
            self._sizes += walked.sizes
            self._times += walked.modified_ms

    def flush(self) -> ListedFiles:
        import pyarrow as pa

        listed_files = ListedFiles(
            self._paths,
            None if self._sizes is None else pa.array(self._sizes, pa.int64()),
            None if self._times is None else pa.array(self._times, pa.int64()),
            self._is_plain,
        )
        self._paths, self._sizes, self._times, self._is_plain = [], [], [], True
        return listed_files
