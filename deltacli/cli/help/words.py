"""`deltacli help WORD` for a word that is not a command: options, rules, codes, properties, features and topics."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from deltacli.cli.command_table import COMMANDS, GROUPS
from deltacli.cli.command_tree import TAKES_VALUE
from deltacli.cli.help.all_commands import write_all_commands
from deltacli.cli.help.option_index import list_options, read_pages
from deltacli.cli.help.pages import names_in
from deltacli.cli.help.text import Definitions, ExampleLines, Topic, TopicBlock, fold_common, fold_topic
from deltacli.cli.help.topics import list_commands, read_topics
from deltacli.cli.other_programs import COMMAND_SYNONYMS, FURTHER_COMMANDS
from deltacli.core.errors import UsageError
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from deltacli.sharing.conformance.run import areas

_MOST_SUGGESTIONS = 3
"""Words that are offered instead of an unknown one."""
_LEAST_SIMILARITY = 0.75
"""How similar they are at least, as difflib measures it."""

_COMMANDS_OF_AREAS = {"sharing": "share"}
_OPTIONS_OF_WORDS = {"rules": "--list-rules"}
"""Word -> the option that shows what it names."""

_NOT_THE_MEANING = ("exit code", "what to do", "in Spark")
"""Labels of a code that do not say what it means."""

Run = Callable[[Sequence[str]], int]
"""Runs a command line and returns its exit code."""


def explain_word(words: Sequence[str], run: Run) -> int:
    """Write what is known of a word, such as an option, a rule, an area of rules or a topic.

    Args:
        words: The words of the command line behind `deltacli help`. Options of all commands may be among them.
        run: Runs `--list-rules` for rules.

    Returns:
        The exit code.

    Raises:
        UsageError: If nothing has the word, with similar words.
    """
    sought = [words[1]] if words[0] == "help" and words[1:] else list(_remove_options(words))
    if sought == ["all"]:
        write_all_commands(words)
        return 0

    name = "-".join(sought)
    name = _OPTIONS_OF_WORDS.get(name, name)
    rules = _find_rules(name)
    topics = list(_find_topics(name, is_rule=bool(rules)))
    if not rules and not topics:
        return _explain_similar_word(" ".join(sought), name, run)

    exit_code = 0
    for command, names in rules.items():
        selection = [word for rule in names for word in ("--select", rule)]
        options = [word for word in words if word not in sought]
        exit_code = run([*command, "--list-rules", *selection, *options])
    if topics:
        sys.stdout.write("\n\n".join(map(fold_topic, topics)) + "\n")
        sys.stdout.flush()
    return exit_code


def _remove_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that are neither options of all commands nor their values."""
    is_value = False
    for word in words:
        if not (is_value or word.startswith("-")):
            yield word
        is_value = not is_value and TAKES_VALUE.get(word, False)


def _find_topics(name: str, *, is_rule: bool) -> Iterator[Topic]:
    """Yield what explains a word: its topic, the command that other programs call so, the option, the area of rules."""
    topics = read_topics()
    # Variables of the stores are explained by the words that they begin with: `AWS_…`.
    beginning = re.sub(r"(?<=[A-Z]_)[A-Z_]+\Z", "…", name)
    word = beginning if name not in topics and beginning in topics else name
    if word in topics:
        yield topics[word]

    if word in COMMAND_SYNONYMS:
        yield _explain_name_in_other_programs(word)

    option = name if name.startswith("-") else f"--{name}"
    meanings = _find_meanings(option)
    if meanings:
        # Of a word that is an option and a topic, `deltacli help --word` shows the option only.
        subject = option.removeprefix("--")
        has_topic = option == word and subject in topics
        more = [ExampleLines((f"deltacli help {subject}",))] if has_topic else []
        yield Topic(f"Option {option}", (*meanings, *more))

    if not is_rule and not meanings:
        area = _explain_area(_COMMANDS_OF_AREAS.get(word, word.removesuffix(".*")))
        if area is not None:
            yield area


def _explain_name_in_other_programs(name: str) -> Topic:
    """Return the commands that do what a command of this name does in other programs."""
    commands = [COMMAND_SYNONYMS[name].split()[0], *FURTHER_COMMANDS.get(name, ())]
    return Topic(f"Commands for {name}", (ExampleLines(tuple(f"deltacli help {command}" for command in commands)),))


