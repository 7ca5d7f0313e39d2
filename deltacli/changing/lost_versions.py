"""Lost versions: versions that were committed, but whose commit files are no longer in the log.

Example: `_last_checkpoint` refers to version 12, or `00000000000000000012.crc` exists, but the newest commit is 10. A
directory that was restored from an incomplete backup looks like this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.errors import Refusal, command
from deltacli.delta.log.segment import (
    LOG_DIRECTORY,
    RULE_COMPACTION_AFTER_NEWEST_COMMIT,
    RULE_NAME_NOT_PADDED,
    commit_name,
)
from deltacli.table.find_log import find_lost_versions

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.storage import ReadStorage
    from deltacli.table.find_log import LostVersions


def find_lost_versions_refusal(storage: ReadStorage, listing: LogListing, hint_version: int) -> Refusal | None:
    """Return the reason not to change a table whose newest versions seem to be lost.

    A vacuum would delete the data files that the lost versions added, because no commit references them, and those that
    the lost versions restored, because an older commit removed them. A commit would reuse the number of a lost version.

    The same applies to a commit whose name has fewer than 20 digits (`7.json`). Delta for Spark and Delta Kernel for
    Java read it, other engines ignore it.

    Args:
        storage: The store of the table.
        listing: The log.
        hint_version: The version that `_last_checkpoint` refers to; -1 if the table has no such file.

    Returns:
        The refusal; None if no version seems to be lost.
    """
    lost_versions = find_lost_versions(storage, listing, hint_version)
    if lost_versions is None:
        return None
    if lost_versions.rule == RULE_NAME_NOT_PADDED:
        return _build_unpadded_name_refusal(lost_versions, listing)
    return _build_lost_versions_refusal(lost_versions, storage)


def _build_unpadded_name_refusal(lost_versions: LostVersions, listing: LogListing) -> Refusal:
    """Return the refusal for a commit that only some engines read, because its name has fewer than 20 digits."""
    when = "while no writer is running"
    next_commit_name = commit_name(listing.newest_version + 1)
    return Refusal(
        lost_versions.rule,
        f"{lost_versions.message}, and the files that it names are unknown to others",
        hint=command("validate", select=[RULE_NAME_NOT_PADDED]),
        facts={
            "if it is a version": f"rename it to {next_commit_name} {when}",
            "if it is not": f"move {LOG_DIRECTORY}/{lost_versions.file_name} to another directory {when}",
        },
    )


def _build_lost_versions_refusal(lost_versions: LostVersions, storage: ReadStorage) -> Refusal:
    """Return the refusal for versions that only a checkpoint hint or a checksum file still refers to."""
    from deltacli.rules.framework.repairs import undelete_command  # imports all rules, which intact tables do not need

    return Refusal(
        lost_versions.rule,
        f"{lost_versions.message}, and the files that they named are unknown",
        hint=undelete_command(storage.uri),
        facts={"if they were never made": f"delete {LOG_DIRECTORY}/{lost_versions.file_name}"},
    )


def describe_lost_versions(storage: ReadStorage, listing: LogListing, hint_version: int) -> list[str]:
    """Return notes for a copy or a clone of a table whose newest versions seem to be lost.

    Reading such a table does no harm, so the copy is not refused.

    Args:
        storage: The store of the table.
        listing: The log.
        hint_version: The version that `_last_checkpoint` refers to; -1 if the table has no such file.

    Returns:
        One note, or none if no version seems to be lost.
    """
    if listing.has_compaction_of_lost_versions:
        return [f"{RULE_COMPACTION_AFTER_NEWEST_COMMIT}: {listing.lost_versions_message}"]
    lost_versions = find_lost_versions(storage, listing, hint_version)
    if lost_versions is None:
        return []
    return [f"{lost_versions.rule}: {lost_versions.message}"]
