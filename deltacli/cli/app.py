"""The frame of every run: exit codes, errors on stderr, signals, closed pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

import typer

from deltacli import __version__
from deltacli.cli import command_tree
from deltacli.cli.command_classes import ReaderGoneError
from deltacli.cli.command_group import make_root
from deltacli.cli.command_loading import load_command
from deltacli.cli.errors import report_error, wants_json, write_error_causes, write_error_document
from deltacli.cli.invocation import (
    ASK_FOR_HELP,
    ASK_FOR_VERSION,
    AT,
    Exit,
    give_up,
    help_as_option,
    invocation,
    is_bare,
    without_directories,
)
from deltacli.cli.parameter_types import takes_value
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.library_messages import mute_libraries
from deltacli.cli.terminal.signals import Interrupted, PagerQuitError, raise_on_signals
from deltacli.cli.terminal.stderr import close_live_line, write_message
from deltacli.cli.usage import report_usage
from deltacli.cli.vendored_click import UsageError as TyperUsageError
from deltacli.core import errors, tempfiles
from deltacli.core.memory import build_memory_error, choose_allocator, is_out_of_memory, require_minimum_memory
from deltacli.core.texts import require_word, summarize_names

_READER_GONE = 128 + 13  # SIGPIPE, which some systems do not name
_NEEDS_LITTLE = frozenset(
    {("completion",), ("fleet", "check"), ("fleet", "status"), ("history",), ("log", "cat"), ("spark", "package")}
    | {path for path in command_tree.WITHOUT_TABLE if path[:1] == ("share",) and len(path) == 3}
)
"""Commands that need no pyarrow: they read logs line by line, or no table at all."""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises nothing."""
    given, directories = without_directories(argv)
    arguments = command_tree.with_current_options(help_as_option(command_tree.move_shared_options(given)))
    invocation.begin(arguments, directories, is_bare=is_bare(given))
    if any("=" in word or "@" in word for word in arguments):
        from deltacli.cli.terminal.typed_secrets import register_typed_secrets

        register_typed_secrets(arguments)
    choose_allocator()
    try:
        with raise_on_signals(), mute_libraries(), errors.use_hint_syntax(errors.ShellSyntax()):
            try:
                return _run_in(directories, arguments)
            except Interrupted as interruption:
                interruption.unwind()  # waits for tasks in flight while the progress line still shows it
                tempfiles.remove_all()  # of what was interrupted between its creation and the `with` that removes it
                raise
            finally:
                close_live_line()
    except Interrupted as interruption:  # also a signal that arrives during cleanup
        _report_interruption(interruption, arguments)
        give_up(sys.stdout, 1)  # the reader of the pipe may have exited
        return interruption.exit_code


def _run_in(directories: Sequence[str], arguments: Sequence[str]) -> int:
    if not directories:
        return _run(arguments)
    with contextlib.ExitStack() as entered:
        with contextlib.suppress(OSError):  # a directory that is gone is not returned to
            entered.callback(_return_to, os.getcwd())
        for directory in directories:
            try:
                os.chdir(directory)
            except (OSError, ValueError) as fault:
                invocation.directories = ()
                reason = (getattr(fault, "strerror", None) or str(fault)).lower()
                report_error(errors.UsageError(f"{AT} {directory}: {reason}"), arguments, None)
                return errors.UsageError.exit_code
        return _run(arguments)


