"""The command tree, and the frame around every run: exit codes, errors on stderr, signals, closed pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from typer.core import TyperCommand, TyperGroup

from deltacli import __version__
from deltacli.cli.command_tree import (
    COMMANDS,
    EXITS,
    FINDINGS,
    GROUPS,
    WITHOUT_TABLE,
    Path,
    below,
    first_argument,
    is_command,
    move_shared_options,
    path_of,
    setting,
    with_current_options,
)
from deltacli.cli.errors import report_details, report_error, say_document, wants_json
from deltacli.cli.formats import AnyFormat
from deltacli.cli.invocation import ASK_FOR_HELP, help_as_option, invocation
from deltacli.cli.options.settling import ReaderGoneError, with_shared_options
from deltacli.cli.terminal.interrupts import Interrupted, signals_raise
from deltacli.cli.terminal.library_logs import libraries_muted
from deltacli.cli.terminal.streams import give_up
from deltacli.cli.terminal.term import PagerQuitError, close_live_line, say, visible
from deltacli.core.errors import (
    EXIT_BUG,
    EXIT_CODES,
    EXIT_FINDINGS,
    DeltacliError,
    MemoryExhausted,
    StorageFailed,
    Unreadable,
    UsageError,
)
from deltacli.core.hints import ShellSpelling, spelled
from deltacli.core.memory_limit import choose_allocator, exhausted_by, is_exhaustion, require_room
from deltacli.core.typing import Click
from deltacli.core.units import require_number, require_word

_READER_GONE = 128 + 13  # SIGPIPE, which some systems do not name
_NEEDS_LITTLE = frozenset(
    {("completion",), ("fleet", "check"), ("fleet", "status"), ("history",), ("log", "cat"), ("spark", "package")}
    | {path for path in WITHOUT_TABLE if path[:1] == ("share",) and len(path) == 3}
)
"""Commands that need no pyarrow: they read logs line by line, or no table at all."""
_CONTEXT = {"help_option_names": list(ASK_FOR_HELP)}

_HELP = """Inspect, check and maintain Delta and Paimon tables, without a JVM.

\b
Examples:
  deltacli history ./tbl                # show who changed it, when and how
  deltacli snapshot ./tbl               # show its current state
  deltacli snapshot ./tbl --version 3   # show its state at version 3
  deltacli read ./tbl --limit 5         # read five of its rows
  deltacli changes ./tbl --from 3       # show row changes since version 3
  deltacli checkpoint ./tbl             # write a checkpoint of its log
  deltacli vacuum ./tbl --dry-run       # list files that can be deleted
  deltacli restore ./tbl --version 3    # go back to version 3
  deltacli validate ./tbl               # check it against the protocol
  deltacli log cat ./tbl 3              # print the actions of version 3
