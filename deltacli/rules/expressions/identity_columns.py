"""Rules about identity columns. Spec: Identity Columns."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.log.action_fields import shown
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import IDENTITY_COLUMNS
from deltacli.delta.schema.type_changes import NamedField, named_fields
from deltacli.delta.schema.types import PrimitiveType, simple_name
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import MetadataView, TableConfigurationView
from deltacli.rules.schema.schema_changes import replaces_all_files
from deltacli.rules.schema.schema_walk import fresh

AREA = Area("expressions", spec="Identity Columns")

PREFIX = "delta.identity."
START, STEP, EXPLICIT = "delta.identity.start", "delta.identity.step", "delta.identity.allowExplicitInsert"

INCOMPLETE = AREA.error(
    "identity.incomplete",
    "An identity column lacks its start, its step, or whether values may be inserted.",
    broken="writers cannot determine the next value, and fail",
    repair="commit a metaData with delta.identity.start, step and allowExplicitInsert of the column",
    example='"metadata":{"delta.identity.start":1}',
)
STEP_ZERO = AREA.error(
    "identity.step-zero",
    "An identity column has the step 0.",
    broken="all rows would have the same value",
    repair="commit a metaData with another delta.identity.step",
    example='"delta.identity.step":0',
)
TYPE = AREA.error(
    "identity.type",
    "An identity column is not of type long.",
    spec="Delta-Spark: IdentityColumn",
    broken="engines refuse the table, or values do not fit the column",
    repair="commit a metaData without the identity, or write the column anew as long",
    example='{"name":"id","type":"integer",…,"metadata":{"delta.identity.start":1,…}}',
)
IMMUTABLE_CHANGED = AREA.error(
    "identity.immutable-changed",
    "The start, the step or the rule for inserts of an identity column was changed after the column was created.",
    broken="new values may equal existing ones",
    repair="commit a metaData with the values that the column was created with",
    example='"delta.identity.step":10 where it was 1',
)


@AREA.check(TableConfigurationView, INCOMPLETE, STEP_ZERO, TYPE)
def identity_columns(view: TableConfigurationView) -> Iterator[Finding]:
    """Every identity column, from where it began."""
    yield from fresh(view, "identity", _findings(view))


def _findings(view: TableConfigurationView) -> Iterator[Finding]:
    for named in _identities(view.config):
        place = view.place._replace(key=named.path)
        metadata, data_type = named.field.metadata, named.field.data_type
        for key, expected in ((START, "an integer"), (STEP, "an integer"), (EXPLICIT, "true or false")):
            wanted = bool if key == EXPLICIT else int
            value = metadata.get(key)
            if value is None:
                yield INCOMPLETE.at(place, f"the identity column {named.path} has no {key}", expected=expected)
            elif type(value) is not wanted:
                message = f"{key} of the identity column {named.path} is not {expected}"
                yield INCOMPLETE.at(place, message, seen=shown(value)[:120], expected=expected)
        step = metadata.get(STEP)
        if type(step) is int and step == 0:
            yield STEP_ZERO.at(place, f"the identity column {named.path} has the step 0", seen=0)
        if data_type != PrimitiveType("long"):
            name = simple_name(data_type)
            message = f"the identity column {named.path} is of type {name}"
            yield TYPE.at(place, message, seen=name, expected="long")


@AREA.check(MetadataView, IMMUTABLE_CHANGED)
def identity_columns_stay(view: MetadataView) -> Iterator[Finding]:
    """What an identity column was made with against what it had before; a table that is replaced begins anew."""
    previous = view.previous
    if previous is None or view.commit is None:
        return
    before = {named.identity: named for named in _identities(previous)}
    if not before or replaces_all_files(view.commit):
        return
    for named in _identities(view.config):
        older = before.get(named.identity)
        if older is None:
            continue
        for key in (START, STEP, EXPLICIT):
            was, now = older.field.metadata.get(key), named.field.metadata.get(key)
            if was is not None and now is not None and was != now:
                message = f"{key} of the identity column {named.path} was changed from {was} to {now}"
                yield IMMUTABLE_CHANGED.at(view.place._replace(key=named.path), message, seen=now, expected=was)


def _identities(config: TableConfiguration) -> list[NamedField]:
    """The fields with any property of an identity; none where the protocol does not support such columns."""
    if config.schema is None or config.is_inert(IDENTITY_COLUMNS):
        return []
    return [
        named for named in named_fields(config.schema) if any(key.startswith(PREFIX) for key in named.field.metadata)
    ]
