"""Words that the shells complete although a value may be any text: rules, properties, features, columns, versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltacli.cli.described_commands import (
    CompletionKind,
    DescribedArgument,
    DescribedCommand,
    DescribedOption,
    DescribedValue,
)
from deltacli.cli.render.history_columns import history_columns
from deltacli.delta.log.actions import KNOWN_ACTIONS
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.sharing.conformance.run import areas
from deltacli.table.known_clients import read_known_clients, read_paimon_clients

_RULES = (*CATALOGUE.rules, *PAIMON_CATALOGUE.rules)
_SHARE_RULES = tuple(rule.id for area in areas() for rule in area.rules)
_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("explain", "--client"): tuple(client.name for client in (*read_known_clients(), *read_paimon_clients())),
    ("history", "--columns"): tuple(column.name for column in history_columns(lambda: 0, counts=True)),
    ("log cat", "--actions"): tuple(sorted(KNOWN_ACTIONS)),
    ("share test", "--ignore"): _SHARE_RULES,
    ("share test", "--select"): _SHARE_RULES,
    ("validate", "--ignore"): _RULES,
    ("validate", "--select"): _RULES,
}
"""Command and the name of an option or of an argument -> what completes its value."""


_VERSIONS = frozenset({"V", "V|T", "V2", "VERSION", "A,B-C,…"})
_COLUMNS = {("changes", "--columns"), ("diff", "--key"), ("read", "--columns")}
_OF_TABLE = {
    ("alter", "--position"): CompletionKind.POSITIONS,
    ("explain", "--if"): CompletionKind.SUPPOSED,
    ("features", "[NAME]"): CompletionKind.FEATURES,
    ("properties", "[K=V|K]"): CompletionKind.PROPERTIES,
    ("schema diff", "--from"): CompletionKind.POINTS,
    ("schema diff", "--to"): CompletionKind.POINTS,
    ("widen-type", "COLUMN TYPE"): CompletionKind.WIDENINGS,
}
_OF_PAIMON = {
    "--schema-id": CompletionKind.SCHEMA,
    "--snapshot-id": CompletionKind.SNAPSHOT,
    "--tag": CompletionKind.TAG,
    "--branch": CompletionKind.BRANCH,
}
"""Option -> the words of the table that complete it."""


def _of_table(command: str, name: str, value: DescribedValue) -> DescribedValue:
    """Return a value as words of the table that the command is about, where it has some."""
    if value.kind is not CompletionKind.TEXT or command.startswith("share ") or (command, name) == ("diff", "--to"):
        return value
    if kind := _OF_TABLE.get((command, name)) or _OF_PAIMON.get(name):
        return replace(value, kind=kind)
    if command.startswith("fleet ") and name == "--only":
        return replace(value, kind=CompletionKind.GROUPS)
    if (command, name) in _COLUMNS:
        return replace(value, kind=CompletionKind.COLUMNS, is_list=True)
    if (command, name) == ("optimize", "--zorder"):
        return replace(value, kind=CompletionKind.PATHS, is_list=True)
    is_version = value.name in _VERSIONS or (name == "--version" and value.name == "N")
    return replace(value, kind=CompletionKind.VERSIONS) if is_version else value


def _split(command: DescribedCommand) -> tuple[DescribedArgument, ...]:
    """Return the arguments of a command, those of `alter` with a column apart from the words that follow it."""
    if command.name != "alter":
        return command.arguments
    *arguments, words = command.arguments
    column = replace(words, value=DescribedValue("COLUMN", CompletionKind.ALTERED), repeatable=False)
    return (*arguments, column, replace(words, value=column.value, required=False))


def with_known_words(root: DescribedCommand, topics: tuple[str, ...]) -> DescribedCommand:
    """Return the command tree as the shells complete it: with these words, with profiles as files where a shared table
    is named, and with `help`, which explains commands, rules, topics and options.
    """
    names = tuple(command.name for command in root.walk() if len(command.path) == 1)
    words = tuple(dict.fromkeys((*names, *_RULES, *_SHARE_RULES, *topics)))
    topic = DescribedArgument(DescribedValue("COMMAND|WORD", CompletionKind.CHOICE, words), "", required=False)
    text = "Show the help of a command, or explain a rule, a code, a property, a feature or a topic."
    explained = {one.spellings: replace(one, value=None) for command in root.walk() for one in command.options}
    helped = DescribedCommand(("help",), text, text, "", options=tuple(explained.values()), arguments=(topic,))
    known = _with_words(root)
    return replace(known, children=(*known.children, helped))


def _with_words(command: DescribedCommand) -> DescribedCommand:
    def option(one: DescribedOption) -> DescribedOption:
        words = _WORDS.get((command.name, one.spellings[-1]))
        if one.value is None:
            return one
        if words is None:
            return replace(one, value=_of_table(command.name, one.spellings[-1], one.value))
        return replace(one, value=replace(_chosen(one.value, words), is_list=True))

    def argument(one: DescribedArgument) -> DescribedArgument:
        if command.path[:1] == ("share",) and one.value.name in ("TABLE", "SHARES", "ADDRESS"):
            return replace(one, value=replace(one.value, kind=CompletionKind.FILE))
        words = _WORDS.get((command.name, one.value.name))
        of_table = _of_table(command.name, one.value.name, one.value)
        return replace(one, value=of_table if words is None else _chosen(one.value, words))

    return replace(
        command,
        options=tuple(map(option, command.options)),
        arguments=tuple(map(argument, _split(command))),
        children=tuple(map(_with_words, command.children)),
    )


def _chosen(value: DescribedValue, words: tuple[str, ...]) -> DescribedValue:
    return replace(value, kind=CompletionKind.CHOICE, choices=words)
