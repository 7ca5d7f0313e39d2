"""The plan of a vacuum and what became of it, in each format, and a purge; candidates a column at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import BatchGrid, EncodedItems, Grid, RowEncoder, WriteItems, encode_line
from deltacli.cli.output.results import Document, Result, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Labelled, Surface
from deltacli.cli.output.text_tables import make_surface, write_text_table
from deltacli.cli.render.plans import PlanRow, make_plan_table, make_refusal_rows, make_section_rows, make_version_strip
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import dumps, envelope
from deltacli.core.ranges import format_spans
from deltacli.core.times import format_age, format_duration, format_moment, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import format_size, plural
from deltacli.operations.vacuum.plan import Ages, Mode, Reason, VacuumOutcome, VacuumPlan

if TYPE_CHECKING:
    from deltacli.core.errors import Refusal
    from deltacli.operations.vacuum.explain import ExplainedCommit, FileExplanation
    from deltacli.operations.vacuum.quarantine import PurgeOutcome, PurgePlan

_NAMES = ("path", "sizeBytes", "modificationTimeMs", "reason", "removedAtVersion")
_ROWS_PER_PIECE = 32_768

Row = dict[str, Any]  # Any: values of a candidate


@dataclass(eq=False, repr=False)
class VacuumResult(Result):
    """The plan with its outcome. Lines and columns name every candidate, the others where that is asked for."""

    plan: VacuumPlan
    outcome: VacuumOutcome | None
    dry_run: bool
    has_requested_rows: bool

    def document(self) -> Document:
        fields = envelope("deltacli.vacuum", self.plan.table, complete=True) | self._content()
        return Document(fields, _blocks(self.plan, "{", "},\n") if self.has_requested_rows else None)

    def lines(self, write_items: WriteItems) -> bool:
        for block in _blocks(self.plan, '{"type":"candidate",', "}\n"):
            write_items(block)
        write_items(encode_line({"table": self.plan.table, **self._content()}, "vacuum"))
        return True

    def grid(self) -> Grid:
        return BatchGrid(_NAMES, partial(_grid_blocks, self.plan))

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        return vacuum_sections(self.plan, self.outcome, terminal)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        canvas = make_surface(sink, terminal)
        sections = vacuum_sections(self.plan, self.outcome, terminal)
        above = [section for section in sections if section.label in _ABOVE]
        below = [section for section in sections if section.label not in (*_ABOVE, *_IN_TABLE)]
        rows = list(_drawn_rows(self.plan, terminal, "delete" if self.outcome is None else "planned"))
        canvas.draw_parts(
            make_section_rows(canvas, above),
            make_plan_table(canvas, rows, "age or reason"),
            [
                *_examples(canvas, self.plan),
                *_strip(canvas, self.plan),
                *make_section_rows(canvas, below),
                *make_refusal_rows(
                    canvas, [(one.message, one.code, one.override) for one in self.plan.refusals], error_has_code=True
                ),
            ],
        )
        if self.has_requested_rows and self.plan.files:
            sink.write(b"\n")
            _write_screens(sink, terminal, self.plan)

    def _content(self) -> dict[str, Json]:
        return self.plan.as_json() | (self.outcome or VacuumOutcome()).as_json() | {"dryRun": self.dry_run}


def _pieces(plan: VacuumPlan, rows: int = _ROWS_PER_PIECE) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The candidates in batches, their paths as text where all of a batch are; else as bytes, and False."""
    for batch in plan.candidates.select(list(_NAMES)).to_batches(max_chunksize=rows):
        try:
            path = pc.cast(batch.column(0), pa.string())
        except pa.ArrowInvalid:
            yield batch, False
            continue
        yield pa.record_batch([path, *batch.columns[1:]], list(_NAMES)), True


def _rows(piece: pa.RecordBatch) -> Iterator[Row]:
    """A batch as rows; of names that are no UTF-8 the other bytes come as half characters."""
    for row in piece.to_pylist():
        path = row["path"]
        yield row if isinstance(path, str) else {**row, "path": path.decode("utf-8", "surrogateescape")}


def _blocks(plan: VacuumPlan, opening: str, closing: str) -> Iterator[EncodedItems]:
    """The candidates as JSON, their fields between two texts."""
    from deltacli.cli.render.data.rows import json_blocks

    for piece, is_text in _pieces(plan):
        if is_text:
            yield from json_blocks([piece], opening=opening, closing=closing)
            continue
        texts = [opening.encode() + dumps(row)[1:-1] + closing.encode() for row in _rows(piece)]
        yield EncodedItems(len(texts), memoryview(b"".join(texts)))


def _grid_blocks(plan: VacuumPlan, form: RowEncoder) -> Iterator[EncodedItems]:
    """Yield a row per candidate; names of files have the bytes they have on the store."""
    for piece, is_text in _pieces(plan):
        if is_text:
            yield form.encode_columns(piece.columns, piece.num_rows)
            continue
        rows = [form.encode_row([row[name] for name in _NAMES]) for row in _rows(piece)]
        yield EncodedItems(len(rows), memoryview(b"".join(rows)))