"""


class _Command(TyperCommand):
    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        for word in args:
            require_word(word)
        _require_values(self.params, args)
        left = super().parse_args(ctx, args)
        for option in self.params:
            if type(value := ctx.params.get(option.name)) is int:
                require_number(value, option.opts[-1])
        return left

    def get_help(self, ctx: Click) -> str:
        from deltacli.cli.help_page import command_page, fold

        return fold(command_page(self, ctx))


def _require_values(options: Sequence[Click], arguments: Sequence[str]) -> None:
    """Raise UsageError for an option without its value, also where the parser would take the next option for it."""
    valued = {name: option for option in options if _takes_value(option) for name in option.opts}
    words = iter(arguments)
    for word in words:
        if word == "--":
            return
        following = next(words, None) if word in valued else "VALUE"
        is_option = (
            following is not None and following[:1] == "-" and (following[1:2] == "-" or following[1:].isalpha())
        )
        if following is None or is_option:
            from deltacli.cli.usage import value_missing

            raise value_missing(valued[word], word, following)


def _takes_value(option: Click) -> bool:
    return option.param_type_name == "option" and not (option.is_flag or option.count)


class _Group(TyperGroup):
    def get_help(self, ctx: Click) -> str:
        from deltacli.cli.help_page import fold, group_page

        return fold(group_page(self, ctx))


def build_app(at: Path | None = None) -> typer.Typer:
    """Build the whole command tree, or only one place and what is below it, which avoids importing the rest.

    At the root these are the commands; of groups only their help is imported.
    """
    app = _make_group(
        "deltacli",
        _HELP,
        "",
    )
    app.callback()(_root)
    groups: dict[Path, typer.Typer] = {(): app}
    for name, text in GROUPS.items():
        *outer, last = name.split()
        group = _make_group(last, text, f"Help on a command: deltacli {name} COMMAND --help.")
        groups[tuple(outer)].add_typer(group)
        groups[*outer, last] = group
    for name in below(at or ()):
        *above, last = name.split()
        if above and at == ():
            continue
        module = import_module(COMMANDS[name])
        command = with_shared_options(
            getattr(module, name.replace(" ", "_").replace("-", "_")),
            setting(module, "FORMATS", name, AnyFormat),
            runs_on_cluster=setting(module, "RUNS_ON_CLUSTER", name, default=False),
            names_choose=setting(module, "NAMES_CHOOSE", name, default=True),
        )
        group, ending = groups[tuple(above)], _exits(name, setting(module, "EXIT_CODES", name))
        group.command(last, cls=_Command, epilog=ending, context_settings=_CONTEXT)(command)
    return app


def _make_group(name: str, text: str, epilog: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=_Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=_CONTEXT,
        help=text,
        epilog=epilog,
    )


def _exits(name: str, codes: Sequence[int]) -> str:
    """Return the exit codes of a command, one per line, for the end of its help."""
    meanings = dict(EXIT_CODES)
    for code, of_commands in EXITS.items():
        if name in of_commands:
            general = EXIT_CODES[code].partition(":")[0].partition(",")[0]
            meanings[code] = f"{general}: {of_commands[name]}"
    own = (code for code in codes if code != EXIT_FINDINGS or name in FINDINGS)
    return "\b\nExit codes:\n" + "\n".join(f"  {code:<3} {meanings[code]}" for code in own)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(f"deltacli {__version__}\n")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(
        False, "-V", "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
    ),
) -> None:
    pass


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises nothing."""
    arguments = with_current_options(help_as_option(move_shared_options(argv)))
    invocation.begin(arguments)
    if any("=" in word or "@" in word for word in arguments):
        from deltacli.cli.typed_secrets import remember_words

        remember_words(arguments)
    choose_allocator()
    try:
        with signals_raise(), libraries_muted(), spelled(ShellSpelling()):
            try:
                return _run(arguments)
            except Interrupted as interruption:
                interruption.unwind()  # waits for tasks in flight while the progress line still shows it
                raise
            finally:
                close_live_line()
    except Interrupted as interruption:  # also a signal that arrives during cleanup
        _report_interruption(interruption, arguments)
        give_up(sys.stdout, 1)  # the reader of the pipe may have exited
        return interruption.exit_code


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every fault maps to one."""
    path = path_of(arguments)
    asks_for_help = set(arguments) <= set(ASK_FOR_HELP)
    try:
        if is_command(path) and path not in _NEEDS_LITTLE and not set(arguments) & set(ASK_FOR_HELP):
            require_room()
        if not path and arguments[-1] in ASK_FOR_HELP and not arguments[0].startswith("-"):
            from deltacli.cli.help_topics import explain_word

            return explain_word(arguments[:-1], _run)
        outcome = build_app(path if path or asks_for_help else None)(
            arguments, standalone_mode=False, prog_name="deltacli"
        )
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except DeltacliError as error:
        error = _of_memory(error) or error
        report_error(error, arguments, _table_of(arguments))
        return error.exit_code
    except typer.TyperException as error:
        if len(path) == len(arguments) and not is_command(path):  # a bare group
            say(str(error))
            return UsageError.exit_code
        from deltacli.cli.usage import report_usage

        report_usage(error, arguments)
        return UsageError.exit_code
    except PagerQuitError:
        return 0
    except (ReaderGoneError, BrokenPipeError, SystemExit):  # SystemExit: typer, when help meets a closed pipe
        give_up(sys.stdout, 1)
        return _READER_GONE
    except Exception as error:  # noqa: BLE001  (the only such place: unexpected errors need an exit code, too)
        return _report_unexpected(error, arguments)


def _report_unexpected(error: Exception, arguments: Sequence[str]) -> int:
    """Report an exception that is not a DeltacliError, and return its exit code."""
    if is_exhaustion(error):
        report_error(exhausted_by(error), arguments, _table_of(arguments))
        return MemoryExhausted.exit_code
    if not isinstance(error, OSError):
        _report_bug(error, arguments)
        return EXIT_BUG
    # Stores translate their own OSErrors: this one comes from stdout or a temporary file.
    reason = (error.strerror or str(error)).lower()
    failure = StorageFailed(f"the result cannot be written: {reason}", code="output.unwritable")
    report_error(failure, arguments, _table_of(arguments))
    give_up(sys.stdout, 1)
    return failure.exit_code


def _of_memory(error: DeltacliError) -> DeltacliError | None:
    """Return the MemoryError among the causes of a fault, or None.

    Code that takes errors of a library for damaged files may have wrapped one.
    """
    cause = error.__cause__ if error.exit_code == Unreadable.exit_code else None
    while cause is not None and not is_exhaustion(cause):
        cause = cause.__cause__
    return None if cause is None else exhausted_by(cause)


def _report_interruption(interruption: Interrupted, arguments: Sequence[str]) -> None:
    """Report on one line that the run was interrupted and what it did."""
    if invocation.is_reporting and interruption.outcome == Interrupted.outcome:
        interruption.outcome = "the change was probably made; run the same command again to see what is left"
    if not wants_json(arguments):
        say(interruption.message)
        return
    details = {"signal": interruption.signal_name}
    table, message = _table_of(arguments), interruption.message
    say_document(code="interrupted", exit_code=interruption.exit_code, message=message, table=table, details=details)


def _report_bug(error: Exception, arguments: Sequence[str]) -> None:
    if wants_json(arguments):
        say_document(DeltacliError.code, EXIT_BUG, f"{type(error).__name__}: {error}", table=_table_of(arguments))
    else:
        say(visible(f"error: this is a bug in deltacli {__version__}: {type(error).__name__}: {error}"))
    report_details(error, arguments)
    if not wants_json(arguments):
        say("hint: run it again with -vv and report the traceback, with private names removed")


def _table_of(arguments: Sequence[str]) -> str | None:
    """Return the table as the user wrote it: the first argument of the command."""
    path = path_of(arguments)
    if not is_command(path) or path in WITHOUT_TABLE:
        return None
    from deltacli.storage.secrets import without_secrets

    table = first_argument(arguments, _valued_options(path))
    return None if table is None else without_secrets(table)


def _valued_options(path: Path) -> set[str]:
    """Return the spellings of a command's options that take a value."""
    command: Click = typer.main.get_command(build_app(path))
    for word in path:
        command = command.commands[word]
    return {name for option in command.params if _takes_value(option) for name in option.opts}
