"""Rules about the last checkpoint file.

Spec: Last Checkpoint File; JSON checksum. A wrong hint costs readers a listing, and engines that trust it more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from deltacli.core.errors import DeltacliError
from deltacli.core.typing import ArrowType
from deltacli.delta.log.segment import CheckpointInstance, LogFileKind, checksums, parse_hint
from deltacli.delta.schema.type_changes import digits_of_decimal
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, parse_schema
from deltacli.rules.framework.base import Area, Finding, Fix, Severity
from deltacli.rules.framework.views import CheckpointView, HintView, ListingView


def difference(schema: object, stored: pa.Schema) -> str | None:
    """Return the first difference, or None if they are equal apart from nullability and order."""
    try:
        parsed = parse_schema(schema if isinstance(schema, str) else json.dumps(schema))
    except DeltacliError as fault:
        return fault.message
    return _difference(parsed, pa.struct(list(stored)), "")


def _difference(wanted: DataType, actual: ArrowType, path: str) -> str | None:
    match wanted:
        case StructType(fields):
            if not pa.types.is_struct(actual):
                return f"{path} is {actual}, not a struct"
            return _struct_difference({field.name: field.data_type for field in fields}, actual, path)
        case ArrayType(element):
            if not (pa.types.is_list(actual) or pa.types.is_large_list(actual)):
                return f"{path} is {actual}, not an array"
            return _difference(element, actual.value_type, f"{path}.element")
        case MapType(key, value):
            if not pa.types.is_map(actual):
                return f"{path} is {actual}, not a map"
            return _difference(key, actual.key_type, f"{path}.key") or _difference(
                value, actual.item_type, f"{path}.value"
            )
        case PrimitiveType(name):
            return None if _is_stored_as(name, actual) else f"{path} is {actual}, not {name}"


def _struct_difference(wanted: Mapping[str, DataType], actual: Any, path: str) -> str | None:
    names = {actual.field(index).name: actual.field(index).type for index in range(actual.num_fields)}
    for name in [*wanted, *names]:
        here = f"{path}.{name}".lstrip(".")
        if name not in names:
            return f"the file has no {here}"
        if name not in wanted:
            return f"the hint has no {here}"
        fault = _difference(wanted[name], names[name], here)
        if fault is not None:
            return fault
    return None


def _is_stored_as(name: str, actual: Any) -> bool:
    """Return True if a primitive type may be stored as an Arrow type. Unrecognized types may be anything."""
    decimal = digits_of_decimal(name)
    if decimal is not None:
        return bool(pa.types.is_decimal(actual)) and (actual.precision, actual.scale) == decimal
    known: Mapping[str, Callable[[Any], bool]] = {
        "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
        "long": pa.types.is_int64,
        "integer": pa.types.is_int32,
        "short": pa.types.is_int16,
        "byte": pa.types.is_int8,
        "float": pa.types.is_float32,
        "double": pa.types.is_float64,
        "boolean": pa.types.is_boolean,
        "binary": lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp,
        "timestamp_ntz": pa.types.is_timestamp,
    }
    return name not in known or known[name](actual)


AREA = Area("hint", spec="Last Checkpoint File")

_REWRITE = "write a checkpoint of the newest version, which also rewrites the hint; or delete _last_checkpoint"
_SLOW = Fix(broken="readers cannot use the hint and list the log from its start", advice=_REWRITE)
_MISLED = Fix(broken="engines that trust the hint fail or read the wrong state", advice=_REWRITE)

MISSING = AREA.warning(
    "hint.missing",
    "The log has checkpoints, but no _last_checkpoint.",
    broken="readers list the log from its start, or search backwards for a checkpoint",
    repair="write a checkpoint of the newest version, which writes the hint",
    example="_delta_log/00000000000000000010.checkpoint.parquet without _delta_log/_last_checkpoint",
)
BAD_JSON = AREA.warning(
    "hint.bad-json", "The hint is not a JSON object, or has a key twice.", *_SLOW, example='{"version":'
)
MISSING_FIELD = AREA.warning(
    "hint.missing-field",
    "The hint lacks its version or its size, or one of them is not a whole number.",
    *_SLOW,
    spec="Last Checkpoint File Schema",
    example='{"version":10}',
)
CHECKPOINT_MISSING = AREA.error(
    "hint.checkpoint-missing",
    "The hint names a checkpoint that does not exist, is incomplete, or has another form.",
    *_MISLED,
    example='{"version":10,"size":13} without a checkpoint of version 10',
)
STALE = AREA.info(
    "hint.stale",
    "The log has a newer checkpoint than the one in the hint.",
    broken="nothing: readers find the newer one by listing",
    repair="no repair needed",
    example='{"version":10,"size":13} with a checkpoint of version 20',
)
SIZE_WRONG = AREA.warning(
    "hint.size-wrong",
    "The numbers of actions, files or bytes in the hint differ from its checkpoint.",
    spec="Last Checkpoint File Schema",
    broken="engines plan with wrong numbers",
    repair=_REWRITE,
    example='{"version":10,"size":12} for a checkpoint of 13 actions',
)
PARTS_ON_CLASSIC = AREA.warning(
    "hint.parts-on-classic",
    "The hint has a number of parts, but its checkpoint is a single file.",
    *_MISLED,
    spec="Last Checkpoint File Schema",
    example='{"version":10,"size":13,"parts":1}',
)
CHECKSUM_BAD = AREA.warning(
    "hint.checksum-bad",
    "The checksum of the hint does not match its content, neither in the order of the protocol nor in that of Spark.",
    *_SLOW,
    spec="JSON checksum",
    example='{"version":10,"size":13,"checksum":"00000000000000000000000000000000"}',
)
CHECKSUM_ORDER = AREA.info(
    "hint.checksum-order",
    "The checksum of the hint depends on the order of its parts, in which the protocol and Spark differ.",
    spec="JSON checksum",
    broken="engines that use only the other order treat the hint as corrupt and list the log",
    repair="write the hint without the list of more than ten values that causes the difference",
    example='a hint whose "v2Checkpoint" holds a protocol with eleven writer features',
)
SCHEMA_WRONG = AREA.error(
    "hint.schema-wrong",
    "The checkpointSchema of the hint differs from the schema of its checkpoint's files.",
    *_MISLED,
    spec="Last Checkpoint File Schema",
    example='"checkpointSchema" without `domainMetadata` for a file that has it',
)
AHEAD_OF_LOG = AREA.error(
    "hint.ahead-of-log",
    "The hint names a version that is newer than the log.",
    broken="engines that list from the hint on find no table",
    repair="delete _last_checkpoint, or restore the newer files of the log if they were lost",
    loss="nothing, unless commits were lost",
    example='{"version":99,"size":13} in a log that ends at version 20',
)


@AREA.check(ListingView, MISSING)
def checkpoints_have_a_hint(view: ListingView) -> Iterator[Finding]:
    """Report a log with complete checkpoints but no hint."""
    newest = view.newest_checkpoint
    if newest is not None and not view.has_hint:
        message = f"_last_checkpoint does not exist, although version {newest.version} has a checkpoint"
        yield MISSING.at(view.place("_last_checkpoint"), message)


@AREA.check(
    HintView,
    BAD_JSON,
    MISSING_FIELD,
    CHECKPOINT_MISSING,
    STALE,
    SIZE_WRONG,
    PARTS_ON_CLASSIC,
    CHECKSUM_BAD,
    CHECKSUM_ORDER,
    SCHEMA_WRONG,
    AHEAD_OF_LOG,
)
def hints_fit_their_checkpoint(view: HintView) -> Iterator[Finding]:
    """Compare the hint with the checkpoint it names."""
    hint = parse_hint(view.data)
    if isinstance(hint, str):
        seen = repr(view.data[:60].decode("utf-8", "replace")) if view.data else "an empty file"
        yield BAD_JSON.at(view.place(), f"_last_checkpoint cannot be read: {hint}", seen=seen)
        return
    yield from _checksum_faults(view, hint)
    for key, least in (("version", 0), ("size", -1)):
        value = hint.get(key)
        if type(value) is not int or value < least:
            message = f"the hint has no {key}" if value is None else f"the {key} of the hint is not a valid number"
            expected = f"a whole number of at least {least}"
            yield MISSING_FIELD.at(view.place(key), message, seen=value, expected=expected)
    version = hint.get("version")
    if type(version) is int and version >= 0:
        yield from _place_faults(view, hint, version)


def _checksum_faults(view: HintView, hint: Mapping[str, Any]) -> Iterator[Finding]:
    checksum = hint.get("checksum")
    if checksum is None:
        return
    try:
        known = checksums(dict(hint))
    except ValueError:
        return  # too large to be totalled
    if not isinstance(checksum, str) or checksum.lower() not in known:
        message = "the checksum of the hint does not match its content"
        yield CHECKSUM_BAD.at(view.place("checksum"), message, seen=checksum, expected=" or ".join(sorted(known)))
    elif len(known) > 1:
        message = "the checksum of the hint matches only one of the two orders in which engines put its parts"
        other = ", ".join(sorted(known - {checksum.lower()}))
        place = view.place("checksum")
        yield CHECKSUM_ORDER.at(place, message, seen=checksum, expected=f"a checksum other than {other}")


def _place_faults(view: HintView, hint: Mapping[str, Any], version: int) -> Iterator[Finding]:
    """Check that the checkpoint exists in the form of the hint and is the newest."""
    here = [one for one in view.listing.checkpoints if one.version == version]
    newest = max((one.version for one in view.listing.checkpoints), default=-1)
    if not here and version > view.listing.newest_version:
        message = f"the hint names version {version}, but the log ends at version {view.listing.newest_version}"
        yield AHEAD_OF_LOG.at(view.place("version"), message, seen=version, expected=_newest(newest))
        return
    if not here:
        message = f"the hint names a checkpoint of version {version}, but no complete one exists"
        yield CHECKPOINT_MISSING.at(view.place("version"), message, seen=version, expected=_newest(newest))
        return
    if newest > version:
        message = f"version {newest} has a newer checkpoint than version {version} in the hint"
        yield STALE.at(view.place("version"), message, seen=version, expected=newest)
    fault = _form_fault(view, hint, here)
    if fault is not None:
        yield fault
    else:  # of several checkpoints that match the hint, the best match
        meant = [one for one in view.checkpoints.get(version, ()) if _is_of_form(hint, one.instance)]
        yield from min((list(_content_faults(view, hint, one)) for one in meant), key=len, default=[])


def _is_of_form(hint: Mapping[str, Any], instance: CheckpointInstance) -> bool:
    """Return True if a hint, which names a form that its version has, can mean this checkpoint."""
    parts, name = hint.get("parts"), _v2_name(hint)
    if parts is not None:
        return instance.kind is LogFileKind.MULTI_PART_CHECKPOINT and len(instance.files) == parts
    if name is not None:
        return instance.files[0].name == name
    return instance.kind is not LogFileKind.MULTI_PART_CHECKPOINT


def _newest(version: int) -> str:
    return f"the newest checkpoint, {version}" if version >= 0 else "no hint: the log has no checkpoint"


def _form_fault(view: HintView, hint: Mapping[str, Any], here: list[CheckpointInstance]) -> Finding | None:
    """Check that the version has a checkpoint of the form in the hint. Otherwise readers use the one it has."""
    parts, name = hint.get("parts"), _v2_name(hint)
    forms = ", ".join(sorted(one.kind.value for one in here))
    single = [one for one in here if one.kind is not LogFileKind.MULTI_PART_CHECKPOINT]
    if parts is not None and not (type(parts) is int and parts > 1):
        if single:
            message = "the hint has a number of parts, but the checkpoint is a single file"
            return PARTS_ON_CLASSIC.at(view.place("parts"), message, seen=parts, expected="no parts")
        message = "the number of parts in the hint differs from the checkpoint"
        return SIZE_WRONG.at(view.place("parts"), message, seen=parts, expected=len(here[0].files))
    if any(_is_of_form(hint, one) for one in here):
        return None
    if parts is not None:
        message = f"the hint names a checkpoint of {parts} parts, which the version does not have"
        return CHECKPOINT_MISSING.at(
            view.place("parts"), message, seen=parts, expected=forms, severity=Severity.WARNING
        )
    if name is not None:
        message = "the hint names a checkpoint file that does not exist"
        return CHECKPOINT_MISSING.at(
            view.place("v2Checkpoint"), message, seen=name, expected=forms, severity=Severity.WARNING
        )
    message = "the hint names a checkpoint of a single file, but the version has one with several parts"
    place = view.place("parts")
    return CHECKPOINT_MISSING.at(place, message, seen="no parts", expected=forms, severity=Severity.WARNING)


def _v2_name(hint: Mapping[str, Any]) -> str | None:
    """Return the name of the top-level file of a V2 checkpoint, which Spark adds to the hint."""
    v2_checkpoint = hint.get("v2Checkpoint")
    path = v2_checkpoint.get("path") if isinstance(v2_checkpoint, dict) else None
    return path.rsplit("/", 1)[-1] if isinstance(path, str) else None


def _content_faults(view: HintView, hint: Mapping[str, Any], checkpoint: CheckpointView) -> Iterator[Finding]:
    """Compare numbers and schema with those of the checkpoint, if all its files could be read."""
    files = {f"_delta_log/{file.name}" for file in checkpoint.instance.files}
    if not checkpoint.is_readable:
        # What was counted before the damage says nothing about the hint, which may well be right.
        return
    if checkpoint.missing_sidecars or not files <= checkpoint.rows.keys():
        return
    numbers = (
        ("size", "actions", sum(checkpoint.rows.values())),
        ("numOfAddFiles", "files", checkpoint.counts.get("add", 0)),
        ("sizeInBytes", "bytes", sum(checkpoint.file_sizes.values())),
    )
    for key, what, right in numbers:
        content = hint.get(key)
        if type(content) is int and content >= 0 and content != right:
            message = f"the hint records {content:,} {what} for the checkpoint of version {checkpoint.version}"
            yield SIZE_WRONG.at(view.place(key), message, seen=content, expected=right)
    schema = hint.get("checkpointSchema")
    if schema is not None and checkpoint.schemas:
        faults = [difference(schema, stored) for stored in checkpoint.schemas.values()]
        if all(fault is not None for fault in faults):
            message = "the checkpointSchema of the hint differs from the checkpoint's files"
            yield SCHEMA_WRONG.at(view.place("checkpointSchema"), message, seen=faults[0])
