"""Views of a table that other engines maintain next to the log: symlink manifests, and Iceberg metadata of UniForm.

Athena, Redshift and Presto read the manifests instead of the log, and Iceberg readers read the Iceberg metadata.
deltacli updates only the manifests of tables with the property for that (`manifests.py`). After a commit, readers of
any other view see an older version without noticing. Therefore each plan with a commit warns about such views, and a
vacuum keeps the files that manifests list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.delta.data_files import MANIFESTS, find_paths_in_manifest, is_manifest
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
    """Yield a warning for each view of a Delta table that a commit makes stale.

    Iceberg metadata is found by a table property. Manifests are often generated once by hand without setting a
    property, so their directory is listed. If the listing fails there is no warning, because the change can be made
    anyway.
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
    """Yield a warning for each view of a Paimon table that a change of the schema makes stale.

    Args:
        options: The options of the table.
    """
    if options.get(_PAIMON_ICEBERG_OPTION, "disabled").lower() != "disabled":
        yield (
            f"the Iceberg metadata that {_PAIMON_ICEBERG_OPTION} asks for is not updated: Iceberg readers keep the "
            "earlier columns until Paimon commits"
        )


class _TopLevelOnly:
    """Limits a walk to the first directory, for the parameter `enter` of `ReadStorage.walk`.

    Attributes:
        has_subdirectories: Whether the first directory contains subdirectories.
    """

    def __init__(self) -> None:
        self.has_subdirectories = False

    def __call__(self, _directory: str, subdirectories: Sequence[str]) -> Sequence[str]:
        """Return no subdirectory, so that none is listed."""
        if subdirectories:
            self.has_subdirectories = True
        return ()


def _has_manifests(storage: ReadStorage) -> bool:
    """Return True if the directory of symlink manifests contains a manifest, or a subdirectory for a partition.

    Only one level is listed. A partitioned table may have thousands of manifests.
    """
    top_level = _TopLevelOnly()
    has_manifest = False
    try:
        for entry in storage.walk(MANIFESTS, top_level):
            if any(is_manifest(f"{entry.directory}/{name}") for name in entry.names):
                has_manifest = True
                break
    except errors.StorageFailed:
        return False
    return has_manifest or top_level.has_subdirectories


def enter_all_subdirectories(_directory: str, subdirectories: Sequence[str]) -> Sequence[str]:
    """Return all subdirectories, for the parameter `enter` of `ReadStorage.walk`."""
    return subdirectories


def read_paths_in_manifests(table: TableHandle) -> set[str]:
    """Return the data files that the symlink manifests of a table list, as paths relative to the table directory.

    Example: the manifest `_symlink_format_manifest/manifest` of the table `s3://lake/t` has one line,
    `s3://lake/t/part-0.parquet`. The result is `{"part-0.parquet"}`.

    Raises:
        StorageFailed: If a manifest cannot be read. A vacuum must not treat it as empty.
    """
    storage = table.storage
    manifest_paths = list[str]()
    try:
        for entry in storage.walk(MANIFESTS, enter_all_subdirectories):
            paths = [f"{entry.directory}/{name}" for name in entry.names]
            manifest_paths.extend(path for path in paths if is_manifest(path))
    except errors.FileMissing:
        # The table has never had manifests.
        return set()

    read_manifest = partial(_read_paths_in_manifest, storage)
    results = table.engine.run(read_manifest, manifest_paths, at_once=storage.capabilities.parallel_reads)
    return set[str]().union(*results)


def _read_paths_in_manifest(storage: ReadStorage, manifest_path: str) -> set[str]:
    """Return the data files that one manifest lists. A line in an ambiguous spelling can refer to several paths."""
    table_uris = (storage.uri, *storage.aliases)
    paths_by_line = find_paths_in_manifest(storage.read(manifest_path), table_uris)
    return set[str]().union(*paths_by_line)
