"""The notes beside a log about shallow clones of the table, whose files a vacuum has to keep.

A note is `_delta_log/_deltacli_clones/<id of the clone>.json`. Only deltacli reads it, and another engine's cleanup of
the log may delete it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.errors import FileMissing, OutcomeUnknown, Unreadable
from deltacli.core.typing import Json
from deltacli.delta.log.segment import CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import Created, ReadStorage, Storage

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

    def put(self, storage: Storage) -> None:
        """Write the note. Raises what the storage raises, and OutcomeUnknown."""
        content: dict[str, Json] = dict(
            zip(("tableId", "clone", "version", "createdTime"), self, strict=True)  # in the order of the fields
        )
        if storage.put_if_absent(self.path, json.dumps(content).encode()) != Created():
            raise OutcomeUnknown(f"whether {self.path} was written is unknown")


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
        if found is None or [*map(type, found)] != [*types] or found.path != f"{NOTES}/{name}":
            raise Unreadable(
                f"{NOTES}/{name} does not name a clone", code="clone.note-unreadable", facts={"table": storage.uri}
            )
        yield found
