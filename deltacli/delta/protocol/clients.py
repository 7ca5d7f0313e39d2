"""Who reads and writes a table: facts about clients (measured with their packages, or documented), stated for traits of
tables.

A fact has its source and its day. What is neither measured nor documented is unknown, never assumed. A trait is the
name of a feature (`columnMapping`: the protocol supports it), the same with `.used` (metadata or schema use it), or one
of `OTHERS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deltacli.core.typing import Json
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol import features
from deltacli.delta.protocol.feature_use import constraint_uses, feature_of_type, property_uses, schema_uses
from deltacli.delta.schema.type_changes import TYPE_CHANGES_KEY
from deltacli.delta.schema.types import (
    FIXED_TEXTS,
    PLAIN_TYPES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    decimal_parts,
    types_within,
)

Does = bool | str | None
"""Whether a client does something: true, false, from a version on, or unknown."""


class Fact(NamedTuple):
    """What a client does with a trait of tables."""

    reads: Does
    writes: Does
    source: str
    day: str

    def contradicts(self, documented: Fact) -> bool:
        """Return whether this measurement found the opposite of what is documented for the measured version."""
        pairs = ((self.reads, documented.reads), (self.writes, documented.writes))
        return any(does is not None and said is not None and bool(does) is not bool(said) for does, said in pairs)


class Client(NamedTuple):
    """A client and the facts about it by trait.

    Attributes:
        version: The newest version that the facts are about.
        is_measured: All facts were measured with that version. Otherwise they are documented.
        is_exact: The facts are about that version only.
        writes: Whether the client writes tables at all.
        facts: The facts by trait, which hold from the version on that each names.
        day: The day of the newest fact.
        notes: What holds for every table.
        reasons: Why `reads` or `writes` depends on the data, or on how the table is opened (`OPENED_IN_TWO_WAYS`), by
            trait; under an empty name, what has to be known.
        measured: Of a client whose facts are documented: what was measured with `version`, and holds for it only.
    """

    name: str
    title: str
    version: str | None
    is_measured: bool
    is_exact: bool
    writes: bool
    facts: Mapping[str, Fact]
    day: str
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, Mapping[str, str]] = {}
    measured: Mapping[str, Fact] = {}

    def fact(self, trait: str, version: str | None = None) -> Fact | None:
        """Return what is known of a trait in a version, without one in the newest version.

        Of the use of a feature, that is what is documented for the feature. Where a page documents what was also
        measured, the page is quoted, because it says since when. A measurement that contradicts it wins.
        """
        documented = self.facts.get(trait)
        if documented is None and not self.is_measured and trait.endswith(USED_SUFFIX):
            documented = self.facts.get(trait.removesuffix(USED_SUFFIX))
        measured = self.measured.get(trait) if self.is_newest(version) else None
        if measured is None:
            return documented
        if documented is None or measured.contradicts(documented):
            return measured
        return documented

    def why_it_depends(self, feature: str) -> Mapping[str, str]:
        """Return why `reads` or `writes` depends on the data with a feature, or with a trait that is about none."""
        return self.reasons.get(feature) or self.reasons.get(feature + USED_SUFFIX, {})

    def is_newest(self, version: str | None) -> bool:
        """Return whether a version is the newest one that the facts are about; without a version, True."""
        return version is None or self.version is None or numbers(version) == numbers(self.version)


class Blocker(NamedTuple):
    """A trait of a table that keeps a client from reading, or from writing. `needs`: the first version that can."""

    trait: str
    stops_reading: bool
    stops_writing: bool
    needs: str | None = None

    @property
    def feature(self) -> str:
        """The feature, or the trait where it is about none."""
        return feature_of(self.trait)


class ClientAccess(NamedTuple):
    """Whether a client reads and writes a table (None: unknown), since which version, what stops it, and sources."""

    client: Client
    version: str | None
    reads: bool | None
    writes: bool | None
    since: str | None
    blockers: tuple[Blocker, ...]
    unknown: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    is_known: bool
    """Whether the facts are about this version."""
    loses_reads: bool = False
    """Whether a change takes reading from it; likewise writing."""
    loses_writes: bool = False

    @property
    def name(self) -> str:
        """The name by which every text and `explain --client` call the client."""
        return self.client.name

    @property
    def loses(self) -> str | None:
        """What a change takes from it; None: nothing that is known."""
        if self.loses_reads:
            return "reading" if self.writes else "access"
        return "writing" if self.loses_writes else None

    def as_json(self) -> dict[str, Json]:
        """As in the plan of a change."""
        return {
            "name": self.client.title,
            "client": self.name,
            "reads": self.reads,
            "writes": self.writes,
            "loses": self.loses,
            "from": self.since,
            "sources": list(self.sources),
        }


def read_clients(document: Json) -> tuple[Client, ...]:
    """Return the clients of the table of facts."""
    return tuple(_read_client(one) for one in document["clients"])


def _read_client(one: Json) -> Client:
    is_measured = "measuredOn" in one
    documented = {} if is_measured else _documented_facts(one["facts"])
    newest = one if is_measured else one.get("measured")
    measured = {} if newest is None else _measured_facts(newest)
    return Client(
        name=one["name"],
        title=one["title"],
        version=one["version"] if newest is None else newest["version"],
        is_measured=is_measured,
        is_exact=is_measured or one.get("ofThisVersionOnly", False),
        writes=one.get("writes", True),
        facts=measured if is_measured else documented,
        day=max(fact.day for fact in (*documented.values(), *measured.values())),
        notes=tuple(one.get("notes", ())),
        reasons={trait: {"": why} for trait, why in one.get("why", {}).items()} | one.get("dependsOnData", {}),
        measured={} if is_measured else measured,
    )


def _measured_facts(found: Json) -> dict[str, Fact]:
    """Return facts that were measured with a version, by trait."""
    source = f"measured with {found['version']}"
    return {name: Fact(reads, writes, source, found["measuredOn"]) for name, (reads, writes) in found["facts"].items()}


def _documented_facts(groups: Json) -> dict[str, Fact]:
    """Return facts that pages document, by trait. Each group has the address of its page."""
    facts = {}
    for group in groups:
        for name, (reads, writes) in group["traits"].items():
            facts[name] = Fact(reads, writes, group["source"], group["checkedOn"])
    return facts


def determine_access(client: Client, traits: Collection[str], version: str | None = None) -> ClientAccess:
    """Return whether a client, in a version (None: the newest known), reads and writes a table with these traits."""
    is_other = client.is_exact and version not in (None, client.version)
    verdicts = [(trait, *_of_trait(client, trait, version, is_other=is_other)) for trait in sorted(traits)]
    blockers = tuple(
        Blocker(trait, reads is False, writes is False, _needed(fact))
        for trait, reads, writes, fact in verdicts
        if reads is False or (writes is False and client.writes)
    )
    covered = {need for one in blockers for need in _needing(one.feature)}
    unknown = [
        trait
        for trait, reads, writes, _ in verdicts
        if (reads is None or (writes is None and client.writes)) and feature_of(trait) not in covered
    ]
    reads = _all_of(one[1] for one in verdicts)
    writes = _all_of(one[2] for one in verdicts) if client.writes else False
    told = [fact for *_, fact in verdicts if fact is not None]
    froms = [fact.reads for fact in told if isinstance(fact.reads, str)]
    sources = tuple(dict.fromkeys(f"{fact.source} ({fact.day})" for fact in told))
    since = max(froms, key=numbers) if froms and reads else None
    if client.is_exact and reads:
        since = client.version
    shown = version if version is not None else client.version
    reasons = dict.fromkeys(why for trait in sorted(traits) for why in client.reasons.get(trait, {}).values())
    notes = () if is_other else (*client.notes, *reasons)
    told_of = _by_feature(blockers), tuple(dict.fromkeys(map(feature_of, unknown))), () if is_other else sources
    return ClientAccess(client, shown, reads, writes, since, *told_of, notes, not is_other)


def determine_access_after_change(
    client: Client, traits: Collection[str], before: Collection[str]
) -> ClientAccess | None:
    """Return what a change from the traits `before` to these means for a client; None where nothing is known of any."""
    found = determine_access(client, traits)
    if not found.sources:
        return None
    old = determine_access(client, before)
    loses_writes = client.writes and found.writes is False and old.writes is not False
    return found._replace(loses_reads=found.reads is False and old.reads is not False, loses_writes=loses_writes)


def _of_trait(
    client: Client, trait: str, version: str | None, *, is_other: bool
) -> tuple[bool | None, bool | None, Fact | None]:
    """Return whether a client reads and writes with a trait, and the fact that says so."""
    fact = client.fact(trait, version)
    if fact is None and trait in TRAIT_DESCRIPTIONS and trait not in _UNCOMMON:
        return True, True, None  # what clients differ in; nothing is known against this one
    if is_other:
        return None, None, None
    if fact is None:
        is_needless = trait.endswith(WRITER_ONLY) or (
            not needs_readers(trait) and (not client.is_measured or trait in TRAIT_DESCRIPTIONS)
        )
        return (True if is_needless else None), None, None
    return _does(fact.reads, version), _does(fact.writes, version), fact


def _does(does: Does, version: str | None) -> bool | None:
    if not isinstance(does, str):
        return does
    return version is None or numbers(version) >= numbers(does)


def _needed(fact: Fact | None) -> str | None:
    froms = [] if fact is None else [one for one in (fact.reads, fact.writes) if isinstance(one, str)]
    return max(froms, key=numbers) if froms else None


def _needing(feature: str) -> Iterator[str]:
    """Yield a feature and those that need it: what stops these cannot be told apart."""
    yield feature
    for one in features.FEATURES.values():
        if feature in one.requires:
            yield from _needing(one.name)


def _by_feature(blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
    """Return one blocker for each feature: a feature that stops a client needs no word on its use."""
    found: dict[str, Blocker] = {}
    for one in sorted(blockers, key=lambda one: one.trait):
        known = found.get(one.feature)
        if known is None:
            found[one.feature] = one
        else:
            stops = known.stops_reading or one.stops_reading, known.stops_writing or one.stops_writing
            found[one.feature] = Blocker(known.trait, *stops, known.needs or one.needs)
    return tuple(found.values())


def _all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return False if one is false, else None if one is unknown."""
    told = list(answers)
    if False in told:
        return False
    return None if None in told else True


