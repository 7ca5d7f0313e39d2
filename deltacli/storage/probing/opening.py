"""Finding the subject of a store, such as a local directory: the user of the process, and what the
modes and lists of its files allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.storage.base import ReadStorage
from deltacli.storage.local import LocalStorage
from deltacli.storage.probing.interface import ProbedStore, StoreCaller

if TYPE_CHECKING:
    from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.probing.local import ProbedDirectory


def open_probed_store(storage: ReadStorage) -> ProbedStore | None:
    """Return a store to probe; None for one that is read-only. Raises CredentialsMissing."""
    if isinstance(storage, LocalStorage):
        return ProbedDirectory(storage)
    from deltacli.storage.objects.store import ObjectStorage

    if not isinstance(storage, ObjectStorage):
        return None
    from deltacli.storage.probing.objects import ProbedObjects

    return ProbedObjects(storage, _probed(storage))


def _probed(storage: ObjectStorage) -> StoreCaller:
    """Return the calls of a store with what its cloud knows about their caller."""
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
