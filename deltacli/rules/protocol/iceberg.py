"""Rules about Iceberg compatibility. Spec: Iceberg Compatibility V1; Iceberg Compatibility V2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.units import plural
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructType, parts_of
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.views import FilesView, StorageView, TableConfigurationView
from deltacli.rules.schema.schema import fresh

AREA = Area("iceberg", spec="Iceberg Compatibility V1; Iceberg Compatibility V2")

MAPPING_OFF = AREA.error(
    "iceberg.mapping-off",
    "Iceberg compatibility is on without column mapping.",
    broken="Iceberg readers find columns by field ids, which the files do not have",
    repair="turn the compatibility off, then on again with an engine that sets delta.columnMapping.mode",
    example="delta.enableIcebergCompatV2 is true, delta.columnMapping.mode is not set",
)
TYPE_NOT_ALLOWED = AREA.error(
    "iceberg.type-not-allowed",
    "The type of a column is not allowed by this version of Iceberg compatibility.",
    broken="the table cannot be converted to Iceberg",
    repair="rewrite the table without such columns, or turn the compatibility off",
    loss="the columns, if they are dropped",
    example="a map column with delta.enableIcebergCompatV1",
)
VERSIONS_CONFLICT = AREA.error(
    "iceberg.versions-conflict",
    "Several versions of Iceberg compatibility are on at the same time.",
    spec="Iceberg Compatibility V2: Writer Requirements for IcebergCompatV2",
    broken="no writer can satisfy them together",
    repair="set all but the newest of the properties to false",
    loss="access by Iceberg readers that need an older version",
    example="delta.enableIcebergCompatV1 and delta.enableIcebergCompatV2 are true",
)
NUM_RECORDS = AREA.warning(
    "iceberg.num-records",
    "Iceberg compatibility is on, but a file is added without its number of records.",
    broken="a conversion to Iceberg, which needs the number, fails or opens the file",
    repair="commit the add again with numRecords in its statistics",
    example='{"add":{"path":"part-0.parquet",…}} without stats',
)
METADATA_AT_RISK = AREA.info(
    "iceberg.metadata-at-risk",
    "The table's directory has a directory `metadata`, as used by Iceberg. Vacuum ignores it.",
    spec="Delta-Spark: VACUUM, hidden directories",
    broken="nothing; tools that do not recognize it may delete files that Iceberg readers need",
    repair="no repair needed",
    example="metadata/v1.metadata.json",
    level=Level.STORAGE,
)


class Compatibility(NamedTuple):
    """One version of the feature. `refuses`: types it does not allow; `allows`: the only types it allows, or None."""

    feature: str
    enabled_by: str
    refuses: frozenset[str] = frozenset()
    allows: frozenset[str] | None = None


_ALLOWED_BY_V2 = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "decimal", "string", "binary", "boolean"}
    | {"timestamp", "timestamp_ntz", "date", "array", "map", "struct"}
)
COMPATIBILITIES = (
    Compatibility(
        "icebergCompatV1",
        "delta.enableIcebergCompatV1",
        frozenset({"array", "map", "void", "null", "interval", "variant"}),
    ),
    Compatibility("icebergCompatV2", "delta.enableIcebergCompatV2", allows=_ALLOWED_BY_V2),
    Compatibility("icebergCompatV3", "delta.enableIcebergCompatV3", frozenset({"interval"})),
)
_WRITER_COMPATIBILITIES = (
    Compatibility("icebergWriterCompatV1", "delta.enableIcebergWriterCompatV1", frozenset({"byte", "short"})),
)


def active(config: TableConfiguration, known: tuple[Compatibility, ...] = COMPATIBILITIES) -> list[Compatibility]:
    """Return the versions that are supported and on."""
    return [each for each in known if each.feature in config.features and config.is_on(each.enabled_by)]


@AREA.check(TableConfigurationView, MAPPING_OFF, TYPE_NOT_ALLOWED, VERSIONS_CONFLICT)
def compatibility(view: TableConfigurationView) -> Iterator[Finding]:
    """Check the properties and the schema against the requirements, from the version where they are violated."""
    yield from fresh(view, "iceberg.regime", _config_findings(view))


def _config_findings(view: TableConfigurationView) -> Iterator[Finding]:
    config = view.config
    if config.metadata is None:
        return
    on = active(config)
    if on and config.mapping_mode not in ("name", "id"):
        message = f"{on[0].feature} is on, but column mapping is not"
        yield MAPPING_OFF.at(view.place, message, key=on[0].enabled_by, seen=config.mapping_mode, expected="name or id")
    if len(on) > 1:
        names = ", ".join(each.feature for each in on)
        message = f"{len(on)} versions of Iceberg compatibility are on at the same time: {names}"
        yield VERSIONS_CONFLICT.at(view.place, message, key=on[-1].enabled_by, seen=names, expected="one of them")
    for each in (*on, *active(config, _WRITER_COMPATIBILITIES)):
        for path, name in _types(config.schema or StructType(()), ""):
            if name in each.refuses or (each.allows is not None and name not in each.allows):
                message = f"column {path} is of type {name}, which {each.feature} does not allow"
                yield TYPE_NOT_ALLOWED.at(view.place, message, key=path, seen=name)


def _types(data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    """Yield every type in a schema with its path, by family: `decimal(10,2)` is `decimal`."""
    for part in parts_of(data_type):
        own = f"{path}.{part.name}" if path else part.name
        yield own, _family(part.data_type)
        yield from _types(part.data_type, own)


_FAMILIES: Mapping[type, str] = {StructType: "struct", ArrayType: "array", MapType: "map"}


def _family(data_type: DataType) -> str:
    if not isinstance(data_type, PrimitiveType):
        return _FAMILIES[type(data_type)]
    return data_type.name.lower().partition("(")[0].partition(" ")[0]


@AREA.check(FilesView, NUM_RECORDS)
def files_without_count(view: FilesView) -> Iterator[Finding]:
    """Check files added while compatibility is on. Those of a checkpoint may be older, or have parsed statistics."""
    on = active(view.config)
    if not on or view.versions is None or not view.num_records.null_count:
        return
    for row in pc.indices_nonzero(pc.is_null(view.num_records)):
        place = view.place(row.as_py())
        yield NUM_RECORDS.at(place, f"{place.key} has no numRecords, which {on[0].feature} requires")


@AREA.check(StorageView, METADATA_AT_RISK)
def directory_of_iceberg(view: StorageView) -> Iterator[Finding]:
    """Report a directory of that name at the root."""
    inside = sorted(path for path in view.files if path.startswith("metadata/"))
    if inside:
        count = plural(len(inside), "file")
        message = f"the directory metadata has {count}, as in an Iceberg table; vacuum ignores them"
        yield METADATA_AT_RISK.at(Place("metadata"), message, seen=inside[0])
