"""An optimization as text: what is rewritten, what is left alone and why, when the old files can be deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.output.columns import Column
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.times import format_duration, format_moment
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_count, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.work.rewrite.pieces import RefusedFile

_NAMED = 5
_MINUTES_FROM, _HOURS_FROM = 120, 7_200
"""Estimates are given in minutes and in hours from so many seconds on."""
_REASONS = {
    "large-enough": "large enough",
    "nothing-to-purge": "no deleted rows, no dropped columns, no NaN beyond bounds, no misread INT96",
    "alone": "no other small file in the partition",
    "min-files": "too few for a new file",
    "sorted": "in this order already",
    "other-clustering": "clustered by other columns",
    "max-bytes": "beyond --max-bytes",
    "time-budget": "beyond --time-budget",
    "conflict": "touched by another writer meanwhile",
    "failed": "no gain without the files that were refused",
    "outside": "outside the table",
    "clustering-provider": "clustered by another program",
    "data.file-missing": "not in storage",
    "optimize.type-unsupported": "columns of types that deltacli does not read",
    "dv.file-missing": "deletion vector not in storage",
}


def optimize_result(plan: OptimizePlan, outcome: OptimizeOutcome | None) -> SingleResult:
    """Return a plan, or what became of it, as a result."""
    content = plan.as_json() if outcome is None else outcome.as_json()
    said = list(_sections(plan, outcome))
    return SingleResult("optimize", plan.table.uri, content, lambda: said, list(_count_files(content)), _COLUMNS)


class CountedFiles(NamedTuple):
    """A row of CSV: files that were removed, added or skipped.

    Attributes:
        what: `removed`, `added` or `skipped`.
        reason: Why they were skipped.
        files: How many there are.
        size_bytes: Their size. None for skipped files.
    """

    what: str
    reason: str | None
    files: Json
    size_bytes: Json


_COLUMNS: Sequence[Column[CountedFiles]] = (
    Column("what", lambda row: row.what),
    Column("reason", lambda row: row.reason),
    Column("files", lambda row: row.files),
    Column("bytes", lambda row: row.size_bytes),
)


def _count_files(content: JsonObject) -> Iterator[CountedFiles]:
    for what in ("removed", "added"):
        yield CountedFiles(what, None, content["files"][what], content["bytes"][what])
    for reason, count in content["skipped"].items():
        yield CountedFiles("skipped", reason, count, None)


def _sections(plan: OptimizePlan, outcome: OptimizeOutcome | None) -> Iterator[Section]:
    chosen, version = plan.selection, plan.snapshot.version
    skipped = dict(Counter(plan.skipped) + (Counter() if outcome is None else outcome.skipped))
    left_alone = [_skipped(reason, count) for reason, count in sorted(skipped.items(), key=lambda item: -item[1])]
    if plan.is_noop:
        what = (
            "no file holds deleted rows, dropped columns, NaN beyond bounds or misread INT96"
            if plan.rules.purge
            else "no files to compact"
        )
        what = what if plan.order is None else "all files are in this order"
        others = ", apart from files that were refused" if any("." in code for code in skipped) else ""
        yield Section("nothing to do", [f"{plan.table.uri}, version {version}: {what}{others}"])
        yield Section("left alone", left_alone)
        yield Section("refused", list(_refused(plan.damaged)), Style.PROBLEM)
        return
    yield Section("table", [plan.table.uri])
    yield Section("version", [str(version)])
    yield Section("limited to", [] if plan.request.where is None else [plan.request.where])
    yield Section("z-order by", list(_names(plan.z_order_by)))
    yield Section("cluster by", list(_names(plan.cluster_by)))
    if outcome is None:
        yield Section("would rewrite", [format_file_totals(chosen.files, chosen.size_bytes)])
        yield Section("into", [f"{plural(chosen.outputs, 'file')} of up to {format_size(plan.rules.target_bytes)}"])
        yield Section("would purge", list(_vectors(chosen.vectors)))
        yield Section("commits", [format_count(len(plan.groups))])
        yield Section("a query opens", [_per_query(plan)])
        yield Section("takes", list(_time(plan)))
    else:
        yield Section("rewrote", [format_file_totals(outcome.files_removed, outcome.bytes_removed)])
        yield Section("into", [format_file_totals(outcome.files_added, outcome.bytes_added)])
        yield Section("rows", [format_count(outcome.rows)])
        yield Section("purged", list(_vectors(outcome.vectors)))
        yield Section("commits", [_commits(outcome)])
        yield Section("verified", list(_verified(outcome)))
        yield Section("old files", list(_old_files(outcome)))
    yield Section("left alone", left_alone)
    if outcome is None:
        yield Section("refused", list(_refused(plan.damaged)), Style.PROBLEM)
    else:
        is_in_error = bool(outcome.refused) and not outcome.refused[0].code.startswith("optimize.")
        yield make_refusal_section(_refused(outcome.refused), in_error=int(is_in_error))
        yield Section("left behind", outcome.left_behind[:_NAMED], Style.PROBLEM)


def _names(columns: list[str]) -> Iterator[str]:
    if columns:
        yield ", ".join(columns)


def _vectors(count: int) -> Iterator[str]:
    if count:
        yield f"the deleted rows of {plural(count, 'file')}"


def _per_query(plan: OptimizePlan) -> str:
    before, after = (plan.estimate[name] for name in ("filesPerQueryBefore", "filesPerQueryAfter"))
    whole = "" if plan.live.partitions <= 1 else " per partition"
    with_condition = "" if plan.order is None else " with a narrow condition on one of these columns"
    return f"{after} files{whole}{with_condition}, now {before}"


def _time(plan: OptimizePlan) -> Iterator[str]:
    seconds = plan.estimate["seconds"]
    if isinstance(seconds, float):
        unit_s = 1 if seconds < _MINUTES_FROM else 60 if seconds < _HOURS_FROM else 3_600
        yield f"about {format_duration(max(round(seconds / unit_s), 1) * unit_s * 1_000)} with two threads"


def _commits(outcome: OptimizeOutcome) -> str:
    versions = outcome.versions
    if not versions:
        return "none"
    which = f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"
    return f"{format_count(len(versions))}, {which}"


def _verified(outcome: OptimizeOutcome) -> Iterator[str]:
    if outcome.verified is not None:
        which = "the table has the same rows" if outcome.verified.is_whole else "the new files have the same rows"
        yield f"{which} as before; {format_count(outcome.verified.rows)} compared"


def _old_files(outcome: OptimizeOutcome) -> Iterator[str]:
    if outcome.versions:
        yield f"stay for older versions; vacuum deletes them from {format_moment(outcome.deletable_from_ms)} UTC on"


def _skipped(reason: str, count: int) -> str:
    return f"{plural(count, 'file')}: {_REASONS.get(reason, reason)}"


def _refused(files: Sequence[RefusedFile]) -> Iterator[str]:
    for one in files[:_NAMED]:
        why = one.reason if one.reason.startswith(f"{one.path} ") else f"{one.path}: {one.reason}"
        yield f"{why} [{one.code}]"
    if len(files) > _NAMED:
        yield f"and {len(files) - _NAMED:,} more"
