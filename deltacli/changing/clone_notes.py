"""Notes beside the log of a table that name other tables which use its data files, such as shallow clones.

A vacuum opens the table of each note and keeps the files that it names. A note is written before the log that names the
files, so that no vacuum can come between them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from deltacli.changing.recorded_fields import read_time_ms, read_uri, read_version
from deltacli.core.errors import FileMissing, OutcomeUnknown, Unreadable
from deltacli.core.typing import Json
from deltacli.delta.log.segment import CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import Created, LocalStorage, ReadStorage, Storage, Unknown
from deltacli.storage.local_files import local_uri

NOTES_DIRECTORY = f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"

# A table id comes from a log, which nobody has to trust: as part of a path it could lead anywhere.
_SAFE_NAME = r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,99}"


class CloneNote(NamedTuple):
    """A table that uses files of the table that has the note.

    Attributes:
        table_id: The id of the table that uses the files.
        uri: The URI of that table.
        version: The version of it, or of its source, that was the newest when the note was written.
        created_ms: When the note was written, in epoch milliseconds.
    """

    table_id: str
    uri: str
    version: int
    created_ms: int

    @property
    def path(self) -> str:
        """Return the usual path of the note below the table that has it."""
        if re.fullmatch(_SAFE_NAME, self.table_id) is None:
            return self.path_by_address
        return f"{NOTES_DIRECTORY}/{self.table_id}.json"

    @property
    def path_by_address(self) -> str:
        """Return the path of the note if another table has the same id.

        A replica and a table whose log was restored to another place have the id of the table that they come from.
        """
        from hashlib import sha256  # with OpenSSL, which most commands do without

        digest = sha256(self.uri.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{NOTES_DIRECTORY}/at-{digest[:32]}.json"

    def may_be_gone(self) -> bool:
        """Return False for a local clone without its parent directory, as on another machine or an unmounted disk."""
        if not self.uri.startswith("file:"):
            return True
        directory = unquote(self.uri.removeprefix("file://")).rstrip("/")
        return os.path.isdir(os.path.dirname(directory))

    def put(self, storage: Storage) -> WrittenNote | None:
        """Write the note.

        Returns:
            What was written. None if the table has a younger note of the same table at the same address.

        Raises:
            OutcomeUnknown: If it is unknown whether the note was written.
            StorageFailed: And its siblings, from the storage.
        """
        content: dict[str, Json] = {
            "tableId": self.table_id,
            "clone": self.uri,
            "version": self.version,
            "createdTime": self.created_ms,
        }
        data = json.dumps(content).encode()
        for path in dict.fromkeys((self.path, self.path_by_address)):
            creation = storage.put_if_absent(path, data)
            if creation == Created():
                return WrittenNote(storage, path, data)
            if isinstance(creation, Unknown):
                raise OutcomeUnknown(
                    f"whether {path} was written is unknown", facts={"why": creation.cause}, table=storage.uri
                )

            # The name is taken by a note of another table with this id, which must stay, or by an earlier note of this
            # table, which is replaced.
            earlier = _read_note(storage, path)
            if earlier is None or not self._is_about_same_table(earlier.note):
                continue
            if earlier.note.created_ms >= self.created_ms:
                return None
            storage.put(path, data)
            return WrittenNote(storage, path, data, earlier.data)
        raise OutcomeUnknown(f"whether {self.path} was written is unknown", table=storage.uri)

    def _is_about_same_table(self, other: CloneNote) -> bool:
        return (self.table_id, self.uri) == (other.table_id, other.uri)


class WrittenNote(NamedTuple):
    """A note that was written.

    Attributes:
        storage: The store of the table that has it.
        path: Its path below that table.
        data: Its content.
        earlier: The content of the note of the same table that it replaced; None if there was none.
    """

    storage: Storage
    path: str
    data: bytes
    earlier: bytes | None = None

    def undo(self) -> None:
        """Undo the writing, unless another run has written the note since."""
        if self.storage.read(self.path) != self.data:
            return
        if self.earlier is None:
            list(self.storage.delete_many([self.path]))
        else:
            self.storage.put(self.path, self.earlier)


class _ReadNote(NamedTuple):
    """A note as it was read.

    Attributes:
        note: The note.
        data: The content of its file.
    """

    note: CloneNote
    data: bytes


class StoredNote(NamedTuple):
    """A note in the table that has it.

    Attributes:
        path: Its path below that table.
        note: The note.
    """

    path: str
    note: CloneNote


def resolve_note_uri(storage: ReadStorage) -> str:
    """Return the URI of a store for a note; that of a local directory without links in its path."""
    if not isinstance(storage, LocalStorage):
        return storage.uri
    return local_uri(os.path.realpath(storage.root))


def read_notes(storage: ReadStorage) -> Iterator[StoredNote]:
    """Yield the notes of a table.

    Raises:
        Unreadable: For a file that is not a note. A vacuum must not go on without knowing which table it is about.
    """
    try:
        names = [entry.name for entry in storage.list_from(NOTES_DIRECTORY) if entry.name.endswith(".json")]
    except FileMissing:
        return
    for name in names:
        path = f"{NOTES_DIRECTORY}/{name}"
        read_note = _read_note(storage, path)
        if read_note is not None:
            yield StoredNote(path, read_note.note)


def _read_note(storage: ReadStorage, path: str) -> _ReadNote | None:
    """Return the note in a file; None if the file is gone.

    Raises:
        Unreadable: If it is no note, or if its name is not one that this note would have.
    """
    try:
        data = storage.read(path)
        content = json.loads(data)
        note = CloneNote(
            content["tableId"],
            read_uri(content["clone"], "clone"),
            read_version(content["version"], "version", least=-1),
            read_time_ms(content["createdTime"], "createdTime"),
        )
    except FileMissing:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(storage, path) from error

    if not isinstance(note.table_id, str) or path not in (note.path, note.path_by_address):
        raise _unreadable(storage, path)
    return _ReadNote(note, data)


def _unreadable(storage: ReadStorage, path: str) -> Unreadable:
    return Unreadable(f"{path} does not name a clone", code="clone.note-unreadable", facts={"table": storage.uri})
