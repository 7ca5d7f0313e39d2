"""Tables in Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltacli.storage.azure.options import read_address, read_options
from deltacli.storage.fsspec_faults import require_libraries
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects


def open_azure(uri: str, options: Mapping[str, str], *, retry: Retry | None = None) -> ObjectStorage:
    """Return the store of a URI of Azure. Raises UsageError."""
    address = read_address(uri)
    read = read_options(options, address)
    scheme = uri.partition("://")[0]
    require_libraries(scheme, "urllib3")
    from deltacli.storage.azure.calls import AzureCalls
    from deltacli.storage.azure.credentials import AzureCredentials

    credentials = AzureCredentials(read, address.uri)
    if credentials.needs_library:
        require_libraries(scheme, "azure.identity")
    policy = retry or Retry()
    calls = AzureCalls(address.container, read, credentials, policy)
    aliases = address.aliases(read.account, read.suffix)

    def versions(store: ObjectStorage) -> VersionedObjects:
        from deltacli.storage.azure.versions import AzureVersions

        return AzureVersions(store, calls)

    return ObjectStorage(address.uri, address.root, calls, aliases=aliases, retry=policy, versions=versions)
