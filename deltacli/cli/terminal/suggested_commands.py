"""Commands that a message suggests: the current command line with a change, without its secrets.

`deltacli.core.errors` quotes their words and fills in the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote

from deltacli.cli.terminal.typed_secrets import mask_typed_secrets
from deltacli.core.errors import CommandLine, Refused, is_command, quote_table, quote_word

_REMARK = "   #"
"""What separates a suggested command from a remark on it."""

_OPENING_OPTIONS = (
    "--storage-option",
    "--allow-external",
    "--table-format",
    "--access",
    "--config",
    "--profile-name",
    "--catalog-profile",
)
"""Options that decide which table is opened, and how. Another command on the table needs them, too."""

_COMMANDS_WITHOUT_TABLE = {"share", "fleet", "help", "spark"}

_SERVER_COMMANDS = ("check", "key", "recipient", "serve", "token")
"""Commands of `share` that read the configuration of the server."""

CLUSTER_OPTIONS = ("--engine", "--master", "--remote", "--spark-conf")


def repeat_command(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line, without its secrets."""
    return CommandLine(" ".join(["deltacli", *map(quote_word, mask_typed_secrets(arguments))]))


def repeat_command_with(
    arguments: Sequence[str], option: str, value: str | None = None, *, is_repeatable: bool = False
) -> CommandLine:
    """Return the current command line with another value of an option, an additional value, or a flag.

    Args:
        arguments: The words of the current command line.
        option: The option, such as `--limit`.
        value: Its value; None for a flag.
        is_repeatable: Whether the option may be there several times, so that the value is an additional one.
    """
    if is_repeatable:
        words = list(arguments)
    elif value is None:
        words = [word for word in arguments if word != option and not word.startswith(f"{option}=")]
    else:
        words = _remove_last_values(arguments, option)
    return repeat_command_with_flags(words, [option] if value is None else [option, value])


def _remove_last_values(arguments: Sequence[str], option: str) -> list[str]:
    """Return the words without an option and the words that follow it as its values."""
    words: list[str] = []
    is_value = False
    for word in arguments:
        if is_value:
            is_value = False
        elif word == option:
            is_value = True
        elif not word.startswith(f"{option}="):
            words.append(word)
    return words


def repeat_command_with_flags(arguments: Sequence[str], flags: Sequence[str]) -> CommandLine:
    """Return the current command line with more words at the end of its options."""
    end = _find_end_of_options(arguments)
    return repeat_command([*arguments[:end], *flags, *arguments[end:]])


def repeat_command_without_flag(arguments: Sequence[str], flag: str) -> CommandLine:
    """Return the current command line without a flag."""
    end = _find_end_of_options(arguments)
    options = [word for word in arguments[:end] if word != flag]
    return repeat_command([*options, *arguments[end:]])


