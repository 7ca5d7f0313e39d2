"""The possible forms of a checkpoint, the names of its files, and which part an action belongs to.

The protocol leaves tags to writers. Their names and forms are those of the reference implementation.

Murmur3, 32 bits, seed 42, of the UTF-8 text: words of four bytes, then each remaining byte as a signed number in a
separate round.

Spec: Checkpoints; V2 Spec; Allowed combinations for new checkpoints; Checkpoints (multi-part).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Refused, command
from deltacli.core.typing import ArrowArray, Json
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFileKind, short_schema
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.to_arrow import table_schema

CHECKPOINT_POLICY = "delta.checkpointPolicy"

SEVERAL_FORMS = "checkpoint.several-forms"
"""The rule that reports V1 checkpoints of one version in several forms: classic, or different numbers of parts."""

READERS_THAT_FAIL = "DuckDB 1.5.5 and other readers built on delta-kernel-rs, in about half of their starts"
"Measured: such a reader picks any of the forms and fails if `_last_checkpoint` has a different number of parts."


class Layout(StrEnum):
    """The content of a checkpoint."""

    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2 = "v2"

    @property
    def file_kind(self) -> LogFileKind:
        return {
            Layout.CLASSIC: LogFileKind.CLASSIC_CHECKPOINT,
            Layout.MULTI_PART: LogFileKind.MULTI_PART_CHECKPOINT,
            Layout.V2: LogFileKind.UUID_CHECKPOINT,
        }[self]


class TopFile(StrEnum):
    """The form of the file that names the sidecars of a V2 checkpoint."""

    JSON = "json"
    PARQUET = "parquet"


def choose_layout(protocol: Protocol, properties: Mapping[str, str], asked: Layout | None) -> Layout:
    """Return the requested layout, or that of the table's policy. Raises Refused for one the table does not allow."""
    has_v2 = "v2Checkpoint" in protocol.supported_features
    if asked is None:
        wants_v2 = has_v2 and str(properties.get(CHECKPOINT_POLICY) or "").strip().lower() == "v2"
        return Layout.V2 if wants_v2 else Layout.CLASSIC
    if asked is Layout.V2 and not has_v2:
        raise Refused(
            "a V2 checkpoint requires the feature v2Checkpoint, which this table does not have",
            code="checkpoint.v2-without-feature",
            facts={
                "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
                "to add it": command("features add", "v2Checkpoint") or "add the feature",
            },
            hint=command("checkpoint", layout="classic"),
        )
    if asked is Layout.MULTI_PART and has_v2:
        message = "a table with the feature v2Checkpoint must not have multi-part checkpoints"
        raise Refused(message, code="checkpoint.multipart-forbidden", hint=command("checkpoint", layout="v2"))
    return asked


def classic_path(version: int) -> str:
    """Below the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.parquet"


def part_path(version: int, part: int, parts: int) -> str:
    """Below the table; parts count from 1."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def top_path(version: int, unique: str, form: TopFile) -> str:
    """The top-level file of a V2 checkpoint, below the table."""
    return f"{LOG_DIRECTORY}/{version:020d}.checkpoint.{unique}.{form}"


def sidecar_name(version: int, number: int, unique: str) -> str:
    """Return the name of a sidecar in its directory, numbered as other writers do."""
    return f"{version:020d}.checkpoint.{number:010d}.{unique}.parquet"


def is_sidecar_of(name: str, version: int, unique: str) -> bool:
    """Return True for a name by `sidecar_name` whose unique part is this one, or begins with it and a dot."""
    found, _, rest = name.partition(".checkpoint.")
    _, _, rest = rest.partition(".")
    return found == f"{version:020d}" and rest.startswith(f"{unique}.") and rest.endswith(".parquet")


def sidecar_path(name: str) -> str:
    """Below the table."""
    return f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{name}"


SIDECAR_ACTIONS = "sidecarNumActions"
SIDECAR_BYTES = "sidecarSizeInBytes"
ADDS = "numOfAddFiles"
SIDECAR_SCHEMA = "sidecarFileSchema"


def metadata_tags(actions: Mapping[str, int], size_bytes: int, schema: pa.Schema | None) -> dict[str, str]:
    """Return the tags of a checkpoint whose sidecars have these actions of each kind, total size and schema.

    The schema is left out if there are no sidecars, and if it is too long.
    """
    text = None if schema is None else short_schema(table_schema(schema))
    return {
        SIDECAR_ACTIONS: str(sum(actions.values())),
        SIDECAR_BYTES: str(size_bytes),
        ADDS: str(actions.get("add", 0)),
        **({} if text is None else {SIDECAR_SCHEMA: text}),
    }


