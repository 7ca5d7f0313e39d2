"""Find the words of a local table for shell completion: versions, columns, types, properties.

When the user presses Tab, the completion script of the shell calls

    deltacli --table-words KIND TABLE ARGUMENT…

with the arguments before the cursor. To complete the value of a property, the last argument is `KEY=`. The
words are printed one per line:

    $ deltacli --table-words widenings trips id
    bigint
    decimal(10,0)

If the table cannot be read, nothing is printed: the shell would show an error in the middle of the command
line. Words that would have to be quoted in a shell are omitted.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from deltacli import DeltacliError, Snapshot, open_paimon, open_table

_MAX_WORDS = 1_000

_TYPES_OF_UNKNOWN_COLUMN = ("smallint", "int", "bigint", "double", "timestamp_ntz")
"""Types to offer if the table or the column cannot be read. Some column can be widened to each of them."""

_TYPES_OF_NEW_COLUMN = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(18,2)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
)
_DELTA_TYPE = "timestamp_ntz"
"""The only type in `_TYPES_OF_NEW_COLUMN` that does not exist in Paimon."""

_USUAL_PRECISIONS = (10, 12, 18, 20, 28, 38)
"""Precisions of decimals that are common in databases."""

_CHANGES_WITHOUT_COLUMN = ("name", "table-comment", "set", "unset")
"""Actions of `alter` that change the table, not a column."""

_PAIMON_POINTS = ("schema", "snapshot", "tag", "branch")
"""Directories of a Paimon table whose files can be selected: `schema/schema-3` is `--from schema:3`."""

_UNQUOTED_COLUMN = re.compile(r"[\w.]+")
_UNQUOTED_WORD = re.compile(r"[\w.:-]+(=[\w.:-]*|\(\d+,\d+\))?")
"""Words that need no quotes. The completion scripts quote the parentheses of `decimal(10,2)`."""

_READING_ERRORS = (DeltacliError, OSError, ValueError)


def table_words(kind: str, *arguments: str) -> list[str]:
    """Return the words that the user may want to complete.

    Args:
        kind: The kind of words, such as `columns`: a `CompletionKind` of deltacli/cli/described_commands.py.
        arguments: The arguments before the cursor. The first one is the table, or the policy file for `groups`.

    Returns:
        At most `_MAX_WORDS` words. Empty if the table cannot be read.
    """
    if arguments:
        path, *other_arguments = arguments
    else:
        path = "fleet.toml" if kind == "groups" else ""
        other_arguments = []

    # Completion must not wait for a network. Tables in object stores get the words that are the same for all tables.
    if "#" in path or not path:
        return []
    local_path = "" if "://" in path else path

    allowed = _UNQUOTED_COLUMN if kind in ("versions", "columns", "paths") else _UNQUOTED_WORD
    words = filter(allowed.fullmatch, _find_words(kind, local_path, other_arguments))
    return list(islice(words, _MAX_WORDS))


def _find_words(kind: str, path: str, others: Sequence[str]) -> Iterator[str]:
    """Yield the words of a kind.

    Args:
        kind: The kind of words.
        path: The local directory of the table, or the policy file; "" for a table in an object store.
        others: The arguments between the table and the cursor.
    """
    match kind:
        case "versions":
            yield from _find_versions(path)
        case "columns" | "paths":
            yield from _find_columns(path, nested=kind == "paths")
        case "altered":
            yield from _find_words_of_change(path, others)
        case "positions":
            yield from _find_positions(path, others[1] if len(others) > 1 else "")
        case "supposed":
            yield from (f"add={name}" for name in _find_features_to_add(path))
            yield from (f"drop={name}" for name in _find_features_to_drop(path))
            yield "widen="
        case "widenings":
            is_type = len(others) % 2 == 1
            yield from _find_wider_types(path, others[-1]) if is_type else _find_columns(path, nested=True)
        case "features":
            is_drop = others[:1] == ["drop"]
            yield from _find_features_to_drop(path) if is_drop else _find_features_to_add(path)
        case "properties" if others[:1] == ["set"] and others[-1].endswith("="):
            yield from _find_values_of_property(others[-1].removesuffix("="))
        case "properties":
            yield from _find_properties(path, others[0] if others else "get")
        case "points":
            yield from (f"version:{version}" for version in _find_versions(path))
            for point in _PAIMON_POINTS:
                yield from (f"{point}:{name}" for name in _find_paimon_names(path, point))
        case "groups":
            yield from _find_policy_groups(path)
        case _ if kind in _PAIMON_POINTS:
            yield from _find_paimon_names(path, kind)


def _find_words_of_change(path: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the words that can follow an action of `alter`: a column, its new type, or its position.

    Args:
        path: The local directory of the table.
        words: The action and its arguments: `["move", "id"]` before the cursor in `alter TABLE move id `.
    """
    match words:
        case ["constraint"]:
            yield from ("add", "drop")
        case ["mapping"]:
            yield "name"
        case ["move", column]:
            yield from _find_positions(path, column)
        case ["type", column]:
            yield from _find_wider_types(path, column)
        case ["add", _]:
            is_paimon = _is_paimon(path)
            yield from (word for word in _TYPES_OF_NEW_COLUMN if word != _DELTA_TYPE or not is_paimon)
        case [verb] | [("drop" | "nullable" | "not-null") as verb, *_] if verb not in _CHANGES_WITHOUT_COLUMN:
            yield from _find_columns(path, nested=True)