def repeat_command_without_limit(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line with every row."""
    return repeat_command_with(arguments, "--limit", "0")


def repeat_command_without_cluster(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line without the options that choose a cluster."""
    return repeat_command(reduce(remove_option, CLUSTER_OPTIONS, [*arguments]))


def remove_option(arguments: Sequence[str], option: str) -> list[str]:
    """Return a command line without an option and its value."""
    words = zip(["", *arguments], arguments, strict=False)
    return [word for last, word in words if option not in (last, word) and not word.startswith(f"{option}=")]


def remove_option_value(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """Return a command line without an option of this value; the option may be there with other values, too."""
    # The words are joined by a character that none of them can contain.
    option_and_value = rf"\0{option}[=\0]{re.escape(value)}(?=\0|\Z)"
    return re.sub(option_and_value, "", "\0" + "\0".join(arguments))[1:].split("\0")


def _find_end_of_options(arguments: Sequence[str]) -> int:
    """Return the place of `--`, behind which every word is an argument; the end if there is none."""
    return list(arguments).index("--") if "--" in arguments else len(arguments)


def spell_tables_as_typed(text: str, arguments: Sequence[str]) -> str:
    """Return a text in which the URI of a local table is written as on the command line."""
    if "file://" not in text:
        return text
    typed = {f"file://{quote(os.fsencode(os.path.abspath(word)))}": word for word in arguments if word}

    def spell(match: re.Match[str]) -> str:
        uri = match[0]
        return quote_table(typed[uri]) if uri in typed else uri

    return re.sub(r"file://[^\s'\"]+", spell, text)


def suggest_own_retention(refused: Refused, arguments: Sequence[str], override: str, condition: str) -> None:
    """Make the run with the table's own retention the hint of a refusal, and the overriding one a fact.

    Args:
        refused: The refusal of a retention that is too short. It is changed.
        arguments: The words of the current command line.
        override: The option that overrides the refusal, with its value.
        condition: The name of the fact, which says when the overriding command is right.
    """
    option, _, value = override.partition(" ")
    refused.facts[condition] = repeat_command_with(arguments, option, value or None)
    refused.hint = repeat_command(remove_option(arguments, "--retention"))


class _Suggestion(NamedTuple):
    """A suggested command and a remark behind it, which begins with ` #`."""

    line: str
    remark: str

    @classmethod
    def parse(cls, advice: str) -> _Suggestion:
        line, separator, remark = advice.partition(_REMARK)
        return cls(line, separator + remark)

    def join(self, *words: str) -> CommandLine:
        """Return the suggestion with more words at the end of its command."""
        return CommandLine(" ".join([self.line, *words]) + self.remark)


def add_context_options(advice: str, arguments: Sequence[str]) -> str:
    """Return a suggested command with what the current command line says about where to work.

    That is the configuration of the server for commands of `share`, the policy file and the journal for commands of
    `fleet`, and the options for opening tables for all others. Without them the command would work on others.

    Args:
        advice: The suggested command, perhaps with a remark behind ` # `. A sentence is returned unchanged.
        arguments: The words of the current command line.
    """
    if not is_command(advice):
        return advice
    words = advice.split()
    current_group = arguments[0] if arguments else ""
    suggested_group = words[1] if len(words) > 1 else ""

    if current_group in ("share", "fleet") and current_group == suggested_group:
        suggestion = _Suggestion.parse(advice)
        if current_group == "share":
            return _add_server_configuration(suggestion, words, arguments)
        return _add_policy_file(suggestion, words, arguments)

    is_on_table = not _COMMANDS_WITHOUT_TABLE & {suggested_group, current_group} and "--help" not in words
    return _add_opening_options(_Suggestion.parse(advice), arguments) if is_on_table else advice


def _add_server_configuration(suggestion: _Suggestion, words: Sequence[str], arguments: Sequence[str]) -> CommandLine:
    """Return a command of `share` with the `--config` of the current command line in place of the usual one."""
    configuration = _find_typed_option(arguments, "--config", "-c")
    if words[2] not in _SERVER_COMMANDS or not configuration:
        return suggestion.join()

    suggestion = suggestion._replace(line=suggestion.line.replace(" --config shares.yaml", ""))
    # `share serve TABLE` shares tables without a configuration.
    serves_tables = words[2] == "serve" and len(words) > 3 and not words[3].startswith("-")
    if " --config " in suggestion.line or serves_tables:
        return suggestion.join()
    return suggestion.join(*configuration)


def _add_policy_file(suggestion: _Suggestion, words: Sequence[str], arguments: Sequence[str]) -> CommandLine:
    """Return a command of `fleet` with the policy file and the journal of the current command line."""
    additions: list[str] = []
    if ".toml" not in suggestion.line:
        policy_files = [
            word for previous, word in pairwise(arguments) if word.endswith(".toml") and previous != "--config"
        ]
        additions += map(quote_word, policy_files[:1])
    if words[2] in ("run", "status") and "--state" not in words:
        additions += _find_typed_option(arguments, "--state")
    return suggestion.join(*additions)


def _add_opening_options(suggestion: _Suggestion, arguments: Sequence[str]) -> CommandLine:
    """Return a command with the options for opening tables of the current command line, except secrets."""
    line = suggestion.line
    for option, value in _find_opening_options(arguments):
        is_missing = f"{option} {quote_word(value)}" not in line and f"{option}=" not in line
        if is_missing:
            line += f" {option} {quote_word(value)}"
    return CommandLine(line + suggestion.remark)


def _find_opening_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options for opening tables and their values, without those that hold secrets."""
    typed_words = pairwise([*arguments, ""])
    masked_words = pairwise([*mask_typed_secrets(arguments), ""])
    for (word, following), (masked_word, masked_following) in zip(typed_words, masked_words, strict=True):
        option, equals, value = word.partition("=")
        if option not in _OPENING_OPTIONS:
            continue
        if not equals:
            value = following
        is_secret = masked_word != word if equals else masked_following != following
        if not is_secret:
            yield option, value


def _find_typed_option(arguments: Sequence[str], *spellings: str) -> list[str]:
    """Return an option by its first spelling, and its value as a word for a shell; nothing if it was not typed."""
    name = spellings[0]
    for word, following in pairwise([*arguments, ""]):
        if word in spellings:
            return [name, quote_word(following)]
        if word.startswith(f"{name}="):
            return [name, quote_word(word.partition("=")[2])]
    return []


def remove_consent(advice: str, arguments: Sequence[str]) -> str:
    """Return a suggested command without the consent that the user gave to the current command line.

    A command that differs from the typed one does something else, to which nobody has agreed: it has `--dry-run` in
    place of `--yes` if it knows that option, and no `--force`.
    """
    typed_consents = {"--yes", "--force"} & {*arguments}
    if not typed_consents or not is_command(advice) or advice == repeat_command(arguments):
        return advice
    # The declarations of commands are needed for this only, after an error.
    from deltacli.cli.command_loading import has_option
    from deltacli.cli.command_table import COMMANDS

    suggestion = _Suggestion.parse(advice)
    line = suggestion.line
    name = next((name for name in COMMANDS if line.startswith(f"deltacli {name} ")), "")
    can_be_planned = has_option(tuple(name.split()), "--dry-run")
    is_dry_run = re.search(r" --dry-run(?= |\Z)", line) is not None
    dry_run = " --dry-run" if can_be_planned and not is_dry_run else ""
    for consent in typed_consents:
        line = re.sub(rf" {consent}(?= |\Z)", dry_run if consent == "--yes" else "", line)
    return CommandLine(line + suggestion.remark)
