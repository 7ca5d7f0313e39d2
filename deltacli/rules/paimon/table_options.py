"""Rules about the options of a table: one table of the checks of Paimon's own validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from deltacli.paimon.types import AtomicType, DataType, ListType, MapType, Root, RowType, walk_fields
from deltacli.rules.framework.base import Area, Finding, Fix, Rule
from deltacli.rules.paimon.catalogue import SchemaFileView
from deltacli.rules.paimon.fields import NO_KEY_TYPES, is_blob
from deltacli.rules.paimon.option_conflicts import BOOLEANS, CONFLICTS, TableFacts, function_key, is_number, split_names

AREA = Area("Options", spec="Java: SchemaValidation")


_REFUSED = Fix("Paimon refuses to open or alter the table", "set the option to a valid value, or remove it")

BUCKET = AREA.error(
    "paimon.bucket",
    "`bucket` is positive, -1, or -2 with a primary key, and fits bucket-key.",
    *_REFUSED,
    example='"bucket": "0"',
)
BUCKET_KEY = AREA.error(
    "paimon.bucket-key",
    "`bucket-key` names columns that are not partition keys and are part of the primary key, without blanks.",
    *_REFUSED,
    example='"bucket-key": "a, b"',
)
OPTION_VALUE = AREA.error(
    "paimon.option-value",
    "Options have values that Paimon knows.",
    *_REFUSED,
    example='"file.format": "xlsx"',
)
OPTION_COLUMN = AREA.error(
    "paimon.option-column",
    "Columns that options name exist and have a suitable type.",
    *_REFUSED,
    example='"sequence.field": "nope"',
)
OPTION_CONFLICT = AREA.error(
    "paimon.option-conflict",
    "Options are compatible with each other, and with the keys.",
    *_REFUSED,
    example='"changelog-producer": "input" without a primary key',
)
FORMAT_TYPE = AREA.error(
    "paimon.type-not-in-format",
    "The file format has the types of all columns.",
    *_REFUSED,
    example='a column TIMESTAMP(9) with "file.format": "avro"',
)


class Fault(NamedTuple):
    """What breaks a check: the option, why, and the value that is wrong if it is not the whole option."""

    key: str
    reason: str
    seen: object = None


class OptionCheck(NamedTuple):
    """A check of Java's validation: the rule that reports it, what Java demands in words, and what breaks it."""

    rule: Rule
    sentences: tuple[str, ...]
    faults: Callable[[TableFacts], Iterator[Fault]]


# --- values ---

_WORDS: Mapping[str, frozenset[str]] = {
    "merge-engine": frozenset({"deduplicate", "partial-update", "aggregation", "first-row"}),
    "changelog-producer": frozenset({"none", "input", "full-compaction", "lookup"}),
    "file.format": frozenset(
        {"orc", "parquet", "avro", "csv", "text", "json", "lance", "blob", "vortex", "mosaic", "row"}
    ),
    "scan.mode": frozenset(
        {
            *("default", "latest-full", "full", "latest", "compacted-full", "incremental"),
            *("from-timestamp", "from-creation-timestamp", "from-file-creation-time"),
            *("from-snapshot", "from-snapshot-full"),
        }
    ),
}
_NUMBERS = (
    *("snapshot.num-retained.min", "snapshot.num-retained.max", "changelog.num-retained.min"),
    "changelog.num-retained.max",
)
_FUNCTIONS = frozenset(
    {
        *("avg", "bool_and", "bool_or", "collect", "first_non_null_value", "first_not_null_value", "first_value"),
        *("hll_sketch", "last_non_null_value", "last_value", "listagg", "max", "merge_map", "merge_map_with_keytime"),
        *("min", "nested_partial_update", "nested_update", "primary-key", "product", "rbm32", "rbm64", "sum"),
        "theta_sketch",
    }
)
_LEAST_RETAINED, _MOST_RETAINED = 10, (1 << 31) - 1
"""Java's defaults for snapshots; the options of changelogs default to those of snapshots."""


def _bad_words(table: TableFacts) -> Iterator[Fault]:
    for key, known in _WORDS.items():
        if key in table.options and table.options[key].lower() not in known:
            yield Fault(key, f"{key} is {table.options[key]!r} (expected: {', '.join(sorted(known))})")


def _bad_booleans(table: TableFacts) -> Iterator[Fault]:
    read = {"ignore-delete": table.has_key, "partial-update.remove-record-on-delete": table.merges_by("partial-update")}
    for key in sorted(BOOLEANS):
        if read.get(key, True) and table.word(key, "true") not in ("true", "false"):
            yield Fault(key, f"{key} is {table.options[key]!r} (expected: true or false)")


