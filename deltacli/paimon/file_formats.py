"""Which types the formats of Paimon's files have, and which files of a table have which format.

The gaps were measured with Paimon 1.4.2 (Java): tables with each type, at the top level and inside other types, were
opened, written and read back in each format. `tests/judges/paimon/test_file_formats.py` measures them again. Files of
Lance, Vortex, Mosaic and Row need jars that could not be had, so nothing is known about their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deltacli.paimon.schema import Schema
from deltacli.paimon.types import (
    MAX_LENGTH,
    AtomicType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    parts_of,
)

FILE_FORMAT = "file.format"
FORMAT_PER_LEVEL = "file.format.per.level"
CHANGELOG_FORMAT = "changelog-file.format"
VECTOR_FORMAT = "vector.file.format"
MANIFEST_FORMAT = "manifest.format"

DEFAULT_FORMAT = "parquet"
FORMATS_OF_VERSION_1 = frozenset({"avro", "blob", "csv", "json", "orc", "parquet", "text"})
FORMATS_OF_VERSION_2 = frozenset({"lance", "mosaic", "row", "vortex"})
"""Formats that Paimon 1.4.2 does not have."""

DATA_FORMATS = FORMATS_OF_VERSION_1 | FORMATS_OF_VERSION_2
MANIFEST_FORMATS = frozenset({"avro", "json", "orc", "parquet"})
"""Formats in which Paimon 1.4.2 wrote manifests and read them back; others fail at the first commit."""


class Effect(StrEnum):
    """What Paimon does with a table that has a type which a file format lacks."""

    NOT_OPENED = "does not open the table"
    NOT_WRITTEN = "cannot write rows"
    NOT_READ = "cannot read back the rows that it writes"
    WRONG_VALUES = "reads back other values than it writes"


class Position(StrEnum):
    """Where a type stands."""

    COLUMN = "column"
    INSIDE = "inside another type"
    MAP_KEY = "key of a MAP"


class Gap(NamedTuple):
    """Types that a file format lacks.

    Attributes:
        lacks: Returns True for such a type.
        words: The types in words, as in "Avro has no …".
        effect: What Paimon 1.4.2 does with a table that has such a column.
        positions: Where it lacks them. Most formats lack a type everywhere or nowhere.
        has_version_2: True if Paimon 2 has the types in this format.
    """

    lacks: Callable[[DataType], bool]
    words: str
    effect: Effect = Effect.NOT_OPENED
    positions: frozenset[Position] = frozenset(Position)
    has_version_2: bool = False


class MissingType(NamedTuple):
    """A column, or a part of it, whose type the format of some files lacks.

    Attributes:
        path: The names that lead to it, as `walk_fields` has them.
        type: Its type; None where the reason is not a type.
        option: The option that sets the format of these files.
        reason: Why, in words.
        effect: What Paimon does with the table.
        has_version_2: True if Paimon 2 can read and write the column.
    """

    path: tuple[str, ...]
    type: DataType | None
    option: str
    reason: str
    effect: Effect
    has_version_2: bool


@dataclass(frozen=True, slots=True)
class FileKind:
    """Files of a table that have one format: those of all levels, of one level, or of the changelog.

    Attributes:
        option: The option that sets the format.
        format: The format, in lower case.
        columns: The columns that these files have.
        decides_opening: True if Paimon compares the format with the types when it opens the table. Else it fails
            later, when it writes such a file for the first time.
    """

    option: str
    format: str
    columns: tuple[DataField, ...]
    decides_opening: bool = True


def _is_one_of(*roots: Root) -> Callable[[DataType], bool]:
    return lambda data_type: data_type.root in roots


def _has_more_digits(most: int, *roots: Root) -> Callable[[DataType], bool]:
    """Return a predicate for types of times with more than `most` digits of a second."""

    def has_more(data_type: DataType) -> bool:
        if data_type.root not in roots or not isinstance(data_type, AtomicType):
            return False
        digits = data_type.arguments[0]
        return isinstance(digits, int) and digits > most

    return has_more


def _is_multiset_of(*roots: Root) -> Callable[[DataType], bool]:
    def is_such_multiset(data_type: DataType) -> bool:
        return isinstance(data_type, ListType) and data_type.root is Root.MULTISET and data_type.element.root in roots

    return is_such_multiset


_TEXTS = (Root.CHAR, Root.VARCHAR)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_WITH_PARTS = (Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW)
_INSIDE = frozenset({Position.INSIDE, Position.MAP_KEY})
_KEY = frozenset({Position.MAP_KEY})

_OF_ALL_FORMATS = (
    # Paimon 1.x has no such types, so it cannot read the schema file at all.
    Gap(_is_one_of(Root.GEOMETRY, Root.GEOGRAPHY), "GEOMETRY and GEOGRAPHY", has_version_2=True),
    Gap(_is_one_of(Root.BLOB), "BLOB inside other types", Effect.NOT_WRITTEN, _INSIDE, has_version_2=True),
)

_GAPS: Mapping[str, tuple[Gap, ...]] = {
    "parquet": (
        Gap(_is_one_of(Root.VECTOR), "VECTOR", has_version_2=True),
        Gap(
            _is_multiset_of(Root.DECIMAL, *_TIMESTAMPS, *_WITH_PARTS),
            "MULTISET of DECIMAL, TIMESTAMP and collections",
            Effect.NOT_READ,
        ),
    ),
    "orc": (
        Gap(_is_one_of(Root.VARIANT), "VARIANT"),
        Gap(_is_one_of(Root.VECTOR), "VECTOR"),
    ),
    "avro": (
        Gap(_has_more_digits(6, *_TIMESTAMPS), "timestamps with more than 6 digits"),
        Gap(_has_more_digits(3, Root.TIME), "times with more than 3 digits"),
        Gap(_is_one_of(Root.VARIANT), "VARIANT"),
        Gap(_is_one_of(Root.VECTOR), "VECTOR inside other types", Effect.NOT_WRITTEN, _INSIDE),
        Gap(
            _is_multiset_of(*(root for root in Root if root not in _TEXTS)),
            "MULTISET of other types than text",
            Effect.NOT_WRITTEN,
        ),
    ),
    "csv": (
        Gap(_is_one_of(*_WITH_PARTS, Root.VECTOR), "collections and rows"),
        Gap(_is_one_of(Root.VARIANT), "VARIANT"),
        Gap(_is_one_of(Root.BLOB), "BLOB"),
    ),
    "json": (
        Gap(_is_one_of(Root.VARIANT), "VARIANT"),
        Gap(_is_one_of(Root.MULTISET), "MULTISET"),
        Gap(_is_one_of(Root.BLOB), "BLOB"),
        Gap(_is_one_of(Root.VECTOR), "VECTOR inside other types", Effect.NOT_WRITTEN, _INSIDE),
        Gap(
            _is_one_of(*_TIMESTAMPS, *_WITH_PARTS),
            "keys of a MAP that are timestamps or collections",
            Effect.NOT_READ,
            _KEY,
        ),
        Gap(_is_one_of(Root.BINARY, Root.VARBINARY), "binary keys of a MAP", Effect.WRONG_VALUES, _KEY),
    ),
    "blob": (Gap(lambda _: True, "columns of other types than BLOB"),),
}
"""Format -> the types that it lacks. Text files are a matter of their own: see `_find_misfits_of_text`."""

_TITLES = {"avro": "Avro", "blob": "a file of BLOBs", "csv": "CSV", "json": "JSON", "orc": "ORC", "parquet": "Parquet"}


def find_missing_types(schema: Schema) -> Iterator[MissingType]:
    """Yield the columns of a table, or parts of them, whose types the format of their files lacks.

    A part is not named where the type around it is missing, and a column not once more for another level whose files
    have the same format.
    """
    reported: set[tuple[str, tuple[str, ...]]] = set()
    for kind in find_file_kinds(schema):
        for missing in _find_missing_types_of(kind, schema):
            if (kind.format, missing.path) not in reported:
                reported.add((kind.format, missing.path))
                yield missing


def _find_missing_types_of(kind: FileKind, schema: Schema) -> Iterator[MissingType]:
    has_key = bool(schema.primary_keys)
    if kind.format == "text":
        yield from _find_misfits_of_text(kind, schema)
        return
    if kind.format == "csv" and has_key and kind.option != VECTOR_FORMAT:
        # Files of such a table have columns of their own before those of the table, and CSV is read by position.
        reason = "CSV is read by position, which a table with a primary key does not keep"
        yield MissingType((), None, kind.option, reason, Effect.WRONG_VALUES, has_version_2=False)
    gaps = (*_OF_ALL_FORMATS, *_GAPS.get(kind.format, ()))
    for column in kind.columns:
        for path, data_type, gap in _find_gaps(column.type, (column.name,), Position.COLUMN, gaps):
            effect = gap.effect
            if effect is Effect.NOT_OPENED and not kind.decides_opening:
                effect = Effect.NOT_WRITTEN
            reason = f"{_TITLES.get(kind.format, kind.format)} has no {gap.words}"
            if gap in _OF_ALL_FORMATS:
                reason = f"Paimon 1.x has no {gap.words}"
            yield MissingType(path, data_type, kind.option, reason, effect, gap.has_version_2)


def _find_gaps(
    data_type: DataType, path: tuple[str, ...], position: Position, gaps: tuple[Gap, ...]
) -> Iterator[tuple[tuple[str, ...], DataType, Gap]]:
    for gap in gaps:
        if position in gap.positions and gap.lacks(data_type):
            yield path, data_type, gap
            return
    if isinstance(data_type, RowType):
        for field in data_type.fields:
            yield from _find_gaps(field.type, (*path, field.name), Position.INSIDE, gaps)
    for name, part in parts_of(data_type):
        is_key = isinstance(data_type, MapType) and name == "key"
        yield from _find_gaps(part, (*path, name), Position.MAP_KEY if is_key else Position.INSIDE, gaps)


def _find_misfits_of_text(kind: FileKind, schema: Schema) -> Iterator[MissingType]:
    """Yield what does not fit into lines of text: everything but one column of text, which is the first one.

    Values of partition keys are in the names of directories, so such columns may follow it. Paimon opens some tables
    that have more columns, and then reads and writes the first one only.
    """
    if schema.primary_keys:
        reason = "text files have one column, and a table with a primary key has more in its files"
        yield MissingType((), None, kind.option, reason, Effect.NOT_READ, has_version_2=False)
        return
    for number, column in enumerate(kind.columns):
        is_text = column.type.root in _TEXTS
        is_alone = len(kind.columns) == 1
        if number == 0:
            # With further columns, Paimon takes the first one only if it is exactly STRING.
            if is_alone and not is_text:
                yield _misfit(kind, column, Effect.NOT_READ)
            elif not is_alone and column.type != _STRING:
                yield _misfit(kind, column, Effect.NOT_OPENED)
            elif not is_alone and column.name in schema.partition_keys:
                yield _misfit(kind, column, Effect.WRONG_VALUES)
        elif column.name not in schema.partition_keys:
            yield _misfit(kind, column, Effect.NOT_READ)


def _misfit(kind: FileKind, column: DataField, effect: Effect) -> MissingType:
    reason = "text files have one column, a STRING before those that are partition keys"
    if not kind.decides_opening:
        effect = Effect.NOT_READ
    return MissingType((column.name,), column.type, kind.option, reason, effect, has_version_2=False)


_STRING = AtomicType(Root.VARCHAR, (MAX_LENGTH,))


def find_file_kinds(schema: Schema) -> Iterator[FileKind]:
    """Yield the kinds of files that Paimon writes for a table, with their formats. Manifests are left out.

    BLOB columns are in files of their own, unless an option says that their files have descriptors only. VECTOR
    columns are, where `vector.file.format` is set. Formats of levels and of changelogs matter for tables with a primary
    key only: Paimon ignores them elsewhere.
    """
    options = schema.options
    inline_blobs = _split(options.get("blob-descriptor-field", ""))
    columns = tuple(
        column for column in schema.fields if column.type.root is not Root.BLOB or column.name in inline_blobs
    )
    vector_format = read_format(options, VECTOR_FORMAT)
    if vector_format is not None:
        vectors = tuple(column for column in columns if column.type.root is Root.VECTOR)
        columns = tuple(column for column in columns if column not in vectors)
        yield FileKind(VECTOR_FORMAT, vector_format, vectors)
    yield FileKind(FILE_FORMAT, read_format(options, FILE_FORMAT) or DEFAULT_FORMAT, columns)

    if not schema.primary_keys:
        return
    for level_format in read_formats_per_level(options).values():
        yield FileKind(FORMAT_PER_LEVEL, level_format, columns, decides_opening=False)
    changelog_format = read_format(options, CHANGELOG_FORMAT)
    if changelog_format is not None and options.get("changelog-producer", "none").lower() != "none":
        yield FileKind(CHANGELOG_FORMAT, changelog_format, columns, decides_opening=False)


def read_format(options: Mapping[str, str], option: str) -> str | None:
    """Return the format that an option sets, in lower case as Paimon reads it; None if it is not set."""
    value = options.get(option)
    return None if value is None else value.lower()


class BadLevels(ValueError):
    """A value of `file.format.per.level` that Paimon cannot parse, with the reason."""


def read_formats_per_level(options: Mapping[str, str]) -> dict[str, str]:
    """Return level -> format of `file.format.per.level`, such as `0:avro,5:parquet`; empty if it cannot be parsed."""
    try:
        return parse_formats_per_level(options.get(FORMAT_PER_LEVEL, ""))
    except BadLevels:
        return {}


def parse_formats_per_level(text: str) -> dict[str, str]:
    """Return level -> format. Raises BadLevels where Paimon fails to parse the text, which it does at each write."""
    formats: dict[str, str] = {}
    for part in _split(text):
        level, colon, file_format = (word.strip() for word in part.partition(":"))
        if not colon or not level or not file_format or ":" in file_format:
            raise BadLevels(f"{part!r} is not LEVEL:FORMAT")
        if not level.removeprefix("-").isdecimal():
            raise BadLevels(f"{level!r} is not a level")
        if level in formats:
            raise BadLevels(f"level {level} occurs twice")
        formats[level] = file_format.lower()
    return formats


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
