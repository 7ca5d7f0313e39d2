"""Directories that look like partitions. They are informational, because the log decides. Spec: Data Files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from deltacli.arrow import compute as pc
from deltacli.delta.partitions.text import HIVE_DEFAULT, Spelling, may_be_equal, spelling_of
from deltacli.delta.paths.path_decoding import decode
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.views import FilesView
from deltacli.delta.rules.partitions.columns import PartitionColumn, keys_of
from deltacli.typing import ArrowArray
from deltacli.units import format_count

AREA = Area("partitions")

DIR_MISMATCH = AREA.info(
    "partition.dir-mismatch",
    "A file's directory names a different partition value than the log.",
    spec="Data Files",
    broken="nothing: the log decides",
    repair="no repair needed",
    example='{"add":{"path":"p=b/part-0.parquet","partitionValues":{"p":"a"},…}}',
)


_FILE_NAME = "[^/]*$"
_NUL = "\0"
_AFTER_SLASH = "0"
"The character after the slash: texts that begin with `p=a/` sort from `p=a/` up to `p=a0`."


@AREA.check(FilesView, DIR_MISMATCH)
def directories_of_other_values(view: FilesView) -> Iterator[Finding]:
    """Report directories `column=value` that differ from partitionValues. Once per directory."""
    if view.config.metadata is None or not view.config.partition_columns:
        return
    partition_keys = keys_of(view)
    columns = partition_keys.columns()
    if not partition_keys.are_regular or not columns:
        return
    paths = view.adds.column("path")
    rows = pc.indices_nonzero(pc.and_not(pc.match_substring(paths, "="), _as_usual(paths, columns)))
    if not len(rows):
        return
    keys = pc.dictionary_encode(_directories_with_values(paths, columns, rows))
    files: Counter[int] = Counter()
    first: dict[int, int] = {}
    for number, key in enumerate(keys.dictionary.to_pylist()):
        directory, *values = key.split(_NUL)
        texts = {c.physical_name: (c, v) for c, v in zip(columns, values, strict=False)}
        for name, named, logged in _differences(directory, texts):
            if not files:
                of_rows = keys.indices.to_pylist()
                files.update(of_rows)
                first.update(zip(reversed(of_rows), range(len(of_rows) - 1, -1, -1), strict=True))
            many = f" in {format_count(files[number])} files" if files[number] > 1 else ""
            text = f"the directory names a different value of partition column {name} than the log{many}"
            place = view.place(rows[first[number]].as_py())
            yield DIR_MISMATCH.at(place, text, seen=named, expected=logged)


def _as_usual(paths: ArrowArray, columns: list[PartitionColumn]) -> ArrowArray:
    """Return rows whose path begins with `p=value/q=value/`, with the values of the log, none of which has a slash."""
    texts = [pc.coalesce(column.values, HIVE_DEFAULT) for column in columns]
    segments = [
        pc.binary_join_element_wise(column.physical_name, values, "=")
        for column, values in zip(columns, texts, strict=True)
    ]
    directory = segments[0] if len(segments) == 1 else pc.binary_join_element_wise(*segments, "/")
    low = pc.binary_join_element_wise(directory, "", "/")
    high = pc.binary_join_element_wise(directory, "", _AFTER_SLASH)
    mask = pc.and_(pc.greater_equal(paths, low), pc.less(paths, high))
    for values in texts:
        mask = pc.and_not(mask, pc.match_substring(values, "/"))
    return mask


def _directories_with_values(paths: ArrowArray, columns: list[PartitionColumn], rows: ArrowArray) -> ArrowArray:
    """Return the directory and the values of each row in one text, of which few are distinct."""
    directories = pc.replace_substring_regex(pc.take(paths, rows), _FILE_NAME, "")
    values = [pc.coalesce(pc.take(column.values, rows), "") for column in columns]
    return pc.binary_join_element_wise(directories, *values, _NUL)


def _differences(directory: str, texts: Mapping[str, tuple[PartitionColumn, str]]) -> Iterator[tuple[str, str, str]]:
    """Return column, the directory's value and the log's value if they certainly differ."""
    by_name = {pair[0].name: pair for pair in texts.values()} | dict(texts)
    for segment in decode(directory).split("/"):
        name, is_partition, escaped = segment.partition("=")
        pair = by_name.get(unquote(name)) if is_partition else None
        if pair is None:
            continue
        column, logged = pair
        named = unquote(escaped)
        if _differ(column, named, logged) and escaped != logged:
            yield column.name, named, logged or "null"


def _differ(column: PartitionColumn, named: str, logged: str) -> bool:
    """Return True if a directory's value and the log's certainly differ. Another rule reports a value that does not
    parse.
    """
    is_null, is_logged_null = named in ("", HIVE_DEFAULT), logged in ("", HIVE_DEFAULT)
    if is_null or is_logged_null:
        return is_null != is_logged_null
    type_name = column.type_name
    if type_name is None or spelling_of(type_name, logged) is Spelling.UNPARSABLE:
        return False
    return not may_be_equal(type_name, named, logged)


def count_partitions(paths: Any) -> int:  # Any: a chunked string array
    """Return the number of directories of the form `column=value`."""
    import pyarrow as pa

    counts = []
    for chunk in paths.chunks:
        named = pc.filter(chunk, pc.match_substring(chunk, "="))
        counts.append(pc.unique(pc.replace_substring_regex(named, _FILE_NAME, "")))
    return len(pc.unique(pa.chunked_array(counts, pa.string())))
