"""What is said of files of a log that nothing proves to be of the table: notes, and refusals with the way past them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.errors import Refusal
from deltacli.hints import parameter
from deltacli.operations.recover.log_files import LogItem
from deltacli.operations.recover.plan import UNPROVEN, UndeletePlan
from deltacli.operations.recover.proving import LeftOut, Proofs
from deltacli.units import format_ranges, named_ranges

if TYPE_CHECKING:
    from deltacli.operations.recover.sources import Source


def with_proofs(plan: UndeletePlan, proofs: Proofs, *, is_tip_judged: bool) -> UndeletePlan:
    """Return a plan with what proves each file of the log, refused where one has no proof."""
    log = plan.log
    assert log is not None
    found = {item.path: proofs.proof_of(plan.log_sources[item.source], item.file) for item in log.items}
    unproven = [item for item in log.items if found[item.path] is None]
    refusals = [
        _unproven(source, proofs, items)
        for number, source in enumerate(plan.log_sources)
        if (items := [item for item in unproven if item.source == number])
    ]
    if is_tip_judged and not refusals:
        refusals += [_lost_above(one) for one in proofs.left_out if one.loss is not None]
    notes = [one.note for one in proofs.left_out if one.loss is None or not is_tip_judged]
    ways = [f"; to bring back: {_accepting(one.versions)}" for one in proofs.left_out]
    return replace(
        plan,
        proofs={path: proof for path, proof in found.items() if proof is not None},
        refusals=(*plan.refusals, *refusals),
        notes=(*plan.notes, *(f"{note}{way}" for note, way in zip(notes, ways, strict=False))),
    )


class _Versions(tuple[int, ...]):
    """Versions that are written as ranges on a command line."""

    def __str__(self) -> str:
        return format_ranges(self).replace(" ", "")


def _accepting(versions: Iterable[int]) -> str:
    return parameter("undelete.accept_commits", _Versions(versions))


def _why(word: str, versions: Sequence[int], source: str) -> str:
    verb, adds = ("is", "it adds") if len(versions) == 1 else ("are", "they add")
    return (
        f"{named_ranges(word, versions)} of {source} {verb} not proven to be of this table: no later commit is in "
        f"both, and the files that {adds} are not in the table"
    )


def _unproven(source: Source, proofs: Proofs, items: Sequence[LogItem]) -> Refusal:
    """Return the refusal of files of a source that may be of another history."""
    versions = sorted({item.file.path.newest for item in items})
    reach = proofs.reach_of(source).version
    compared = (
        f"{source.name} is proven to be of this table up to version {reach}"
        if reach >= 0
        else f"no commit of {source.name} is proven to be of this table"
    )
    return Refusal(
        UNPROVEN,
        _why("version", versions, source.name),
        f"add {_accepting(versions)}",
        facts={
            "compared": compared,
            "why": "a copy may have gone its own way, and its commits would lose rows of the table and bring others",
            "to accept": _accepting(versions),
        },
    )


def _lost_above(left: LeftOut) -> Refusal:
    """Return the refusal of commits above the newest version, where the table may have lost some."""
    return Refusal(
        UNPROVEN,
        f"{_why('commit', left.versions, left.source)}, which may have lost others: {left.loss}",
        f"add {_accepting(left.versions)}",
        facts={
            "to accept": _accepting(left.versions),
            "to do without": parameter("undelete.version", min(left.versions) - 1),
        },
    )
