"""Rules about partition values: their keys, their text, and the number of partitions, with the values in columns.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import (
    HIVE_DEFAULT,
    Spelling,
    altered_bytes,
    decimal_meant,
    is_refused_by_java_kernel,
    is_refused_by_kernel,
    is_text,
    may_be_equal,
    spelling_of,
    sure_spellings,
)
from deltacli.delta.paths.spelling import decode, decode_hive_text
from deltacli.delta.schema.types import PrimitiveType
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import FilesView, MetadataView, StateView, in_files, rows_where


@dataclass(frozen=True)
class PartitionColumn:
    """The values of one partition column.

    `rows` are the rows of the view that have one, None for all. `type_name` is None if the text cannot be checked: a
    column that is not in the schema, or a type that cannot partition.
    """

    name: str
    physical_name: str
    type_name: str | None
    is_nullable: bool
    values: ArrowArray
    rows: ArrowArray

    def row(self, index: int) -> int:
        """Return the row of the view."""
        return index if self.rows is None else int(self.rows[index].as_py())

    def occurrences(self, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Return where in the column any of these texts occurs."""
        indices = pc.indices_nonzero(pc.is_in(self.values, value_set=pa.array(texts, pa.string())))
        yield from zip(indices.to_pylist(), pc.take(self.values, indices).to_pylist(), strict=True)

    def text_at(self, row: int) -> str | None:
        """Return the text of a row of the view."""
        index = row if self.rows is None else self.rows.index(row).as_py()
        text: str | None = self.values[index].as_py()
        return text


class PartitionKeys:
    """The maps of a view, split into keys and values. `expected` are the physical names of the partition columns."""

    def __init__(self, view: FilesView) -> None:
        self._config = view.config
        self.maps = view.adds.column("partitionValues")
        self.expected = list(view.config.partition_columns)
        first, last = self.maps.offsets[0].as_py(), self.maps.offsets[len(self.maps)].as_py()
        self._keys = self.maps.keys.slice(first, last - first)
        self._items = self.maps.items.slice(first, last - first)
        sizes = pc.subtract(self.maps.offsets.slice(1), self.maps.offsets.slice(0, len(self.maps)))
        self._sizes = sizes
        self._foreign = [name for name in pc.unique(self._keys).to_pylist() if name not in self.expected]
        self.are_regular = (
            not self._foreign
            and self.maps.null_count == 0
            and bool(pc.all(pc.equal(sizes, len(self.expected))).as_py())
        )
        self._parents: Any = None
        self._columns: list[PartitionColumn] | None = None

    def names_of(self, row: int) -> list[str]:
        return [key for key, _ in self.maps[row].as_py() or ()]

    def rows_with_values(self) -> list[int]:
        """Return rows whose map is not empty."""
        rows: list[int] = pc.indices_nonzero(pc.greater(self._sizes, 0)).to_pylist()
        return rows

    def irregular_rows(self) -> list[int]:
        """Return rows whose keys are not exactly the partition columns."""
        if self.are_regular:
            return []
        wrong = pc.and_(pc.not_equal(self._sizes, len(self.expected)), pc.is_valid(self.maps))
        rows = set(pc.indices_nonzero(wrong).to_pylist())
        if self._foreign:
            strange = pc.is_in(self._keys, value_set=pa.array(self._foreign, pa.string()))
            rows.update(pc.filter(self._parent_rows(), strange).to_pylist())
        return sorted(rows)

    def columns(self) -> list[PartitionColumn]:
        """Return the values of every partition column."""
        if self._columns is None:
            self._columns = [self._column(name) for name in self.expected]
        return self._columns

    def _column(self, physical: str) -> PartitionColumn:
        field = self._config.partition_columns[physical]
        primitive = field is not None and isinstance(field.data_type, PrimitiveType)
        type_name = field.data_type.name if field and isinstance(field.data_type, PrimitiveType) and primitive else None
        name, is_nullable = (field.name, field.nullable) if field else (physical, True)
        if self.are_regular and len(self.expected) == 1:
            return PartitionColumn(name, physical, type_name, is_nullable, self._items, None)
        mask = pc.equal(self._keys, physical)
        rows = None if self.are_regular else pc.filter(self._parent_rows(), mask)
        return PartitionColumn(name, physical, type_name, is_nullable, pc.filter(self._items, mask), rows)

    def _parent_rows(self) -> ArrowArray:
        if self._parents is None:
            lists = pa.ListArray.from_arrays(self.maps.offsets, self.maps.keys)
            self._parents = pc.list_parent_indices(lists)
        return self._parents


