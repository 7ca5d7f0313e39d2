"""Rules about what keeps engines from opening, writing or reading a table: types that the format of its files lacks,
and what only Paimon 2 has.

Both are facts about engines, measured with Paimon 1.4.2 (`deltacli/paimon/file_formats.py`), where the rules about
options follow the validation in Java. They concern schemas in use only: engines open tables with the newest schema,
and old files with the schema that they were written by.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from deltacli.core.errors import LazyText, command
from deltacli.paimon.engines import MIN_PAIMON_OPTION, read_min_paimon
from deltacli.paimon.file_formats import (
    FILE_FORMAT,
    FORMATS_OF_VERSION_2,
    MissingType,
    find_file_kinds,
    find_missing_types,
)
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import dotted
from deltacli.paimon.types import simple_text
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.paimon.catalogue import SchemaFileView
from deltacli.rules.paimon.table_options import TableFacts

AREA = Area("Options", spec="Java: SchemaValidation")

FORMAT_TYPE = AREA.error(
    "paimon.type-not-in-format",
    "The file format has the types of all columns: top-level and nested, also of levels and changelogs.",
    "Paimon refuses to open the table, or fails to write or to read its rows",
    "set the format to one that has the type, or drop the column",
    example='a column TIMESTAMP(9) with "file.format": "avro"',
)
VERSION_2_ONLY = AREA.warning(
    "paimon.version-2-only",
    LazyText(
        "Paimon 1.x has the types, formats, functions and options of the table; {} states that no engine is older "
        "than 2.",
        partial(str, f"{MIN_PAIMON_OPTION}=2"),
    ),
    "Paimon 1.x refuses to open the table, or fails to write its rows",
    LazyText(
        "remove the option or the column; if all engines are Paimon 2: {}",
        partial(command, "alter", "set", f"{MIN_PAIMON_OPTION}=2", table="TABLE"),
    ),
    example='"partition.expiration-time": "3 d" in a table without partitions',
)

_VERSION_2_FUNCTIONS = frozenset({"avg"})
"""Aggregate functions that Paimon 1.4.2 does not have."""

_EXPIRATION = "partition.expiration-time"
_NOT_OPENED = "it does not open the table"


class Need(NamedTuple):
    """Something that only Paimon 2 has.

    Attributes:
        place: The option or the column, as findings name it.
        reason: What it is, in words.
        value: The value of the option, or the type.
    """

    place: str
    reason: str
    value: str


@AREA.check(SchemaFileView, FORMAT_TYPE)
def check_format(view: SchemaFileView) -> Iterator[Finding]:
    """Report columns whose type the format of their files lacks, in all versions of Paimon."""
    if view.schema is None or not view.is_in_use:
        return
    for missing in find_missing_types(view.schema):
        if not missing.has_version_2:
            yield FORMAT_TYPE.at(view.place(_place_of(missing)), _describe_missing(missing), seen=_type_of(missing))


@AREA.check(SchemaFileView, VERSION_2_ONLY)
def check_version(view: SchemaFileView) -> Iterator[Finding]:
    """Report what Paimon 1.x lacks, unless the table states that its engines are newer."""
    if view.schema is None or not view.is_in_use or read_min_paimon(view.schema.options) >= 2:
        return
    for need in find_version_2_needs(view.schema):
        yield VERSION_2_ONLY.at(view.place(need.place), need.reason, seen=need.value)


def find_version_2_needs(schema: Schema) -> Iterator[Need]:
    """Yield what a table has that Paimon 1.4.2 does not open, or cannot write, and Paimon 2 does."""
    options = schema.options
    if _EXPIRATION in options and not schema.partition_keys:
        reason = f"{_EXPIRATION} is set, and the table has no partitions; Paimon 1.x does not open the table"
        yield Need(f"options.{_EXPIRATION}", reason, options[_EXPIRATION])

    # Several levels may have one format, which is one need.
    kinds = dict.fromkeys((kind.option, kind.format, kind.decides_opening) for kind in find_file_kinds(schema))
    for option, name, decides_opening in kinds:
        if name in FORMATS_OF_VERSION_2:
            effect = _NOT_OPENED if decides_opening else "it cannot write rows"
            yield Need(f"options.{option}", f"Paimon 1.x has no file format {name}; {effect}", options[option])

    table = TableFacts(schema)
    if table.merges_by("partial-update", "aggregation"):
        functions = {option: function for _, option, function in table.functions()}
        for option, function in functions.items():
            if function in _VERSION_2_FUNCTIONS:
                reason = f"Paimon 1.x has no aggregate function {function}; {_NOT_OPENED}"
                yield Need(f"options.{option}", reason, function)

    for missing in find_missing_types(schema):
        if missing.has_version_2:
            yield Need(_place_of(missing), _describe_missing(missing), _type_of(missing) or "")


def _place_of(missing: MissingType) -> str:
    return dotted(missing.path) if missing.path else f"options.{missing.option}"


def _describe_missing(missing: MissingType) -> str:
    column = f": {dotted(missing.path)}" if missing.path else ""
    option = "" if missing.option == FILE_FORMAT else f" ({missing.option})"
    version = "Paimon 1.x" if missing.has_version_2 else "Paimon"
    return f"{missing.reason}{column}{option}; {version} {missing.effect}"


def _type_of(missing: MissingType) -> str | None:
    return None if missing.type is None else simple_text(missing.type)
