"""What an undelete brings back, as a result: the plan, and what of it was put in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.cli.output.grids import BatchGrid, EncodedItems, Grid, WriteItems, encode_line
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Surface
from deltacli.cli.output.text_tables import make_surface
from deltacli.cli.render.plans import PlanRow, make_plan_table, make_refusal_rows, make_section_rows
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import Json, JsonObject, RecordBatch
from deltacli.core.units import plural
from deltacli.operations.recover.plan import MISSING, PLANNED, RESTORED, UndeletePlan
from deltacli.operations.recover.sources import Journal
from deltacli.operations.recover.verify import other_size

if TYPE_CHECKING:
    pass


@dataclass(eq=False, repr=False)
class UndeleteScreen(Result):
    """A plan, and what of it was put in place (None: nothing was to be)."""

    plan: UndeletePlan
    restored: Journal | None
    dry_run: bool

    def document(self) -> Document:
        fields = envelope("deltacli.undelete", self.plan.table, complete=True) | self._content()
        return Document(fields, self._blocks("{", "},\n"))

    def lines(self, write_items: WriteItems) -> bool:
        for block in self._blocks('{"type":"lost-file",', "}\n"):
            write_items(block)
        write_items(encode_line({"table": self.plan.table, **self._content()}, "undelete"))
        return True

    def grid(self) -> Grid:
        names = self.plan.items.schema.names
        return BatchGrid(
            names, lambda form: (form.encode_columns(one.columns, one.num_rows) for one in self._batches())
        )

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        return [*_sections(self._plan_so_far, self.restored), *self._left]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        _draw(make_surface(sink, terminal), self._plan_so_far, self.restored, self._left)

    @property
    def _put(self) -> Sequence[str] | None:
        """Return the files that were put back before an error; None where it was all or nothing."""
        is_part = self.restored is not None and self.restored.files < self.plan.found.files
        return self.restored.paths if self.restored is not None and is_part else None

    @property
    def _plan_so_far(self) -> UndeletePlan:
        """Return the plan without the files that an error kept from being put back."""
        if self._put is None:
            return self.plan
        items = self.plan.items_as(RESTORED, self._put)
        return replace(self.plan, items=self.plan.items.filter(pc.not_equal(items["state"], PLANNED)))

    @property
    def _left(self) -> Sequence[Section]:
        found, so_far = self.plan.found, self._plan_so_far.found
        left = format_file_totals(found.files - so_far.files, found.size_bytes - so_far.size_bytes)
        return [Section("not put back", [left] if found != so_far else [], Style.PROBLEM)]

    def _content(self) -> dict[str, Json]:
        files = (0, 0) if self.restored is None else (self.restored.files, self.restored.size_bytes)
        restored = dict(zip(("files", "sizeBytes"), files, strict=True))
        return self.plan.as_json() | {"restored": restored, "dryRun": self.dry_run}

    def _batches(self) -> Iterator[RecordBatch]:
        state = PLANNED if self.restored is None else RESTORED
        yield from self.plan.items_as(state, self._put).to_batches(max_chunksize=32_768)

    def _blocks(self, opening: str, closing: str) -> Iterator[EncodedItems]:
        from deltacli.cli.render.data.rows import json_blocks

        for batch in self._batches():
            yield from json_blocks([batch], opening=opening, closing=closing)


def make_planned_screen(plan: UndeletePlan, is_plan: bool) -> UndeleteScreen:
    """Return a plan as a result; with `is_plan`, one that is only shown, else one that has nothing to put back."""
    return UndeleteScreen(plan, None if is_plan else Journal(), is_plan)


_NAMED = 10
_NAMED_BACK = 5


def _sections(plan: UndeletePlan, restored: Journal | None) -> list[Section]:
    found, missing, changed, outside = plan.found, plan.missing, plan.changed_times, plan.outside
    version = "unknown until the log is back" if plan.is_log_first else str(plan.version)
    verb, replaced = ("would restore", "would replace") if restored is None else ("restored", "replaced")
    back = list(_kinds(plan, is_done=restored is not None)) if found.files else [_nothing(plan)]
    return [
        Section("table", [plan.table + _before_it(plan)]),
        Section("version", [version + _before(plan)]),
        Section("needed", [format_file_totals(plan.needed.files, plan.needed.size_bytes)]),
        Section(verb, back, Style.GOOD if found.files else Style.PLAIN),
        Section("files", list(_returning_files(plan))),
        Section(replaced, list(_replaced_files(plan)), Style.WARNING),
        Section("missing", list(_lost(plan)) if missing.files else [], Style.PROBLEM),
        Section("readable", _readable(plan) if missing.files else []),
        Section("note", plan.notes, Style.WARNING),
        Section(
            "overwritten", [f"{one.path}: {len(one.versions)} contents" for one in plan.overwritten], Style.PROBLEM
        ),
        Section(
            "commit times",
            [f"those of {format_ranges(changed)} change: the store cannot keep them"] if changed else [],
            Style.WARNING,
        ),
        Section("not looked at", [f"{plural(outside, 'file')} of other tables"] if outside else []),
        make_refusal_section(f"{one.message} [{one.code}]" for one in plan.refusals),
    ]


def _before_it(plan: UndeletePlan) -> str:
    if plan.is_new:
        return ", which does not exist and would be created"
    return "" if plan.had_log else ", which has no log"


def _before(plan: UndeletePlan) -> str:
    if not plan.had_log or plan.version_before == plan.version:
        return ""
    return "" if plan.version_before is None else f", the newest now is {plan.version_before}"


def _by_kind(plan: UndeletePlan, state: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Return (kind, source) -> (files, bytes) of the files in a state."""
    items = plan.items.filter(pc.equal(plan.items["state"], state))
    counted = aggregate_rows(items, ["kind", "source"], [("path", "count"), ("sizeBytes", "sum")]).to_pylist()
    return {(one["kind"], one["source"] or ""): (one["path_count"], one["sizeBytes_sum"] or 0) for one in counted}


