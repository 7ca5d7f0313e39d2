"""Write messages to stderr.

Secrets in messages are masked. On a terminal, messages are wrapped, and the progress bar is erased while a message is
written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from deltacli.cli.invocation import AT, invocation
from deltacli.cli.terminal.capabilities import terminal_width
from deltacli.cli.terminal.characters import escape_control_in_json
from deltacli.cli.terminal.standard_streams import discard_output
from deltacli.cli.terminal.wrapping import format_command_pattern, wrap_message
from deltacli.core.documents import dumps
from deltacli.core.errors import quote_word
from deltacli.storage.secrets import mask_secrets

_STDERR = 2


class LiveLine(Protocol):
    """The last line of the terminal, which is redrawn to show progress. It must be erased before a message."""

    def hidden(self) -> AbstractContextManager[None]:
        """Erase the line while the context is open."""

    def show_interruption(self) -> None:
        """Let the line show that the run was interrupted. Signal handlers call this."""

    def close(self) -> None:
        """Erase the line and stop drawing."""

    def try_close(self) -> None:
        """Erase the line and stop drawing, unless another thread is blocked while drawing."""


class _Messages:
    """The state of stderr in this process.

    Attributes:
        live_line: The line that shows progress; None if no progress is shown.
    """

    live_line: LiveLine | None = None


_messages = _Messages()


def set_live_line(line: LiveLine | None) -> None:
    """Register the line that shows progress. None removes it."""
    _messages.live_line = line


def get_live_line() -> LiveLine | None:
    """Return the line that shows progress, if any."""
    return _messages.live_line


def close_live_line() -> None:
    """Stop showing progress, for example before the result is written to the same terminal."""
    line = get_live_line()
    if line is not None:
        line.close()
        set_live_line(None)


def write_message(text: str, paint: Callable[[str], str] = str) -> None:
    """Write a message to stderr. If stderr is closed, the message is discarded.

    Args:
        text: The message. Its secrets are masked. On a terminal, it is wrapped.
        paint: A function that adds colours. It is called after wrapping, because escape sequences have no width.
    """
    text = clean_message(text)
    if sys.stderr is not None and sys.stderr.isatty():
        text = wrap_message(text, terminal_width())

    line = get_live_line()
    with nullcontext() if line is None else line.hidden():
        write_stderr(paint(text) + "\n")


def write_json_message(document: bytes) -> None:
    """Write a JSON object as a line to stderr, with control characters escaped."""
    write_message(escape_control_in_json(document.decode()))


def write_stderr(text: str) -> None:
    """Write a text to stderr without changes. If stderr is closed, the text is discarded."""
    try:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        sys.stderr.flush()
    except (OSError, ValueError):
        discard_output(sys.stderr, _STDERR)


def clean_message(text: str) -> str:
    """Mask the secrets in a message, and add `-C DIRECTORY` to its commands if the user typed it.

    Paths in messages are relative to this directory. Without `-C`, a command that is pasted from a message would run
    in the directory of the shell.
    """
    text = mask_secrets(text)
    if not invocation.directories or "deltacli " not in text:
        return text

    options = "".join(f"{AT} {quote_word(directory)} " for directory in invocation.directories)
    if text.startswith("{"):
        # The commands are within strings of a JSON object.
        options = dumps(options).decode()[1:-1]
    command = rf"(?<![\w./-])deltacli (?=(?:{format_command_pattern()})(?![\w-]))"
    return re.sub(command, lambda match: match[0] + options, text)
