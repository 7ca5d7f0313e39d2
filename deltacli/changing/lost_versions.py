"""Versions that were committed and are not in the log any more, although a hint or a checksum still names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.errors import Refusal, command
from deltacli.delta.log.segment import BEYOND_LOG, LOG_DIRECTORY, NAME_NOT_PADDED, commit_name
from deltacli.table.find_log import find_lost_versions

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.storage import ReadStorage


def find_lost_versions_refusal(storage: ReadStorage, listing: LogListing, hint_version: int) -> Refusal | None:
    """Return the reason not to change a table whose newest versions seem to be lost.

    The files that a lost version added look uncommitted, and those that it took back look removed: a vacuum would
    delete them. A commit would take the number of the lost version. A commit whose name not all engines read has the
    same effects.

    Args:
        storage: The store of the table.
        listing: The log as it was listed.
        hint_version: The version in `_last_checkpoint`; -1 without one.

    Returns:
        The refusal, or None if nothing points to a lost version.
    """
    lost_versions = find_lost_versions(storage, listing, hint_version)
    if lost_versions is None:
        return None
    from deltacli.rules.framework.repairs import undelete_command  # imports the rules, which healthy tables do without

    code, file_name, message = lost_versions
    if code == NAME_NOT_PADDED:
        when = "while no writer is running"
        return Refusal(
            code,
            f"{message}, and the files that it names are unknown to others",
            hint=command("validate", select=[NAME_NOT_PADDED]),
            facts={
                "if it is a version": f"rename it to {commit_name(listing.newest_version + 1)} {when}",
                "if it is not": f"move {LOG_DIRECTORY}/{file_name} to another directory {when}",
            },
        )
    return Refusal(
        code,
        f"{message}, and the files that they named are unknown",
        hint=undelete_command(storage.uri),
        facts={"if they were never made": f"delete {LOG_DIRECTORY}/{file_name}"},
    )


def describe_lost_versions(storage: ReadStorage, listing: LogListing, hint_version: int) -> list[str]:
    """Return notes for a copy or a clone of a table whose newest versions seem to be lost.

    Reading such a table does no harm, so they stop nothing. The arguments are those of `find_lost_versions_refusal`.
    """
    if listing.has_lost_newest:
        return [f"{BEYOND_LOG}: {listing.of_lost_newest}"]
    lost_versions = find_lost_versions(storage, listing, hint_version)
    if lost_versions is None:
        return []
    code, _, message = lost_versions
    return [f"{code}: {message}"]
