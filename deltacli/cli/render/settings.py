"""Properties and features of a table, and changes of them, as results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.output.columns import Column
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Surface
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.delta.protocol.clients import ClientAccess
    from deltacli.delta.protocol.feature_changes import ShownFeature
    from deltacli.delta.protocol.features import Protocol
    from deltacli.operations.change.drop_feature import FeatureDrop
    from deltacli.operations.change.properties_and_features import (
        FeaturesOutcome,
        PropertiesOutcome,
        ShownProperty,
    )

_WHOLE = 44
"""Cells up to which a key or a name is never cut."""


def properties_result(uri: str, version: int, properties: Sequence[ShownProperty]) -> ListResult[ShownProperty]:
    """Return the properties of a table."""
    columns: list[Column[ShownProperty]] = [
        Column("key", lambda one: one.key, priority=0, min_width=_WHOLE, wraps=True),
        Column("value", lambda one: one.value, priority=1, min_width=12, style=_style, wraps=True),
        Column("known", lambda one: one.is_known, on_screen=False),
        Column("valid", lambda one: one.is_valid, on_screen=False),
        Column("default", lambda one: one.default, priority=4, min_width=12, wraps=True),
        Column("meaning", _meaning, priority=3, min_width=16, wraps=True),
    ]
    fields = envelope("deltacli.properties", uri, complete=True) | {"version": version}
    items = [one.as_json() for one in properties]
    said = [] if properties else [Section("properties", ["none"])]
    return ListResult(
        fields, "property", items, columns, properties, items_name="properties", make_sections=lambda _: said
    )


class FeaturesResult(ListResult["ShownFeature"]):
    """The protocol of a table and its features."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        if self.rows:
            self.draw_rows(sink, terminal)


def _yes_or_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def features_result(uri: str, version: int, protocol: Protocol, features: Sequence[ShownFeature]) -> FeaturesResult:
    """Return the protocol of a table and its features."""
    columns: list[Column[ShownFeature]] = [
        Column("name", lambda one: one.name, priority=0, min_width=_WHOLE),
        Column("kind", lambda one: one.kind, priority=2, min_width=17),
        Column("listed", lambda one: one.is_listed, text=lambda one: _yes_or_no(one.is_listed), priority=4),
        Column("active", lambda one: one.is_active, text=lambda one: _yes_or_no(one.is_active), priority=1),
        Column("because", lambda one: one.because, priority=3, min_width=20, wraps=True),
    ]
    fields = envelope("deltacli.features", uri, complete=True) | {"version": version, "protocol": protocol.as_json()}
    items = [one.as_json() for one in features]
    said = [Section("protocol", [_protocol_line(protocol.as_json())])]
    return FeaturesResult(
        fields, "feature", items, columns, features, items_name="features", make_sections=lambda _: said
    )


def change_result(outcome: PropertiesOutcome | FeaturesOutcome, *, is_done: bool) -> SingleResult:
    """Return a change that was made or would be; CSV has a line for each property or feature."""
    from deltacli.operations.change.properties_and_features import PropertiesOutcome

    content = outcome.as_json()
    is_of_properties = isinstance(outcome, PropertiesOutcome)
    columns = ("key", "before", "after") if is_of_properties else ("feature", "neededBy")
    said = _change_sections(outcome.table, content, is_done=is_done)

    def draw(canvas: Surface) -> None:
        from deltacli.cli.render.schemas.altering import draw_settings

        draw_settings(canvas, content, said, outcome.find_affected_clients())

    return SingleResult(
        "properties" if is_of_properties else "features",
        outcome.table,
        content,
        lambda: said,
        [{name: change.get(name) for name in columns} for change in content["changes"]],
        columns,
        draw,
    )


def drop_result(drop: FeatureDrop) -> SingleResult:
    """Return a drop of a feature that was made or would be; CSV has a line for each step."""
    content, is_made = drop.as_json(), drop.is_made
    versions = "several, would be committed"
    if drop.versions:
        first, last = drop.versions[0], drop.versions[-1]
        versions = f"{first}, committed" if first == last else f"{first} to {last}, committed"
    before, after = _protocol_line(drop.protocol_before), _protocol_line(drop.protocol_after)

    def said() -> list[Section]:
        return [
            Section("table", [drop.table.uri]),
            Section("versions", [versions]),
            Section("done" if is_made else "steps" if drop.versions else "would do", list(drop.steps)),
            Section("protocol", [f"{before} -> {after}"]),
            Section("clients", [_regained(client) for client in drop.clients]),
        ]

    rows = [{"step": step} for step in drop.steps]
    return SingleResult("features", drop.table.uri, content, said, rows, ("step",), line_type="feature-drop")


def _regained(client: ClientAccess) -> str:
    does = "reads and writes" if client.reads and client.writes else "reads" if client.reads else "writes"
    return f"{client.name} {client.version or ''}".rstrip() + f": {does} it again"


def _meaning(one: ShownProperty) -> str | None:
    if not one.is_valid:
        return f"not valid: expected {one.expected}"
    return "not recognized by any known engine" if one.is_known is False else one.meaning


def _style(one: ShownProperty) -> Style:
    return Style.PLAIN if one.is_valid and one.is_known is not False else Style.PROBLEM


def _change_sections(table: str, content: JsonObject, *, is_done: bool) -> list[Section]:
    changes = content["changes"]
    if not changes:
        said = "none of the keys is set" if content.get("cautions") else "already set"
        return [Section("nothing to do", [f"{table}, version {content['version']}: {said}"])]
    before, after = content["protocolBefore"], content["protocolAfter"]
    now, committed = _protocol_line(after), content["committedVersion"]
    version = f"{committed}, committed" if is_done else f"{content['version'] + 1}, unless another writer commits first"
    backlog, versions = content.get("rowIds"), content.get("committedVersions") or ()
    if len(versions) > 1:
        version = f"{format_ranges(versions)}, committed"
    elif backlog and not is_done:
        version = f"several from {content['version'] + 1} on"
    who = {label: content[label] for label in ("readers", "writers") if label in content}
    if len(who) == 2 and who["readers"] == who["writers"]:
        who = {"clients": who["readers"]}
    return [
        Section("table", [table]),
        Section("version", [version]),
        Section("changed" if is_done else "would change", [_sentence_of(change) for change in changes]),
        *([Section("row ids", _of_backlog(backlog))] if backlog else []),
        Section("protocol", [now if before == after else f"{_protocol_line(before)} -> {now}"]),
        *[Section(label, [text]) for label, text in who.items()],
    ]


def _of_backlog(backlog: JsonObject) -> list[str]:
    files = f"{plural(backlog['files'], 'file')} without, which get them in {plural(backlog['commits'], 'commit')}"
    counted = f"{plural(backlog['uncounted'], 'footer')} read, because the log does not have their number of rows"
    return [files, counted] if backlog["uncounted"] else [files]


def _sentence_of(change: JsonObject) -> str:
    if "feature" in change:
        return (
            f"{change['feature']}, which {change['neededBy']} needs" if "neededBy" in change else str(change["feature"])
        )
    before = change.get("before", "(not set)")
    return f"{change['key']}: {before} -> {change.get('after', '(not set)')}"


def _protocol_line(action: JsonObject) -> str:
    versions = f"reader {action['minReaderVersion']}, writer {action['minWriterVersion']}"
    named = sorted({*(action.get("readerFeatures") or ()), *(action.get("writerFeatures") or ())})
    return f"{versions} with {', '.join(named)}" if named else versions
