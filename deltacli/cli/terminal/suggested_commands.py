"""Format commands that messages suggest, such as the hint of an error.

A suggested command can be pasted into a shell. It contains no secrets, and no consent (`--yes`) to a change
that the user has not seen yet. There are two kinds:

* `repeat_command…` functions return the current command line with an option added, replaced or removed;
* `add_context_options` completes another command. For example, `deltacli history t` becomes
  `deltacli history t --storage-option region=eu-west-1` if the user typed this option.

`arguments` are always the words of the current command line, without `deltacli`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote

from deltacli.cli.terminal.typed_secrets import mask_typed_secrets
from deltacli.core.errors import CommandLine, Refused, is_command, quote_table, quote_word

_COMMENT_MARK = "   #"
"""The beginning of a shell comment after a suggested command."""

_OPENING_OPTIONS = (
    "--storage-option",
    "--allow-external",
    "--table-format",
    "--access",
    "--config",
    "--profile-name",
    "--catalog-profile",
)
"""Options for opening a table. A suggested command for the same table needs them, too."""

_COMMANDS_WITHOUT_TABLE = {"share", "fleet", "help", "spark"}

_SERVER_COMMANDS = ("check", "key", "recipient", "serve", "token")
"""Commands of `share` that read the configuration of the server, and so have `--config`."""

CLUSTER_OPTIONS = ("--engine", "--master", "--remote", "--spark-conf")
"""Options that select and configure a Spark cluster."""


def repeat_command(arguments: Sequence[str]) -> CommandLine:
    """Return a command line, quoted for a shell. Secrets are masked."""
    return CommandLine(" ".join(["deltacli", *map(quote_word, mask_typed_secrets(arguments))]))


def repeat_command_with(
    arguments: Sequence[str], option: str, value: str | None = None, *, is_repeatable: bool = False
) -> CommandLine:
    """Return the current command line with an option.

    Args:
        arguments: The words of the current command line.
        option: The option, such as `--limit`.
        value: The value of the option; None for a flag.
        is_repeatable: True for options that can be repeated. Then the value is added to the existing ones.
            Otherwise, it replaces the existing value.
    """
    if is_repeatable:
        words = list(arguments)
    elif value is None:
        words = [word for word in arguments if word != option and not word.startswith(f"{option}=")]
    else:
        words = _remove_last_values(arguments, option)
    return repeat_command_with_flags(words, [option] if value is None else [option, value])


def _remove_last_values(arguments: Sequence[str], option: str) -> list[str]:
    """Return the words of a command line without an option and its values."""
    words: list[str] = []
    is_value_of_option = False
    for word in arguments:
        if is_value_of_option:
            is_value_of_option = False
        elif word == option:
            is_value_of_option = True
        elif not word.startswith(f"{option}="):
            words.append(word)
    return words


def repeat_command_with_flags(arguments: Sequence[str], flags: Sequence[str]) -> CommandLine:
    """Return the current command line with more words, inserted before `--` if the command line contains it."""
    end = _find_end_of_options(arguments)
    return repeat_command([*arguments[:end], *flags, *arguments[end:]])


def repeat_command_without_flag(arguments: Sequence[str], flag: str) -> CommandLine:
    """Return the current command line without a flag, such as `--dry-run`."""
    end = _find_end_of_options(arguments)
    options = [word for word in arguments[:end] if word != flag]
    return repeat_command([*options, *arguments[end:]])


def repeat_command_without_limit(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line with `--limit 0`, which shows all rows."""
    return repeat_command_with(arguments, "--limit", "0")