def _write_screens(sink: BinaryIO, terminal: Terminal, plan: VacuumPlan) -> None:
    """Write every candidate in screens of a thousand, each aligned by itself, the heading once."""
    from deltacli.cli.render.data.rows import ROWS_PER_SCREEN, texts_of, write_aligned

    columns = _screen_columns()
    if terminal.width is None and not terminal.colour and all(is_text for _, is_text in _pieces(plan)):
        write_aligned(sink, columns, (texts_of(columns, piece) for piece, _ in _pieces(plan)), keep_empty=True)
        return
    heading, is_part = True, plan.files > ROWS_PER_SCREEN
    for piece, _ in _pieces(plan, ROWS_PER_SCREEN):
        write_text_table(sink, terminal, columns, list(_rows(piece)), heading=heading, keep_empty=True, is_part=is_part)
        heading = False


def _screen_columns() -> list[Column[Row]]:
    from deltacli.cli.render.data.rows import size_texts, timestamp_texts

    def moments(values: pa.Array) -> pa.Array:
        return timestamp_texts(pc.if_else(pc.equal(values, 0), None, values))

    def moment(row: Row) -> str:
        return format_moment(row["modificationTimeMs"]) if row["modificationTimeMs"] else ""

    def removed(row: Row) -> str:
        return "" if row["removedAtVersion"] is None else str(row["removedAtVersion"])

    def size(row: Row) -> str:
        return "" if row["sizeBytes"] is None else format_size(row["sizeBytes"])

    def quiet(_: Row) -> Style:
        return Style.QUIET

    return [
        Column(
            "sizeBytes",
            lambda row: row["sizeBytes"],
            size,
            align_right=True,
            priority=2,
            min_width=9,
            title="size",
            format_array=size_texts,
        ),
        Column(
            "modificationTimeMs",
            lambda row: format_timestamp(row["modificationTimeMs"]) if row["modificationTimeMs"] else "",
            moment,
            quiet,
            priority=4,
            min_width=19,
            title="modified (UTC)",
            is_rounded=True,
            format_array=moments,
        ),
        Column(
            "reason",
            lambda row: row["reason"],
            text=lambda row: kind_name(Reason(row["reason"])),
            priority=1,
            min_width=15,
        ),
        Column(
            "removedAtVersion",
            lambda row: row["removedAtVersion"],
            removed,
            align_right=True,
            priority=3,
            min_width=7,
            title="removed",
        ),
        Column("path", lambda row: row["path"], priority=0, min_width=24, keep_end=True, wraps=True),
    ]


# -- a vacuum as text --------------------------------------------------------------------------------------------------

_NAMED = 5
_FAILURES = 10

UNRECOGNIZED = "unrecognized"
"""What people read for files that are not part of a Delta table; documents call them `foreign`."""

_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z")
"""A time as documents have it."""

