"""The error for an option without a value, such as `vacuum t --retention`."""

from __future__ import annotations

import re
from itertools import pairwise

from deltacli.cli.invocation import invocation
from deltacli.cli.parameter_types import get_choices, is_whole_number
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.cli.vendored_click import Command, Parameter
from deltacli.core.errors import PLACEHOLDERS, UsageError, quote_word


def make_missing_value_error(command: Command, option: Parameter, name: str, following: str | None) -> UsageError:
    """Return the error for an option without a value.

    If the option has a fixed set of values, the error lists them. Otherwise, its hint is the command line
    with a placeholder for the value, for example `deltacli vacuum t --retention DURATION`.

    Args:
        command: The command.
        option: The option.
        name: The option as the user typed it: `-n` or `--limit`.
        following: The option that follows in place of a value; None at the end of the command line.
    """
    message = f"{name} needs a value"
    if following is not None:
        message += f", but an option follows: {following}"

    facts: dict[str, str] = {}
    choices = get_choices(command, option)
    if choices:
        facts["expected"] = ", ".join(choices)
        return UsageError(message, facts=facts)

    # A value that begins with `-` can be joined to the option by `=`. Negative numbers are no such values.
    if following not in (None, "--") and not is_whole_number(command, option):
        longest_name = max(option.opts, key=len)
        facts["for such a value"] = f"{longest_name}={quote_word(following or '')}"

    # Insert the placeholder after the option.
    words = invocation.arguments
    pairs = pairwise([*words, None])
    position = next(index for index, pair in enumerate(pairs, 1) if pair == (name, following))
    hint = repeat_command([*words[:position], _choose_placeholder(option), *words[position:]])
    return UsageError(message, facts=facts, hint=hint)


def _choose_placeholder(option: Parameter) -> str:
    """Return a placeholder for the value of an option, such as `DURATION`, from its metavar in the help."""
    metavar: str = getattr(option, "metavar", None) or ""
    name = re.split(r"[^A-Z]", metavar)[0]
    if name == "DIR":
        return "DIRECTORY"
    return name if name in PLACEHOLDERS else "VALUE"
