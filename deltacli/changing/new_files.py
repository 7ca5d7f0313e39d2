"""Data files that a change has written and not committed yet, and their cleanup if the commit fails.

Data files are written before the commit that adds them. When the change ends, each of them is

    kept           a commit references the file, or may reference it
    deleted        no commit references the file
    left behind    the file could not be deleted, or it is unknown whether a commit references it. The error lists such
                   files, and a later vacuum deletes those that no commit references
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS
from deltacli.core.errors import DeltacliError, FileMissing
from deltacli.core.units import format_size, plural
from deltacli.storage import Failed
from deltacli.table.handle import TableHandle

_MAX_FILES_NAMED = 10


class NewFiles:
    """The data files that a change has written. Paths are relative to the table directory.

    Attributes:
        left_behind: The paths of the files that are left behind.
    """

    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._settled_paths = set[str]()
        self.left_behind: list[str] = []

    def keep(self, paths: Iterable[str]) -> None:
        """Keep files that a commit references, or may reference. `delete_unsettled` does not delete them."""
        self._settled_paths.update(paths)

    def leave_behind(self, paths: Iterable[str]) -> None:
        """Leave files behind, because it is unknown whether a commit references them."""
        self.left_behind += paths

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files that no commit references.

        Files that cannot be deleted are left behind. This is not an error: they only waste space until the next vacuum,
        and another error is usually being raised already.
        """
        remaining_paths = dict.fromkeys(paths)
        self._settled_paths.update(remaining_paths)
        if not remaining_paths:
            return
        try:
            for path, deletion in self._table.writable().delete_many(list(remaining_paths)):
                if not isinstance(deletion, Failed):
                    remaining_paths.pop(path, None)
        except DeltacliError:
            # The store failed before it reached the files in `remaining_paths`.
            pass
        finally:
            self.left_behind += remaining_paths

    def delete_unsettled(self, paths: Iterable[str]) -> None:
        """Delete those of some files that were neither kept nor deleted before."""
        self.delete(sorted({*paths} - self._settled_paths))

    @property
    def left_behind_facts(self) -> dict[str, str]:
        """The files that are left behind, as facts of an error: `{"new file 1": "part-0.parquet"}`."""
        named_paths = self.left_behind[:_MAX_FILES_NAMED]
        facts = {f"new file {number}": path for number, path in enumerate(named_paths, 1)}
        unnamed_count = len(self.left_behind) - len(named_paths)
        if unnamed_count:
            facts["more"] = plural(unnamed_count, "new file")
        return facts

    def require_present(self, size_by_path: Mapping[str, int], written_at: float) -> bool:
        """Require that files still exist, right before a commit references them.

        A vacuum of another program may have deleted them, because no version has referenced them so far. On a local
        disk each file is checked every time. On a remote store, where each check is a request, the files are checked
        only if they were written more than a minute ago.

        Args:
            size_by_path: The size in bytes that each file was written with.
            written_at: When the files were written, by the monotonic clock of this process.

        Returns:
            Always True, so that the method can be the `recheck` of a commit.

        Raises:
            FileMissing: If a file is missing or has another size.
        """
        storage = self._table.storage
        if not storage.capabilities.has_cheap_requests:
            age_seconds = self._table.machine.monotonic() - written_at
            if age_seconds <= MAX_FILE_CHECK_AGE_SECONDS:
                return True

        paths = list(size_by_path)
        sizes = self._table.engine.run(self._find_size, paths)
        for path, size_bytes in zip(paths, sizes, strict=True):
            if size_bytes != size_by_path[path]:
                raise FileMissing(
                    f"{path} was written by this run, and another program has changed or deleted it",
                    facts={
                        "found": "no such file" if size_bytes is None else format_size(size_bytes),
                        "written": format_size(size_by_path[path]),
                    },
                )
        return True

    def _find_size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if the file does not exist."""
        try:
            return self._table.storage.stat(path).size_bytes
        except FileMissing:
            return None
