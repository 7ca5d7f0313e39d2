"""A run of `share test` as a result: what `validate` has for tables, for a server and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import BinaryIO

from deltacli.cli.render.json import EncodedItems
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections
from deltacli.cli.render.validate.report import CheckedTable, ValidationReport
from deltacli.cli.render.validate.result import FindingsResult, table_json
from deltacli.cli.results import Document, line_of
from deltacli.cli.terminal.term import Terminal
from deltacli.typing import Json
from deltacli.units import plural


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
    """Return a suite as in the document `deltacli.share-test`."""
    content = table_json(table)
    del content["verdict"]["readable"], content["tableFormat"]
    checked = sorted(table.validation.rules)
    return {"name": table.name, **content, "checked": checked, "skipped": dict(table.validation.skipped)}


def suite_line(table: CheckedTable, level: str) -> EncodedItems:
    """Return what follows the findings of a suite in NDJSON."""
    document = {name: value for name, value in suite_json(table).items() if name != "findings"}
    return line_of({"level": level, **document}, "suite")
