"""What other engines keep beside the log for readers without Delta: symlink manifests and Iceberg metadata.

Nothing here is written by deltacli, so a commit leaves it behind, and what it names must not be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.delta.manifests import MANIFESTS, named_by
from deltacli.delta.protocol.property_values import is_true

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

STALE_VIEW = "views.not-updated"
"""The code of the cautions, where a document has one."""
_MANIFEST_PROPERTY = "delta.compatibility.symlinkFormatManifest.enabled"
_UNIFORM = "delta.universalFormat.enabledFormats"
_ICEBERG_STORAGE = "metadata.iceberg.storage"


def views_of(snapshot: Snapshot) -> Iterator[str]:
    """Yield a caution for each view of a Delta table that a commit leaves as it is. At most one directory is asked for,
    and one that cannot be looked at counts as absent.
    """
    properties = snapshot.properties
    if is_true(properties, _MANIFEST_PROPERTY) or _has_manifests(snapshot.table.storage):
        yield (
            f"the manifests in {MANIFESTS}, which Athena, Redshift and Presto read, are not updated: an engine has to "
            "write them again (GENERATE symlink_format_manifest FOR TABLE)"
        )
    formats = [name for name in properties.get(_UNIFORM, "").replace(",", " ").split() if name]
    if formats:
        names = " and ".join(name.capitalize() for name in formats)
        yield (
            f"the {names} metadata that {_UNIFORM} asks for is not updated: {names} readers keep reading an earlier "
            "version until an engine that writes it commits"
        )


def views_of_paimon(options: Mapping[str, str]) -> Iterator[str]:
    """Yield the same for a Paimon table with these options."""
    if options.get(_ICEBERG_STORAGE, "disabled").lower() != "disabled":
        yield (
            f"the Iceberg metadata that {_ICEBERG_STORAGE} asks for is not updated: Iceberg readers keep the earlier "
            "columns until Paimon commits"
        )


def _has_manifests(storage: ReadStorage) -> bool:
    try:
        return any(not walked.is_empty for walked in storage.walk(MANIFESTS, lambda _, names: names))
    except StorageFailed:
        return False


def files_of_manifests(table: TableHandle) -> set[str]:
    """Return the paths below the table that its manifests name, as on the store. Raises what the storage raises."""
    storage = table.storage
    try:
        places = [
            f"{walked.directory}/{name}"
            for walked in storage.walk(MANIFESTS, lambda _, names: names)
            for name in walked.names
        ]
    except FileMissing:
        return set()
    uris = (storage.uri, *storage.aliases)

    def read(place: str) -> set[str]:
        return set[str]().union(*named_by(storage.read(place), uris))

    found = table.engine.run(read, places, at_once=storage.capabilities.parallel_reads)
    return set[str]().union(*found)
