"""Commands to paste: the current command line with a change. `deltacli.core.hints` quotes words."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import quote

from deltacli.core.errors import Refused
from deltacli.core.hints import CommandLine, fill_hint, is_command, quoted, quoted_table

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
    "quoted",
    "quoted_table",
    "without_option",
    "without_value",
]


def as_typed(text: str, arguments: Sequence[str]) -> str:
    """Return a text in which the URI of a local table is written as on the command line."""
    if "file://" not in text:
        return text
    typed = {f"file://{quote(os.fsencode(os.path.abspath(word)))}": word for word in arguments if word}
    return re.sub(r"file://[^\s'\"]+", lambda uri: quoted_table(typed[uri[0]]) if uri[0] in typed else uri[0], text)


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
        files = [*map(quoted, given[:1]), *state] if ".toml" not in line else state
    return CommandLine(" ".join([line, *files]) + comment + remark)


def _with_opening(advice: str, arguments: Sequence[str]) -> str:
    """Return a command with the options for opening tables that the current command line has, except secrets."""
    from deltacli.cli.typed_secrets import repeatable

    line, comment, remark = advice.partition("   #")
    given = [*pairwise([*arguments, ""])]
    for (word, following), shown in zip(given, pairwise([*repeatable(arguments), ""]), strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        is_new = f"{name} {quoted(value)}" not in line and f"{name}=" not in line
        if name in _OF_OPENING and is_new and shown[0 if equals else 1] == (word if equals else following):
            line += f" {name} {quoted(value)}"
    return CommandLine(line + comment + remark)


_OF_OPENING = ("--storage-option", "--allow-external", "--table-format", "--config")


def _given(arguments: Sequence[str], *names: str) -> list[str]:
    """Return an option with its value as given in a command line, under the first name."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in names:
            return [names[0], quoted(following)]
        if word.startswith(f"{names[0]}="):
            return [names[0], quoted(word.partition("=")[2])]
    return []


def again_without_limit(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line with every row."""
    return again_with(arguments, "--limit", "0")


def again(arguments: Sequence[str]) -> CommandLine:
    """Return the current command line, without its secrets."""
    from deltacli.cli.typed_secrets import repeatable

    return CommandLine(" ".join(["deltacli", *map(quoted, repeatable(arguments))]))


def again_without(arguments: Sequence[str], flag: str) -> CommandLine:
    """Return the current command line without a flag."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return again([*(word for word in arguments[:end] if word != flag), *arguments[end:]])


def again_with_flags(arguments: Sequence[str], flags: Sequence[str]) -> CommandLine:
    """Return the current command line with more flags."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    return again([*arguments[:end], *flags, *arguments[end:]])


def before_consent(advice: str, arguments: Sequence[str]) -> str:
    """Return a command that differs from the current command line without the consent that was given to that one: with
    `--dry-run` in place of `--yes` where it has that option, and without `--force`.
    """
    typed = {"--yes", "--force"} & {*arguments}
    if not typed or not is_command(advice) or advice == again(arguments):
        return advice
    from deltacli.cli.help_page import commands_with

    line, comment, remark = advice.partition("   #")
    has_plan = any(line.startswith(f"deltacli {name} ") for name in commands_with("--dry-run"))
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
    """Return a command line without an option and its value."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [word for last, word in pairs if option not in (last, word) and not word.startswith(f"{option}=")]


def without_value(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """Return a command line without an option of this value."""
    given = rf"\0{option}[=\0]{re.escape(value)}(?=\0|\Z)"
    return re.sub(given, "", "\0" + "\0".join(arguments))[1:].split("\0")


def again_past(arguments: Sequence[str], override: str) -> CommandLine:
    """Return the current command line with the option that overrides a guard, such as `--max-delete 100%`."""
    option, _, value = override.partition(" ")
    return again_with(arguments, option, value or None)


def keep_retention(refused: Refused, arguments: Sequence[str], override: str, condition: str) -> None:
    """Make the run with the table's own retention the hint of a refusal, and the overriding one a fact."""
    refused.facts[condition] = again_past(arguments, override)
    refused.hint = again(without_option(arguments, "--retention"))
