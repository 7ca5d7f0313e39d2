"""Suggest what was probably meant by an unknown option."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from deltacli.cli.command_tree import get_command_path, is_command
from deltacli.cli.hints.suggestion import Suggestion, find_command, find_typed_value, remove_word
from deltacli.cli.invocation import ASK_FOR_VERSION
from deltacli.cli.other_programs import FLAG_SYNONYMS, OPTION_SYNONYMS
from deltacli.cli.parameter_types import get_choices
from deltacli.cli.terminal.suggested_commands import (
    CLUSTER_OPTIONS,
    repeat_command,
    repeat_command_without_cluster,
)
from deltacli.cli.vendored_click import UsageError
from deltacli.core.errors import nearest_name

_LEAST_SIMILARITY = 0.75
_LEAST_SIMILARITY_OF_VERSION = 0.8

_FEW_COMMANDS = 2
"""Commands up to which an option is one of theirs, and not of many."""

_ROW_LIMITS = frozenset({"-n", "--head", "--last", "--lines", "--max-rows", "--number", "--rows"})
"""What other programs call `--limit`."""

_CONSENT = frozenset({"-y", "--force", "--yes"})

_ACTIONS: Mapping[str, Sequence[str]] = {
    "alter": ("add", "drop", "rename"),
    "features": ("add", "drop"),
    "properties": ("get", "set", "unset"),
}
"""Command -> actions behind its table that other programs have as options."""

_REASONS_WITHOUT_CLUSTER = {
    "copy": "a store copies its files itself, and between stores the bytes pass through this machine",
    "clone": "it writes one commit and copies no files",
    "convert": "it reads only the footers of the files",
    "manifest": "it reads only the log",
    "streams": "it reads only checkpoints of queries and logs",
    "catalog ls": "it only asks the catalog",
    "catalog status": "it only asks the catalog and lists the log",
    "catalog staged": "it only asks the catalog and lists the log",
    "catalog publish": "it copies only commits",
    "properties": "it reads only the log, and commits",
}
"""Command without `--engine` -> why a cluster would not help."""


class OtherCommand(NamedTuple):
    """The command that does what an option of other programs does.

    Attributes:
        name: The command.
        options: Its options for that.
        fact: What is said.
    """

    name: str
    options: Sequence[str]
    fact: str


_COMMANDS_INSTEAD: Mapping[tuple[str, str], OtherCommand] = {
    ("validate", "--fix"): OtherCommand("repair", ("--dry-run",), "repair does it"),
    ("validate", "--repair"): OtherCommand("repair", ("--dry-run",), "repair does it"),
    ("history", "--operation"): OtherCommand(
        "history",
        ("--format", "csv", "--columns", "version,timestamp,operation"),
        "history has no filter by operation",
    ),
}
"""Command and option that it does not have -> the command on the same table that helps."""


class UnknownOption(NamedTuple):
    """An unknown option on a command line.

    Attributes:
        error: The error of the parser.
        name: The option.
        options: The long names of the options of the command.
        arguments: The words of the command line.
    """

    error: UsageError
    name: str
    options: Sequence[str]
    arguments: Sequence[str]

    @property
    def command(self) -> str:
        """The command, or the group, that the option was given to."""
        return " ".join(get_command_path(self.arguments))

    @property
    def has_number(self) -> bool:
        """True if a number stands behind the option."""
        value = find_typed_value(self.name, self.arguments)
        return value is not None and value[:1].isdigit()


def suggest_option(error: UsageError, name: str, options: Sequence[str], arguments: Sequence[str]) -> Suggestion | None:
    """Return the option that was meant by an unknown one, or the command that has it.

    Args:
        error: The error of the parser.
        name: The unknown option.
        options: The long names of the options of the command.
        arguments: The words of the command line.
    """
    unknown = UnknownOption(error, name, options, arguments)
    for suggest in _SPECIAL_CASES:
        suggestion = suggest(unknown)
        if suggestion is not None:
            return suggestion

    option = _find_option(unknown)
    if option is None:
        is_option_of_others = name.startswith("--") and name not in _CONSENT
        return _suggest_other_command(unknown) if is_option_of_others else None
    words = _replace_option(name, option, arguments)
    # Options of other programs come in company: correct all of them at once.
    for other in {word.partition("=")[0] for word in words} & OPTION_SYNONYMS.keys() - {*options}:
        words = _replace_option(other, _find_option_here(other, options, words) or other, words)
    return Suggestion(option, repeat_command(words))


def _suggest_for_version_of_program(unknown: UnknownOption) -> Suggestion | None:
    """Return the command that prints the version of the program, which has one format."""
    asks_for_version = not {*ASK_FOR_VERSION}.isdisjoint(unknown.arguments)
    if unknown.command or not asks_for_version:
        return None
    return Suggestion(None, "deltacli --version", message="--version takes no other option than --json")


def _suggest_behind_command(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line whose option is before its command with the option behind it."""
    # It imports the command, which only an error needs.
    from deltacli.cli.command_loading import has_option

    arguments = unknown.arguments
    if arguments[0].partition("=")[0] != unknown.name:
        return None
    for length in (1, 2):  # of the option, without and with a value
        path = get_command_path(arguments[length:])
        if has_option(path, unknown.name):
            message = f"{unknown.name} is an option of {' '.join(path)}: it must follow the command"
            return Suggestion(None, repeat_command([*arguments[length:], *arguments[:length]]), message=message)
    return None


