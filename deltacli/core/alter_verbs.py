"""The changes of `alter`, and the options of single ones, for tables of both formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.request_fields import OF_DELTA, OF_PAIMON, option


class Verb(StrEnum):
    """What to change."""

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
    """Return the words of a form, such as `COLUMN TYPE`, that follow the given ones, unless they have choices."""
    missing = [word.removesuffix("...") for word in form.split()[len(words) :]]
    return missing if all(re.fullmatch("[A-Z]+(=[A-Z]+)?", word) for word in missing) else []


VERBS_OF_DELTA = frozenset({Verb.NAME, Verb.CONSTRAINT, Verb.CLUSTER, Verb.MAPPING})
"""Those that Paimon tables lack."""


@dataclass(frozen=True, slots=True)
class Details:
    """The options of single verbs; None where one was not given."""

    comment: str | None = option("add: comment of the column.", "TEXT")
    default: str | None = option("add: default value.", "VALUE")
    position: str | None = option("add: first, last, before:X or after:X.  [default: last]", "PLACE")
    nullable: bool = option(
        "add: columns are nullable; NOT NULL is refused.", default=True, spelled="--nullable/--not-null"
    )
    keep_nullability: bool = option("type: keep NOT NULL, or its absence.", default=False, table_format=OF_PAIMON)
    drop: bool = option("comment, default: remove it.", default=False)
    none: bool = option("cluster: by no columns.", default=False, table_format=OF_DELTA)

    @property
    def removes(self) -> bool:
        return self.drop or self.none
