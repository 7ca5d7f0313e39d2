"""Bringing files that a restore needs from where they still are, before the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.paths.locate_paths import text_of
from deltacli.errors import StorageFailed
from deltacli.operations.log.log_copy import list_whole_log
from deltacli.operations.recover.needed import NeededFiles, whole
from deltacli.operations.recover.open_sources import data_sources, open_sources, require_usable
from deltacli.operations.recover.presence import look_for
from deltacli.operations.recover.put import put_file
from deltacli.operations.recover.sources import FoundFiles, Source, find_in
from deltacli.operations.recover.verify import Problem, verify
from deltacli.operations.restore.verify import Checked, ProblemFile
from deltacli.progress import weighed

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle


@dataclass(frozen=True, eq=False)
class Brought:
    """Files that are found elsewhere: by path, the source, the bytes, and whether a damaged file is in their place."""

    found: tuple[FoundFiles, ...]
    files: Mapping[str, tuple[Source, int, bool]]

    @property
    def size_bytes(self) -> int:
        """The bytes to be copied."""
        return sum(size for _, size, _ in self.files.values())

    def put(self, table: TableHandle) -> None:
        """Put the files in their places, and look at them again. A file that is there as it should be stays, so
        running it again continues an interrupted run. Raises StorageFailed.
        """
        total = self.size_bytes

        def put(path: str) -> int:
            source, size, replaces = self.files[path]
            put_file(source, path, size, table.storage, replace=replaces)
            return size

        with weighed(
            table.progress, "putting files in place", unit="files", total=len(self.files), weight=total
        ) as step:
            at_once = table.storage.capabilities.parallel_reads
            for size in table.engine.run(put, list(self.files), at_once=at_once):
                step.advance(weight=size)
        for found in self.found:
            _require_sound(table, found.needed.where(found.is_found))


def look_elsewhere(
    table: TableHandle, checked: Checked, names: Sequence[str], table_id: str
) -> tuple[tuple[ProblemFile, ...], Brought | None]:
    """Look for files that cannot be used in sources; return the same problems with the source of each, and the files.

    Raises Refused for the source of another table, UsageError, Unreadable and StorageFailed for one that cannot be
    opened.
    """
    opened = open_sources(table, names, list_whole_log(table.storage) or {}, table_id)
    require_usable(opened)
    every: list[FoundFiles] = []
    files: dict[str, tuple[Source, int, bool]] = {}
    is_damaged = {one.path for one in checked.problems if one.problem is not Problem.MISSING}
    for needed in checked.needed:
        sources = data_sources(table, opened, needed, table_id)
        found = find_in(sources, needed, table.engine, table.progress)
        every.append(found)
        columns = (whole(found.needed.files["path"]), found.sources, found.sizes)
        chosen = (pc.filter(column, found.is_found).to_pylist() for column in columns)
        for path, number, size in zip(*chosen, strict=True):
            files[text_of(path)] = sources[number], size, text_of(path) in is_damaged
    told = (one._replace(source=files[one.path][0].name) if one.path in files else one for one in checked.problems)
    return tuple(told), Brought(tuple(every), files) if files else None


def _require_sound(table: TableHandle, needed: NeededFiles) -> None:
    """Raise StorageFailed where a file that was put in its place is not what the log says."""
    found, sizes = look_for(table.storage, needed, table.engine, table.progress)
    problems = verify(found, sizes, table.stores, table.engine, table.progress).problems
    wrong = pc.filter(whole(found.files["path"]), pc.is_valid(problems)).to_pylist()
    if wrong:
        raise StorageFailed(
            f"{text_of(wrong[0])} was put in its place and cannot be used", facts={"files": str(len(wrong))}
        )
