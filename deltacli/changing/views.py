"""Views that other engines keep beside the log: symlink manifests, and the metadata of UniForm and Iceberg.

Athena, Redshift, Presto and Iceberg readers read these views instead of the log. deltacli writes only the manifests of
a table whose property asks for them (`manifests.py`). All others stay as they are after a commit, and their readers see
an older version without noticing. So every plan with a commit warns about them, and a vacuum keeps what they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.data_files import MANIFESTS, is_manifest, named_by
from deltacli.delta.log.state import is_true

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

STALE_VIEW = "views.not-updated"
"""The code of the warnings in documents that give each warning a code."""

MANIFEST_PROPERTY = "delta.compatibility.symlinkFormatManifest.enabled"
_UNIFORM_PROPERTY = "delta.universalFormat.enabledFormats"
_PAIMON_ICEBERG_OPTION = "metadata.iceberg.storage"


def find_stale_views(snapshot: Snapshot) -> Iterator[str]:
    """Yield a warning for each view of a Delta table that a commit does not update.

    Views are found by table properties, which are known anyway. Manifests are often generated once by hand, so their
    directory is looked at if the property is not set. That costs one request; a directory that cannot be listed counts
    as absent, because a warning is not worth an error.
    """
    properties = snapshot.properties
    if not is_true(properties, MANIFEST_PROPERTY) and _has_manifests(snapshot.table.storage):
        fix = errors.command("manifest", table=snapshot.table.address)
        suggestion = f" ({fix})" if fix else ""
        yield (
            f"the manifests in {MANIFESTS}, which Athena, Redshift and Presto read, are not updated: write them again "
            f"after the change{suggestion}"
        )

    formats = properties.get(_UNIFORM_PROPERTY, "").replace(",", " ").split()
    if formats:
        names = " and ".join(name.capitalize() for name in formats)
        yield (
            f"the {names} metadata that {_UNIFORM_PROPERTY} asks for is not updated: {names} readers keep reading an "
            "earlier version until an engine that writes it commits"
        )


def find_stale_paimon_views(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each view of a Paimon table with these options that a new schema does not update."""
    if options.get(_PAIMON_ICEBERG_OPTION, "disabled").lower() != "disabled":
        yield (
            f"the Iceberg metadata that {_PAIMON_ICEBERG_OPTION} asks for is not updated: Iceberg readers keep the "
            "earlier columns until Paimon commits"
        )


def _has_manifests(storage: ReadStorage) -> bool:
    """Return True if a table has symlink manifests, or directories for those of its partitions."""
    partitions = list[str]()

    # A walk asks which subdirectories to enter. One level answers the question, so it enters none.
    def note_partitions(_directory: str, names: Iterable[str]) -> Iterable[str]:
        partitions.extend(names)
        return ()

    try:
        has_manifest = any(
            is_manifest(f"{walked.directory}/{name}")
            for walked in storage.walk(MANIFESTS, note_partitions)
            for name in walked.names
        )
    except errors.StorageFailed:
        return False
    return has_manifest or bool(partitions)


def read_paths_in_manifests(table: TableHandle) -> set[str]:
    """Return the paths of the files that the manifests of a table name, below the table and as the store spells them.

    Raises:
        StorageFailed: If a manifest cannot be read. A vacuum must not treat that as "names nothing".
    """
    storage = table.storage
    manifests = list[str]()
    try:
        for walked in storage.walk(MANIFESTS, lambda _, names: names):
            paths = (f"{walked.directory}/{name}" for name in walked.names)
            manifests.extend(path for path in paths if is_manifest(path))
    except errors.FileMissing:
        return set()
    uris = (storage.uri, *storage.aliases)

    def read_manifest(path: str) -> set[str]:
        return set[str]().union(*named_by(storage.read(path), uris))

    results = table.engine.run(read_manifest, manifests, at_once=storage.capabilities.parallel_reads)
    return set[str]().union(*results)