def _find_positions(path: str, column: str) -> Iterator[str]:
    """Yield the positions to which a column can be moved within its struct: `first`, `after:id`."""
    parent = column.rpartition(".")[0]
    siblings = [
        name for name in _find_columns(path, nested=True) if name.rpartition(".")[0] == parent and name != column
    ]
    yield from ("first", "last")
    for side in ("before", "after"):
        yield from (f"{side}:{name.removeprefix(f'{parent}.')}" for name in siblings)


def _find_versions(path: str) -> Iterator[str]:
    """Yield the versions of the commits of a Delta table, newest first."""
    if not path:
        return
    with suppress(OSError):
        names = os.listdir(os.path.join(path, "_delta_log"))
        versions = [int(name[:20]) for name in names if re.fullmatch(r"[0-9]{20}\.json", name)]
        yield from map(str, sorted(versions, reverse=True))


def _find_paimon_names(path: str, point: str) -> Iterator[str]:
    """Yield the names in a directory of a Paimon table, without the prefix: `3` of `schema/schema-3`."""
    if not path:
        return
    with suppress(OSError):
        names = os.listdir(os.path.join(path, point))
        yield from sorted(name.removeprefix(f"{point}-") for name in names if name.startswith(f"{point}-"))


def _find_policy_groups(path: str) -> Iterator[str]:
    with suppress(OSError, ValueError, AttributeError), open(path, "rb") as policy_file:
        yield from tomllib.load(policy_file).get("groups", {})


def _read_newest_snapshot(path: str) -> Snapshot | None:
    """Return the newest snapshot of a Delta table; None if the table cannot be read."""
    if not path:
        return None
    with suppress(*_READING_ERRORS):
        return open_table(path).snapshot()
    return None


def _is_paimon(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "schema"))


def _find_columns(path: str, *, nested: bool) -> Iterator[str]:
    """Yield the columns of a table.

    Args:
        path: The local directory of the table.
        nested: Whether fields of structs are included, for Delta tables.
    """
    from deltacli.delta.schema.column_path import places

    with suppress(*_READING_ERRORS):
        if _is_paimon(path):
            yield from (field.name for field in open_paimon(path).snapshot().schema.fields)
            return
        snapshot = _read_newest_snapshot(path)
        if snapshot is None:
            return
        if nested:
            yield from (field.text for field in places(snapshot.schema))
        else:
            yield from (field.name for field in snapshot.schema.fields)


