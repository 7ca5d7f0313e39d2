"""The error of an option that has no value, with the command line that the user completes."""

from __future__ import annotations

import re
from itertools import pairwise

from deltacli.cli.invocation import invocation
from deltacli.cli.parameter_types import choices_of, is_whole_number
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.cli.vendored_click import Command, Parameter
from deltacli.core.errors import PLACEHOLDERS, UsageError, quote_word


def refuse_missing_value(command: Command, option: Parameter, name: str, following: str | None) -> UsageError:
    """Return the error for an option without a value, which is the last word or is followed by another option."""
    message = f"{name} needs a value"
    if following is not None:
        message += f", but an option follows: {following}"

    facts: dict[str, str] = {}
    if choices := choices_of(command, option):
        facts["expected"] = ", ".join(choices)
        return UsageError(message, facts=facts)
    if following not in (None, "--") and not is_whole_number(command, option):
        facts["for such a value"] = f"{max(option.opts, key=len)}={quote_word(following or '')}"

    words = invocation.arguments
    pairs = pairwise([*words, None])
    position = next(index for index, pair in enumerate(pairs, 1) if pair == (name, following))
    hint = repeat_command([*words[:position], _find_placeholder(option), *words[position:]])
    return UsageError(message, facts=facts, hint=hint)


def _find_placeholder(option: Parameter) -> str:
    """Return the word that stands for the value of an option in a command line that the user completes."""
    metavar: str = getattr(option, "metavar", None) or ""
    name = re.split(r"[^A-Z]", metavar)[0]
    if name == "DIR":
        return "DIRECTORY"
    return name if name in PLACEHOLDERS else "VALUE"
