"""Secrets in the words of a command line, which no message repeats."""

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
"""Options whose values are pairs K=V with secrets."""
_PAIR_BEGINNINGS = ("--storage", "--spark-c")
"""Beginnings of these options, which a user may have shortened."""
_MISSPELT_SIMILARITY = 0.8

_TEXT_OPTIONS = ("--commit-metadata", "--where")
"""Options whose values are texts of the user, in which `token = 'x'` is a condition and no secret."""
_TEXT_COMMANDS = ("alter", "properties")
"""Commands whose arguments are such texts, too: `properties t set my.token.format=jwt`."""

_STORE_SETTING = re.compile(r"(?i)(?:aws|azure|google|gcs|fs|spark)[._]")
"""The beginning of a setting of a store, which is a secret wherever it was typed."""
_SETTING_NAME = re.compile(r"[\w.-]+")


def register_typed_secrets(words: Sequence[str]) -> None:
    """Register the secrets of a command line, which are masked in all later texts.

    The secrets of an earlier command line are forgotten if they are too short to be masked everywhere.
    """
    replacements: dict[str, str] = {}
    secrets: list[str] = []
    for word, masked_word in zip(words, mask_typed_secrets(words), strict=True):
        if masked_word == word:
            continue
        value = _value_of_word(word)
        masked_value = _value_of_word(masked_word)
        for typed, masked in ((word, masked_word), (value, masked_value)):
            # A word without these marks may be an ordinary word of the messages.
            if "=" in typed or "://" in typed:
                replacements[typed] = masked

        name, _, secret = value.partition("=")
        is_pair = masked_value.startswith(f"{name}=")
        secrets += find_secrets({name: secret}) if is_pair else [value]
    mask_command_line(replacements, secrets)


def _value_of_word(word: str) -> str:
    """Return the value in a word `--option=value`, and any other word unchanged."""
    return word.partition("=")[2] if word.startswith("--") else word


def mask_typed_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command line as a message may repeat them: `K=@FILE` in place of a secret K=V."""
    has_texts = words[0] in _TEXT_COMMANDS if words else False
    return [_mask_word(previous, word, has_texts=has_texts) for previous, word in pairwise(["", *words])]


def _mask_word(previous: str, word: str, *, has_texts: bool) -> str:
    """Return a word without secrets.

    Args:
        previous: The word before it, of which it may be the value.
        word: A word such as `--option=value`, `--option`, or a value.
        has_texts: Whether the arguments of the command are texts of the user.
    """
    if word.startswith("--"):
        option, equals, value = word.partition("=")
    else:
        option, equals, value = previous, "", word

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
    """Return True for an option that takes pairs K=V with secrets, also if it is misspelt."""
    if option.startswith(_PAIR_BEGINNINGS):
        return True
    return nearest_name(option, _PAIR_OPTIONS, cutoff=_MISSPELT_SIMILARITY) is not None
