"""The verbs of `deltacli alter`, such as `add` and `rename`, and their options, for Delta and Paimon tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.errors import UsageError, command


class Verb(StrEnum):
    """A kind of change. On the command line it follows the table: `deltacli alter TABLE rename id key`."""

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
    """Return the placeholders of the arguments that are missing on a command line.

    >>> find_missing_words("COLUMN TYPE", ["id"])
    ['TYPE']

    Args:
        form: The placeholders of all arguments of a verb, such as `COLUMN TYPE`.
        words: The arguments on the command line.

    Returns:
        The placeholders. The list is empty if a missing argument is a choice, such as `first|last`, because no single
        placeholder stands for it.
    """
    missing = [word.removesuffix("...") for word in form.split()[len(words) :]]
    if all(_PLACEHOLDER.fullmatch(word) for word in missing):
        return missing
    return []


VERBS_OF_DELTA = frozenset({Verb.NAME, Verb.CONSTRAINT, Verb.CLUSTER, Verb.MAPPING})
"""Verbs for Delta tables only."""

_PLACEHOLDER = re.compile("[A-Z]+(=[A-Z]+)?")
"""A placeholder for an argument, such as COLUMN or KEY=VALUE."""


@dataclass(frozen=True, slots=True)
class Details:
    """The options of `alter` that belong to one or two verbs. None means that the option was not passed.

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
        """True for `--drop` and `--none`, which remove a value instead of setting it."""
        return self.drop or self.none


def pair_columns_with_types(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs in COLUMN TYPE [COLUMN TYPE …].

    Raises:
        UsageError: If a type is missing.
    """
    if not words or len(words) % 2:
        raise UsageError(
            "a column without a type: columns and types are given in pairs",
            code="usage.column",
            facts={"found": " ".join(words) or "nothing"},
            hint=command("widen-type", *words, "TYPE") if words else None,
        )
    return list(zip(words[::2], words[1::2], strict=True))
