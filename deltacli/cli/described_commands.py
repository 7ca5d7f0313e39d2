"""A description of all commands: their names, help texts, options and arguments.

`help all`, completions, manual pages and the reference are generated from it. Reading it from Typer imports all
commands, which takes about half a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from deltacli.cli.command_group import CommandGroup, make_root
from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.help.sections import OptionHeading, section_of
from deltacli.cli.parameter_types import get_choices, is_whole_number
from deltacli.cli.vendored_click import Context


class CompletionKind(StrEnum):
    """The kind of a value, which determines how a shell completes it. OTHER: a version or another table."""

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


OF_TABLE = frozenset(CompletionKind) - {
    CompletionKind.CHOICE,
    CompletionKind.FILE,
    CompletionKind.DIRECTORY,
    CompletionKind.TEXT,
    CompletionKind.OTHER,
}
"""The kinds whose completions depend on the table. `deltacli --table-words KIND TABLE ARGUMENT…` prints them."""


_CHOICES = re.compile(r"[a-z]+(\|[a-z]+)+")
_FILES = ("FILE", "FILE|DIR/", "DIR|FILE", "PATH")
_DIRECTORIES = (
    "TABLE",
    "OTHER",
    "[OTHER]",
    "DIRECTORY",
    "DIR",
    "DIRECTORY|URI",
    "versions|DIRECTORY|URI",
    "BACKUP",
    "DEST",
    "SRC",
)
_KINDS = {
    **dict.fromkeys(_FILES, CompletionKind.FILE),
    **dict.fromkeys(_DIRECTORIES, CompletionKind.DIRECTORY),
    "V1|OTHER": CompletionKind.OTHER,
}
"""Maps the metavar of a parameter to the kind of its value."""


@dataclass(frozen=True, slots=True)
class DescribedValue:
    """The value of an option or argument.

    Attributes:
        name: The metavar in help texts, such as `DURATION`.
        kind: How a shell completes the value.
        choices: The values that are allowed. Empty: any text.
        is_list: Whether the value can be a list of choices, separated by commas.
    """

    name: str
    kind: CompletionKind
    choices: tuple[str, ...] = ()
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class DescribedOption:
    """An option of a command.

    Attributes:
        spellings: All names of the option, short ones first.
        value: The value. None for a flag.
        help: The help text without the default.
        full_help: The help text with the default.
        variable: The environment variable that Typer reads if the option is missing.
        repeatable: Whether the option can be used several times.
        required: Whether the option is mandatory.
        is_integer: Whether the value is an integer.
        default: The default according to the help text. None if the text contains none.
    """

    spellings: tuple[str, ...]
    value: DescribedValue | None
    help: str
    full_help: str
    variable: str | None = None
    repeatable: bool = False
    required: bool = False
    is_integer: bool = False
    default: str | None = None

    @property
    def section(self) -> str:
        """The heading above the option in the help."""
        return section_of(self.spellings, self.help) or "Other"

    @property
    def spelled(self) -> str:
        """The option as in the help, such as `-q, --quiet` or `--limit N`."""
        return ", ".join(self.spellings) + (f" {self.value.name}" if self.value else "")


@dataclass(frozen=True, slots=True)
class DescribedArgument:
    """An argument of a command.

    Attributes:
        value: The value.
        help: The help text.
        required: Whether the argument is mandatory.
        repeatable: Whether the argument can be several words.
    """

    value: DescribedValue
    help: str
    required: bool = True
    repeatable: bool = False

    @property
    def spelled(self) -> str:
        """The argument as in a usage line, in brackets if it is optional."""
        text = self.value.name + ("..." if self.repeatable else "")
        return text if self.required or text.startswith("[") else f"[{text}]"


@dataclass(frozen=True, slots=True)
class DescribedCommand:
    """A command, or a group of commands.

    Attributes:
        path: The words of the command, such as `("log", "cat")`. Empty for the program.
        summary: The first sentence of the help.
        help: The help.
        epilog: The section of the help that lists the exit codes.
        options: The options. A group has the options that are also accepted before its commands.
        arguments: The arguments.
        children: The commands and groups of a group, sorted by name.
    """

    path: tuple[str, ...]
    summary: str
    help: str
    epilog: str
    options: tuple[DescribedOption, ...] = ()
    arguments: tuple[DescribedArgument, ...] = ()
    children: tuple[DescribedCommand, ...] = ()

    @property
    def name(self) -> str:
        """The words of the command as a text, such as `log cat`."""
        return " ".join(self.path)

    @property
    def sections(self) -> dict[str, list[DescribedOption]]:
        """The options by section, in the order of the help."""
        sections: dict[str, list[DescribedOption]] = {heading: [] for heading in (*OptionHeading, "Other")}
        for option in self.options:
            sections[option.section].append(option)
        return {heading: options for heading, options in sections.items() if options}

    def walk(self) -> Iterator[DescribedCommand]:
        """Yield this command, and the commands and groups below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@cache
