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
"""How far `--now` may be ahead of the clock. Scripts compute it a moment before the command starts."""
_NARROWEST_QUESTION = 20


def confirm_change(
    run: CommandContext,
    what: str,
    show_plan: Callable[[], None],
    *,
    yes: bool,
    dry_run: bool = False,
    facts: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Return True if the user agrees to a change, and False for a dry run, which only says what it would do.

    Args:
        run: The run of the command.
        what: The change with its numbers, as in `delete 63 files (3.2 GiB)`.
        show_plan: Writes the plan to stdout. It is not called where the answer is known before, or where a document
            with the same content follows.
        yes: True if the user agreed on the command line.
        dry_run: True to change nothing.
        facts: What the refusal names if nobody can be asked.

    Raises:
        Refused: If the answer is no, or nobody can be asked. It then names the option to add.
    """
    what = invocation.with_catalog_names(what)
    if dry_run:
        run.note(f"note: would {what}")
        show_plan()
        return False
    if yes:
        invocation.has_agreed = True
        return True
    if not _can_ask():
        show_plan()
        raise Refused(
            f"confirmation is required to {what}",
            preamble=NOTHING_CHANGED,
            code="consent.missing",
            facts=dict(facts),
            hint=repeat_command_with(invocation.arguments, "--yes"),
        )

    # A plan for programs, or one in a file, is no help for who is asked. It is written only if it is the result.
    is_read_before_answer = run.format.is_for_people and run.output is None
    if is_read_before_answer:
        show_plan()
    if not _ask(what):
        if not is_read_before_answer:
            show_plan()
        raise Refused("cancelled; nothing was changed", code="consent.denied")
    invocation.has_agreed = True
    run.confirm()
    return True


def is_clock_ahead(run: CommandContext) -> bool:
    """Return True if `--now` is later than the clock of this machine. Only a dry run may use such a time."""
    return run.clock() > system_clock() + _TOLERANCE_MS


def require_clock_not_ahead(run: CommandContext, plan: str = "--dry-run") -> None:
    """Require that `--now` is not later than the clock of this machine: files would be deleted as too old.

    A dry run may use such a time, to show what a later run will do.

    Args:
        run: The run of the command.
        plan: The option or command that shows what would be done.

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


def _ask(what: str) -> bool:
    """Ask on stderr, and return the answer. An empty one means no."""
    close_live_line()
    sys.stdout.flush()
    answer = b""
    try:
        write_stderr(_wrap(f"{escape_for_screen(what)}? [y/N]") + " ")
        answer = read_line(sys.stdin.fileno())
    finally:
        # After Ctrl-C or Ctrl-D the cursor is still in the line of the question.
        if not answer.endswith(b"\n"):
            write_stderr("\n")
    return answer.decode("utf-8", "replace").strip().lower() in _YES


def _wrap(question: str) -> str:
    """Return a question with lines that fit on the terminal, broken between words."""
    width = terminal_width() - 1
    if len(question) <= width:
        return question
    return textwrap.fill(question, max(width, _NARROWEST_QUESTION), break_long_words=False, break_on_hyphens=False)