def _return_to(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.chdir(directory)


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every fault maps to one."""
    path = command_tree.path_of(arguments)
    try:
        if command_tree.is_command(path) and path not in _NEEDS_LITTLE and not set(arguments) & set(ASK_FOR_HELP):
            require_minimum_memory()
        if not path and arguments[-1] in ASK_FOR_HELP and not arguments[0].startswith("-"):
            from deltacli.cli.help.words import explain_word

            return explain_word(arguments[:-1], _run)
        if arguments[0] in ASK_FOR_VERSION and "=".join(arguments[1:]) in ("--json", "--format=json"):
            from deltacli.cli.version import write_version

            write_version()
            sys.stdout.flush()
            return 0
        if command_tree.is_command(path):
            for word in arguments[len(path) :]:
                require_word(word)
        code = _run_program(arguments)
        sys.stdout.flush()
        return code
    except TyperUsageError as error:
        report_usage(error, arguments)
        return error.exit_code
    except errors.DeltacliError as error:
        error = _of_memory(error) or error
        report_error(error, arguments, _table_of(arguments))
        return error.exit_code
    except Exit as ended:
        return ended.exit_code
    except PagerQuitError:
        return 0
    except (ReaderGoneError, BrokenPipeError, SystemExit):  # SystemExit: typer, when help meets a closed pipe
        give_up(sys.stdout, 1)
        return _READER_GONE
    except Exception as error:  # noqa: BLE001  (the only such place: unexpected errors need an exit code, too)
        return _report_unexpected(error, arguments)


def _run_program(arguments: Sequence[str]) -> int:
    """Let Typer parse the command line and run its command. Raises what the command raises, and usage errors."""
    program = make_root()
    try:
        with program.make_context("deltacli", [*arguments]) as context:
            program.invoke(context)
    except typer.Exit as ended:  # after help, or the version
        return ended.exit_code
    return 0


def _report_unexpected(error: Exception, arguments: Sequence[str]) -> int:
    if is_out_of_memory(error):
        report_error(build_memory_error(error), arguments, _table_of(arguments))
        return errors.MemoryExhausted.exit_code
    if not isinstance(error, OSError):
        _report_bug(error, arguments)
        return errors.EXIT_BUG
    try:
        os.getcwd()
    except OSError:
        gone = errors.Unreadable(
            "the current directory does not exist any more", code="table.path-missing", hint="cd /"
        )
        report_error(gone, arguments, None)
        return gone.exit_code
    # Stores translate their own OSErrors: this one comes from stdout or a temporary file.
    reason = (error.strerror or str(error)).lower()
    failure = errors.StorageFailed(f"the result cannot be written: {reason}", code="output.unwritable")
    report_error(failure, arguments, _table_of(arguments))
    give_up(sys.stdout, 1)
    return failure.exit_code


def _of_memory(error: errors.DeltacliError) -> errors.DeltacliError | None:
    """Return the MemoryError among the causes of a fault, or None: code that reads damaged files may wrap it."""
    cause = error.__cause__ if error.exit_code == errors.Unreadable.exit_code else None
    while cause is not None and not is_out_of_memory(cause):
        cause = cause.__cause__
    return None if cause is None else build_memory_error(cause)


def _report_interruption(interruption: Interrupted, arguments: Sequence[str]) -> None:
    if interruption.outcome == Interrupted.outcome:
        if invocation.is_reporting:
            interruption.outcome = "the change was probably made; run the same command again to see what is left"
        elif written := list(dict.fromkeys(name for name, is_there in invocation.outputs if is_there())):
            verb = "was" if len(written) == 1 else "were"
            interruption.outcome = f"{summarize_names(written, 3)} {verb} written completely"
    if not wants_json(arguments):
        write_message(escape_control(interruption.message))
        return
    details = {"signal": interruption.signal_name}
    table, message = _table_of(arguments), interruption.message
    write_error_document(
        code="interrupted", exit_code=interruption.exit_code, message=message, table=table, details=details
    )


def _report_bug(error: Exception, arguments: Sequence[str]) -> None:
    if wants_json(arguments):
        write_error_document(
            errors.DeltacliError.code, errors.EXIT_BUG, f"{type(error).__name__}: {error}", table=_table_of(arguments)
        )
    else:
        write_message(
            escape_control(f"error: this is a bug in deltacli {__version__}: {type(error).__name__}: {error}")
        )
    write_error_causes(error, arguments)
    if not wants_json(arguments):
        write_message("hint: run it again with -vv and report the traceback, with private names removed")


def _table_of(arguments: Sequence[str]) -> str | None:
    """Return the table as the user wrote it: the first argument of the command."""
    path = command_tree.path_of(arguments)
    if not command_tree.is_command(path) or path in command_tree.WITHOUT_TABLE:
        return None
    from deltacli.storage.secrets import mask_secrets

    command = load_command(path)
    options = [] if command is None else [option for option in command.params if takes_value(option)]
    table = command_tree.first_argument(arguments, {name for option in options for name in option.opts})
    if table is None and path in command_tree.TABLE_OR_HERE and "--list-rules" not in arguments:
        return command_tree.HERE
    return None if table is None else mask_secrets(table)