def describe_tree() -> DescribedCommand:
    """Return the program with all groups and commands. This imports all commands."""
    root = _describe_command(make_root(), (), None)
    names_of_root = {spelling for option in root.options for spelling in option.spellings}
    shared_names = set(TAKES_VALUE) - names_of_root

    # The help of an option may differ between commands. The first command decides, so it is read last.
    shared: dict[tuple[str, ...], DescribedOption] = {}
    for command in reversed(list(root.walk())):
        for option in command.options:
            if set(option.spellings) <= shared_names:
                shared[option.spellings] = option
    return _add_shared_options(root, tuple(shared.values()))


def _add_shared_options(group: DescribedCommand, shared: tuple[DescribedOption, ...]) -> DescribedCommand:
    """Return a group with the shared options, which are also accepted before its commands."""
    children = tuple(_add_shared_options(child, shared) if child.children else child for child in group.children)
    return replace(group, options=(*shared, *group.options), children=children)


def describe_commands() -> list[DescribedCommand]:
    """Return all commands without groups, sorted by name. This imports all commands."""
    return [command for command in describe_tree().walk() if command.path and not command.children]


def _describe_command(command: Any, path: tuple[str, ...], parent: Any) -> DescribedCommand:  # Any: typer's own click
    """Describe a command, or a group with its commands."""
    context = Context(command, info_name=(path or ("deltacli",))[-1], parent=parent)
    parameters = [parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]

    # A backspace tells Click to keep the line breaks of the next paragraph. It is not part of the text.
    text = re.sub(r"\n?\x08\n?", "\n", command.help or "").strip()
    names = sorted(command.list_commands(context)) if isinstance(command, CommandGroup) else []
    children = [_describe_command(command.get_command(context, name), (*path, name), context) for name in names]
    return DescribedCommand(
        path=path,
        summary=text.split("\n\n")[0].replace("\n", " "),
        help=text,
        epilog=(command.epilog or "").replace("\b\n", "").strip(),
        options=tuple(_describe_option(command, option) for option in options),
        arguments=tuple(_describe_argument(command, argument) for argument in arguments),
        children=tuple(children),
    )


def _describe_option(command: Any, parameter: Any) -> DescribedOption:  # Any: typer's own click
    """Describe an option. The default is part of its help text."""
    text = _remove_range((parameter.help or "").strip())
    variables = [parameter.envvar] if isinstance(parameter.envvar, str) else [*(parameter.envvar or ())]
    has_value = not (parameter.is_flag or parameter.count)
    return DescribedOption(
        # Short names first. The names of the help option are a set.
        spellings=tuple(sorted((*parameter.opts, *parameter.secondary_opts), key=lambda name: name.startswith("--"))),
        value=_describe_value(command, parameter, "VALUE") if has_value else None,
        help=re.sub(r"\s+\[[^]]*\]$", "", text),
        full_help=re.sub(r"\s{2,}", " ", text),
        variable=variables[0] if variables else None,
        repeatable=bool(parameter.multiple or parameter.count),
        required=bool(parameter.required),
        is_integer=is_whole_number(command, parameter),
        default=_find_default(text),
    )


def _remove_range(text: str) -> str:
    """Return a help text without the range of numbers: `[default: 10; x>=0]` becomes `[default: 10]`."""
    return re.sub(r"\s+\[x>=\d+\]$", "", re.sub(r"; x>=\d+\]$", "]", text))


def _find_default(text: str) -> str | None:
    match = re.search(r"\[default: ([^]]*)\]$", text)
    return match[1] if match else None


def _describe_argument(command: Any, parameter: Any) -> DescribedArgument:  # Any: typer's own click
    name = parameter.name.upper().replace("_", "-")
    return DescribedArgument(
        value=_describe_value(command, parameter, name),
        help=(parameter.help or "").strip(),
        required=bool(parameter.required),
        repeatable=parameter.nargs != 1,
    )


def _describe_value(command: Any, parameter: Any, fallback: str) -> DescribedValue:  # Any: typer's own click
    """Describe the value of a parameter. If it has no metavar, `fallback` is used."""
    name = (parameter.metavar or fallback).removesuffix("...")
    choices = get_choices(command, parameter)
    if parameter.param_type_name == "argument" and _CHOICES.fullmatch(name):
        choices = tuple(name.split("|"))
    kind = CompletionKind.CHOICE if choices else _KINDS.get(name, CompletionKind.TEXT)
    return DescribedValue(name, kind, choices)