def _suggest_command_instead(unknown: UnknownOption) -> Suggestion | None:
    """Return the command on the same table that does what an option of other programs does."""
    command = _COMMANDS_INSTEAD.get((unknown.arguments[0], unknown.name))
    tables = [word for word in unknown.arguments[1:2] if not word.startswith("-")]
    if command is None or not tables:
        return None
    return Suggestion(None, repeat_command([command.name, *tables, *command.options]), command.fact)


def _suggest_flag(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line with what a flag of other programs is here; None for another option."""
    words_here = FLAG_SYNONYMS.get(unknown.name)
    if words_here is None or words_here[0] not in unknown.options or words_here[0] in unknown.arguments:
        return None
    words: list[str] = []
    for word in unknown.arguments:
        words += words_here if word == unknown.name else (word,)
    return Suggestion(" ".join(words_here), repeat_command(words))


def _suggest_without_cluster(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line without options of clusters, for a command that works in this process only."""
    reason = _REASONS_WITHOUT_CLUSTER.get(unknown.command)
    if unknown.name not in CLUSTER_OPTIONS or reason is None:
        return None
    message = f"{unknown.command} does not run on a Spark cluster: {reason}"
    return Suggestion(None, repeat_command_without_cluster(unknown.arguments), message=message)


def _suggest_action(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line with an action in place of an option: `properties TABLE --set K=V`."""
    arguments = unknown.arguments
    action = unknown.name.removeprefix("--")
    if action not in _ACTIONS.get(unknown.command, ()) or list(arguments[2:3]) != [unknown.name]:
        return None
    return Suggestion(repr(action), repeat_command([*arguments[:2], action, *arguments[3:]]))


def _suggest_without_consent(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line without consent, for a command that never asks."""
    if unknown.name not in _CONSENT or not {"--yes", unknown.name}.isdisjoint(unknown.options):
        return None
    if not is_command(get_command_path(unknown.arguments)):
        return None
    fact = f"{unknown.command} needs no confirmation"
    return Suggestion(None, repeat_command(remove_word(unknown.arguments, unknown.name)), fact)


def _suggest_for_version_in_history(unknown: UnknownOption) -> Suggestion | None:
    """Return what was meant by a version in `history`: that of the program, or of a table, which `snapshot` shows."""
    arguments = unknown.arguments
    if arguments[0] != "history":
        return None
    has_only_options = all(word.startswith("-") for word in arguments[1:])
    if unknown.name == "--version" and has_only_options:
        return Suggestion(None, "deltacli --version", "deltacli --version prints the version of the program")

    word = unknown.name.lstrip("-")
    if not nearest_name(word, ["version"], cutoff=_LEAST_SIMILARITY_OF_VERSION):
        return None
    missing_value = ["N"] if arguments[-1] == unknown.name else []
    hint = repeat_command(["snapshot", *_replace_option(unknown.name, "--version", arguments[1:]), *missing_value])
    return Suggestion(None if unknown.name == "--version" else "--version of 'snapshot'", hint)


def _suggest_fleet_plan(unknown: UnknownOption) -> Suggestion | None:
    """Return `fleet plan` for a dry run of `fleet run`."""
    if unknown.name != "--dry-run" or list(unknown.arguments[:2]) != ["fleet", "run"]:
        return None
    words = [word for word in unknown.arguments[2:] if word not in ("--dry-run", "--yes")]
    return Suggestion(None, repeat_command(["fleet", "plan", *words]))


def _suggest_without_upgrade(unknown: UnknownOption) -> Suggestion | None:
    """Return `features` without `--upgrade-protocol`: `features add` upgrades the protocol in any case."""
    if unknown.name != "--upgrade-protocol" or unknown.arguments[0] != "features":
        return None
    return Suggestion(None, repeat_command(remove_word(unknown.arguments, unknown.name)))


def _suggest_unit_of_value(unknown: UnknownOption) -> Suggestion | None:
    """Return the command line with the unit in the value: `--retention-hours 168` is `--retention 168h`."""
    name = "--retain-hours" if unknown.name == "--retain" else unknown.name  # as in SQL
    match = re.fullmatch(r"(--.+)-(weeks|days|hours|minutes|seconds)", name)
    if match is None:
        return None
    option = OPTION_SYNONYMS.get(match[1], match[1])
    if option not in unknown.options:
        return None
    words = _move_unit_to_value(option, match[2][0], unknown.name, unknown.arguments)
    return Suggestion(option, repeat_command(words))


_SPECIAL_CASES: Sequence[Callable[[UnknownOption], Suggestion | None]] = (
    _suggest_for_version_of_program,
    _suggest_behind_command,
    _suggest_command_instead,
    _suggest_flag,
    _suggest_without_cluster,
    _suggest_action,
    _suggest_without_consent,
    _suggest_for_version_in_history,
    _suggest_fleet_plan,
    _suggest_without_upgrade,
    _suggest_unit_of_value,
)
"""What is asked before a similar option is looked for. The first suggestion is taken."""


def _find_option(unknown: UnknownOption) -> str | None:
    """Return the option of the command that was meant by an unknown one."""
    name = unknown.name
    options = unknown.options
    if name == "-n" and not unknown.has_number:  # a dry run of make, rsync and others
        return "--dry-run" if "--dry-run" in options else None
    if name in _ROW_LIMITS and "--limit" in options:
        return "--limit" if name != "--head" or unknown.has_number else None
    return _find_option_here(name, options, unknown.arguments) or _find_similar_option(unknown)


def _find_option_here(name: str, options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Return the option that does here what one of other programs does.

    A number makes an option for a time one for a version. `--from` is the source of files in commands without `--to`.
    """
    option = OPTION_SYNONYMS.get(name)
    value = find_typed_value(name, arguments)
    if option == "--timestamp" and value is not None and value.isdecimal():
        option = "--version"
    if option not in options:
        return None
    return option if option != "--from" or "--to" in options else None


def _find_similar_option(unknown: UnknownOption) -> str | None:
    """Return the only option that begins like an unknown one, or the nearest one.

    An option with choices was not meant if the value is none of them.
    """
    name = unknown.name
    beginning_alike = [option for option in unknown.options if option.startswith(name) and len(name) > 3]
    options = {option.lstrip("-"): option for option in unknown.options}
    nearest = nearest_name(name.lstrip("-"), options, cutoff=_LEAST_SIMILARITY)
    option = options.get(nearest or "")
    if len(beginning_alike) == 1:
        option = beginning_alike[0]
    if option is None or _has_other_choices(unknown, option):
        return None
    return option


def _has_other_choices(unknown: UnknownOption, option: str) -> bool:
    """Return True if the value that was given to an unknown option is none of the choices of an option."""
    command = find_command(unknown.error)
    if command is None:
        return False
    choices = [
        word
        for parameter in command.params
        for word in (get_choices(command, parameter) if option in parameter.opts else ())
    ]
    value = find_typed_value(unknown.name, unknown.arguments)
    return bool(choices) and value is not None and value not in choices


def _replace_option(name: str, option: str, arguments: Sequence[str]) -> list[str]:
    """Return a command line with an option in place of another one, whose value it gets."""
    words = []
    for argument in arguments:
        word, equals, value = argument.partition("=")
        words.append((option if word == name else word) + equals + value)
    return words


def _move_unit_to_value(option: str, unit: str, name: str, arguments: Sequence[str]) -> list[str]:
    """Return a command line with an option whose value has a unit, in place of one that has it in its name.

    Args:
        option: The option, `--retention`.
        unit: The unit, `h`.
        name: The option that was typed, `--retention-hours`.
        arguments: The words of the command line.
    """
    words = []
    for previous, argument in pairwise(["", *arguments]):
        word, equals, value = argument.partition("=")
        if previous == name and argument.isdecimal():
            words.append(f"{argument}{unit}")
        elif word == name:
            words.append(f"{option}{equals}{value}{unit if value.isdecimal() else ''}")
        else:
            words.append(argument)
    return words


def _suggest_other_command(unknown: UnknownOption) -> Suggestion | None:
    """Return the help of the command that has an option, of the same group first; never of one that asks.

    An option of many commands says nothing about the one that was meant.
    """
    # It imports all commands.
    from deltacli.cli.help.option_index import commands_with

    group = unknown.arguments[:1]
    commands = sorted({*commands_with(unknown.name)} - {*commands_with("--yes")})
    # Commands of `share` and `fleet` do not work on tables: they are no answer for those that do, nor the other way.
    candidates = [
        command
        for command in commands
        if command.split()[:1] == group or {command.split()[0], *group}.isdisjoint({"fleet", "share"})
    ]
    in_group = [command for command in candidates if command.split()[:1] == group]
    if not candidates or (len(candidates) > _FEW_COMMANDS and not in_group):
        return None
    command = [*in_group, *candidates][0]
    return Suggestion(f"{unknown.name} of {command!r}", f"deltacli {command} --help")
