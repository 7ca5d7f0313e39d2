"""Commands to paste: the current command line with a change. `deltacli.core.errors` quotes words."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from urllib.parse import quote

from deltacli.core.errors import CommandLine, Refused, fill_hint, is_command, nearest_name, quote_table, quote_word
from deltacli.storage.secrets import (
    holds_secret,
    is_secret_name,
    replace_words,
    secrets_in,
    without_secrets,
    word_without_secrets,
)

# -- secrets on the command line ---------------------------------------------------------------------------------------

_PAIRS = ("--storage-option", "--spark-conf")
_TEXTS = ("--commit-metadata", "--where")
"""Options whose values are pairs with secrets, and those whose values are texts of the user."""
_ALIKE = 0.8
_OF_STORE = r"(?i)(?:aws|azure|google|gcs|fs|spark)[._]"
_NAME = r"[\w.-]+"


def remember_words(words: Sequence[str]) -> None:
    """Register the secrets of a command line, which are masked in all later texts. Those of an earlier one are
    forgotten where they are too short to be masked everywhere.
    """
    replaced: dict[str, str] = {}
    secrets: list[str] = []
    for word, shown in zip(words, repeatable(words), strict=True):
        if shown == word:
            continue
        value, shown_value = (one.partition("=")[2] if one.startswith("--") else one for one in (word, shown))
        pairs = ((word, shown), (value, shown_value))
        replaced |= {given: safe for given, safe in pairs if "=" in given or "://" in given}
        name, _, secret = value.partition("=")
        secrets += secrets_in({name: secret}) if shown_value.startswith(f"{name}=") else [value]
    replace_words(replaced, secrets)


def repeatable(words: Sequence[str]) -> list[str]:
    """Return the words of a command line as a message may repeat them: `K=@FILE` stands for a secret K=V."""
    has_texts = {*words[:1]} & {"alter", "properties"} != set()
    return [_repeatable(last, word, has_texts=has_texts) for last, word in pairwise(["", *words])]


def _repeatable(last: str, word: str, *, has_texts: bool) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else (last, "", word)
    if not option.startswith("--"):
        option = ""
    elif is_secret_name(option) and value:
        return f"{option}=VALUE" if equals else "VALUE"
    given = f"{option}=" if equals else ""
    if option in _TEXTS or (not option and has_texts and not re.match(_OF_STORE, value)):
        return without_secrets(word)
    name, _, secret = value.partition("=")
    is_pair = re.fullmatch(_NAME, name) and secret.strip("=")
    if value and not is_pair and _takes_pairs(option):
        return f"{given}KEY=VALUE"
    if is_pair and (holds_secret(secret) or any(secrets_in({name: secret}))):
        return word if secret.startswith("@") else f"{given}{name}=@FILE"
    if option == "--remote" and holds_secret(value):
        return f"{given}@FILE"
    return word_without_secrets(word)


def _takes_pairs(option: str) -> bool:
    """Return whether an option takes pairs K=V with secrets, or is one of these, misspelt."""
    return option.startswith(("--storage", "--spark-c")) or nearest_name(option, _PAIRS, alike=_ALIKE) is not None


# -- commands to paste -------------------------------------------------------------------------------------------------

__all__ = [
    "CommandLine",
    "again",
    "again_with",
    "again_with_flags",
    "again_without",
    "again_without_limit",
    "as_typed",
    "before_consent",
    "fill_hint",
    "quote_table",
    "quote_word",
    "without_option",
    "without_value",
]


def as_typed(text: str, arguments: Sequence[str]) -> str:
    """Return a text in which the URI of a local table is written as on the command line."""
    if "file://" not in text:
        return text
    typed = {f"file://{quote(os.fsencode(os.path.abspath(word)))}": word for word in arguments if word}
    return re.sub(r"file://[^\s'\"]+", lambda uri: quote_table(typed[uri[0]]) if uri[0] in typed else uri[0], text)


def with_files(advice: str, arguments: Sequence[str]) -> str:
    """Return a next command that names the configuration of the server, or the policy file and the journal, which the
    current command line names, or the options with which it opens tables: without them it would work on others.
    """
    words, group = advice.split(), list(arguments[:1])
    if not is_command(advice):
        return advice
    if words[1:2] != group or group not in (["share"], ["fleet"]):
        is_of_tables = not {"share", "fleet", "help", "spark"} & {*words[1:2], *group} and "--help" not in words
        return _with_opening(advice, arguments) if is_of_tables else advice
    line, comment, remark = advice.partition("   #")
    files: list[str] = []
    if group == ["share"] and words[2] in ("check", "key", "recipient", "serve", "token"):
        if files := _given(arguments, "--config", "-c"):
            line = line.replace(" --config shares.yaml", "")
        is_without = words[2] == "serve" and not "".join(words[3:4]).startswith("-") and len(words) > 3
        if " --config " in line or is_without:
            files = []
    elif group == ["fleet"]:
        state = _given(arguments, "--state") if words[2] in ("run", "status") and "--state" not in words else []
        given = [word for last, word in pairwise(arguments) if word.endswith(".toml") and last != "--config"]
        files = [*map(quote_word, given[:1]), *state] if ".toml" not in line else state
    return CommandLine(" ".join([line, *files]) + comment + remark)


def _with_opening(advice: str, arguments: Sequence[str]) -> str:
    """Return a command with the options for opening tables that the current command line has, except secrets."""
    line, comment, remark = advice.partition("   #")
    given = [*pairwise([*arguments, ""])]
    for (word, following), shown in zip(given, pairwise([*repeatable(arguments), ""]), strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        is_new = f"{name} {quote_word(value)}" not in line and f"{name}=" not in line
        if name in _OF_OPENING and is_new and shown[0 if equals else 1] == (word if equals else following):
            line += f" {name} {quote_word(value)}"
    return CommandLine(line + comment + remark)


_OF_OPENING = (
    "--storage-option",
    "--allow-external",
    "--table-format",
    "--access",
    "--config",
    "--profile-name",
    "--catalog-profile",
)


def _given(arguments: Sequence[str], *names: str) -> list[str]:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in names:
            return [names[0], quote_word(following)]
        if word.startswith(f"{names[0]}="):
            return [names[0], quote_word(word.partition("=")[2])]
    return []


def again_without_limit(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line with every row."""
    return again_with(arguments, "--limit", "0")


