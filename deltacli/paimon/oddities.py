"""What is odd in the files of a table and does not stop a reader, by the rules of `validate` that report it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Odd(StrEnum):
    """A kind of oddity: the id of its rule."""

    DUPLICATE_KEY = "paimon.duplicate-key"
    TRAILING_TEXT = "paimon.trailing-text"
    UNKNOWN_KEY = "paimon.unknown-key"
    NULL_KEY = "paimon.null-key"
    OPTION_NOT_STRING = "paimon.option-not-string"
    NULLABLE_MAP_KEY = "paimon.map-key-nullable"
    NULLABILITY = "paimon.nullability-contradiction"
    NOT_CANONICAL = "paimon.type-not-canonical"
    MANIFEST_MISSING = "paimon.manifest-missing"


class Oddity(NamedTuple):
    """Something in a schema file that Java reads but does not write: a place in the file, and the value there."""

    rule: Odd
    place: str
    seen: object = None
