"""An undelete as text: what comes back and from where, what is in no source, and what is to be known besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.operations.recover.plan import MISSING, PLANNED
from deltacli.units import format_ranges, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.put import Journal

_NAMED = 10


def sections_of(plan: UndeletePlan, restored: Journal | None) -> list[Section]:
    """Return the parts of a plan; those with nothing to say are left out."""
    found, missing = plan.found, plan.missing
    version = "unknown until the log is back" if plan.is_log_first else str(plan.version)
    verb = "would restore" if restored is None else "restored"
    return [
        Section("table", [plan.table + ("" if plan.had_log else ", which has no log")]),
        Section("version", [version + _before(plan)]),
        Section("needed", [_amount(plan.needed.files, plan.needed.size_bytes)]),
        Section(verb, list(_kinds(plan)) if found.files else ["nothing"], Style.GOOD if found.files else Style.PLAIN),
        Section("missing", list(_lost(plan)) if missing.files else [], Style.PROBLEM),
        Section("readable", _readable(plan) if missing.files else []),
        *remarks_of(plan),
        Section("refused", [f"{one.message} [{one.code}]" for one in plan.refusals], Style.PROBLEM),
    ]


def remarks_of(plan: UndeletePlan) -> list[Section]:
    """Return what is to be known besides."""
    changed, outside = plan.changed_times, plan.outside
    return [
        Section(
            "overwritten", [f"{one.path}: {len(one.versions)} contents" for one in plan.overwritten], Style.PROBLEM
        ),
        Section(
            "commit times",
            [f"those of {format_ranges(changed)} change: the store cannot keep them"] if changed else [],
            Style.WARNING,
        ),
        Section("not looked at", [f"{plural(outside, 'file')} of other tables"] if outside else []),
    ]


def _before(plan: UndeletePlan) -> str:
    if not plan.had_log or plan.version_before == plan.version:
        return ""
    return "" if plan.version_before is None else f", the newest now is {plan.version_before}"


def by_kind(plan: UndeletePlan, state: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Return (kind, source) -> (files, bytes) of the files in a state."""
    from deltacli.arrow import compute as pc

    rows = plan.items.filter(pc.equal(plan.items["state"], state)).group_by(["kind", "source"], use_threads=False)
    counted = rows.aggregate([("path", "count"), ("sizeBytes", "sum")]).to_pylist()
    return {(one["kind"], one["source"] or ""): (one["path_count"], one["sizeBytes_sum"] or 0) for one in counted}


def _kinds(plan: UndeletePlan) -> Iterator[str]:
    yield _amount(*plan.found)
    for (kind, source), (files, size_bytes) in by_kind(plan, PLANNED).items():
        yield f"  {kind}: {_amount(files, size_bytes)}, from {source}"


def _lost(plan: UndeletePlan) -> Iterator[str]:
    yield f"{plural(plan.missing.files, 'file')}, in no source"
    yield from (f"  {text}" for text in lost_files(plan))


def lost_files(plan: UndeletePlan) -> Iterator[str]:
    """Yield the first files that no source has, and the number of the others."""
    from deltacli.arrow import compute as pc

    lost = plan.items.filter(pc.equal(plan.items["state"], MISSING))
    for row in lost.slice(0, _NAMED).to_pylist():
        why = row["reason"] or ("" if row["problem"] == "missing" else row["problem"])
        yield f"{row['path']}{why and ': '}{why}"
    if lost.num_rows > _NAMED:
        kinds = Counter(lost["kind"].slice(_NAMED).to_pylist())
        yield f"and {', '.join(f'{count:,} more of kind {kind}' for kind, count in kinds.items())}: --json names all"


def _readable(plan: UndeletePlan) -> list[str]:
    newest = plan.newest_readable
    return ["no older version is known to be complete" if newest is None else f"version {newest} is complete"]


def _amount(files: int, size_bytes: int) -> str:
    return f"{plural(files, 'file')}, {format_size(size_bytes)}"
