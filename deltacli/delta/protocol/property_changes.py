"""Setting and unsetting properties: each key, each value, and the resulting table are checked.

Each refusal has its own code and a fix.

Spec: the sections of each feature; Delta-Spark; Table Properties; Active Features.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from unicodedata import category

from deltacli.core.errors import Refused, UsageError, command, nearest_name, parameter
from deltacli.core.texts import is_utf8_encodable
from deltacli.core.times import DURATIONS_MS, UNITS_MS
from deltacli.delta.log.actions import Action
from deltacli.delta.log.row_ids import ENABLED, FEATURE, SUSPENDED
from deltacli.delta.log.state import (
    CHANGE_FEED,
    CHECKPOINT_PROTECTION,
    DEFAULT_DELETED_FILE_RETENTION_MS,
    DEFAULT_RETENTIONS,
    DELETED_FILE_RETENTION,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    IN_COMMIT_KEYS,
    IN_COMMIT_TIMESTAMPS,
    LOG_CLEANUP,
    LOG_RETENTION,
    PORTABLE_INTERVAL,
    SHORTEST_SAFE_RETENTION_MS,
    TableConfiguration,
    deleted_file_retention_ms,
    is_false,
    parse_interval,
    retentions_out_of_order,
)
from deltacli.delta.protocol import known_properties
from deltacli.delta.protocol.feature_use import PARTITION_COLUMNS_SWITCH, property_uses, way_to_mapping
from deltacli.delta.protocol.features import stable_name

# -- properties that a metadata change alone must not touch ------------------------------------------------------------

_MAPPING_MODE = "delta.columnMapping.mode"
_VECTORS = "delta.enableDeletionVectors"
_MANIFEST = "delta.compatibility.symlinkFormatManifest.enabled"
_UNIFORM = "delta.universalFormat.enabledFormats"
_ICEBERG = tuple(f"delta.enableIcebergCompatV{number}" for number in (1, 2, 3))
_ICEBERG_WRITERS = {
    "delta.enableIcebergWriterCompatV1": "delta.enableIcebergCompatV2",
    "delta.enableIcebergWriterCompatV3": "delta.enableIcebergCompatV3",
}
"Compatibility of writers -> the compatibility that it requires."
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

_INTERNAL = frozenset(
    {
        CHECKPOINT_PROTECTION,
        ICT_ENABLEMENT_TIMESTAMP,
        ICT_ENABLEMENT_VERSION,
        "delta.columnMapping.hasDroppedOrRenamed",
        "delta.columnMapping.maxColumnId",
        *IN_COMMIT_KEYS["inCommitTimestamp-preview"],
        "delta.lastCommitTimestamp",
        "delta.lastUpdateVersion",
        "delta.redirectReaderWriter-preview",
        "delta.redirectWriterOnly-preview",
        SUSPENDED,
    }
)
_INTERNAL_FAMILIES = ("delta.coordinatedCommits.", "delta.rowTracking.")
_CONSTRAINTS = "delta.constraints."


def require_ours(key: str, value: str | None, config: TableConfiguration) -> None:
    """Raise Refused for a property that only an engine, a catalog or the commit may set, or unset (the value None)."""
    if key in _INTERNAL or key.startswith(_INTERNAL_FAMILIES) or key.endswith(".internal"):
        message = f"{key} is maintained by the writers of the table; another value would make their writes wrong"
        raise Refused(message, code="properties.internal", hint=command("properties"))
    if key.lower().startswith(_CONSTRAINTS):
        raise Refused(
            f"{key} is a CHECK constraint, so existing rows must be checked first",
            code="properties.constraint",
            hint=command(
                "alter",
                "constraint",
                *(["drop", key.split(".", 2)[2]] if value is None else ["add", "NAME", "CONDITION"]),
            ),
        )
    if key == "delta.enableChangeDataCapture" and value is not None:
        message = f"{key} is the former name of {CHANGE_FEED}, which most engines do not recognize"
        raise Refused(message, code="property.cdf-legacy-key", hint=command("properties set", {CHANGE_FEED: value}))
    if key == _UNIFORM and value:
        raise Refused(
            f"{key} requires a writer that converts every commit to {value}",
            code="properties.engine-only",
            facts={"fix": "set it in the engine that will convert the table"},
        )
    if key == _MAPPING_MODE:
        _require_same_mapping(config, value)
    if value == "true" and key == ENABLED and config.is_on(SUSPENDED):
        raise suspended()
    if value == "true" and (key in _ICEBERG or key in _ICEBERG_WRITERS):
        raise Refused(
            f"{key} requires all existing files to be readable by Iceberg, which this change does not ensure",
            code="properties.iceberg-compat",
            facts={"fix": "REORG TABLE … APPLY (UPGRADE UNIFORM …) in an engine"},
        )


def suspended() -> Refused:
    """Return the error for row tracking that another change of the table is about to drop. Spec: Row Tracking."""
    return Refused(
        f"{SUSPENDED} is true, so writers assign no row ids: the table is about to lose row tracking",
        code="rowtracking.suspended",
        facts={"then": "add the feature again"},
        hint=command("features drop", FEATURE),
    )


def _require_same_mapping(config: TableConfiguration, value: str | None) -> None:
    now, then = config.mapping_mode, value or "none"
    if now == then:
        return
    if now == "none" and then == "name":
        message = f"{_MAPPING_MODE} is set by a change of the schema: columns need ids and physical names first"
        raise Refused(message, code="properties.column-mapping", hint=way_to_mapping(config.raw_protocol or {}))
    if now == "none":
        why, way = "existing files have no field ids", "a new table"
    elif then == "none":
        raise Refused(
            f"{_MAPPING_MODE} cannot be changed from {now} to {then} by itself: existing files have the columns under "
            "other names and are rewritten",
            code="properties.column-mapping",
            hint=command("features drop", "columnMapping"),
        )
    else:
        why = "existing files were written for the other mode"
        way = "a new table"
    message = f"{_MAPPING_MODE} cannot be changed from {now} to {then}: {why}"
    raise Refused(message, code="properties.column-mapping", facts={"fix": way})


def require_legal(before: TableConfiguration, after: TableConfiguration, due: Mapping[str, str | None]) -> None:
    """Raise Refused if the changes would leave a table that no writer may commit to."""
    _require_iceberg_kept(before, after, due)
    if due.get(_VECTORS) == "true" and ("icebergCompatV1" in after.features or after.is_on(_ICEBERG[1])):
        culprit = _ICEBERG[1] if after.is_on(_ICEBERG[1]) else "the feature icebergCompatV1"
        raise Refused(
            f"{_VECTORS} and {culprit} exclude each other",
            code="protocol.exclusive",
            facts={"fix": "tables that Iceberg reads in these versions must not have deletion vectors"},
        )
    if after.is_on(_VECTORS) and after.is_on(_MANIFEST) and {_VECTORS, _MANIFEST} & due.keys():
        message = f"{_VECTORS} and {_MANIFEST} exclude each other, because readers of manifests would see deleted rows"
        raise Refused(message, code="properties.manifest", hint=command("properties unset", _MANIFEST))
    if due.get(CHANGE_FEED) == "true" and after.schema is not None:
        taken = [field.name for field in after.schema.fields if field.name.lower() in CHANGE_COLUMNS]
        if taken:
            raise Refused(
                f"{CHANGE_FEED} requires that no column is named {', '.join(taken)}, which the change data uses",
                code="properties.reserved-column",
                facts={"fix": command("alter", "rename", taken[0], "NAME") or "rename the column first"},
            )
    if {LOG_RETENTION, DELETED_FILE_RETENTION} & due.keys():
        _require_order(after)


def _require_iceberg_kept(before: TableConfiguration, after: TableConfiguration, due: Mapping[str, str | None]) -> None:
    """Raise Refused if a property required by an active compatibility would be turned off."""
    for key in _ICEBERG:
        if key not in due or not before.is_on(key) or after.is_on(key):
            continue
        users = [user for user, needed in _ICEBERG_WRITERS.items() if needed == key and after.is_on(user)]
        if "iceberg" in after.properties.get(_UNIFORM, "") and not any(map(after.is_on, _ICEBERG)):
            users.append(_UNIFORM)
        if users:
            message = f"{key} must remain true because {', '.join(users)} requires it"
            raise Refused(message, code="properties.iceberg-needed", hint=command("properties unset", users[0]))
    if ENABLED in due and not after.is_on(ENABLED) and after.is_on(_ICEBERG[2]):
        message = f"{ENABLED} must remain true because {_ICEBERG[2]} is"
        raise Refused(message, code="properties.iceberg-needed", hint=command("properties unset", _ICEBERG[2]))


def _require_order(after: TableConfiguration) -> None:
    if retentions := retentions_out_of_order(after.properties):
        kept = zip(DEFAULT_RETENTIONS, retentions, strict=True)
        shown = {key: text if after.properties.get(key) else f"{text}, its default" for key, text in kept}
        raise Refused(
            "the log would be kept for a shorter time than deleted files, which would then be unreadable",
            code="property.retention-order",
            facts=shown,
            hint=command("properties set", dict.fromkeys(DEFAULT_RETENTIONS, retentions[1])),
        )


def cautions_of_properties(after: TableConfiguration, due: Mapping[str, str | None]) -> Iterator[str]:
    """Yield warnings to show before the changes are made."""
    json, struct = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"
    if DELETED_FILE_RETENTION in due:
        kept = deleted_file_retention_ms(after.properties)
        if kept < SHORTEST_SAFE_RETENTION_MS:
            yield "deleted files are kept for less than a day, so running readers and writers may still need them"
        elif kept < DEFAULT_DELETED_FILE_RETENTION_MS:
            yield "deleted files are kept for less than a week, so time travel reaches less far after a vacuum"
    if {json, struct} & due.keys() and is_false(after.properties, json) and is_false(after.properties, struct):
        yield "checkpoints will have no statistics, so no query can skip a file after one"
    if LOG_CLEANUP in due and is_false(after.properties, LOG_CLEANUP):
        yield "engines no longer clean up the log, so it grows without limit"
    if due.get(IN_COMMIT_TIMESTAMPS) == "true":
        yield f"the commit also sets {ICT_ENABLEMENT_VERSION} and {ICT_ENABLEMENT_TIMESTAMP}, which record since when"
    if due.get(ENABLED) == "true":
        yield "streams of Delta with a schemaTrackingLocation stop once at this change: start them again"
    for key in sorted(known_properties.UNKNOWN_TO_SPARK & due.keys()):
        if due[key] is not None:
            yield f"Delta for Spark does not know {key}: it ignores the property, and refuses to set it itself"
    if due.get("appendOnly") is not None:
        yield "appendOnly has no effect; the property is named delta.appendOnly"


# -- setting and unsetting properties ----------------------------------------------------------------------------------

_LONGEST = 1000
"Maximum length of a number or an interval. Python does not convert longer ones, and they are never intended."


def expected_of(key: str) -> str:
    """Return the valid values of a property, for messages."""
    if key in known_properties.CHOICES:
        return " or ".join(known_properties.CHOICES[key])
    if key in known_properties.PATTERNS:
        return known_properties.PATTERNS[key][1]
    match known_properties.property_kind(key):
        case known_properties.PropertyKind.BOOLEAN:
            return "true or false"
        case known_properties.PropertyKind.NUMBER:
            lowest, highest = known_properties.NUMBERS[key]
            return f"an integer from {lowest} to {highest}"
        case known_properties.PropertyKind.INTERVAL:
            return "an interval without months and years, such as interval 30 days or 30d"
        case _:
            return "text"


def normal_form(key: str, value: str) -> str | None:
    """Return the value as every engine reads it, None where it is not valid: `True` is `true`, `+7` is `7`,
    `30 DAYS` is `interval 30 days`. What takes any text is left as it is.
    """
    if key in known_properties.CHOICES:
        return value if value in known_properties.CHOICES[key] else None
    if key in known_properties.PATTERNS:
        return value if known_properties.PATTERNS[key][0](value) else None
    match known_properties.property_kind(key):
        case known_properties.PropertyKind.BOOLEAN:
            return value.lower() if value.lower() in ("true", "false") else None
        case known_properties.PropertyKind.NUMBER:
            return _number(value, *known_properties.NUMBERS[key])
        case known_properties.PropertyKind.INTERVAL:
            return _interval(value)
        case _:
            return value


def _number(value: str, lowest: int, highest: int) -> str | None:
    if len(value) > _LONGEST or not known_properties.INTEGER.fullmatch(value):
        return None
    number = int(value)
    return str(number) if lowest <= number <= highest else None


def _interval(value: str) -> str | None:
    """Return an interval of one integer and one lower-case unit; of others engines use the first part or a default."""
    length_ms = parse_interval(value) if len(value) <= _LONGEST else None
    if length_ms is None or length_ms > known_properties.MAX_LONG // 1000:
        return None
    if PORTABLE_INTERVAL.fullmatch(value):
        return " ".join(value.split())
    unit, unit_ms = next(((unit, ms) for unit, ms in UNITS_MS.items() if length_ms % ms == 0), ("millisecond", 1))
    amount = length_ms // unit_ms
    return f"interval {amount} {unit if amount == 1 else unit + 's'}"


class PropertyChange(NamedTuple):
    """One property and its value before and after; None: not set."""

    key: str
    before: str | None
    after: str | None


class PropertiesPlan(NamedTuple):
    """The properties that change, in the order of their keys, the metaData that changes them, warnings, and the
    features that the protocol lacks for them. Without changes there is no metaData and nothing to commit.
    """

    changes: tuple[PropertyChange, ...]
    metadata: Action | None
    cautions: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def tracks_rows(self) -> bool:
        """Return True if every row must have an id from then on."""
        return any(change.key == ENABLED and change.after == "true" for change in self.changes)


def plan_set(
    config: TableConfiguration,
    raw_metadata: Action,
    values: Mapping[str, str],
    *,
    force: bool = False,
    upgrade_protocol: bool = False,
) -> PropertiesPlan:
    """Plan to set properties.

    `force` also sets unrecognized `delta.` keys, `upgrade_protocol` also those whose features the protocol lacks.
    Raises UsageError (`usage.property`) for invalid values, and Refused for keys and values that the table cannot have.
    """
    for key, value in values.items():
        _require_text(key)
        _require_text(value)
        _require_key(key, value, force=force)
    normal = {key: _normal(config, key, value) for key, value in values.items()}
    return _planned(config, raw_metadata, normal, upgrade_protocol=upgrade_protocol)


def plan_unset(config: TableConfiguration, raw_metadata: Action, keys: Sequence[str]) -> PropertiesPlan:
    """Plan to unset properties, including unrecognized keys.

    Warnings name keys that are not set. Raises Refused if the table must keep a property, or a key has another
    spelling.
    """
    configuration = raw_metadata.get("configuration") or {}
    for key in keys:
        _require_text(key)
        if key not in configuration:
            _require_spelling(key, lambda right: command("properties unset", right))
    planned = _planned(config, raw_metadata, dict.fromkeys(keys))
    absent = tuple(_absent(key, configuration) for key in dict.fromkeys(keys) if key not in configuration)
    return planned._replace(cautions=(*absent, *planned.cautions))


def _absent(key: str, configuration: Mapping[str, str]) -> str:
    near = nearest_name(key, configuration, ignores_case=True)
    return f"{key} is not set{f'; did you mean {near}?' if near else ''}"


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """Return `key=value` texts as a dictionary. Raises UsageError (`usage.property`) for invalid and repeated ones."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise _bad(f"{text!r} is not of the form KEY=VALUE", "key=value")
        if pairs.get(key, value) != value:
            raise _bad(f"{key} has two values: {pairs[key]!r} and {value!r}", "one value per property")
        pairs[key] = value
    return pairs


