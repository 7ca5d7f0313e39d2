"""Confirmation: a table is changed only after the user agreed, by an option or at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again_with
from deltacli.cli.terminal.term import close_live_line, columns, for_screen, write_stderr
from deltacli.cli.terminal.waiting import read_line
from deltacli.core.clock import system_clock
from deltacli.core.errors import NOTHING_CHANGED, Refused
from deltacli.core.units import format_timestamp

_YES = ("y", "yes")
_AHEAD_MS = 60_000


def require_confirmation(
    run: Run, what: str, *, yes: bool, show_plan: Callable[[], None], facts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Return if the user confirms `what`; raise Refused, with the option to add and `facts`, otherwise.

    `what` names the change with its numbers: `delete 63 files (3.2 GiB)`. `show_plan` writes the plan to stdout. It is
    not called where the answer is known, or where a document with the same content follows.
    """
    if yes:
        invocation.has_agreed = True
        return
    if not _can_ask():
        show_plan()
        raise Refused(
            f"confirmation is required to {what}",
            said_first=NOTHING_CHANGED,
            code="consent.missing",
            facts=dict(facts),
            hint=again_with(invocation.arguments, "--yes"),
        )
    is_for_eyes = run.format.is_for_eyes and run.output is None
    if is_for_eyes:
        show_plan()
    if not _ask(what):
        if not is_for_eyes:
            show_plan()
        raise Refused("cancelled; nothing was changed", code="consent.denied")
    invocation.has_agreed = True
    run.confirm()


def confirmed(run: Run, what: str, show_plan: Callable[[], None], *, dry_run: bool, yes: bool) -> bool:
    """Return whether to make the change: False for a dry run, which only notes it and shows the plan. Raises Refused
    without confirmation.
    """
    if dry_run:
        run.note(f"note: would {what}")
        show_plan()
    else:
        require_confirmation(run, what, yes=yes, show_plan=show_plan)
    return not dry_run


def now_is_ahead(run: Run) -> bool:
    """Return True where `--now` is later than the clock of this machine: only a dry run may use it."""
    return run.clock() > system_clock() + _AHEAD_MS


def require_now_is_not_ahead(run: Run) -> None:
    """Raise Refused where `--now` is later than the clock of this machine, which would delete files as too old.

    A dry run may use such a time to show what a later run will do.
    """
    now_ms, true_ms = run.clock(), system_clock()
    if now_is_ahead(run):
        raise Refused(
            f"--now {format_timestamp(now_ms)} is later than the clock, so recent files would count as old",
            said_first=NOTHING_CHANGED,
            code="clock.ahead",
            facts={"clock": format_timestamp(true_ms)},
            hint="omit --now, or show the plan with --dry-run",
        )


def _can_ask() -> bool:
    """Return True if stdin and stderr are a terminal, so that a question can be answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _ask(what: str) -> bool:
    """Ask on stderr, wrapped between words; an empty answer means no."""
    close_live_line()
    sys.stdout.flush()
    answer = b""
    try:
        write_stderr(_wrapped(f"{for_screen(what)}? [y/N]") + " ")
        answer = read_line(sys.stdin.fileno())
    finally:
        if not answer.endswith(b"\n"):  # Ctrl-C or Ctrl-D
            write_stderr("\n")
    return answer.decode("utf-8", "replace").strip().lower() in _YES


def _wrapped(question: str) -> str:
    width = columns() - 1
    if len(question) <= width:
        return question
    import textwrap

    return textwrap.fill(question, max(width, 20), break_long_words=False, break_on_hyphens=False)
