"""The verbs of `alter`, such as `add` and `rename`, and the options that some of them have, for both table formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """The change that `alter` makes, as it is written behind the table."""

    ADD = "add"
    TYPE = "type"
    RENAME = "rename"
    DROP = "drop"
    MOVE = "move"
    COMMENT = "comment"
    DEFAULT = "default"
    NULLABLE = "nullable"
    NOT_NULL = "not-null"
    SET = "set"
    UNSET = "unset"
    TABLE_COMMENT = "table-comment"
    NAME = "name"
    CONSTRAINT = "constraint"
    CLUSTER = "cluster"
    MAPPING = "mapping"


def find_missing_words(form: str, words: Sequence[str]) -> list[str]:
    """Return the words of a form that were not given.

    Args:
        form: What follows a verb, such as `COLUMN TYPE`.
        words: The words that were given.

    Returns:
        The missing words. None of them if one has choices, as in `first|last`: there is no single form to show.
    """
    missing = [word.removesuffix("...") for word in form.split()[len(words) :]]
    if all(_PLACEHOLDER.fullmatch(word) for word in missing):
        return missing
    return []


VERBS_OF_DELTA = frozenset({Verb.NAME, Verb.CONSTRAINT, Verb.CLUSTER, Verb.MAPPING})
"""Verbs for Delta tables only."""

_PLACEHOLDER = re.compile("[A-Z]+(=[A-Z]+)?")
"""A word that stands for any value, such as COLUMN or KEY=VALUE."""


@dataclass(frozen=True, slots=True)
class Details:
    """The options of `alter` that some verbs have.

    Attributes:
        comment: The comment of the column that `add` adds.
        default: The default value of the column that `add` adds, as SQL.
        position: Where `add` places the column: `first`, `last`, `before:X` or `after:X`. None: last.
        nullable: False if `add` was asked for a column that is NOT NULL, which is refused with what to do instead.
        keep_nullability: True if `type` keeps NOT NULL, or its absence. Paimon tables only.
        drop: True if `comment` or `default` removes what the column has.
        none: True if `cluster` leaves no clustering columns. Delta tables only.
    """

    comment: str | None = None
    default: str | None = None
    position: str | None = None
    nullable: bool = True
    keep_nullability: bool = False
    drop: bool = False
    none: bool = False

    @property
    def removes(self) -> bool:
        return self.drop or self.none
