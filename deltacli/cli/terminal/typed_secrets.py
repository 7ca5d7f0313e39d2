"""Mask the secrets in command lines.

Messages and hints repeat the command line of the user, and logs often store messages. So `--storage-option
aws_secret_access_key=abc` becomes `--storage-option aws_secret_access_key=@FILE`, which shows at the same time how to
pass the secret in a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from deltacli.core.errors import nearest_name
from deltacli.storage.secrets import (
    contains_secret,
    find_secrets,
    is_secret_name,
    mask_command_line,
    mask_secrets,
    mask_secrets_of_word,
)

_PAIR_OPTIONS = ("--storage-option", "--spark-conf")
"""Options whose values are pairs KEY=VALUE that may contain secrets."""
_PAIR_PREFIXES = ("--storage", "--spark-c")
"""Beginnings of these options. A user may have typed an option incompletely."""
_MIN_SIMILARITY = 0.8
"""Similarity of a misspelled option to one of `_PAIR_OPTIONS`, from 0 to 1, from which its values are masked."""

_TEXT_OPTIONS = ("--commit-metadata", "--where")
"""Options for free text. In `--where "token = 'x'"`, `x` is not a secret."""
_TEXT_COMMANDS = ("alter", "properties")
"""Commands whose arguments are free text, too: `properties t set my.token.format=jwt`."""

_STORE_SETTING = re.compile(r"(?i)(?:aws|azure|google|gcs|fs|spark)[._]")
"""The beginning of settings of object stores. Their values are masked even in arguments of `_TEXT_COMMANDS`."""
_SETTING_NAME = re.compile(r"[\w.-]+")


def register_typed_secrets(words: Sequence[str]) -> None:
    """Register the secrets of a command line, so that all later messages mask them.

    This replaces the words that an earlier call registered. Tests run several command lines in one process.
    """
    replacements: dict[str, str] = {}
    secrets: list[str] = []
    for word, masked_word in zip(words, mask_typed_secrets(words), strict=True):
        if masked_word == word:
            continue
        value = _value_of_word(word)
        masked_value = _value_of_word(masked_word)
        for typed, masked in ((word, masked_word), (value, masked_value)):
            # A word without `=` and `://` may occur in a message for other reasons.
            if "=" in typed or "://" in typed:
                replacements[typed] = masked

        name, _, secret = value.partition("=")
        is_pair = masked_value.startswith(f"{name}=")
        secrets += find_secrets({name: secret}) if is_pair else [value]
    mask_command_line(replacements, secrets)


def _value_of_word(word: str) -> str:
    """Return `value` for a word `--option=value`, and any other word unchanged."""
    return word.partition("=")[2] if word.startswith("--") else word


def mask_typed_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with masked secrets: `KEY=@FILE` instead of `KEY=SECRET`."""
    has_texts = words[0] in _TEXT_COMMANDS if words else False
    return [_mask_word(previous, word, has_texts=has_texts) for previous, word in pairwise(["", *words])]


def _mask_word(previous: str, word: str, *, has_texts: bool) -> str:
    """Return a word of a command line with masked secrets.

    Args:
        previous: The previous word. If it is an option, the word may be its value.
        word: The word: an option, `--option=value`, or a value.
        has_texts: Whether the arguments of the command are free text.
    """
    if word.startswith("--"):
        option, equals, value = word.partition("=")
    else:
        option, equals, value = previous, "", word

    # An option such as `--token` exists in other programs only. Its value is a secret nevertheless.
    if not option.startswith("--"):
        option = ""
    elif is_secret_name(option) and value:
        return f"{option}=VALUE" if equals else "VALUE"

    is_text = option in _TEXT_OPTIONS or (not option and has_texts and not _STORE_SETTING.match(value))
    if is_text:
        return mask_secrets(word)

    prefix = f"{option}=" if equals else ""
    name, _, secret = value.partition("=")
    is_pair = bool(_SETTING_NAME.fullmatch(name) and secret.strip("="))
    if value and not is_pair and _takes_pairs(option):
        return f"{prefix}KEY=VALUE"
    if is_pair and (contains_secret(secret) or any(find_secrets({name: secret}))):
        is_file = secret.startswith("@")
        return word if is_file else f"{prefix}{name}=@FILE"
    if option == "--remote" and contains_secret(value):
        return f"{prefix}@FILE"
    return mask_secrets_of_word(word)


def _takes_pairs(option: str) -> bool:
    """Return True if the option is one of `_PAIR_OPTIONS`, incomplete or misspelled."""
    if option.startswith(_PAIR_PREFIXES):
        return True
    return nearest_name(option, _PAIR_OPTIONS, cutoff=_MIN_SIMILARITY) is not None
