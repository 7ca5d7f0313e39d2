"""Compare a checkpoint's file actions with those expected by replay, in columns.

Spec: Checkpoints; Action Reconciliation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowType, Json
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.encoding.many_values import compute_fingerprints, find_repeated_hashes
from deltacli.delta.encoding.value_text import date_texts, json_column, parse_moment
from deltacli.delta.log.actions import FIELDS, FieldType
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling_columns import canonicalize_paths
from deltacli.delta.schema.types import simple_name
from deltacli.delta.stats.columns import as_single
from deltacli.delta.stats.schema import BOUNDS, leaf_columns

_COMPARED = {name: field.type for name, field in FIELDS["add"].items() if name not in ("path", "dataChange")}
_NUMBERS = tuple(name for name, field_type in _COMPARED.items() if field_type is FieldType.LONG)
_TEXTS = tuple(name for name in _COMPARED if name not in _NUMBERS)
_BETWEEN = b"\x00"
_LAST_DIGITS = 1e-14
"Allowed relative difference between two texts of one double, or a decimal and its double."


class Difference(NamedTuple):
    """A field of a file that differs between a checkpoint and the log."""

    path: str
    field: str
    seen: object
    expected: object


class CheckpointComparison(NamedTuple):
    """Raw paths only in the log, raw paths only in the checkpoint, and fields that differ."""

    missing: list[str]
    extra: list[str]
    different: list[Difference]


def keys_of(rows: pa.RecordBatch) -> ArrowArray:
    """Return the key of each file action, canonical path and vector id, in bytes. Spec: Add File and Remove File."""
    paths = canonicalize_paths(rows.column("path"))
    vectors = rows.column("deletionVector")
    if vectors.null_count == len(vectors):
        return pc.binary_join_element_wise(paths, _BETWEEN, b"")
    ids = pc.cast(unique_id_column(vectors), pa.binary())
    return pc.binary_join_element_wise(paths, ids, _BETWEEN)


def comparable_adds(rows: pa.RecordBatch) -> pa.Table:
    """Return adds (`action_schemas().add`) as comparable columns: numbers unchanged, everything else as JSON text.

    Inline vectors that differ only in an offset, which they do not need, belong to the same add: their field differs.
    """
    keys = keys_of(rows)
    vectors = rows.column("deletionVector")
    if vectors.null_count < rows.num_rows:
        is_inline = pc.fill_null(pc.equal(pc.struct_field(vectors, ["storageType"]), "i"), False)
        texts = pc.cast(pc.struct_field(vectors, ["pathOrInlineDv"]), pa.binary())
        ids = pc.binary_join_element_wise(b"i", texts, b"")
        inline = pc.binary_join_element_wise(canonicalize_paths(rows.column("path")), ids, _BETWEEN)
        keys = pc.if_else(is_inline, inline, keys)
    columns: dict[str, Any] = {"key": keys, "path": rows.column("path")}
    columns |= {name: rows.column(name) for name in _NUMBERS}
    for name in _TEXTS:
        column = rows.column(name)
        text = column if pa.types.is_string(column.type) else json_column(column)
        if name == "tags":
            text = pc.coalesce(text, pa.scalar("{}"))
        columns[name] = pc.cast(text, pa.string())
    return pa.table(columns)


def compare(actual: pa.Table, expected: pa.Table, config: TableConfiguration) -> CheckpointComparison:
    """Compare `comparable` tables of the checkpoint and the log.

    Statistics are compared only if both have them as text; maps and statistics are compared by content, by the types of
    the columns.
    """
    actual, expected = actual.combine_chunks(), expected.combine_chunks()
    at = pc.index_in(actual.column("key"), value_set=_one(expected.column("key")))
    extra = pc.filter(actual.column("path"), pc.is_null(at)).to_pylist()
    there = pc.is_in(expected.column("key"), value_set=_one(actual.column("key")))
    missing = pc.filter(expected.column("path"), pc.invert(there)).to_pylist()
    both = pc.is_valid(at)
    ours = pc.filter(actual, both)
    theirs = pc.take(expected, pc.filter(at, both))
    return CheckpointComparison(missing, extra, list(_differences(ours, theirs, config)))


def _differences(actual: pa.Table, expected: pa.Table, config: TableConfiguration) -> Iterator[Difference]:
    for name in (*_NUMBERS, *_TEXTS):
        ours, theirs = actual.column(name), expected.column(name)
        unequal = pc.fill_null(pc.not_equal(ours, theirs), False)
        if name != "stats":
            unequal = pc.or_(unequal, pc.xor(pc.is_valid(ours), pc.is_valid(theirs)))
        if not pc.any(unequal).as_py():
            continue
        rows = pc.indices_nonzero(unequal)
        values = zip(
            pc.take(actual.column("path"), rows).to_pylist(),
            pc.take(ours, rows).to_pylist(),
            pc.take(theirs, rows).to_pylist(),
            strict=True,
        )
        singles = _single_bounds(config) if name == "stats" else frozenset()
        for path, seen, wanted in values:
            if name not in ("partitionValues", "stats", "tags") or not _say_the_same(name, seen, wanted, singles):
                yield Difference(path, name, seen, wanted)


def _single_bounds(config: TableConfiguration) -> frozenset[str]:
    """Return the bounds of single-precision columns, as `_unequal` names them."""
    leaves = leaf_columns(config)
    singles = [".".join(path) for _, path, data_type in leaves if simple_name(data_type) == "float"]
    return frozenset(f"{bound}.{path}" for bound in BOUNDS for path in singles)


def _say_the_same(name: str, one: str | None, other: str | None, singles: frozenset[str]) -> bool:
    """Return True if two JSON texts are equivalent. Order of keys, spelling of numbers, and fields that only one of two
    statistics has are ignored. An empty partition value is null.
    """
    if one is None or other is None:
        return False
    try:
        ours, theirs = json.loads(one), json.loads(other)
    except (ValueError, RecursionError):
        return False
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if name == "stats":
            return not any(True for _ in _differing(ours, theirs, singles))
        if name == "partitionValues":
            return {key: value or None for key, value in ours.items()} == {
                key: value or None for key, value in theirs.items()
            }
    return bool(ours == theirs)


class DuplicateFinder:
    """Finds keys that recur among millions. It keeps 8 bytes of each, and the whole key only where these recur."""

    def __init__(self) -> None:
        self._prints: list[ArrowArray] = []
        self._rows: list[Any] = []  # Any: the paths and vectors of each batch

    def take(self, rows: pa.RecordBatch) -> None:
        """Add file actions."""
        self._prints.append(compute_fingerprints(canonicalize_paths(rows.column("path"))))
        self._rows.append(rows.select(["path", "deletionVector"]))

    def paths(self) -> list[str]:
        """Return the canonical paths of keys that occur more than once, each once."""
        if not self._prints:
            return []
        often = find_repeated_hashes(pa.concat_arrays(self._prints))
        if len(often) == 0:
            return []
        keys = [
            keys_of(pc.filter(rows, pc.is_in(prints, value_set=often)))
            for rows, prints in zip(self._rows, self._prints, strict=True)
        ]
        counted = pc.value_counts(pa.chunked_array(keys, pa.binary()))
        twice = pc.filter(counted.field("values"), pc.greater(counted.field("counts"), 1))
        return sorted({bytes(key).split(_BETWEEN)[0].decode("utf-8", "replace") for key in twice.to_pylist()})


def parsed_partition_differences(
    values: Any, parsed: Any, paths: Any, names: Sequence[str]
) -> Iterator[Difference]:  # Any: a map column, a struct column, a string column
    """Return where a parsed partition value is null and the text is not, or vice versa, or where both are the same text
    in different spellings (strings, integers, booleans, dates).
    """
    fields = {parsed.type.field(index).name: index for index in range(parsed.type.num_fields)}
    for name in names:
        if name not in fields:
            continue
        typed = pc.struct_field(parsed, [name])
        text = pc.map_lookup(values, query_key=pa.scalar(name), occurrence="first")
        present = pc.and_(pc.is_valid(text), pc.not_equal(pc.fill_null(text, ""), ""))
        unequal = pc.xor(present, pc.is_valid(typed))
        kind = typed.type
        if any(test(kind) for test in (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)):
            shown = date_texts(typed) if pa.types.is_date32(kind) else pc.cast(typed, pa.string())
            unequal = pc.or_(unequal, pc.fill_null(pc.not_equal(shown, text), False))
        texts = json_column(typed)
        for row in pc.indices_nonzero(unequal).to_pylist():
            seen, wanted = texts[row].as_py(), text[row].as_py()
            if not _same_number(seen, wanted) and not (
                seen in ("true", "false") and wanted is not None and wanted.lower() == seen
            ):
                yield Difference(paths[row].as_py(), name, seen, wanted)


def _same_number(seen: str | None, wanted: str | None) -> bool:
    """Return True for integers that differ only in spelling: `01`, `+5`."""
    try:
        return seen is not None and wanted is not None and int(seen) == int(wanted)
    except ValueError:
        return False


def parsed_record_differences(stats: ArrowArray, parsed: ArrowArray, paths: ArrowArray) -> Iterator[Difference]:
    """Return where `stats_parsed` differs from the text of the statistics: numRecords, and every minimum, maximum and
    null count that both have as a number or a text.
    """
    fields = {parsed.type.field(index).name for index in range(parsed.type.num_fields)}
    if "numRecords" not in fields or stats.null_count == len(stats):
        return
    both = pc.and_(pc.is_valid(stats), pc.is_valid(parsed))
    if not pc.any(both).as_py():
        return
    chosen = pc.indices_nonzero(both)
    ours = pc.cast(json_column(pc.take(parsed, chosen)), pa.string())
    texts = pc.take(stats, chosen)
    rows = pc.indices_nonzero(pc.fill_null(pc.not_equal(ours, texts), False))
    singles = frozenset(_singles("", parsed.type))
    for row in rows.to_pylist():
        for field, seen, wanted in _unequal_leaves(ours[row].as_py(), texts[row].as_py(), singles):
            yield Difference(paths[chosen[row].as_py()].as_py(), field, seen, wanted)


def _singles(prefix: str, kind: ArrowType) -> Iterator[str]:
    """Return the single-precision fields, whose shortest text differs from that of the same value as a double."""
    for field in kind:
        if pa.types.is_struct(field.type):
            yield from _singles(f"{prefix}{field.name}.", field.type)
        elif pa.types.is_float32(field.type):
            yield prefix + field.name


def _is_one_single(one: Json, other: Json) -> bool:
    return _is_number(one) and _is_number(other) and as_single(float(one)) == as_single(float(other))


def _unequal_leaves(parsed: str, text: str, singles: frozenset[str]) -> Iterator[tuple[str, object, object]]:
    try:
        ours, theirs = json.loads(parsed), json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        yield from _differing(ours, theirs, singles)


def _differing(
    ours: dict[str, Any], theirs: dict[str, Any], singles: frozenset[str]
) -> Iterator[tuple[str, object, object]]:
    """Yield where two statistics differ, but for the digits of single-precision bounds."""
    for field, one, other in _unequal("", ours, theirs):
        if field not in singles or not _is_one_single(one, other):
            yield field, one, other


def _unequal(prefix: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, object, object]]:
    for name, one in ours.items():
        if name not in theirs:
            continue
        other = theirs[name]
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _unequal(f"{prefix}{name}.", one, other)
        elif _is_number(one) and _is_number(other):
            are_whole = isinstance(one, int) and isinstance(other, int)
            same = one == other if are_whole else isclose(one, other, rel_tol=_LAST_DIGITS)
            if not same:
                yield f"{prefix}{name}", one, other
        elif _differ(one, other):
            yield f"{prefix}{name}", one, other


def _differ(one: object, other: object) -> bool:
    if isinstance(one, bool):
        return other is (not one)
    return isinstance(one, str) and isinstance(other, str) and one != other and not _are_one_moment(one, other)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_one_moment(one: str, other: str) -> bool:
    """Return True for times less than a second apart, for a date and its midnight, and for differences that time zones
    may explain, because writers truncate and round what their types cannot hold.
    """
    ours, theirs = parse_moment(one), parse_moment(other)
    if ours is None or theirs is None:
        return False
    has_zone = one.endswith("Z"), other.endswith("Z")
    return abs(ours.microseconds - theirs.microseconds) < 1_000_000 or has_zone[0] != has_zone[1]


def _one(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks()
