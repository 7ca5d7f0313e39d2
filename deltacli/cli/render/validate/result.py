"""A run of `validate`, or of `share test`, as a result, for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO

from deltacli.cli.output.column_widths import MAX_DRAWN_ROWS
from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import EncodedItems, Grid, RowGrid, WriteItems, encode_line
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.render.validate.arrangement import ArrangedFindings, arrange_findings
from deltacli.cli.render.validate.findings import judge, omissions, table_lines, write_summary, write_text
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport, place_name, rank_finding
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import encode_utf8
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import plural
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.repairs import Condition, command_of, repair_in_words


@dataclass
class FindingsResult(Result):
    """The findings of a run.

    Attributes:
        report: The tables with their findings.
        brief: Whether people see places and messages only, without values, fixes and lines of the log.
        arranged: The findings in the order in which a terminal shows them, with lines of the log; None to arrange them
            when they are drawn, without lines.
        shows_findings: Whether people see each finding. Otherwise they see a row per table. JSON, CSV and the formats
            of other tools always contain all findings.
    """

    report: ValidationReport
    brief: bool
    arranged: ArrangedFindings | None = None
    shows_findings: bool = True

    @property
    def has_requested_rows(self) -> bool:  # type: ignore[override]  # it depends on what was found
        return any(table.findings for table in self.report.tables)

    def document(self) -> Document:
        """Return the document `deltacli.validate`; `table` is the one table, or null where there are several."""
        report = self.report
        document: dict[str, Json] = {
            "kind": "deltacli.validate",
            "schemaVersion": SCHEMA_VERSION,
            "table": report.tables[0].validation.table if len(report.tables) == 1 else None,
            "tableFormat": report.table_format,
            "complete": report.is_complete,
            "level": report.level,
            "tables": [table_json(table) for table in report.tables],
            "summary": report.counts._asdict(),
        }
        if report.stale is not None:
            document["baseline"] = {"accepted": report.accepted, "stale": report.stale}
        if report.failures:
            document["failures"] = [
                {"table": name, "code": fault.code, "message": fault.message} for name, fault in report.failures
            ]
        return Document(document)

    def grid(self) -> Grid:
        return RowGrid(_COLUMNS, ((table, one) for table in self.report.tables for one in self.report.ordered(table)))

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        tables = [Section(table.name, [judge(table).sentence, *omissions(table)]) for table in self.report.tables]
        failures = [Section(name, [f"{fault.message} [{fault.code}]"]) for name, fault in self.report.failures]
        counts = self.report.counts
        parts = (plural(counts.errors, "error"), plural(counts.warnings, "warning"), plural(counts.infos, "info"))
        return [Section(self.report.subjects, [", ".join(parts)]), *tables, *failures]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not self.shows_findings:
            from deltacli.cli.render.validate.overview import write_overview

            write_overview(sink, terminal, self.report)
            return
        if not terminal.is_drawn:
            tables = tuple(table._replace(findings=tuple(self.report.ordered(table))) for table in self.report.tables)
            write_text(sink, terminal, self.report._replace(tables=tables), brief=self.brief)
            return
        self._draw_on_terminal(sink, terminal)

    def draws_blocks(self, terminal: Terminal) -> bool:
        """Return whether the findings are drawn as blocks, which can quote lines of the log."""
        findings = sum(len(table.findings) for table in self.report.tables)
        return self.shows_findings and terminal.is_drawn and findings <= MAX_DRAWN_ROWS

    def _draw_on_terminal(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Draw the verdicts, the counts, and the findings. A long report has a line per finding, as in a pipe."""
        # Rich takes long to import, and only terminals need it.
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.findings import draw_findings, draw_verdicts

        report = self.report
        canvas = Canvas(sink, terminal)
        draw_verdicts(canvas, report)
        if report.tables:
            sink.write(b"\n")
        write_summary(sink, terminal, report)

        if self.draws_blocks(terminal):
            arranged = self.arranged or arrange_findings(report, brief=self.brief)
            draw_findings(canvas, arranged, brief=self.brief)
            return
        sink.write(b"\n")
        for table in report.tables:
            findings = table.findings
            if not report.by_path:
                findings = tuple(sorted(findings, key=partial(rank_finding, table)))
            for line in table_lines(table._replace(findings=findings), terminal, brief=self.brief):
                sink.write(encode_utf8(f"{line}\n"))


@dataclass
class LiveFindings(Result):
    """Findings as they come. `check` checks the tables, writes lines, and returns whether the result is complete."""

    check: Callable[[WriteItems], bool]
    is_live: bool = True

    def lines(self, write_items: WriteItems) -> bool:
        return self.check(write_items)


def finding_line(uri: str, finding: Finding, name: str, condition: Condition = Condition.WHOLE) -> EncodedItems:
    return encode_line({"table": uri, **finding_json(finding, uri, name, condition)}, "finding")


def finding_json(finding: Finding, uri: str, name: str, condition: Condition) -> JsonObject:
    """Return a finding as in documents, with the command that repairs the table of this URI, if there is one. What a
    catalog manages is found by the `name` that the user wrote.
    """
    table = name if condition is Condition.MANAGED else uri
    document = finding.as_json()
    line = command_of(finding.rule, table, condition)
    repair = repair_in_words(finding.rule, table, condition)
    document["fix"] = {**finding.rule.fix.as_json(table), "repair": repair, "mend": repair, "command": line}
    return document


