"""A table while it is changed: its metaData and protocol as they would be committed, and the schema as JSON to edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from deltacli.core.cached import cached_property
from deltacli.core.errors import Refusal
from deltacli.core.hints import in_backticks
from deltacli.core.typing import Json
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import TableConfiguration, read_metadata, read_protocol
from deltacli.delta.schema.column_path import ColumnFinder, ColumnPlace, PathPart
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.delta.schema.widened_schema import read_exactly, write_exactly

if TYPE_CHECKING:
    from deltacli.delta.evolution.requests import Change
    from deltacli.delta.schema.widening_guards import Caution

Root = Any  # the JSON of a schema, edited in place

ColumnNames = tuple[str, ...]


@dataclass(frozen=True)
class Draft:
    """A table to be changed. `clustering`: the physical paths of its clustering columns."""

    metadata: Action
    protocol: Action
    clustering: tuple[ColumnNames, ...] = ()
    needed: tuple[str, ...] = ()
    """Features that the changes use and the protocol lacks."""

    @cached_property
    def schema(self) -> StructType:
        return parse_schema(str(self.metadata["schemaString"]))

    @cached_property
    def config(self) -> TableConfiguration:
        """Return the configuration, with the features that are still to be added."""
        protocol = read_protocol(self.protocol, "the protocol")
        metadata = read_metadata(self.metadata, "the metadata")
        return TableConfiguration(
            protocol, metadata, self.schema, raw_protocol=self.protocol, raw_metadata=self.metadata
        )

    @cached_property
    def finder(self) -> ColumnFinder:
        return ColumnFinder(self.schema)

    @property
    def configuration(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.metadata.get("configuration") or {}
        return found

    def root(self) -> Root:
        """Return the schema as JSON to be edited."""
        return read_exactly(str(self.metadata["schemaString"]))

    def with_schema(self, root: Root) -> Draft:
        return self.with_metadata({"schemaString": write_exactly(root)})

    def with_metadata(self, changed: Mapping[str, Json]) -> Draft:
        """Return the draft with some keys of the metaData changed; None removes one."""
        metadata = {key: value for key, value in {**self.metadata, **changed}.items() if value is not None}
        return replace(self, metadata=metadata)

    def with_properties(self, changed: Mapping[str, str | None]) -> Draft:
        """Return the draft with some properties changed; None removes one."""
        merged = {**self.configuration, **changed}
        return self.with_metadata({"configuration": {key: value for key, value in merged.items() if value is not None}})

    def needing(self, features: Sequence[str]) -> Draft:
        """Return the draft with features that its protocol must get, if it lacks them."""
        lacking = [name for name in features if name not in self.config.features and name not in self.needed]
        return replace(self, needed=(*self.needed, *lacking))


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be done, and what only the caller knows. `new_name` makes unique physical names."""

    commit_version: int
    new_name: Callable[[], str]
    enable: bool = False
    upgrade_protocol: bool = False
    partition_values: Callable[[str], Any] | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does: `subject` is the column, as a path, or what else is changed; `before` and `after` are texts
    for people, None where there is nothing. `column`: the path of the column afterwards; `position`: where a new or a
    moved column is then, None: last.
    """

    change: Change
    subject: str
    before: str | None
    after: str | None
    column: str | None = None
    position: str | None = None
    cautions: tuple[Caution, ...] = ()

    @property
    def is_due(self) -> bool:
        return self.before != self.after

    @property
    def name(self) -> str:
        """The name of a constraint, as it was given."""
        return str(getattr(self.change, "name", "")).strip()


Changed = tuple[Draft, Effect]


class Forbidden(Exception):
    """A change that the table, or the protocol, does not allow."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(refusals[0].message)
        self.refusals = tuple(refusals)


def forbid(code: str, message: str, way_out: str = "") -> NoReturn:
    """Raise Forbidden for one reason."""
    raise Forbidden([Refusal(code, message, way_out)])


def at(root: Root, address: Sequence[str | int]) -> Any:
    """Return a part of a schema."""
    part = root
    for step in address:
        part = part[step]
    return part


def fields_within(part: Root) -> Iterator[dict[str, Any]]:
    """Yield the fields within a type, parents first, to be edited."""
    match part:
        case {"type": "struct", "fields": [*fields]}:
            for field in fields:
                yield field
                yield from fields_within(field["type"])
        case {"type": "array", "elementType": element}:
            yield from fields_within(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from fields_within(key)
            yield from fields_within(value)


def metadata_of(root: Root, place: ColumnPlace) -> dict[str, Any]:
    """Return the metadata of a field in the JSON of a schema, to be edited."""
    field = at(root, place.field_address)
    if not isinstance(field.get("metadata"), dict):
        field["metadata"] = {}
    found: dict[str, Any] = field["metadata"]
    return found


def require_field(place: ColumnPlace, verb: str) -> None:
    """Raise Forbidden for an element, a key or a value, which have no entry of their own in a schema."""
    if place.steps[-1].part is not PathPart.FIELD:
        forbid(
            "alter.part",
            f"{place.text} cannot be {verb}: it is the {place.steps[-1].part} of a collection, which has no "
            "name, comment, default or nullability of its own to change",
        )


def names_of(place: ColumnPlace) -> ColumnNames:
    """Return the logical names along a path."""
    return tuple(step.name for step in place.steps)


def physical_path(config: TableConfiguration, place: ColumnPlace) -> ColumnNames:
    """Return the names of the fields along a path in files."""
    return tuple(config.physical_name(field) for field in place.fields)


def quoted_path(names: Sequence[str]) -> str:
    """Return a path for the commitInfo, with names in backticks where they are needed."""
    return ".".join(name if name.isidentifier() else in_backticks(name) for name in names)
