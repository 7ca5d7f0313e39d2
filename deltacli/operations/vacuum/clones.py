"""The shallow clones of a table, whose files a vacuum keeps: those that are there, and the notes of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.errors import DeltacliError, NotATable, Refusal
from deltacli.table.clones import NOTES, CloneNote, read_notes

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


@dataclass(frozen=True)
class Clones:
    """The clones that were found, the notes of those that are gone, and why others cannot be opened, by their URIs."""

    found: tuple[Snapshot, ...]
    gone: tuple[CloneNote, ...]
    unreachable: tuple[tuple[str, DeltacliError], ...]

    def refusals(self) -> Iterator[Refusal]:
        """Yield a refusal where a clone cannot be opened: which files it needs is unknown."""
        for uri, fault in self.unreachable[:1]:
            yield Refusal(
                "vacuum.clone-unreachable",
                f"the files that a shallow clone needs are unknown: {uri}: {fault.message}",
                hint=fault.hint,
                facts={"notes of clones": NOTES},
            )

    def notes(self) -> Iterator[str]:
        """Yield a note on each clone that is gone."""
        for one in self.gone:
            yield f"the shallow clone of version {one.version} is no longer at {one.uri}: {one.path} protects nothing"


def open_clones(table: TableHandle, open_clone: Callable[[str], Snapshot], known: Collection[str]) -> Clones:
    """Open the clones of a table but those whose table ids are `known`, and the clones of these, which name files of
    the table, too.
    """
    found: list[Snapshot] = []
    gone: list[CloneNote] = []
    unreachable: list[tuple[str, DeltacliError]] = []
    seen, places = {*known}, [table]
    while places:
        place = places.pop()
        try:
            notes = [one for one in read_notes(place.storage) if one.table_id not in seen]
        except DeltacliError as fault:
            unreachable.append((place.uri, fault))
            continue
        seen.update(one.table_id for one in notes)
        for note in notes:
            try:
                clone = open_clone(note.uri)
            except NotATable:
                gone.append(note)
            except DeltacliError as fault:
                unreachable.append((note.uri, fault))
            else:
                if clone.metadata.id != note.table_id:
                    gone.append(note)
                    continue
                found.append(clone)
                places.append(clone.table)
    return Clones(tuple(found), tuple(gone), tuple(unreachable))
