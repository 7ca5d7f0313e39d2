"""Compare a version with its checksum file before writing something that would hide a difference.

The checksum file of version 7 (`00000000000000000007.crc`) contains the protocol, the metadata, and
the number and size of the live files, as computed by the writer of the commit. If a replay of the
log yields something else, either the checksum or the replayed checkpoint is wrong. A new checkpoint
would make an error in the replayed state permanent.

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


class ChecksumContradiction(NamedTuple):
    """A difference between a checksum file and the replayed log.

    Attributes:
        rule: The id of the rule of `validate` that reports the difference, such as "crc.num-files".
        path: The path of the checksum file, relative to the table directory.
        message: A description of the difference.
        surplus_files: The number of files by which `numFiles` of the checksum exceeds the live files of
            the log. Negative if the checksum contains fewer files; 0 for a difference in other fields.
    """

    rule: str
    path: str
    message: str
    surplus_files: int = 0

    @property
    def hint(self) -> str:
        """A command that repairs or explains the difference."""
        return command("repair") if self.rule.endswith("-differs") else command("validate")


def find_checksum_contradiction(
    snapshot: Snapshot, files: int | None = None, size_bytes: int | None = None
) -> ChecksumContradiction | None:
    """Compare the protocol, the metadata and the file totals of a version with its checksum file.

    Args:
        snapshot: The version.
        files: The number of live files, or None to skip the comparison with `numFiles`.
        size_bytes: The total size of the live files, or None to skip the comparison with
            `tableSizeBytes`.

    Returns:
        The first difference. None if there is no difference, or if the checksum file is missing or
        unreadable: checksum files are optional.
    """
    # A missing checksum file contradicts nothing.
    path = checksum_path(snapshot.version)
    try:
        checksum = state.read_checksum(snapshot.table.storage.read_range(path, 0, MAX_CHECKSUM_BYTES))
    except FileMissing:
        return None
    if checksum is None:
        return None

    # Compare the totals.
    for name, rule, total_of_log in (
        ("numFiles", "crc.num-files", files),
        ("tableSizeBytes", "crc.table-size", size_bytes),
    ):
        total_of_checksum = checksum.get(name)
        # `type` instead of `isinstance`, because JSON's `true` is an int in Python.
        if total_of_log is None or type(total_of_checksum) is not int or total_of_checksum == total_of_log:
            continue
        message = (
            f"the log of version {snapshot.version} has {name} {total_of_log}, "
            f"but its checksum file has {total_of_checksum}"
        )
        surplus_files = total_of_checksum - total_of_log if name == "numFiles" else 0
        return ChecksumContradiction(rule, path, message, surplus_files)

    # Compare the protocol and the metadata.
    for action, field in _find_differing_fields(snapshot, checksum, path):
        message = f"the log of version {snapshot.version} has another {field} than its checksum file"
        return ChecksumContradiction(f"crc.{action}-differs", path, message)
    return None


def _find_differing_fields(snapshot: Snapshot, checksum: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of the protocol and the metadata that differ between a version and its checksum.

    Invalid metadata and an invalid protocol in the checksum are skipped, because they cannot be
    compared.

    Yields:
        Pairs such as `("metadata", "schemaString")` or `("protocol", "minReaderVersion")`.
    """
    metadata = checksum.get("metadata")
    with suppress(CommitCorrupt):
        if isinstance(metadata, dict):
            for field in state.find_metadata_differences(snapshot.metadata, state.read_metadata(metadata, path)):
                yield "metadata", field
    protocol = checksum.get("protocol")
    with suppress(CommitCorrupt):
        if isinstance(protocol, dict):
            stated_protocol = state.read_protocol(protocol, path)
            for field in state.find_protocol_differences(snapshot.protocol, stated_protocol, with_null_lists=False):
                yield "protocol", field


def require_matching_checksum(snapshot: Snapshot, files: int, size_bytes: int) -> None:
    """Refuse to write a checkpoint of a version that differs from its checksum file.

    Args:
        snapshot: The version.
        files: The number of its live files.
        size_bytes: The total size of its live files.

    Raises:
        Refused: If they differ. The error code is the id of the violated rule.
    """
    _require_no_contradiction(find_checksum_contradiction(snapshot, files, size_bytes))


def require_matching_configuration(snapshot: Snapshot) -> None:
    """Refuse a commit if the protocol or the metadata of the version before it differ from the checksum file.

    The version may have been rebuilt from a wrong checkpoint. A commit that copies its
    configuration would make the error permanent.

    Raises:
        Refused: If they differ. The error code is the id of the violated rule.
    """
    _require_no_contradiction(find_checksum_contradiction(snapshot))


def _require_no_contradiction(contradiction: ChecksumContradiction | None) -> None:
    if contradiction is not None:
        raise Refused(
            contradiction.message,
            code=contradiction.rule,
            facts={"file": contradiction.path},
            hint=contradiction.hint,
        )
