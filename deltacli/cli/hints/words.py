"""Suggest what was probably meant by a command line with words that are missing, or too many."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob

from deltacli.cli.command_tree import HERE, get_command_path
from deltacli.cli.hints.suggestion import Suggestion, list_options, remove_word
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with
from deltacli.cli.usage_errors import UnexpectedWords, name_in_errors
from deltacli.cli.vendored_click import MissingParameter
from deltacli.storage import open_storage

_LETTERS_OF_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}


def suggest_for_unexpected_words(error: UnexpectedWords, arguments: Sequence[str]) -> Suggestion | None:
    """Return the command line without an empty word, or with a word too many in its right place."""
    if error.words == [""]:
        message = "an argument is empty: a variable of the script may be unset"
        return Suggestion(None, repeat_command([word for word in arguments if word]), message=message)
    word = error.words[0]
    is_one_word = len(error.words) == 1 and word != "" and not re.search(r"\s", word)
    return suggest_for_extra_word(word, list_options(error), arguments) if is_one_word else None


def suggest_for_extra_word(word: str, options: Sequence[str], arguments: Sequence[str]) -> Suggestion | None:
    """Return what was meant by a word too many: a version, a retention, the unit of a number, or another table.

    Args:
        word: The word.
        options: The options of the command.
        arguments: The words of the command line.
    """
    option = "--version" if word.isdecimal() else "--retention"
    is_given = any(argument.partition("=")[0] == option for argument in arguments)
    if re.fullmatch(r"\d+[smhdw]?", word) and option in options and not is_given:
        return Suggestion(f"{option} {word}", repeat_command_with(remove_word(arguments, word), option, word))

    position = list(arguments).index(word) if word in arguments else 0
    number = arguments[position - 1]
    unit = _LETTERS_OF_UNITS.get(word.lower().removesuffix("s"), word)
    is_number = position > 1 and re.fullmatch(r"(--[a-z-]+=)?\d+", number)
    if is_number and re.fullmatch("[smhdw]|[KMGT]i?B", unit):
        value = f"{number}{unit}"
        hint = repeat_command([*arguments[: position - 1], value, *arguments[position + 1 :]])
        return Suggestion(value.rpartition("=")[2], hint)

    if "://" in word or os.path.isdir(word):
        fact = f"{' '.join(get_command_path(arguments))} works on one table"
        return Suggestion(None, repeat_command([*arguments[:position], *arguments[position + 1 :]]), fact)
    return None


def suggest_for_missing_words(error: MissingParameter, path: Sequence[str], words: Sequence[str]) -> Suggestion | None:
    """Return the command line with what is missing, or the command that shows what it can be.

    Args:
        error: The error.
        path: The words that lead to the command.
        words: The words behind them.
    """
    if error.param is None:
        return None
    missing = name_in_errors(error.param)
    suggestion = _suggest_for_range(missing, path, words)
    if suggestion is not None:
        return suggestion

    profiles = sorted(glob("*.share")) if path == ("share", "ls") and missing == "SHARES" else []
    if profiles:
        return Suggestion(None, repeat_command([*path, profiles[0], *words]))
    if missing == "TABLE" and path[:1] != ("share",):
        return Suggestion(None, repeat_command([*path, HERE, *words]))
    # Nothing of the command was typed, or what is missing has no short name: help says more than a placeholder.
    if not words or not re.fullmatch("[A-Z]+( [A-Z]+)?", missing):
        return None
    is_first = all(word.startswith("-") for word in words)
    return Suggestion(None, repeat_command([*path, missing, *words] if is_first else [*path, *words, *missing.split()]))


def _suggest_for_range(missing: str, path: Sequence[str], words: Sequence[str]) -> Suggestion | None:
    """Return what is missing of the versions that `diff` and `changes` compare."""
    if path == ("diff",) and missing == "V1|OTHER":
        if len(words) == 1:
            return Suggestion(None, repeat_command(["history", *words]))
        versions = re.findall(r"--(?:from|to)[ =](\d+)", " ".join(words))
        if versions:
            return Suggestion(None, repeat_command(["diff", words[0], *versions]))

    if path == ("changes",):
        paimon_table = next(filter(is_local_paimon, words), None)
        if paimon_table is not None:
            message = "this is a Paimon table, and this command works on Delta tables only"
            return Suggestion(None, repeat_command(["snapshot", paimon_table]), message=message)
        if missing == "--from" and words:
            return Suggestion(None, repeat_command_with([*path, *words], "--from", "0"))
    return None


def is_local_paimon(word: str) -> bool:
    """Return True for the path of a Paimon table of this machine."""
    # Only a command line that is wrong, or names a point of either format, asks.
    from deltacli.operations.paimon.table_files import is_paimon

    return os.path.isdir(word) and not os.path.lexists(f"{word}/_delta_log") and is_paimon(open_storage(word))
