"""Findings on a terminal: the verdict first, then by table, severity and rule, with the lines of the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.padding import Padding
from rich.text import Text

from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.validate.findings import (
    TableVerdict,
    advice_of,
    all_sentence,
    checked_subjects,
    judge,
    values_of,
)
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name, rank_finding
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.characters import count_cells
from deltacli.cli.terminal.wrapping import wrap_with_commands
from deltacli.core.documents import dumps
from deltacli.core.texts import summarize_names
from deltacli.core.units import format_count, plural
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import Finding, Severity

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Severity.ERROR: Style.PROBLEM, Severity.WARNING: Style.WARNING, Severity.INFO: Style.NOTE}
_INDENT = 4
_LABEL_CELLS = 10
"""Of `fix` and its like, with the gap behind them."""
_MOST_LINES = 12
"""Lines of the log that are read for one run, each a request to a remote store."""
_LINES_PER_RULE = 2
_MOST_TABLES = 20
"""Tables that are named below an observation that several have."""
_CONTEXT = 600
"""Characters before and after a field from which its surroundings are taken."""


@dataclass(frozen=True, slots=True)
class FindingsView:
    """How findings are shown: `by_path`, a block for each in the order of the files; `brief`, without details.
    `read_line` gives the lines of the log to quote, None for no lines.
    """

    brief: bool
    by_path: bool = False
    read_line: ReadLine | None = None


def draw_verdicts(canvas: Canvas, report: ValidationReport) -> None:
    """Draw what is at stake in each table with errors or warnings, and, of several tables, in how many."""
    judged = [(table, judge(table)) for table in report.tables]
    shown = [(table, verdict) for table, verdict in judged if verdict.needs_a_look]
    for table, verdict in shown or judged[: len(judged) == 1]:
        canvas.draw(_headed(canvas, table.name, verdict.sentence, _style_of(verdict)))
    if len(judged) > 1:
        style = Style.PLAIN if shown else Style.GOOD
        canvas.draw(_headed(canvas, checked_subjects(report), all_sentence(report), style))


def _style_of(verdict: TableVerdict) -> Style:
    return Style.PROBLEM if verdict.is_serious else Style.WARNING if verdict.others else Style.GOOD


def _headed(canvas: Canvas, name: str, sentence: str, style: Style) -> Text:
    return canvas.hanging(canvas.joined([(f"{name}:", Style.HEADING), " ", (sentence, style)]), _INDENT)


def draw_findings(canvas: Canvas, report: ValidationReport, view: FindingsView) -> None:
    """Draw the findings of each table, of several those of the worst table first, then remarks that several have."""
    quotes = _Quotes(canvas, view.read_line)
    common = {} if view.by_path or view.brief else _common_remarks(report.tables)
    for table in sorted(report.tables, key=_worst):
        rest = table._replace(
            findings=tuple(one for one in table.findings if not (_is_remark(one) and one.rule.id in common)),
            suppressed={rule: count for rule, count in table.suppressed.items() if rule not in common},
        )
        if len(report.tables) > 1 and (rest.findings or rest.suppressed or rest.validation.not_checked):
            canvas.draw(Text(""), canvas.hanging(canvas.text(rest.name, Style.HEADING), _INDENT))
        if view.by_path:
            _draw_by_path(canvas, rest, view, quotes)
        else:
            _draw_by_rule(canvas, rest, view, quotes)
        for sentence in rest.validation.not_checked:
            label = ("not checked: ", Style.WARNING)
            canvas.draw(Text(""), canvas.hanging(canvas.joined([label, sentence]), _INDENT))
    if common:
        canvas.draw(Text(""), canvas.text("several tables", Style.HEADING))
    for rule, tables in common.items():
        _draw_remark(canvas, rule, tables, quotes)


def _worst(table: CheckedTable) -> int:
    """Return the place of the worst severity that a table has."""
    severities = list(Severity)
    return min((severities.index(finding.severity) for finding in table.findings), default=len(severities))


def _is_remark(finding: Finding) -> bool:
    return finding.severity is Severity.INFO


def _common_remarks(tables: Sequence[CheckedTable]) -> dict[str, list[CheckedTable]]:
    """Return the rules of observations that several tables have, and these tables."""
    found: dict[str, list[CheckedTable]] = {}
    for table in tables:
        for rule in dict.fromkeys(one.rule.id for one in table.findings if _is_remark(one)):
            found.setdefault(rule, []).append(table)
    worse = {one.rule.id for table in tables for one in table.findings if not _is_remark(one)}
    return {rule: of for rule, of in found.items() if len(of) > 1 and rule not in worse}


def _draw_remark(canvas: Canvas, rule: str, tables: Sequence[CheckedTable], quotes: _Quotes) -> None:
    """Draw an observation of several tables: in full for the first, and the names of the others."""
    first, *others = tables
    finding = next(one for one in first.findings if one.rule.id == rule)
    total = sum(sum(one.rule.id == rule for one in table.findings) + table.suppressed.get(rule, 0) for table in tables)
    said = plural(len(tables), "table")
    said = said if total == len(tables) else f"{plural(total, 'finding')} in {said}"
    head = [
        (f"{finding.severity.value}  ", _STYLES[finding.severity]),
        (rule, Style.HEADING),
        (f"  {said}", Style.QUIET),
    ]
    canvas.draw(Text(""), canvas.hanging(canvas.joined(head), _INDENT))
    canvas.draw(*_block(canvas, first, finding, quotes), _fix(canvas, first, finding))
    named = summarize_names([table.name for table in others], _MOST_TABLES)
    sentence = f"and {plural(len(others), 'other table')}: {named}"
    canvas.draw(Padding(canvas.hanging(canvas.text(sentence), 2), (0, 0, 0, 2)))


class _Quotes:
    """Quotes the lines of findings, a few for each run."""

    def __init__(self, canvas: Canvas, read_line: ReadLine | None) -> None:
        self._canvas, self._read_line = canvas, read_line
        self._left = _MOST_LINES

    def of(self, table: CheckedTable, finding: Finding) -> Iterator[RenderableType]:
        """Yield the line that a finding is about, with a mark below the field."""
        if self._read_line is None or self._left == 0:
            return
        line = self._read_line(table, finding.place)
        if line is None:
            return
        self._left -= 1
        excerpt = excerpt_of(line, finding)
        if excerpt.field or finding.severity is not Severity.INFO:
            yield quoted_line(self._canvas, excerpt, finding)


def quoted_line(canvas: Canvas, excerpt: _Excerpt, finding: Finding) -> Text:
    """Return a line of the log, cut around the field that a finding is about, and carets below the field."""
    before, field, after = excerpt
    bar = "| " if canvas.is_ascii else "│ "
    margin = f"{finding.place.line or 1} {bar}"
    if canvas.never_cuts:
        return canvas.joined(
            [(margin, Style.QUIET), (before, Style.QUIET), (field, Style.PROBLEM), (after, Style.QUIET)]
        )
    room = max(canvas.width - 2 * _INDENT - len(margin), 8)
    start, middle, end = (canvas.plain(part) for part in (before[-_CONTEXT:], field[:_CONTEXT], after[:_CONTEXT]))
    middle = canvas.cut(middle, room)
    if not field:
        return canvas.joined([(margin, Style.QUIET), (canvas.cut(canvas.plain(before[:_CONTEXT]), room), Style.QUIET)])
    beside = room - count_cells(middle)
    start = canvas.cut(start, max(beside // 2, beside - count_cells(end)), keep_end=True)
    end = canvas.cut(end, beside - count_cells(start))
    quote = canvas.joined([(margin, Style.QUIET), (start, Style.QUIET), (middle, Style.PROBLEM), (end, Style.QUIET)])
    blank = " " * (len(margin) - 2) + bar + " " * count_cells(start)
    quote.append("\n").append_text(
        canvas.joined([(blank, Style.QUIET), ("^" * max(count_cells(middle), 1), _STYLES[finding.severity])])
    )
    quote.no_wrap = True
    return quote


def _draw_by_path(canvas: Canvas, table: CheckedTable, view: FindingsView, quotes: _Quotes) -> None:
    """Draw a block for each finding, in the order of the files."""
    explained: set[tuple[str, str]] = set()
    for finding in table.findings:
        explanation = finding.rule.id, finding.rule.fix.repair
        head = [(f"{finding.severity.value}  ", _STYLES[finding.severity]), (finding.rule.id, Style.HEADING)]
        canvas.draw(*([] if view.brief else [Text("")]), canvas.hanging(canvas.joined(head), _INDENT))
        canvas.draw(*_block(canvas, table, finding, quotes if not view.brief else None))
        if not view.brief and explanation not in explained:
            canvas.draw(_fix(canvas, table, finding))
            explained.add(explanation)
    for rule, count in table.suppressed.items():
        canvas.draw(Text(""), canvas.hanging(canvas.joined([(rule, Style.HEADING), f"  {_not_shown(count)}"]), _INDENT))


def _draw_by_rule(canvas: Canvas, table: CheckedTable, view: FindingsView, quotes: _Quotes) -> None:
    """Draw the findings of each rule, and of each fix, below its name, the worst consequence first."""
    groups: dict[tuple[Severity, str, str], list[Finding]] = {}
    for finding in sorted(table.findings, key=partial(rank_finding, table)):
        groups.setdefault((finding.severity, finding.rule.id, finding.rule.fix.repair), []).append(finding)
    left = dict(table.suppressed)
    for (severity, rule, _), group in groups.items():
        remarks = [_count(group)] if len(group) > 1 else []
        if rule in left:
            remarks.append(_not_shown(left.pop(rule)))
        head: list[tuple[str, Style]] = [(f"{severity.value}  ", _STYLES[severity]), (rule, Style.HEADING)]
        head += [(f"  {', '.join(remarks)}", Style.QUIET)] if remarks else []
        canvas.draw(Text(""), canvas.hanging(canvas.joined(head), _INDENT))
        _draw_group(canvas, table, group, quotes, brief=view.brief)
    for rule, count in left.items():
        canvas.draw(Text(""), canvas.hanging(canvas.joined([(rule, Style.HEADING), f"  {_not_shown(count)}"]), _INDENT))


def _not_shown(count: int) -> str:
    return f"{format_count(count)} more not shown"


def _count(findings: Sequence[Finding]) -> str:
    """`11 files` where each finding is in a file of its own."""
    files = len({finding.place.path for finding in findings})
    if files == len(findings):
        return plural(files, "file")
    return f"{plural(len(findings), 'finding')} in {plural(files, 'file')}"


def _draw_group(
    canvas: Canvas, table: CheckedTable, findings: Sequence[Finding], quotes: _Quotes, *, brief: bool
) -> None:
    """Draw findings of one rule: those that differ by their file alone are one block, and a list of the files."""
    alike: dict[tuple[str, str | None], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((_without_names(finding), finding.expected), []).append(finding)
    for number, (first, *others) in enumerate(alike.values()):
        canvas.draw(*_block(canvas, table, first, None if brief else quotes, quote=number < _LINES_PER_RULE))
        if number == 0 and not brief:
            canvas.draw(_fix(canvas, table, first))
        if others:
            canvas.draw(Padding(_others(canvas, table, first, others), (0, 0, 0, 2)))


def _without_names(finding: Finding) -> str:
    """The message of a finding without the names of its file, column or property."""
    message = finding.message
    for name in sorted({finding.place.path, finding.place.key or ""}, key=len, reverse=True):
        message = message.replace(name, "\0") if name else message
    return message


def _others(canvas: Canvas, table: CheckedTable, first: Finding, others: Sequence[Finding]) -> RenderableType:
    """Return the places of findings that say what the first one says, and what was seen there if that differs."""
    has_key = any(finding.place.key for finding in others)
    room = (
        canvas.width
        - max(count_cells(_where(finding, finding.place.path or table.name)) for finding in others)
        - _INDENT
    )
    has_seen = any(finding.seen != first.seen for finding in others) and (
        canvas.never_cuts or has_key or room >= max(count_cells(finding.seen or "") for finding in others)
    )
    titles = [f"and the same in {plural(len(others), 'other place')}"]
    titles += (["for"] if has_key else []) + (["seen"] if has_seen else [])
    rows = [
        [
            canvas.text(_where(finding, finding.place.path or table.name), Style.PATH),
            *([canvas.text(finding.place.key or "")] if has_key else []),
            *([canvas.text(finding.seen or "")] if has_seen else []),
        ]
        for finding in others
    ]
    return canvas.matrix(titles, rows)


def _block(
    canvas: Canvas, table: CheckedTable, finding: Finding, quotes: _Quotes | None, *, quote: bool = True
) -> Iterator[RenderableType]:
    yield Padding(canvas.text(_where(finding, place_name(table, finding.place)), Style.PATH), (0, 0, 0, 2))
    inner: list[RenderableType] = [canvas.text(finding.message)]
    if quotes is not None:
        inner += quotes.of(table, finding) if quote else ()
        if rows := [(label, _with_unit(finding, value)) for label, value in values_of(finding) if value]:
            inner.append(_pairs(canvas, rows))
    for part in inner:
        yield Padding(part, (0, 0, 0, _INDENT))


def _with_unit(finding: Finding, value: str) -> str:
    """Return a value as people read it: sizes as `1,363 B`."""
    is_size = finding.rule.id.endswith(".size-mismatch") and value.isdigit()
    return f"{format_count(int(value))} B" if is_size else value


def _fix(canvas: Canvas, table: CheckedTable, finding: Finding) -> RenderableType:
    return Padding(_pairs(canvas, advice_of(finding.rule, table)), (0, 0, 0, _INDENT))


def _pairs(canvas: Canvas, rows: Iterable[tuple[str, str]]) -> RenderableType:
    return canvas.grid([(f"{label:<8}", _value(canvas, value)) for label, value in rows])


def _value(canvas: Canvas, text: str) -> Text:
    """Return a text to wrap, its commands on lines that a shell reads as one."""
    room = canvas.width - _INDENT - _LABEL_CELLS
    return Text("\n").join(canvas.text(line) for line in wrap_with_commands(text, room))


def _where(finding: Finding, path: str) -> str:
    return path if finding.place.line is None else f"{path}:{finding.place.line}"


ReadLine = Callable[[CheckedTable, Place], bytes | None]
"""Reads the line at a place; None where no line can be shown."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_VALUE_END = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^,{}\[\]"]+)')
_LEAST = 3
"""Characters of a value; shorter ones are found by chance."""


