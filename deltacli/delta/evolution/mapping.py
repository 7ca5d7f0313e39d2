"""Ids and physical names of column mapping, of new columns and of a whole table. Spec: Column Mapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deltacli.core.errors import UsageError
from deltacli.core.hints import command
from deltacli.delta.clustering.clustering_columns import find_column
from deltacli.delta.evolution.draft import Draft, Effect, Root, Settings, fields_within, forbid
from deltacli.delta.evolution.requests import SetMapping
from deltacli.delta.evolution.requirements import FORBIDDEN
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import parse_integer
from deltacli.delta.protocol.upgrade import upgraded, way_to_mapping
from deltacli.delta.schema.names import (
    ID,
    MAX_COLUMN_ID,
    MODE,
    NESTED_IDS,
    PHYSICAL_NAME,
    ways_to_parts,
)
from deltacli.delta.schema.type_changes import named_fields
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.delta.schema.widened_schema import write_exactly

FEATURE = "columnMapping"
_LARGEST_ID = 2**31 - 1
_NEEDS_NESTED_IDS = ("delta.enableIcebergCompatV2", "delta.enableIcebergCompatV3")
_PREFIX = "delta.columnMapping."
_NEEDS_PLAIN_NAMES = ("delta.enableIcebergWriterCompatV1", "delta.enableIcebergWriterCompatV3")


def enable_mapping(draft: Draft, change: SetMapping, _: Settings) -> tuple[Draft, Effect]:
    """Give every field an id and its own name as physical name, so that existing files fit.

    Raises UsageError for a mode that is not `name`, and Forbidden for a table that cannot get it.
    """
    if change.mode != "name":
        raise UsageError(
            f"column mapping cannot be set to {change.mode!r}: existing files have no field ids",
            facts={"expected": "name"},
        )
    now = draft.config.mapping_mode
    effect = Effect(change, MODE, now, "name")
    if now == "name":
        return draft, effect
    if now == "id":
        forbid("alter.mapping-mode", f"{MODE} cannot be changed from id to name: existing files were written for ids")
    stray = [one.path for one in named_fields(draft.schema) if _is_mapped(one.field.metadata)]
    if stray or str(draft.configuration.get(MODE) or "none").lower() != "none":
        where = f"the columns {', '.join(stray[:5])}" if stray else f"the property {MODE}"
        forbid(
            "alter.mapping-exists",
            f"column mapping cannot be enabled: {where} already have entries of a mapping that is off",
            "commit a metaData without delta.columnMapping entries",
        )
    root = draft.root()
    highest = _number(root, parse_integer(draft.config.properties, MAX_COLUMN_ID) or 0, lambda name, _: name)
    mapped = draft.with_schema(root).with_properties({MODE: "name", MAX_COLUMN_ID: str(highest)})
    # With the versions (2,5) alone fewer clients would lose access. But deltalake 1.6.6 reads such tables into Arrow by
    # its logical names, which gives wrong values without an error; a listed feature it refuses.
    return replace(mapped, protocol=upgraded(draft.protocol, [FEATURE]) or draft.protocol), effect


def _is_mapped(metadata: Any) -> bool:
    return any(key.startswith(_PREFIX) for key in metadata)


def uses_mapping(config: TableConfiguration) -> bool:
    """Return True if the metadata of a table has anything of column mapping."""
    if str(config.properties.get(MODE) or "none").lower() != "none":
        return True
    return any(_is_mapped(one.field.metadata) for one in named_fields(config.schema or StructType(())))


def without_mapping(draft: Draft) -> Draft:
    """Return the table without column mapping, for which files need to have the columns under their names.

    Raises Forbidden for names that columns in files cannot have.
    """
    wrong = [one.path for one in named_fields(draft.schema) if any(mark in FORBIDDEN for mark in one.field.name)]
    if wrong:
        forbid(
            "alter.name",
            f"column mapping cannot be removed: without it, names have no spaces and none of ,;{{}}()=, as "
            f"{', '.join(map(repr, wrong))} {'does' if len(wrong) == 1 else 'do'}",
            command("alter", "rename", f"`{wrong[0]}`", "NAME") or "rename these columns first",
        )
    root = draft.root()
    for field in fields_within(root):
        known = field.get("metadata")
        if isinstance(known, dict):
            field["metadata"] = {key: value for key, value in known.items() if not key.startswith(_PREFIX)}
    dropped = dict.fromkeys(key for key in draft.configuration if key.startswith(_PREFIX))
    found = [find_column(draft.config, draft.schema, path) for path in draft.clustering]
    clustering = tuple(tuple(field.name for field in one.fields) or one.path for one in found)
    return replace(draft.with_schema(root).with_properties(dropped), clustering=clustering)


def _number(root: Root, highest: int, name_of: Callable[[str, int], str]) -> int:
    """Give all fields within a type ids after `highest`, and return the highest id then."""
    for field in fields_within(root):
        highest += 1
        _require_room(highest)
        known = field.get("metadata")
        name = name_of(field["name"], highest)
        field["metadata"] = {**(known if isinstance(known, dict) else {}), ID: highest, PHYSICAL_NAME: name}
    return highest


def _require_room(highest: int) -> None:
    if highest > _LARGEST_ID:
        forbid("alter.ids", f"no column id is left: ids are at most {_LARGEST_ID:,}")


def number_new_field(draft: Draft, field: dict[str, Any], new_name: Callable[[], str]) -> dict[str, str | None]:
    """Give a new field and its parts ids and physical names, and return the property that records the highest id.

    Nothing without column mapping.
    """
    config = draft.config
    if config.mapping_mode == "none":
        return {}
    is_plain = any(map(config.is_on, _NEEDS_PLAIN_NAMES))
    struct = {"type": "struct", "fields": [field]}
    highest = _number(struct, highest_id(config), lambda _, number: f"col-{number if is_plain else new_name()}")
    if any(map(config.is_on, _NEEDS_NESTED_IDS)):
        highest = _number_parts(struct, highest)
    return {MAX_COLUMN_ID: str(highest)}


def _number_parts(struct: Root, highest: int) -> int:
    """Give the parts of arrays and maps ids, as Iceberg needs them."""
    for field in fields_within(struct):
        data_type = parse_schema(write_exactly({"type": "struct", "fields": [field]})).fields[0].data_type
        ways = list(ways_to_parts(data_type, field["metadata"][PHYSICAL_NAME]))
        if ways:
            field["metadata"][NESTED_IDS] = {way: highest + number for number, way in enumerate(ways, 1)}
            highest += len(ways)
            _require_room(highest)
    return highest


def highest_id(config: TableConfiguration) -> int:
    """Return the highest id that was ever assigned, as far as the schema and its property record it."""
    known = [parse_integer(config.properties, MAX_COLUMN_ID) or 0]
    for one in named_fields(config.schema or StructType(())):
        nested = one.field.metadata.get(NESTED_IDS)
        numbers = [one.field.metadata.get(ID), *(nested.values() if isinstance(nested, dict) else ())]
        known += [number for number in numbers if type(number) is int]
    return max(known)


def require_mapping(draft: Draft, what: str) -> None:
    """Raise Forbidden for a table whose columns have the same names in its files."""
    if draft.config.mapping_mode == "none":
        forbid(
            "alter.mapping-needed",
            f"{what}: the table has no column mapping, so its files have the columns under their names",
            way_to_mapping(draft.protocol) or "enable column mapping first",
        )
