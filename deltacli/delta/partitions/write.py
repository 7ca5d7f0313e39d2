"""Partition values as the texts of new files. Spec: Partition Value Serialization.

A text is only returned where the rules of `text.py` read it as the same value, in the usual spelling.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

from deltacli.delta.partitions.text import Spelling, spelling_of
from deltacli.delta.schema.types import PrimitiveType
from deltacli.errors import Refused


def text_of(value: Any, kind: PrimitiveType, column: str) -> str | None:
    """Return the text of a Python value of a type; None for null, and for an empty text, which means null.

    Times are UTC, with `Z` where they have a zone. Raises Refused (`append.partition-value`) for what no reader gets
    back: binary values, and dates outside of the years 1 to 9999.
    """
    if value is None or value == "":
        return None
    text = _text(value, kind)
    if text is None or spelling_of(kind.name, text) is not Spelling.PLAIN:
        raise Refused(
            f"partition column {column}: a {kind.name} cannot be written as a partition value",
            code="append.partition-value",
            facts={"column": column, "value": repr(value)[:120]},
        )
    return text


def _text(value: Any, kind: PrimitiveType) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
            parts = "auto" if moment.microsecond == 0 else "microseconds"
            text = moment.isoformat(" ", "seconds" if parts == "auto" else parts)
            return f"{text.replace(' ', 'T')}Z" if kind.name == "timestamp" else text
        case date():
            return value.isoformat()
        case str():
            return value
    return None


def _float_text(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).replace("e+", "E").replace("e", "E")
