"""Comparison of a state with the checksum file of its version. Spec: Version Checksum File."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, Refused, command
from deltacli.core.typing import JsonObject
from deltacli.delta.log import state
from deltacli.delta.log.segment import checksum_path
from deltacli.table.version import Snapshot

MAX_CHECKSUM_BYTES = 256 << 20


class Contradiction(NamedTuple):
    """A checksum file that differs from the log; `rule` is that of `validate`. `more_files` are those that the file
    counts above the log.
    """

    rule: str
    path: str
    message: str
    more_files: int = 0

    @property
    def hint(self) -> str:
        """Return the command that helps."""
        return command("repair") if self.rule.endswith("-differs") else command("validate")


def find_contradiction(
    snapshot: Snapshot, files: int | None = None, size_bytes: int | None = None
) -> Contradiction | None:
    """Compare the live files and bytes of a state, where they are known, its protocol and its metadata with `N.crc`;
    return None where they match or cannot be compared.

    A missing or unreadable checksum file is not a contradiction.
    """
    path, found = checksum_path(snapshot.version), None
    with suppress(FileMissing):
        found = state.read_checksum(snapshot.table.storage.read_range(path, 0, MAX_CHECKSUM_BYTES))
    if found is None:
        return None
    for name, rule, ours in (("numFiles", "crc.num-files", files), ("tableSizeBytes", "crc.table-size", size_bytes)):
        theirs = found.get(name)
        if ours is not None and type(theirs) is int and theirs != ours:
            differs = f"has {name} {ours}, but its checksum file has {theirs}"
            more = theirs - ours if name == "numFiles" else 0
            return Contradiction(rule, path, f"the log of version {snapshot.version} {differs}", more)
    for kind, differing in _differing(snapshot, found, path):
        differs = f"has another {differing} than its checksum file"
        return Contradiction(f"crc.{kind}-differs", path, f"the log of version {snapshot.version} {differs}")
    return None


def _differing(snapshot: Snapshot, checksum: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields that a checksum file has otherwise, after the word `metadata` or `protocol`."""
    metadata, protocol = checksum.get("metadata"), checksum.get("protocol")
    with suppress(CommitCorrupt):
        if isinstance(metadata, dict):
            for one in state.metadata_differences(snapshot.metadata, state.read_metadata(metadata, path)):
                yield "metadata", one
    with suppress(CommitCorrupt):
        if isinstance(protocol, dict):
            theirs = state.read_protocol(protocol, path)
            for one in state.protocol_differences(snapshot.protocol, theirs, with_null_lists=False):
                yield "protocol", one


def require_matching_checksum(snapshot: Snapshot, files: int, size_bytes: int) -> None:
    """Raise Refused where `N.crc` counts other files or bytes, or has another protocol or metadata: a checkpoint would
    hide that one of them is wrong.

    A missing or unreadable one is ignored.
    """
    _require_none(find_contradiction(snapshot, files, size_bytes))


def require_matching_configuration(snapshot: Snapshot) -> None:
    """Raise Refused where `N.crc` has another protocol or metadata: a commit would keep a wrong checkpoint's."""
    _require_none(find_contradiction(snapshot))


def _require_none(found: Contradiction | None) -> None:
    if found is not None:
        raise Refused(found.message, code=found.rule, facts={"file": found.path}, hint=found.hint)
