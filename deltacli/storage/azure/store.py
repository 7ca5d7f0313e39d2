"""Opening tables in Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.calls import AzureCalls
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import read_azure_options
from deltacli.storage.azure.versions import AzureVersions
from deltacli.storage.grants import RenewableGrant
from deltacli.storage.libraries import require_libraries
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.versions import VersionedObjects


def open_azure(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: RenewableGrant | None = None
) -> ObjectStorage:
    """Open the store of an Azure URI.

    Stores of the same bucket and options have common connections, except stores with vended credentials.

    Args:
        uri: The URI.
        options: The storage options.
        retry: The retry policy of the run.
        held: Vended credentials; None to use the credentials of the user.

    Raises:
        UsageError: If the URI or an option is invalid.
    """
    address = read_address(uri)
    read = read_azure_options(options, address)
    if held is not None:
        read = replace(read_azure_options(options, address, {}), held=held)
    scheme = uri.partition("://")[0]
    require_libraries(scheme, "urllib3")
    location = address.uri.removesuffix(f"/{address.root}")
    credentials = AzureCredentials(read, location)
    if credentials.needs_library:
        require_libraries(scheme, "azure.identity")
    policy = retry or Retry()

    def make_calls() -> AzureCalls:
        return AzureCalls(address.container, read, credentials, policy)

    calls = make_calls() if held is not None else policy.get_shared(location, options, make_calls)
    aliases = address.aliases(read.account, read.suffix)

    def open_versions(store: ObjectStorage) -> VersionedObjects:
        return AzureVersions(store, calls)

    return ObjectStorage(address.uri, address.root, calls, aliases=aliases, retry=policy, versions=open_versions)