def _planned(
    config: TableConfiguration, raw_metadata: Action, edits: Mapping[str, str | None], *, upgrade_protocol: bool = False
) -> PropertiesPlan:
    raw = raw_metadata.get("configuration") or {}
    due = {key: value for key, value in edits.items() if (key in raw if value is None else raw.get(key) != value)}
    for key, value in due.items():
        require_ours(key, value, config)
    if config.is_on(IN_COMMIT_TIMESTAMPS) and IN_COMMIT_TIMESTAMPS in due and due[IN_COMMIT_TIMESTAMPS] != "true":
        # They record since when commits have their own time, which would be wrong once the feature is off.
        due |= {key: None for key in (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP) if key in raw}
    if not due:
        return PropertiesPlan((), None)
    configuration = {key: value for key, value in raw.items() if key not in due or due[key] is not None}
    configuration |= {key: value for key, value in due.items() if value is not None}
    assert config.metadata is not None
    texts = {key: "" if value is None else str(value) for key, value in configuration.items()}
    after = replace(config, metadata=config.metadata._replace(configuration=texts))
    lacking = _lacking(config, after)
    if lacking and not upgrade_protocol:
        raise _feature_needed(config, lacking, due)
    require_legal(config, after, due)
    before = {key: None if raw.get(key) is None else str(raw[key]) for key in due}
    changes = tuple(PropertyChange(key, before[key], due[key]) for key in sorted(due))
    return PropertiesPlan(
        changes,
        raw_metadata | {"configuration": configuration},
        tuple(cautions_of_properties(after, due)),
        tuple(dict.fromkeys(name for name, _, _ in lacking)),
    )


