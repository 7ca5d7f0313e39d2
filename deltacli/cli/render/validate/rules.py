"""The catalogue of rules, as a result of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from deltacli.cli.output.columns import Column
from deltacli.cli.output.formats import FORMATS, Content, Format
from deltacli.cli.output.grids import Grid, RowGrid, WriteItems, write_lines
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.text_tables import write_text_table
from deltacli.cli.render.validate.findings import fix_sentence
from deltacli.cli.render.validate.verdict_columns import STYLES
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.characters import escape_for_screen
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.errors import UsageError
from deltacli.core.typing import Json
from deltacli.rules.framework.base import Rule


@dataclass
class RulesResult(Result):
    """The rules, each with an example of what it reports."""

    rules: Sequence[Rule]
    table_format: str = "delta"
    has_requested_rows: bool = True

    def document(self) -> Document:
        return Document(
            {
                "kind": "deltacli.rules",
                "schemaVersion": SCHEMA_VERSION,
                "tableFormat": self.table_format,
                "complete": True,
                "items": [rule_json(rule) for rule in self.rules],
            }
        )

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(write_items, map(rule_json, self.rules), "rule")
        return True

    def grid(self) -> Grid:
        return RowGrid(_columns(), self.rules)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if terminal.width is None and len(self.rules) > 1:
            write_text_table(sink, terminal, _columns(), self.rules)
            return
        for rule in self.rules:
            sink.write("\n".join(_block(rule, terminal, terminal.width or 80)).encode() + b"\n\n")


def _block(rule: Rule, terminal: Terminal, width: int) -> Iterator[str]:
    """A rule for the eye: cut columns would say nothing."""
    severity = terminal.paint(rule.severity.value, STYLES[rule.severity])
    yield f"{terminal.paint(rule.id, Style.HEADING)}  {severity}  {rule.level}"
    yield from _wrapped(rule.checks, width, 4)
    pairs = (
        ("broken", rule.fix.broken),
        ("fix", fix_sentence(rule.fix)),
        ("source", rule.spec),
        ("example", rule.example),
    )
    for label, text in pairs:
        first, *rest = _wrapped(text, width, 13) or [""]
        if first:
            yield f"    {terminal.paint(f'{label:<7}', Style.QUIET)}  {first.lstrip()}"
            yield from rest


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    blanks = " " * indent
    return textwrap.wrap(
        escape_for_screen(text), max(width, indent + 20), initial_indent=blanks, subsequent_indent=blanks
    )


def require_list_format(form: Format) -> None:
    """Raise UsageError where a list of rules has no such form."""
    if form.content is not Content.ANY:
        names = [name for name, row in FORMATS.items() if row.content is Content.ANY]
        raise UsageError(
            f"--list-rules is not written as {form.name}",
            facts={"expected": f"--format {', '.join(names[:-1])} or {names[-1]}"},
        )


def rule_json(rule: Rule) -> dict[str, Json]:
    """A rule as in the document `deltacli.rules`."""
    return {
        "rule": rule.id,
        "severity": rule.severity.value,
        "level": rule.level.value,
        "checks": rule.checks,
        "seed": "",  # the section of a draft, which is not named any more
        "spec": rule.spec,
        "fix": rule.fix.as_json(),
        "example": rule.example,
    }


def _columns() -> list[Column[Rule]]:
    """The columns of a pipe and of CSV: a line a rule, everything in it."""
    return [
        Column("rule", lambda rule: rule.id),
        Column("severity", lambda rule: rule.severity.value, style=lambda rule: STYLES[rule.severity]),
        Column("level", lambda rule: rule.level),
        Column("checks", lambda rule: rule.checks),
        Column("example", lambda rule: rule.example),
        Column("seed", lambda _: ""),
        Column("spec", lambda rule: rule.spec),
        Column("broken", lambda rule: rule.fix.broken),
        Column("mend", lambda rule: rule.fix.repair),
        Column("loss", lambda rule: rule.fix.loss),
        Column("repair", lambda rule: rule.fix.repair),
    ]
