"""What a schema can be converted to."""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """The form of a converted schema."""

    DELTA = "delta"
    PAIMON = "paimon"
    ARROW = "arrow"
    DDL = "ddl"
