"""Partitions according to the directories of paths, for display and for selecting files.

A file that no version names has only its directories. Ambiguous values are not selected. Spec: Partition Value
Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import UsageError, parameter
from deltacli.delta.listing import directories_of
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.partitions.values import HIVE_DEFAULT, parse_partition_values
from deltacli.delta.paths.spelling import decode_hive
from deltacli.delta.predicate.parse import parse_on_partitions
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.types import Kind, StructField, find_name_positions, value_kind

_NAMED_ZONE = re.compile("[A-Za-z]/")
Texts = Mapping[str, str | None]
"""Physical name of a column -> the text of its value, None for null."""


class PartitionSelector:
    """Selects files by a condition on partition columns, using the values in their directories.

    Raises UsageError (`usage.where`) for an invalid condition, or one on other columns.
    """

    def __init__(self, config: TableConfiguration, where: str) -> None:
        self._config = config
        try:
            self._predicate, self._needed = parse_on_partitions(config, where)
        except UsageError as fault:
            if "partition columns" in fault.facts:
                fault.hint = f"{parameter('vacuum.prefix')} selects the files below a directory"
            raise
        columns = [(name, column) for name, column in config.partition_columns.items() if column]
        self._spellings = [(spelling, name) for name, column in columns for spelling in {name, column.name}]
        self._known: dict[bytes, bool] = {}

    def mask(self, paths: pa.BinaryArray) -> pa.BooleanArray:
        """Return True if the directories have every column of the condition, and it is true; never null.

        False, so that the file is kept, for a value that is not valid for its column's type, is empty, or occurs twice.
        """
        directories = directories_of(paths)
        distinct = directories.dictionary.to_pylist()
        new = [path for path in distinct if path not in self._known]
        self._known.update(zip(new, self._judge(new), strict=True))
        selected = pa.array([self._known[path] for path in distinct], pa.bool_())
        return pc.fill_null(pc.take(selected, directories.indices), False)

    def _judge(self, directories: Sequence[bytes]) -> list[bool]:
        """Return which of some distinct directories are selected."""
        if not directories:
            return []
        texts = [self._texts(path) for path in directories]
        told = [all(name in one for name, _ in self._needed) for one in texts]
        maps = pa.array([list(one.items()) for one in texts], pa.map_(pa.string(), pa.string()))
        kind = pa.struct([pa.field(name, arrow_type(column.data_type, name)) for name, column in self._needed])
        values = parse_partition_values(maps, self._config, kind).flatten() if self._needed else []
        sure = pa.array(told, pa.bool_())
        for (name, _), column in zip(self._needed, values, strict=True):
            is_null = pa.array([one.get(name) is None for one in texts], pa.bool_())
            sure = pc.and_(sure, pc.or_(pc.is_valid(column), is_null))
        if not self._needed:
            values = [sure]  # a batch without columns has no rows
        rows = pa.RecordBatch.from_arrays(values, names=[column.name for _, column in self._needed] or ["_"])
        mask: list[bool] = pc.and_(sure, self._predicate.matches(rows)).to_pylist()
        return mask

    def _texts(self, directories: bytes) -> Texts:
        """Return the values in a path for the columns of the condition, without ambiguous ones."""
        spellings: dict[str, set[str | None]] = {}
        needed, doubted = dict(self._needed), set()
        for part in directories.split(b"/"):
            key, equals, value = part.partition(b"=")
            columns = self._columns_of(key) if equals else []
            for name in columns:
                if name not in needed:
                    continue
                text = _decoded(value)
                spellings.setdefault(name, set()).add(None if text == HIVE_DEFAULT else text)
                if len(columns) > 1 or not _is_sure(needed[name], text):
                    doubted.add(name)
        return {name: texts.pop() for name, texts in spellings.items() if len(texts) == 1 and name not in doubted}

    def _columns_of(self, key: bytes) -> list[str]:
        """Return the physical names of the columns that a directory's key may mean: one, unless names were swapped."""
        name = _decoded(key)
        if name is None:
            return []
        places = find_name_positions(name, [spelling for spelling, _ in self._spellings])
        return sorted({self._spellings[place][1] for place in places})


def _is_sure(column: StructField, text: str | None) -> bool:
    """Return False for invalid text, and for a time in a named zone, which is not resolved."""
    if text is None:
        return False
    return value_kind(column.data_type) is not Kind.TIMESTAMP or not _NAMED_ZONE.search(text)


def _decoded(part: bytes) -> str | None:
    """Return a part of a directory name without Hive's escapes, or None if it is not valid text."""
    try:
        return decode_hive(part).decode()
    except UnicodeDecodeError:
        return None