def keys_of(view: FilesView) -> PartitionKeys:
    """Return the partition values of a view, parsed at the first call."""
    keys = view.memory.get("partition_keys")
    if not isinstance(keys, PartitionKeys):
        keys = view.memory["partition_keys"] = PartitionKeys(view)
    return keys


# -- rules about partition values --------------------------------------------------------------------------------------

AREA = Area("partitions", spec="Partition Value Serialization")

_RECOMMIT = "commit the same add again with correct partitionValues and dataChange=false"
KEY_MISSING = AREA.error(
    "partition.key-missing",
    "A file has no value for a partition column.",
    spec="Consistency Between Table Metadata and Data Files",
    broken="readers fail, or treat the value as null",
    repair=_RECOMMIT,
    example='{"add":{"path":"part-0.parquet","partitionValues":{},…}} where partitionColumns is ["p"]',
)
KEY_EXTRA = AREA.error(
    "partition.key-extra",
    "A file has a value for a name that is not a partition column.",
    spec="Add File and Remove File",
    broken="some readers fail, others ignore the value",
    repair=_RECOMMIT,
    example='"partitionValues":{"p":"a","q":"b"} where partitionColumns is ["p"]',
)
KEY_CASE = AREA.error(
    "partition.key-case",
    "A partition value has a name that differs from its column's name only in case.",
    spec="Add File and Remove File",
    broken="case-sensitive readers treat the value as null, or fail",
    repair=_RECOMMIT,
    example='"partitionValues":{"P":"a"} where partitionColumns is ["p"]',
)
UNPARSABLE = AREA.error(
    "partition.unparsable",
    "A partition value is not valid for the type of its column.",
    broken="readers fail, or treat the value as null",
    repair=_RECOMMIT,
    example='"partitionValues":{"day":"yesterday"} where day is a date',
)
EMPTY_STRING = AREA.warning(
    "partition.empty-string",
    "A string partition value is empty. Some engines read null, others an empty string.",
    broken="engines see different values in the same rows",
    repair="commit the same add again with null for the value and dataChange=false",
    loss="the difference between null and an empty string",
    example='"partitionValues":{"p":""} where p is a string',
)
NULL_IN_NOT_NULL = AREA.error(
    "partition.null-in-not-null",
    "A partition column that must not be null is null in a file.",
    spec="Struct Field",
    broken="the rows break the schema",
    repair="rewrite the file's rows with a value",
    example='"partitionValues":{"p":null} where p has "nullable":false',
)
TIMESTAMP_ZONELESS = AREA.info(
    "partition.timestamp-zoneless",
    "A timestamp partition value has no time zone, so its meaning depends on the session.",
    broken="readers in another time zone than the writer's see other times",
    repair="commit the same add again with the time in ISO 8601, UTC, and dataChange=false",
    example='"partitionValues":{"at":"2026-01-01 00:00:00"} where at is a timestamp',
)
NOT_CANONICAL = AREA.info(
    "partition.noncanonical",
    "A partition value has an unusual spelling, so one partition may appear as two.",
    broken="tools that compare partitions as text see two partitions instead of one",
    repair=_RECOMMIT,
    example='"partitionValues":{"year":"02026"} where year is an integer',
)
KERNEL_REFUSES = AREA.warning(
    "partition.kernel-unreadable",
    "A partition value has a spelling that readers built on a Delta kernel refuse.",
    broken="deltalake, DuckDB and other readers of a kernel cannot open the table (with an empty text, only readers of "
    "Kernel for Java, such as Flink); Spark reads it",
    repair=_RECOMMIT,
    example='"partitionValues":{"p":"1.5"} where p is a decimal(10,2)',
)
BINARY_ALTERED = AREA.warning(
    "partition.binary-altered",
    "A binary partition value looks like the text that a writer puts in place of bytes: escapes, or replacement "
    "characters.",
    broken="every engine reads the letters of the escapes, or the replacement characters, and not the bytes that were "
    "written; deltalake and polars write escapes for all bytes, DuckDB for bytes beyond ASCII, Spark replaces what is "
    "not UTF-8",
    repair="commit the same add again with the bytes as UTF-8 text for the value and dataChange=false; bytes that are "
    "not UTF-8 need another column",
    loss="nothing, if the bytes are UTF-8 or the escapes name them",
    example=r'"partitionValues":{"p":"\\u0041"} where p is binary',
)
HIVE_DEFAULT_USED = AREA.warning(
    "partition.hive-default",
    "A partition value is Hive's directory name for null.",
    broken="rows that were null now hold this text",
    repair="commit the same add again with null for the value and dataChange=false",
    example='"partitionValues":{"p":"__HIVE_DEFAULT_PARTITION__"}',
)
ON_UNPARTITIONED = AREA.warning(
    "partition.values-on-unpartitioned",
    "A file of a table without partitions has partition values.",
    spec="Add File and Remove File",
    broken="some readers fail",
    repair=_RECOMMIT,
    example='"partitionValues":{"p":"a"} where partitionColumns is []',
)
CARDINALITY = AREA.info(
    "partition.cardinality",
    "The table has so many partitions, or so little data in each file, that reading it is slow.",
    spec="deltacli",
    broken="queries spend most of their time opening files",
    repair="rewrite with fewer partitions",
    example="partitionColumns is [user_id], 2 million files of 40 KiB",
)
NTZ_DATE_ONLY = AREA.info(
    "partition.ntz-date-only",
    "A value of a timestamp_ntz partition column is only a date, as after widening from date.",
    spec="Type Widening",
    broken="several engines fail to read the file",
    repair="commit the same add again with 00:00:00 after the date and dataChange=false",
    example='"partitionValues":{"at":"2026-01-01"} where at is a timestamp_ntz',
)


