"""Compare the state of a version with its checksum file before something is written that would hide a difference.

Spec: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from deltacli.core.errors import CommitCorrupt, FileMissing, Refused
from deltacli.core.hints import command
from deltacli.core.typing import JsonObject
from deltacli.delta.log import state
from deltacli.delta.log.segment import checksum_path
from deltacli.table.version import Snapshot

MAX_CHECKSUM_BYTES = 256 << 20


class Contradiction(NamedTuple):
    """A difference between a checksum file and the log.

    Attributes:
        rule: The rule of `validate` that reports it.
        path: The path of the checksum file.
        message: The difference in words.
        more_files: The number of files that the checksum counts above the log.
    """

    rule: str
    path: str
    message: str
    more_files: int = 0

    @property
    def hint(self) -> str:
        """The command that helps."""
        return command("repair") if self.rule.endswith("-differs") else command("validate")


def find_checksum_contradiction(
    snapshot: Snapshot, files: int | None = None, size_bytes: int | None = None
) -> Contradiction | None:
    """Compare a version with `N.crc`: its protocol, its metadata, and its files where their totals are known.

    Args:
        snapshot: The version.
        files: The number of its live files. None if it is unknown.
        size_bytes: The bytes of its live files. None if they are unknown.

    Returns:
        The first difference; None if there is none, or the checksum file is missing or unreadable.
    """
    path = checksum_path(snapshot.version)
    checksum = None
    with suppress(FileMissing):
        checksum = state.read_checksum(snapshot.table.storage.read_range(path, 0, MAX_CHECKSUM_BYTES))
    if checksum is None:
        return None  # a checksum file is optional

    for name, rule, counted in (
        ("numFiles", "crc.num-files", files),
        ("tableSizeBytes", "crc.table-size", size_bytes),
    ):
        stated = checksum.get(name)
        # `type`, because true is an int for Python.
        if counted is not None and type(stated) is int and stated != counted:
            message = f"the log of version {snapshot.version} has {name} {counted}, but its checksum file has {stated}"
            more_files = stated - counted if name == "numFiles" else 0
            return Contradiction(rule, path, message, more_files)
    for kind, field in _find_differing_fields(snapshot, checksum, path):
        message = f"the log of version {snapshot.version} has another {field} than its checksum file"
        return Contradiction(f"crc.{kind}-differs", path, message)
    return None


def _find_differing_fields(snapshot: Snapshot, checksum: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields that a checksum file has otherwise, after the word `metadata` or `protocol`.

    Invalid metadata or an invalid protocol in the checksum cannot be compared and is no difference.
    """
    metadata = checksum.get("metadata")
    with suppress(CommitCorrupt):
        if isinstance(metadata, dict):
            for field in state.metadata_differences(snapshot.metadata, state.read_metadata(metadata, path)):
                yield "metadata", field
    protocol = checksum.get("protocol")
    with suppress(CommitCorrupt):
        if isinstance(protocol, dict):
            stated = state.read_protocol(protocol, path)
            for field in state.protocol_differences(snapshot.protocol, stated, with_null_lists=False):
                yield "protocol", field


def require_matching_checksum(snapshot: Snapshot, files: int, size_bytes: int) -> None:
    """Refuse to write a checkpoint if the checksum file of the version differs from it.

    One of the two is wrong, and the checkpoint would hide it. A missing or unreadable checksum file is
    ignored.

    Args:
        snapshot: The version.
        files: The number of its live files.
        size_bytes: The bytes of its live files.

    Raises:
        Refused: With the rule that is broken as its code.
    """
    _require_no_contradiction(find_checksum_contradiction(snapshot, files, size_bytes))


def require_matching_configuration(snapshot: Snapshot) -> None:
    """Refuse a commit if the checksum file has another protocol or metadata: a wrong checkpoint would stay.

    Raises:
        Refused: With the rule that is broken as its code.
    """
    _require_no_contradiction(find_checksum_contradiction(snapshot))


def _require_no_contradiction(contradiction: Contradiction | None) -> None:
    if contradiction is not None:
        raise Refused(
            contradiction.message,
            code=contradiction.rule,
            facts={"file": contradiction.path},
            hint=contradiction.hint,
        )
