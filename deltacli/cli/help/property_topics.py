"""Explain table properties and table features, by what the code declares and the documentation says about them."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.cli.help.markdown import find_section, parse_table
from deltacli.cli.help.text import ExampleLines, Topic, define_stated
from deltacli.delta.protocol.features import CATALOG_FEATURES, FEATURES, OF_UNREAD_TYPES, Feature, stable_name
from deltacli.delta.protocol.known_properties import CHOICES, MEANINGS, NUMBERS, PATTERNS, known_keys, property_kind


def explain_properties() -> Iterator[tuple[str, Topic]]:
    """Yield every table property that some engine recognizes."""
    for key in known_keys():
        meaning, default = MEANINGS.get(key, ("", None))
        features = [name for name, feature in FEATURES.items() if feature.enabled_by == key]
        rows = [
            ("meaning", meaning),
            ("value", _describe_values(key)),
            ("default", default or ""),
            ("enables", ", ".join(features)),
        ]
        example = ExampleLines((f"deltacli properties ./tbl get {key}",))
        yield key, Topic(f"{key} is a table property.", (define_stated(rows), example))


def _describe_values(key: str) -> str:
    """Return which values a property has, in words."""
    if key in CHOICES:
        return " or ".join(CHOICES[key])
    if key in PATTERNS:
        return PATTERNS[key][1]
    if key in NUMBERS:
        return f"an integer, {NUMBERS[key].lowest:,} or more"
    kind = property_kind(key)
    return "" if kind is None else f"{kind}"


def explain_features(page: str) -> Iterator[tuple[str, Topic]]:
    """Yield every table feature, with what the page of properties and features says about it."""
    descriptions = {name: cells for name, *cells in parse_table(find_section(page, "What the features are"))}
    drops: dict[str, str] = {}
    for names, first_cell, *_cells in parse_table(find_section(page, "Dropping a feature")):
        drops.update(dict.fromkeys(names.split(", "), first_cell))

    for name, feature in FEATURES.items():
        description, commands = descriptions.get(name, ("", ""))
        # A dash in the table stands for a feature that cannot be dropped.
        can_be_dropped = len(drops.get(name, "")) > 1
        rows = [
            ("what it is", description),
            *_describe_feature(feature),
            ("commands", commands),
            ("drop it", f"deltacli features TABLE drop {name}: {drops[name]}" if can_be_dropped else ""),
        ]
        yield name, Topic(f"{name} is a table feature.", (define_stated(rows),))


def _describe_feature(feature: Feature) -> list[tuple[str, str]]:
    """Return what the code declares about a feature, as labels with texts; a text may be empty."""
    legacy = feature.legacy
    obstacle = feature.obstacle
    implied_by = f"protocol versions reader {legacy.reader}, writer {legacy.writer}" if legacy else ""
    enabled_by = f"{feature.enabled_by}=true" if feature.enabled_by else feature.used_by
    reason = ""
    way_out = ""
    if obstacle is not None:
        stable = stable_name(feature.name)
        reason = obstacle.reason.format(stable=stable)
        way_out = obstacle.way_out or _find_way_to_add(FEATURES[stable])
    return [
        ("kind", f"{feature.kind}"),
        ("deltacli", _describe_support(feature)),
        ("enabled by", enabled_by or ""),
        ("requires", ", ".join(feature.requires)),
        ("excludes", ", ".join(feature.excludes)),
        ("implied by", implied_by),
        ("cannot be added alone", reason),
        ("instead", way_out),
    ]


def _find_way_to_add(feature: Feature) -> str:
    way_out = feature.obstacle.way_out if feature.obstacle else None
    return way_out or f"deltacli features TABLE add {feature.name}"


def _describe_support(feature: Feature) -> str:
    """Return what deltacli does with tables that have a feature."""
    if feature.name in OF_UNREAD_TYPES:
        reading = "reads tables that have it, except columns of its types,"
    elif feature.is_readable:
        reading = "reads tables that have it"
    else:
        reading = "cannot read tables that have it"
    can_commit = feature.is_writable and feature.name not in CATALOG_FEATURES
    return f"{reading} and {'changes them' if can_commit else 'does not change them'}"
