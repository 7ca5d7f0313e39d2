"""The base version of a plan: the version that it was made from, identified so that it can be recognized later.

Neither the table id nor the version number is enough. A copy or a replica has the same table id. A log that was rolled
back gets the same version numbers again:

    when planned     …05.json   …06.json (812 bytes, 10:01)
    rolled back      …05.json
    later            …05.json   …06.json (640 bytes, 10:07)     another version 6

Therefore a `BaseVersion` contains the size and the time of its commit file, the base commit. Both are part of the
listing that every plan reads. `rechecks.py` compares them with the current log before the change writes anything.

Spec: Delta Log Entries.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.base_commit_errors import build_missing_commit_error
from deltacli.core.errors import FileMissing
from deltacli.core.times import CLOCK_SKEW_MS
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogFileKind, LogListing
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.core.typing import Json
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

MAX_LISTING_AGE_SECONDS = 5.0
"""On a remote store, a listing of the log is not repeated within this time. So a change that is executed immediately
after its plan needs no additional requests.
"""

MAX_FILE_CHECK_AGE_SECONDS = 60.0
"""On a remote store, the existence of data files is not checked again within this time before a commit adds them."""

_READ_SIZE_BYTES = 1 << 20


class OwnCommit(NamedTuple):
    """A commit of this run. Its size and time in the store are unknown, because the log was not listed since.

    Attributes:
        name: The name of the file.
        first_line: The first line of the file, which is the commitInfo. Its `txnId` makes it unique.
    """

    name: str
    first_line: bytes


@dataclass(eq=False)
class BaseVersion:
    """The version that a plan was made from. Only `warnings` changes after the creation.

    Attributes:
        table: The table, bound to the directory that it was read from.
        version: The number of the version; for a Paimon table the id of its schema. -1 if the table does not exist yet.
        now_ms: The time of the plan in epoch milliseconds, by the clock of the table.
        base_commit: The file that identifies the version, see `identify_commit`; None if there is none.
        snapshot: The snapshot of the version; None if the plan does not need it any more.
        listed_at: When the log was listed, by the monotonic clock of this process.
        warnings: Warnings about the change that do not depend on its kind, such as views of other engines that become
            stale. `plan_change` adds some to the plan, and `ChangeExecution.update_manifests` adds others after the
            commit. JSON documents contain them as `cautions`.
        sha256: The digest of the base commit, for changes that cannot be undone (`add_commit_digest`); else None.
    """

    table: TableHandle
    version: int
    now_ms: int
    base_commit: LogFile | None = None
    snapshot: Snapshot | None = None
    listed_at: float = 0.0
    warnings: list[str] = field(default_factory=list)
    sha256: str | None = None

    @property
    def was_listed_just_now(self) -> bool:
        """Return True if the log was listed at most `MAX_LISTING_AGE_SECONDS` ago."""
        age_seconds = self.table.machine.monotonic() - self.listed_at
        return 0 <= age_seconds <= MAX_LISTING_AGE_SECONDS

    @property
    def warnings_json(self) -> dict[str, Json]:
        """The warnings as fields of a JSON document: `{"cautions": ["…"]}`, or `{}` if there are no warnings."""
        return {"cautions": list(self.warnings)} if self.warnings else {}


def build_base_version(snapshot: Snapshot) -> BaseVersion:
    """Return the base version of a plan that is made from a snapshot at the current time."""
    table = snapshot.table
    base_commit = identify_commit(snapshot.listing, snapshot.version)
    return BaseVersion(table, snapshot.version, table.clock(), base_commit, snapshot, snapshot.listed_at)


def identify_commit(listing: LogListing, version: int) -> LogFile | None:
    """Return the file that identifies a version.

    Returns:
        The commit file of the version. If it has expired, the first file of the checkpoint. None if the listing has
        neither.
    """
    commit_file = listing.commits.get(version)
    if commit_file is not None:
        return commit_file
    for checkpoint in listing.checkpoints:
        if checkpoint.version == version:
            return checkpoint.files[0]
    return None


def add_commit_digest(base_version: BaseVersion) -> BaseVersion:
    """Return a base version with the digest of its commit, for changes that cannot be undone, such as a vacuum.

    On a local disk, size and time are not sufficient: unpacking an archive restores the times of its files, so a
    different commit may have the same size and time. In an object store the time is always the time of the upload.

    Returns:
        The base version. Without a digest if the base commit has expired, or the store is not a local disk.

    Raises:
        Refused: If the base commit was deleted (`plan.other-past`).
    """
    base_commit = base_version.base_commit
    storage = base_version.table.storage
    # If the commit has expired, the size and time of a checkpoint identify the version.
    if base_commit is None or base_commit.path.kind is not LogFileKind.COMMIT:
        return base_version
    # Remote stores set the time of a file themselves, so no tool can restore an old time there.
    if not storage.capabilities.has_cheap_requests:
        return base_version

    sha256 = hash_log_file(storage, base_commit)
    if sha256 is None:
        raise build_missing_commit_error(base_commit.name)
    return replace(base_version, sha256=sha256)


def hash_log_file(storage: ReadStorage, file: LogFile) -> str | None:
    """Return the SHA-256 of a log file in hexadecimal; None if the file does not exist."""
    digest = hashlib.sha256()
    try:
        with storage.open(f"{LOG_DIRECTORY}/{file.name}") as reader:
            while data := reader.read(_READ_SIZE_BYTES):
                digest.update(data)
    except FileMissing:
        return None
    return str(digest.hexdigest())


def can_be_replaced_unnoticed(base_version: BaseVersion) -> bool:
    """Return True if a commit that replaces the base commit could have the same size and time.

    Remote stores return times in whole seconds, so this is possible for a base commit that was written shortly before
    the plan.
    """
    base_commit = base_version.base_commit
    return base_commit is not None and base_commit.modified_ms > base_version.now_ms - CLOCK_SKEW_MS
