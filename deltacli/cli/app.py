"""The command tree, and the frame around every run: exit codes, errors on stderr, signals, closed pipes."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module

import typer

from deltacli import __version__
from deltacli.cli.errors import report_details, report_error, wants_json
from deltacli.cli.interrupts import Interrupted, signals_raise
from deltacli.cli.options import TAKES_VALUE, CommonFormat, ReaderGoneError, invocation, with_shared_options
from deltacli.cli.output import PagerQuitError
from deltacli.cli.render.json import dumps
from deltacli.cli.streams import give_up
from deltacli.cli.term import close_live_line, say, visible
from deltacli.errors import EXIT_BUG, EXIT_CODES, DeltacliError, StorageFailed

_WIDTH = 80
_READER_GONE = 128 + 13  # SIGPIPE, which some systems do not name
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH, "terminal_width": _WIDTH}

_HELP = """Administer Delta Lake table directories, without a JVM.

\b
Examples:
  deltacli history ./tbl                who changed it, when, how
  deltacli snapshot ./tbl               its state now
  deltacli snapshot ./tbl --version 3   its state then
  deltacli checkpoint ./tbl             so that readers replay less
  deltacli validate ./tbl               what is wrong with it
"""

COMMANDS: Mapping[str, str] = {
    "history": "deltacli.cli.commands.history",
    "snapshot": "deltacli.cli.commands.snapshot",
    "checkpoint": "deltacli.cli.commands.checkpoint",
    "validate": "deltacli.cli.commands.validate",
}
"""Command -> the module that holds a function of that name, EXIT_CODES, and FORMATS where they are its own.

Only the module of the command at hand is imported.
"""


def build_app(only: str | None = None) -> typer.Typer:
    """Build the command tree: all of it, or one command (the others cost their import)."""
    app = typer.Typer(
        name="deltacli",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=_CONTEXT,
        help=_HELP,
        epilog="Every command explains itself: deltacli COMMAND --help.",
    )
    app.callback()(_root)
    for name, home in COMMANDS.items():
        if only in (None, name):
            module = import_module(home)
            app.command(name, epilog=_exits(module.EXIT_CODES), context_settings=_CONTEXT)(
                with_shared_options(getattr(module, name), getattr(module, "FORMATS", CommonFormat))
            )
    return app


def _exits(codes: Sequence[int]) -> str:
    lines = (
        textwrap.fill(EXIT_CODES[code], 76, initial_indent=f"  {code:<3} ", subsequent_indent=" " * 6) for code in codes
    )
    return "\b\nExit codes:\n" + "\n".join(lines)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(f"deltacli {__version__}\n")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(
        False, "-V", "--version", help="Print the version and leave.", is_eager=True, callback=_print_version
    ),
) -> None:
    pass


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but exit codes and text leaves here."""
    arguments = move_shared_options(argv)
    invocation.begin(arguments)
    if sys.platform == "linux":
        # Measured on a checkpoint of a million adds: 96 MB at the peak against 150 MB with the default pool, at equal
        # speed.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    try:
        with signals_raise():
            try:
                return _run(arguments, is_bare=not argv)
            except Interrupted as interruption:
                interruption.unwind()  # waits for the pieces in flight, while the line still says so
                raise
            finally:
                close_live_line()
    except Interrupted as interruption:  # also one that comes while the run is being left
        _report_interruption(interruption, arguments)
        give_up(sys.stdout, 1)  # whoever reads it may have stopped
        return interruption.exit_code


