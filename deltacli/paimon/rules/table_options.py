"""Rules about the options of a table, as Paimon's own validation has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Rule, Severity
from deltacli.paimon.immutable_options import is_true
from deltacli.paimon.rules.views import SchemaFileView
from deltacli.paimon.schema import Schema
from deltacli.paimon.types import AtomicType, Root, walk_fields

AREA = Area("Options")

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_FIELD_OPTION = re.compile(r"fields\.(.+)\.[^.]+")

_CHOICES: Mapping[str, frozenset[str]] = {
    "merge-engine": frozenset({"deduplicate", "partial-update", "aggregation", "first-row"}),
    "changelog-producer": frozenset({"none", "input", "full-compaction", "lookup"}),
    "file.format": frozenset({"orc", "parquet", "avro", "csv", "text", "json", "lance", "blob", "vortex"}),
    "scan.mode": frozenset(
        {
            *(
                "default",
                "latest-full",
                "full",
                "latest",
                "compacted-full",
                "from-timestamp",
                "from-creation-timestamp",
            ),
            *("from-file-creation-time", "from-snapshot", "from-snapshot-full", "incremental"),
        }
    ),
}
_AT_LEAST_ONE = ("snapshot.num-retained.min", "snapshot.num-retained.max")


def _rule(rule_id: str, checks: str, example: str) -> Rule:
    fix = Fix("Paimon refuses to open or alter the table", "set the option to a valid value, or remove it", "nothing")
    return AREA.rule(
        rule_id, Severity.ERROR, Level.LOG, checks, spec="Java: SchemaValidation", fix=fix, example=example
    )


BUCKET = _rule(
    "paimon.bucket", "`bucket` is positive, -1, or -2 with a primary key, and fits bucket-key.", '"bucket": "0"'
)
BUCKET_KEY = _rule(
    "paimon.bucket-key",
    "`bucket-key` names columns that are not partition keys and are part of the primary key, without blanks.",
    '"bucket-key": "a, b"',
)
OPTION_VALUE = _rule("paimon.option-value", "Options have values that Paimon knows.", '"file.format": "xlsx"')
OPTION_COLUMN = _rule(
    "paimon.option-column", "Columns that options name exist and have a suitable type.", '"sequence.field": "nope"'
)
OPTION_CONFLICT = _rule(
    "paimon.option-conflict",
    "Options are compatible with each other, and with the primary key.",
    '"changelog-producer": "input" without a primary key',
)
FORMAT_TYPE = _rule(
    "paimon.type-not-in-format",
    "The file format has the types of all columns.",
    'a column TIMESTAMP(9) with "file.format": "avro"',
)


@AREA.check(SchemaFileView, BUCKET)
def check_bucket(view: SchemaFileView) -> Iterator[Finding]:
    """Check the number of buckets."""
    if view.schema is not None and (reason := _why_bad_bucket(view.schema)) is not None:
        yield BUCKET.at(view.place("options.bucket"), reason, seen=view.schema.options.get("bucket"))


def _why_bad_bucket(schema: Schema) -> str | None:
    value, has_key = schema.options.get("bucket", "-1").strip(), bool(schema.options.get("bucket-key"))
    if not _NUMBER.fullmatch(value):
        return "bucket is not a number"
    bucket = int(value)
    if bucket == 0 or bucket < -2:
        return f"bucket is {bucket}"
    if bucket == -2 and not schema.primary_keys:
        return "bucket is -2, but the table has no primary key"
    if bucket == -1 and has_key:
        return "bucket is -1, but there is a bucket-key"
    is_old = schema.version <= 1 and bucket == 1
    if bucket > 0 and not schema.primary_keys and not has_key and not is_old:
        return f"bucket is {bucket}, but the table has neither a primary key nor a bucket-key"
    return None


@AREA.check(SchemaFileView, BUCKET_KEY)
def check_bucket_key(view: SchemaFileView) -> Iterator[Finding]:
    """Check the columns of bucket-key."""
    schema = view.schema
    value = None if schema is None else schema.options.get("bucket-key")
    if schema is None or not value:
        return
    names = {field.name for field in schema.fields}
    for name in value.split(","):
        reason = None
        if name not in names:
            is_blank = name.strip() in names
            reason = f"{name!r} has a blank" if is_blank else f"{name} is not a column"
        elif name in schema.partition_keys:
            reason = f"{name} is a partition key"
        elif schema.primary_keys and name not in schema.primary_keys:
            reason = f"{name} is not part of the primary key"
        if reason is not None:
            yield BUCKET_KEY.at(view.place("options.bucket-key"), reason, seen=value)


@AREA.check(SchemaFileView, OPTION_VALUE)
def check_values(view: SchemaFileView) -> Iterator[Finding]:
    """Check options that take one of a few values, or a number."""
    options = {} if view.schema is None else view.schema.options
    for key, known in _CHOICES.items():
        value = options.get(key)
        if value is not None and value.strip().lower().replace("_", "-") not in known:
            message = f"{key} is {value!r}"
            yield OPTION_VALUE.at(view.place(f"options.{key}"), message, seen=value, expected=", ".join(sorted(known)))
    for key in _AT_LEAST_ONE:
        value = options.get(key)
        if value is not None and (not _NUMBER.fullmatch(value) or int(value) < 1):
            message = f"{key} is {value!r}"
            yield OPTION_VALUE.at(view.place(f"options.{key}"), message, seen=value, expected="1 or more")
    least, most = (options.get(key, "") for key in _AT_LEAST_ONE)
    if _NUMBER.fullmatch(least) and _NUMBER.fullmatch(most) and int(least) > int(most):
        message = f"{_AT_LEAST_ONE[0]} is greater than {_AT_LEAST_ONE[1]}"
        yield OPTION_VALUE.at(view.place(f"options.{_AT_LEAST_ONE[0]}"), message, seen=least, expected=most)


@AREA.check(SchemaFileView, OPTION_COLUMN)
def check_columns(view: SchemaFileView) -> Iterator[Finding]:
    """Check the columns that options name."""
    schema = view.schema
    if schema is None:
        return
    types = {field.name: field.type for field in schema.fields}
    for key, name in _named_columns(schema.options):
        if name not in types and not any(name.startswith(f"{column}.") for column in types):
            yield OPTION_COLUMN.at(
                view.place(f"options.{key}"), f"{key} names {name}, which is not a column", seen=name
            )
        elif key == "vector-field" and name in types and types[name].root not in (Root.VECTOR, Root.ARRAY):
            message = f"{key} names {name}, which is not a VECTOR"
            yield OPTION_COLUMN.at(view.place(f"options.{key}"), message, seen=types[name].root)


def _named_columns(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options that name columns, and each name."""
    for key, value in options.items():
        if key in ("sequence.field", "record-level.time-field", "vector-field"):
            yield from ((key, name.strip()) for name in value.split(",") if name.strip())
        elif (match := _FIELD_OPTION.fullmatch(key)) is not None:
            names = match[1].split(",") if key.endswith(".sequence-group") else [match[1]]
            yield from ((key, name.strip()) for name in names)
            if key.endswith(".sequence-group"):
                yield from ((key, name.strip()) for name in value.split(",") if name.strip())


