"""The new data files of a change, until it is certain whether a version names them.

kept          a commit names them, or may name them
deleted       no version names them
left behind   nobody knows, or they could not be deleted. The user is told, and a vacuum deletes them later
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltacli.changing.basis import MAX_FILE_CHECK_AGE_SECONDS
from deltacli.core.errors import DeltacliError, FileMissing
from deltacli.core.units import format_size, plural
from deltacli.storage import Failed
from deltacli.table.handle import TableHandle

_MAX_NAMED = 10


class NewFiles:
    """Files that a change has written below a table. They are named by their paths there.

    Attributes:
        left: The files that are left behind.
    """

    def __init__(self, table: TableHandle, left: list[str] | None = None) -> None:
        """Begin without files.

        Args:
            table: The table.
            left: The list to add the files to that are left behind, such as that of an outcome.
        """
        self._table = table
        self._settled = set[str]()
        self.left: list[str] = [] if left is None else left

    def keep(self, paths: Iterable[str]) -> None:
        """Keep files that a commit names, or may name."""
        self._settled.update(paths)

    def leave(self, paths: Iterable[str]) -> None:
        """Leave files behind of which nobody knows whether a version names them."""
        self.left += paths

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files that no version names.

        Files that cannot be deleted are left behind. That is no error, because a vacuum deletes them later.
        """
        remaining = dict.fromkeys(paths)
        self._settled.update(remaining)
        if not remaining:
            return
        try:
            for path, answer in self._table.writable().delete_many(list(remaining)):
                if not isinstance(answer, Failed):
                    remaining.pop(path, None)
        except DeltacliError:
            # The files that were not reached stay in `remaining`.
            pass
        finally:
            self.left += remaining

    def delete_others(self, paths: Iterable[str]) -> None:
        """Delete those of some files that were neither kept nor deleted before."""
        self.delete(sorted({*paths} - self._settled))

    @property
    def facts(self) -> dict[str, str]:
        """The files that are left behind, as facts of an error."""
        named = self.left[:_MAX_NAMED]
        facts = {f"new file {number}": path for number, path in enumerate(named, 1)}
        more = len(self.left) - len(named)
        if more:
            facts["more"] = plural(more, "new file")
        return facts

    def require_present(self, sizes: Mapping[str, int], since: float) -> bool:
        """Require that files are still there, right before a commit names them.

        A vacuum of another program may have deleted them, because no version named them yet. On a disk they are looked
        at each time; on a remote store, where each look is a request, if the last one is more than a minute old.

        Args:
            sizes: The size in bytes that each file was written with.
            since: When the files were written, by the monotonic clock of this process.

        Returns:
            True, as the `recheck` of a commit.

        Raises:
            FileMissing: If a file is gone or has another size.
        """
        storage = self._table.storage
        if not storage.capabilities.cheap_listing:
            age_seconds = self._table.machine.monotonic() - since
            if age_seconds <= MAX_FILE_CHECK_AGE_SECONDS:
                return True

        paths = list(sizes)
        for path, size_bytes in zip(paths, self._table.engine.run(self._find_size, paths), strict=True):
            if size_bytes != sizes[path]:
                raise FileMissing(
                    f"{path} was written by this run, and another program has changed or deleted it",
                    facts={
                        "found": "no such file" if size_bytes is None else format_size(size_bytes),
                        "written": format_size(sizes[path]),
                    },
                )
        return True

    def _find_size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it is gone."""
        try:
            return self._table.storage.stat(path).size_bytes
        except FileMissing:
            return None
