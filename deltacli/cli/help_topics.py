"""`deltacli help WORD` for a word that is not a command: options, rules, codes, properties, features and topics.

Topics are read from a file made of the documentation and of the code.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from deltacli.cli.command_table import COMMANDS, GROUPS
from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.help_page import names_in
from deltacli.cli.help_text import fold_common, fold_topic
from deltacli.cli.option_index import list_options, read_pages
from deltacli.core.errors import UsageError
from deltacli.core.typing import Json

GENERATED = os.path.join(os.path.dirname(__file__), "help_topics.json")
WHOLE = os.path.join(os.path.dirname(__file__), "help_all.json")
"""The document of `deltacli help all --format json`."""


def explain_word(words: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Write what is known of a word, such as an option, a rule, an area of rules or a topic, and return the exit code;
    `run` lists rules.

    Raises UsageError for a word that nothing has.
    """
    asked = words[1:2] if words[0] == "help" and words[1:] else list(_asked(words))
    if asked == ["all"]:
        return _explain_all(words)
    name = _OPTIONS.get("-".join(asked), "-".join(asked))
    option = name if name.startswith("-") else f"--{name}"
    rules, topics, meanings = _rules_called(name), explained(), _meanings_of(option)
    if name not in topics and (begun := re.sub(r"(?<=[A-Z]_)[A-Z_]+\Z", "…", name)) in topics:
        name = begun  # of environment variables
    family = None if rules or meanings else _family(_AREAS.get(name, name.removesuffix(".*")), topics)
    of_others = _command_of_others(name)
    if not (rules or meanings or family or of_others or name in topics):
        return _explain_unknown(" ".join(asked), name, topics, run)
    ended = 0
    for command, found in rules.items():
        chosen = [word for rule in found for word in ("--select", rule)]
        ended = run([*command, "--list-rules", *chosen, *(word for word in words if word not in asked)])
    shown = [(topics[name]["title"], topics[name]["blocks"])] if name in topics else []
    if of_others:
        shown.append(of_others)
    if meanings:
        more = [f"deltacli help {option[2:]}"]
        has_more = option == name and option[2:] in topics
        shown.append((f"Option {option}", [*meanings, {"code": more}] if has_more else meanings))
    if family:
        shown.append(family)
    if shown:
        sys.stdout.write("\n\n".join(fold_topic(title, blocks) for title, blocks in shown) + "\n")
        sys.stdout.flush()
    return ended


def _command_of_others(name: str) -> tuple[str, list[Any]] | None:
    """Return what helps with the name that a command has in other programs."""
    from deltacli.cli.other_programs import MORE_OF_OTHERS, OF_OTHERS

    if (found := OF_OTHERS.get(name)) is None:
        return None
    commands = [found.split()[0], *MORE_OF_OTHERS.get(name, ())]
    lines = [f"deltacli help {command}" for command in commands]
    return f"Commands for {name}", [{"code": lines}]


def _explain_all(words: Sequence[str]) -> int:
    """Write every command on a line of its own, or the generated document about all of them."""
    given = dict(zip(words, [*words[1:], ""], strict=True)).get("--format")
    wished = {word.partition("=")[2] for word in words if word.startswith("--format=")} | {given} - {None}
    wished |= {"json"} & {word.removeprefix("--") for word in words}
    if not wished <= {"json", "table"}:
        raise UsageError(
            "help all has two formats", facts={"expected": "table, json"}, hint="deltacli help all --format json"
        )
    with open(WHOLE, encoding="utf-8") as file:
        document = file.read()
    if "json" not in wished:
        commands = [(one["name"], one["summary"]) for one in json.loads(document)["commands"]]
        column = max(len(name) for name, _ in commands) + 2
        document = "".join(f"{name:{column}}{summary}\n" for name, summary in commands)
    sys.stdout.write(document)
    sys.stdout.flush()
    return 0


