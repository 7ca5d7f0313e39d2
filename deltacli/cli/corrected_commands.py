"""Repeat the command line of the user with one part corrected: a misspelled word, a version, or the path of the table.

The result is suggested as the hint of an error. A function returns None if it cannot tell which word to
correct: a wrong suggestion is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with_flags
from deltacli.core import errors
from deltacli.core.errors import quote_table
from deltacli.core.times import UNITS_MS

_CLOUD_PATH = re.compile(r"(s3|gs|abfss?|az|dbfs)(?::/+(?!/)|//)")
"""The beginning of a misspelled URI, such as `s3:/bucket/t` or `s3//bucket/t`."""

_URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def correct_misspelled_word(error: errors.DeltacliError, arguments: Sequence[str]) -> str | None:
    """Return the command line in which the misspelled word of an error is replaced by the suggested one.

    The word may be part of an argument: in `--columns id,nmae` only the second name is replaced.

    Returns:
        The command line. None if the error suggests no word, or if the misspelled word does not occur exactly once.
    """
    if error.suggestion is None or error.wrong_word is None:
        return None
    suggestion = error.suggestion
    wrong_word = re.compile(rf"(?<![^,=:]){re.escape(error.wrong_word)}(?![^,=:])")
    positions = [position for position, word in enumerate(arguments) if wrong_word.search(word)]
    if len(positions) != 1:
        return None
    position = positions[0]
    if len(wrong_word.findall(arguments[position])) != 1:
        return None

    words = list(arguments)
    words[position] = wrong_word.sub(lambda _: suggestion, words[position])

    # In `--retention 7 days` the unit is an argument of its own. Join both to `7d`.
    following = words[position + 1] if position + 1 < len(words) else ""
    unit = following.lower().removesuffix("s")
    if error.wrong_word.isdecimal() and unit in UNITS_MS:
        words[position : position + 2] = [wrong_word.sub(f"{error.wrong_word}{unit[0]}", arguments[position])]
    return repeat_command(words)


def correct_condition(condition: str, corrected: str, arguments: Sequence[str]) -> str | None:
    """Return the command line with another condition for `--where`; None if it does not contain the condition."""
    words: list[str] = []
    for word in arguments:
        if word == condition:
            words.append(corrected)
        elif word == f"--where={condition}":
            words.append(f"--where={corrected}")
        else:
            words.append(word)
    return repeat_command(words) if words != list(arguments) else None


def replace_timestamp_by_version(version: str, timestamp_ms: int, arguments: Sequence[str]) -> str | None:
    """Return the command line with a version instead of a timestamp; None if it does not contain the timestamp.

    For example, `snapshot t --timestamp 2020-01-01` becomes `snapshot t --version 0`.

    Args:
        version: The version to insert.
        timestamp_ms: The timestamp to replace, in epoch milliseconds.
        arguments: The words of the current command line.
    """
    # `log cat` takes the version as an argument, not as an option.
    is_argument = get_command_path(arguments) == ("log", "cat")

    words: list[str] = []
    for previous, word in pairwise(["", *arguments]):
        name, equals, value = word.partition("=")
        if not _is_timestamp(value if equals else word, timestamp_ms):
            words.append(word)
        elif "--timestamp" not in (previous, name):
            # The value of another option, such as `--from`, which accepts versions as well as timestamps.
            words.append(f"{name}={version}" if equals else version)
        elif equals:
            words.append(version if is_argument else f"--version={version}")
        else:
            # Replace `--timestamp`, the word before.
            words[-1:] = [version] if is_argument else ["--version", version]
    return repeat_command(words) if words != list(arguments) else None


def _is_timestamp(text: str, timestamp_ms: int) -> bool:
    from deltacli.cli.options.moments import parse_timestamp

    try:
        return parse_timestamp(text.removeprefix("version:")) == timestamp_ms
    except (errors.UsageError, OverflowError):
        return False


def correct_range_of_changes(error: errors.DeltacliError, arguments: Sequence[str]) -> str | None:
    """Return the command line of `changes` with the version range that the hint of an error suggests.

    Options that are missing from the command line are added: without `--to`, the command would fail again.
    Other options of the user are not changed.

    Returns:
        The command line. None for other commands, and for hints without a range.
    """
    first_version = errors.get_command_option(error.hint, "from_version")
    last_version = errors.get_command_option(error.hint, "to_version")
    if first_version is None or get_command_path(arguments) != ("changes",):
        return None
    versions = {"--from": str(first_version)}
    if last_version is not None:
        versions["--to"] = str(last_version)

    words: list[str] = []
    for previous, word in pairwise(["", *arguments]):
        name, equals, _ = word.partition("=")
        if previous in versions:
            words.append(versions[previous])
        elif equals and name in versions:
            words.append(f"{name}={versions[name]}")
        else:
            words.append(word)

    typed_options = {word.partition("=")[0] for word in arguments}
    additions: list[str] = []
    for option, version in versions.items():
        if option not in typed_options:
            additions += [option, version]
    return repeat_command_with_flags(words, additions)


def replace_absent_version(error: errors.VersionAbsent, arguments: Sequence[str]) -> str | None:
    """Return the command line with the nearest existing version instead of the absent one.

    Returns:
        The command line. None if the absent version does not occur exactly once, or if the new range of versions would
        be empty.
    """
    if error.nearest is None:
        return None
    # The version is an argument, or the end of one: `--version=7`, `version:7`.
    absent_version = re.compile(rf"(?:(?<==)|(?<=:)|\A){error.wanted}\Z")
    words = [absent_version.sub(str(error.nearest), word) for word in arguments]
    changed_words = [word for word, typed_word in zip(words, arguments, strict=True) if word != typed_word]
    if len(changed_words) != 1:
        return None

    # `log compact` requires a range of at least two commits.
    last_start = error.nearest - 1 if get_command_path(arguments) == ("log", "compact") else error.nearest
    start = _find_integer_value(words, "--from")
    if start is not None and start > last_start:
        return None
    return repeat_command(words)


def _find_integer_value(arguments: Sequence[str], option: str) -> int | None:
    """Return the first value of an option that is an integer."""
    for previous, word in pairwise(arguments):
        name, _, value = word.partition("=")
        text = value if name == option else word
        if option in (name, previous) and re.fullmatch(r"\d+", text):
            return int(text)
    return None


def replace_table(arguments: Sequence[str], table: str, replacement: str) -> str:
    """Return the command line with another table. If the table is not in the command line, the other one is added."""
    words: list[str] = []
    for word in arguments:
        option, _, value = word.partition("=")
        if word == table:
            words.append(replacement)
        elif option.startswith("--") and value == table:
            words.append(f"{option}={replacement}")
        else:
            words.append(word)

    additions = [replacement.removeprefix("./")] if words == list(arguments) else []
    return repeat_command_with_flags(words, additions)


def correct_cloud_uri(arguments: Sequence[str], table: str) -> str | None:
    """Return the command line with the URI that a missing local path resembles.

    For example, `s3:/bucket/t` becomes `s3://bucket/t`, and `dbfs:/mnt/t` becomes `/dbfs/mnt/t`: Databricks mounts DBFS
    at this path.

    Returns:
        The command line; None if the path does not resemble a URI.
    """
    match = _CLOUD_PATH.match(table)
    if match is None or table.startswith(f"{match[1]}://"):
        return None
    path = table[match.end() :]
    uri = f"/dbfs/{path}" if match[1] == "dbfs" else f"{match[1]}://{path}"
    return replace_table(arguments, table, uri)


def correct_local_path(arguments: Sequence[str], table: str) -> str | None:
    """Return the command line with the directory whose name resembles a missing local path.

    Returns:
        The command line. If no name is similar, `ls` of the nearest existing parent directory. None if the path exists,
        or is not a local path.
    """
    if _URI_SCHEME.match(table) or "#" in table or os.path.exists(table):
        return None
    similar_directory = errors.nearest_directory(table)
    if similar_directory is not None:
        return replace_table(arguments, table, similar_directory)

    path = table.rstrip("/")
    parent = path
    while parent == path or not os.path.isdir(parent):
        parent = os.path.dirname(parent) or ("/" if table.startswith("/") else ".")
    return f"ls {quote_table(parent)}"
