"""The shallow clones of a table, whose files a vacuum keeps: those that are there, and the notes of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.errors import DeltacliError, Refusal
from deltacli.table.clones import NOTES, CloneNote, read_notes

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

ABSENT = "table.path-missing"
"""The code of the error where nothing is at an address."""
_MADE_WITHIN_MS = 3_600_000
"""How long a clone may be in the making behind its note."""


@dataclass(frozen=True)
class Clones:
    """The clones that were found, the notes of those that are gone, and of others where the note is, their URI, and why
    they cannot be opened.
    """

    found: tuple[Snapshot, ...]
    gone: tuple[CloneNote, ...]
    unreachable: tuple[tuple[str, str, DeltacliError], ...]

    def refusals(self) -> Iterator[Refusal]:
        """Yield a refusal where a clone cannot be opened: which files it needs is unknown."""
        for note, uri, fault in self.unreachable[:1]:
            yield Refusal(
                "vacuum.clone-unreachable",
                f"the files that a shallow clone needs are unknown: {uri}: {fault.message}",
                facts={"note": note, "if the clone is gone for good": "delete the note"},
            )

    def notes(self) -> Iterator[str]:
        """Yield a note on each clone that is gone."""
        for one in self.gone:
            yield f"the shallow clone of version {one.version} is no longer at {one.uri}: {one.path} protects nothing"


def open_clones(
    tables: Sequence[TableHandle], open_clone: Callable[[str], Snapshot], known: Collection[str], now_ms: int
) -> Clones:
    """Open the clones of tables but those whose table ids are `known`, and the clones of all of these, which name files
    of the tables, too.
    """
    found: list[Snapshot] = []
    gone: list[CloneNote] = []
    unreachable: list[tuple[str, str, DeltacliError]] = []
    seen, places = set[str](), [*tables]
    while places:
        place = places.pop()
        try:
            notes = [one for one in read_notes(place.storage) if one.table_id not in seen]
        except DeltacliError as fault:
            unreachable.append((f"{place.uri}/{NOTES}", place.uri, fault))
            continue
        seen.update(one.table_id for one in notes)
        for note in notes:
            try:
                clone = open_clone(note.uri)
            except DeltacliError as fault:
                is_made = now_ms - note.created_ms < _MADE_WITHIN_MS
                if fault.code == ABSENT and not is_made and note.may_be_gone():
                    gone.append(note)
                else:
                    unreachable.append((f"{place.uri}/{note.path}", note.uri, fault))
                continue
            places.append(clone.table)
            if clone.metadata.id != note.table_id:
                gone.append(note)
            elif note.table_id not in known:
                found.append(clone)
    return Clones(tuple(found), tuple(gone), tuple(unreachable))
