"""Unsupported parts of a predicate, as errors with their position."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.errors import UsageError
from deltacli.hints import in_backticks, nearest_name, sql_name

CODE = "usage.where"
POSSIBLE = {
    "operators": "= == <> != < <= > >= <=>, AND, OR, NOT",
    "conditions": "[NOT] IN (…), [NOT] BETWEEN … AND …, [NOT] LIKE '…' [ESCAPE '…']",
    "tests": "IS [NOT] NULL, IS [NOT] TRUE, IS [NOT] FALSE, IS [NOT] DISTINCT FROM",
    "names": "columns, a.b, `a b`",
    "values": "numbers, 'text', TRUE, FALSE, NULL, DATE '…', TIMESTAMP '…', TIMESTAMP_NTZ '…', X'…'",
    "casts": "CAST(literal AS type), literal::type",
}
"""What a predicate may have, by kind."""
_SHOWN_NAMES = 40
_SHOWN_TEXT = 60


def refuse(text: str, position: int, reason: str, *, hint: str | None = None) -> UsageError:
    """Return the error for an unsupported part of a predicate."""
    return UsageError(
        f"the predicate cannot be used: {reason}",
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), **POSSIBLE},
        hint=hint,
    )


def refuse_value(text: str, position: int, reason: str, *, hint: str | None = None) -> UsageError:
    """Return the error for a literal that is not a valid value."""
    return UsageError(
        f"the predicate cannot be used: {reason}",
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position)},
        hint=hint,
    )


def refuse_column(text: str, position: int, reason: str, names: Iterable[str], name: str = "") -> UsageError:
    """Return the error for a name that is not a column, with the existing names and the nearest of them."""
    known_names = list(names)
    listed = ", ".join(name if name.isidentifier() else in_backticks(name) for name in known_names[:_SHOWN_NAMES])
    near = nearest_name(name, known_names, ignores_case=True)
    meant = f"; did you mean {sql_name(near)}?" if near is not None else ""
    more = f" and {len(known_names) - _SHOWN_NAMES} more" if len(known_names) > _SHOWN_NAMES else ""
    return UsageError(
        f"the predicate cannot be used: {reason}{meant}",
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), "columns": f"{listed}{more}" or "none"},
        hint=None if near is not None else "names with blanks or dots are in backticks: `a.b`",
    )


def _place(text: str, position: int) -> str:
    rest = text[position : position + _SHOWN_TEXT]
    more = "…" if len(text) > position + _SHOWN_TEXT else ""
    return f"character {position + 1}: {_shown(rest)}{more}" if rest else "the end"


def _shown(text: str) -> str:
    """Return a text for an error: one line, shortened, without unprintable characters."""
    line = " ".join(text.split())
    cut = line if len(line) <= 4 * _SHOWN_TEXT else f"{line[: 4 * _SHOWN_TEXT]}…"
    return cut.encode("utf-8", "replace").decode("utf-8")
