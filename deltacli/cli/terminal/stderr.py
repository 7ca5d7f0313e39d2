"""Messages on stderr: without secrets, wrapped to the terminal, and not mixed with a line that is redrawn there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from deltacli.cli.invocation import AT, give_up, invocation
from deltacli.cli.terminal.capabilities import terminal_width
from deltacli.cli.terminal.characters import escape_control_in_json
from deltacli.cli.terminal.wrapping import first_words_of_commands, wrap_message
from deltacli.core.documents import dumps
from deltacli.core.errors import quote_word
from deltacli.storage.secrets import without_secrets

_STDERR = 2


class LiveLine(Protocol):
    """A redrawn line at the bottom of the terminal, which must be erased before anything else is written."""

    def hidden(self) -> AbstractContextManager[None]:
        """Erase it while something else is written."""

    def show_interruption(self) -> None:
        """Show that the run was interrupted. Called in a signal handler."""

    def close(self) -> None:
        """Erase it permanently."""

    def try_close(self) -> None:
        """Erase it permanently, or give up if that would block."""


class _Messages:
    """The state of stderr in this process."""

    live_line: LiveLine | None = None


_messages = _Messages()


def set_live_line(line: LiveLine | None) -> None:
    """Set the line that is redrawn on stderr; None if there is none."""
    _messages.live_line = line


def get_live_line() -> LiveLine | None:
    """Return the line that is redrawn on stderr, if there is one."""
    return _messages.live_line


def close_live_line() -> None:
    """Erase the redrawn line permanently, if there is one."""
    line = get_live_line()
    if line is not None:
        line.close()
        set_live_line(None)


def write_message(text: str, paint: Callable[[str], str] = str) -> None:
    """Write a line to stderr, without secrets. A closed stderr is ignored.

    Args:
        text: The line. A terminal gets it wrapped.
        paint: Colours the text once it is wrapped, so that escape sequences take no cells.
    """
    text = clean_message(text)
    if sys.stderr is not None and sys.stderr.isatty():
        text = wrap_message(text, terminal_width())

    line = get_live_line()
    with nullcontext() if line is None else line.hidden():
        write_stderr(paint(text) + "\n")


def write_json_message(document: bytes) -> None:
    """Write a JSON object as a line on stderr, safe on a terminal."""
    write_message(escape_control_in_json(document.decode()))


def write_stderr(text: str) -> None:
    """Write a text to stderr unchanged; discard it once stderr is closed."""
    try:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        sys.stderr.flush()
    except (OSError, ValueError):
        give_up(sys.stderr, _STDERR)


def clean_message(text: str) -> str:
    """Return a text without secrets, in which commands have the `-C` of this run.

    Without `-C` a command that is pasted from a message would run in another directory than this one.
    """
    text = without_secrets(text)
    if not invocation.directories or "deltacli " not in text:
        return text

    options = "".join(f"{AT} {quote_word(directory)} " for directory in invocation.directories)
    if text.startswith("{"):
        options = dumps(options).decode()[1:-1]  # within a text of a JSON object
    command = rf"(?<![\w./-])deltacli (?=(?:{first_words_of_commands()})(?![\w-]))"
    return re.sub(command, lambda match: match[0] + options, text)
