"""The columns that a predicate names, and refusals of unsupported parts with their position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deltacli.core.errors import UsageError, command, format_sql_name, nearest_path, quote_identifier
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowType
from deltacli.delta.schema import types
from deltacli.delta.schema.to_arrow import Judge, find_unsupported_type, typed, why_unread
from deltacli.delta.sql.parser import Form, parse_expression

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
        preamble=_UNUSABLE,
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), **_meant(meant), **POSSIBLE},
        hint=hint,
    )


def refuse_value(text: str, position: int, reason: str, *, meant: str | None = None) -> UsageError:
    """Return the error for a literal that is not a valid value; `meant` is the predicate that was probably meant."""
    return UsageError(
        reason,
        preamble=_UNUSABLE,
        code=CODE,
        facts={"where": _shown(text), "at": _place(text, position), **_meant(meant)},
        hint=None,
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
        is_test = node.form is Form.CONDITION and node.name in _TEST_OF_NULL
        if is_test and {part.form for part in node.parts} == {Form.COLUMN, Form.NULL}:
            (column,) = (part for part in node.parts if part.form is Form.COLUMN)
            return f"{'.'.join(map(format_sql_name, column.path))} {_TEST_OF_NULL[node.name]}"
    return None


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
    quoted = [name if name.isidentifier() else quote_identifier(name) for name in known_names]
    near = nearest_path([name], [*([one] for one in known_names), *nested])
    written = None if near is None else ".".join(map(format_sql_name, near))
    meant = f"; did you mean {written}?" if near is not None else ""
    place = text.find(name, position)
    if near is None and name and is_text and _IS_VALUE.search(text[: max(position, 0)]):  # col = Bern
        written = f"'{name}'"
        meant = f"; a text needs quotes: {written}"
    return UsageError(
        f"{reason}{meant}",
        preamble=_UNUSABLE,
        code=CODE,
        facts={
            "where": _shown(text),
            "at": _place(text, position),
            "columns": summarize_names(quoted, _SHOWN_NAMES) or "none",
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


# -- the columns that a predicate names --------------------------------------------------------------------------------

ColumnPath = tuple[str, ...]
"""Names from the root to a column."""

NUMBERS = frozenset({types.Kind.WHOLE, types.Kind.DECIMAL, types.Kind.FLOAT})
TIMES = frozenset({types.Kind.DATE, types.Kind.TIMESTAMP, types.Kind.NTZ})


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct. `path`: logical names, as the schema spells them."""

    path: ColumnPath
    data_type: types.DataType = field(compare=False)  # a struct has no hash

    @property
    def kind(self) -> types.Kind:
        return types.value_kind(self.data_type)

    @property
    def is_nested(self) -> bool:
        return len(self.path) > 1

    @property
    def name(self) -> str:
        return ".".join(part if part.isidentifier() else quote_identifier(part) for part in self.path)

    @property
    def type_name(self) -> str:
        return types.simple_name(self.data_type)

    @property
    def scale(self) -> int:
        """The digits behind the point of a decimal; 0 for any other type."""
        parts = types.decimal_parts(self.type_name)
        return parts[1] if parts else 0

    @property
    def arrow_type(self) -> ArrowType:
        return typed(self.data_type)


class PredicateColumns:
    """Finds the columns of a schema by the names of a predicate, and remembers which were asked for."""

    def __init__(self, text: str, schema: types.StructType, judge: Judge = find_unsupported_type) -> None:
        self._text = text
        self._judge = judge
        self._schema = schema
        self.found: dict[ColumnPath, Column] = {}
        self._collated: set[ColumnPath] = set()
        self._indexes: dict[ColumnPath, types.NameIndex] = {}

    def find(self, names: Sequence[str], position: int) -> Column:
        """Return the column at a path of names. Raises UsageError unless there is just one, of a type that is read."""
        fields, field = self._schema.fields, None
        path: list[str] = []
        for depth, name in enumerate(names):
            if field is not None:
                fields = self._fields_below(field, ".".join(names[:depth]), name, position)
            field = self._field(fields, name, tuple(path), position)
            if not path and (unread := self._judge(field.data_type)) is not None:
                reason = f"column {field.name} has type {unread}, {why_unread(unread)}"
                fault = refuse_value(self._text, position, reason)
                fault.facts |= {"column": field.name, "type": unread}
                raise fault
            path.append(field.name)
        assert field is not None
        column = Column(tuple(path), field.data_type)
        self.found[column.path] = column
        if types.COLLATIONS in field.metadata:
            self._collated.add(column.path)
        return column

    def is_collated(self, column: Column) -> bool:
        """Return True for a column that was found, if the strings in it have collations."""
        return column.path in self._collated

    def require_comparable(self, column: Column, position: int) -> None:
        """Raise UsageError for a column whose values cannot be compared here."""
        if self.is_collated(column):
            reason = f"{column.name} has a collation, so only IS [NOT] NULL is supported"
            raise refuse(self._text, position, reason)
        if column.kind is types.Kind.OTHER:
            reason = f"{column.name} is of type {column.type_name}, so only IS [NOT] NULL is supported"
            hint = (
                f"name a field of it: {column.name}.field" if isinstance(column.data_type, types.StructType) else None
            )
            raise refuse(self._text, position, reason, hint=hint)

    def _fields_below(
        self, parent: types.StructField, above: str, name: str, position: int
    ) -> tuple[types.StructField, ...]:
        if not isinstance(parent.data_type, types.StructType):
            type_name = types.simple_name(parent.data_type)
            reason = f"{above} is of type {type_name} and has no field {name}"
            raise refuse_column(self._text, position, reason, (column.name for column in self._schema.fields))
        return parent.data_type.fields

    def _field(
        self, fields: tuple[types.StructField, ...], name: str, above: ColumnPath, position: int
    ) -> types.StructField:
        index = self._indexes.get(above)
        if index is None:
            index = self._indexes[above] = types.NameIndex(one.name for one in fields)
        alike = [fields[place] for place in index.places_of(name)]
        if len(alike) == 1:
            return alike[0]
        place = f" in {'.'.join(above)}" if above else ""
        reason = f"there is no column {name}{place}"
        if alike:
            reason = f"{name}{place} may be any of the columns {', '.join(one.name for one in alike)}"
        near = "" if alike else name
        nested = () if above else _nested(types.StructType(fields))
        compared = next(reversed(self.found.values()), None)
        is_text = compared is not None and compared.kind is types.Kind.TEXT
        raise refuse_column(self._text, position, reason, (one.name for one in fields), near, nested, is_text=is_text)


def _nested(struct: types.StructType, above: ColumnPath = ()) -> Iterator[ColumnPath]:
    """Yield the paths of fields within columns that are structs."""
    for one in struct.fields:
        if above:
            yield (*above, one.name)
        if isinstance(one.data_type, types.StructType):
            yield from _nested(one.data_type, (*above, one.name))