MANY_PARTITIONS = 100_000
MANY_FILES = 1_000
SMALL_BYTES = 1_000_000


@AREA.check(FilesView, KEY_MISSING, KEY_EXTRA, KEY_CASE, ON_UNPARTITIONED)
def keys_of_partition_values(view: FilesView) -> Iterator[Finding]:
    """Report keys other than the partition columns; `mapping.partition-key-logical` reports mapped logical names."""
    if view.config.metadata is None:
        return
    keys = keys_of(view)
    if not keys.expected:
        rows = keys.rows_with_values()
        if rows:
            text = f"the table has no partition columns, but the file has partition values{in_files(len(rows))}"
            seen = ", ".join(keys.names_of(rows[0]))
            yield ON_UNPARTITIONED.at(view.place(rows[0]), text, seen=seen, expected="none")
        return
    columns = view.config.partition_columns.items()
    logical = {column.name: physical for physical, column in columns if column and column.name != physical}
    for row in keys.irregular_rows():
        yield from _judge_keys(view, row, keys, logical)


def _judge_keys(
    view: FilesView, row: int, partition_keys: PartitionKeys, logical: Mapping[str, str]
) -> Iterator[Finding]:
    names = partition_keys.names_of(row)
    missing = {name.lower(): name for name in partition_keys.expected if name not in names}
    expected = ", ".join(partition_keys.expected)
    for name in names:
        if name in partition_keys.expected:
            continue
        if name in logical:
            missing.pop(logical[name].lower(), None)
        elif name.lower() in missing:
            column = missing.pop(name.lower())
            text = f"the partition value of column {column} is under the name {name}"
            yield KEY_CASE.at(view.place(row), text, seen=name, expected=column)
        else:
            text = f"the file has a partition value for {name}, which is not a partition column"
            yield KEY_EXTRA.at(view.place(row), text, seen=name, expected=expected)
    for column in missing.values():
        text = f"the file has no partition value for column {column}"
        yield KEY_MISSING.at(view.place(row), text, seen=", ".join(names) or "none", expected=expected)


@AREA.check(
    FilesView,
    UNPARSABLE,
    EMPTY_STRING,
    NULL_IN_NOT_NULL,
    TIMESTAMP_ZONELESS,
    NOT_CANONICAL,
    KERNEL_REFUSES,
    BINARY_ALTERED,
    HIVE_DEFAULT_USED,
    NTZ_DATE_ONLY,
)
def texts_of_partition_values(view: FilesView) -> Iterator[Finding]:
    """Report values that do not parse as their column's type, or that engines read in different ways."""
    if view.config.metadata is None:
        return
    for column in keys_of(view).columns():
        if column.type_name is None:
            continue  # a column that is not in the schema, or of a type that cannot partition
        if not column.is_nullable:
            null = pc.is_null(column.values)
            if not is_text(column.type_name):
                null = pc.or_(null, pc.coalesce(pc.equal(column.values, ""), False))
            for index in rows_where(null):
                text = f"partition column {column.name} must not be null, but is null in the file"
                yield NULL_IN_NOT_NULL.at(view.place(column.row(index)), text, seen="null", expected="a value")
        yield from _judge_texts(view, column)


