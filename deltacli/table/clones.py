"""The notes beside a log about shallow clones of the table, whose files a vacuum has to keep.

A note is `_delta_log/_deltacli_clones/<id of the clone>.json`. Only deltacli reads it, and another engine's cleanup of
the log may delete it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from deltacli.core.errors import FileMissing, OutcomeUnknown, Unreadable
from deltacli.core.typing import Json
from deltacli.delta.log.segment import CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import Created, Existed, LocalStorage, ReadStorage, Storage

NOTES = f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"


class CloneNote(NamedTuple):
    """A clone: its table id, its URI, the version that was cloned, and when, in epoch milliseconds."""

    table_id: str
    uri: str
    version: int
    created_ms: int

    @property
    def path(self) -> str:
        """Return the path of the note, relative to the table."""
        return f"{NOTES}/{self.table_id}.json"

    def may_be_gone(self) -> bool:
        """Return False for a local clone whose parent directory is not there either, as on another machine or an
        unmounted disk.
        """
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