def _bad_numbers(table: TableFacts) -> Iterator[Fault]:
    for key in _NUMBERS:
        if key in table.options and not is_number(table.options[key]):
            yield Fault(key, f"{key} is {table.options[key]!r} (expected: a whole number)")


def _bad_retention(table: TableFacts) -> Iterator[Fault]:
    least, most = _LEAST_RETAINED, _MOST_RETAINED
    for what in ("snapshot", "changelog"):
        low, high = f"{what}.num-retained.min", f"{what}.num-retained.max"
        least, most = table.number(low, least), table.number(high, most)
        if table.is_set(low) and least < 1:
            yield Fault(low, f"{low} is {least} (expected: 1 or more)")
        elif table.is_set(low, high) and least > most:
            yield Fault(
                low if table.is_set(low) else high, f"{low} is {least}, which is greater than {high}, {most}", least
            )


def _bad_functions(table: TableFacts) -> Iterator[Fault]:
    if table.merges_by("partial-update", "aggregation"):
        for key, function in {key: function for _, key, function in table.functions()}.items():
            if function not in _FUNCTIONS:
                yield Fault(key, f"{function!r} is not an aggregate function of Paimon")


# --- columns ---


class _Naming(NamedTuple):
    """An option that names columns: how its value is taken apart, and which types are suitable."""

    key: str
    split: Callable[[str], list[str]]
    suits: Callable[[DataType], bool] = lambda _: True
    needed: str = ""


def _of_sequence(value: str) -> list[str]:
    return [name.strip() for name in split_names(value)] if value else []


