"""A vacuum as text: what is deleted, what is kept and why, how far time travel reaches, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section, file_amount, refused
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.patterns import pattern
from deltacli.core.units import format_age, format_duration, format_moment, format_size, format_spans, plural
from deltacli.operations.vacuum.request import Mode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.cli.render.terminal.plans import PlanRow
    from deltacli.core.errors import Refusal
    from deltacli.operations.vacuum.explain import ExplainedCommit, Explanation
    from deltacli.operations.vacuum.plan import Ages, Reason, VacuumOutcome, VacuumPlan

_NAMED = 5
_FAILURES = 10

UNRECOGNIZED = "unrecognized"
"""What people read for files that are not part of a Delta table; documents call them `foreign`."""

_RFC_3339 = pattern(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z")
"""A time as documents have it."""

KEPT_KINDS: dict[str, str] = {
    "retained": "removed files that are still needed",
    "young": "not older than the cutoff",
    "hidden": "names that begin with _ or .",
    "links": "never followed",
    "unproven": "the log does not prove that no version needs them",
    "outside_selection": "outside of what this run is limited to",
}
"""Field of `Kept` -> why such files are kept."""


def vacuum_sections(plan: VacuumPlan, outcome: VacuumOutcome | None, terminal: Terminal) -> list[Section]:
    """The sections of a plan with its outcome; those with nothing to say are left out."""
    cutoff = f"files older than {format_moment(plan.cutoff_ms)} UTC ({format_duration(plan.retention_ms)})"
    return [
        Section("table", [plan.table]),
        Section("version", [str(plan.snapshot_version)]),
        Section("cutoff", [cutoff]),
        Section("mode", ["lite: only what commits of the log removed"] if plan.mode is Mode.LITE else []),
        Section("limited to", [plan.selection] if plan.selection is not None else []),
        Section("delete" if outcome is None else "planned", _deleted(plan, terminal)),
        Section("directories", _directories(plan, outcome)),
        Section("keep", _aligned(list(_kept(plan)))),
        Section("nested", _nested(plan)),
        Section("time travel", list(_time_travel(plan, terminal))),
        Section("change feed", list(_change_feed(plan))),
        refused(_refusal(one) for one in plan.refusals),
        *([] if outcome is None else _became(outcome)),
    ]


def _deleted(plan: VacuumPlan, terminal: Terminal) -> list[str]:
    """Return the sum, and a line per kind: files, bytes, from the newest to the oldest."""
    if not plan.files:
        return ["nothing"]
    total = file_amount(plan.files, plan.size_bytes)
    kinds = [
        (kind_name(kind), totals.amount, span_of_ages(plan, totals.ages, terminal))
        for kind, totals in plan.totals.items()
    ]
    texts = [(name, plural(amount.files, "file"), format_size(amount.size_bytes), ages) for name, amount, ages in kinds]
    name, files, size = (max(len(row[index]) for row in texts) for index in range(3))
    return [total, *(f"{row[0]:<{name}}  {row[1]:>{files}}  {row[2]:>{size}}  {row[3]}" for row in texts)]


def kind_name(reason: Reason) -> str:
    """Return the word that people read for a reason; documents keep its name."""
    return UNRECOGNIZED if reason.value == "foreign" else reason.value


def span_of_ages(plan: VacuumPlan, ages: Ages, terminal: Terminal) -> str:
    """Return the oldest and the newest time, as ages on a terminal and as times in a pipe; of LITE, of the removal."""
    if not ages.oldest_ms or not ages.newest_ms:
        return "of unknown age" if not ages.newest_ms else f"the newest {_moment(plan, ages.newest_ms, terminal)}"
    oldest, newest = (_moment(plan, moment, terminal) for moment in (ages.oldest_ms, ages.newest_ms))
    if oldest == newest:
        return oldest
    if terminal.is_terminal:
        return f"{newest.removesuffix(' ago')} to {oldest}"
    return f"{oldest.removesuffix(' UTC')} to {newest}"


def _moment(plan: VacuumPlan, timestamp_ms: int, terminal: Terminal) -> str:
    return format_age(timestamp_ms, plan.now_ms) if terminal.is_terminal else f"{format_moment(timestamp_ms)} UTC"


def _directories(plan: VacuumPlan, outcome: VacuumOutcome | None) -> list[str]:
    if outcome is not None:
        removed = outcome.directories_removed
        return [f"{removed:,} empty {_directory(removed)} removed"] if removed else []
    return [f"{len(plan.directories):,} empty {_directory(len(plan.directories))}"] if plan.directories else []


def _directory(count: int) -> str:
    return "directory" if count == 1 else "directories"


def _kept(plan: VacuumPlan) -> Iterator[tuple[str, str]]:
    kept = plan.kept
    if kept.live.files:
        yield "live", file_amount(kept.live.files, kept.live.size_bytes)
    yield from _counted(plan, ("retained", "young"))
    if kept.foreign.files:
        yield (
            UNRECOGNIZED,
            f"{file_amount(kept.foreign.files, kept.foreign.size_bytes)}: --include-foreign deletes them",
        )
        for name in kept.foreign_examples[:_NAMED]:
            yield "", name
        if kept.foreign.files > len(kept.foreign_examples[:_NAMED]) and kept.foreign_examples:
            yield "", f"and {kept.foreign.files - len(kept.foreign_examples[:_NAMED]):,} more"
    yield from _counted(plan, ("hidden", "links", "unproven", "outside_selection"))


def _counted(plan: VacuumPlan, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if count := getattr(plan.kept, name):
            yield name.replace("outside_selection", "not selected"), f"{count:,}, {kept_kinds(plan)[name]}"


def kept_kinds(plan: VacuumPlan) -> Mapping[str, str]:
    """Return why files of each kind are kept; for removed files of a log that was copied until when."""
    if plan.copied_ms is None:
        return KEPT_KINDS
    until = format_moment(plan.copied_ms + plan.retention_ms)
    return KEPT_KINDS | {"retained": f"removed files, until {until} UTC: the log was copied and has new times"}


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def _nested(plan: VacuumPlan) -> list[str]:
    tables = plan.kept.nested_tables
    if not tables:
        return []
    many = f"{len(tables):,} nested tables, left" if len(tables) > 1 else "1 nested table, left"
    more = [f"and {len(tables) - _NAMED:,} more"] if len(tables) > _NAMED else []
    return [f"{many} alone", *tables[:_NAMED], *more]


def _time_travel(plan: VacuumPlan, terminal: Terminal) -> Iterator[str]:
    reach = plan.reach
    if plan.missing_live.files:
        yield f"not complete: version {plan.snapshot_version} lacks {plural(plan.missing_live.files, 'file')}"
        return
    if reach.first_version is None:
        if plan.files:
            yield "unknown: the log does not show how far back versions are complete"
        return
    when = "" if reach.first_ms is None else f", committed {_moment(plan, reach.first_ms, terminal)}"
    yield f"complete from version {reach.first_version}{when}"
    if reach.lost:
        is_one = len(reach.lost) == 1 and reach.lost[0][0] == reach.lost[0][1]
        yield f"{'version' if is_one else 'versions'} {format_spans(reach.lost)} will no longer be fully readable"


def _change_feed(plan: VacuumPlan) -> Iterator[str]:
    if plan.reach.lost_feed is not None:
        yield f"of {_versions(*plan.reach.lost_feed)} is no longer complete"


def _versions(first: int, last: int) -> str:
    return f"{'version' if first == last else 'versions'} {format_spans([(first, last)])}"


def _refusal(refusal: Refusal) -> str:
    override = f"; override with {refusal.override}" if refusal.override else ""
    return f"{refusal.message} [{refusal.code}]{override}"


def _became(outcome: VacuumOutcome) -> Iterator[Section]:
    """What was done, and what was not."""
    parts = [file_amount(outcome.deleted.files, outcome.deleted.size_bytes)]
    if outcome.missing:
        parts.append(f"{_were(outcome.missing)} already missing")
    if outcome.resumed_after:
        yield Section("resumed", [f"after {plural(outcome.resumed_after, 'file')} of earlier runs"])
    yield Section("deleted", [", ".join(parts)])
    yield Section(
        "spared", [f"{plural(outcome.spared, 'file')}, needed again since the plan was made"] if outcome.spared else []
    )
    yield Section("failed", list(_failures(outcome)), Style.PROBLEM)
    yield Section("commits", _commits(outcome))


def _were(count: int) -> str:
    return f"{count:,} {'was' if count == 1 else 'were'}"


def _failures(outcome: VacuumOutcome) -> Iterator[str]:
    """The first failed files, and how many there are."""
    if not outcome.failed.count:
        return
    shown = outcome.failed.named[:_FAILURES]
    yield f"{plural(outcome.failed.count, 'file')} could not be deleted"
    yield from (f"{path}: {reason}" for path, reason in shown)
    if left := outcome.failed.count - len(shown):
        yield f"and {left:,} more: --json names them"


def _commits(outcome: VacuumOutcome) -> list[str]:
    if outcome.start_version is None:
        return []
    said = [f"VACUUM START: version {outcome.start_version}"]
    if outcome.end_version is not None:
        said.append(f"VACUUM END: version {outcome.end_version}")
    elif outcome.end_problem is not None:
        said.append(f"VACUUM END: not written: {outcome.end_problem}")
    return [", ".join(said)]


_VERDICTS = {"goes": ("delete", Style.REMOVED), "kept": ("keep", Style.GOOD)}
"""Verdict in documents -> the word that people read, and its look."""


def explanation_sections(table: str, explanation: Explanation) -> list[Section]:
    """The verdict, why, what is known of the file, and the commits that name it, in order."""
    verdict, style = _VERDICTS.get(explanation.verdict, (explanation.verdict, Style.PLAIN))
    return [
        Section("table", [table]),
        Section("file", [explanation.path]),
        Section("verdict", [verdict], style),
        Section("why", [explanation.why]),
        *(Section(name, [_RFC_3339.sub(r"\1 \2 UTC", text)]) for name, text in explanation.facts),
        Section("commits", [_commit(commit) for commit in explanation.commits]),
    ]


def _commit(commit: ExplainedCommit) -> str:
    when = "at an unknown time" if commit.timestamp_ms is None else f"{format_moment(commit.timestamp_ms)} UTC"
    words = [f"{commit.version}, {when}, {commit.action}", commit.operation or "", commit.detail]
    return ", ".join(word for word in words if word)


_ABOVE = ("table", "version", "cutoff", "mode", "limited to")
_IN_TABLE = ("delete", "planned", "keep", "refused")


def draw_vacuum(canvas: Canvas, terminal: Terminal, plan: VacuumPlan, outcome: VacuumOutcome | None) -> None:
    """Draw what is deleted and kept, the versions that lose files, and what became of the plan."""
    from deltacli.cli.render.terminal.plans import draw_parts, plan_table, refusal_rows, section_rows

    sections = vacuum_sections(plan, outcome, terminal)
    above = [section for section in sections if section.label in _ABOVE]
    below = [section for section in sections if section.label not in (*_ABOVE, *_IN_TABLE)]
    rows = list(_drawn_rows(plan, terminal, "delete" if outcome is None else "planned"))
    draw_parts(
        canvas,
        section_rows(canvas, above),
        plan_table(canvas, rows, "age or reason"),
        [
            *_examples(canvas, plan),
            *_strip(canvas, plan),
            *section_rows(canvas, below),
            *refusal_rows(
                canvas, [(one.message, one.code, one.override) for one in plan.refusals], error_has_code=True
            ),
        ],
    )


def _drawn_rows(plan: VacuumPlan, terminal: Terminal, verb: str) -> Iterator[PlanRow]:
    from deltacli.cli.render.terminal.plans import PlanRow

    if len(plan.totals) != 1:
        yield PlanRow(verb, "all" if plan.files else "nothing", plan.files, plan.size_bytes if plan.files else None)
    for reason, total in plan.totals.items():
        ages = span_of_ages(plan, total.ages, terminal)
        yield PlanRow(verb, kind_name(reason), total.amount.files, total.amount.size_bytes, ages)
    kept = plan.kept
    if kept.live.files:
        yield PlanRow("keep", "live", kept.live.files, kept.live.size_bytes, "in the newest version")
    for name, why in kept_kinds(plan).items():
        count = getattr(kept, name)
        if count:
            yield PlanRow("keep", name.replace("outside_selection", "not selected"), count, None, why)
    if kept.foreign.files:
        yield PlanRow(
            UNRECOGNIZED, "kept", kept.foreign.files, kept.foreign.size_bytes, "--include-foreign deletes them"
        )


def _examples(canvas: Canvas, plan: VacuumPlan) -> Iterator[tuple[str, RenderableType]]:
    """Yield some of the files that are not part of a table."""
    names = plan.kept.foreign_examples[:5]
    for number, name in enumerate(names):
        yield "" if number else UNRECOGNIZED, canvas.text(name)
    if names and plan.kept.foreign.files > len(names):
        yield "", canvas.text(f"and {plan.kept.foreign.files - len(names):,} more")


def _strip(canvas: Canvas, plan: VacuumPlan) -> Iterator[tuple[str, RenderableType]]:
    """Yield the versions that lose files and those that do not."""
    from deltacli.cli.render.terminal.plans import version_strip

    reach = plan.reach
    if reach.first_version is None:
        return
    first = reach.first_version if reach.oldest_before is None else min(reach.oldest_before, reach.first_version)
    if first <= plan.snapshot_version:
        yield "versions", version_strip(canvas, first, plan.snapshot_version, reach.lost, label_cells=16)
