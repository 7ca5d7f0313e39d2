"""Words of a local table or policy file that shells complete: `deltacli --table-words KIND ARGUMENT…`, which the
completion scripts call with the arguments before the cursor, the table first, and `KEY=` of a value at the cursor last.

They are printed one per line. Whatever fails prints nothing, and words that a shell would have to quote are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from deltacli import DeltacliError, Snapshot, open_paimon, open_table

_MOST = 1_000
_TYPES = ("smallint", "int", "bigint", "double", "timestamp_ntz")
_ADDED = (
    *("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(18,2)", "date"),
    *("timestamp", "timestamp_ntz", "binary"),
)
_WITHOUT_COLUMN = ("name", "table-comment", "set", "unset")
_PRECISIONS = (10, 12, 18, 20, 28, 38)
"""Of the decimals to which a column can be widened: those that other systems use."""

_POINTS = ("schema", "snapshot", "tag", "branch")
"""Kinds of points of a Paimon table: `schema/schema-3` is the point schema:3."""


def table_words(kind: str, *arguments: str) -> list[str]:
    """Return the words of a kind, `Kind` of tools/command_tree.py, for a command with these arguments."""
    table, *others = arguments or ("fleet.toml" if kind == "groups" else "",)
    if "#" in table or not table:
        return []
    other = r"[\w.:-]+(=[\w.:-]*|\(\d+,\d+\))?"  # the scripts quote the brackets
    is_plain = re.compile(r"[\w.]+" if kind in ("versions", "columns", "paths") else other).fullmatch
    return list(islice(filter(is_plain, _words(kind, "" if "://" in table else table, others)), _MOST))


def _words(kind: str, table: str, others: Sequence[str]) -> Iterator[str]:
    match kind:
        case "versions":
            yield from _versions(table)
        case "columns" | "paths":
            yield from _columns(table, nested=kind == "paths")
        case "altered":
            yield from _altered(table, others)
        case "positions":
            yield from _positions(table, others[1] if len(others) > 1 else "")
        case "supposed":
            yield from (f"{verb}={name}" for verb in ("add", "drop") for name in _features(table, verb == "drop"))
            yield "widen="
        case "widenings":
            yield from _types(table, others[-1]) if len(others) % 2 else _columns(table, nested=True)
        case "features":
            yield from _features(table, others[:1] == ["drop"])
        case "properties" if others[:1] == ["set"] and others[-1].endswith("="):
            from deltacli.delta.protocol.known_properties import PropertyKind, property_kind

            key = others[-1].removesuffix("=")
            if property_kind(key) is PropertyKind.BOOLEAN:
                yield from (f"{key}=true", f"{key}=false")
        case "properties":
            yield from _properties(table, others[0] if others else "get")
        case "points":
            yield from (f"version:{version}" for version in _versions(table))
            yield from (f"{point}:{name}" for point in _POINTS for name in _names(table, point))
        case "groups":
            import tomllib

            with suppress(OSError, ValueError, AttributeError), open(table, "rb") as policies:
                yield from tomllib.load(policies).get("groups", {})
        case _ if kind in _POINTS:
            yield from _names(table, kind)


def _altered(table: str, words: Sequence[str]) -> Iterator[str]:
    """Yield what can follow the words of a change: a column, its type, or its position."""
    match words:
        case ["constraint"]:
            yield from ("add", "drop")
        case ["mapping"]:
            yield "name"
        case ["move", column]:
            yield from _positions(table, column)
        case ["type", column]:
            yield from _types(table, column)
        case ["add", _]:
            yield from (word for word in _ADDED if word != "timestamp_ntz" or not _is_paimon(table))
        case [verb] | [("drop" | "nullable" | "not-null") as verb, *_] if verb not in _WITHOUT_COLUMN:
            yield from _columns(table, nested=True)


def _positions(table: str, column: str) -> Iterator[str]:
    """Yield the positions that a column can have among those beside it."""
    parent = column.rpartition(".")[0]
    beside = [name for name in _columns(table, nested=True) if name.rpartition(".")[0] == parent and name != column]
    names = [name.removeprefix(f"{parent}.") for name in beside]
    yield from ("first", "last", *(f"{place}:{name}" for place in ("before", "after") for name in names))


def _versions(table: str) -> Iterator[str]:
    with suppress(OSError):
        names = os.listdir(os.path.join(table, "_delta_log")) if table else []
        commits = (int(name[:20]) for name in names if re.fullmatch(r"[0-9]{20}\.json", name))
        yield from map(str, sorted(commits, reverse=True))


def _names(table: str, point: str) -> Iterator[str]:
    with suppress(OSError):
        names = os.listdir(os.path.join(table, point)) if table else []
        yield from sorted(name.removeprefix(f"{point}-") for name in names if name.startswith(f"{point}-"))


def _newest(table: str) -> Snapshot | None:
    """Return the newest snapshot of a Delta table, None where there is none that can be read."""
    with suppress(DeltacliError, OSError, ValueError):
        return open_table(table).snapshot() if table else None
    return None


def _is_paimon(table: str) -> bool:
    return os.path.isdir(os.path.join(table, "schema"))


def _columns(table: str, *, nested: bool) -> Iterator[str]:
    from deltacli.delta.schema.column_path import places

    with suppress(DeltacliError, OSError, ValueError):
        if _is_paimon(table):
            yield from (field.name for field in open_paimon(table).snapshot().schema.fields)
        elif (newest := _newest(table)) is not None:
            schema = newest.schema
            yield from (place.text for place in places(schema)) if nested else (field.name for field in schema.fields)


def _types(table: str, column: str) -> Iterator[str]:
    """Yield types to which a column can be widened; those without digits where the column is not found."""
    if _is_paimon(table):
        yield from _types_of_paimon(table, column)
        return
    from deltacli.delta.evolution.requests import sql_text
    from deltacli.delta.schema.column_path import places
    from deltacli.delta.schema.type_changes import INTEGER_DIGITS, WIDER, digits_of_decimal
    from deltacli.delta.schema.types import PrimitiveType

    newest = _newest(table)
    types = {place.text: place.data_type for place in places(newest.schema)} if newest else {}
    match types.get(column):
        case None:
            yield from _TYPES
        case PrimitiveType(name):
            yield from sorted(sql_text(PrimitiveType(wider)) for wider in WIDER.get(name, ()))
            digits, scale = digits_of_decimal(name) or (INTEGER_DIGITS.get(name, 99) - 1, 0)
            yield from (f"decimal({precision},{scale})" for precision in _PRECISIONS if precision > digits)


def _types_of_paimon(table: str, column: str) -> Iterator[str]:
    """Yield other types that keep every value of a column; none where the column is not found."""
    from deltacli.paimon.conversions import parse_sql_type
    from deltacli.paimon.schema_changes import Loss, judge_change
    from deltacli.paimon.types import AtomicType, with_nullability

    with suppress(DeltacliError, OSError, ValueError, StopIteration):
        schema = open_paimon(table).snapshot().schema
        before = next(with_nullability(field.type, True) for field in schema.fields if field.name == column)
        scale = before.arguments[-1] if isinstance(before, AtomicType) and len(before.arguments) == 2 else 0
        decimals = [f"decimal({precision},{scale})" for precision in _PRECISIONS]
        for word in (*(word for word in _ADDED if word[-1] not in ")z"), *decimals):
            after = parse_sql_type(word)
            if after != before and judge_change(before, after, schema.options).loss is Loss.LOSSLESS:
                yield word


def _features(table: str, drops: bool) -> Iterator[str]:
    from deltacli.delta.protocol.feature_changes import removable
    from deltacli.delta.protocol.features import FEATURES

    newest = _newest(table)
    if drops and newest:
        yield from removable(newest.config)
    else:
        own = newest.protocol.supported_features if newest else frozenset()
        yield from sorted(name for name, feature in FEATURES.items() if not feature.obstacle and name not in own)


def _properties(table: str, action: str) -> Iterator[str]:
    from deltacli.delta.protocol.known_properties import known_keys

    newest = _newest(table)
    own = sorted(newest.properties) if newest else ()
    known = () if action == "unset" and newest else known_keys()
    yield from (f"{key}=" if action == "set" else key for key in dict.fromkeys([*own, *known]))
