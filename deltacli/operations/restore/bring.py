"""Bringing files that a restore needs from where they still are, before the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.errors import StorageFailed
from deltacli.operations.log.log_copy import list_whole_log
from deltacli.operations.recover.open_sources import data_sources, open_sources, require_usable
from deltacli.operations.recover.sources import FoundFiles, Source, find_in, put_found, tags_of
from deltacli.operations.recover.verify import verify
from deltacli.operations.restore.verify import Checked, ProblemFile
from deltacli.operations.table.needed import NeededFiles, look_for, whole

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle


@dataclass(frozen=True, eq=False)
class Brought:
    """Files that are found elsewhere, their sources, and the tags of the damaged files that are in their places."""

    found: FoundFiles
    sources: Sequence[Source]
    damaged: Mapping[str, str]

    @cached_property
    def count(self) -> int:
        """The number of files to be copied."""
        return len(self.found.sources) - int(self.found.sources.null_count)

    @cached_property
    def size_bytes(self) -> int:
        """Their bytes."""
        return pc.sum(pc.filter(self.found.sizes, self.found.is_found)).as_py() or 0

    @property
    def names(self) -> list[str]:
        """The sources that have one, as the caller named them."""
        return sorted({self.sources[number].name for number in pc.unique(self.found.sources.drop_null()).to_pylist()})

    def put(self, table: TableHandle) -> None:
        """Put the files in their places, and look at them again. A file that is there as it should be stays, so
        running it again continues an interrupted run. Raises StorageFailed.
        """
        put_found(self.found, self.sources, table.storage, table.engine, progress=table.progress, damaged=self.damaged)
        needed = self.found.needed.where(self.found.is_found)
        found, sizes = look_for(table.storage, needed, table.engine, table.progress)
        problems = verify(found, sizes, table.stores, table.engine, table.progress).problems
        wrong = pc.filter(whole(found.files["path"]), pc.is_valid(problems)).to_pylist()
        if wrong:
            raise StorageFailed(
                f"{text_of(wrong[0])} was put in its place and cannot be used", facts={"files": str(len(wrong))}
            )


def look_elsewhere(
    table: TableHandle, checked: Checked, names: Sequence[str], table_id: str
) -> tuple[tuple[ProblemFile, ...], Brought | None, tuple[str, ...]]:
    """Look for files that cannot be used in sources; return the same problems with the source of each, the files, and
    notes on sources.

    A damaged file is looked for by the spelling of its path that the table has, a missing one by any. Raises Refused
    for the source of another table, UsageError, Unreadable and StorageFailed for one that cannot be opened.
    """
    opened = open_sources(table, names, list_whole_log(table.storage) or {}, table_id)
    notes = require_usable(opened)
    needed = checked.needed
    if needed is None:
        return checked.problems, None, notes
    there, sizes = look_for(table.storage, needed, table.engine, table.progress)
    sources = data_sources(table, opened, there, table_id)
    found = find_in(sources, there, table.engine, table.progress)
    told = tuple(_told(checked.problems, needed, found, sources))
    if not pc.any(found.is_found).as_py():
        return told, None, notes
    damaged = tags_of(table.storage, pc.filter(whole(there.files["path"]), pc.is_valid(sizes)), table.engine)
    return told, Brought(found, sources, damaged), (*notes, *found.notes)


def _told(
    problems: Sequence[ProblemFile], needed: NeededFiles, found: FoundFiles, sources: Sequence[Source]
) -> Iterator[ProblemFile]:
    """Yield the problems with the source of each file, or with why the copy that there is cannot be used."""
    columns = (whole(needed.files["path"]), whole(needed.files["kind"]), found.sources, found.reasons)
    of_needed = zip(*(column.to_pylist() for column in columns), strict=True)
    known = {(text_of(path), kind): (number, reason) for path, kind, number, reason in of_needed}
    for one in problems:
        number, reason = known.get((one.path, one.kind), (None, None))
        if number is not None:
            yield one._replace(source=sources[number].name)
        else:
            yield one if reason is None else one._replace(why=f"{one.why}; its copy: {reason}")
