"""`deltacli help WORD` for a word that is not a command: rules, codes of errors, properties, features and topics.

Topics are read from a file made of the documentation and of the code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from deltacli.cli.command_tree import COMMANDS, GROUPS
from deltacli.cli.help_page import fold_topic
from deltacli.errors import UsageError
from deltacli.hints import nearest_name
from deltacli.typing import Json

GENERATED = os.path.join(os.path.dirname(__file__), "help_topics.json")


def explain(words: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Write what is known of a rule, a code or a topic, and return the exit code; `run` lists rules.

    Raises UsageError for a word that nothing has.
    """
    asked = [word for word in words if not word.startswith("-")]
    name = "-".join(asked)
    rules, topics = _rules_called(name), _topics()
    if not rules and name not in topics:
        raise _unknown(" ".join(asked), name, topics)
    ended = 0
    for command, found in rules.items():
        chosen = [word for rule in found for word in ("--select", rule)]
        ended = run([*command, "--list-rules", *chosen, *(word for word in words if word not in asked)])
    if name in topics:
        sys.stdout.write(fold_topic(topics[name]["title"], topics[name]["blocks"]) + "\n")
        sys.stdout.flush()
    return ended


def _topics() -> dict[str, Json]:
    try:
        with open(GENERATED, encoding="utf-8") as file:
            topics: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {}
    return topics


def _rules() -> dict[tuple[str, ...], Sequence[str]]:
    """Return the command that lists rules -> their ids."""
    from deltacli.delta.rules.framework.catalogue import CATALOGUE
    from deltacli.paimon.rules.catalogue import PAIMON_CATALOGUE
    from deltacli.sharing.conformance.run import areas

    shared = [rule.id for area in areas() for rule in area.rules]
    return {("validate",): [*CATALOGUE.rules, *PAIMON_CATALOGUE.rules], ("share", "test"): shared}


def _rules_called(name: str) -> dict[tuple[str, ...], list[str]]:
    """Return the command that lists rules -> the rules with this id, or those whose last part it is."""
    known = _rules()
    for fits in (name.__eq__, lambda rule: rule.endswith(f".{name}")):
        found = {command: list(filter(fits, rules)) for command, rules in known.items()}
        if any(found.values()):
            return {command: rules for command, rules in found.items() if rules}
    return {}


def _unknown(word: str, name: str, topics: Collection[str]) -> UsageError:
    words = [*COMMANDS, *GROUPS, "topics", *topics, *(rule for rules in _rules().values() for rule in rules)]
    near = nearest_name(word, words) or nearest_name(name, words, ignores_case=True)
    meant = f"; did you mean {near!r}?" if near else ""
    hint = f"deltacli help {near or 'topics'}"
    return UsageError(f"{word!r} is not a command, a rule, a code or a topic{meant}", hint=hint)
