"""`--format table`: text for people, drawn on a terminal, not truncated in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from deltacli.cli.results import Result
    from deltacli.cli.terminal.term import Terminal


def write(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write the text form of a result."""
    result.draw(sink, terminal)
