"""Secrets on the command line: what of it a message may repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from deltacli.core.hints import nearest_name
from deltacli.storage.secrets import (
    holds_secret,
    is_secret_name,
    replace_words,
    secrets_in,
    without_secrets,
    word_without_secrets,
)

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
