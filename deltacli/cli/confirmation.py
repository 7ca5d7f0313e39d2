"""Consent: nothing that changes a table is done unless somebody said yes, by an option or at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable

from deltacli.cli.invocation import invocation
from deltacli.cli.options.shared import Run
from deltacli.cli.terminal.shell import again_with
from deltacli.cli.terminal.term import close_live_line, for_screen, write_stderr
from deltacli.cli.terminal.waiting import read_line
from deltacli.clock import system_clock
from deltacli.errors import Refused
from deltacli.units import format_timestamp

_YES = ("y", "yes")
_AHEAD_MS = 60_000


def require_confirmation(run: Run, what: str, *, yes: bool, show_plan: Callable[[], None]) -> None:
    """Return where `what` may be done; raise Refused, with the words to add, where nobody said so.

    `what` names the change with its numbers: `delete 63 files (3.2 GiB)`. `show_plan` writes the plan to stdout. It is
    called unless the answer is known, or a document follows that says the same: then the prompt's numbers are enough.
    """
    if yes:
        return
    if not _can_ask():
        show_plan()
        raise Refused(
            f"nothing was changed: this would {what}, and nobody said yes",
            code="consent.missing",
            hint=again_with(invocation.arguments, "--yes"),
        )
    is_for_eyes = run.format.is_for_eyes and run.output is None
    if is_for_eyes:
        show_plan()
    if not _ask(what):
        if not is_for_eyes:
            show_plan()
        raise Refused("nothing was changed: the answer was no", code="consent.denied")


def require_now_is_not_ahead(run: Run) -> None:
    """Raise Refused where `--now` is later than the clock of this machine: by it what is young counts as old, and goes.
    Without consequences such a time shows what will be.
    """
    now_ms, true_ms = run.clock(), system_clock()
    if now_ms > true_ms + _AHEAD_MS:
        raise Refused(
            f"nothing was changed: --now {format_timestamp(now_ms)} is later than the clock, and files that look old "
            "by it may be new",
            code="clock.ahead",
            facts={"clock": format_timestamp(true_ms)},
            hint="leave --now out, or look at the plan with --dry-run",
        )


def _can_ask() -> bool:
    """True where somebody reads the question and can answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _ask(what: str) -> bool:
    """Ask on stderr; no answer means no."""
    close_live_line()
    sys.stdout.flush()
    write_stderr(f"{for_screen(what)}? [y/N] ")
    answer = read_line(sys.stdin.fileno()).decode("utf-8", "replace")
    return answer.strip().lower() in _YES
