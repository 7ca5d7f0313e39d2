"""The version that a plan was made from, and the commit by which that version is recognized later.

A table id does not identify a table: copies and replicas keep it. Nor does a version number: a log that was rolled back
gets the same numbers again. Both have another file under the name of the base commit, however, and its size and time
are in the listing that every plan reads anyway. `rechecks.py` compares them.

Spec: Delta Log Entries.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.base_errors import build_gone_commit_error
from deltacli.core.errors import FileMissing
from deltacli.core.times import CLOCK_SKEW_MS
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFile, LogFileKind, LogListing
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.core.typing import Json
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

MAX_LISTING_AGE_SECONDS = 5.0
"""The age up to which a listing of the log counts as current on a remote store, so that a change that is executed right
after its plan sends no more requests than before the rechecks existed.
"""

MAX_FILE_CHECK_AGE_SECONDS = 60.0
"""The age up to which a look at data files is good enough for a commit to name them."""

_READ_SIZE_BYTES = 1 << 20


class OwnCommit(NamedTuple):
    """A commit of this run that no listing has shown yet, so that its size and time in the store are unknown.

    Attributes:
        name: The name of its file.
        first_line: The line with its commitInfo, which contains the txnId and is therefore unique.
    """

    name: str
    first_line: bytes


@dataclass(frozen=True, eq=False)
class Basis:
    """The version that a plan was made from.

    Attributes:
        table: The table, bound to the directory in which it was read.
        version: The version; for a Paimon table the id of its schema. -1 if there is no table yet.
        now_ms: The time of the plan in epoch milliseconds, by the clock of the table.
        base_commit: The file that identifies the version, as `identify_commit` returns it; None if there is none.
        snapshot: The version as it was rebuilt; None if the plan does not keep it.
        listed_at: When the log was listed, by the monotonic clock of this process.
        warnings: What every change of this table has to say, such as views of other engines that it leaves stale.
            `plan_change` completes them, and what fails after a commit adds to them.
        sha256: The digest of the base commit if its size and time are not enough, see `add_commit_digest`.
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
    def is_fresh(self) -> bool:
        """Return True if the log was listed at most a few seconds ago."""
        age_seconds = self.table.machine.monotonic() - self.listed_at
        return 0 <= age_seconds <= MAX_LISTING_AGE_SECONDS

    @property
    def warnings_json(self) -> dict[str, Json]:
        """Return the warnings as a field of documents that have no other texts; empty without warnings."""
        return {"cautions": list(self.warnings)} if self.warnings else {}


def build_basis(snapshot: Snapshot) -> Basis:
    """Return the basis of a plan that is made from a snapshot now."""
    table = snapshot.table
    base_commit = identify_commit(snapshot.listing, snapshot.version)
    return Basis(table, snapshot.version, table.clock(), base_commit, snapshot, snapshot.listed_at)


def identify_commit(listing: LogListing, version: int) -> LogFile | None:
    """Return the file by which a version is recognized.

    That is its commit, or the first file of its checkpoint if the commit has expired.

    Returns:
        The file as it was listed. None if the listing has neither.
    """
    commit_file = listing.commits.get(version)
    if commit_file is not None:
        return commit_file
    for checkpoint in listing.checkpoints:
        if checkpoint.version == version:
            return checkpoint.files[0]
    return None


def add_commit_digest(basis: Basis) -> Basis:
    """Return the basis of a change that cannot be taken back, with the digest of its base commit.

    On a disk another commit may get the size and the time of the first one, as when a directory is unpacked from an
    archive. In an object store the time is that of the upload.

    Raises:
        Refused: If the base commit is gone (`plan.other-past`).
    """
    base_commit = basis.base_commit
    storage = basis.table.storage
    # Where the commit has expired, its checkpoint stands for it, by size and time alone.
    if base_commit is None or base_commit.path.kind is not LogFileKind.COMMIT:
        return basis
    if not storage.capabilities.cheap_listing:
        return basis

    sha256 = hash_log_file(storage, base_commit)
    if sha256 is None:
        raise build_gone_commit_error(base_commit.name)
    return replace(basis, sha256=sha256)


def hash_log_file(storage: ReadStorage, file: LogFile) -> str | None:
    """Return the SHA-256 of a file of the log in hexadecimal; None if the file is gone."""
    digest = hashlib.sha256()
    try:
        with storage.open(f"{LOG_DIRECTORY}/{file.name}") as reader:
            while data := reader.read(_READ_SIZE_BYTES):
                digest.update(data)
    except FileMissing:
        return None
    return str(digest.hexdigest())


def may_be_replaced_unnoticed(basis: Basis) -> bool:
    """Return True if another commit may have taken the place of the base commit, with the same size and time.

    The base commit was then written shortly before the plan: stores over a network tell times in whole seconds.
    """
    base_commit = basis.base_commit
    return base_commit is not None and base_commit.modified_ms > basis.now_ms - CLOCK_SKEW_MS
