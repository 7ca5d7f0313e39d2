"""The changes of `alter`, and the options of single ones, for tables of both formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


VERBS_OF_DELTA = frozenset({Verb.NAME, Verb.CONSTRAINT, Verb.CLUSTER, Verb.MAPPING})
"""Those that Paimon tables lack."""


@dataclass(frozen=True, slots=True)
class Details:
    """The options of single verbs; None where one was not given. `removes`: nothing is to be there any more."""

    comment: str | None = None
    default: str | None = None
    position: str | None = None
    nullable: bool = True
    keep_nullability: bool = False
    removes: bool = False