def _kinds(plan: UndeletePlan, *, is_done: bool) -> Iterator[str]:
    yield f"{format_file_totals(plan.found.files, plan.found.size_bytes)}{', verified' if is_done else ''}"
    for (kind, source), (files, size_bytes) in _by_kind(plan, PLANNED).items():
        yield f"  {kind}: {format_file_totals(files, size_bytes)}, from {source}"


def _returning_files(plan: UndeletePlan) -> Iterator[str]:
    is_back = pc.and_(pc.not_equal(plan.items["state"], MISSING), pc.is_null(plan.items["presentSizeBytes"]))
    paths = plan.items.filter(is_back)["path"]
    yield from paths.slice(0, _NAMED_BACK).to_pylist()
    if len(paths) > _NAMED_BACK:
        yield f"and {len(paths) - _NAMED_BACK:,} more: --json names all"


def _replaced_files(plan: UndeletePlan) -> Iterator[str]:
    rows = plan.replaced
    lines = [f"{row['path']}: {sizes_of(row)}" for row in rows.slice(0, _NAMED_BACK).to_pylist()]
    if len(lines) == 1:
        yield f"1 file: {lines[0]}"
    elif lines:
        yield f"{rows.num_rows:,} files, which have another size than in the log"
        yield from (f"  {line}" for line in lines)
    if rows.num_rows > _NAMED_BACK:
        yield f"  and {rows.num_rows - _NAMED_BACK:,} more: --json names all"


def sizes_of(row: JsonObject) -> str:
    """Return the bytes of the file that is there, and those that the log names."""
    return other_size(row["presentSizeBytes"], row["sizeBytes"])


def _lost(plan: UndeletePlan) -> Iterator[str]:
    yield f"{plural(plan.missing.files, 'file')}, in no source"
    yield from (f"  {text}" for text in _lost_files(plan))


def _lost_files(plan: UndeletePlan) -> Iterator[str]:
    lost = plan.items.filter(pc.equal(plan.items["state"], MISSING))
    for row in lost.slice(0, _NAMED).to_pylist():
        why = row["reason"] or ("" if row["problem"] == "missing" else row["problem"])
        if not why and row["presentSizeBytes"] is not None:
            why = sizes_of(row)
        yield f"{row['path']}{why and ': '}{why}"
    if lost.num_rows > _NAMED:
        kinds = Counter(lost["kind"].slice(_NAMED).to_pylist())
        yield f"and {', '.join(f'{count:,} more of kind {kind}' for kind, count in kinds.items())}: --json names all"


def _readable(plan: UndeletePlan) -> list[str]:
    newest = plan.newest_readable
    if newest is None:
        return ["no older version is known to be complete"]
    before = f", the newest before version {plan.version}" if plan.is_of_the_past else ""
    return [f"version {newest} is complete{before}, and restore can bring the table back to it"]


def _nothing(plan: UndeletePlan) -> str:
    """Return the words for a plan that brings nothing back, and why where nothing is missing."""
    return "nothing" if plan.missing.files or plan.refusals else "nothing: no file is missing"


_ABOVE = ("table", "version", "needed")
_IN_TABLE = ("would restore", "restored", "refused")


def _draw(canvas: Surface, plan: UndeletePlan, restored: Journal | None, left: Sequence[Section]) -> None:
    """Draw what comes back and from where, and what stays lost."""
    sections = [
        section._replace(lines=list(_lost_files(plan))) if section.label == "missing" and section.lines else section
        for section in (*_sections(plan, restored), *left)
    ]
    rows = list(_drawn_rows(plan, "restore" if restored is None else "restored"))
    canvas.draw_parts(
        make_section_rows(canvas, [section for section in sections if section.label in _ABOVE]),
        make_plan_table(canvas, rows, "from") if rows else [],
        [
            *make_section_rows(
                canvas, [one for one in sections if one.label not in (*_ABOVE, *(_IN_TABLE if rows else ()))]
            ),
            *make_refusal_rows(canvas, [(one.message, one.code, None) for one in plan.refusals]),
        ],
    )


def _drawn_rows(plan: UndeletePlan, verb: str) -> Iterator[PlanRow]:
    kinds, missing = _by_kind(plan, PLANNED), _by_kind(plan, MISSING)
    if len(kinds) > 1 or (missing and not kinds):
        yield PlanRow(
            verb, "all" if kinds else "nothing", plan.found.files, plan.found.size_bytes if kinds else None, ""
        )
    for (kind, source), (files, size_bytes) in kinds.items():
        yield PlanRow(verb, kind, files, size_bytes, source)
    for (kind, _), (files, size_bytes) in missing.items():
        yield PlanRow("missing", kind, files, size_bytes or None, "in no source")
