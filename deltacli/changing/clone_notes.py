"""Notes that a table keeps about other tables whose logs reference its data files, such as its shallow clones.

The vacuum of a table must not delete a file that only a clone still reads. So a clone writes a note into its source:

    _delta_log/_deltacli_clones/<table id of the clone>.json      {"tableId": …, "clone": "s3://bucket/clone", …}

A vacuum opens the table that each note refers to, and keeps the files that this table references. The note is written
before the log of the clone, so that a vacuum in between already keeps the files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from deltacli.changing.recorded_fields import validate_time_ms, validate_uri, validate_version
from deltacli.core.errors import FileMissing, OutcomeUnknown, Unreadable
from deltacli.core.typing import Json
from deltacli.delta.log.segment import CLONES_DIRECTORY, LOG_DIRECTORY
from deltacli.storage import Created, LocalStorage, ReadStorage, Storage, Unknown
from deltacli.storage.local_files import local_uri

NOTES_DIRECTORY = f"{LOG_DIRECTORY}/{CLONES_DIRECTORY}"

# A table id comes from a log, which may be hostile: `../../x` as part of a path would lead out of the table.
_SAFE_FILE_NAME = r"[0-9A-Za-z_-][0-9A-Za-z_.-]{0,99}"


class CloneNote(NamedTuple):
    """A note about a table (the clone) whose log references data files of another table (the owner of the note).

    Attributes:
        table_id: The table id of the clone.
        uri: The URI of the clone.
        version: The newest version of the clone, or of its source, when the note was written.
        created_ms: When the note was written, in epoch milliseconds.
    """

    table_id: str
    uri: str
    version: int
    created_ms: int

    @property
    def path(self) -> str:
        """Return the path of the note in the owner's directory, by the table id of the clone."""
        if re.fullmatch(_SAFE_FILE_NAME, self.table_id) is None:
            return self.path_by_address
        return f"{NOTES_DIRECTORY}/{self.table_id}.json"

    @property
    def path_by_address(self) -> str:
        """Return the path of the note if `path` is used for another clone with the same table id.

        A replica, or a log that was restored to another place, keeps the table id of the original.
        """
        from hashlib import sha256  # loads OpenSSL, which most commands do not need

        digest = sha256(self.uri.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{NOTES_DIRECTORY}/at-{digest[:32]}.json"

    def may_be_gone(self) -> bool:
        """Return True if a missing clone may have been deleted; False if it may only be unreachable.

        If even the parent directory of a local clone is missing, the clone is probably on another machine or on a disk
        that is not mounted.
        """
        if not self.uri.startswith("file:"):
            return True
        directory = unquote(self.uri.removeprefix("file://")).rstrip("/")
        return os.path.isdir(os.path.dirname(directory))

    def write(self, storage: Storage) -> WrittenNote | None:
        """Write the note, replacing an older note about the same clone.

        Args:
            storage: The store of the owner.

        Returns:
            The written note; None if the owner has a note about the same clone that is not older.

        Raises:
            OutcomeUnknown: If it is unknown whether the note was written.
            StorageFailed: If the store fails, and other errors of stores.
        """
        data = self._encode()
        for path in dict.fromkeys((self.path, self.path_by_address)):
            creation = storage.put_if_absent(path, data)
            if creation == Created():
                return WrittenNote(storage, path, data)
            if isinstance(creation, Unknown):
                raise OutcomeUnknown(
                    f"whether {path} was written is unknown", facts={"why": creation.cause}, table=storage.uri
                )

            existing = _read_note(storage, path)
            if existing is not None and self._is_about_same_clone(existing.note):
                return self._replace_existing(storage, path, data, existing)
            # The file is a note about another clone with the same table id, which must stay. Try the other path.
        raise OutcomeUnknown(f"whether {self.path} was written is unknown", table=storage.uri)

    def _encode(self) -> bytes:
        content: dict[str, Json] = {
            "tableId": self.table_id,
            "clone": self.uri,
            "version": self.version,
            "createdTime": self.created_ms,
        }
        return json.dumps(content).encode()

    def _is_about_same_clone(self, other: CloneNote) -> bool:
        return (self.table_id, self.uri) == (other.table_id, other.uri)

    def _replace_existing(self, storage: Storage, path: str, data: bytes, existing: _NoteFile) -> WrittenNote | None:
        """Replace an existing note about the same clone, unless it is as recent as this one."""
        if existing.note.created_ms >= self.created_ms:
            return None
        storage.put(path, data)
        return WrittenNote(storage, path, data, existing.data)


class WrittenNote(NamedTuple):
    """A note that this run has written.

    Attributes:
        storage: The store of the owner.
        path: The path of the note in the owner's directory.
        data: The content of the file.
        replaced_data: The content of the older note that was replaced; None if the file was created.
    """

    storage: Storage
    path: str
    data: bytes
    replaced_data: bytes | None = None

    def undo(self) -> None:
        """Delete the note, or restore the note that it replaced. Does nothing if another run has changed the file."""
        if self.storage.read(self.path) != self.data:
            return
        if self.replaced_data is None:
            list(self.storage.delete_many([self.path]))
        else:
            self.storage.put(self.path, self.replaced_data)


class _NoteFile(NamedTuple):
    """A parsed note together with the content of its file.

    Attributes:
        note: The note.
        data: The content of the file.
    """

    note: CloneNote
    data: bytes


class StoredNote(NamedTuple):
    """A note that is stored in its owner.

    Attributes:
        path: The path of the note in the owner's directory.
        note: The note.
    """

    path: str
    note: CloneNote


def resolve_note_uri(storage: ReadStorage) -> str:
    """Return the URI of a table for a note about it. Symbolic links in the path of a local table are resolved."""
    if not isinstance(storage, LocalStorage):
        return storage.uri
    return local_uri(os.path.realpath(storage.root))


def read_notes(storage: ReadStorage) -> Iterator[StoredNote]:
    """Yield the notes that a table keeps.

    Raises:
        Unreadable: If a file is not a note. A vacuum that ignored the file would delete the files of that clone.
    """
    try:
        names = [entry.name for entry in storage.list_from(NOTES_DIRECTORY) if entry.name.endswith(".json")]
    except FileMissing:
        return
    for name in names:
        path = f"{NOTES_DIRECTORY}/{name}"
        note_file = _read_note(storage, path)
        if note_file is not None:
            yield StoredNote(path, note_file.note)


def _read_note(storage: ReadStorage, path: str) -> _NoteFile | None:
    """Return the note in a file; None if the file does not exist.

    Raises:
        Unreadable: If the file is not a note, or if a note with this content would have another file name.
    """
    try:
        data = storage.read(path)
        content = json.loads(data)
        note = CloneNote(
            content["tableId"],
            validate_uri(content["clone"], "clone"),
            validate_version(content["version"], "version", least=-1),
            validate_time_ms(content["createdTime"], "createdTime"),
        )
    except FileMissing:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _build_unreadable_error(storage, path) from error

    if not isinstance(note.table_id, str) or path not in (note.path, note.path_by_address):
        raise _build_unreadable_error(storage, path)
    return _NoteFile(note, data)


def _build_unreadable_error(storage: ReadStorage, path: str) -> Unreadable:
    return Unreadable(f"{path} does not name a clone", code="clone.note-unreadable", facts={"table": storage.uri})
