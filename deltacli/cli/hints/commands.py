"""Suggest what was probably meant by an unknown command, or by an unknown action of a command such as `properties`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from deltacli.cli.command_table import COMMANDS, GROUPS
from deltacli.cli.command_tree import get_command_path, is_command, is_path_prefix
from deltacli.cli.hints.suggestion import Suggestion
from deltacli.cli.other_programs import COMMAND_SYNONYMS, COMMANDS_THAT_WRITE_ROWS, TABLE_COMMANDS_OF_GROUPS
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.core.errors import nearest_name, quote_word

_LEAST_SIMILARITY_OF_COMMANDS = 0.65
_LEAST_SIMILARITY_OF_FEATURES = 0.75

_WORDS_BEHIND_TABLE = {
    "changes": ("--from", "0"),
    "history": (),
    "optimize": ("--dry-run",),
    "read": (),
    "repair": ("--dry-run",),
    "restore": ("--version", "VERSION", "--dry-run"),
    "snapshot": (),
    "stats": ("--dry-run",),
    "undelete": ("--dry-run",),
    "vacuum": ("--dry-run",),
    "validate": (),
}
"""Command -> what follows its table in a hint, so that the command can be pasted and changes nothing."""

_ACTIONS_OF_OTHERS = {
    "add-column": ("add",),
    "delete": ("drop", "unset"),
    "disable": ("drop", "unset"),
    "drop-column": ("drop",),
    "enable": ("add", "set"),
    "remove": ("drop", "unset"),
    "rename-column": ("rename",),
    "show": ("get",),
}
"""Another word for an action -> the actions that it may mean."""


def suggest_command(group: str, word: str, words: Sequence[str]) -> Suggestion | None:
    """Return the command that was meant by an unknown word.

    Args:
        group: The group that the word stands behind; "" for the program.
        word: The unknown word.
        words: The words behind it.
    """
    if group in TABLE_COMMANDS_OF_GROUPS and ("://" in word or "#" in word or os.path.exists(word)):
        return _suggest_command_for_place(group, word, words)
    if (group, word) == ("log", "ls"):
        return Suggestion("'history'", repeat_command(["history", *words]))
    if not group:
        suggestion = _suggest_top_command(word, words)
        if suggestion is not None:
            return suggestion
    return _suggest_similar_command(group, word, words)


def _suggest_command_for_place(group: str, place: str, words: Sequence[str]) -> Suggestion:
    """Return the command of a group for a table, a profile or a policy file in the place of a command."""
    name = TABLE_COMMANDS_OF_GROUPS[group]
    if group == "share" and ("#" in place or place.endswith(".share")):
        name = "share ls"
    elif group == "fleet" and place.endswith(".toml"):
        name = "fleet plan"
    return Suggestion(repr(name), repeat_command([*name.split(), place, *words]))


def _suggest_top_command(word: str, words: Sequence[str]) -> Suggestion | None:
    """Return the command that was meant by a word right behind the program, or the fact that there is none."""
    path = get_command_path(words)
    is_table_before_command = is_command(path) and ("/" in word or os.path.exists(word))
    if is_table_before_command:
        return Suggestion(repr(" ".join(path)), repeat_command([*path, word, *words[len(path) :]]))
    is_table_alone = not words and ("://" in word or os.path.isdir(word))
    if is_table_alone:
        return Suggestion("'snapshot'", repeat_command(["snapshot", word]))

    if word == "version":
        return Suggestion("--version", "deltacli --version")
    if word == "compact":
        hint = f"deltacli optimize {quote_word(words[0])} --dry-run" if len(words) == 1 else "deltacli optimize --help"
        return Suggestion("'optimize' or 'log compact'", hint)
    if word in COMMAND_SYNONYMS:
        return _suggest_for_other_program(word, words)
    if word in COMMANDS_THAT_WRITE_ROWS:
        return Suggestion(None, "deltacli --help", "deltacli does not write rows")
    return None


def _suggest_for_other_program(word: str, words: Sequence[str]) -> Suggestion | None:
    """Return the command that does what a command of this name does in other programs."""
    if words and is_path_prefix(tuple(words[:1])):  # describe history TABLE
        return Suggestion(repr(words[0]), repeat_command(words))
    if words and words[0] in COMMAND_SYNONYMS:  # table info TABLE
        return suggest_command("", words[0], words[1:])

    name = COMMAND_SYNONYMS[word]
    command, *options = name.split()
    words_behind_table = _WORDS_BEHIND_TABLE.get(command)
    has_only_table = len(words) == 1 and not words[0].startswith("-")
    if words_behind_table is None or not has_only_table:
        return Suggestion(repr(name), f"deltacli {command} --help")
    return Suggestion(repr(name), repeat_command([command, *words, *options, *words_behind_table]))


def _suggest_similar_command(group: str, word: str, words: Sequence[str]) -> Suggestion | None:
    """Return the command of a group with exactly this name, else the nearest one."""
    commands = _list_words_behind(group)
    of_groups = [name for name in (*COMMANDS, *GROUPS) if not group and name.split()[1:] == [word]]
    if of_groups:
        names = " or ".join(map(repr, of_groups))
        if words and os.path.isdir(words[0]):  # a table; these are commands for a policy file, or a share
            return Suggestion(names, f"deltacli {of_groups[0]} --help")
        return Suggestion(names, _repeat_with_command(group, of_groups[0], words))

    nearest = nearest_name(word, commands, cutoff=_LEAST_SIMILARITY_OF_COMMANDS)
    # `delete` is no misspelt `undelete`, but its opposite.
    if nearest and nearest != f"un{word}":
        return Suggestion(repr(nearest), _repeat_with_command(group, nearest, words))
    if group:
        return Suggestion(None, f"deltacli {group} --help", f"the commands of {group} are {', '.join(commands)}")
    return None


def _repeat_with_command(group: str, name: str, words: Sequence[str]) -> str:
    """Return the command line with a command of a group, or the help of a group without one of its commands."""
    path = [*group.split(), *name.split()]
    names_command = bool(words) and is_path_prefix((*path, words[0]))
    if not group and name in GROUPS and not names_command:
        return f"deltacli {name} --help"
    return repeat_command([*path, *words])


def _list_words_behind(group: str) -> list[str]:
    """Return the words that can follow a group, in the order of the table of commands."""
    path = group.split()
    depth = len(path)
    names = [name.split() for name in (*COMMANDS, *GROUPS)]
    return list(dict.fromkeys(words[depth] for words in names if words[:depth] == path and len(words) > depth))


def suggest_action(word: str, actions: Sequence[str], path: Sequence[str], words: Sequence[str]) -> Suggestion | None:
    """Return the action behind a table that was meant: before the table, by another name, or misspelled.

    Args:
        word: What stands in the place of the action.
        actions: The actions of the command.
        path: The words that lead to the command.
        words: The words behind them.
    """
    is_action_before_table = list(words[1:2]) == [word] and words[0] in actions  # properties get TABLE
    if is_action_before_table:
        return Suggestion(None, repeat_command([*path, word, words[0], *words[2:]]))
    if word not in words:
        return None

    position = words.index(word)
    missing_action = _find_missing_action(word, path) if position == 1 else None
    if missing_action is not None:
        hint = repeat_command([*path, words[0], missing_action, *words[position:]])
        return Suggestion(repr(missing_action), hint)

    other_names = [action for action in _ACTIONS_OF_OTHERS.get(word, ()) if action in actions]
    action = other_names[0] if other_names else nearest_name(word, actions)
    if action is None:
        return None
    return Suggestion(repr(action), repeat_command([*path, *words[:position], action, *words[position + 1 :]]))


def _find_missing_action(word: str, path: Sequence[str]) -> str | None:
    """Return the action that was left out before a property or a feature; None for another word."""
    if path == ("properties",) and "." in word:
        return "set" if "=" in word else "get"
    if path == ("features",):
        # Features are known without a table, but no other command line needs them.
        from deltacli.delta.protocol.features import FEATURES

        feature = nearest_name(word, FEATURES, ignores_case=True, cutoff=_LEAST_SIMILARITY_OF_FEATURES)
        return "add" if feature else None
    return None
