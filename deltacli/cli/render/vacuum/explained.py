"""Why a vacuum keeps or deletes one file, for the eye."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.units import format_moment

if TYPE_CHECKING:
    from deltacli.operations.vacuum.explain import ExplainedCommit, Explanation

_VERDICTS = {"goes": ("delete", Style.REMOVED), "kept": ("keep", Style.GOOD)}
"""Verdict in documents -> the word that people read, and its look."""


def explanation_sections(table: str, explanation: Explanation) -> list[Section]:
    """The verdict, why, what is known of the file, and the commits that name it, in order."""
    verdict, style = _VERDICTS.get(explanation.verdict, (explanation.verdict, Style.PLAIN))
    sections = [
        Section("table", [table]),
        Section("file", [explanation.path], is_cut=False),
        Section("verdict", [verdict], style),
        Section("why", [explanation.why], is_cut=False),
        *(Section(name, [text], is_cut=False) for name, text in explanation.facts),
        Section("commits", [_commit(commit) for commit in explanation.commits], is_cut=False),
    ]
    return [section for section in sections if section.lines]


def _commit(commit: ExplainedCommit) -> str:
    when = "at an unknown time" if commit.timestamp_ms is None else f"{format_moment(commit.timestamp_ms)} UTC"
    words = [f"{commit.version}, {when}, {commit.action}", commit.operation or "", commit.detail]
    return ", ".join(word for word in words if word)
