"""Tables of the pages that `deltacli help` shows: the topics, and the exit codes."""

from __future__ import annotations

from pathlib import Path

from deltacli.cli.help.topics import TOPICS, DocumentedTopic
from deltacli.core.errors import EXIT_CODES

DOCS = Path(__file__).resolve().parent.parent / "docs"


def topic_rows() -> list[str]:
    """Return the table of topics, with the other names of each."""
    rows = [f"| `{topic.name}` | {topic.shows}{_list_other_names(topic)} |" for topic in TOPICS if topic.shows]
    return ["| topic | shows |", "|---|---|", *rows]


def _list_other_names(topic: DocumentedTopic) -> str:
    names = ", ".join(f"`{name}`" for name in topic.other_names)
    return f" (also {names})" if names else ""


def exit_code_rows() -> list[str]:
    """Return the table of exit codes."""
    rows = [f"| {code.number} | {code.meaning} | {code.advice} |" for code in EXIT_CODES.values()]
    signals = "signal N (130: interrupted, 141: the reader closed the pipe, 143: terminated)"
    return [
        "| code | meaning | what to do |",
        "|---|---|---|",
        *rows,
        f"| 128+N | {signals} | see `deltacli help signals` |",
    ]