def repeat_command_without_cluster(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line without `CLUSTER_OPTIONS`, so that it runs in this process."""
    words = list(arguments)
    for option in CLUSTER_OPTIONS:
        words = remove_option(words, option)
    return repeat_command(words)


def remove_option(arguments: Sequence[str], option: str) -> list[str]:
    """Return the words of a command line without an option and its value."""
    words: list[str] = []
    for previous, word in pairwise(["", *arguments]):
        is_option = word == option or word.startswith(f"{option}=")
        is_value = previous == option
        if not is_option and not is_value:
            words.append(word)
    return words


def remove_option_value(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """Return the words of a command line without one value of an option that may be repeated."""
    # Join the words by a null character, which command lines cannot contain, to search for adjacent words.
    option_and_value = rf"\0{option}[=\0]{re.escape(value)}(?=\0|\Z)"
    return re.sub(option_and_value, "", "\0" + "\0".join(arguments))[1:].split("\0")


def _find_end_of_options(arguments: Sequence[str]) -> int:
    """Return the index of `--`, after which all words are arguments. Without it, return the number of words."""
    return list(arguments).index("--") if "--" in arguments else len(arguments)


def spell_tables_as_typed(text: str, arguments: Sequence[str]) -> str:
    """Replace the `file://` URIs of tables by the paths that the user typed.

    For example, `deltacli history file:///home/ann/trips` becomes `deltacli history trips`.
    """
    if "file://" not in text:
        return text
    typed_paths = {f"file://{quote(os.fsencode(os.path.abspath(word)))}": word for word in arguments if word}

    def replace_uri(match: re.Match[str]) -> str:
        uri = match[0]
        return quote_table(typed_paths[uri]) if uri in typed_paths else uri

    return re.sub(r"file://[^\s'\"]+", replace_uri, text)


def suggest_own_retention(refused: Refused, arguments: Sequence[str], override: str, condition: str) -> None:
    """Change the hint of a refused retention to the command line without `--retention`.

    Then the retention in the table's properties applies. The command line that overrides the refusal becomes a
    fact, because it is dangerous.

    Args:
        refused: The refusal of a retention that is too short. It is changed.
        arguments: The words of the current command line.
        override: The option that overrides the refusal, with its value.
        condition: The name of the fact. It describes when the override is safe.
    """
    option, _, value = override.partition(" ")
    refused.facts[condition] = repeat_command_with(arguments, option, value or None)
    refused.hint = repeat_command(remove_option(arguments, "--retention"))


class _Suggestion(NamedTuple):
    """A suggested command.

    Attributes:
        line: The command line.
        comment: A shell comment after the command line, such as `   # 12 files`; "" if there is none.
    """

    line: str
    comment: str

    @classmethod
    def parse(cls, advice: str) -> _Suggestion:
        line, mark, comment = advice.partition(_COMMENT_MARK)
        return cls(line, mark + comment)

    def append(self, *words: str) -> CommandLine:
        """Return the suggestion with more words at the end of the command line, before the comment."""
        return CommandLine(" ".join([self.line, *words]) + self.comment)


def add_context_options(advice: str, arguments: Sequence[str]) -> str:
    """Return a suggested command with the options of the current command line that select its tables.

    * Commands of `share` get the configuration file of the server.
    * Commands of `fleet` get the policy file and the state file.
    * Other commands get the options for opening the table, such as `--storage-option`.

    Args:
        advice: The suggested command, optionally with a comment. A sentence is returned unchanged.
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

    if _COMMANDS_WITHOUT_TABLE & {suggested_group, current_group} or "--help" in words:
        return advice
    return _add_opening_options(_Suggestion.parse(advice), arguments)


def _add_server_configuration(suggestion: _Suggestion, words: Sequence[str], arguments: Sequence[str]) -> CommandLine:
    """Return a command of `share` with the `--config` of the current command line.

    Args:
        suggestion: The suggested command.
        words: Its words, beginning with `deltacli share`.
        arguments: The words of the current command line.
    """
    configuration = _find_typed_option(arguments, "--config", "-c")
    if words[2] not in _SERVER_COMMANDS or not configuration:
        return suggestion.append()

    # Replace the default name of the configuration file.
    suggestion = suggestion._replace(line=suggestion.line.replace(" --config shares.yaml", ""))
    # `share serve TABLE` serves tables without a configuration file.
    serves_tables = words[2] == "serve" and len(words) > 3 and not words[3].startswith("-")
    if " --config " in suggestion.line or serves_tables:
        return suggestion.append()
    return suggestion.append(*configuration)


def _add_policy_file(suggestion: _Suggestion, words: Sequence[str], arguments: Sequence[str]) -> CommandLine:
    """Return a command of `fleet` with the policy file and the state file of the current command line.

    Args:
        suggestion: The suggested command.
        words: Its words, beginning with `deltacli fleet`.
        arguments: The words of the current command line.
    """
    additions: list[str] = []
    if ".toml" not in suggestion.line:
        # The value of `--config` is the configuration file of deltacli, not a policy file.
        policy_files = [
            word for previous, word in pairwise(arguments) if word.endswith(".toml") and previous != "--config"
        ]
        additions += map(quote_word, policy_files[:1])
    if words[2] in ("run", "status") and "--state" not in words:
        additions += _find_typed_option(arguments, "--state")
    return suggestion.append(*additions)


def _add_opening_options(suggestion: _Suggestion, arguments: Sequence[str]) -> CommandLine:
    """Return a command with the `_OPENING_OPTIONS` of the current command line, except those with secrets."""
    line = suggestion.line
    for option, value in _find_opening_options(arguments):
        is_missing = f"{option} {quote_word(value)}" not in line and f"{option}=" not in line
        if is_missing:
            line += f" {option} {quote_word(value)}"
    return CommandLine(line + suggestion.comment)


def _find_opening_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the `_OPENING_OPTIONS` of a command line and their values, except those with secrets.

    A value contains a secret if `mask_typed_secrets` changes it.
    """
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
    """Return an option of the command line and its value, quoted for a shell.

    Args:
        arguments: The words of the current command line.
        spellings: The long and the short name of the option. The long name is returned.

    Returns:
        The two words. An empty list if the command line does not contain the option.
    """
    name = spellings[0]
    for word, following in pairwise([*arguments, ""]):
        if word in spellings:
            return [name, quote_word(following)]
        if word.startswith(f"{name}="):
            return [name, quote_word(word.partition("=")[2])]
    return []


def remove_consent(advice: str, arguments: Sequence[str]) -> str:
    """Return a suggested command without `--yes` and `--force`, unless it is the current command line.

    The user agreed to the changes of the current command line only. A different command may change something
    else, so `--yes` is replaced by `--dry-run` if the command supports it.
    """
    typed_consents = {"--yes", "--force"} & {*arguments}
    if not typed_consents or not is_command(advice) or advice == repeat_command(arguments):
        return advice
    # Importing the modules of commands takes time, and only errors need them here.
    from deltacli.cli.command_loading import has_option
    from deltacli.cli.command_table import COMMANDS

    suggestion = _Suggestion.parse(advice)
    line = suggestion.line
    name = next((name for name in COMMANDS if line.startswith(f"deltacli {name} ")), "")
    supports_dry_run = has_option(tuple(name.split()), "--dry-run")
    is_dry_run = re.search(r" --dry-run(?= |\Z)", line) is not None
    dry_run = " --dry-run" if supports_dry_run and not is_dry_run else ""
    for consent in typed_consents:
        replacement = dry_run if consent == "--yes" else ""
        line = re.sub(rf" {consent}(?= |\Z)", replacement, line)
    return CommandLine(line + suggestion.comment)