def summary_line(table: CheckedTable, level: str) -> EncodedItems:
    document = {name: value for name, value in table_json(table).items() if name != "findings"}
    return encode_line({"level": level, **document}, "summary")


def table_json(table: CheckedTable) -> dict[str, Json]:
    """Return a table as in the document `deltacli.validate`."""
    validation = table.validation
    files = {} if validation.files is None else {"files": validation.files._asdict()}
    return {
        "table": validation.table,
        "version": validation.version,
        "findings": [finding_json(one, validation.table, table.name, validation.condition) for one in table.findings],
        "summary": table.counts._asdict(),
        "verdict": judge(table).as_json(),
        "suppressed": dict(table.suppressed),
        "notChecked": list(validation.not_checked),
        **({} if validation.table_format == "delta" else {"tableFormat": validation.table_format}),
        **files,
    }


def _repair(table: CheckedTable, finding: Finding) -> str:
    return repair_in_words(finding.rule, table.name, table.validation.condition)


def _command(table: CheckedTable, finding: Finding) -> str | None:
    return command_of(finding.rule, table.name, table.validation.condition)


_COLUMNS: list[Column[tuple[CheckedTable, Finding]]] = [
    Column("table", lambda row: row[0].validation.table, on_screen=False),
    Column("rule", lambda row: row[1].rule.id),
    Column("severity", lambda row: row[1].severity.value),
    Column("path", lambda row: row[1].place.path, text=lambda row: place_name(row[0], row[1].place)),
    Column("line", lambda row: row[1].place.line, align_right=True),
    Column("version", lambda row: row[1].place.version, align_right=True),
    Column("key", lambda row: row[1].place.key),
    Column("message", lambda row: row[1].message),
    Column("seen", lambda row: row[1].seen),
    Column("expected", lambda row: row[1].expected),
    Column("spec", lambda row: row[1].rule.spec, on_screen=False),
    Column("broken", lambda row: row[1].rule.fix.broken, on_screen=False),
    Column("mend", lambda row: _repair(*row), title="fix"),
    Column("loss", lambda row: row[1].rule.fix.loss, on_screen=False),
    Column("repair", lambda row: _repair(*row), on_screen=False),
    Column("command", lambda row: _command(*row)),
]


@dataclass
class ConformanceResult(FindingsResult):
    """What was found; `requests` were sent to `endpoint`."""

    endpoint: str = ""
    requests: int = 0

    def document(self) -> Document:
        """Return the document `deltacli.share-test`."""
        fields = dict(super().document().fields)
        about: dict[str, Json] = {
            "kind": "deltacli.share-test",
            "endpoint": self.endpoint,
            "requests": self.requests,
            "notChecked": list(self.report.left_out),
            "suites": [suite_json(table) for table in self.report.tables],
        }
        kept = ("schemaVersion", "complete", "level", "summary", "baseline")
        return Document({**about, **{name: fields[name] for name in kept if name in fields}})

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        """Write the text form: per suite how many rules were checked on others only; last those checked nowhere."""
        checked = _checked(self.report)
        shown = tuple(_with_count(table, checked) for table in self.report.tables)
        FindingsResult(self.report._replace(tables=shown), self.brief).draw(sink, terminal)
        lines = list(_checked_nowhere(self.report))
        if lines:
            sink.write(b"\n")
            write_sections(sink, terminal, [Section("not checked on any table", lines)])

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        left_out = [Section("not checked", list(self.report.left_out))] if self.report.left_out else []
        return [*super().sections(terminal), *left_out]


def _checked(report: ValidationReport) -> Set[str]:
    return {rule for table in report.tables for rule in table.validation.rules}


def _with_count(table: CheckedTable, checked: Set[str]) -> CheckedTable:
    """Return a suite with the number of rules that were checked on others only, in place of all that it skipped."""
    count = len(table.validation.skipped.keys() & checked)
    words = (f"{plural(count, 'rule')} checked on other tables only (--json names them)",) if count else ()
    return table._replace(validation=replace(table.validation, not_checked=words))


def _checked_nowhere(report: ValidationReport) -> Iterator[str]:
    """Yield the reasons for which rules were checked on no table, each with these rules."""
    checked = _checked(report)
    reasons: dict[str, dict[str, None]] = {}
    for table in report.tables:
        for rule, reason in table.validation.skipped.items():
            if rule not in checked:
                reasons.setdefault(reason, {})[rule] = None
    told: set[str] = set()
    for reason, rules in reasons.items():
        left = [rule for rule in rules if rule not in told]
        told.update(left)
        if left:
            yield f"{', '.join(left)}: {reason}"


def suite_json(table: CheckedTable) -> dict[str, Json]:
    content = table_json(table)
    del content["verdict"]["readable"], content["tableFormat"]
    checked = sorted(table.validation.rules)
    return {"name": table.name, **content, "checked": checked, "skipped": dict(table.validation.skipped)}


def suite_line(table: CheckedTable, level: str) -> EncodedItems:
    document = {name: value for name, value in suite_json(table).items() if name != "findings"}
    return encode_line({"level": level, **document}, "suite")
