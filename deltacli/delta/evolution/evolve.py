"""Several changes of a table in order, each on what the ones before it made, as one plan. Nothing is read or written.

Spec: Change Metadata; Protocol Evolution; the sections of each feature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltacli.core.errors import Refusal, Refused, UsageError, command, parameter
from deltacli.core.texts import summarize_names
from deltacli.delta.clustering.clustering_columns import FEATURE, MOST_CLUSTERING_COLUMNS, find_column
from deltacli.delta.clustering.order_columns import order_columns
from deltacli.delta.evolution import requests
from deltacli.delta.evolution.columns import (
    add_column,
    change_type,
    comment_column,
    default_column,
    drop_column,
    drop_not_null,
    move_column,
    rename_column,
)
from deltacli.delta.evolution.draft import (
    Changed,
    Draft,
    Effect,
    Forbidden,
    Settings,
    enable_mapping,
    forbid,
    require_field,
    require_no_identity,
)
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.clients import is_partition_behind_mapped_name
from deltacli.delta.protocol.feature_use import upgraded, used_features
from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.delta.schema.column_differences import differences, exchanged, find_breaking_differences
from deltacli.delta.schema.column_path import CODE, PathPart, find_nearest_column
from deltacli.delta.schema.types import StructType
from deltacli.delta.schema.widened_schema import at
from deltacli.delta.schema.widening import Caution
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import CONSTRAINT_PREFIX, unknown_column
from deltacli.delta.stats.schema import INDEXED_COLUMNS, STATS_COLUMNS, indexed_columns

UPGRADE_NEEDED = "alter.protocol-upgrade-needed"
"""Code of the refusal of features that the protocol lacks, which an option overrides."""
_SHOWN_NAMES = 20
_RESERVED = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"


@dataclass(frozen=True, slots=True)
class Evolution:
    """What changes make of a table. With refusals, `after` is the table up to the first refused change."""

    before: Draft
    after: Draft
    effects: tuple[Effect, ...]
    refusals: tuple[Refusal, ...]
    cautions: tuple[Caution, ...] = ()

    @property
    def is_noop(self) -> bool:
        return not self.refusals and not any(effect.is_due for effect in self.effects)

    @property
    def due(self) -> tuple[Effect, ...]:
        return tuple(effect for effect in self.effects if effect.is_due)


def evolve(before: Draft, changes: Sequence[requests.Change], settings: Settings) -> Evolution:
    """Return the table after changes, and reasons against them. Raises UsageError for unknown columns and types."""
    if len(changes) > 1 and any(isinstance(change, requests.SetMapping) for change in changes):
        raise UsageError("column mapping is enabled by a commit of its own, before other changes", code="usage.change")
    draft = before
    effects: list[Effect] = []
    for number, change in enumerate(changes):
        try:
            changed, effect = _MAKERS[type(change)](draft, change, settings)
            if effect.is_due:
                _require_clustering_statistics(draft, changed)
        except Forbidden as forbidden:
            return Evolution(before, draft, tuple(effects), forbidden.refusals)
        except UsageError as fault:
            if len(changes) > 1:
                fault.facts |= {"change": f"[{number}] {json.dumps(requests.change_json(change), ensure_ascii=False)}"}
            raise
        effects.append(effect)
        draft = changed if effect.is_due else draft
    draft, refusals = _with_protocol(before, draft, settings)
    cautions = [caution for effect in effects if effect.is_due for caution in effect.cautions]
    cautions += [
        *of_readers(before.config, draft.config),
        *_of_statistics(before, draft),
        *_of_partitions(before, draft),
    ]
    return Evolution(before, draft, tuple(effects), tuple(refusals), tuple(dict.fromkeys(cautions)))


def set_clustering(draft: Draft, change: requests.SetClustering, _: Settings) -> Changed:
    """Cluster a table by other columns, or by none."""
    columns = order_columns(draft.config, change.columns) if change.columns else ()
    if len(columns) > MOST_CLUSTERING_COLUMNS:
        message = f"a table can be clustered by up to {MOST_CLUSTERING_COLUMNS} columns, not by {len(columns)}"
        raise UsageError(message, code="usage.column")
    partitions = list(draft.metadata.get("partitionColumns") or [])
    if columns and partitions:
        message = f"the table cannot be clustered: it is partitioned by {', '.join(partitions)}"
        forbid("alter.partitioned", message, "copy the rows into a table without partitions")
    paths = tuple(column.path for column in columns)
    effect = Effect(
        change, "clustering columns", logical_names(draft) or None, ",".join(c.text for c in columns) or None
    )
    changed = replace(draft, clustering=paths)
    return (changed.needing([FEATURE, "domainMetadata"]) if columns else changed), effect


def logical_names(draft: Draft) -> str:
    """Return the clustering columns as people write them, separated by commas."""
    found = (find_column(draft.config, draft.schema, path) for path in draft.clustering)
    return ",".join(".".join(field.name for field in one.fields) or one.name for one in found)


def _described(draft: Draft, change: requests.Change, subject: str, key: str, text: str | None) -> Changed:
    known = draft.metadata.get(key)
    before = str(known) if known else None
    return draft.with_metadata({key: text}), Effect(change, subject, before, text)


def set_not_null(draft: Draft, change: requests.SetNotNull, _: Settings) -> Changed:
    """Forbid nulls in a column; existing rows must have none."""
    place = draft.finder.find(change.column)
    require_field(place, "made NOT NULL")
    before = "nullable" if place.nearest.nullable else "NOT NULL"
    effect = Effect(change, place.text, before, "NOT NULL", place.text)
    if not effect.is_due:
        return draft, effect
    if any(step.part is not PathPart.FIELD for step in place.steps):
        forbid("alter.not-null", f"{place.text} cannot be NOT NULL: no engine enforces it within arrays and maps")
    around = next((field.name for field in place.fields[:-1] if field.nullable), None)
    if around is not None:
        forbid("alter.not-null", f"{place.text} cannot be NOT NULL: it is null where {around} is, which may be null")
    require_no_identity(draft, place, "made NOT NULL")
    root = draft.root()
    at(root, place.field_address)["nullable"] = False
    return draft.with_schema(root).needing(["invariants"]), effect


def add_constraint(draft: Draft, change: requests.AddConstraint, _: Settings) -> Changed:
    """Add a condition that every row must satisfy; null does not."""
    name, text = change.name.strip(), change.expression.strip().removesuffix(";").strip()
    if not name or name.lower() == _RESERVED.lower():
        forbid("alter.constraint-name", f"a constraint cannot be named {change.name!r}")
    _require_columns(draft.config.schema, change.name, text)
    known = _key_of(draft, name)
    before = None if known is None else str(draft.configuration[known])
    effect = Effect(change, f"constraint {name}", before, text)
    if before is not None and before != text:
        message = f"the constraint {known.removeprefix(CONSTRAINT_PREFIX) if known else name} already exists: {before}"
        forbid("alter.constraint-exists", message, "drop it first, or choose another name")
    return draft.with_properties({CONSTRAINT_PREFIX + name.lower(): text}).needing(["checkConstraints"]), effect


def _require_columns(schema: StructType | None, name: str, text: str) -> None:
    """Raise UsageError for a condition with a column that does not exist."""
    for path in parse_expression(text).columns if schema is not None else []:
        if schema is None or (unknown := unknown_column(schema, path)) is None:
            continue
        near = find_nearest_column(schema, path)
        meant = None if near is None else re.sub(rf"\b{re.escape(unknown)}\b", near.text.replace("\\", r"\\"), text)
        raise UsageError(
            f"{text} cannot be a constraint: there is no column {unknown}",
            code=CODE,
            facts={"columns": ", ".join(field.name for field in schema.fields[:_SHOWN_NAMES])},
            hint=command("snapshot", schema=True)
            if meant is None
            else command("alter", "constraint", "add", name, meant),
        ).suggest(unknown, near and near.text)


def drop_constraint(draft: Draft, change: requests.DropConstraint, _: Settings) -> Changed:
    """Drop a constraint; the feature stays in the protocol."""
    known = _key_of(draft, change.name.strip())
    if known is None:
        names = [
            key[len(CONSTRAINT_PREFIX) :] for key in draft.configuration if key.lower().startswith(CONSTRAINT_PREFIX)
        ]
        listed = f"; it has {', '.join(sorted(names))}" if names else ", and no others"
        message = f"the table has no constraint {change.name}{listed}"
        forbid("alter.constraint-missing", message, command("properties") or "")
    name = known[len(CONSTRAINT_PREFIX) :]
    effect = Effect(change, f"constraint {name}", str(draft.configuration[known]), None)
    return draft.with_properties({known: None}), effect


def _key_of(draft: Draft, name: str) -> str | None:
    """Return the property of a constraint, whose name may differ in case."""
    wanted = f"{CONSTRAINT_PREFIX}{name}".lower()
    return next((key for key in draft.configuration if key.lower() == wanted), None)


_MAKERS: Mapping[type[requests.Change], Callable[[Draft, Any, Settings], Changed]] = {  # Any: the change of that type
    requests.AddColumn: add_column,
    requests.ChangeType: change_type,
    requests.RenameColumn: rename_column,
    requests.DropColumn: drop_column,
    requests.MoveColumn: move_column,
    requests.SetComment: comment_column,
    requests.SetDefault: default_column,
    requests.DropNotNull: drop_not_null,
    requests.SetNotNull: set_not_null,
    requests.AddConstraint: add_constraint,
    requests.DropConstraint: drop_constraint,
    requests.SetClustering: set_clustering,
    requests.SetMapping: enable_mapping,
    requests.SetTableComment: lambda draft, change, _: _described(
        draft, change, "comment of the table", "description", change.comment or None
    ),
    requests.SetTableName: lambda draft, change, _: _described(
        draft, change, "name of the table", "name", change.name or None
    ),
}


def _with_protocol(before: Draft, draft: Draft, settings: Settings) -> tuple[Draft, list[Refusal]]:
    """Return the draft with the features that it needs, and the reasons against adding them."""
    try:
        protocol = upgraded(draft.protocol, draft.needed) or draft.protocol
    except Refused as refused:
        return draft, [Refusal(refused.code, refused.message, refused.hint or command("snapshot"))]
    after = replace(draft, protocol=protocol, needed=())
    if protocol == before.protocol or settings.upgrade_protocol:
        return after, []
    lacking = sorted(after.config.features - before.config.features)
    concerned = "writers"
    if int(protocol["minReaderVersion"]) > int(before.protocol["minReaderVersion"]) or any(
        name in FEATURES and FEATURES[name].kind is FeatureKind.READER_WRITER for name in lacking
    ):
        concerned = "readers and writers"
    named = "columnMapping" if "columnMapping" in lacking else ", ".join(lacking)
    message = f"the protocol lacks {named}; {concerned} without support for it will lose access"
    way_out = parameter("alter.upgrade_protocol", True)
    return after, [Refusal(UPGRADE_NEEDED, message, way_out)]


def _require_clustering_statistics(before: Draft, after: Draft) -> None:
    """Raise Forbidden if a clustering column would no longer get statistics."""
    if not before.clustering:
        return
    had, has = ({path for path, _ in indexed_columns(draft.config)} for draft in (before, after))
    lost = [".".join(path) for path in before.clustering if path in had and path not in has]
    if lost:
        message = f"files would get no statistics of {', '.join(lost)}, by which the table is clustered"
        way_out = command("properties set", {"delta.dataSkippingStatsColumns": ...}) or "choose another position"
        raise Forbidden([Refusal("alter.clustering-statistics", message, way_out)])


def _of_statistics(before: Draft, after: Draft) -> Iterator[Caution]:
    """Yield which columns new files have no statistics of any more, because others come before them."""
    had = [path for path, _ in indexed_columns(before.config)]
    unlimited = after.with_properties({INDEXED_COLUMNS: "-1", STATS_COLUMNS: None})
    known = {path for path, _ in indexed_columns(unlimited.config)}
    has = {path for path, _ in indexed_columns(after.config)}
    lost = [".".join(path) for path in had if path not in has and path in known]
    if lost:
        yield Caution("alter.statistics", f"files written from now on have no statistics of {summarize_names(lost, 5)}")


def _of_partitions(before: Draft, after: Draft) -> Iterator[Caution]:
    """Yield which partition columns DuckDB reads wrong from now on."""
    config = after.config
    if is_partition_behind_mapped_name(config) and not is_partition_behind_mapped_name(before.config):
        named = ", ".join(field.name for field in config.partition_columns.values() if field is not None)
        message = (
            f"DuckDB 1.5.5 returns null or other values for the partition columns {named}, because the column before "
            "one has another name in files; it reads them right where all of them come first"
        )
        yield Caution("alter.reader-partitions", message)


def of_readers(before: TableConfiguration, after: TableConfiguration) -> Iterator[Caution]:
    """Yield what streams and recipients of shares see of a change."""
    found = list(differences(before, after))
    if found:
        listed = "; ".join(found[:_NAMED]) + (f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
        ending = " and must be restarted"
        if find_breaking_differences(before, after):
            ending = ", and Delta for Spark restarts them only with schemaTrackingLocation"
        yield Caution("alter.streams", f"streams that read the table stop at the commit{ending}: {listed}")
        yield Caution("alter.shares", f"recipients of shares of the table see it, too: {listed}")
    gone, new = exchanged(before, after)
    if again := sorted({".".join(path) for path in gone & new}):
        yield Caution(
            "alter.streams",
            f"changes and streams cannot be read across the commit, because it drops and adds {', '.join(again)}; "
            "streams that have not delivered all versions before it have to start over after it. To avoid that, add "
            "the column in a commit of its own",
        )
    (_, had), (needed, has) = (used_features(config, has_vectors=False) for config in (before, after))
    if reasons := [reason for reason in has if reason not in had]:
        yield Caution(
            "alter.shares",
            f"recipients of shares of the table need the delta format with {', '.join(needed)}, if they read it in the "
            f"parquet format now, which cannot express {', '.join(reasons)}",
        )


_NAMED = 5
