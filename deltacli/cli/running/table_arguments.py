"""Check the tables of a command that accepts several, before any of them is opened.

A command such as `vacuum TABLE…` takes every further word for a table, also a word that belongs to an option. In
`vacuum trips 7d` the user probably means `--retention 7d`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with
from deltacli.core.errors import UsageError, is_shared
from deltacli.delta.log.segment import LOG_DIRECTORY

if TYPE_CHECKING:
    from deltacli.cli.hints.suggestion import Suggestion

_PATTERN_CHARACTERS = frozenset("*?[")


def require_tables(names: Sequence[str]) -> None:
    """Require that each of several local names can be a table.

    Args:
        names: The tables of the command line. A single name is not checked: opening it reports a better error.

    Raises:
        UsageError: If a name is not a table. The hint corrects the command line.
    """
    if len(names) <= 1:
        return
    for name in names:
        reason = _explain_not_a_table(name, names)
        if reason is None:
            continue

        suggestion = _suggest_option(name)
        if suggestion is not None:
            question = f"; did you mean {suggestion.name}?" if suggestion.name else ""
            raise UsageError(f"unexpected argument: {name}; {reason}{question}", hint=suggestion.hint)
        hint = None
        if os.path.exists(name):
            hint = repeat_command([word for word in invocation.arguments if word != name])
        raise UsageError(f"unexpected argument: {name}; {reason}", hint=hint)


def _explain_not_a_table(name: str, names: Sequence[str]) -> str | None:
    """Return the reason why a name is not a table.

    None means that the name may be a table. This includes URIs, because checking them takes requests, and directories
    that this process may not read.
    """
    if not name or "://" in name or name[:5].lower() == "file:" or is_shared(name):
        return None
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError):
        is_pattern = not _PATTERN_CHARACTERS.isdisjoint(name)
        return None if is_pattern else "there is no such file or directory"
    except (OSError, ValueError):
        return None
    if not stat.S_ISDIR(mode):
        return "it is a file"

    # A Delta table contains the directory `_delta_log`, a Paimon table the directory `schema`.
    is_table = any(os.path.isdir(os.path.join(name, subdirectory)) for subdirectory in (LOG_DIRECTORY, "schema"))
    if is_table or not os.access(name, os.R_OK | os.X_OK):
        return None
    for other in names:
        if _is_inside(name, other):
            return f"it is inside the table {other}"
    return f"it is a directory without {LOG_DIRECTORY}"


def _suggest_option(word: str) -> Suggestion | None:
    """Return the option whose value a word probably is; None if no option of the command fits."""
    from deltacli.cli.command_loading import has_option
    from deltacli.cli.hints.suggestion import Suggestion
    from deltacli.cli.hints.words import suggest_for_extra_word

    arguments = invocation.arguments
    command = get_command_path(arguments)
    exists = os.path.exists(word)
    if not exists:
        number_options = [option for option in ("--retention", "--version") if has_option(command, option)]
        suggestion = suggest_for_extra_word(word, number_options, arguments)
        if suggestion is not None:
            return suggestion

    option, value = _guess_option(word, exists=exists)
    is_used = any(argument.partition("=")[0] == option for argument in arguments)
    if not option or is_used or not has_option(command, option):
        return None
    other_arguments = [argument for argument in arguments if argument != word]
    return Suggestion(f"{option} {value}", repeat_command_with(other_arguments, option, value))


def _guess_option(word: str, *, exists: bool) -> tuple[str, str]:
    """Return the option that a word looks like, and its value. The option is empty if the word looks like none."""
    if word.isdecimal() and not exists:
        return "--retention", f"{word}d"
    if word.endswith(".parquet"):
        return ("--apply" if exists else "--save-plan"), word
    if exists:
        is_directory = os.path.isdir(word) and "=" not in word  # `date=2026-01-01` is a partition
        return ("--quarantine" if is_directory else ""), word
    is_column_list = re.fullmatch(r"[\w.,]+", word) is not None
    return ("--zorder" if is_column_list else ""), word


def _is_inside(name: str, other: str) -> bool:
    return os.path.realpath(name).startswith(os.path.realpath(other) + os.sep)