def schema_difference(text: str, schema: pa.Schema) -> tuple[str, str] | None:
    """Return how the schema in a tag differs from the one of a sidecar, each in words; None where they are equal.

    Names the first column that differs. The order of columns, whether they may be null, and the kind of timestamp are
    not compared, because a file cannot express all of it; nor are columns of nulls, and what a variant consists of.
    """
    found = dict(_columns(table_schema(schema), ""))
    try:
        recorded = dict(_columns(json.loads(text), ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no schema", plural(len(found), "column")
    variants = tuple(f"{path}." for path, kind in recorded.items() if kind == "variant")
    for path in (*recorded, *found):
        one, other = recorded.get(path), found.get(path)
        if one not in (other, "variant") and other != "null" and not path.startswith(variants):
            return _described(path, one), _described(path, other)
    return None


def _described(path: str, kind: str | None) -> str:
    return f"no {path}" if kind is None else f"{path}: {kind}"


def _columns(kind: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every column, and of the elements of maps and arrays."""
    if isinstance(kind, str):
        yield path, "timestamp" if kind == "timestamp_ntz" else kind
        return
    match kind["type"]:
        case "struct":
            for field in kind["fields"]:
                yield from _columns(field["type"], f"{path}.{field['name']}" if path else str(field["name"]))
        case "map":
            yield from _columns(kind["keyType"], f"{path}.key")
            yield from _columns(kind["valueType"], f"{path}.value")
        case "array":
            yield from _columns(kind["elementType"], f"{path}.element")
        case other:
            raise ValueError(other)


# -- the hash with which the reference implementation distributes actions over the parts of a --------------------------

SEED = 42
_WORD = 4
_MASK = 0xFFFFFFFF


def assign_parts(paths: ArrowArray, parts: int) -> ArrowArray:
    """Return the part, counted from 0, of each action by its path."""
    hashes = spark_hash(paths)
    remainder = pc.subtract(hashes, pc.multiply(pc.divide(hashes, parts), parts))
    return pc.if_else(pc.less(remainder, 0), pc.add(remainder, parts), remainder)


def part_of_others(parts: int) -> int:
    """Return the part of actions without a path: a null leaves the seed unchanged."""
    return SEED % parts


def spark_hash(texts: ArrowArray) -> ArrowArray:
    """Return the hash of each text, column by column; no text is null."""
    raw = pc.cast(texts, pa.binary())
    lengths = pc.cast(pc.binary_length(raw), pa.int64())
    state = pc.fill_null(pa.nulls(len(raw), pa.int64()), SEED)
    longest = pc.max(lengths).as_py() or 0
    for start in range(0, longest // _WORD * _WORD, _WORD):
        word = _little_endian(raw, start, _WORD)
        state = pc.if_else(pc.greater_equal(lengths, start + _WORD), _round(state, word), state)
    whole = pc.multiply(pc.divide(lengths, _WORD), _WORD)
    for rest in range(_WORD - 1):
        byte = _byte_before_end(raw, pc.subtract(pc.subtract(lengths, whole), rest))
        mixed = _round(state, pc.if_else(pc.greater(byte, 127), pc.subtract(byte, 256), byte))
        state = pc.if_else(pc.less(pc.add(whole, rest), lengths), mixed, state)
    state = pc.bit_wise_xor(state, lengths)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = _times(pc.bit_wise_xor(state, pc.shift_right(state, shift)), factor)
    return pc.if_else(pc.greater(state, 0x7FFFFFFF), pc.subtract(state, 1 << 32), state)


def _round(state: Any, word: Any) -> Any:
    """Mix a word, as a signed number or an unsigned one, into the state."""
    word = _times(_rotated(_times(_low(word), 0xCC9E2D51), 15), 0x1B873593)
    return _low(pc.add(pc.multiply(_rotated(pc.bit_wise_xor(state, word), 13), 5), 0xE6546B64))


def _times(value: Any, factor: int) -> Any:
    """The low 32 bits of a product of 32-bit numbers: 64 bits overflow, but keep the low ones."""
    return _low(pc.multiply(value, factor))


def _rotated(value: Any, bits: int) -> Any:
    return _low(pc.bit_wise_or(pc.shift_left(value, bits), pc.shift_right(value, 32 - bits)))


def _low(value: Any) -> Any:
    return pc.bit_wise_and(value, _MASK)


def _little_endian(raw: Any, start: int, count: int) -> Any:
    """Return the bytes of each text as a number; those beyond its end are zero."""
    padded = pc.binary_join_element_wise(pc.binary_slice(raw, start, start + count), b"\x00" * 8, b"")
    return pc.cast(pc.binary_slice(padded, 0, 8), pa.binary(8)).view(pa.int64())


def _byte_before_end(raw: Any, distances: Any) -> Any:
    """The byte at a distance from 1 to 3 before the end of each text; 0 for other distances."""
    byte_before_end = pc.fill_null(pa.nulls(len(raw), pa.int64()), 0)
    for distance in range(1, _WORD):
        byte = pc.binary_slice(raw, -distance, -distance + 1 or None)
        byte_before_end = pc.if_else(pc.equal(distances, distance), _little_endian(byte, 0, 1), byte_before_end)
    return byte_before_end
