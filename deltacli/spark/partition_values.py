"""How the partition values of files get into their rows: from the names of directories, as literals, or by a join.

Values come from the log alone. Directories are used only where each of them names exactly what the log has, in the way
that Spark reads it. Spec: Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from deltacli.core.typing import ArrowScalar
from deltacli.delta.schema.types import StructField, simple_name
from deltacli.spark.live_files import SparkFile

MOST_BRANCHES = 32
"""Scans of one plan. More of them take longer to plan than a join takes to run."""
_MOST_FILES_OF_BRANCHES = 1_000
_NULL = "__HIVE_DEFAULT_PARTITION__"
_EXACT = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})
"""Types that Spark reads out of a directory's name as the table means them, in any session."""


_FIRST_DAY, _LAST_DAY = -135_140, 2_932_896
"""1600-01-01 and 9999-12-31: dates with one spelling in every calendar."""


class Values(StrEnum):
    """Where a plan takes partition values from."""

    NONE = "no partition values needed"
    DIRECTORIES = "partition values from directories"
    LITERALS = "partition values as literals"
    JOIN = "partition values by a join"


def choose_values(
    files: Sequence[SparkFile],
    needed: Sequence[StructField],
    columns: Mapping[str, StructField | None],
    *,
    scans: int,
) -> Values:
    """Return where the values of the needed partition columns come from.

    `columns` are all partition columns by physical name, in order. `scans` is how many scans the plan has anyway.
    """
    if not needed:
        return Values.NONE
    if agrees_with_directories(files, columns):
        return Values.DIRECTORIES
    names = [column.name for column in needed]
    keys = {key_of(file, names) for file in files}
    few = len(keys) * max(scans, 1) <= MOST_BRANCHES and len(files) <= _MOST_FILES_OF_BRANCHES
    return Values.LITERALS if few else Values.JOIN


def key_of(file: SparkFile, names: Sequence[str]) -> tuple[Any, ...]:  # Any: Arrow scalars, or texts
    """Return what is the same for two files with the same values: -0.0 is not 0.0, and NaN is NaN."""
    import pyarrow as pa

    values = (file.file.constants[name] for name in names)
    return tuple(str(value) if pa.types.is_floating(value.type) else value for value in values)


def agrees_with_directories(files: Sequence[SparkFile], columns: Mapping[str, StructField | None]) -> bool:
    """Return whether the directories of all files name their partition values, as Spark reads them.

    Only values that a file has as constants are compared; the others are not needed.
    """
    if len({name.lower() for name in columns}) < len(columns):
        return False
    needed = {column.name: column for column in columns.values() if column and column.name in files[0].file.constants}
    if any(simple_name(column.data_type) not in _EXACT for column in needed.values()):
        return False
    checked: dict[tuple[str, tuple[Any, ...]], bool] = {}
    for file in files:
        if file.inner is None:
            return False
        key = file.inner.rpartition("/")[0], key_of(file, list(needed))
        if key not in checked:
            checked[key] = _agrees(key[0], columns, file.file.constants)
        if not checked[key]:
            return False
    return True


def _agrees(directory: str, columns: Mapping[str, StructField | None], values: Mapping[str, Any]) -> bool:
    segments = directory.split("/")
    if len(segments) != len(columns):
        return False
    for segment, (name, column) in zip(segments, columns.items(), strict=True):
        named, equals, text = segment.partition("=")
        if not equals or _unescaped(named) != name or not text:
            return False
        if column is not None and column.name in values and _unescaped(text) != _text(values[column.name]):
            return False
    return True


def _text(value: ArrowScalar) -> str | None:
    """Return the only text of a value that is accepted, None where there is none."""
    import pyarrow as pa

    if not value.is_valid:
        return _NULL
    if pa.types.is_date(value.type):
        days = value.cast(pa.int32()).as_py()
        return str(value.as_py().isoformat()) if _FIRST_DAY <= days <= _LAST_DAY else None
    plain = value.as_py()
    if pa.types.is_boolean(value.type):
        return "true" if plain else "false"
    return str(plain) if plain not in ("", _NULL) else None


def _unescaped(text: str) -> str:
    """Return a part of a directory's name as Spark reads it: each escape is a character, not a byte."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
