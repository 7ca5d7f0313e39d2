"""Read the command tree as values, for everything that is generated from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from deltacli.cli.command_group import CommandGroup, make_root
from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.help_sections import OptionHeading, section_of
from deltacli.cli.parameter_types import choices_of, is_whole_number
from deltacli.cli.vendored_click import Context


class Kind(StrEnum):
    """The kind of a value, for a shell that completes it."""

    CHOICE = "choice"
    FILE = "file"
    DIRECTORY = "directory"
    TEXT = "text"
    VERSIONS = "versions"
    COLUMNS = "columns"
    PATHS = "paths"
    WIDENINGS = "widenings"
    ALTERED = "altered"
    POSITIONS = "positions"
    SUPPOSED = "supposed"
    FEATURES = "features"
    PROPERTIES = "properties"
    POINTS = "points"
    SCHEMA = "schema"
    SNAPSHOT = "snapshot"
    TAG = "tag"
    BRANCH = "branch"
    GROUPS = "groups"
    OTHER = "other"
    """A version of the table, or the directory of another one."""


OF_TABLE = frozenset(Kind) - {Kind.CHOICE, Kind.FILE, Kind.DIRECTORY, Kind.TEXT, Kind.OTHER}
"""What `deltacli --table-words KIND TABLE ARGUMENT…` prints of the table, or of the policy file, that was named."""


_CHOICES = re.compile(r"[a-z]+(\|[a-z]+)+")
_FILES = "FILE, FILE|DIR/, DIR|FILE, PATH"
_DIRECTORIES = "TABLE, OTHER, [OTHER], DIRECTORY, DIR, DIRECTORY|URI, versions|DIRECTORY|URI, BACKUP, DEST, SRC"
_KINDS = {
    **dict.fromkeys(_FILES.split(", "), Kind.FILE),
    **dict.fromkeys(_DIRECTORIES.split(", "), Kind.DIRECTORY),
    "V1|OTHER": Kind.OTHER,
}
"""Name of a value -> its kind."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an option or argument: its name in help texts, its kind and its allowed words."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()
    is_list: bool = False
    """Whether several of the choices can be given, with commas."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its spellings, its value (None for a flag), and its help without and with the default."""

    spellings: tuple[str, ...]
    value: Value | None
    help: str
    full_help: str
    variable: str | None = None
    repeatable: bool = False
    required: bool = False
    is_integer: bool = False
    default: str | None = None
    """The default as the help says it; None where there is none."""

    @property
    def section(self) -> str:
        """The heading over the option."""
        return section_of(self.spellings, self.help) or "Other"

    @property
    def spelled(self) -> str:
        """Return the option as in a help text: `-q, --quiet`, `--limit N`."""
        return ", ".join(self.spellings) + (f" {self.value.name}" if self.value else "")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument: its value, its help, and whether it is optional or repeatable."""

    value: Value
    help: str
    required: bool = True
    repeatable: bool = False

    @property
    def spelled(self) -> str:
        text = self.value.name + ("..." if self.repeatable else "")
        return text if self.required or text.startswith("[") else f"[{text}]"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands. The root has an empty path."""

    path: tuple[str, ...]
    summary: str
    help: str
    epilog: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    children: tuple[Command, ...] = ()

    @property
    def name(self) -> str:
        return " ".join(self.path)

    @property
    def sections(self) -> dict[str, list[Option]]:
        """The options by section, in the order of the help."""
        found: dict[str, list[Option]] = {heading: [] for heading in (*OptionHeading, "Other")}
        for option in self.options:
            found[option.section].append(option)
        return {heading: options for heading, options in found.items() if options}

    def walk(self) -> Iterator[Command]:
        """Yield this command and everything below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@cache
def read_tree() -> Command:
    """Read the command tree. The root and each group have the options that are allowed before a command."""
    root = _read_command(make_root(), (), None)
    own = {spelling for option in root.options for spelling in option.spellings}
    shared = {  # if an option differs between commands, the first definition is used, which all of them share
        option.spellings: option
        for command in reversed(list(root.walk()))
        for option in command.options
        if set(option.spellings) <= set(TAKES_VALUE) - own
    }
    return _with_shared(root, tuple(shared.values()))


def _with_shared(group: Command, shared: tuple[Option, ...]) -> Command:
    """Return a group with the options that are also allowed before its commands."""
    children = tuple(_with_shared(child, shared) if child.children else child for child in group.children)
    return replace(group, options=(*shared, *group.options), children=children)


def read_commands() -> list[Command]:
    """Return the commands that can be run, sorted by name."""
    return [command for command in read_tree().walk() if command.path and not command.children]


def _read_command(command: Any, path: tuple[str, ...], parent: Any) -> Command:  # Any: typer's own click
    context = Context(command, info_name=(path or ("deltacli",))[-1], parent=parent)
    parameters = [parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    text = re.sub(r"\n?\x08\n?", "\n", command.help or "").strip()
    children = sorted(command.list_commands(context)) if isinstance(command, CommandGroup) else []
    return Command(
        path=path,
        summary=text.split("\n\n")[0].replace("\n", " "),
        help=text,
        epilog=(command.epilog or "").replace("\b\n", "").strip(),
        options=tuple(_read_option(command, option) for option in options),
        arguments=tuple(_read_argument(command, argument) for argument in arguments),
        children=tuple(_read_command(command.get_command(context, name), (*path, name), context) for name in children),
    )


def _read_option(command: Any, parameter: Any) -> Option:  # Any: typer's own click
    text = _without_range((parameter.help or "").strip())
    variable = parameter.envvar if isinstance(parameter.envvar, str) else next(iter(parameter.envvar or ()), None)
    return Option(
        # Short spellings first. The help option has its own in a set.
        spellings=tuple(sorted((*parameter.opts, *parameter.secondary_opts), key=lambda name: name.startswith("--"))),
        value=None if parameter.is_flag or parameter.count else _read_value(command, parameter, "VALUE"),
        help=re.sub(r"\s+\[[^]]*\]$", "", text),
        full_help=re.sub(r"\s{2,}", " ", text),
        variable=variable,
        repeatable=bool(parameter.multiple or parameter.count),
        required=bool(parameter.required),
        is_integer=is_whole_number(command, parameter),
        default=_read_default(text),
    )


def _without_range(text: str) -> str:
    """Return the help of an option without the range of its numbers, which follows the default or stands alone."""
    return re.sub(r"\s+\[x>=\d+\]$", "", re.sub(r"; x>=\d+\]$", "]", text))


def _read_default(text: str) -> str | None:
    found = re.search(r"\[default: ([^]]*)\]$", text)
    return found[1] if found else None


def _read_argument(command: Any, parameter: Any) -> Argument:  # Any: typer's own click
    name = parameter.name.upper().replace("_", "-")
    return Argument(
        _read_value(command, parameter, name),
        (parameter.help or "").strip(),
        bool(parameter.required),
        parameter.nargs != 1,
    )


def _read_value(command: Any, parameter: Any, fallback: str) -> Value:  # Any: typer's own click
    name = (parameter.metavar or fallback).removesuffix("...")
    choices = choices_of(command, parameter)
    if parameter.param_type_name == "argument" and _CHOICES.fullmatch(name):
        choices = tuple(name.split("|"))
    return Value(name, Kind.CHOICE if choices else _KINDS.get(name, Kind.TEXT), choices)
