"""Choose the implementation that probes a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.storage.base import ReadStorage
from deltacli.storage.local import LocalStorage
from deltacli.storage.probing.interface import ProbedStore, StoreCaller
from deltacli.storage.probing.local import ProbedDirectory

if TYPE_CHECKING:
    from deltacli.storage.objects.store import ObjectStorage


def open_probed_store(storage: ReadStorage) -> ProbedStore | None:
    """Return a store for probing.

    Returns:
        The store; None for a read-only store, such as a file system of fsspec.

    Raises:
        CredentialsMissing: If no credentials are configured.
    """
    if isinstance(storage, LocalStorage):
        return ProbedDirectory(storage)

    # The back end of object stores is imported only if the table may be in one.
    from deltacli.storage.objects.store import ObjectStorage

    if not isinstance(storage, ObjectStorage):
        return None
    from deltacli.storage.probing.objects import ProbedObjects

    return ProbedObjects(storage, _create_caller(storage))


def _create_caller(storage: ObjectStorage) -> StoreCaller:
    """Return the caller of an object store. Only the libraries of its cloud are imported."""
    if storage.uri.startswith("s3"):
        from deltacli.storage.probing.s3 import S3Caller
        from deltacli.storage.s3.calls import S3Calls

        assert isinstance(storage.calls, S3Calls)
        return S3Caller(storage.calls)

    if storage.uri.startswith(("gs://", "gcs://")):
        from deltacli.storage.gcs.calls import GcsCalls
        from deltacli.storage.probing.gcs import GcsCaller

        assert isinstance(storage.calls, GcsCalls)
        return GcsCaller(storage.calls)

    from deltacli.storage.azure.calls import AzureCalls
    from deltacli.storage.probing.azure import AzureCaller

    assert isinstance(storage.calls, AzureCalls)
    return AzureCaller(storage.calls)