def _judge_texts(view: FilesView, column: PartitionColumn) -> Iterator[Finding]:
    """Check each distinct text once. Errors are reported file by file, unusual values once for all files."""
    spellings = _spellings(column)
    if not spellings:
        return
    type_name = column.type_name
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for index, text in column.occurrences(list(spellings)):
        rows[text].append(column.row(index))
    by_spelling: defaultdict[Spelling, list[int]] = defaultdict(list)
    for text, places in rows.items():
        spelling = spellings[text]
        if spelling in (Spelling.NO_ZONE, Spelling.DATE_ONLY):
            by_spelling[spelling] += places
        elif spelling is Spelling.UNPARSABLE:
            for row in places:
                message = f"the value of partition column {column.name} is not a valid {type_name}"
                meant = decimal_meant(type_name or "", text)
                if meant is not None:
                    message += f", but what deltalake writes for {meant}"
                yield UNPARSABLE.at(view.place(row), message, seen=text, expected=meant or type_name)
        else:
            cases: tuple[str, ...] = ()
            if spelling in (
                Spelling.REFUSED_BY_KERNEL,
                Spelling.EMPTY,
                Spelling.ESCAPED_BYTES,
                Spelling.REPLACED_BYTES,
            ):
                rule, message, expected = _WORDS[spelling.value]
                if rule is KERNEL_REFUSES:
                    cases = ("empty" if spelling is Spelling.EMPTY else "spelling",)
            else:
                rule, message, expected = _WORDS[text if text in _WORDS else "other"]
            message = message.format(column=column.name) + in_files(len(places))
            yield rule.at(view.place(places[0]), message, seen=text, expected=expected, cases=cases)
    for spelling, places in by_spelling.items():
        rule, message, expected = _WORDS[spelling.value]
        first = min(places)
        message = message.format(column=column.name) + in_files(len(places))
        yield rule.at(view.place(first), message, seen=column.text_at(first), expected=expected)


_WORDS = {
    "": (EMPTY_STRING, "partition column {column} is an empty string", "null, or a string that is not empty"),
    HIVE_DEFAULT: (HIVE_DEFAULT_USED, "partition column {column} holds Hive's name for null", "null"),
    "other": (NOT_CANONICAL, "the value of partition column {column} is spelled unusually", "the plain spelling"),
    Spelling.REFUSED_BY_KERNEL.value: (
        KERNEL_REFUSES,
        "readers built on a Delta kernel do not parse the value of partition column {column}",
        "a decimal with all digits of its scale; a time as `YYYY-MM-DD HH:MM:SS`, or ISO 8601 with Z; no blanks",
    ),
    Spelling.EMPTY.value: (
        KERNEL_REFUSES,
        "partition column {column} is an empty text, which readers take for null",
        "null",
    ),
    Spelling.ESCAPED_BYTES.value: (
        BINARY_ALTERED,
        "binary partition column {column} holds escapes, which engines read as letters",
        "the bytes as UTF-8 text",
    ),
    Spelling.REPLACED_BYTES.value: (
        BINARY_ALTERED,
        "binary partition column {column} holds replacement characters, in whose place there were other bytes",
        "the bytes as UTF-8 text",
    ),
    Spelling.NO_ZONE.value: (
        TIMESTAMP_ZONELESS,
        "the value of partition column {column} is a timestamp without a zone",
        "ISO 8601 with Z",
    ),
    Spelling.DATE_ONLY.value: (
        NTZ_DATE_ONLY,
        "the value of timestamp_ntz partition column {column} is a date alone",
        "a date and a time",
    ),
}


def _spellings(column: PartitionColumn) -> dict[str, Spelling]:
    """Return the distinct texts of a column that need a finding."""
    type_name = column.type_name or ""
    distinct = pc.unique(column.values)
    spellings: dict[str, Spelling] = {}
    if is_text(type_name):
        odd = pc.is_in(distinct, value_set=pa.array(["", HIVE_DEFAULT], pa.string()))
        spellings.update(dict.fromkeys(pc.filter(distinct, odd).to_pylist(), Spelling.NOT_CANONICAL))
        if type_name == "binary":
            spellings.update(altered_bytes(pc.drop_null(distinct).to_pylist()))
        return spellings
    is_refused_if_empty = is_refused_by_java_kernel(type_name, "")
    if is_refused_if_empty and pc.any(pc.equal(distinct, "")).as_py():
        spellings[""] = Spelling.EMPTY
    rest = pc.filter(distinct, pc.not_equal(distinct, ""))
    for pattern, spelling in sure_spellings(type_name):
        sure = pc.match_substring_regex(rest, pattern)
        if spelling is not Spelling.PLAIN:
            spellings.update(dict.fromkeys(pc.filter(rest, sure).to_pylist(), spelling))
        rest = pc.filter(rest, pc.invert(sure))
    for text in rest.to_pylist():
        spelling = spelling_of(type_name, text)
        if spelling not in (Spelling.UNPARSABLE, Spelling.DATE_ONLY) and is_refused_by_kernel(type_name, text):
            spelling = Spelling.REFUSED_BY_KERNEL
        if spelling is not Spelling.PLAIN:
            spellings[text] = spelling
    return spellings


