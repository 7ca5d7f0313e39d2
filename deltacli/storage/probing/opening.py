"""Finding the subject of a store."""

from __future__ import annotations

from deltacli.storage.base import Storage
from deltacli.storage.local import LocalStorage
from deltacli.storage.probing.subject import Subject


def subject_of(storage: Storage) -> Subject | None:
    """Return a store to probe; None for one that is read-only. Raises CredentialsMissing."""
    if isinstance(storage, LocalStorage):
        from deltacli.storage.probing.local import LocalSubject

        return LocalSubject(storage)
    scheme = storage.uri.partition("://")[0]
    if scheme.startswith("s3"):
        return _of_s3(storage)
    from deltacli.storage.objects.store import ObjectStorage

    return _of_objects(storage) if isinstance(storage, ObjectStorage) else None


def _of_s3(storage: Storage) -> Subject | None:
    from deltacli.storage.probing.objects import ObjectSubject
    from deltacli.storage.probing.s3 import S3Probed
    from deltacli.storage.s3.store import S3Storage

    if not isinstance(storage, S3Storage):
        return None
    return ObjectSubject(storage, storage.root, S3Probed(storage.calls), storage.retry)


def _of_objects(storage: Storage) -> Subject:
    from deltacli.storage.objects.store import ObjectStorage
    from deltacli.storage.probing.objects import ObjectSubject

    assert isinstance(storage, ObjectStorage)
    if storage.uri.startswith(("gs://", "gcs://")):
        from deltacli.storage.gcs.calls import GcsCalls
        from deltacli.storage.probing.gcs import GcsProbed

        assert isinstance(storage.calls, GcsCalls)
        return ObjectSubject(storage, storage.root, GcsProbed(storage.calls), storage.retry)
    from deltacli.storage.azure.calls import AzureCalls
    from deltacli.storage.probing.azure import AzureProbed

    assert isinstance(storage.calls, AzureCalls)
    return ObjectSubject(storage, storage.root, AzureProbed(storage.calls), storage.retry)
