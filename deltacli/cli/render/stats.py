"""Computed statistics as text: which files were read, which got other ones, what is left alone and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.core.typing import Json
from deltacli.core.units import format_count, plural

if TYPE_CHECKING:
    from deltacli.operations.change.stats import StatsOutcome, StatsPlan
    from deltacli.work.rewrite.pieces import RefusedFile

_NAMED = 5
_COULD_BE_TIGHTER = "could be tighter, but hold for all rows"


def stats_result(plan: StatsPlan, outcome: StatsOutcome | None) -> SingleResult:
    """Return a plan, or what became of it, as a result."""
    content = plan.as_json() if outcome is None else outcome.as_json()
    files = content["files"]
    assert isinstance(files, dict)
    return SingleResult(
        "stats", plan.table.uri, content, lambda: list(_sections(plan, outcome)), list(files.items()), _COLUMNS
    )


_COLUMNS: Sequence[Column[tuple[str, Json]]] = (Column("what", itemgetter(0)), Column("files", itemgetter(1)))
"""What was done, and with how many files."""


def _sections(plan: StatsPlan, outcome: StatsOutcome | None) -> Iterator[Section]:
    if plan.is_noop:
        what = "statistics to replace or to add" if plan.request.all else "statistics missing"
        yield Section("nothing to do", [f"{plan.table.uri}, version {plan.snapshot.version}: no {what}"])
        yield _right_files(plan)
        return
    yield Section("table", [plan.table.uri])
    yield Section("version", [str(plan.snapshot.version)])
    yield Section("limited to", [] if plan.request.where is None else [plan.request.where])
    yield Section("columns", [", ".join(plan.request.columns)] if plan.request.columns else [])
    amount = format_file_totals(plan.files, plan.size_bytes)
    has_read = Section("read", [f"{plan.request.read} of {amount}"])
    if outcome is None:
        yield has_read if plan.due is not None else Section(f"would read {plan.request.read} of", [amount])
        yield Section("of live files", [format_count(plan.live)])
        yield Section("to change", [] if plan.due is None else [plural(plan.due, "file")])
        yield _files_that_need_rows(plan.needs_rows)
        yield Section("commits", [f"up to {format_count(plan.commits)}"])
        yield _right_files(plan)
        yield _left_out(plan.refused)
        return
    yield has_read
    yield Section("committed", [f"statistics of {plural(outcome.committed, 'file')}"])
    yield Section("commits", [format_count(len(outcome.versions))])
    yield _left_alone(
        {
            f"nothing to add from {plan.request.read}": outcome.unchanged,
            _COULD_BE_TIGHTER: outcome.could_be_tighter,
            "touched by another writer meanwhile": outcome.dropped,
        }
    )
    yield _files_that_need_rows(outcome.needs_rows)
    yield _left_out(outcome.refused)


def _files_that_need_rows(count: int) -> Section:
    """Return how many files lack statistics that no footer can give them."""
    return Section(
        "need rows", [f"{plural(count, 'file')}: footers lack a null count; --read rows adds it"] if count else []
    )


def _left_alone(reasons: Mapping[str, int]) -> Section:
    """Return how many files are left alone for each reason."""
    return Section("left alone", [f"{plural(count, 'file')}: {why}" for why, count in reasons.items() if count])


def _right_files(plan: StatsPlan) -> Section:
    """Return the files whose statistics are right, although others are possible."""
    return _left_alone(
        {
            _COULD_BE_TIGHTER: plan.could_be_tighter,
            "a column is younger than the file, which has no null count of it": plan.younger_columns,
        }
    )


def _left_out(files: Sequence[RefusedFile]) -> Section:
    named = [f"{one.path}: {one.reason} [{one.code}]" for one in files[:_NAMED]]
    more = len(files) - len(named)
    return make_refusal_section([*named, *([f"and {more:,} more"] if more else [])])
