"""The statistics that ANALYZE wrote for a snapshot of a Paimon table."""

from __future__ import annotations

from deltacli.errors import FileMissing, PermissionRefused, Unreadable
from deltacli.operations.paimon.references import BrokenFile
from deltacli.operations.paimon.table_files import NO_PERMISSION, read_limited
from deltacli.paimon.json_text import BadJson, read_object
from deltacli.paimon.snapshot_file import SnapshotFile
from deltacli.storage import Storage
from deltacli.typing import JsonObject

Statistics = JsonObject

BAD_STATISTICS = "paimon.bad-statistics"
_DIRECTORY = "statistics"
_MAX_BYTES = 256 << 20


def read_statistics(storage: Storage, snapshot: SnapshotFile) -> Statistics | BrokenFile | None:
    """Return the statistics of a snapshot, None without any, or why they cannot be read."""
    name = snapshot.content.get(_DIRECTORY)
    if name is None:
        return None
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        return BrokenFile(f"{_DIRECTORY}/{name}", BAD_STATISTICS, "the name is not that of a file")
    path = f"{_DIRECTORY}/{name}"
    try:
        content: Statistics = read_object(read_limited(storage, path, _MAX_BYTES)).value
    except BadJson as fault:
        return BrokenFile(path, BAD_STATISTICS, str(fault))
    except FileMissing:
        return BrokenFile(path, BAD_STATISTICS, "the file is missing")
    except PermissionRefused:
        return BrokenFile(path, NO_PERMISSION, "no permission to read the file")
    except Unreadable as fault:
        return BrokenFile(path, BAD_STATISTICS, fault.message)
    return content
