"""How the words of a command line select from the tree of commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.invocation import ASK_FOR_HELP, ASK_FOR_VERSION
from deltacli.cli.parameter_types import takes_value
from deltacli.cli.shared_options import declare_output, declare_settings, read_parameters

Path = tuple[str, ...]
"""The words that lead to a command, or to a group of commands; the root has none."""

TAKES_VALUE: Mapping[str, bool] = {
    "-vv": False,
    **{
        name: takes_value(option)
        for option in (*read_parameters(declare_output), *read_parameters(declare_settings))
        for name in option.opts
    },
}
"""Shared options that are also accepted before the command, and whether each takes a value."""

FORMER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "log expire": {"--keep-versions": "--keep-version"},
    "share head": {"--rows": "--limit"},
}
"""Command -> former names of its options, which work but are not shown, and the names of today."""

_PATHS = tuple(tuple(name.split()) for name in COMMANDS)

_OF_SHARED_TABLES = frozenset({("share", "changes"), ("share", "head"), ("share", "pull"), ("share", "schema")})
WITHOUT_TABLE = frozenset(
    {
        ("catalog", "ls"),
        ("completion",),
        ("spark", "package"),
        *(path for path in _PATHS if path[0] in ("fleet", "share")),
    }
    - _OF_SHARED_TABLES
    - {("fleet", "init"), ("share", "init")}
)
"""Commands whose first argument is not a table, nor a directory of tables."""

HERE = "."
"""The table of the commands `TABLE_OR_HERE` where none is given."""
TABLE_OR_HERE = frozenset(
    {("doctor", "table"), *((name,) for name in ("explain", "history", "reach", "snapshot", "validate"))}
)
"""Commands of which TABLE may be left out: they change nothing."""


def is_command(path: Path) -> bool:
    return path in _PATHS


def leads_on(path: Path) -> bool:
    """Return True for a command and for the beginning of a path to one."""
    return any(known[: len(path)] == path for known in _PATHS)


def below(path: Path) -> list[str]:
    """Return the commands at and below a place of the tree."""
    return [name for name, known in zip(COMMANDS, _PATHS, strict=True) if known[: len(path)] == path]


def path_of(arguments: Sequence[str]) -> Path:
    """Return the leading words that name a command or a group."""
    path: Path = ()
    for word in arguments:
        if is_command(path) or not leads_on((*path, word)):
            break
        path = (*path, word)
    return path


def path_in(arguments: Iterable[str]) -> Path:
    """Return the words that name a command or a group, also with options between them."""
    path: Path = ()
    for word in arguments:
        if not is_command(path) and leads_on((*path, word)):
            path = (*path, word)
    return path


def move_shared_options(argv: Sequence[str]) -> list[str]:
    """Move shared options before the command or its group behind it, because they are accepted in both places."""
    moved: list[str] = []
    joined: list[str] = []
    path: Path = ()
    position = 0
    while position < len(argv) and not is_command(path):
        word = argv[position]
        name = word.split("=", 1)[0]
        if leads_on((*path, word)):
            path = (*path, word)
            position += 1
        elif name in TAKES_VALUE:
            taken = 2 if TAKES_VALUE[name] and "=" not in word else 1
            moved += argv[position : position + taken]
            joined.append("=".join(argv[position : position + taken]))
            position += taken
        elif moved and word == "help":  # the help of a command has no use for them, the list of rules has
            asked = argv[position + 1 :]
            return [word, *asked, *([] if leads_on(tuple(asked)) else joined)]
        elif moved and not path and word in ASK_FOR_VERSION:
            return [word, *(one for one in joined if one in ("--json", "--format=json"))]
        elif moved and word in ASK_FOR_HELP:
            return [*path, word]
        else:  # an unknown word or option: the error is about it, not about the options before it
            return [*path, *argv[position:], *([] if argv[-1] in ASK_FOR_HELP else moved)]
    if position == len(argv) and moved and not is_command(path):
        return list(path) or ["--help"]  # options of all commands, and no command
    return [*path, *moved, *argv[position:]] if is_command(path) else list(argv)


def with_current_options(arguments: Sequence[str]) -> Sequence[str]:
    """Return a command line with former names of options replaced by those of today."""
    former = FORMER_OPTIONS.get(" ".join(path_of(arguments)))
    if former is None:
        return arguments
    split = [word.partition("=") for word in arguments]
    return [former.get(name, name) + equals + value for name, equals, value in split]


def first_argument(arguments: Sequence[str], valued: Iterable[str]) -> str | None:
    """Return the first word after the command that is neither an option nor the value of a `valued` option."""
    takes_value, skip, only_arguments = set(valued), False, False
    for word in arguments[len(path_of(arguments)) :]:
        if skip:
            skip = False
        elif word == "--" and not only_arguments:
            only_arguments = True
        elif only_arguments or not word.startswith("-"):
            return word
        else:
            skip = word in takes_value
    return None
