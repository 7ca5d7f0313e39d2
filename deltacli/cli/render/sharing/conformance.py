"""A run of `share test` as a result: what `validate` has for tables, for a server and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.cli.render.json import EncodedItems
from deltacli.cli.render.sections import Section
from deltacli.cli.render.validate.report import CheckedTable
from deltacli.cli.render.validate.result import FindingsResult, table_json
from deltacli.cli.results import Document, line_of
from deltacli.cli.terminal.term import Terminal


@dataclass
class ConformanceResult(FindingsResult):
    """What was found; `requests` were sent to `endpoint`."""

    endpoint: str = ""
    requests: int = 0

    def document(self) -> Document:
        """Return the document `deltacli.share-test`."""
        fields = dict(super().document().fields)
        about: dict[str, Any] = {  # Any: JSON values
            "kind": "deltacli.share-test",
            "endpoint": self.endpoint,
            "requests": self.requests,
            "notChecked": list(self.report.left_out),
            "suites": [suite_json(table) for table in self.report.tables],
        }
        kept = ("schemaVersion", "complete", "level", "summary", "baseline")
        return Document({**about, **{name: fields[name] for name in kept if name in fields}})

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        left_out = [Section("not checked", list(self.report.left_out))] if self.report.left_out else []
        return [*super().sections(terminal), *left_out]


def suite_json(table: CheckedTable) -> dict[str, Any]:  # Any: JSON values
    """Return a suite as in the document `deltacli.share-test`."""
    content = table_json(table)
    del content["verdict"]["readable"], content["tableFormat"]
    checked = sorted(table.validation.rules)
    return {"name": table.name, **content, "checked": checked, "skipped": dict(table.validation.skipped)}


def suite_line(table: CheckedTable, level: str) -> EncodedItems:
    """Return what follows the findings of a suite in NDJSON."""
    document = {name: value for name, value in suite_json(table).items() if name != "findings"}
    return line_of({"level": level, **document}, "suite")
