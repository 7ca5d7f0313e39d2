"""The check of a sharing configuration: a line per table, then what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from deltacli.cli.render.columns import Column
from deltacli.cli.render.sections import Section
from deltacli.cli.render.sharing.recipients import share_fields
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.sharing.configuration.share_check import CheckProblem, CheckReport
from deltacli.typing import JsonObject
from deltacli.units import plural

_MOST_OF_ONE_CODE = 5


class CheckResult(Listing[JsonObject]):
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
    columns: list[Column[JsonObject]] = [
        Column("table", lambda one: one["name"], priority=1, folds=True, least=24),
        Column("location", lambda one: one["location"], on_screen=False),
        Column("version", lambda one: one.get("version"), right=True, priority=2),
        Column("history", _history, priority=3),
        Column("formats", lambda one: " ".join(one.get("formats", ())), priority=3, least=13),
        Column("features", lambda one: " ".join(one.get("features", ())), priority=3, folds=True),
        Column("clients", _clients, _clients_shown, priority=1, folds=True, least=12),
        Column("problems", _codes, _counts, _style, priority=1, least=10),
    ]
    problems = [problem.as_json() for problem in report.problems]
    content = {"level": "storage" if report.has_files else "log", "problems": problems, "summary": report.summary()}
    fields = share_fields("share-check", configuration=str(report.configuration.path), **content)
    last = {"type": "share-check", "configuration": str(report.configuration.path), **content}
    said = _sections(report)
    return CheckResult(
        fields, "shared-table", items, columns, items, items_name="tables", last=last, said=lambda _: said
    )


def _sections(report: CheckReport) -> list[Section]:
    errors = _texts(problem for problem in report.all_problems if problem.is_error)
    warnings = _texts(problem for problem in report.all_problems if not problem.is_error)
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


def _texts(problems: Iterable[CheckProblem]) -> list[str]:
    """Return a line for each problem, of those with one code only the first ones."""
    by_code: dict[str, list[str]] = {}
    for problem in problems:
        by_code.setdefault(problem.code, []).append(f"{problem.code}: {problem.message}")
    lines = []
    for code, texts in by_code.items():
        lines += texts[:_MOST_OF_ONE_CODE]
        if len(texts) > _MOST_OF_ONE_CODE:
            lines.append(f"{code}: and {len(texts) - _MOST_OF_ONE_CODE:,} more; --json has all of them")
    return lines


def _history(one: JsonObject) -> str:
    if not one["historyShared"]:
        return "newest only"
    return f"from {one['startVersion']}" if one["startVersion"] else "all"


def _clients(one: JsonObject) -> str:
    return " ".join(client["name"] for client in one["clients"] if client["reads"])


def _clients_shown(one: JsonObject) -> str:
    reading = [client["reads"] for client in one["clients"]]
    return "all" if reading and all(reading) else _clients(one) or "none"


def _codes(one: JsonObject) -> str:
    return " ".join(dict.fromkeys(problem["code"] for problem in one["problems"]))


def _counts(one: JsonObject) -> str:
    severities = [problem["severity"] for problem in one["problems"]]
    counts = [(severities.count(name), name) for name in ("error", "warning")]
    return ", ".join(plural(count, name) for count, name in counts if count) or "none"


def _style(one: JsonObject) -> Style:
    return Style.PROBLEM if any(problem["severity"] == "error" for problem in one["problems"]) else Style.PLAIN
