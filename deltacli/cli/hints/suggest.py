"""Find what was probably meant by a command line that the parser refused."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.hints.commands import suggest_command
from deltacli.cli.hints.options import suggest_option
from deltacli.cli.hints.suggestion import Suggestion, list_options
from deltacli.cli.hints.values import suggest_value
from deltacli.cli.hints.words import suggest_for_missing_words, suggest_for_unexpected_words
from deltacli.cli.options.values import InvalidValue
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.cli.usage_errors import UnexpectedWords, UnknownCommand
from deltacli.cli.vendored_click import MissingParameter, NoSuchOption


def find_suggestion(error: Exception, arguments: Sequence[str]) -> Suggestion | None:
    """Return what was probably meant; None where nothing is known.

    Args:
        error: The error of the parser.
        arguments: The words of the command line.
    """
    path = get_command_path(arguments)
    words = arguments[len(path) :]
    if isinstance(error, UnknownCommand):
        # Behind options of the program, the unknown word is not the first one.
        is_first = bool(words) and words[0] == error.word
        return suggest_command(" ".join(path), error.word, words[1:]) if is_first else None

    compares_versions = path == ("schema", "diff") and len(words) == 3 and "".join(words[1:]).isdecimal()
    if compares_versions:
        return Suggestion("'diff'", repeat_command(["diff", *words]))
    if isinstance(error, UnexpectedWords):
        return suggest_for_unexpected_words(error, arguments)
    if isinstance(error, MissingParameter):
        return suggest_for_missing_words(error, path, words)
    if isinstance(error, NoSuchOption):
        return suggest_option(error, error.option_name, list_options(error), arguments)
    if isinstance(error, InvalidValue):
        return suggest_value(error, path, arguments)
    return None
