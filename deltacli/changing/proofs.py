"""What proves that a file belongs where it is put: nothing is put back without one.

A copy of a table has its id, its names and its history, and may have gone its own way since. So neither the id nor the
versions of a copy prove anything about the table's own next commit; counts in a checksum file prove nothing either.
"""

from __future__ import annotations

from typing import NamedTuple


class AsLogged(NamedTuple):
    """A data file, vector or sidecar that a log names: its bytes, footer and rows are those that the log states."""

    size_bytes: int | None


class Noted(NamedTuple):
    """A file whose SHA-256 the list of a backup, or the manifest of a quarantine of this table, has."""

    sha256: str


class SameObject(NamedTuple):
    """A version, kept by the store, of the deleted object itself."""

    id: str


class Between(NamedTuple):
    """Table and copy both have commit `later`, byte for byte: their histories are one up to there. `file` is its name,
    or that of another file of the log, up to that version, that both have.
    """

    version: int
    later: int
    file: str


class FilesAgree(NamedTuple):
    """A data file that only commit `agreed` of the copy adds is in the table: histories are one up to there."""

    version: int
    agreed: int
    file: str


class Begun(NamedTuple):
    """The table has the beginning of this commit, with whole actions that are like no other's."""

    version: int
    size_bytes: int


class Alone(NamedTuple):
    """The table has no log that could contradict."""


class Accepted(NamedTuple):
    """Somebody named the version in `accept_commits`."""

    version: int


Proof = AsLogged | Noted | SameObject | Between | FilesAgree | Begun | Alone | Accepted


class ProvenFile(NamedTuple):
    """A file that may be put in its place: there is none without a proof. `sha256` are the bytes that were judged, None
    where they are judged by other means.
    """

    path: str
    size_bytes: int
    proof: Proof
    sha256: str | None = None