def again(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line, without its secrets."""
    return CommandLine(" ".join(["deltacli", *map(quote_word, repeatable(arguments))]))


def again_without(arguments: Sequence[str], flag: str) -> CommandLine:
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return again([*(word for word in arguments[:end] if word != flag), *arguments[end:]])


def again_with_flags(arguments: Sequence[str], flags: Sequence[str]) -> CommandLine:
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return again([*arguments[:end], *flags, *arguments[end:]])


def before_consent(advice: str, arguments: Sequence[str]) -> str:
    """Return a command that differs from the current command line without the consent that was given to that one: with
    `--dry-run` in place of `--yes` where it has that option, and without `--force`.
    """
    typed = {"--yes", "--force"} & {*arguments}
    if not typed or not is_command(advice) or advice == again(arguments):
        return advice
    from deltacli.cli.command_loading import has_option
    from deltacli.cli.command_table import COMMANDS

    line, comment, remark = advice.partition("   #")
    name = next((name for name in COMMANDS if line.startswith(f"deltacli {name} ")), "")
    has_plan = has_option(tuple(name.split()), "--dry-run")
    shown = " --dry-run" if has_plan and not re.search(r" --dry-run(?= |\Z)", line) else ""
    for option in typed:
        line = re.sub(rf" {option}(?= |\Z)", shown if option == "--yes" else "", line)
    return CommandLine(line + comment + remark)


def again_with(
    arguments: Sequence[str], option: str, value: str | None = None, *, is_repeatable: bool = False
) -> CommandLine:
    """Return the current command line with another value of an option, an additional value, or a flag."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if is_repeatable:
            kept.append(word)
        elif skip:
            skip = False
        elif word == option:
            skip = value is not None
        elif not word.startswith(f"{option}="):
            kept.append(word)
    end = kept.index("--") if "--" in kept else len(kept)
    added = [option] if value is None else [option, value]
    return again([*kept[:end], *added, *kept[end:]])


def without_option(arguments: Sequence[str], option: str) -> list[str]:
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for last, word in pairs if option not in (last, word) and not word.startswith(f"{option}=")]


OF_A_CLUSTER = ("--engine", "--master", "--remote", "--spark-conf")


def again_without_cluster(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line without the options that choose a cluster."""
    return again(reduce(without_option, OF_A_CLUSTER, [*arguments]))


def without_value(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """Return a command line without an option of this value."""
    given = rf"\0{option}[=\0]{re.escape(value)}(?=\0|\Z)"
    return re.sub(given, "", "\0" + "\0".join(arguments))[1:].split("\0")


def keep_retention(refused: Refused, arguments: Sequence[str], override: str, condition: str) -> None:
    """Make the run with the table's own retention the hint of a refusal, and the overriding one a fact."""
    option, _, value = override.partition(" ")
    refused.facts[condition] = again_with(arguments, option, value or None)
    refused.hint = again(without_option(arguments, "--retention"))
