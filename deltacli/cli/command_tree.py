"""Find the command in the words of a command line, and bring shared options into their normal order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.invocation import ASK_FOR_HELP, ASK_FOR_VERSION
from deltacli.cli.parameter_types import takes_value
from deltacli.cli.shared_options import declare_output, declare_settings, read_parameters

Path = tuple[str, ...]
"""The words of a command or a group, such as `("log", "cat")`. The path of the program is empty."""

TAKES_VALUE: Mapping[str, bool] = {
    "-vv": False,
    **{
        name: takes_value(option)
        for option in (*read_parameters(declare_output), *read_parameters(declare_settings))
        for name in option.opts
    },
}
"""Shared options, which are also accepted before the command, and whether each takes a value."""

FORMER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "log expire": {"--keep-versions": "--keep-version"},
    "share head": {"--rows": "--limit"},
}
"""Maps a command to the former names of its options, and those to the current names. Help shows the latter only."""

_PATHS = tuple(tuple(name.split()) for name in COMMANDS)

_SHARE_COMMANDS_WITH_TABLE = frozenset(
    {("share", "changes"), ("share", "head"), ("share", "pull"), ("share", "schema")}
)
WITHOUT_TABLE = frozenset(
    {
        ("catalog", "ls"),
        ("completion",),
        ("spark", "package"),
        *(path for path in _PATHS if path[0] in ("fleet", "share")),
    }
    - _SHARE_COMMANDS_WITH_TABLE
    - {("fleet", "init"), ("share", "init")}
)
"""Commands whose first argument is neither a table nor a directory of tables."""

HERE = "."
"""The default table of the commands in `TABLE_OR_HERE`: the current directory."""
TABLE_OR_HERE = frozenset(
    {("doctor", "table"), *((name,) for name in ("explain", "history", "reach", "snapshot", "validate"))}
)
"""Commands whose argument TABLE may be omitted. None of them changes a table."""


def is_command(path: Path) -> bool:
    """Return whether a path is that of a command, as opposed to a group."""
    return path in _PATHS


def is_path_prefix(path: Path) -> bool:
    """Return whether a path is that of a command or a group, or the program itself."""
    return any(command_path[: len(path)] == path for command_path in _PATHS)


def list_commands_below(path: Path) -> list[str]:
    """Return the names of the commands at and below a path, such as `log backup` and `log cat` for `("log",)`."""
    return [name for name, command_path in zip(COMMANDS, _PATHS, strict=True) if command_path[: len(path)] == path]


def get_command_path(arguments: Sequence[str]) -> Path:
    """Return the path at the beginning of a command line. It ends before the first option or argument."""
    path: Path = ()
    for word in arguments:
        if is_command(path) or not is_path_prefix((*path, word)):
            break
        path = (*path, word)
    return path


def find_command_path(arguments: Iterable[str]) -> Path:
    """Return the path in a command line that may have options between its words, such as `log -q cat`."""
    path: Path = ()
    for word in arguments:
        if not is_command(path) and is_path_prefix((*path, word)):
            path = (*path, word)
    return path


def move_shared_options(argv: Sequence[str]) -> list[str]:
    """Move shared options behind the command. The program accepts them before the command and its group as well.

        -q log --format json cat t 3  ->  log cat -q --format json t 3

    If there is no command, some options are omitted: the help of the program does not depend on them.

    Args:
        argv: The words of the command line, without `-C DIR`.
    """
    moved_words: list[str] = []
    # The same options as single words: `--format=json`.
    moved_options: list[str] = []
    path: Path = ()
    position = 0
    while position < len(argv) and not is_command(path):
        word = argv[position]
        name = word.split("=", 1)[0]
        if is_path_prefix((*path, word)):
            path = (*path, word)
            position += 1
        elif name in TAKES_VALUE:
            length = 2 if TAKES_VALUE[name] and "=" not in word else 1
            option = argv[position : position + length]
            moved_words += option
            moved_options.append("=".join(option))
            position += length
        elif moved_words and word == "help":
            # The help of a command does not use shared options. The list of rules and the list of codes do.
            subject = argv[position + 1 :]
            return [word, *subject] if is_path_prefix(tuple(subject)) else [word, *subject, *moved_options]
        elif moved_words and not path and word in ASK_FOR_VERSION:
            return [word, *(option for option in moved_options if option in ("--json", "--format=json"))]
        elif moved_words and word in ASK_FOR_HELP:
            return [*path, word]
        else:
            # An unknown word or option. Its error must not be about the options before it.
            other_words = [] if argv[-1] in ASK_FOR_HELP else moved_words
            return [*path, *argv[position:], *other_words]

    if is_command(path):
        return [*path, *moved_words, *argv[position:]]
    if moved_words and position == len(argv):
        # There are shared options, but no command.
        return list(path) or ["--help"]
    # There are no shared options, or the last one lacks its value. The parser reports that.
    return list(argv)


def replace_former_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return a command line with current names of options instead of former ones."""
    current_names = FORMER_OPTIONS.get(" ".join(get_command_path(arguments)))
    if current_names is None:
        return arguments
    words: list[str] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        words.append(current_names.get(name, name) + equals + value)
    return words


def find_first_argument(arguments: Sequence[str], options_with_value: Iterable[str]) -> str | None:
    """Return the first argument of a command; None if there is none.

    Args:
        arguments: The command line.
        options_with_value: The names of the options of the command whose value is the next word.
    """
    option_names = set(options_with_value)
    words = iter(arguments[len(get_command_path(arguments)) :])
    for word in words:
        if word == "--":
            # All words after it are arguments.
            return next(words, None)
        if not word.startswith("-"):
            return word
        if word in option_names:
            next(words, None)
    return None
