"""One shared table under test: how it is asked, and its whole answers, with which all others are compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.rules.framework.base import Rule
from deltacli.sharing.conformance.lines import DELTA, PARQUET, Lines
from deltacli.sharing.conformance.rules.answers import Tester
from deltacli.sharing.conformance.rules.line_form import read_lines
from deltacli.sharing.conformance.rules.table_lines import check_table
from deltacli.sharing.conformance.wire import CAPABILITIES, Suite, WireAnswer

ALL_FEATURES = ",".join(
    sorted(name.lower() for name, feature in FEATURES.items() if feature.kind is FeatureKind.READER_WRITER)
)
DELTA_HEADER = f"responseformat=delta;readerfeatures={ALL_FEATURES}"
HEADERS: Mapping[str, Mapping[str, str]] = {PARQUET: {}, DELTA: {CAPABILITIES: DELTA_HEADER}}
MOVED = "the table got a new version during the test"


@dataclass
class SharedTableTest:
    """A table under test. `wholes`: all files of the newest version, by format, as far as the server has it in that
    format.
    """

    tester: Tester
    suite: Suite
    path: str
    wholes: dict[str, Lines] = field(default_factory=dict)
    has_history: bool = False

    @property
    def whole(self) -> Lines | None:
        """Return the whole answer to compare with, in delta format if the server has it."""
        return self.wholes.get(DELTA) or self.wholes.get(PARQUET)

    def ask(
        self,
        rest: str,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
    ) -> WireAnswer:
        """Return the answer to a request about the table."""
        parameters = {name: str(value) for name, value in (query or {}).items()}
        path = f"{self.path}/{rest}" if rest else self.path
        return self.tester.ask(self.suite, path, query=parameters, headers=headers, method=method)

    def query(self, body: Mapping[str, object], form: str, headers: Mapping[str, str] | None = None) -> WireAnswer:
        """Return the answer to a query in a format."""
        sent = json.dumps(body).encode()
        path = f"{self.path}/query"
        return self.tester.ask(self.suite, path, body=sent, method="POST", headers={**HEADERS[form], **(headers or {})})

    def read(self, answer: WireAnswer, *, expects_end: bool = False) -> Lines | None:
        """Return an answer in lines, checked; None where it is an error or cannot be used."""
        if not answer.is_ok:
            return None
        lines = read_lines(self.suite, answer, expects_end=expects_end)
        if lines is not None:
            check_table(self.suite, lines, self.tester.now_ms)
        return lines

    def same_version(self, lines: Lines | None, rules: Iterable[Rule]) -> Lines | None:
        """Return lines that can be compared with the whole answer: those of the same version."""
        whole = self.whole
        if lines is None or whole is None:
            return None
        if lines.version != whole.version:
            self.suite.skip(MOVED, rules)
            return None
        return lines

    def skip(self, reason: str, *rules: Rule) -> None:
        """Note why rules cannot be checked."""
        self.suite.skip(reason, rules)