@AREA.check(MetadataView, KERNEL_REFUSES)
def types_of_partition_columns(view: MetadataView) -> Iterator[Finding]:
    """Remember each type that a partition column had, for `texts_of_older_types`."""
    types: dict[str, dict[str, None]] = view.memory.setdefault(_TYPES, {})
    for name, type_name in _partition_types(view.config):
        types.setdefault(name, {})[type_name] = None
    yield from ()


@AREA.check(StateView, KERNEL_REFUSES)
def texts_of_older_types(view: StateView) -> Iterator[Finding]:
    """Report values that were written before their column got a wider type, in whose form they are not.

    Each add is checked with the schema of its own version, by which these values are right. A kernel parses them with
    the schema of the newest version.
    """
    types: dict[str, dict[str, None]] = view.memory.get(_TYPES, {})
    for name, type_name in _partition_types(view.config):
        older = [other for other in types.get(name, ()) if other != type_name]
        if not older or view.partition_texts is None:
            continue
        texts = [
            text
            for text in view.partition_texts(name)
            # A value that was refused with each older type is reported at its add.
            if text
            and is_refused_by_kernel(type_name, text)
            and not all(is_refused_by_kernel(other, text) for other in older)
        ]
        if texts:
            column = view.config.partition_columns[name]
            logical_name = name if column is None else column.name
            count = plural(len(texts), "value")
            message = (
                f"partition column {logical_name} has {count} from before it was widened from {older[-1]} to "
                f"{type_name}, which readers built on a Delta kernel do not parse"
            )
            _, _, expected = _WORDS[Spelling.REFUSED_BY_KERNEL.value]
            yield KERNEL_REFUSES.at(view.place(), message, seen=min(texts), expected=expected)


_TYPES = "types of partition columns"
"""Names the memory of the types: physical name -> the types in the order of their versions."""


def _partition_types(config: TableConfiguration) -> Iterator[tuple[str, str]]:
    """Yield the physical name and the type of each partition column."""
    for name, column in config.partition_columns.items():
        if column is not None and isinstance(column.data_type, PrimitiveType):
            yield name, column.data_type.name


@AREA.check(StateView, CARDINALITY)
def partitions_that_are_too_small(view: StateView) -> Iterator[Finding]:
    """More than 100,000 partition directories, or more than 1,000 live files of less than 1 MB each on average."""
    files = view.live.num_rows
    metadata = view.config.metadata
    if metadata is None or not metadata.partition_columns or files <= MANY_FILES:
        return
    place = view.place()
    if files > MANY_PARTITIONS:
        partitions = count_partitions(view.live.column("path"))
        if partitions > MANY_PARTITIONS:
            text = f"the table has {format_count(partitions)} partitions"
            expected = f"at most {format_count(MANY_PARTITIONS)}"
            yield CARDINALITY.at(place, text, seen=partitions, expected=expected)
            return
    average = (pc.sum(view.live.column("size")).as_py() or 0) // files
    if average < SMALL_BYTES:
        text = (
            f"the {format_count(files)} files of the partitioned table have an average size of {format_size(average)}"
        )
        yield CARDINALITY.at(place, text, seen=format_size(average), expected="1 MB or more")


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
        pair = by_name.get(decode_hive_text(name)) if is_partition else None
        if pair is None:
            continue
        column, logged = pair
        named = decode_hive_text(escaped)
        if _differ(column, named, logged) and escaped != logged:
            yield column.name, named, logged or "null"


def _differ(column: PartitionColumn, named: str, logged: str) -> bool:
    """Return True if a directory's value certainly differs from the log's. Another rule reports what does not parse."""
    is_null, is_logged_null = named in ("", HIVE_DEFAULT), logged in ("", HIVE_DEFAULT)
    if is_null or is_logged_null:
        return is_null != is_logged_null
    type_name = column.type_name
    if type_name is None or spelling_of(type_name, logged) is Spelling.UNPARSABLE:
        return False
    return not may_be_equal(type_name, named, logged)


def count_partitions(paths: ArrowArray) -> int:
    """Return the number of directories of the form `column=value`."""
    counts = []
    for chunk in paths.chunks:
        named = pc.filter(chunk, pc.match_substring(chunk, "="))
        counts.append(pc.unique(pc.replace_substring_regex(named, _FILE_NAME, "")))
    return len(pc.unique(pa.chunked_array(counts, pa.string())))
