"""The request to bring deleted files back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError, require_path
from deltacli.core.hints import parameter
from deltacli.core.request_fields import Kind, Option, option, shared
from deltacli.table.api_arguments import optional_version, version_number

ACCEPT_COMMITS = Option(
    "Versions of a copy to bring back although nothing proves that they are of this table. Repeatable.",
    "N,N-M,…",
    Kind.VERSIONS,
    spelled="--accept-commits",
)


def accepted_versions(versions: Iterable[object]) -> tuple[int, ...]:
    """Return the versions of `accept_commits`. Raises UsageError."""
    return tuple(version_number(version, parameter("undelete.accept_commits")) for version in versions)


@dataclass(frozen=True, kw_only=True)
class UndeleteRequest:
    """What to bring back, and from where.

    `sources` are `versions` (what the store keeps of deleted objects; the default), or directories and URIs with the
    same paths below them: a backup, a copy, a clone, a quarantine. `version` is the one whose files are needed (None:
    the newest), `prefix` limits its data files to a directory. `accept_commits` are versions that a copy may bring
    although nothing proves that they are of this table.
    """

    sources: Sequence[str] = option(
        "Where to look for the files: versions that the store keeps, or a copy of the table. Repeatable.  "
        "[default: versions]",
        "versions|DIRECTORY|URI",
        Kind.TEXTS,
        default=(),
        spelled="--from",
    )
    version: int | None = option("Version whose files are needed.  [default: the newest]", "N", spelled="--version")
    prefix: str | None = option("Bring back only data files below this directory of the table.", "P")
    accept_commits: Sequence[int] = shared(ACCEPT_COMMITS, ())
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        if isinstance(self.sources, str):
            raise UsageError(f"{parameter('undelete.sources')} is a string", facts={"expected": "a list of strings"})
        object.__setattr__(self, "sources", tuple(self.sources) or ("versions",))
        if any(not source for source in self.sources):
            raise UsageError(f"{parameter('undelete.sources')} is empty")
        object.__setattr__(self, "accept_commits", accepted_versions(self.accept_commits))
        optional_version(self.version, parameter("undelete.version"))
        if self.prefix is not None:
            require_path(self.prefix, parameter("undelete.prefix"))
            parts = [part for part in self.prefix.split("/") if part not in ("", ".")]
            if self.prefix.startswith("/") or "://" in self.prefix or ".." in parts or not parts:
                raise UsageError(
                    f"{parameter('undelete.prefix')} {self.prefix} is not a directory below the table",
                    facts={"expected": "date=2026-01-01"},
                )
            object.__setattr__(self, "prefix", "/".join(parts))
