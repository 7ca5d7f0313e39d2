"""The types that a column may be widened to, as users write them: in SQL or as in the schema."""

from __future__ import annotations

import re

from deltacli.delta.schema.allowed_widenings import (
    INTEGER_DIGITS,
    MAX_DECIMAL_PRECISION,
    WIDER,
    Decimal,
    canonical_name,
    decimal_of,
)
from deltacli.errors import UsageError

CODE = "usage.type"
POSSIBLE = (
    "byte (tinyint), short (smallint), integer (int), long (bigint), float (real), double, decimal(p,s) (dec, "
    f"numeric) with s <= p <= {MAX_DECIMAL_PRECISION}, date, timestamp_ntz"
)
_NAMES = frozenset({"byte", "short", "integer", "long", "float", "double", "date", "timestamp_ntz"})
_LOOKS_DECIMAL = re.compile(r"\s*(?:decimal|dec|numeric)\s*\(", re.IGNORECASE)
_INSTANTS = frozenset({"timestamp", "timestamp_ltz"})


def parse_type(text: str) -> str:
    """Return the name of a type in schemas: `decimal(20,2)` for `DECIMAL( 20, 2 )`, `long` for `bigint`.

    Raises UsageError (`usage.type`) for invalid types, and for types that no column can be widened to.
    """
    name = canonical_name(text)
    if name in _NAMES or decimal_of(name) is not None:
        return name
    reason = "it is not a type that a column can be widened to"
    if _LOOKS_DECIMAL.match(text):
        reason = f"a decimal has 1 to {MAX_DECIMAL_PRECISION} digits, and no more of them behind the point"
    elif name in _INSTANTS:
        reason = "it is a time with a zone; a date can become timestamp_ntz"
    raise UsageError(
        f"the type {text!r} cannot be used: {reason}",
        code=CODE,
        facts={"possible": POSSIBLE},
        hint="quote a type that contains spaces: 'decimal(20, 2)'",
    )


def possible_targets(from_type: str) -> str:
    """Return what a type can become by widening, in words, or an empty string."""
    name = canonical_name(from_type)
    targets = sorted(WIDER.get(name, ()), key=_ORDER.index)
    digits = INTEGER_DIGITS.get(name)
    if digits is not None:
        targets.append(f"decimal(p,s) with p-s >= {digits}")
    decimal = decimal_of(name)
    if decimal is not None and _can_grow(decimal):
        targets.append(f"decimal(p,s) with s >= {decimal.scale} and p-s >= {decimal.whole_digits}")
    return " or ".join([", ".join(targets[:-1]), targets[-1]] if len(targets) > 1 else targets)


_ORDER = ("short", "integer", "long", "double", "timestamp_ntz")


def _can_grow(decimal: Decimal) -> bool:
    return decimal.precision < MAX_DECIMAL_PRECISION