def _trimmed(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


_TIMES = (Root.INT, Root.BIGINT, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_OF_BLOBS = ("blob-field", "blob-descriptor-field", "blob-view-field", "blob-external-storage-field")
_NAMINGS = (
    _Naming("sequence.field", _of_sequence),
    _Naming("rowkind.field", lambda value: [value]),
    _Naming(
        "record-level.time-field",
        lambda value: [value],
        lambda found: found.root in _TIMES,
        "INT, BIGINT or TIMESTAMP",
    ),
    _Naming("vector-field", _trimmed, lambda found: found.root is Root.VECTOR, "VECTOR"),
    _Naming("upsert-key", _trimmed, lambda found: found.root not in NO_KEY_TYPES, "one that can be compared"),
    *(_Naming(key, _trimmed, is_blob, "BLOB") for key in _OF_BLOBS),
)


def _bad_columns(table: TableFacts) -> Iterator[Fault]:
    for key, split, suits, needed in _NAMINGS:
        for name in split(table.options[key]) if key in table.options else ():
            found = table.columns.get(name)
            if found is None:
                yield _unknown(table, key, name)
            elif not suits(found):
                yield Fault(key, f"{key} names {name}, which has the type {found.root} (expected: {needed})", name)


def _unknown(table: TableFacts, key: str, name: str) -> Fault:
    blank = ": a blank beside the comma is part of the name" if name.strip() in table.columns else ""
    return Fault(key, f"{key} names {name.strip() or repr(name)}, which is not a column{blank}", name)


def _bad_fields(table: TableFacts) -> Iterator[Fault]:
    for key in table.options:
        if key.startswith("fields.") and key.count(".") > 1:
            names = split_names(key.split(".")[1])
            yield from (_unknown(table, key, name) for name in names if name not in table.columns)
    if table.merges_by("partial-update"):
        for key, _, names in table.groups():
            yield from (_unknown(table, key, name) for name in names if name not in table.columns)


_NESTED = ("nested_update", "nested_partial_update")


def _bad_nested(table: TableFacts) -> Iterator[Fault]:
    if not table.merges_by("partial-update", "aggregation"):
        return
    for name, function_option, function in table.functions():
        if function not in _NESTED:
            continue
        match table.columns[name]:
            case ListType(Root.ARRAY, RowType(fields)):
                yield from _bad_nested_names(table, name, {field.name for field in fields}, function)
            case other:
                reason = f"{function} needs an ARRAY of ROW, but {name} has the type {other.root}"
                yield Fault(function_option, reason, name)


def _bad_nested_names(table: TableFacts, column: str, present: set[str], function: str) -> Iterator[Fault]:
    key, sequence = f"fields.{column}.nested-key", f"fields.{column}.nested-sequence-field"
    for option in (key, sequence) if function == "nested_update" else (key,):
        for name in split_names(table.options[option]) if option in table.options else ():
            if name not in present:
                yield Fault(option, f"{option} names {name!r}, which is not a field of the rows in {column}", name)
    if function == "nested_update" and sequence in table.options and key not in table.options:
        yield Fault(sequence, f"{sequence} needs {key}")
    if function == "nested_partial_update" and key not in table.options:
        yield Fault(function_key(column), f"nested_partial_update needs {key}")


def _bad_indexes(table: TableFacts) -> Iterator[Fault]:
    for key, value in table.options.items():
        if not (key.startswith("file-index.") and key.endswith(".columns")):
            continue
        for name in split_names(value):
            column, bracket, _ = name.strip().partition("[")
            found = table.columns.get(column)
            if found is None:
                yield _unknown(table, key, name)
            elif bracket and not (isinstance(found, MapType) and found.key.root in (Root.CHAR, Root.VARCHAR)):
                yield Fault(key, f"{key} names {name.strip()}, but {column} is not a MAP with text as keys", name)


# --- buckets ---


def _bad_bucket(table: TableFacts) -> Iterator[Fault]:
    value, bucket, has_key = table.options.get("bucket", "-1"), table.bucket, "bucket-key" in table.options
    is_old = table.schema.version <= 1 and bucket == 1
    if not is_number(value):
        yield Fault("bucket", "bucket is not a number")
    elif bucket == 0 or bucket < -2:
        yield Fault("bucket", f"bucket is {bucket}")
    elif bucket == -2 and not table.has_key:
        yield Fault("bucket", "bucket is -2, but the table has no primary key")
    elif bucket == -1 and has_key:
        yield Fault("bucket", "bucket is -1, but there is a bucket-key")
    elif bucket > 0 and not table.has_key and not table.options.get("bucket-key", "").strip() and not is_old:
        yield Fault("bucket", f"bucket is {bucket}, but the table has neither a primary key nor a bucket-key")


def _bad_bucket_key(table: TableFacts) -> Iterator[Fault]:
    value = table.options.get("bucket-key", "")
    for name in split_names(value) if value.strip() else ():
        reason, found = None, table.columns.get(name)
        if found is None:
            reason = f"{name!r} has a blank" if name.strip() in table.columns else f"{name} is not a column"
        elif name in table.schema.partition_keys:
            reason = f"{name} is a partition key"
        elif table.has_key and name not in table.schema.primary_keys:
            reason = f"{name} is not part of the primary key"
        elif found.root in (Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW):
            reason = f"{name} has the type {found.root}"
        if reason is not None:
            yield Fault("bucket-key", reason)


# --- where a scan begins ---

_BY_TIME = ("scan.timestamp-millis", "scan.timestamp")
_BY_FILE = ("scan.file-creation-time-millis",)
_BY_RANGE = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_BY_SNAPSHOT = ("scan.snapshot-id", "scan.tag-name", "scan.watermark")
_SCANS: Mapping[str, tuple[str, ...]] = {
    "from-timestamp": _BY_TIME,
    "from-snapshot": _BY_SNAPSHOT,
    "from-file-creation-time": _BY_FILE,
    "incremental": _BY_RANGE,
    "from-snapshot-full": ("scan.snapshot-id",),
}
"""Mode of a scan -> the options of which it needs exactly one. Without a mode, Java takes the first that has one."""


def _bad_scan(table: TableFacts) -> Iterator[Fault]:
    mode = table.word("scan.mode", "default")
    if mode == "default":
        mode = next((name for name, keys in _SCANS.items() if table.is_set(*keys)), mode)
    needed = _SCANS.get(mode, ())
    present = [key for key in needed if key in table.options]
    if needed and len(present) != 1:
        found = " and ".join(present) or "none"
        yield Fault("scan.mode", f"scan.mode {mode} needs exactly one of {', '.join(needed)} (found: {found})", mode)
    ignored = ("scan.watermark", *(("scan.timestamp",) if needed == _BY_FILE else ()))
    for key in (*_BY_TIME, *_BY_SNAPSHOT, *_BY_FILE, *_BY_RANGE):
        if key in table.options and key not in needed and key not in ignored:
            yield Fault(key, f"{key} cannot be used with scan.mode {mode}")


# --- conflicts ---


def _bad_pairs(table: TableFacts) -> Iterator[Fault]:
    for conflict in CONFLICTS:
        if conflict.is_in(table):
            yield Fault(conflict.key, conflict.sentence)


def _bad_sequence(table: TableFacts) -> Iterator[Fault]:
    for name, count in Counter(_of_sequence(table.options.get("sequence.field", ""))).items():
        if count > 1:
            yield Fault("sequence.field", f"sequence.field names {name} {count} times", name)
        if function_key(name) in table.options:
            yield Fault(function_key(name), f"{name} is a sequence.field, which cannot be aggregated", name)


def _bad_groups(table: TableFacts) -> Iterator[Fault]:
    if not table.merges_by("partial-update"):
        return
    heads, ordered = (set[str](), set[str]())
    for key, names, members in table.groups():
        heads.update(names)
        for name in members:
            if name in ordered:
                yield Fault(key, f"{name} is in more than one sequence group", name)
            ordered.add(name)
    key = "partial-update.remove-record-on-sequence-group"
    for name in split_names(table.options[key]) if key in table.options else ():
        if name not in heads:
            yield Fault(key, f"{key} names {name}, which orders no sequence group", name)
    for name, key, function in table.functions():
        if name not in {*heads, *ordered, *table.schema.primary_keys} and function != "last_non_null_value":
            yield Fault(key, f"{name} has an aggregate function, but is in no sequence group", name)


def _bad_blob_options(table: TableFacts) -> Iterator[Fault]:
    found = {key: set(_trimmed(table.options.get(key, ""))) for key in _OF_BLOBS}
    descriptors = found["blob-descriptor-field"]
    for name in sorted(found["blob-view-field"] & descriptors):
        yield Fault("blob-view-field", f"{name} is in both blob-view-field and blob-descriptor-field", name)
    for name in sorted(found["blob-external-storage-field"] - descriptors):
        reason = f"blob-external-storage-field names {name}, which is not in blob-descriptor-field"
        yield Fault("blob-external-storage-field", reason, name)


CHECKS: tuple[OptionCheck, ...] = (
    OptionCheck(BUCKET, ("bucket fits the primary key and bucket-key",), _bad_bucket),
    OptionCheck(BUCKET_KEY, ("bucket-key names suitable columns",), _bad_bucket_key),
    OptionCheck(OPTION_VALUE, (f"{', '.join(_WORDS)}: one of the known values",), _bad_words),
    OptionCheck(OPTION_VALUE, (f"{', '.join(sorted(BOOLEANS))}: true or false",), _bad_booleans),
    OptionCheck(OPTION_VALUE, (f"{', '.join(_NUMBERS)}: a whole number",), _bad_numbers),
    OptionCheck(
        OPTION_VALUE,
        ("snapshots and changelogs: the minimum retained is at least 1 and at most the maximum",),
        _bad_retention,
    ),
    OptionCheck(
        OPTION_VALUE,
        ("with merge-engine partial-update or aggregation, aggregate functions are known",),
        _bad_functions,
    ),
    OptionCheck(
        OPTION_COLUMN,
        tuple(f"{one.key} names columns{one.needed and f' (type: {one.needed})'}" for one in _NAMINGS),
        _bad_columns,
    ),
    OptionCheck(
        OPTION_COLUMN, ("fields.COLUMN.* names columns, and so does a sequence group of partial updates",), _bad_fields
    ),
    OptionCheck(
        OPTION_COLUMN,
        (
            "with nested_update or nested_partial_update, a column is an ARRAY of ROW",
            "fields.COLUMN.nested-key and fields.COLUMN.nested-sequence-field name fields of its rows",
        ),
        _bad_nested,
    ),
    OptionCheck(
        OPTION_COLUMN, ("file-index.*.columns names columns, or keys of a MAP with text as keys",), _bad_indexes
    ),
    OptionCheck(
        OPTION_CONFLICT, ("sequence.field names each column once, and none that is aggregated",), _bad_sequence
    ),
    OptionCheck(
        OPTION_CONFLICT,
        (
            "with partial updates, a column is in one sequence group at most, and in one if it is aggregated",
            "partial-update.remove-record-on-sequence-group names columns that order a sequence group",
        ),
        _bad_groups,
    ),
    OptionCheck(OPTION_CONFLICT, ("scan.mode has exactly the options that it needs",), _bad_scan),
    OptionCheck(
        OPTION_CONFLICT,
        (
            "a column is not in both blob-view-field and blob-descriptor-field",
            "columns in blob-external-storage-field are in blob-descriptor-field",
        ),
        _bad_blob_options,
    ),
    OptionCheck(OPTION_CONFLICT, tuple(conflict.sentence for conflict in CONFLICTS), _bad_pairs),
)
"""The checks of options in Java's validation of a schema, each once: `validate` and `alter` run them all."""


@AREA.check(SchemaFileView, *dict.fromkeys(check.rule for check in CHECKS))
def check_options(view: SchemaFileView) -> Iterator[Finding]:
    """Report the options that Java would refuse."""
    if view.schema is None:
        return
    table = TableFacts(view.schema)
    for check in CHECKS:
        for key, reason, seen in check.faults(table):
            found = table.options.get(key) if seen is None else seen
            yield check.rule.at(view.place(f"options.{key}"), reason, seen=found)


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