def _find_meanings(option: str) -> list[TopicBlock]:
    """Return each meaning of an option with the commands that have it; empty if none has."""
    commands: dict[tuple[str, str], list[str]] = {}
    for command, spelled, text in list_options():
        if option in names_in(spelled):
            commands.setdefault((spelled, text), []).append(command)

    # The program, whose name is empty, has the options that all commands share.
    all_commands = "all others" if len(commands) > 1 else "all"
    meanings: list[TopicBlock] = []
    for entry, names in commands.items():
        owners = all_commands if "" in names else list_commands(names)
        meanings.append(Definitions((entry, ("commands", owners))))
    return meanings


def _read_rules() -> dict[tuple[str, ...], Mapping[str, str]]:
    """Return the command that lists rules -> their ids, with what they check."""
    table_rules = (*CATALOGUE.rules.values(), *PAIMON_CATALOGUE.rules.values())
    share_rules = [rule for area in areas() for rule in area.rules]
    return {
        ("validate",): {rule.id: rule.checks for rule in table_rules},
        ("share", "test"): {rule.id: rule.checks for rule in share_rules},
    }


def _find_rules(name: str) -> dict[tuple[str, ...], list[str]]:
    """Return the command that lists rules -> the rules with this id, or else those whose last part it is."""
    known = _read_rules()
    rules = {command: [rule for rule in ids if rule == name] for command, ids in known.items()}
    if not any(rules.values()):
        rules = {command: [rule for rule in ids if rule.endswith(f".{name}")] for command, ids in known.items()}
    return {command: names for command, names in rules.items() if names}


def _explain_area(area: str) -> Topic | None:
    """Return the rules and the codes of an area, such as `log`; None if it has none."""
    beginning = f"{area}."
    meanings: dict[str, str] = {}
    for rules in _read_rules().values():
        for rule, checks in rules.items():
            if rule.startswith(beginning):
                meanings[rule] = checks.replace("`", "")
    for code, topic in read_topics().items():
        if topic.is_code and code.startswith(beginning) and code not in meanings:
            meanings[code] = _find_meaning_of_code(topic)
    if not meanings:
        return None

    definitions = Definitions(tuple(meanings.items()))
    is_command = area in COMMANDS or area in GROUPS
    more = [ExampleLines((f"deltacli help {area}",))] if is_command else []
    return Topic(f"Rules and codes of {area}", (definitions, *more))


def _find_meaning_of_code(topic: Topic) -> str:
    definitions = topic.blocks[0]
    assert isinstance(definitions, Definitions)
    return next((text for label, text in definitions.rows if label not in _NOT_THE_MEANING), "")


def _explain_similar_word(word: str, name: str, run: Run) -> int:
    """Explain a word that differs in case only.

    Args:
        word: The words of the user.
        name: The same as one word.
        run: Runs a command line.

    Raises:
        UsageError: For any other word, with words that are similar.
    """
    rules = [rule for ids in _read_rules().values() for rule in ids]
    options = [option for _command, spelled, _text in list_options() for option in names_in(spelled)]
    known_words = {known.lower(): known for known in (*COMMANDS, *GROUPS, *read_topics(), *rules, *options)}
    sought = {word.lower(), name.lower()}
    for key in sought & known_words.keys() - {word, name}:
        same = known_words[key]
        if same in read_pages():
            sys.stdout.write(fold_common(read_pages()[same]) + "\n")
            sys.stdout.flush()
            return 0
        return explain_word(["help", same] if same.startswith("-") else [same], run)

    suggestions = _suggest_words(sought, known_words)
    meant = f"; did you mean {' or '.join(map(repr, suggestions))}?" if suggestions else ""
    kinds = "a command, an option, a rule, a code, a property, a feature, a variable or a topic"
    hint = f"deltacli help {suggestions[0] if suggestions else 'topics'}"
    raise UsageError(f"{word!r} is not {kinds}{meant}", hint=hint)


def _suggest_words(sought: set[str], known_words: Mapping[str, str]) -> list[str]:
    """Return the words that were probably meant: those that begin like it, are similar, or contain it.

    Args:
        sought: The unknown word in lower case, in one or two spellings.
        known_words: All words by themselves in lower case.
    """
    similar = [
        match for word in sought for match in get_close_matches(word, known_words, _MOST_SUGGESTIONS, _LEAST_SIMILARITY)
    ]
    # Words of three letters are part of too many others.
    containing = [known for known in known_words if any(part in known for part in sought if len(part) > 3)]
    containing.sort(key=len)
    beginning = [known for known in containing if known.startswith(tuple(sought))]
    matches = dict.fromkeys([*beginning, *similar, *containing])
    return [known_words[match] for match in matches][:_MOST_SUGGESTIONS]
