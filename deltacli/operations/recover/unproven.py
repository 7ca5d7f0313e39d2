"""The refusals of commits that no proof shows to be the table's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltacli.changing.proofs import UNPROVEN
from deltacli.errors import Refusal
from deltacli.hints import parameter
from deltacli.operations.recover.log_files import LogItem
from deltacli.operations.recover.proving import LeftOut, Proofs
from deltacli.operations.recover.sources import Source
from deltacli.units import format_ranges, named_ranges


class _Versions(tuple[int, ...]):
    """Versions that are written as ranges on a command line."""

    def __str__(self) -> str:
        return format_ranges(self).replace(" ", "")


def accepting(versions: Iterable[int]) -> str:
    return parameter("undelete.accept_commits", _Versions(versions))


def refusal_of_unproven(source: Source, proofs: Proofs, items: Sequence[LogItem]) -> Refusal:
    """Return the refusal of files of a source that may be of another history."""
    versions = sorted({max(item.file.path.version, item.file.path.last_version) for item in items})
    reach = proofs.reach_of(source).version
    compared = (
        f"{source.name} is proven to be of this table up to version {reach}"
        if reach >= 0
        else f"no commit of {source.name} is proven to be of this table"
    )
    what = named_ranges("version", versions)
    verb = "is" if len(versions) == 1 else "are"
    return Refusal(
        UNPROVEN,
        f"{what} of {source.name} {verb} not proven to be of this table: no later commit is in both, and "
        f"the files that {'it adds' if len(versions) == 1 else 'they add'} are not in the table",
        f"add {accepting(versions)}",
        facts={
            "compared": compared,
            "why": "a copy may have gone its own way, and its commits would lose rows of the table and bring others",
            "to accept": accepting(versions),
        },
    )


def lost_above(left: LeftOut) -> Refusal:
    """Return the refusal of commits above the newest version, where the table may have lost some."""
    what = named_ranges("commit", left.versions)
    verb = "is" if len(left.versions) == 1 else "are"
    return Refusal(
        UNPROVEN,
        f"{what} of {left.source} {verb} not proven to be of this table: no later commit is in both, and "
        f"the files that {'it adds' if len(left.versions) == 1 else 'they add'} are not in the table, which may have "
        f"lost others: {left.loss}",
        f"add {accepting(left.versions)}",
        facts={
            "to accept": accepting(left.versions),
            "to do without": parameter("undelete.version", min(left.versions) - 1),
        },
    )