def _run(arguments: Sequence[str], *, is_bare: bool) -> int:
    """Run one command and return its exit code; every fault has one."""
    try:
        outcome = build_app(arguments[0] if arguments and arguments[0] in COMMANDS else None)(
            arguments, standalone_mode=False, prog_name="deltacli"
        )
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except DeltacliError as error:
        report_error(error, arguments, _table_of(arguments))
        return error.exit_code
    except typer.TyperException as error:
        if is_bare:
            say(str(error))
            return 2
        report_usage(error, arguments)
        return 2
    except PagerQuitError:
        return 0
    except (ReaderGoneError, BrokenPipeError, SystemExit):  # typer leaves so when nobody reads the help
        give_up(sys.stdout, 1)
        return _READER_GONE
    except OSError as error:  # stores translate theirs: what arrives here is stdout or a temporary file
        failure = StorageFailed(
            f"the result can't be written: {(error.strerror or str(error)).lower()}", code="output.unwritable"
        )
        report_error(failure, arguments, _table_of(arguments))
        give_up(sys.stdout, 1)
        return failure.exit_code
    except Exception as error:  # noqa: BLE001  (the one place: a bug becomes exit 70)
        _report_bug(error, arguments)
        return EXIT_BUG


def move_shared_options(argv: Sequence[str]) -> list[str]:
    """Move shared options that stand before the command behind it: they are accepted in both places."""
    before: list[str] = []
    position = 0
    while position < len(argv) and argv[position] not in COMMANDS:
        word = argv[position]
        name = word.split("=", 1)[0]
        if name not in TAKES_VALUE:
            return list(argv)
        taken = 2 if TAKES_VALUE[name] and "=" not in word else 1
        before += argv[position : position + taken]
        position += taken
    if position >= len(argv):
        return list(argv)
    return [argv[position], *before, *argv[position + 1 :]]


def _report_interruption(interruption: Interrupted, arguments: Sequence[str]) -> None:
    """Say in one line what became of the run."""
    if not wants_json(arguments):
        say(interruption.message)
        return
    document = {
        "type": "error",
        "code": "interrupted",
        "exit": interruption.exit_code,
        "message": interruption.message,
        "table": _table_of(arguments),
        "details": {"signal": interruption.signal_name},
        "hint": None,
    }
    say(dumps(document).decode())


def report_usage(error: Exception, arguments: Sequence[str]) -> None:
    """Write a fault of the command line the way every other error is written."""
    message = str(getattr(error, "format_message", lambda: str(error))()).rstrip(".")
    message = message[:1].lower() + message[1:] if message[1:2].islower() else message
    command = next((word for word in arguments if word in COMMANDS), "")
    hint = f"deltacli {command} --help".replace("  ", " ")
    if wants_json(arguments):
        document = {
            "type": "error",
            "code": "usage",
            "exit": 2,
            "message": message,
            "table": None,
            "details": {},
            "hint": hint,
        }
        say(dumps(document).decode())
    else:
        say(visible(f"error: {message}"))
        say(f"hint: {hint}")


def _report_bug(error: Exception, arguments: Sequence[str]) -> None:
    if wants_json(arguments):
        document = {
            "type": "error",
            "code": "bug",
            "exit": EXIT_BUG,
            "message": f"{type(error).__name__}: {error}",
            "table": _table_of(arguments),
            "details": {},
            "hint": None,
        }
        say(dumps(document).decode())
    else:
        say(f"error: this is a bug in deltacli {__version__}: {type(error).__name__}: {error}")
        say("hint: run it again with -vv and report the traceback, with the names in it made anonymous")
    report_details(error, arguments)


def _table_of(arguments: Sequence[str]) -> str | None:
    """The table as the user wrote it: the first word behind the command that is neither an option nor an option's
    value.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return None
    valued = {name for name, takes in TAKES_VALUE.items() if takes} | {
        "--version",
        "--timestamp",
        "--limit",
        "--columns",
        "--level",
        "--select",
        "--ignore",
        "--fail-on",
        "--baseline",
        "--write-baseline",
        "--profile",
        "--max-findings",
        "--layout",
        "--parts",
        "--rows-per-file",
        "--v2-top",
        "--stats",
        "--if-behind",
    }
    from deltacli.storage.secrets import without_secrets

    skip = False
    for word in arguments[1:]:
        if skip:
            skip = False
        elif word in valued:
            skip = True
        elif not word.startswith("-"):
            return without_secrets(word)
    return None
