"""A state against the checksum file that the writer of its version left. Spec: Version Checksum File."""

from __future__ import annotations

import json

from deltacli.delta.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing, Refused
from deltacli.operations.version import Snapshot

_MAX_BYTES = 256 << 20


def require_as_in_checksum(snapshot: Snapshot, files: int, size_bytes: int) -> None:
    """Raise Refused where `N.crc` counts other files or bytes: one of the two is wrong, and a checkpoint would hide it.

    A missing or unreadable one says nothing.
    """
    path = f"{LOG_DIRECTORY}/{snapshot.version:020d}.crc"
    try:
        data = snapshot.table.storage.read_range(path, 0, _MAX_BYTES)
        found = json.loads(data)
    except (FileMissing, ValueError, RecursionError):
        return
    if not isinstance(found, dict):
        return
    for name, rule, ours in (("numFiles", "crc.num-files", files), ("tableSizeBytes", "crc.table-size", size_bytes)):
        theirs = found.get(name)
        if type(theirs) is int and theirs != ours:
            raise Refused(
                f"the log of version {snapshot.version} says {ours}, its checksum file says {theirs} ({name})",
                code=rule,
                facts={"file": path},
                hint="deltacli validate {table}",
            )