class _Excerpt(NamedTuple):
    """A line in three parts: `field` is what the finding is about, empty where that is not known."""

    before: str
    field: str
    after: str


def excerpt_of(line: bytes, finding: Finding) -> _Excerpt:
    """Return the line of a finding, split around the field that it is about."""
    text = line.decode("utf-8", "surrogateescape").removesuffix("\r")
    for start, end in _places(text, finding):
        return _Excerpt(text[:start], text[start:end], text[end:])
    return _Excerpt(text, "", "")


def _places(text: str, finding: Finding) -> Iterator[tuple[int, int]]:
    """Yield where the field may be, the surest place first. A value counts only where the line has it once."""
    key = finding.place.key or ""
    names = [name.rpartition(".")[2] for name in _NAME.findall(finding.message) if _is_field(name)]
    for name in [*([key] if _is_field(key) else []), *names]:
        if (place := _only(text, f"{_json(name)}:")) is not None:
            after = _VALUE_END.match(text, place[1])
            yield place[0], after.end() if after else place[1] - 1
    if key and (place := _only(text, _json(f'"name":{_json(key)}')[1:-1])) is not None:
        yield place  # a column in the schema, which is JSON in a text of JSON
    for value in (finding.seen, finding.expected, finding.place.key):
        for written in _spellings(value):
            if (place := _only(text, f":{written}", follows=",}]")) is not None:
                yield place[0] + 1, place[1]
    for written in re.findall(r"\S+/\S+|\S+\.parquet", finding.message):
        if (place := _only(text, _json(written.strip(":,;")))) is not None:
            yield place


def _is_field(name: str) -> bool:
    """True for a name rather than an English word: `add.path`, `minReaderVersion`."""
    return "." in name or name != name.lower()


def _spellings(value: str | None) -> Iterator[str]:
    if value and len(value) >= _LEAST and value not in ("true", "false", "null"):
        yield value
        yield _json(value)


def _json(text: str) -> str:
    return dumps(text).decode("utf-8", "replace")


def _only(text: str, part: str, *, follows: str = "") -> tuple[int, int] | None:
    ends = f"(?=[{re.escape(follows)}])" if follows else ""
    matches = list(re.finditer(re.escape(part) + ends, text))
    return matches[0].span() if len(matches) == 1 else None