KEPT_KINDS: dict[str, str] = {
    "retained": "removed files that are still needed",
    "stream": "needed by queries of --protect-streams",
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
    rows = list(_kept(plan))
    width = max((len(name) for name, _ in rows), default=0)
    return [
        Section("table", [plan.table]),
        Section("version", [str(plan.snapshot_version)]),
        Section("cutoff", [cutoff]),
        Section("mode", ["lite: only what commits of the log removed"] if plan.mode is Mode.LITE else []),
        Section("limited to", [plan.selection] if plan.selection is not None else []),
        Section("delete" if outcome is None else "planned", _deleted(plan, terminal)),
        Section("directories", _directories(plan, outcome)),
        Section("keep", [f"{name:<{width}}  {text}" for name, text in rows]),
        Section("nested", _nested(plan)),
        Section("time travel", list(_time_travel(plan, terminal))),
        Section("change feed", list(_change_feed(plan))),
        make_refusal_section(_refusal(one) for one in plan.refusals),
        *([] if outcome is None else _became(outcome)),
    ]


def _deleted(plan: VacuumPlan, terminal: Terminal) -> list[str]:
    """Return the sum, and a line per kind: files, bytes, from the newest to the oldest."""
    if not plan.files:
        return ["nothing"]
    total = format_file_totals(plan.files, plan.size_bytes)
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
        yield "live", format_file_totals(kept.live.files, kept.live.size_bytes)
    yield from _counted(plan, ("retained", "stream", "young"))
    if kept.foreign.files:
        yield (
            UNRECOGNIZED,
            f"{format_file_totals(kept.foreign.files, kept.foreign.size_bytes)}: --include-foreign deletes them",
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
    parts = [format_file_totals(outcome.deleted.files, outcome.deleted.size_bytes)]
    if outcome.missing:
        parts.append(f"{_were(outcome.missing)} already missing")
    if outcome.resumed_after:
        yield Section("resumed", [f"after {plural(outcome.resumed_after, 'file')} of earlier runs"])
    yield Section("deleted", [", ".join(parts)])
    spared = f"{plural(outcome.spared, 'file')}, needed or written again since the plan was made"
    yield Section("spared", [spared] if outcome.spared else [])
    yield Section("failed", list(_failures(outcome)), Style.PROBLEM)
    yield Section("commits", _commits(outcome))


def _were(count: int) -> str:
    return f"{count:,} {'was' if count == 1 else 'were'}"


def _failures(outcome: VacuumOutcome) -> Iterator[str]:
    if not outcome.failed.count:
        return
    shown = outcome.failed.examples[:_FAILURES]
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


def explanation_sections(table: str, explanation: FileExplanation) -> list[Section]:
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


def _drawn_rows(plan: VacuumPlan, terminal: Terminal, verb: str) -> Iterator[PlanRow]:
    if len(plan.totals) != 1:
        yield PlanRow(verb, "all" if plan.files else "nothing", plan.files, plan.size_bytes if plan.files else None, "")
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


def _examples(canvas: Surface, plan: VacuumPlan) -> Iterator[Labelled]:
    names = plan.kept.foreign_examples[:5]
    for number, name in enumerate(names):
        yield "" if number else UNRECOGNIZED, canvas.text(name)
    if names and plan.kept.foreign.files > len(names):
        yield "", canvas.text(f"and {plan.kept.foreign.files - len(names):,} more")


def _strip(canvas: Surface, plan: VacuumPlan) -> Iterator[Labelled]:
    """Yield the versions that lose files and those that do not."""
    reach = plan.reach
    if reach.first_version is None or not canvas.is_screen:
        return
    first = reach.first_version if reach.oldest_before is None else min(reach.oldest_before, reach.first_version)
    if first <= plan.snapshot_version:
        yield "versions", make_version_strip(canvas, first, plan.snapshot_version, reach.lost, label_cells=16)


# -- what is purged of a quarantine ------------------------------------------------------------------------------------


def purge_result(plan: PurgePlan, outcome: PurgeOutcome | None, *, dry_run: bool) -> SingleResult:
    """Return a purge as a result: the plan, and what was deleted."""
    from deltacli.operations.vacuum.quarantine import PurgeOutcome

    content = {**plan.as_json(), **(outcome or PurgeOutcome()).as_json(), "dryRun": dry_run}
    columns = ("quarantine", "tableId", "plans", "files", "sizeBytes", "oldestMs", "newestMs", "deleted")
    deleted = 0 if outcome is None else outcome.files
    due = content["due"]
    assert isinstance(due, dict)
    row = {"quarantine": plan.quarantine, "tableId": plan.table_id, **due, "deleted": deleted}
    return SingleResult("vacuum-purge", plan.table, content, lambda: _purge_sections(plan, outcome), [row], columns)


def _purge_sections(plan: PurgePlan, outcome: PurgeOutcome | None) -> list[Section]:
    planned = "nothing"
    if not (plan.due or plan.young or plan.unnamed or plan.refusals or plan.incomplete or plan.others):
        planned = "nothing: no copies of this table are there"
    if plan.due:
        times = [due.mark[1] for due in plan.due]
        spans = " to ".join(dict.fromkeys(f"{format_moment(moment)} UTC" for moment in (min(times), max(times))))
        amount = format_file_totals(plan.files, plan.size_bytes)
        planned = f"{amount}, of {plural(len(plan.due), 'plan')}: {spans}"
    return [
        Section("table", [plan.table]),
        Section("quarantine", [f"{plan.quarantine}/{plan.table_id}"]),
        Section("cutoff", [f"plans older than {format_moment(plan.cutoff_ms)} UTC"]),
        Section("delete" if outcome is None else "planned", [planned]),
        Section("incomplete", [f"{one}: its vacuum did not end" for one in plan.incomplete]),
        Section("keep", [f"{plural(plan.young, 'plan')}, not older"] if plan.young else []),
        Section("unnamed", _unnamed(plan)),
        Section("refused", [f"{one.files[0]}: {one.message}" for one in plan.refusals], Style.PROBLEM),
        Section("not its own", [f"{directory}: of {address}" for directory, address in plan.others[:_NAMED]]),
        *([] if outcome is None else [Section("deleted", [plural(outcome.files, "file")])]),
        *([] if outcome is None else [Section("failed", [": ".join(one) for one in outcome.failed.examples[:_NAMED]])]),
    ]


def _unnamed(plan: PurgePlan) -> list[str]:
    """Return what stays because no manifest names it."""
    if not plan.unnamed:
        return []
    named = list(plan.unnamed[:_NAMED])
    more = len(plan.unnamed) - len(named)
    return [f"kept, {len(plan.unnamed):,} that no manifest names", *named, *([f"and {more:,} more"] if more else [])]
