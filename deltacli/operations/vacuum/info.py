"""`_last_vacuum_info`: up to which version earlier vacuums have seen to everything, as the reference keeps it."""

from __future__ import annotations

import orjson

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing
from deltacli.storage import Storage

INFO_PATH = f"{LOG_DIRECTORY}/_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_CUTOFF = "deleteBeforeMs"  # ours: the reference passes over fields that it does not know


def read_last_vacuum(storage: Storage, *, newest: int) -> int | None:
    """The newest version whose removals earlier vacuums have seen to; None where nobody says, what says so can't be
    read, or says more than the `newest` version of the table: then it is of another past.
    """
    try:
        found = orjson.loads(storage.read(INFO_PATH))
    except (FileMissing, orjson.JSONDecodeError):
        return None
    version = found.get(_VERSION) if isinstance(found, dict) else None
    return version if type(version) is int and 0 <= version <= newest else None


def write_last_vacuum(storage: Storage, version: int, cutoff_ms: int, *, newest: int) -> None:
    """Say that everything removed up to a version was seen to. An older statement that says more stays."""
    before = read_last_vacuum(storage, newest=newest)
    if before is not None and before >= version:
        return
    storage.put(INFO_PATH, orjson.dumps({_VERSION: version, _CUTOFF: cutoff_ms}) + b"\n")
