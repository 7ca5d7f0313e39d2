"""The shallow clones of a table, whose files a vacuum keeps: their notes beside the log, and those that are there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from deltacli.core.errors import DeltacliError, FileMissing, OutcomeUnknown, Refusal, Refused, Unreadable
from deltacli.core.made_once import NamedTuple, dataclass
from deltacli.core.typing import Json
from deltacli.core.units import format_timestamp
from deltacli.delta.log.segment import CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import Created, Existed, LocalStorage, ReadStorage, Storage
from deltacli.work.commits.reading import read_provenance

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

NOTES = f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"


class CloneNote(NamedTuple):
    """A clone: its table id, its URI, the version that was cloned, and when, in epoch milliseconds."""

    table_id: str
    uri: str
    version: int
    created_ms: int

    @property
    def path(self) -> str:
        return f"{NOTES}/{self.table_id}.json"

    def may_be_gone(self) -> bool:
        """Return False for a local clone without its parent directory, as on another machine or an unmounted disk."""
        if not self.uri.startswith("file:"):
            return True
        return os.path.isdir(os.path.dirname(unquote(self.uri.removeprefix("file://")).rstrip("/")))

    def put(self, storage: Storage) -> bool:
        """Write the note, and return False where it replaces one of an earlier clone in the same table, or that is the
        younger one. Raises what the storage raises, and OutcomeUnknown.
        """
        content: dict[str, Json] = dict(
            zip(("tableId", "clone", "version", "createdTime"), self, strict=True)  # in the order of the fields
        )
        data = json.dumps(content).encode()
        made = storage.put_if_absent(self.path, data)
        if isinstance(made, Existed):
            for earlier in read_notes(storage):
                if earlier[:2] == self[:2]:
                    if earlier.created_ms < self.created_ms:
                        storage.put(self.path, data)
                    return False
        if made != Created():
            raise OutcomeUnknown(f"whether {self.path} was written is unknown")
        return True


def address_of(storage: ReadStorage) -> str:
    """Return the URI of a store for a note; that of a local directory without links in its path."""
    if not isinstance(storage, LocalStorage):
        return storage.uri
    return "file://" + quote(os.fsencode(os.path.realpath(storage.root)))


def read_notes(storage: ReadStorage) -> Iterator[CloneNote]:
    """Yield the notes of a table. Raises Unreadable for a file that is none, and what the storage raises."""
    try:
        names = [one.name for one in storage.list_from(NOTES) if one.name.endswith(".json")]
    except FileMissing:
        return
    for name in names:
        try:
            content = json.loads(storage.read(f"{NOTES}/{name}"))
            found = CloneNote(content["tableId"], content["clone"], content["version"], content["createdTime"])
        except FileMissing:
            continue
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        types = (str, str, int, int)
        if (
            found is None
            or [*map(type, found)] != [*types]
            or "://" not in found.uri
            or found.path != f"{NOTES}/{name}"
        ):
            raise Unreadable(
                f"{NOTES}/{name} does not name a clone", code="clone.note-unreadable", facts={"table": storage.uri}
            )
        yield found


# -- the clones that are there -----------------------------------------------------------------------------------------

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
    gone: tuple[CloneNote, ...]
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
        for one in self.gone:
            yield f"the shallow clone of version {one.version} is no longer at {one.uri}: {one.path} protects nothing"


def _is_untouched(clone: Snapshot) -> bool:
    """Return True for a table without live files that was not made by a clone: after a note that may still come."""
    if clone.counts()[0].count:
        return False
    commit = clone.listing.commits.get(clone.version)
    found = None if commit is None else read_provenance(clone.table.storage, commit).commit_info
    return (found or {}).get("operation") != "CLONE"


def open_clones(
    tables: Sequence[TableHandle], open_clone: Callable[[str], Snapshot], known: Collection[str], now_ms: int
) -> Clones:
    """Open the clones of tables, except those with `known` table ids, and the clones of these: they name files, too."""
    found: list[Snapshot] = []
    gone: list[CloneNote] = []
    unknown: list[Unknown] = []
    seen, places = set[str](), [*tables]
    while places:
        place = places.pop()
        try:
            notes = [one for one in read_notes(place.storage) if one.table_id not in seen]
        except DeltacliError as fault:
            unknown.append(Unknown(f"{place.uri}/{NOTES}", place.uri, fault))
            continue
        seen.update(one.table_id for one in notes)
        for note in notes:
            until_ms = note.created_ms + _MADE_WITHIN_MS
            made_until_ms = until_ms if now_ms < until_ms else None
            path = f"{place.uri}/{note.path}"
            try:
                clone = open_clone(note.uri)
            except DeltacliError as fault:
                if fault.code == ABSENT and made_until_ms is None and note.may_be_gone():
                    gone.append(note)
                else:
                    unknown.append(Unknown(path, note.uri, fault, made_until_ms if fault.code == ABSENT else None))
                continue
            places.append(clone.table)
            if clone.metadata.id != note.table_id:
                gone.append(note)
            elif made_until_ms is not None and _is_untouched(clone):
                empty = Refused("it has no files, and may not have been cloned yet", code="vacuum.clone-unreachable")
                unknown.append(Unknown(path, note.uri, empty, made_until_ms))
            elif note.table_id not in known:
                found.append(clone)
    return Clones(tuple(found), tuple(gone), tuple(unknown))
