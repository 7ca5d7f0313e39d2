"""Draw the findings of `validate` on a terminal: the verdicts first, then the findings with quoted lines of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.validate.arrangement import (
    ArrangedFindings,
    CommonRemark,
    FindingBlock,
    FindingGroup,
    TableFindings,
)
from deltacli.cli.render.validate.excerpts import Excerpt, split_line
from deltacli.cli.render.validate.findings import (
    TableVerdict,
    advice_of,
    all_sentence,
    checked_subjects,
    judge,
    values_of,
)
from deltacli.cli.render.validate.report import ValidationReport, place_name
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.wrapping import wrap_with_commands
from deltacli.core.texts import summarize_names
from deltacli.core.units import format_count, plural
from deltacli.rules.framework.base import Finding, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Severity.ERROR: Style.PROBLEM, Severity.WARNING: Style.WARNING, Severity.INFO: Style.NOTE}

_INDENT = 4
"""The indent of the details of a finding, and of continued lines."""

_PLACE_INDENT = 2
"""The indent of the place of a finding, and of the places that are listed below it."""

_LABEL_CELLS = 10
"""The width of labels such as `fix`, with the gap that follows them."""

_MAX_TABLE_NAMES = 20
"""The number of tables that are named below a common remark."""

_MAX_CONTEXT_LENGTH = 600
"""The number of characters of a line around the field that are considered. A line can contain megabytes of JSON."""


def draw_verdicts(canvas: Canvas, report: ValidationReport) -> None:
    """Draw the verdict on each table with errors or warnings. If there are several tables, draw a verdict on all."""
    verdicts = [(table, judge(table)) for table in report.tables]
    shown = [(table, verdict) for table, verdict in verdicts if verdict.needs_a_look]
    if not shown and len(verdicts) == 1:
        shown = verdicts
    for table, verdict in shown:
        canvas.draw(_make_verdict(canvas, table.name, verdict.sentence, _get_verdict_style(verdict)))

    if len(verdicts) > 1:
        has_problems = any(verdict.needs_a_look for _, verdict in verdicts)
        style = Style.PLAIN if has_problems else Style.GOOD
        canvas.draw(_make_verdict(canvas, checked_subjects(report), all_sentence(report), style))


def _get_verdict_style(verdict: TableVerdict) -> Style:
    if verdict.is_serious:
        return Style.PROBLEM
    return Style.WARNING if verdict.others else Style.GOOD


def _make_verdict(canvas: Canvas, name: str, sentence: str, style: Style) -> Text:
    return canvas.hanging(canvas.joined([(f"{name}:", Style.HEADING), " ", (sentence, style)]), _INDENT)


def draw_findings(canvas: Canvas, arranged: ArrangedFindings, *, brief: bool) -> None:
    """Draw the findings of each table, then the remarks that several tables have in common.

    Args:
        canvas: The canvas.
        arranged: The findings in the order in which they are drawn, and the lines of the log that are quoted.
        brief: Whether only places and messages are drawn.
    """
    painter = _FindingPainter(canvas, arranged.lines, brief=brief)
    has_several_tables = len(arranged.tables) > 1
    for table in arranged.tables:
        if has_several_tables and table.has_content:
            canvas.draw(Text(""), canvas.hanging(canvas.text(table.table.name, Style.HEADING), _INDENT))
        painter.draw_table(table)

    if arranged.common_remarks:
        canvas.draw(Text(""), canvas.text("several tables", Style.HEADING))
    for remark in arranged.common_remarks:
        painter.draw_common_remark(remark)


class _FindingPainter:
    """Draws findings with the same options on one canvas."""

    def __init__(self, canvas: Canvas, lines: Mapping[FindingBlock, bytes], *, brief: bool) -> None:
        self._canvas = canvas
        self._lines = lines
        self._brief = brief

    def draw_table(self, table: TableFindings) -> None:
        """Draw the groups of findings of a table, and a line for everything that is not shown or was not checked."""
        for group in table.groups:
            self._draw_group(group)
        for rule_id, count in table.suppressed.items():
            self._draw_heading([(rule_id, Style.HEADING), f"  {_describe_suppressed(count)}"])
        for sentence in table.table.validation.not_checked:
            self._draw_heading([("not checked: ", Style.WARNING), sentence])

    def draw_common_remark(self, remark: CommonRemark) -> None:
        """Draw a remark in full for the first table, and the names of the other tables."""
        tables = plural(len(remark.tables), "table")
        if remark.finding_count == len(remark.tables):
            description = tables
        else:
            description = f"{plural(remark.finding_count, 'finding')} in {tables}"
        self._draw_finding_heading(remark.block.finding, description)
        self._draw_block(remark.block)

        other_tables = [table.name for table in remark.tables[1:]]
        names = summarize_names(other_tables, _MAX_TABLE_NAMES)
        sentence = f"and {plural(len(other_tables), 'other table')}: {names}"
        text = self._canvas.hanging(self._canvas.text(sentence), _PLACE_INDENT)
        self._canvas.draw(_indent(text, _PLACE_INDENT))

    def _draw_group(self, group: FindingGroup) -> None:
        remarks: list[str] = []
        if len(group.findings) > 1:
            remarks.append(_count_findings(group.findings))
        if group.suppressed:
            remarks.append(_describe_suppressed(group.suppressed))
        self._draw_finding_heading(group.findings[0], ", ".join(remarks), has_gap=group.has_gap)
        for block in group.blocks:
            self._draw_block(block)

    def _draw_finding_heading(self, finding: Finding, remark: str, *, has_gap: bool = True) -> None:
        """Draw the severity and the rule of a finding, followed by a remark if it is not ""."""
        parts: list[str | tuple[str, Style]] = [
            (f"{finding.severity.value}  ", _STYLES[finding.severity]),
            (finding.rule.id, Style.HEADING),
        ]
        if remark:
            parts.append((f"  {remark}", Style.QUIET))
        self._draw_heading(parts, has_gap=has_gap)

    def _draw_heading(self, parts: Iterable[str | tuple[str, Style]], *, has_gap: bool = True) -> None:
        heading = self._canvas.hanging(self._canvas.joined(parts), _INDENT)
        if has_gap:
            self._canvas.draw(Text(""), heading)
        else:
            self._canvas.draw(heading)

    def _draw_block(self, block: FindingBlock) -> None:
        """Draw a finding with its details and its fix, and a list of similar findings."""
        table = block.table
        finding = block.finding
        place = _format_place(finding, place_name(table, finding.place))
        self._canvas.draw(_indent(self._canvas.text(place, Style.PATH), _PLACE_INDENT))

        details: list[RenderableType] = [self._canvas.text(finding.message)]
        if not self._brief:
            details += self._quote_line(block)
            values = [(label, _add_unit(finding, value)) for label, value in values_of(finding) if value]
            if values:
                details.append(self._make_labelled_values(values))
        if block.explains_fix:
            details.append(self._make_labelled_values(advice_of(finding.rule, table)))
        for detail in details:
            self._canvas.draw(_indent(detail, _INDENT))

        if block.similar:
            self._canvas.draw(_indent(self._make_similar_table(block), _PLACE_INDENT))

    def _quote_line(self, block: FindingBlock) -> list[RenderableType]:
        """Return the line of the log, with a mark below the field that the finding is about. Empty without a line."""
        line = self._lines.get(block)
        if line is None:
            return []
        excerpt = split_line(line, block.finding)
        # Without a marked field the line of a mere remark is not worth the space.
        if not excerpt.field and block.finding.severity is Severity.INFO:
            return []
        return [quote_excerpt(self._canvas, excerpt, block.finding)]

    def _make_labelled_values(self, values: Iterable[tuple[str, str]]) -> RenderableType:
        """Return labels and values. Commands in the values are wrapped so that they can be pasted into a shell."""
        room = self._canvas.width - _INDENT - _LABEL_CELLS
        rows: list[tuple[str, Text]] = []
        for label, value in values:
            lines = [self._canvas.text(line) for line in wrap_with_commands(value, room)]
            rows.append((f"{label:<8}", Text("\n").join(lines)))
        return self._canvas.grid(rows)

    def _make_similar_table(self, block: FindingBlock) -> RenderableType:
        """Return a table of the places of similar findings, with the keys and seen values if they differ."""
        places = [_format_place(finding, finding.place.path or block.table.name) for finding in block.similar]
        keys = [finding.place.key or "" for finding in block.similar]
        seen_values = [finding.seen or "" for finding in block.similar]
        has_keys = any(keys)
        has_seen_values = any(finding.seen != block.finding.seen for finding in block.similar)
        # On a narrow terminal, seen values would be folded between the places. Without keys they are not needed to tell
        # the findings apart.
        room = self._canvas.width - max(map(count_cells, places)) - _INDENT
        has_room = self._canvas.never_cuts or has_keys or room >= max(map(count_cells, seen_values))
        shows_seen_values = has_seen_values and has_room

        titles = [f"and the same in {plural(len(block.similar), 'other place')}"]
        if has_keys:
            titles.append("for")
        if shows_seen_values:
            titles.append("seen")
        rows: list[list[RenderableType]] = []
        for place, key, seen_value in zip(places, keys, seen_values, strict=True):
            row: list[RenderableType] = [self._canvas.text(place, Style.PATH)]
            if has_keys:
                row.append(self._canvas.text(key))
            if shows_seen_values:
                row.append(self._canvas.text(seen_value))
            rows.append(row)
        return self._canvas.matrix(titles, rows)


def quote_excerpt(canvas: Canvas, excerpt: Excerpt, finding: Finding) -> Text:
    """Return a line of the log, cut to the width of the terminal around the field, with carets below the field.

        12 │ …d":{"path":"part-0.parquet","size":1363,"modificationTime":1767…
           │                              ^^^^^^^^^^^

    If nothing may be cut because the output is a file, the complete line is returned, without carets.
    """
    bar = "| " if canvas.is_ascii else "│ "
    margin = f"{finding.place.line or 1} {bar}"
    if canvas.never_cuts:
        return canvas.joined(
            [
                (margin, Style.QUIET),
                (excerpt.before, Style.QUIET),
                (excerpt.field, Style.PROBLEM),
                (excerpt.after, Style.QUIET),
            ]
        )

    room = max(canvas.width - 2 * _INDENT - len(margin), 8)
    if not excerpt.field:
        line_start = canvas.plain(excerpt.before[:_MAX_CONTEXT_LENGTH])
        return canvas.joined([(margin, Style.QUIET), (canvas.cut(line_start, room), Style.QUIET)])

    # The text before the field gets half of the remaining cells, or more if the text after the field is short.
    before = canvas.plain(excerpt.before[-_MAX_CONTEXT_LENGTH:])
    field = canvas.cut(canvas.plain(excerpt.field[:_MAX_CONTEXT_LENGTH]), room)
    after = canvas.plain(excerpt.after[:_MAX_CONTEXT_LENGTH])
    context_cells = room - count_cells(field)
    before = canvas.cut(before, max(context_cells // 2, context_cells - count_cells(after)), keep_end=True)
    after = canvas.cut(after, context_cells - count_cells(before))

    quote = canvas.joined([(margin, Style.QUIET), (before, Style.QUIET), (field, Style.PROBLEM), (after, Style.QUIET)])
    blanks = " " * (len(margin) - len(bar)) + bar + " " * count_cells(before)
    carets = "^" * max(count_cells(field), 1)
    quote.append("\n")
    quote.append_text(canvas.joined([(blanks, Style.QUIET), (carets, _STYLES[finding.severity])]))
    quote.no_wrap = True
    return quote


def _indent(renderable: RenderableType, cells: int) -> Padding:
    return Padding(renderable, (0, 0, 0, cells))


def _format_place(finding: Finding, path: str) -> str:
    """Return a path, followed by the number of the line if the finding is about a line."""
    return path if finding.place.line is None else f"{path}:{finding.place.line}"


def _add_unit(finding: Finding, value: str) -> str:
    """Format a value as people read it: sizes of files as `1,363 B`."""
    is_size = finding.rule.id.endswith(".size-mismatch") and value.isdigit()
    return f"{format_count(int(value))} B" if is_size else value


def _describe_suppressed(count: int) -> str:
    return f"{format_count(count)} more not shown"


def _count_findings(findings: Sequence[Finding]) -> str:
    """Return `11 files` if each finding is in a file of its own, otherwise `20 findings in 11 files`."""
    paths = {finding.place.path for finding in findings}
    files = plural(len(paths), "file")
    return files if len(paths) == len(findings) else f"{plural(len(findings), 'finding')} in {files}"