def _require_key(key: str, value: object, *, force: bool) -> None:
    if not key:
        raise _bad("a property without a name cannot be set", "key=value")
    if any(category(character) == "Cc" for character in key):
        raise _bad(f"{key!r} contains a line break or another control character", "a name that can be typed")
    if not key.lower().startswith("delta."):
        return
    if known_properties.is_of_protocol(key):
        name = key.removeprefix("delta.feature.")
        hint = command("features add", name) if name != key else command("features")
        message = f"{key} belongs in the protocol; as a property it has no effect"
        raise Refused(message, code="property.protocol-in-config", hint=hint)
    _require_spelling(key, lambda right: command("properties set", {right: value}))
    if known_properties.property_kind(key) is None and not force:
        nearest = nearest_name(key, known_properties.known_keys())
        raise Refused(
            f"no known engine recognizes the property {key}",
            code="properties.unknown-key",
            facts={"to set it anyway": parameter("properties set.force", True)},
            hint=command("properties set", {nearest: value}) if nearest else None,
        ).suggest(key, nearest)


def _require_spelling(key: str, meant: Callable[[str], str]) -> None:
    """Raise Refused for a key unlike a known one only in case: engines compare exactly, so it has no effect."""
    right = known_properties.right_spelling(key)
    if right is not None and right != key:
        message = f"{key} must be spelled {right}; in another case it has no effect"
        raise Refused(message, code="properties.key-case", facts={"right": right}, hint=meant(right))


