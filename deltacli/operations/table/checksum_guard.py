"""Comparison of a state with the checksum file of its version. Spec: Version Checksum File."""

from __future__ import annotations

import json
from typing import NamedTuple

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import FileMissing, Refused
from deltacli.hints import command
from deltacli.operations.table.version import Snapshot

MAX_BYTES = 256 << 20


class Contradiction(NamedTuple):
    """A checksum file whose counts differ from the log; `rule` is that of `validate`."""

    rule: str
    field: str
    path: str
    of_log: int
    of_checksum: int

    @property
    def message(self) -> str:
        version = int(self.path.rpartition("/")[2].split(".")[0])
        return (
            f"the log of version {version} has {self.field} {self.of_log}, but its checksum file has {self.of_checksum}"
        )


def contradiction(snapshot: Snapshot, files: int, size_bytes: int) -> Contradiction | None:
    """Compare the live files and bytes of a state with `N.crc`; return None where they match or cannot be compared.

    A missing or unreadable checksum file is not a contradiction.
    """
    path = f"{LOG_DIRECTORY}/{snapshot.version:020d}.crc"
    try:
        found = json.loads(snapshot.table.storage.read_range(path, 0, MAX_BYTES))
    except (FileMissing, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    for name, rule, ours in (("numFiles", "crc.num-files", files), ("tableSizeBytes", "crc.table-size", size_bytes)):
        theirs = found.get(name)
        if type(theirs) is int and theirs != ours:
            return Contradiction(rule, name, path, ours, theirs)
    return None


def require_as_in_checksum(snapshot: Snapshot, files: int, size_bytes: int) -> None:
    """Raise Refused where `N.crc` counts other files or bytes, because a checkpoint would hide that one of them is
    wrong.

    A missing or unreadable one is ignored.
    """
    found = contradiction(snapshot, files, size_bytes)
    if found is not None:
        raise Refused(found.message, code=found.rule, facts={"file": found.path}, hint=command("validate"))
