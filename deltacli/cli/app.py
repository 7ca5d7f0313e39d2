"""Run a command line: parse it, run the command, and turn every outcome into an exit code and an error on stderr."""

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
    convert_help_command,
    invocation,
    is_bare,
    split_directories,
)
from deltacli.cli.parameter_types import takes_value
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.library_messages import mute_libraries
from deltacli.cli.terminal.signals import Interrupted, PagerQuitError, raise_on_signals
from deltacli.cli.terminal.standard_streams import discard_output
from deltacli.cli.terminal.stderr import close_live_line, write_message
from deltacli.cli.usage import report_usage
from deltacli.cli.vendored_click import UsageError as TyperUsageError
from deltacli.core import errors, tempfiles
from deltacli.core.memory import build_memory_error, choose_allocator, is_out_of_memory, require_minimum_memory
from deltacli.core.texts import require_word, summarize_names

_EXIT_BROKEN_PIPE = 128 + 13
"""The exit code of a shell for SIGPIPE. Its number is not named on all systems."""
_COMMANDS_WITHOUT_PYARROW = frozenset(
    {("completion",), ("fleet", "check"), ("fleet", "status"), ("history",), ("log", "cat"), ("spark", "package")}
    | {path for path in command_tree.WITHOUT_TABLE if path[:1] == ("share",) and len(path) == 3}
)
"""Commands that need little memory: they read logs line by line, or no table at all."""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises nothing.

    Args:
        argv: The words of the command line, without the name of the program.
    """
    words, directories = split_directories(argv)
    arguments = command_tree.replace_former_options(convert_help_command(command_tree.move_shared_options(words)))
    invocation.begin(arguments, directories, is_bare=is_bare(words))
    if any("=" in word or "@" in word for word in arguments):
        # Options such as `--storage-option password=…` may contain secrets, which messages must not repeat.
        from deltacli.cli.terminal.typed_secrets import register_typed_secrets

        register_typed_secrets(arguments)
    choose_allocator()

    # The outer `except` also catches a signal that arrives during the cleanup.
    try:
        with raise_on_signals(), mute_libraries(), errors.use_hint_syntax(errors.ShellSyntax()):
            try:
                return _run_in_directories(directories, arguments)
            except Interrupted as interruption:
                # Waits for running tasks, while the progress line still shows that they are running.
                interruption.unwind()
                # Remove files that were interrupted between their creation and the `with` that removes them.
                tempfiles.remove_all()
                raise
            finally:
                close_live_line()
    except Interrupted as interruption:
        _report_interruption(interruption, arguments)
        # The signal may have ended the reader of the pipe as well.
        discard_output(sys.stdout, 1)
        return interruption.exit_code


def _run_in_directories(directories: Sequence[str], arguments: Sequence[str]) -> int:
    """Run a command in the directory of `-C`, and return to the current directory."""
    if not directories:
        return _run(arguments)
    with contextlib.ExitStack() as stack:
        # If the current directory was deleted, there is nothing to return to.
        with contextlib.suppress(OSError):
            stack.callback(_change_directory, os.getcwd())
        for directory in directories:
            try:
                os.chdir(directory)
            except (OSError, ValueError) as error:
                invocation.directories = ()
                reason = (getattr(error, "strerror", None) or str(error)).lower()
                report_error(errors.UsageError(f"{AT} {directory}: {reason}"), arguments, None)
                return errors.UsageError.exit_code
        return _run(arguments)


def _change_directory(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.chdir(directory)


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Every error is reported and has an exit code."""
    try:
        exit_code = _run_help_version_or_command(arguments)
        sys.stdout.flush()
        return exit_code
    except TyperUsageError as error:
        report_usage(error, arguments)
        return error.exit_code
    except errors.DeltacliError as error:
        error = _find_memory_error(error) or error
        report_error(error, arguments, _find_table(arguments))
        return error.exit_code
    except Exit as exit_request:
        return exit_request.exit_code
    except PagerQuitError:
        return 0
    except (ReaderGoneError, BrokenPipeError, SystemExit):
        # Typer exits if it cannot write help to a closed pipe.
        discard_output(sys.stdout, 1)
        return _EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  (the only such place: unexpected errors need an exit code, too)
        return _report_unexpected_error(error, arguments)