def _normal(config: TableConfiguration, key: str, value: str) -> str:
    normal = normal_form(
        key,
        _interval_of(value) if known_properties.property_kind(key) is known_properties.PropertyKind.INTERVAL else value,
    )
    if normal is None:
        fault = _bad(f"{key} cannot be {value[:200]!r}", expected_of(key))
        if known_properties.property_kind(key) is known_properties.PropertyKind.INTERVAL and value.isdecimal():
            fault.hint = command("properties set", {key: f"{value}d"})
        elif known_properties.property_kind(key) is known_properties.PropertyKind.BOOLEAN and value.lower() in _TRUTHS:
            fault.hint = command("properties set", {key: _TRUTHS[value.lower()]})
        raise fault
    if key == "delta.dataSkippingStatsColumns":
        _require_columns(config, key, value)
    return normal


_TRUTHS = {
    **dict.fromkeys(("1", "on", "enabled", "y", "yes"), "true"),
    **dict.fromkeys(("0", "off", "disabled", "n", "no"), "false"),
}
_UNITS = {**{unit[0]: f"{unit}s" for unit in UNITS_MS}, "ms": "milliseconds"}
_DURATION = re.compile(rf"\s*([0-9]{{1,15}})\s*({'|'.join(DURATIONS_MS)})\s*")


