"""New files of a change: deleted where no version has them, kept where a commit has them or may, or left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltacli.changing.basis import LOOK_SECONDS
from deltacli.core.errors import DeltacliError, FileMissing
from deltacli.core.units import format_size, plural
from deltacli.storage import Failed
from deltacli.table.handle import TableHandle

_NAMED = 10


class NewFiles:
    """Files that a change has written below the table, by their paths there."""

    def __init__(self, table: TableHandle, left: list[str] | None = None) -> None:
        self._table = table
        self._settled = set[str]()
        self.left: list[str] = [] if left is None else left
        """Those that no version has, or perhaps none, and that were not deleted."""

    def keep(self, paths: Iterable[str]) -> None:
        """Keep files that a commit has, or may have."""
        self._settled.update(paths)

    def leave(self, paths: Iterable[str]) -> None:
        """Keep files of which nobody knows whether a version has them."""
        self.left += paths

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files that no version has. What cannot be deleted is left behind: it is no error."""
        left = dict.fromkeys(paths)
        self._settled.update(left)
        try:
            for path, answer in self._table.writable().delete_many([*left]) if left else ():
                if not isinstance(answer, Failed):
                    left.pop(path, None)
        except DeltacliError:
            pass
        finally:
            self.left += left

    def delete_others(self, paths: Iterable[str]) -> None:
        """Delete those of some files that are neither kept nor deleted."""
        self.delete(sorted({*paths} - self._settled))

    @property
    def facts(self) -> dict[str, str]:
        """The files that are left behind, as facts of an error."""
        named = {f"new file {number}": path for number, path in enumerate(self.left[:_NAMED], 1)}
        more = len(self.left) - _NAMED
        return named | ({"more": plural(more, "new file")} if more > 0 else {})

    def require_there(self, sizes: Mapping[str, int], since: float) -> bool:
        """Return True where files are there in their sizes: looked at on a disk, and on a store over a network where
        the time `since` is a minute ago. Raises FileMissing.
        """
        storage = self._table.storage
        if not storage.capabilities.cheap_listing and self._table.machine.monotonic() - since <= LOOK_SECONDS:
            return True
        for path, found in zip(sizes, self._table.engine.run(self._size_of, list(sizes)), strict=True):
            if found != sizes[path]:
                raise FileMissing(
                    f"{path} was written by this run, and another program has changed or deleted it",
                    facts={
                        "found": "no such file" if found is None else format_size(found),
                        "written": format_size(sizes[path]),
                    },
                )
        return True

    def _size_of(self, path: str) -> int | None:
        try:
            return self._table.storage.stat(path).size_bytes
        except FileMissing:
            return None
