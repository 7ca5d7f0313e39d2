"""Consent: a table is changed only after the user agreed, by `--yes` or by an answer on the terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.capabilities import terminal_width
from deltacli.cli.terminal.characters import escape_for_screen
from deltacli.cli.terminal.stderr import close_live_line, write_stderr
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.cli.terminal.waiting import read_line
from deltacli.core.errors import NOTHING_CHANGED, Refused
from deltacli.core.machine import system_clock
from deltacli.core.times import format_timestamp

if TYPE_CHECKING:
    from deltacli.cli.running.context import CommandContext

_YES = ("y", "yes")
_TOLERANCE_MS = 60_000
"""How far `--now` may be ahead of the clock. A script computes it a moment before it starts the command."""
_NARROWEST_QUESTION = 20


def confirm_change(
    run: CommandContext,
    question: str,
    show_plan: Callable[[], None],
    *,
    yes: bool,
    dry_run: bool = False,
    facts: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Ask the user to agree to a change.

    Args:
        run: The run of the command.
        question: The change with its numbers, such as `delete 63 files (3.2 GiB)`.
        show_plan: Writes the plan to stdout. It is called before the question. If the plan is a document, it is called
            only if nothing else will be written.
        yes: Whether the user has agreed on the command line.
        dry_run: Whether nothing is changed. The question becomes a note, and the plan is shown.
        facts: The facts of the error if nobody can be asked.

    Returns:
        True if the user agrees, and False for a dry run.

    Raises:
        Refused: If the answer is no, or nobody can be asked. In the latter case the hint adds `--yes`.
    """
    question = invocation.insert_catalog_names(question)
    if dry_run:
        run.note(f"note: would {question}")
        show_plan()
        return False
    if yes:
        invocation.has_agreed = True
        return True
    if not _can_ask():
        show_plan()
        raise Refused(
            f"confirmation is required to {question}",
            preamble=NOTHING_CHANGED,
            code="consent.missing",
            facts=dict(facts),
            hint=repeat_command_with(invocation.arguments, "--yes"),
        )

    # A plan as JSON or in a file does not help the user to decide. It is written only if it remains the result.
    is_read_before_answer = run.format.is_for_people and run.output is None
    if is_read_before_answer:
        show_plan()
    if not _ask(question):
        if not is_read_before_answer:
            show_plan()
        raise Refused("cancelled; nothing was changed", code="consent.denied")
    invocation.has_agreed = True
    run.confirm()
    return True


def is_clock_ahead(run: CommandContext) -> bool:
    """Return whether `--now` is later than the clock of this machine. Only a dry run may use such a time."""
    return run.clock() > system_clock() + _TOLERANCE_MS


def require_clock_not_ahead(run: CommandContext, plan: str = "--dry-run") -> None:
    """Require that `--now` is not later than the clock of this machine.

    With a later time, files would be deleted that are too young according to the clock. A dry run may use such a time
    to show what a later run will do.

    Args:
        run: The run of the command.
        plan: The option or command that shows the plan, for the hint.

    Raises:
        Refused: If it is later.
    """
    if not is_clock_ahead(run):
        return
    raise Refused(
        f"--now {format_timestamp(run.clock())} is later than the clock, so recent files would count as old",
        preamble=NOTHING_CHANGED,
        code="clock.ahead",
        facts={"clock": format_timestamp(system_clock())},
        hint=f"omit --now, or show the plan with {plan}",
    )


def _can_ask() -> bool:
    # A process without a console has None for a stream.
    has_terminal_in = sys.stdin is not None and sys.stdin.isatty()
    return has_terminal_in and sys.stderr is not None and sys.stderr.isatty()


def _ask(question: str) -> bool:
    """Ask on stderr, and return whether the answer is yes. An empty answer means no."""
    close_live_line()
    sys.stdout.flush()
    answer = b""
    try:
        write_stderr(_wrap(f"{escape_for_screen(question)}? [y/N]") + " ")
        answer = read_line(sys.stdin.fileno())
    finally:
        # After Ctrl-C or Ctrl-D the cursor is still in the line of the question.
        if not answer.endswith(b"\n"):
            write_stderr("\n")
    return answer.decode("utf-8", "replace").strip().lower() in _YES


def _wrap(question: str) -> str:
    """Return a question with line breaks between words, so that it fits on the terminal."""
    width = terminal_width() - 1
    if len(question) <= width:
        return question
    return textwrap.fill(question, max(width, _NARROWEST_QUESTION), break_long_words=False, break_on_hyphens=False)