def _interval_of(value: str) -> str:
    """Return a duration as options take it, such as `30d`, as an interval; other texts as they are."""
    found = _DURATION.fullmatch(value.lower())
    return value if found is None else f"{found[1]} {_UNITS[found[2]]}"


def _require_columns(config: TableConfiguration, key: str, value: str) -> None:
    from deltacli.delta.schema.column_path import ColumnFinder

    assert config.schema is not None
    finder = ColumnFinder(config.schema)
    for name in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", value):
        try:
            finder.find(name.strip())
        except UsageError as fault:
            wrong = UsageError(f"{key}: {fault.message}", code="usage.property", facts=fault.facts)
            raise wrong.set_suggestion(fault.wrong_word or "", fault.suggestion) from fault


def _lacking(before: TableConfiguration, after: TableConfiguration) -> list[tuple[str, str, str]]:
    """Return the uses of features that new properties require and the protocol lacks."""
    # Only in-commit timestamps have a different property in their preview.
    supported = {name if name in IN_COMMIT_KEYS else stable_name(name) for name in before.features}
    known = {(use.key, use.what) for use in property_uses(before.properties)}
    return [use for use in _uses(after) if use[0] not in supported and (use[1], use[2]) not in known]


def _feature_needed(
    config: TableConfiguration, lacking: Sequence[tuple[str, str, str]], due: Mapping[str, str | None]
) -> Refused:
    names = list(dict.fromkeys(name for name, _, _ in lacking))
    facts = {"protocol": _shown(config), "feature" if len(names) == 1 else "features": ", ".join(names)}
    if then := command("properties set", {key: value for key, value in due.items() if value is not None}):
        facts["then"] = then
    if at_once := parameter("properties set.upgrade_protocol", True):
        facts["to add"] = at_once
    message = f"{lacking[0][2]}, which requires the feature {names[0]}, but the protocol does not support it"
    return Refused(message, code="properties.feature-needed", facts=facts, hint=command("features add", *names))


def _uses(config: TableConfiguration) -> Iterator[tuple[str, str, str]]:
    uses = (use for use in property_uses(config.properties) if use.key != PARTITION_COLUMNS_SWITCH)
    return ((use.feature, use.key, use.what) for use in uses)


def _shown(config: TableConfiguration) -> str:
    assert config.protocol is not None
    return f"reader {config.protocol.min_reader_version}, writer {config.protocol.min_writer_version}"


def _require_text(text: object) -> None:
    if not isinstance(text, str) or not is_utf8_encodable(text):
        raise _bad(f"{text!r} is not text", "UTF-8")


def _bad(message: str, expected: str) -> UsageError:
    return UsageError(message, code="usage.property", facts={"expected": expected})
