"""Explain codes of errors, refusals and warnings by the tables of the documentation whose first column is `code`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from deltacli.cli.help.markdown import parse_table
from deltacli.cli.help.text import Definitions, Topic
from deltacli.core.errors import EXIT_CODES
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

ERRORS = "errors.md"
"""The page of the codes of errors. It also has rows about families of codes, such as `alter.*`."""

TO_DO_LABEL = "what to do"
IN_SPARK_LABEL = "in Spark"
_ORDER_OF_LABELS = {"exit code": 0, TO_DO_LABEL: 2, IN_SPARK_LABEL: 3}
"""Label -> its place among those of a code, 1 for others."""

_CODE = re.compile(r"[a-z][a-z-]*(?:\.[a-z][a-z0-9-]*)?")


@dataclass(frozen=True)
class CodeRow:
    """A row of a table about codes.

    Attributes:
        codes: The codes that the row is about, or families such as `alter.*`.
        cells: The cells behind the codes, by the headings of their columns.
    """

    codes: Sequence[str]
    cells: Mapping[str, str]


@dataclass
class CodeExplanation:
    """What the pages say about a code.

    Attributes:
        entries: Labels with texts. A label may have several texts, from several pages.
    """

    entries: list[tuple[str, str]] = field(default_factory=list)

    def add(self, label: str, text: str) -> None:
        """Add a text, unless it is empty or said already."""
        if label == "exit":
            label = "exit code"
        text = re.sub(r"; see [^;]*\.md$| \(list\)$", "", text)
        if text and (label, text) not in self.entries:
            self.entries.append((label, text))

    def has(self, label: str) -> bool:
        """Return True if there is a text with this label."""
        return any(entry_label == label for entry_label, _text in self.entries)

    def exit_codes(self) -> list[int]:
        """Return the exit codes of the code, as the last page that has them says it."""
        return [int(number) for number in re.findall(r"\d+", dict(self.entries).get("exit code", ""))]

    def make_topic(self, code: str) -> Topic:
        """Return the topic of the code: its exit code first, what to do last."""
        entries = sorted(self.entries, key=lambda entry: _ORDER_OF_LABELS.get(entry[0], 1))
        title = f"{code} is a code of errors, refusals or warnings."
        return Topic(title, (Definitions(tuple(entries)),), is_code=True)


def explain_codes(pages: Mapping[str, str]) -> Iterator[tuple[str, Topic]]:
    """Yield the codes of errors, refusals and warnings with what the pages say about them.

    What to do about a code stands on the page of errors, there perhaps for its family only, or else is the advice of
    its exit code. A page about Spark says what to do in Spark. What to do about a rule is what the rule says itself.
    """
    advice = {
        code: row.cells[TO_DO_LABEL]
        for row in _read_code_rows(pages[ERRORS])
        for code in (row.codes if row.cells.get(TO_DO_LABEL) else ())
    }
    # The longest family that a code belongs to is the most specific one.
    families = sorted((code for code in advice if "*" in code), key=len, reverse=True)
    rules = {*CATALOGUE.rules, *PAIMON_CATALOGUE.rules}

    for code, explanation in _collect_code_rows(pages, advice).items():
        if code in rules:
            labels = (TO_DO_LABEL, IN_SPARK_LABEL)
            explanation.entries[:] = [entry for entry in explanation.entries if entry[0] not in labels]
        elif not explanation.has(TO_DO_LABEL):
            family = next((family for family in families if fnmatchcase(code, family)), None)
            exit_codes = explanation.exit_codes()
            if family is not None:
                explanation.add(TO_DO_LABEL, advice[family])
            elif exit_codes:
                explanation.add(TO_DO_LABEL, EXIT_CODES[exit_codes[0]].advice)
        yield code, explanation.make_topic(code)


def _collect_code_rows(pages: Mapping[str, str], advice: Mapping[str, str]) -> dict[str, CodeExplanation]:
    """Return what the rows about each code say.

    Args:
        pages: The pages of the documentation.
        advice: Code -> what the page of errors says to do about it.
    """
    explanations: dict[str, CodeExplanation] = {}
    for page, text in pages.items():
        for row in _read_code_rows(text):
            for code in filter(_CODE.fullmatch, row.codes):
                is_special_case = page.startswith("spark-") and code in advice
                explanation = explanations.setdefault(code, CodeExplanation())
                for label, cell in row.cells.items():
                    explanation.add(IN_SPARK_LABEL if is_special_case and label == TO_DO_LABEL else label, cell)
    return explanations


def _read_code_rows(page: str) -> Iterator[CodeRow]:
    """Yield the rows of the tables of a page whose first column is `code`."""
    for table in re.findall(r"^\| code \|.*\n(?:^\|.*\n)+", page, re.MULTILINE):
        heading, *rows = parse_table(table)
        for first, *cells in rows:
            yield CodeRow(re.split(r", | and ", first), dict(zip(heading[1:], cells, strict=True)))
