"""The check of a sharing configuration: a line per table, then what is wrong."""

from __future__ import annotations

from typing import BinaryIO

from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section
from deltacli.cli.render.sharing.recipients import share_fields
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Json, Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.sharing.configuration.checking import CheckProblem, CheckReport
from deltacli.units import plural


class CheckResult(Listing[Json]):
    """The tables, then the problems and a verdict."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            shown = [column for column in self.columns if column.on_screen or not terminal.is_drawn]
            write_table(sink, terminal, shown, self.rows)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def check_result(report: CheckReport) -> CheckResult:
    """Return the tables of a configuration, and what is wrong."""
    items = [table.as_json() for table in report.tables]
    columns: list[Column[Json]] = [
        Column("table", lambda one: one["name"], priority=1),
        Column("location", lambda one: one["location"], priority=4, keep_end=True),
        Column("version", lambda one: one.get("version"), right=True, priority=2),
        Column("history", _history, priority=3),
        Column("formats", lambda one: " ".join(one.get("formats", ())), priority=3),
        Column("features", lambda one: " ".join(one.get("features", ())), priority=3, folds=True),
        Column("clients", _clients, priority=1, folds=True, least=12),
        Column("problems", _codes, priority=1, style=_style, folds=True, least=12),
    ]
    problems = [problem.as_json() for problem in report.problems]
    content = {"problems": problems, "summary": report.summary()}
    fields = share_fields("share-check", configuration=str(report.configuration.path), **content)
    last = {"type": "share-check", "configuration": str(report.configuration.path), **content}
    said = _sections(report)
    return CheckResult(
        fields, "shared-table", items, columns, items, items_name="tables", last=last, said=lambda _: said
    )


def _sections(report: CheckReport) -> list[Section]:
    errors = [_text(problem) for problem in report.all_problems if problem.is_error]
    warnings = [_text(problem) for problem in report.all_problems if not problem.is_error]
    summary = report.summary()
    verdict = (
        f"{plural(summary['readable'], 'table')} of {summary['tables']} readable, "
        f"{plural(summary['errors'], 'error')}, {plural(summary['warnings'], 'warning')}"
    )
    sections = [
        Section("errors", errors, Style.PROBLEM, is_cut=False),
        Section("warnings", warnings, is_cut=False),
        Section("result", [verdict], Style.PROBLEM if errors else Style.GOOD),
    ]
    return [section for section in sections if section.lines]


def _text(problem: CheckProblem) -> str:
    return f"{problem.code}: {problem.message}"


def _history(one: Json) -> str:
    if not one["historyShared"]:
        return "newest only"
    return f"from {one['startVersion']}" if one["startVersion"] else "all"


def _clients(one: Json) -> str:
    return " ".join(client["name"] for client in one["clients"] if client["reads"])


def _codes(one: Json) -> str:
    return " ".join(dict.fromkeys(problem["code"] for problem in one["problems"]))


def _style(one: Json) -> Style:
    return Style.PROBLEM if any(problem["severity"] == "error" for problem in one["problems"]) else Style.PLAIN
