"""Files that were to be created: whether they are there, and the answer of the store if they are not."""

from __future__ import annotations

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.storage.base import FileStat, ReadStorage
from deltacli.storage.outcomes import Creation, Unknown


def stat_created(storage: ReadStorage, path: str, outcome: Creation) -> FileStat:
    """Return facts about a file after an attempt to create it.

    Raises:
        StorageFailed: If the file is not there. The error has the answer of the store to the attempt, and is no
            FileMissing, which a caller could take for one about the file that was to be copied.
    """
    try:
        return storage.stat(path)
    except FileMissing as fault:
        raise not_created(storage, path, outcome) from fault


def not_created(storage: ReadStorage, path: str, outcome: Creation) -> StorageFailed:
    """Return the error for a file that was to be created and is not there."""
    why = outcome.cause if isinstance(outcome, Unknown) else "it was deleted right after it had been written"
    return StorageFailed(f"{storage.uri.rstrip('/')}/{path} cannot be written", facts={"why": why})
