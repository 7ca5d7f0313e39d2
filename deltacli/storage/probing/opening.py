"""Finding the subject of a store, such as a local directory: the user of the process, and what the
modes and lists of its files allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.storage.base import ReadStorage
from deltacli.storage.local import LocalStorage
from deltacli.storage.probing.subject import ProbedCalls, Subject

if TYPE_CHECKING:
    from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.probing.local import LocalSubject


def subject_of(storage: ReadStorage) -> Subject | None:
    """Return a store to probe; None for one that is read-only. Raises CredentialsMissing."""
    if isinstance(storage, LocalStorage):
        return LocalSubject(storage)
    from deltacli.storage.objects.store import ObjectStorage

    if not isinstance(storage, ObjectStorage):
        return None
    from deltacli.storage.probing.objects import ObjectSubject

    return ObjectSubject(storage, _probed(storage))


def _probed(storage: ObjectStorage) -> ProbedCalls:
    """Return the calls of a store with what its cloud knows about their caller."""
    if storage.uri.startswith("s3"):
        from deltacli.storage.probing.s3 import S3Probed
        from deltacli.storage.s3.calls import S3Calls

        assert isinstance(storage.calls, S3Calls)
        return S3Probed(storage.calls)
    if storage.uri.startswith(("gs://", "gcs://")):
        from deltacli.storage.gcs.calls import GcsCalls
        from deltacli.storage.probing.gcs import GcsProbed

        assert isinstance(storage.calls, GcsCalls)
        return GcsProbed(storage.calls)
    from deltacli.storage.azure.calls import AzureCalls
    from deltacli.storage.probing.azure import AzureProbed

    assert isinstance(storage.calls, AzureCalls)
    return AzureProbed(storage.calls)
