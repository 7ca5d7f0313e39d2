"""What of a Paimon table decides which clients read and write it, in Paimon's own words.

A trait is an option with its value (`merge-engine=first-row`), an option that is set (`row-tracking.enabled`), a type
in a format of data files (`orc.TIMESTAMP(7..9)`), or one of a few more below. Facts about clients are of traits;
a trait about which there is no fact makes a client unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltacli.paimon.schema import CURRENT_VERSION, Schema, is_true
from deltacli.paimon.schema_changes import ChangeKind, Loss, changes_between
from deltacli.paimon.types import AtomicType, DataType, Odd, Root, stops_pypaimon, types_in

UNREADABLE = "manifest.unreadable"
UNREADABLE_SCHEMA = "schema.unreadable"
KEY_MISSING = "schema.key-missing"
TRAILING_TEXT = "schema.trailing-text"
OLDER_TRAILING_TEXT = "schema.older-trailing-text"
SNAPSHOT_TRAILING_TEXT = "snapshot.trailing-text"
VERSION_AS_TEXT = "schema.version-as-text"
ID_AS_TEXT = "schema.id-as-text"
OLDER_NUMBER_AS_TEXT = "schema.older-number-as-text"
SNAPSHOT_NUMBER_AS_TEXT = "snapshot.number-as-text"
WORDS = {
    "manifest.format=orc": "manifests are ORC files",
    "manifest.format=parquet": "manifests are Parquet files",
    "manifest.no-value-stats-cols": "manifests have no _VALUE_STATS_COLS, as in tables of Paimon 0.9",
    UNREADABLE: "a manifest cannot be read",
    UNREADABLE_SCHEMA: "an older schema file cannot be read",
    TRAILING_TEXT: "text follows the JSON object of the newest schema file",
    OLDER_TRAILING_TEXT: "text follows the JSON object of an older schema file",
    SNAPSHOT_TRAILING_TEXT: "text follows the JSON object of the newest snapshot",
    VERSION_AS_TEXT: "the version in the newest schema file is text",
    ID_AS_TEXT: "the id in the newest schema file is text",
    OLDER_NUMBER_AS_TEXT: "the version or the id in an older schema file is text",
    SNAPSHOT_NUMBER_AS_TEXT: "a number in the newest snapshot is text",
    KEY_MISSING: "a column of the primary key or the partition key does not exist",
}
"""Traits whose names say too little, in words."""

_SWITCHES = (
    *("row-tracking.enabled", "data-evolution.enabled", "query-auth.enabled", "pk-clustering-override"),
    *("partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group"),
    *("aggregation.remove-record-on-delete", "index-file-in-data-file-dir", "deletion-vectors.bitmap64"),
)
_SETTINGS = (
    *("sequence.field", "rowkind.field", "record-level.expire-time", "scan.fallback-branch", "file.format.per.level"),
    *("data-file.external-paths", "data-file.path-directory", "primary-key.nullable", "variant.shreddingSchema"),
    *("sequence.field.sort-order", "bucket-function.type", "partition.default-name", "partition.legacy-name"),
    *("blob-field", "blob-descriptor-field", "blob-view-field", "scan.mode", "scan.snapshot-id", "scan.tag-name"),
)
_OF_FIELDS = (".sequence-group", ".aggregate-function", ".map.storage-layout")
_CHANGES = {
    ChangeKind.ADD_COLUMN: "add-column",
    ChangeKind.DROP_COLUMN: "drop-column",
    ChangeKind.RENAME_COLUMN: "rename-column",
    ChangeKind.TYPE: "change-type",
}
_MICROSECONDS = 6


def traits_of_schemas(schemas: Iterable[Schema]) -> Iterator[frozenset[str]]:
    """Yield the traits of a table under each schema of a branch, ascending: data files have the formats of older
    schemas, too, and columns as these had them.
    """
    formats: set[str] = set()
    changes: set[str] = set()
    in_older_files: set[str] = set()
    before: Schema | None = None
    for schema in schemas:
        formats.add(_value(schema, "file.format", "parquet"))
        if before is not None:
            changes.update(_changes(before, schema))
        in_file = frozenset(_of_json(schema))
        before = schema
        yield frozenset({*_of_options(schema), *_of_files(schema, formats), *changes, *in_file, *in_older_files})

        # Which data files need an older schema is not known here, so it is another trait.
        in_older_files.update(_OF_OLDER_FILES[trait] for trait in in_file)


def traits_of_manifest(head: bytes, *, is_list: bool) -> Iterator[str]:
    """Yield the traits that the first bytes of a manifest show, or of a list of manifests."""
    if head.startswith(b"ORC"):
        yield "manifest.format=orc"
    elif head.startswith(b"PAR1"):
        yield "manifest.format=parquet"
    elif not head.startswith(b"Obj\x01"):
        yield UNREADABLE
    elif not is_list and b"_VALUE_STATS_COLS" not in head:
        yield "manifest.no-value-stats-cols"


_OF_OLDER_FILES = {
    TRAILING_TEXT: OLDER_TRAILING_TEXT,
    VERSION_AS_TEXT: OLDER_NUMBER_AS_TEXT,
    ID_AS_TEXT: OLDER_NUMBER_AS_TEXT,
}
"""Trait of the newest schema file -> the trait of a table that has it in an older one."""


def _of_json(schema: Schema) -> Iterator[str]:
    """Yield the traits of a schema file that are about its JSON and stop a client."""
    for oddity in schema.oddities:
        if oddity.rule is Odd.TRAILING_TEXT:
            yield TRAILING_TEXT
        elif stops_pypaimon(oddity):
            yield VERSION_AS_TEXT if oddity.place == "version" else ID_AS_TEXT


def _of_options(schema: Schema) -> Iterator[str]:
    options = schema.options
    kind = "primary-key" if schema.primary_keys else "append"
    yield kind
    if not {*schema.primary_keys, *schema.partition_keys} <= {field.name for field in schema.fields}:
        yield KEY_MISSING
    bucket = _value(schema, "bucket", "-1")
    yield f"{kind}.bucket={'fixed' if bucket.isdecimal() and int(bucket) else bucket}"
    if schema.version != CURRENT_VERSION:
        yield f"version={schema.version}"
    if schema.partition_keys:
        yield f"{kind}.partitioned"
    if schema.primary_keys:
        engine = _value(schema, "merge-engine", "deduplicate")
        yield f"merge-engine={engine}"
        if not {*schema.partition_keys} <= {*schema.primary_keys}:
            yield "primary-key.cross-partition"
        if is_true(options, "ignore-delete") or is_true(options, f"{engine}.ignore-delete"):
            yield f"{engine}.ignore-delete"
    if is_true(options, "deletion-vectors.enabled"):
        yield f"{kind}.deletion-vectors.enabled"
    for name, default in (("changelog-producer", "none"), ("manifest.format", "avro"), ("type", "table")):
        if (value := _value(schema, name, default)) != default:
            yield f"{name}={value}"
    yield from (name for name in _SWITCHES if is_true(options, name))
    yield from (name for name in _SETTINGS if options.get(name))
    yield from {f"fields{end}" for name in options for end in _OF_FIELDS if name.endswith(end)}
    if "fields.default-aggregate-function" in options:
        yield "fields.aggregate-function"


def _of_files(schema: Schema, formats: Iterable[str]) -> Iterator[str]:
    names = {_name(found) for field in schema.fields for found in types_in(field.type)}
    for one in formats:
        yield f"file.format={one}"
        yield from (f"{one}.{name}" for name in names)


def _name(data_type: DataType) -> str:
    is_time = data_type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
    digits = data_type.arguments[0] if is_time and isinstance(data_type, AtomicType) else 0
    return data_type.root + ("(7..9)" if isinstance(digits, int) and digits > _MICROSECONDS else "")


def _changes(before: Schema, after: Schema) -> Iterator[str]:
    evolves = "data-evolution." if is_true(after.options, "data-evolution.enabled") else ""
    for change in changes_between(before, after):
        if (name := _CHANGES.get(change.kind)) is not None:
            is_cast = change.kind is ChangeKind.TYPE and change.loss is not Loss.LOSSLESS
            yield evolves + ("nested." if len(change.path) > 1 else "") + name + (".lossy" if is_cast else "")


def _value(schema: Schema, option: str, default: str) -> str:
    return schema.options.get(option, default).strip().lower()