def _find_wider_types(path: str, column: str) -> Iterator[str]:
    """Yield the types to which a column can be widened.

    For an unknown column of a Delta table, `_TYPES_OF_UNKNOWN_COLUMN` are yielded.
    """
    if _is_paimon(path):
        yield from _find_lossless_paimon_types(path, column)
        return
    from deltacli.delta.evolution.requests import sql_text
    from deltacli.delta.schema.column_path import places
    from deltacli.delta.schema.type_changes import INTEGER_DIGITS, WIDER, digits_of_decimal
    from deltacli.delta.schema.types import PrimitiveType

    snapshot = _read_newest_snapshot(path)
    types = {} if snapshot is None else {field.text: field.data_type for field in places(snapshot.schema)}
    match types.get(column):
        case None:
            yield from _TYPES_OF_UNKNOWN_COLUMN
        case PrimitiveType(name):
            yield from sorted(sql_text(PrimitiveType(wider)) for wider in WIDER.get(name, ()))
            # A type that is not a number counts as 99 digits, so that no decimal is offered for it.
            digits, scale = digits_of_decimal(name) or (INTEGER_DIGITS.get(name, 99) - 1, 0)
            yield from (f"decimal({precision},{scale})" for precision in _USUAL_PRECISIONS if precision > digits)


def _find_lossless_paimon_types(path: str, column: str) -> Iterator[str]:
    """Yield the types that can represent every value of a column of a Paimon table."""
    from deltacli.paimon.conversions import parse_sql_type
    from deltacli.paimon.schema_changes import Loss, judge_change
    from deltacli.paimon.types import AtomicType, with_nullability

    with suppress(*_READING_ERRORS, StopIteration):
        schema = open_paimon(path).snapshot().schema
        before = next(with_nullability(field.type, True) for field in schema.fields if field.name == column)
        scale = before.arguments[-1] if isinstance(before, AtomicType) and len(before.arguments) == 2 else 0
        candidates = [word for word in _TYPES_OF_NEW_COLUMN if word != _DELTA_TYPE and not word.endswith(")")]
        candidates += [f"decimal({precision},{scale})" for precision in _USUAL_PRECISIONS]
        for word in candidates:
            after = parse_sql_type(word)
            if after != before and judge_change(before, after, schema.options).loss is Loss.LOSSLESS:
                yield word


def _find_features_to_drop(path: str) -> Iterator[str]:
    """Yield the features that can be removed from a table. If it cannot be read, yield all features."""
    from deltacli.delta.protocol.feature_changes import removable

    snapshot = _read_newest_snapshot(path)
    if snapshot is None:
        yield from _find_features_to_add(path)
    else:
        yield from removable(snapshot.config)


def _find_features_to_add(path: str) -> Iterator[str]:
    """Yield the features that can be enabled. If the table cannot be read, yield all features."""
    from deltacli.delta.protocol.features import FEATURES

    snapshot = _read_newest_snapshot(path)
    supported = frozenset() if snapshot is None else snapshot.protocol.supported_features
    yield from sorted(name for name, feature in FEATURES.items() if not feature.obstacle and name not in supported)


def _find_values_of_property(key: str) -> Iterator[str]:
    """Yield `KEY=true` and `KEY=false` for a boolean property."""
    from deltacli.delta.protocol.known_properties import PropertyKind, property_kind

    if property_kind(key) is PropertyKind.BOOLEAN:
        yield from (f"{key}=true", f"{key}=false")


def _find_properties(path: str, action: str) -> Iterator[str]:
    """Yield names of table properties.

    Args:
        path: The local directory of the table.
        action: The action of `properties`. `set` and `get` accept all known properties. `unset` accepts the
            properties of the table.
    """
    from deltacli.delta.protocol.known_properties import known_keys

    snapshot = _read_newest_snapshot(path)
    keys = [] if snapshot is None else sorted(snapshot.properties)
    if action != "unset" or snapshot is None:
        keys += known_keys()
    for key in dict.fromkeys(keys):
        yield f"{key}=" if action == "set" else key