@AREA.check(SchemaFileView, OPTION_CONFLICT)
def check_conflicts(view: SchemaFileView) -> Iterator[Finding]:
    """Check options against each other and the primary key."""
    if view.schema is not None:
        for key, reason in _conflicts(view.schema):
            yield OPTION_CONFLICT.at(view.place(f"options.{key}"), reason, seen=view.schema.options.get(key))


def _conflicts(schema: Schema) -> Iterator[tuple[str, str]]:
    options, has_key = schema.options, bool(schema.primary_keys)
    engine, producer = options.get("merge-engine", ""), options.get("changelog-producer", "none")
    if producer != "none" and not has_key:
        yield "changelog-producer", "changelog-producer needs a primary key"
    if producer in ("full-compaction", "lookup") and is_true(options, "streaming-read-overwrite"):
        yield "streaming-read-overwrite", f"streaming-read-overwrite cannot be used with changelog-producer {producer}"
    if engine == "first-row" and is_true(options, "deletion-vectors.enabled"):
        yield "deletion-vectors.enabled", "deletion vectors cannot be used with merge-engine first-row"
    if engine == "first-row" and options.get("sequence.field"):
        yield "sequence.field", "sequence.field cannot be used with merge-engine first-row"
    if is_true(options, "row-tracking.enabled") and has_key:
        yield "row-tracking.enabled", "row tracking cannot be used with a primary key"
    if is_true(options, "row-tracking.enabled") and options.get("bucket", "-1") != "-1":
        yield "row-tracking.enabled", "row tracking needs bucket -1"
    if is_true(options, "data-evolution.enabled") and not is_true(options, "row-tracking.enabled"):
        yield "data-evolution.enabled", "data-evolution.enabled needs row-tracking.enabled"
    if is_true(options, "primary-key.nullable") and not has_key:
        yield "primary-key.nullable", "primary-key.nullable needs a primary key"


def _formats(options: Mapping[str, str]) -> set[str]:
    """Return the formats of data files, also of single levels: `0:avro,5:parquet`."""
    levels = (part.partition(":")[2] for part in options.get("file.format.per.level", "").split(","))
    return {name.strip().lower() for name in (options.get("file.format", ""), *levels)}


@AREA.check(SchemaFileView, FORMAT_TYPE)
def check_format(view: SchemaFileView) -> Iterator[Finding]:
    """Check that the file format has the types of all columns: Avro has no nanoseconds."""
    schema = view.schema
    if schema is None or "avro" not in _formats(schema.options):
        return
    for path, field in walk_fields(schema.fields):
        match field.type:
            case AtomicType(Root.TIMESTAMP | Root.TIMESTAMP_LTZ, (int(precision),)) if precision > 6:
                message = f"Avro has no timestamps with more than 6 digits: {'.'.join(path)}"
                yield FORMAT_TYPE.at(view.place(".".join(path)), message, seen=precision, expected="at most 6")
