"""The identity that sends requests to Azure Blob Storage, and its permissions.

An account key and a shared access signature (SAS) show their permissions: a key has all, and a
signature lists them in its parameter `sp`. The roles of a Microsoft Entra identity are not visible.
"""

from __future__ import annotations

import base64
import json
import os
from urllib.parse import parse_qs

from deltacli.core.errors import parameter
from deltacli.core.typing import AzureCredential, Json
from deltacli.storage.azure.calls import AzureCalls
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.probing.interface import Identity, Permission, PermissionState, unknown_write_permissions

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_PERMISSION_NAMES = {
    "list": f"{_BLOBS}/read",
    "read": f"{_BLOBS}/read",
    "create": f"{_BLOBS}/add/action or {_BLOBS}/write",
    "replace": f"{_BLOBS}/write",
    "delete": f"{_BLOBS}/delete",
}

# The letters of the SAS parameter `sp` that grant a permission. One of them is sufficient.
_SAS_LETTERS = {"create": "cw", "replace": "w", "delete": "d"}

# Parameters of a signature that are not secret, and their labels.
_SAS_PARAMETERS = {"sp": "permissions", "se": "expires", "st": "starts", "sr": "resource", "spr": "protocols"}

# Claims of an access token that contain a name, the most readable one first.
_NAME_CLAIMS = ("upn", "unique_name", "preferred_username", "appid", "azp", "oid")
_DETAIL_CLAIMS = {"tid": "tenant", "oid": "object"}

_CREDENTIAL_VARIABLES = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"),
    "AZURE_STORAGE_TOKEN",
    *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
)


class AzureCaller:
    """The identity that sends the requests to a container."""

    kind = "azure"
    permission_names = _PERMISSION_NAMES

    def __init__(self, calls: AzureCalls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return the account of a key or signature, or the identity of an access token.

        Raises:
            CredentialsMissing: If no access token can be obtained.
        """
        credentials = self.calls.credentials
        options = credentials.options
        chain = {name: "set" for name in _CREDENTIAL_VARIABLES if os.environ.get(name)}
        if options.credential_kind == "none":
            return Identity(None, ANONYMOUS, {}, chain)

        if options.credential_kind == "key":
            source = f"key of the account ({_describe_origin(options.account_key)})"
            return Identity(options.account, source, {"rights": "all, on every container"}, chain)

        if options.credential_kind == "signature":
            source = f"shared access signature ({_describe_origin(options.sas_token)})"
            return Identity(options.account, source, _read_sas_parameters(options.sas_token), chain)

        claims = _read_claims(credentials.get_token())
        name = next((str(claims[claim]) for claim in _NAME_CLAIMS if claims.get(claim)), None)
        details = {label: str(claims[claim]) for claim, label in _DETAIL_CLAIMS.items() if claims.get(claim)}
        return Identity(name, _describe_credential(credentials.get_credential(), credentials.identity), details, chain)

    def permissions(self) -> dict[str, Permission]:
        """Return the permissions of an account key or a signature. Those of an access token are unknown."""
        options = self.calls.credentials.options
        if options.credential_kind == "key":
            permission = Permission(PermissionState.YES, "a key of the account has all rights")
            return dict.fromkeys(_SAS_LETTERS, permission)

        if options.credential_kind == "signature":
            granted_letters = parse_qs(options.sas_token).get("sp", [""])[0]
            return {name: _check_sas_letters(granted_letters, letters) for name, letters in _SAS_LETTERS.items()}

        return unknown_write_permissions("only an attempt to write shows the roles of the caller")


def _check_sas_letters(granted_letters: str, sufficient_letters: str) -> Permission:
    """Return whether a signature grants a permission.

    Args:
        granted_letters: The parameter `sp` of the signature. It is empty if the permissions are in a
            stored access policy of the container.
        sufficient_letters: The letters that grant the permission. One of them is sufficient.
    """
    if not granted_letters:
        return Permission(PermissionState.UNKNOWN, "the signature refers to a stored access policy")
    if any(letter in granted_letters for letter in sufficient_letters):
        return Permission(PermissionState.YES, f"the signature has sp={granted_letters}")
    missing_letters = " or ".join(sufficient_letters)
    return Permission(PermissionState.NO, f"the signature has sp={granted_letters} without {missing_letters}")


def _read_sas_parameters(signature: str) -> dict[str, str]:
    """Return the parameters of a signature that are not secret, by their labels."""
    parameters = parse_qs(signature)
    return {label: parameters[name][0] for name, label in _SAS_PARAMETERS.items() if parameters.get(name)}


def _read_claims(token: str) -> dict[str, Json]:
    """Return the claims of an access token, without verifying it; empty if it is not a JSON web token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        padding = "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + padding))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _describe_credential(credential: AzureCredential, default: str) -> str:
    """Return the class of azure-identity that obtained the token.

    Args:
        credential: A chain of credentials. It remembers which of them succeeded.
        default: The description of a credential that is not a chain.
    """
    successful_credential = getattr(credential, "_successful_credential", None)
    if successful_credential is None:
        return default
    return f"{type(successful_credential).__name__} of azure-identity"


def _describe_origin(secret: str) -> str:
    """Return the environment variable that contains a secret, or say that it is a storage option."""
    variables = [name for name in _CREDENTIAL_VARIABLES if secret in os.environ.get(name, "")]
    return variables[0] if variables else f"{parameter('open_table.storage_options')}, or the configuration file"
