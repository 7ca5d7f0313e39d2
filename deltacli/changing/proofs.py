"""Proofs that a recovered file belongs to the table. `undelete` and `log restore` restore no file without one.

Suppose that commit 7 of a table is lost, and that there is a copy of the table. The copy has the same table id, the
same file names and a commit 7, but it may have been changed after it was copied. So the table id and the version number
do not prove that commit 7 of the copy is the lost commit. The counts in a checksum file do not prove it either, because
different commits may result in the same counts.

A data file is proven by its size, footer and row count, which the log of the table contains. A commit needs another
proof. Most of them show that table and copy have the same history up to that commit:

    table    ... 5   6   _   8       commit 7 is lost
    copy     ... 5   6   7   8       8 is identical, so 7 is the lost commit (CommonLaterCommit)
    copy     ... 5   6   7'  8'      8' differs: the copy was changed, perhaps before 7'. Nothing is proven
"""

from __future__ import annotations

from typing import NamedTuple


class MatchesLog(NamedTuple):
    """A data file, deletion vector or sidecar that the log references, with the same size, footer and row count.

    Attributes:
        size_bytes: The size that the log contains; None if the log does not contain it.
    """

    size_bytes: int | None


class RecordedDigest(NamedTuple):
    """A file whose digest was recorded earlier: in the file list of a backup, or when a vacuum put it in quarantine.

    Attributes:
        sha256: The digest in hexadecimal.
    """

    sha256: str


class SameObjectVersion(NamedTuple):
    """An older version of the deleted object, in an object store that keeps versions.

    Attributes:
        id: The version id of the object.
    """

    id: str


class CommonLaterCommit(NamedTuple):
    """Table and copy have an identical later commit, so they have the same history up to that commit.

    Attributes:
        version: The version of the commit that is proven.
        later: The version of the later commit.
        file: The name of the later commit file, or of another log file up to that version that is identical.
    """

    version: int
    later: int
    file: str


class CommonDataFile(NamedTuple):
    """The table directory contains a data file that only one commit of the copy adds, so both have that commit.

    Attributes:
        version: The version of the commit that is proven.
        agreed: The version of the commit that adds the data file. The histories are the same up to this version.
        file: The path of the data file.
    """

    version: int
    agreed: int
    file: str


class MatchingBeginning(NamedTuple):
    """The table has a truncated file of the same commit, which the commit of the copy begins with.

    The truncated file contains complete actions that occur in no other commit, such as the add action of a new file.

    Attributes:
        version: The version of the commit.
        size_bytes: The size of the truncated file.
    """

    version: int
    size_bytes: int


class TableWithoutLog(NamedTuple):
    """The table has no log file at all that could contradict the recovered log."""


class AcceptedByUser(NamedTuple):
    """The user has named the version in `accept_commits`.

    Attributes:
        version: The version.
    """

    version: int


Proof = (
    MatchesLog
    | RecordedDigest
    | SameObjectVersion
    | CommonLaterCommit
    | CommonDataFile
    | MatchingBeginning
    | TableWithoutLog
    | AcceptedByUser
)


class ProvenFile(NamedTuple):
    """A file that may be restored to the table. The proof is a required argument, so that it cannot be forgotten.

    Attributes:
        path: The path of the file, relative to the table directory.
        size_bytes: The size of the file.
        proof: The proof that the file belongs to the table.
        sha256: The digest of the content that was examined for the proof; None if the proof needs no content.
    """

    path: str
    size_bytes: int
    proof: Proof
    sha256: str | None = None
