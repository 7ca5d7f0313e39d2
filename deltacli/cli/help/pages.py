"""Help of commands and groups: what a page says, read from the tree of commands when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc

from typer.core import TyperGroup

from deltacli.cli.command_table import COMMANDS, GROUPS, HEADINGS
from deltacli.cli.help.sections import (
    COMMON_OPTIONS,
    FIRST_OPTIONS,
    LAST_OPTIONS,
    OptionHeading,
    section_of,
)
from deltacli.cli.help.text import Entry, HelpPage, Sections, fold, fold_common, fold_short
from deltacli.cli.invocation import HELP_ALL, invocation
from deltacli.cli.shared_options import declare_output, declare_settings, read_parameters
from deltacli.cli.vendored_click import Command, Context, Parameter

_WORDS: tuple[Entry, ...] = (
    ("deltacli help vacuum", "Explain a command."),
    ("deltacli help --where", "Explain an option, and list its commands."),
    ("deltacli help 3", "Explain an exit code."),
    ("deltacli help log.gap", "Explain a rule, or the code of an error."),
    ("deltacli help delta.appendOnly", "Explain a table property."),
    ("deltacli help deletionVectors", "Explain a table feature."),
    ("deltacli help topics", "List topics, such as tasks, json and exit-codes."),
    ("deltacli help all", "List all commands; --json describes them."),
)
"""A word of each kind that `deltacli help` explains."""


def write_command_help(command: Command, context: Context) -> str:
    """Return the help of a command: with its common options, or with all of them for `--help-all`."""
    page = command_page(command, context)
    return fold(page) if HELP_ALL in invocation.arguments else fold_common(page)


def write_group_help(group: TyperGroup, context: Context, path: Sequence[str]) -> str:
    """Return the help of a group, or of the program; of the program without arguments only what it says first."""
    page = group_page(group, context, path)
    if invocation.is_bare and context.parent is None:
        return fold_short(page)
    return fold(page) if HELP_ALL in invocation.arguments else fold_common(page)


def command_page(command: Command, context: Context) -> HelpPage:
    """Return the page of a command: usage, description, examples, options in sections, exit codes."""
    sections = _group_options(command, context)
    common = sorted(_find_common(sections, _cleaned(command.help)), key=_place)
    names = [spelled.replace(" ", "\xa0") for spelled, _ in sections.pop(OptionHeading.GLOBAL, [])]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    if arguments:
        described = [(spell_argument(argument), getattr(argument, "help", "") or "") for argument in arguments]
        sections = {"Arguments": described, **sections}
    return HelpPage(
        usage=[context.command_path, "[OPTIONS]", *map(spell_argument, arguments)],
        description=_cleaned(command.help),
        lists=[sections],
        common=common,
        names={OptionHeading.GLOBAL: "  ".join(names)},
        exit_codes=command.epilog or "",
    )


def group_page(group: TyperGroup, context: Context, path: Sequence[str]) -> HelpPage:
    """Return the page of a group: usage, description, examples, commands, options.

    The page of the program has its commands below headings, and the options that all commands share.

    Args:
        group: The group.
        context: Its context.
        path: The words that lead to the group; none for the program.
    """
    is_program = context.parent is None
    summaries = {name: summary_of(*path, name) for name in group.list_commands(context)}
    own_options = [entry for entries in _group_options(group, context).values() for entry in entries]
    if is_program:
        options = {"Global options": [*_list_global_options(), *own_options]}
        headings = {heading: names.split() for heading, names in HEADINGS.items()}
    else:
        options = {"Options": own_options}
        headings = {"Commands": [*summaries]}

    commands = {heading: [(name, summaries[name]) for name in names] for heading, names in headings.items()}
    lists: list[Sections | str] = [commands, options]
    if is_program:
        lists.append({"Help": _WORDS})
    return HelpPage(
        usage=[context.command_path, "[OPTIONS]", "COMMAND", "..."],
        description=_cleaned(group.help),
        lists=lists,
        common=[*_find_common(options, "")] if is_program else None,
        closing=_cleaned(group.epilog),
    )


def summary_of(*path: str) -> str:
    """Return the first sentence of the help of a command or group, without importing it."""
    name = " ".join(path)
    if name in COMMANDS:
        return COMMANDS[name].summary
    return " ".join(_cleaned(GROUPS[name]).split("\n\n")[0].split())


def names_in(spelled: str) -> list[str]:
    """Return the names of an option as a page spells it: `-q, --quiet` has two."""
    return [word for word in spelled.replace(",", " ").replace("/", " ").split() if word.startswith("-")]


def describe_option(option: Parameter) -> Entry:
    """Return how an option is spelled, with its value, and its description."""
    names = ", ".join(option.opts)
    if option.secondary_opts:
        names += f" / {', '.join(option.secondary_opts)}"
    has_value = not (getattr(option, "is_flag", False) or getattr(option, "count", False))
    spelled = f"{names} {getattr(option, 'metavar', None) or ''}".rstrip() if has_value else names
    text: str = getattr(option, "help", None) or ""
    return spelled, f"{text}  [required]" if option.required else text


def spell_argument(argument: Parameter) -> str:
    """Return how the usage of a command spells an argument: in brackets where it can be left out."""
    name: str = getattr(argument, "metavar", None) or (argument.name or "").upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _group_options(command: Command, context: Context) -> dict[str, list[Entry]]:
    """Return the options of a command below their headings."""
    sections: dict[str, list[Entry]] = {"Options": [], **{heading: [] for heading in OptionHeading}}
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
            heading = section_of(parameter.opts, getattr(parameter, "help", None) or "") or "Options"
            sections[heading].append(describe_option(parameter))
    return {heading: entries for heading, entries in sections.items() if entries}


def _list_global_options() -> Iterator[Entry]:
    for option in (*read_parameters(declare_output), *read_parameters(declare_settings)):
        if option.name not in ("output_format", "as_json"):  # whose formats differ between commands
            yield describe_option(option)


def _find_common(sections: Mapping[str, Iterable[Entry]], text: str) -> Iterator[Entry]:
    """Yield the options that are common, and those that the examples in the help `text` use."""
    examples = "\n".join(line for line in text.splitlines() if line.startswith(" "))
    used = {*re.findall(r"(?<!\S)--?[a-z][a-z-]*", examples)}
    for heading, entries in sections.items():
        known = used if heading is OptionHeading.GLOBAL else used | COMMON_OPTIONS
        yield from (entry for entry in entries if known & {*names_in(entry[0])})


def _place(entry: Entry) -> int:
    name = names_in(entry[0])[-1]
    return FIRST_OPTIONS.index(name) if name in FIRST_OPTIONS else len(FIRST_OPTIONS) + (name in LAST_OPTIONS)


def _cleaned(text: str | None) -> str:
    return cleandoc(text or "")
