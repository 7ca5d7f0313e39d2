"""The proofs that a file belongs where it is put. Recovery puts nothing back without one.

A copy of a table has its id, its file names and its history, and may have gone its own way since. So neither the table
id nor the version of a file in the copy proves that it is the file which the table has lost. The counts in a checksum
file prove nothing either: different commits may have equal counts.

Data files are proven by what the log states about them. Commits need one of the other proofs, which all show that the
table and the source share their history up to the commit in question:

    table    ... 5   6   _   8       version 7 is lost
    copy     ... 5   6   7   8       8 is the same, byte for byte, so 7 is the same as well (CommonLaterCommit)
    copy     ... 5   6   7'  8'      8' differs: the copy went its own way, perhaps before 7'. Nothing is proven
"""

from __future__ import annotations

from typing import NamedTuple


class MatchesLog(NamedTuple):
    """A data file, deletion vector or sidecar that a log names, with the size, footer and rows that the log states.

    Attributes:
        size_bytes: The size that the log states; None if it states none.
    """

    size_bytes: int | None


class RecordedDigest(NamedTuple):
    """A file whose digest was recorded by the list of a backup, or by the manifest of a quarantine of this table.

    Attributes:
        sha256: The digest in hexadecimal.
    """

    sha256: str


class SameObjectVersion(NamedTuple):
    """An older version of the deleted object itself, which the store has kept.

    Attributes:
        id: The id of the version in the store.
    """

    id: str


class CommonLaterCommit(NamedTuple):
    """The table and the copy both have a later commit, byte for byte. So their histories are one up to there.

    Attributes:
        version: The version of the commit that is proven.
        later: The version of the commit that both have.
        file: The name of its file, or of another file of the log up to that version that both have.
    """

    version: int
    later: int
    file: str


class CommonDataFile(NamedTuple):
    """A data file that only one commit of the copy adds is in the table. So their histories are one up to there.

    Attributes:
        version: The version of the commit that is proven.
        agreed: The version of the commit that adds the file.
        file: The path of the data file.
    """

    version: int
    agreed: int
    file: str


class MatchingBeginning(NamedTuple):
    """The table has the beginning of the same commit, with whole actions that are like no other's.

    Attributes:
        version: The version of the commit.
        size_bytes: The length of the beginning.
    """

    version: int
    size_bytes: int


class TableWithoutLog(NamedTuple):
    """The table has no log, so nothing in it could contradict."""


class AcceptedByUser(NamedTuple):
    """Somebody named the version in `accept_commits`.

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
    """A file that may be put in its place. It cannot be made without a proof.

    Attributes:
        path: The path of the file below the table.
        size_bytes: Its size.
        proof: Why it belongs there.
        sha256: The digest of the bytes that were judged; None if they are judged by other means.
    """

    path: str
    size_bytes: int
    proof: Proof
    sha256: str | None = None
