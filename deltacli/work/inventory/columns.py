"""Find the columns of an inventory in any spelling, and convert their values to one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.encoding.value_text import parse_moment
from deltacli.delta.paths.spelling import IS_ABSOLUTE, spellings_of_root
from deltacli.delta.paths.spelling_columns import decode_column

CODE = "vacuum.inventory"
"""The code of the error for an inventory that cannot be read."""
_PATHS = ("path", "key", "name")
_SIZES = ("size", "length", "sizebytes")
_TIMES = ("modificationtime", "modificationtimems", "modified", "lastmodified", "lastmodifieddate")
_SECONDS_BELOW = 10**11
_MILLISECONDS_BELOW = 10**14
"""Limits for numbers that are times. Numbers below the first are seconds, up to the year 5138.

Numbers above the second, in milliseconds, are not valid file times.
"""

_SIZES_BELOW = float(1 << 62)
_NUMBER = rb"^[0-9]{1,18}$"
_PLAIN_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z?$"
_NAMED_ZONE = "/"
_ODD = r"//|^/|/$|^$|(?:^|/)[.][.]?(?:/|$)"


class InventoryColumns(NamedTuple):
    """The names of columns as spelled in a file; None for a missing column. `is_encoded`: paths are URL-encoded."""

    path: str
    size: str
    time: str
    bucket: str | None = None
    is_directory: str | None = None
    is_latest: str | None = None
    is_marker: str | None = None
    is_encoded: bool = False

    @classmethod
    def choose(cls, names: Sequence[str], location: str, *, is_encoded: bool = False) -> Self:
        """Find columns, ignoring case and `_` between words. Raises Unreadable if path, size or time is missing."""
        known: dict[str, list[str]] = {}
        for name in names:
            known.setdefault(name.strip().replace("_", "").lower(), []).append(name)

        def find(*spellings: str) -> str | None:
            columns = next((known[spelling] for spelling in spellings if spelling in known), [])
            if len(columns) > 1:
                raise _make_columns_error(
                    location, f"columns {' and '.join(columns)} could both be the {spellings[0]}", names
                )
            return columns[0] if columns else None

        def need(what: str, *spellings: str) -> str:
            column = find(*spellings)
            if column is None:
                raise _make_columns_error(location, f"it has no column for the {what} of a file", names)
            return column

        bucket = find("bucket") if "key" in known else None
        path = need("path", "key") if bucket else need("path", *_PATHS)
        return cls(
            path=path,
            size=need("size", *_SIZES),
            time=need("time", *_TIMES),
            bucket=bucket,
            is_directory=find("isdir", "isdirectory"),
            is_latest=find("islatest"),
            is_marker=find("isdeletemarker"),
            is_encoded=is_encoded,
        )

    @property
    def names(self) -> list[str]:
        return [name for name in self[:-1] if isinstance(name, str)]

    def paths(self, rows: RecordBatch) -> ArrowArray:
        """Return the paths of rows. With a bucket and a key, they are S3 URIs."""
        paths = _decode_binary(self.path, rows.column(self.path))
        if self.is_encoded:
            # The encoding is that of HTML forms, so `+` is a space.
            texts = pc.cast(pc.replace_substring(paths, pattern=b"+", replacement=b" "), pa.string())
            paths = decode_column(texts)
        if self.bucket is None:
            return paths
        buckets = _decode_binary(self.bucket, rows.column(self.bucket))
        scheme, slash = (pa.scalar(part, pa.binary()) for part in (b"s3://", b"/"))
        return pc.binary_join_element_wise(scheme, buckets, slash, paths, pa.scalar(b"", pa.binary()))


class RootRemover:
    """Removes the root of a table, in any of its URI forms, from paths."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._starts = tuple(dict.fromkeys(start for root in roots for start in spellings_of_root(root)))

    def remove_roots(self, paths: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
        """Return the paths without the root, and a mask of the paths below it.

        Absolute paths of the root and all relative paths are below it. Paths with empty or dot segments do not count as
        below the root: deltacli listings never contain them, and `..` leads out of the table.
        """
        absolute = pc.match_substring_regex(paths, IS_ABSOLUTE.pattern)
        inside = pc.invert(absolute)
        if pc.any(absolute).as_py():
            for start in self._starts:
                begins = pc.and_(absolute, pc.starts_with(paths, pattern=start))
                if pc.any(begins).as_py():
                    cut = pc.replace_substring(paths, pattern=start, replacement=b"", max_replacements=1)
                    paths = pc.if_else(begins, cut, paths)
                    absolute = pc.and_(absolute, pc.invert(begins))
                    inside = pc.or_(inside, begins)
        odd = pc.match_substring_regex(paths, _ODD)
        return paths, pc.fill_null(pc.and_(inside, pc.invert(odd)), pa.scalar(False))


def parse_times(name: str, values: ArrowArray) -> ArrowArray:
    """Return times as milliseconds since the epoch; null for missing and invalid times, and dates without a time.

    Numbers are seconds or milliseconds, depending on their magnitude. Strings without a time zone are UTC.
    """
    values = _decode_dictionary(values)
    kind = values.type
    if pa.types.is_timestamp(kind):
        per_ms = {"s": None, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
        ticks = pc.cast(values, pa.int64())
        times = _parse_numbers_as_times(ticks) if per_ms is None else pc.divide(ticks, per_ms)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        times = _parse_numbers_as_times(values)
    elif _is_text(kind):
        times = _parse_texts_as_times(pc.cast(values, pa.binary()))
    else:
        raise _make_type_error(name, kind, "a timestamp, a string or a number")
    is_time = pc.and_(pc.greater(times, 0), pc.less(times, _MILLISECONDS_BELOW))
    return pc.if_else(is_time, times, pa.scalar(None, pa.int64()))


def parse_sizes(name: str, values: ArrowArray) -> ArrowArray:
    """Return sizes in bytes; null for values that are not a size."""
    values = _decode_dictionary(values)
    if pa.types.is_integer(values.type):
        numbers = pc.cast(values, pa.int64(), safe=False)
    elif pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        doubles = pc.cast(values, pa.float64())
        is_size = pc.and_(pc.greater_equal(doubles, 0), pc.less(doubles, _SIZES_BELOW))
        numbers = pc.cast(pc.if_else(is_size, doubles, pa.scalar(None, pa.float64())), pa.int64(), safe=False)
    elif _is_text(values.type):
        numbers = _parse_integers(pc.cast(values, pa.binary()))
    else:
        raise _make_type_error(name, values.type, "a number")
    return pc.if_else(pc.greater_equal(numbers, 0), numbers, pa.scalar(None, pa.int64()))


def parse_booleans(values: ArrowArray) -> ArrowArray:
    """Return booleans, converted from strings and numbers if necessary; null for values that are not a boolean."""
    values = _decode_dictionary(values)
    if pa.types.is_boolean(values.type):
        return values
    texts = pc.cast(pc.cast(values, pa.string(), safe=False), pa.binary())
    yes = pc.match_substring_regex(texts, "(?i)^(?:true|t|1)$")
    no = pc.match_substring_regex(texts, "(?i)^(?:false|f|0)$")
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _parse_numbers_as_times(values: Any) -> Any:
    kind = pa.int64() if pa.types.is_integer(values.type) else pa.float64()
    values = pc.cast(values, kind, safe=False)
    is_time = pc.and_(pc.greater(values, 0), pc.less(values, _MILLISECONDS_BELOW))
    values = pc.if_else(is_time, values, pa.scalar(None, kind))
    times = pc.if_else(pc.less(values, _SECONDS_BELOW), pc.multiply(values, pa.scalar(1_000, kind)), values)
    return pc.cast(times, pa.int64(), safe=False)


def _parse_texts_as_times(values: Any) -> Any:
    """Parse numbers, then times in common formats, all at once. The remaining values are parsed one by one."""
    times = _parse_numbers_as_times(_parse_integers(values))
    plain = pc.fill_null(pc.match_substring_regex(values, _PLAIN_TIME), False)
    if pc.any(plain).as_py():
        texts = pc.if_else(plain, values, pa.scalar(None, pa.binary()))
        texts = pc.cast(pc.replace_substring(texts, pattern=b"Z", replacement=b""), pa.string())
        try:
            moments = pc.divide(pc.cast(pc.cast(texts, pa.timestamp("us")), pa.int64()), 1_000)
        except pa.ArrowInvalid:  # for example February 30
            plain = pa.repeat(pa.scalar(False), len(values))
        else:
            times = pc.coalesce(times, moments)
    is_unparsed = pc.and_(pc.is_valid(values), pc.is_null(times))
    if not pc.any(is_unparsed).as_py():
        return times

    # Each different text is parsed once: files that were written together have the same time.
    distinct = pc.dictionary_encode(pc.filter(values, is_unparsed))
    moments = pa.array([_parse_moment(text) for text in distinct.dictionary.to_pylist()], pa.int64())
    return pc.replace_with_mask(times, is_unparsed, pc.take(moments, distinct.indices))


def _parse_moment(text: bytes) -> int | None:
    moment = parse_moment(text.decode("ascii", "replace").strip())
    if moment is None or moment.is_date_only or _NAMED_ZONE in text.decode("ascii", "replace"):
        return None
    return moment.microseconds // 1_000


def _parse_integers(values: Any) -> Any:
    is_number = pc.match_substring_regex(values, _NUMBER)
    texts = pc.if_else(is_number, values, pa.scalar(None, pa.binary()))
    return pc.cast(pc.cast(texts, pa.string()), pa.int64())


def _decode_binary(name: str, values: Any) -> Any:
    values = _decode_dictionary(values)
    if not _is_text(values.type):
        raise _make_type_error(name, values.type, "a string")
    return pc.cast(values, pa.binary())


def _decode_dictionary(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _is_text(kind: Any) -> bool:
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view())
    return kind in kinds


def _make_columns_error(location: str, reason: str, names: Sequence[str]) -> Unreadable:
    return Unreadable(
        f"{location} cannot be used as an inventory: {reason}",
        code=CODE,
        facts={
            "columns": summarize_names(names, 20)[:400] or "none",
            "needed": "path, size and time; as S3 Inventory: Bucket, Key, Size, LastModifiedDate",
        },
    )


def _make_type_error(name: str, kind: Any, expected: str) -> Unreadable:
    return Unreadable(
        f"column {name} of the inventory is of type {kind}", code=CODE, facts={"column": name, "expected": expected}
    )
