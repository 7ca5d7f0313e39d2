"""Words that the shells complete although a value may be any text: rules, properties, features, columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltacli.cli.render.history_columns import history_columns
from deltacli.cli.schema_points import KINDS
from deltacli.delta.log.commit_lines import KNOWN_ACTIONS
from deltacli.delta.protocol.features import FEATURES
from deltacli.delta.protocol.known_properties import known_keys
from deltacli.delta.rules.framework.catalogue import CATALOGUE
from deltacli.operations.explain.known_clients import known_clients, paimon_clients
from deltacli.paimon.rules.catalogue import PAIMON_CATALOGUE
from deltacli.sharing.conformance.run import areas
from tools.command_tree import Argument, Command, Kind, Option, Value

_RULES = (*CATALOGUE.rules, *PAIMON_CATALOGUE.rules)
_SHARE_RULES = tuple(rule.id for area in areas() for rule in area.rules)
_POINTS = tuple(f"{kind}:" for kind in KINDS)
_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("explain", "--client"): tuple(client.name for client in (*known_clients(), *paimon_clients())),
    ("explain", "--if"): (*(f"{verb}={name}" for verb in ("add", "drop") for name in sorted(FEATURES)), "widen="),
    ("features", "[NAME]"): tuple(sorted(FEATURES)),
    ("history", "--columns"): tuple(column.name for column in history_columns(0, counts=True)),
    ("log cat", "--actions"): tuple(sorted(KNOWN_ACTIONS)),
    ("properties", "[K=V|K]"): known_keys(),
    ("schema diff", "--from"): _POINTS,
    ("schema diff", "--to"): _POINTS,
    ("share test", "--ignore"): _SHARE_RULES,
    ("share test", "--select"): _SHARE_RULES,
    ("validate", "--ignore"): _RULES,
    ("validate", "--select"): _RULES,
}
"""Command and the name of an option or of an argument -> what completes its value."""


def with_known_words(root: Command, topics: tuple[str, ...]) -> Command:
    """Return the command tree as the shells complete it: with these words, with profiles as files where a shared table
    is named, and with `help`, which explains commands, rules and topics.
    """
    names = tuple(command.name for command in root.walk() if len(command.path) == 1)
    words = tuple(dict.fromkeys((*names, *_RULES, *_SHARE_RULES, *topics)))
    topic = Argument(Value("COMMAND|WORD", Kind.CHOICE, words), "", required=False)
    text = "Show the help of a command, or explain a rule, a code, a property, a feature or a topic."
    helped = Command(("help",), text, text, "", arguments=(topic,))
    known = _with_words(root)
    return replace(known, children=(*known.children, helped))


def _with_words(command: Command) -> Command:
    def option(one: Option) -> Option:
        words = _WORDS.get((command.name, one.spellings[-1]))
        if words is None or one.value is None:
            return one
        return replace(one, value=replace(_chosen(one.value, words), is_list=True))

    def argument(one: Argument) -> Argument:
        if command.path[:1] == ("share",) and one.value.name in ("TABLE", "SHARES", "ADDRESS"):
            return replace(one, value=replace(one.value, kind=Kind.FILE))
        words = _WORDS.get((command.name, one.value.name))
        return one if words is None else replace(one, value=_chosen(one.value, words))

    return replace(
        command,
        options=tuple(map(option, command.options)),
        arguments=tuple(map(argument, command.arguments)),
        children=tuple(map(_with_words, command.children)),
    )


def _chosen(value: Value, words: tuple[str, ...]) -> Value:
    return replace(value, kind=Kind.CHOICE, choices=words)