def numbers(version: str) -> tuple[int, ...]:
    """Return a version for comparisons: 2.0 is 2.0.0."""
    parts = [int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


USED_SUFFIX = ".used"
WRITER_ONLY = ".writer-only"
"""Follows the name of an unknown feature that is not a reader feature: the protocol lets every reader ignore it."""
ABSOLUTE_PATHS = "paths.absolute"
TIMES_BEYOND_NANOSECONDS = "values.times-beyond-nanoseconds"
OTHER_DIRECTORIES = "partition.other-directories"
OPENED_IN_TWO_WAYS = frozenset({"catalogManaged"})
"""Features of tables that some clients read through a catalog, and not by the path of their directory."""
TRAIT_DESCRIPTIONS: Mapping[str, str] = {
    "features.reader": "the protocol lists reader features",
    "features.writer": "the protocol lists writer features",
    "columnMapping.by-id": "columns are mapped by id",
    "columnMapping.by-id-partition": "columns are mapped by id, and a partition column follows one with another name "
    "in files",
    "columnMapping.by-name-partition": "columns are mapped by name, and a partition column follows one with another "
    "name in files",
    "columnMapping.in-arrays": "columns are mapped, and arrays or maps have structs",
    "type.map": "a column has the type map",
    "type.void": "a column has the type void",
    "type.interval": "a column has an interval type",
    "type.unlisted": "a column has a type that the protocol does not list",
    "columns.letter-case": "names of columns differ only by case",
    ABSOLUTE_PATHS: "files of another table are named by absolute paths",
    "partition.columns": "the table has partition columns",
    "partition.binary": "a partition column has the type binary",
    "partition.decimal": "a partition column has the type decimal",
    "partition.large-decimal": "a partition column has a decimal type of more than 18 digits",
    OTHER_DIRECTORIES: "data files are not in directories of their partition values",
    "partition.timestamp": "a partition column has the type timestamp",
    "partition.timestamp-ntz": "a partition column has the type timestamp_ntz",
    "values.kernel-unreadable": "a partition value has a spelling that readers built on a Delta kernel refuse",
    TIMES_BEYOND_NANOSECONDS: "a timestamp is outside of 1677-09-21 to 2262-04-11, or statistics do not rule it out",
    "sql.quoted-column": "the SQL of a constraint or a generated column has the name of a column in double quotes",
    "widen.partition-date": "a partition column was widened from date to timestamp_ntz",
    "widen.partition-decimal": "a partition column was widened to a decimal type of more decimal places",
}
"""Traits that are not features of a protocol, in words."""
_UNCOMMON = frozenset(
    {
        *("type.void", "type.interval", "type.unlisted", "columns.letter-case"),
        *("partition.binary", "values.kernel-unreadable", "sql.quoted-column", ABSOLUTE_PATHS),
    }
)
"""What the protocol does not have, or forbids, or does not define: a client without a fact may refuse the table, or
misread it.
"""

READER_VERSION = "protocol.reader-version"
WRITER_VERSION = "protocol.writer-version"
VERSIONS: Mapping[str, str] = {READER_VERSION: "reader version", WRITER_VERSION: "writer version"}
"""Traits of protocols with versions that no specification has, in words; what clients do with them is unknown."""

_DIGITS_OF_LONG = 18


def find_table_traits(config: TableConfiguration, domains: Collection[str] = ()) -> frozenset[str]:
    """Return the traits of a table with live `domains`."""
    return frozenset(_traits(config, domains))


def feature_of(trait: str) -> str:
    """Return the feature that a trait is about, or the trait itself where it is about none."""
    feature = trait.partition(".")[0]
    return feature if feature in features.FEATURES or trait in (feature + USED_SUFFIX, feature + WRITER_ONLY) else trait


def needs_readers(trait: str) -> bool:
    """Return False for a trait that readers may ignore: a writer feature, or its use."""
    feature = features.FEATURES.get(feature_of(trait))
    return trait not in ("features.writer", "sql.quoted-column", WRITER_VERSION) and (
        feature is None or feature.kind is features.FeatureKind.READER_WRITER
    )


def find_remaining_traits(
    traits: Collection[str], before: TableConfiguration, after: TableConfiguration
) -> frozenset[str]:
    """Return the traits that are left of a table after features were dropped, with all that used them."""
    dropped = before.features - after.features
    gone = {one for one in (*traits, *find_table_traits(after)) if one.partition(".")[0] in dropped}
    kept = {one for one in traits if one not in before.features and not one.startswith("features.")}
    return frozenset({*find_table_traits(after), *kept} - gone)


def _traits(config: TableConfiguration, domains: Collection[str]) -> Iterator[str]:
    protocol = config.protocol
    for feature in config.features:
        is_for_readers = feature in features.FEATURES or protocol is None or feature in (protocol.reader_features or ())
        yield feature if is_for_readers else feature + WRITER_ONLY
    if protocol is not None:
        if protocol.min_reader_version >= features.READER_FEATURES_VERSION:
            yield "features.reader"
        if protocol.min_writer_version >= features.WRITER_FEATURES_VERSION:
            yield "features.writer"
        yield from invalid_versions(protocol)
    uses = {use.feature for use in (*property_uses(config.properties), *constraint_uses(config.properties))}
    if config.schema is not None:
        uses |= {use.feature for use in schema_uses(config.schema)}
    if "delta.clustering" in domains:
        uses.add("clustering")
    if domains:
        uses.add("domainMetadata")
    for feature in config.features:
        if features.stable_name(feature) in uses:
            yield feature + USED_SUFFIX
    if config.schema is not None:
        if _has_quoted_column(config, config.schema):
            yield "sql.quoted-column"
        types = (one.name for one in types_within(config.schema) if isinstance(one, PrimitiveType))
        yield from {f"{of_type}{USED_SUFFIX}" for name in types if (of_type := feature_of_type(name)) is not None}
        yield from _of_schema(config, config.schema)


def _has_quoted_column(config: TableConfiguration, schema: StructType) -> bool:
    stored = (config.metadata.schema_string if config.metadata is not None else None) or ""
    constraints = [config.properties[use.key] for use in constraint_uses(config.properties)]
    if '\\"' not in stored and not any('"' in text for text in constraints):
        return False
    from deltacli.delta.sql.stored import has_quoted_column, list_stored_sql

    return any(one.text is not None and has_quoted_column(one.text, schema) for one in list_stored_sql(config))


def invalid_versions(protocol: features.Protocol) -> dict[str, str]:
    """Return the versions of a protocol that no specification has, in words, by their traits."""
    found: dict[str, str] = {}
    if not 1 <= protocol.min_reader_version <= features.NEWEST_READER_VERSION:
        found[READER_VERSION] = f"{VERSIONS[READER_VERSION]} {protocol.min_reader_version}"
    if not 1 <= protocol.min_writer_version <= features.WRITER_FEATURES_VERSION:
        found[WRITER_VERSION] = f"{VERSIONS[WRITER_VERSION]} {protocol.min_writer_version}"
    return found


def _of_schema(config: TableConfiguration, schema: StructType) -> Iterator[str]:
    partitions = {name.lower() for name in (config.metadata.partition_columns if config.metadata else ())}
    if config.mapping_mode == "id":
        yield "columnMapping.by-id"
    if config.mapping_mode in ("id", "name") and is_partition_behind_mapped_name(config):
        yield f"columnMapping.by-{config.mapping_mode}-partition"
    if config.mapping_mode in ("id", "name") and _has_structs_within(schema):
        yield "columnMapping.in-arrays"
    if any(isinstance(one, MapType) for one in types_within(schema)):
        yield "type.map"
    yield from {_of_type(one) for one in types_within(schema)} - {""}
    if any(_differ_by_case(one.fields) for one in types_within(schema) if isinstance(one, StructType)):
        yield "columns.letter-case"
    if partitions:
        yield "partition.columns"
    for field in schema.fields:
        if field.name.lower() in partitions:
            yield from _of_partition(field)


def is_partition_behind_mapped_name(config: TableConfiguration) -> bool:
    """Return whether the last column of the files before some partition column has another name in files.

    DuckDB puts the values of a partition column behind that column, which it looks for by its name: without it they are
    null, or those of another partition column. Measured: the name of the partition column itself does not matter, and
    neither do those of nested fields.
    """
    has_mapped_name = False
    for field in config.schema.fields if config.schema else ():
        physical_name = config.physical_name(field)
        if physical_name not in config.partition_columns:
            has_mapped_name = physical_name != field.name
        elif has_mapped_name:
            return True
    return False


def _of_type(data_type: DataType) -> str:
    """Return the trait of a type that not every client has; empty for others, and for those of a feature."""
    if not isinstance(data_type, PrimitiveType):
        return ""
    name = data_type.name
    if name in ("void", "null"):
        return "type.void"
    if name.startswith("interval"):
        return "type.interval"
    is_listed = name in PLAIN_TYPES or name.startswith(FIXED_TEXTS) or decimal_parts(name) is not None
    return "" if is_listed or feature_of_type(name) is not None else "type.unlisted"


def _differ_by_case(fields: Sequence[StructField]) -> bool:
    return len({field.name.lower() for field in fields}) < len({field.name for field in fields})


_PARTITION_TYPES = {"binary": "binary", "timestamp": "timestamp", "timestamp_ntz": "timestamp-ntz"}
"""Types of partition columns of which values are written wrongly by some client, and their names in traits."""


def _of_partition(field: StructField) -> Iterator[str]:
    name = field.data_type.name if isinstance(field.data_type, PrimitiveType) else ""
    if name in _PARTITION_TYPES:
        yield f"partition.{_PARTITION_TYPES[name]}"
    if name.startswith("decimal"):
        yield "partition.decimal"
        digits = name.partition("(")[2].partition(",")[0].strip()
        if digits.isdigit() and int(digits) > _DIGITS_OF_LONG:
            yield "partition.large-decimal"
    changes = field.metadata.get(TYPE_CHANGES_KEY)
    for change in changes if isinstance(changes, list) else ():
        pair = (str(change.get("fromType")), str(change.get("toType"))) if isinstance(change, Mapping) else ("", "")
        if pair == ("date", "timestamp_ntz"):
            yield "widen.partition-date"
        elif _places(pair[1]) > _places(pair[0]):
            yield "widen.partition-decimal"


def _places(data_type: str) -> int:
    """Return the number of decimal places of a type by its name."""
    digits = data_type.partition(",")[2].rstrip(") ").strip()
    return int(digits) if digits.isdigit() else 0


def _has_structs_within(schema: StructType) -> bool:
    inner = (kind for kind in types_within(schema) if isinstance(kind, ArrayType | MapType))
    return any(isinstance(one, StructType) for kind in inner for one in types_within(kind))
