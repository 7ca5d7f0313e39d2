"""The tables that use files of a table, as the notes beside its log name them, and that its vacuum opens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from deltacli.changing.clone_notes import NOTES_DIRECTORY, CloneNote, StoredNote, read_notes, resolve_note_uri
from deltacli.core.errors import DeltacliError, Refusal, Refused
from deltacli.core.times import format_timestamp
from deltacli.core.typing import RecordBatch
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

__all__ = [
    "ABSENT",
    "NOTES_DIRECTORY",
    "CloneNote",
    "Clones",
    "Unknown",
    "open_clones",
    "read_notes",
    "resolve_note_uri",
]

ABSENT = "table.path-missing"
"""The code of the error where nothing is at an address."""
_MADE_WITHIN_MS = 3_600_000
"""How long a clone may be in the making behind its note."""


class Unknown(NamedTuple):
    """A clone whose files are unknown: its note, its URI, why, and until when it may be in the making."""

    note: str
    uri: str
    fault: DeltacliError
    made_until_ms: int | None = None


@dataclass(frozen=True)
class Clones:
    """The clones that were found, the notes of those that are gone, and those whose files are unknown."""

    found: tuple[Snapshot, ...]
    gone: tuple[StoredNote, ...]
    unknown: tuple[Unknown, ...]

    def refusals(self) -> Iterator[Refusal]:
        """Yield a refusal where the files of a clone are unknown."""
        for note, uri, fault, until_ms in self.unknown[:1]:
            made = {} if until_ms is None else {"it may be in the making until": format_timestamp(until_ms)}
            yield Refusal(
                "vacuum.clone-unreachable",
                f"the files that a shallow clone needs are unknown: {uri}: {fault.message}",
                facts={"note": note, **made, "if the clone is gone for good": "delete the note"},
            )

    def notes(self) -> Iterator[str]:
        """Yield a note on each clone that is gone."""
        for path, note in self.gone:
            yield f"the shallow clone of version {note.version} is no longer at {note.uri}: {path} protects nothing"


def _is_untouched(clone: Snapshot) -> bool:
    """Return True for a table without live files that was not made by a clone: after a note that may still come."""
    if clone.counts()[0].count:
        return False
    commit = clone.listing.commits.get(clone.version)
    found = None if commit is None else read_provenance(clone.table.storage, commit).commit_info
    return (found or {}).get("operation") != "CLONE"


def _names_absolute_paths(table: Snapshot) -> bool:
    """Return whether a table has live files by absolute paths, which may be files of another table."""

    def has_absolute(adds: RecordBatch) -> bool:
        return bool(pc.any(are_absolute(adds.column("path"))).as_py())

    return any(table.file_actions.map_actions("add", has_absolute, fields=["path"]))


def open_clones(
    tables: Sequence[TableHandle],
    open_clone: Callable[[str], Snapshot],
    known: Collection[tuple[str | None, str]],
    now_ms: int,
) -> Clones:
    """Open the tables that notes name, and the ones that their own notes name: they use the files, too.

    A table with another id than in its note protects as long as it has files by absolute paths. A copy gets its own id
    in its last commit, and one that was interrupted before has that of its source.

    Args:
        tables: The table that is vacuumed, and other ones whose notes are read.
        open_clone: Opens the newest version of the table at a URI.
        known: Ids and URIs of tables that are protected already, and left out of the result.
        now_ms: The time of the run. A note that is younger than an hour may be that of a table in the making.
    """
    clones: list[Snapshot] = []
    gone: list[StoredNote] = []
    unknown: list[Unknown] = []
    seen = set[tuple[str, str]]()
    places = [*tables]
    while places:
        place = places.pop()
        try:
            stored_notes = [stored for stored in read_notes(place.storage) if stored.note[:2] not in seen]
        except DeltacliError as fault:
            unknown.append(Unknown(f"{place.uri}/{NOTES_DIRECTORY}", place.uri, fault))
            continue
        seen.update(stored.note[:2] for stored in stored_notes)
        for stored in stored_notes:
            note = stored.note
            until_ms = note.created_ms + _MADE_WITHIN_MS
            made_until_ms = until_ms if now_ms < until_ms else None
            path = f"{place.uri}/{stored.path}"
            try:
                clone = open_clone(note.uri)
            except DeltacliError as fault:
                if fault.code == ABSENT and made_until_ms is None and note.may_be_gone():
                    gone.append(stored)
                else:
                    unknown.append(Unknown(path, note.uri, fault, made_until_ms if fault.code == ABSENT else None))
                continue
            places.append(clone.table)
            if clone.metadata.id != note.table_id and not _names_absolute_paths(clone):
                gone.append(stored)
            elif made_until_ms is not None and _is_untouched(clone):
                empty = Refused("it has no files, and may not have been cloned yet", code="vacuum.clone-unreachable")
                unknown.append(Unknown(path, note.uri, empty, made_until_ms))
            elif (clone.metadata.id, clone.table.uri) not in known:
                clones.append(clone)
    return Clones(tuple(clones), tuple(gone), tuple(unknown))
