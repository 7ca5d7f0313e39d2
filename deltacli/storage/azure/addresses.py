"""URIs of directories in Azure Blob Storage: the forms `az`, `abfss`, `wasbs` and `https` that tools use."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from deltacli.core.errors import UsageError, parameter

_CONTAINER = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9-]{1,62}|\$root")
_HOST = re.compile(r"(?P<account>[a-z0-9-]{1,63})\.(?:blob|dfs)\.(?P<suffix>[a-z0-9.-]+)", re.IGNORECASE)
FABRIC_SUFFIX = "fabric.microsoft.com"


class Address(NamedTuple):
    """A directory of a container.

    Attributes:
        uri: The URI, without a slash at its end.
        container: The name of the container.
        root: The path of the directory in the container; '' for the container itself.
        account: The name of the storage account; '' if the URI does not contain it.
        suffix: The domain of the service, for example "core.windows.net"; '' if the URI does not contain it.
    """

    uri: str
    container: str
    root: str
    account: str = ""
    suffix: str = ""

    def aliases(self, account: str, suffix: str) -> tuple[str, ...]:
        """Return the other URIs of the directory.

        Args:
            account: The name of the storage account.
            suffix: The domain of the service.
        """
        below = f"/{self.root}" if self.root else ""
        uris = [f"{scheme}://{self.container}{below}" for scheme in ("az", "abfss")]
        if account and suffix:
            for kind in ("dfs", "blob"):
                host = f"{account}.{kind}.{suffix}"
                uris += [f"{scheme}://{self.container}@{host}{below}" for scheme in ("abfss", "wasbs", "az")]
                uris += [f"https://{host}/{self.container}{below}"]
        return tuple(uri for uri in uris if uri != self.uri)


def read_address(uri: str) -> Address:
    """Parse a URI.

    Raises:
        UsageError: If the URI is invalid, or if it contains credentials.
    """
    uri = uri.rstrip("/")
    scheme, _, address = uri.partition("://")
    authority, _, root = address.partition("/")
    if scheme.lower() == "https":
        host = authority
        (container, _, root) = unquote(root).partition("/")
    else:
        container, _, host = authority.rpartition("@") if "@" in authority else (authority, "", "")
    if ":" in container or "@" in container:
        raise UsageError(
            "invalid character in the name of the container: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": "AZURE_STORAGE_ACCOUNT_KEY, or az login"},
        )
    if not host and _HOST.fullmatch(container):
        # In an https URL the container follows the host; in the other schemes it precedes it.
        first, _, below = root.partition("/")
        error = UsageError(f"{uri} names the account in place of the container", code="usage.table")
        raise error.suggest_as_fact(uri, f"{scheme}://{first}@{container}/{below}".rstrip("/") if first else None)
    if not _CONTAINER.fullmatch(container) and not is_fabric_host(host):
        raise UsageError(
            f"invalid name of a container: {container!r}" if container else f"{uri} does not name a container",
            code="usage.table",
            facts={"expected": "3 to 63 lower-case letters, digits and hyphens"} if container else None,
            hint="abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    host_match = _HOST.fullmatch(host)
    if host and not host_match:
        raise UsageError(
            f"the host of {uri} is not one of Azure",
            code="usage.table",
            facts={
                "expected": "ACCOUNT.dfs.core.windows.net; for another endpoint "
                f"{parameter('storage_options.endpoint_url', 'URL')}"
            },
        )
    account = host_match["account"].lower() if host_match else ""
    suffix = host_match["suffix"].lower() if host_match else ""
    if scheme.lower() == "https":
        uri = f"abfss://{container}@{account}.dfs.{suffix}/{root}".rstrip("/")
    return Address(uri, container, root, account, suffix)


def is_fabric_host(host: str) -> bool:
    """Return whether a host or domain belongs to OneLake in Microsoft Fabric."""
    return f".{host.lower()}".endswith(f".{FABRIC_SUFFIX}")


def is_azure_host(host: str) -> bool:
    """Return whether a host belongs to Azure, in contrast to an emulator, for example."""
    return host.lower().endswith((".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"))
