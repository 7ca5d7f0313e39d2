"""Unsupported parts of a predicate, as errors with their position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from deltacli.core.errors import UsageError
from deltacli.core.hints import command, in_backticks, nearest_path, sql_name
from deltacli.core.units import some_of
from deltacli.delta.sql.nodes import Form, Node
from deltacli.delta.sql.parser import parse_expression

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
MEANT = "meant"
_UNUSABLE = "the predicate cannot be used: "
_SHOWN_NAMES = 40
_SHOWN_TEXT = 60
_IS_VALUE = re.compile(r"(?:[=<>]|\blike|\bin\s*\([^)]*)\s*\Z", re.IGNORECASE)
_SIGNS = {"&&": "AND", "||": "OR"}
_TEST_OF_NULL = {"=": "IS NULL", "==": "IS NULL", "!=": "IS NOT NULL", "<>": "IS NOT NULL"}
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)


def refuse(text: str, position: int, reason: str, *, hint: str | None = None) -> UsageError:
    """Return the error for an unsupported part of a predicate."""
    blanked = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    sign = next((one for one in _SIGNS if one in blanked), None)
    meant = None
    if sign is not None:
        position, reason = blanked.index(sign), f"{sign} is not supported; write {_SIGNS[sign]}"
        meant = f"{text[:position].rstrip()} {_SIGNS[sign]} {text[position + len(sign) :].lstrip()}"
    return UsageError(
        reason,
        said_first=_UNUSABLE,
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), **_meant(meant), **POSSIBLE},
        hint=hint,
    )


def refuse_value(
    text: str, position: int, reason: str, *, hint: str | None = None, meant: str | None = None
) -> UsageError:
    """Return the error for a literal that is not a valid value; `meant` is the predicate that was probably meant."""
    return UsageError(
        reason,
        said_first=_UNUSABLE,
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), **_meant(meant)},
        hint=hint,
    )


def replaced(text: str, position: int, old: str, new: str) -> str | None:
    """Return a predicate with another text at a position; None where the old one is not there."""
    is_there = position >= 0 and text.startswith(old, position)
    return f"{text[:position]}{new}{text[position + len(old) :]}" if is_there else None


def compared_with_null(text: str) -> str | None:
    """Return what to write instead where a predicate compares a column with NULL, which is never true: None elsewhere,
    and for a text that cannot be parsed.
    """
    for node in parse_expression(text).nodes():
        if node.form is Form.CONDITION and node.name in _TEST_OF_NULL and _is_with_null(node.parts):
            (column,) = (part for part in node.parts if part.form is Form.COLUMN)
            return f"{'.'.join(map(sql_name, column.path))} {_TEST_OF_NULL[node.name]}"
    return None


def _is_with_null(parts: tuple[Node, ...]) -> bool:
    return {Form.COLUMN, Form.NULL} == {part.form for part in parts}


def _meant(text: str | None) -> dict[str, str]:
    return {} if text is None else {MEANT: _shown(text)}


def refuse_column(
    text: str,
    position: int,
    reason: str,
    names: Iterable[str],
    name: str = "",
    nested: Iterable[Sequence[str]] = (),
    *,
    is_text: bool = False,
) -> UsageError:
    """Return the error for a name that is not a column, with the existing names and the nearest of them, or of the
    nested paths. `is_text`: the column before it has texts, with which it may be compared.
    """
    known_names = list(names)
    quoted = [name if name.isidentifier() else in_backticks(name) for name in known_names]
    near = nearest_path([name], [*([one] for one in known_names), *nested])
    written = None if near is None else ".".join(map(sql_name, near))
    meant = f"; did you mean {written}?" if near is not None else ""
    place = text.find(name, position)
    if near is None and name and is_text and _IS_VALUE.search(text[: max(position, 0)]):  # col = Bern
        written = f"'{name}'"
        meant = f"; a text needs quotes: {written}"
    return UsageError(
        f"{reason}{meant}",
        said_first=_UNUSABLE,
        code=CODE,
        facts={
            "where": _shown(text),
            "at": _place(text, position),
            "columns": some_of(quoted, _SHOWN_NAMES) or "none",
            **_meant(None if written is None else replaced(text, place, name, written)),
        },
        hint=None if written is not None else _hint_of_names(known_names),
    )


def _hint_of_names(names: Iterable[str]) -> str:
    """Return how names are written where some need it, else where all columns are shown."""
    if any(not name.isidentifier() for name in names):
        return "names with blanks or dots are in backticks: `a.b`"
    return command("snapshot", schema=True)


def _place(text: str, position: int) -> str:
    rest = text[position : position + _SHOWN_TEXT]
    more = "…" if len(text) > position + _SHOWN_TEXT else ""
    return f"character {position + 1}: {_shown(rest)}{more}" if rest else "the end"


def _shown(text: str) -> str:
    """Return a text for an error: one line, shortened, without unprintable characters."""
    line = " ".join(text.split())
    cut = line if len(line) <= 4 * _SHOWN_TEXT else f"{line[: 4 * _SHOWN_TEXT]}…"
    return cut.encode("utf-8", "replace").decode("utf-8")