def _asked(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that are neither options of all commands nor their values."""
    is_value = False
    for word in words:
        if not (is_value or word.startswith("-")):
            yield word
        is_value = not is_value and TAKES_VALUE.get(word, False)


def _meanings_of(option: str) -> list[list[tuple[str, str]]]:
    commands: dict[tuple[str, str], list[str]] = {}
    for command, spelled, text in list_options():
        if option in names_in(spelled):
            commands.setdefault((spelled, text), []).append(command)
    others = "all others" if len(commands) > 1 else "all"
    return [[entry, ("commands", others if "" in found else listed(found))] for entry, found in commands.items()]


def listed(commands: Sequence[str]) -> str:
    """Return commands as a text, by the others where those are fewer."""
    others = [name for name in COMMANDS if name not in commands]
    if len(others) < len(commands):
        return f"all except {', '.join(others)}" if others else "all"
    return ", ".join(commands)


def explained() -> dict[str, Json]:
    """Return the generated explanations by word: codes, properties, features and topics."""
    try:
        with open(GENERATED, encoding="utf-8") as file:
            topics: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return topics


def _rules() -> dict[tuple[str, ...], Mapping[str, str]]:
    """Return the command that lists rules -> their ids, with what they check."""
    from deltacli.rules.framework.base import CATALOGUE
    from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
    from deltacli.sharing.conformance.run import areas

    shared = {rule.id: rule.checks for area in areas() for rule in area.rules}
    of_tables = {rule.id: rule.checks for rule in (*CATALOGUE.rules.values(), *PAIMON_CATALOGUE.rules.values())}
    return {("validate",): of_tables, ("share", "test"): shared}


def _rules_called(name: str) -> dict[tuple[str, ...], list[str]]:
    """Return the command that lists rules -> the rules with this id, or those whose last part it is."""
    known = _rules()
    for fits in (name.__eq__, lambda rule: rule.endswith(f".{name}")):
        found = {command: list(filter(fits, rules)) for command, rules in known.items()}
        if any(found.values()):
            return {command: rules for command, rules in found.items() if rules}
    return {}


def _family(area: str, topics: Mapping[str, Any]) -> tuple[str, list[Any]] | None:
    """Return the title and the blocks of the rules and the codes of an area, None where it has none."""
    begin = f"{area}."
    found = {
        rule: checks.replace("`", "")
        for rules in _rules().values()
        for rule, checks in rules.items()
        if rule.startswith(begin)
    }
    for name, topic in topics.items():
        if name.startswith(begin) and name not in found and "is a code of" in topic["title"]:
            found[name] = next((text for label, text in topic["blocks"][0] if label not in _NOT_MEANT), "")
    if not found:
        return None
    more = [f"deltacli help {area}"]
    commands: list[Any] = [{"code": more}] if area in {*COMMANDS, *GROUPS} else []
    return f"Rules and codes of {area}", [list(found.items()), *commands]


_AREAS = {"sharing": "share"}
_OPTIONS = {"rules": "--list-rules"}
"""Word -> the option that shows what it names."""
_NOT_MEANT = ("exit code", "what to do", "in Spark")


def _explain_unknown(word: str, name: str, topics: Collection[str], run: Callable[[Sequence[str]], int]) -> int:
    """Explain a word that differs in case only. Raises UsageError for others, with words that are similar."""
    rules = (rule for rules in _rules().values() for rule in rules)
    spelled = (option for _, spelling, _ in list_options() for option in names_in(spelling))
    words = {one.lower(): one for one in (*COMMANDS, *GROUPS, *topics, *rules, *spelled)}
    asked = {word.lower(), name.lower()}
    for one in asked & words.keys() - {word, name}:
        same = words[one]
        if same in read_pages():
            sys.stdout.write(fold_common(read_pages()[same]) + "\n")
            sys.stdout.flush()
            return 0
        return explain_word(["help", same] if same.startswith("-") else [same], run)
    alike = [near for one in asked for near in get_close_matches(one, words, _MOST, _ALIKE)]
    having = sorted((one for one in words if any(part in one for part in asked if part[3:])), key=len)
    begun = [one for one in having if one.startswith(tuple(asked))]
    near = [words[one] for one in dict.fromkeys([*begun, *alike, *having])][:_MOST]
    meant = f"; did you mean {', '.join(map(repr, near))}?".replace(", ", " or ") if near else ""
    kinds = "a command, an option, a rule, a code, a property, a feature, a variable or a topic"
    message = f"{word!r} is not {kinds}{meant}"
    raise UsageError(message, hint=f"deltacli help {near[0] if near else 'topics'}")


_MOST = 3
"""Words that are offered instead of an unknown one."""
_ALIKE = 0.75
"""How similar they are at least, as difflib measures it."""
