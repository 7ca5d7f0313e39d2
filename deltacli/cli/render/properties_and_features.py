"""Properties and features of a table, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import envelope
from deltacli.cli.render.properties_and_features_change import change_sections, protocol_line
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_sections, write_table
from deltacli.cli.results import Listing, Outcome
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.delta.protocol.feature_changes import ShownFeature
    from deltacli.delta.protocol.protocol_action import Protocol
    from deltacli.operations.change.table_features import FeaturesOutcome
    from deltacli.operations.change.table_properties import PropertiesOutcome, ShownProperty


def properties_result(uri: str, version: int, properties: Sequence[ShownProperty]) -> Listing[ShownProperty]:
    """Return the properties of a table."""
    columns: list[Column[ShownProperty]] = [
        Column("key", lambda one: one.key, priority=1),
        Column("value", lambda one: one.value, priority=1, style=_style, folds=True),
        Column("known", lambda one: one.is_known, on_screen=False),
        Column("valid", lambda one: one.is_valid, on_screen=False),
        Column("default", lambda one: one.default, priority=4, folds=True),
        Column("meaning", _meaning, priority=3, least=16, folds=True),
    ]
    fields = envelope("deltacli.properties", uri, complete=True) | {"version": version}
    items = [one.as_json() for one in properties]
    said = [] if properties else [Section("properties", ["none"])]
    return Listing(fields, "property", items, columns, properties, items_name="properties", said=lambda _: said)


class FeaturesResult(Listing["ShownFeature"]):
    """The protocol of a table and its features."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        if self.rows:
            write_table(sink, terminal, self.columns, self.rows)


def _yes_or_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def features_result(uri: str, version: int, protocol: Protocol, features: Sequence[ShownFeature]) -> FeaturesResult:
    """Return the protocol of a table and its features."""
    columns: list[Column[ShownFeature]] = [
        Column("name", lambda one: one.name, priority=1),
        Column("kind", lambda one: one.kind, priority=2),
        Column("listed", lambda one: one.is_listed, text=lambda one: _yes_or_no(one.is_listed), priority=4),
        Column("active", lambda one: one.is_active, text=lambda one: _yes_or_no(one.is_active), priority=1),
        Column("because", lambda one: one.because, priority=3, folds=True),
    ]
    fields = envelope("deltacli.features", uri, complete=True) | {"version": version, "protocol": protocol.as_json()}
    items = [one.as_json() for one in features]
    said = [Section("protocol", [protocol_line(protocol.as_json())])]
    return FeaturesResult(fields, "feature", items, columns, features, items_name="features", said=lambda _: said)


def write_change(run: Run, outcome: PropertiesOutcome | FeaturesOutcome, *, is_done: bool) -> None:
    """Write a change that was made or would be; CSV has a line for each property or feature."""
    from deltacli.operations.change.table_properties import PropertiesOutcome

    content = outcome.as_json()
    is_of_properties = isinstance(outcome, PropertiesOutcome)
    columns = ("key", "before", "after") if is_of_properties else ("feature", "neededBy")
    run.write(
        Outcome(
            "properties" if is_of_properties else "features",
            outcome.table,
            content,
            lambda: change_sections(outcome.table, content, is_done=is_done),
            [{name: change.get(name) for name in columns} for change in content["changes"]],
            columns,
            lambda canvas: _draw(canvas, outcome.table, content, is_done=is_done),
        )
    )


def _draw(canvas: Canvas, table: str, content: JsonObject, *, is_done: bool) -> None:
    from deltacli.cli.render.terminal.protocol import draw_settings

    draw_settings(canvas, table, content, is_done=is_done)


def _meaning(one: ShownProperty) -> str | None:
    if not one.is_valid:
        return f"not valid: expected {one.expected}"
    return "not recognized by any known engine" if one.is_known is False else one.meaning


def _style(one: ShownProperty) -> Style:
    return Style.PLAIN if one.is_valid and one.is_known is not False else Style.PROBLEM