def _run_help_version_or_command(arguments: Sequence[str]) -> int:
    """Run a command line that may ask for help on a word or for the version. Raises what the command raises."""
    path = command_tree.get_command_path(arguments)
    is_command = command_tree.is_command(path)
    asks_for_help = not set(arguments).isdisjoint(ASK_FOR_HELP)
    if is_command and path not in _COMMANDS_WITHOUT_PYARROW and not asks_for_help:
        require_minimum_memory()

    if not path and arguments[-1] in ASK_FOR_HELP and not arguments[0].startswith("-"):
        from deltacli.cli.help.words import explain_word

        return explain_word(arguments[:-1], _run)
    if arguments[0] in ASK_FOR_VERSION and "=".join(arguments[1:]) in ("--json", "--format=json"):
        from deltacli.cli.version import write_version

        write_version()
        return 0

    if is_command:
        for word in arguments[len(path) :]:
            require_word(word)
    return _run_program(arguments)


def _run_program(arguments: Sequence[str]) -> int:
    """Let Typer parse the command line and run its command. Raises what the command raises, and usage errors."""
    program = make_root()
    try:
        with program.make_context("deltacli", [*arguments]) as context:
            program.invoke(context)
    except typer.Exit as exit_request:
        # Typer has written help or the version.
        return exit_request.exit_code
    return 0


def _report_unexpected_error(error: Exception, arguments: Sequence[str]) -> int:
    """Report an error that no command expects: too little memory, a deleted directory, a full disk, or a bug."""
    if is_out_of_memory(error):
        report_error(build_memory_error(error), arguments, _find_table(arguments))
        return errors.MemoryExhausted.exit_code
    if not isinstance(error, OSError):
        _report_bug(error, arguments)
        return errors.EXIT_BUG
    try:
        os.getcwd()
    except OSError:
        missing_directory = errors.Unreadable(
            "the current directory does not exist any more", code="table.path-missing", hint="cd /"
        )
        report_error(missing_directory, arguments, None)
        return missing_directory.exit_code

    # Stores convert their OSErrors, so this one is about stdout or a temporary file.
    reason = (error.strerror or str(error)).lower()
    failure = errors.StorageFailed(f"the result cannot be written: {reason}", code="output.unwritable")
    report_error(failure, arguments, _find_table(arguments))
    discard_output(sys.stdout, 1)
    return failure.exit_code


def _find_memory_error(error: errors.DeltacliError) -> errors.DeltacliError | None:
    """Return the error for too little memory, if that is the cause of an error about unreadable data.

    Code that reads damaged files may wrap a MemoryError like any other error of the parser.
    """
    if error.exit_code != errors.Unreadable.exit_code:
        return None
    cause = error.__cause__
    while cause is not None and not is_out_of_memory(cause):
        cause = cause.__cause__
    return None if cause is None else build_memory_error(cause)


def _report_interruption(interruption: Interrupted, arguments: Sequence[str]) -> None:
    """Report a signal, and what the run had done before it."""
    if interruption.outcome == Interrupted.outcome:
        complete_outputs = list(dict.fromkeys(name for name, is_complete in invocation.outputs if is_complete()))
        if invocation.is_reporting:
            interruption.outcome = "the change was probably made; run the same command again to see what is left"
        elif complete_outputs:
            verb = "was" if len(complete_outputs) == 1 else "were"
            interruption.outcome = f"{summarize_names(complete_outputs, 3)} {verb} written completely"

    if not wants_json(arguments):
        write_message(escape_control(interruption.message))
        return
    write_error_document(
        code="interrupted",
        exit_code=interruption.exit_code,
        message=interruption.message,
        table=_find_table(arguments),
        details={"signal": interruption.signal_name},
    )


def _report_bug(error: Exception, arguments: Sequence[str]) -> None:
    """Report an error that should not have occurred, with the request to report it."""
    description = f"{type(error).__name__}: {error}"
    if wants_json(arguments):
        write_error_document(errors.DeltacliError.code, errors.EXIT_BUG, description, table=_find_table(arguments))
        write_error_causes(error, arguments)
        return
    write_message(escape_control(f"error: this is a bug in deltacli {__version__}: {description}"))
    write_error_causes(error, arguments)
    write_message("hint: run it again with -vv and report the traceback, with private names removed")


def _find_table(arguments: Sequence[str]) -> str | None:
    """Return the table as the user typed it, without secrets. None for a command without a table."""
    path = command_tree.get_command_path(arguments)
    if not command_tree.is_command(path) or path in command_tree.WITHOUT_TABLE:
        return None
    from deltacli.storage.secrets import mask_secrets

    command = load_command(path)
    options = [] if command is None else [option for option in command.params if takes_value(option)]
    option_names = {name for option in options for name in option.opts}
    table = command_tree.find_first_argument(arguments, option_names)
    if table is not None:
        return mask_secrets(table)
    if path in command_tree.TABLE_OR_HERE and "--list-rules" not in arguments:
        return command_tree.HERE
    return None
