"""`_last_vacuum_info`: the version up to which earlier vacuums deleted everything, as in the reference
implementation.
"""

from __future__ import annotations

import orjson

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing
from deltacli.storage import Storage

INFO_PATH = f"{LOG_DIRECTORY}/_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_CUTOFF = "deleteBeforeMs"  # deltacli's field: the reference ignores unknown fields


def read_last_vacuum(storage: Storage, *, newest: int) -> int | None:
    """Return the newest version whose removals earlier vacuums have processed; None where the file is missing,
    unreadable, or names a version above the `newest` of the table and is therefore of another history.
    """
    try:
        info = orjson.loads(storage.read(INFO_PATH))
    except (FileMissing, orjson.JSONDecodeError):
        return None
    version = info.get(_VERSION) if isinstance(info, dict) else None
    return version if type(version) is int and 0 <= version <= newest else None


def write_last_vacuum(storage: Storage, version: int, cutoff_ms: int, *, newest: int) -> None:
    """Record that everything removed up to a version was processed. An existing higher version is kept."""
    before = read_last_vacuum(storage, newest=newest)
    if before is not None and before >= version:
        return
    storage.put(INFO_PATH, orjson.dumps({_VERSION: version, _CUTOFF: cutoff_ms}) + b"\n")
