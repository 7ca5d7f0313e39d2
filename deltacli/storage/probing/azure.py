"""Azure Blob Storage as a store to probe: its caller, and what the credentials themselves grant."""

from __future__ import annotations

import base64
import json
import os
from urllib.parse import parse_qs

from deltacli.core.errors import parameter
from deltacli.core.typing import AzureCredential, Json
from deltacli.storage.azure.calls import AzureCalls
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.probing.subject import (
    Granted,
    Identity,
    Permit,
    unknown_without_writing,
)

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_AZURE_NAMES = {
    "list": f"{_BLOBS}/read",
    "read": f"{_BLOBS}/read",
    "create": f"{_BLOBS}/add/action or {_BLOBS}/write",
    "replace": f"{_BLOBS}/write",
    "delete": f"{_BLOBS}/delete",
}
_LETTERS = {"create": "cw", "replace": "w", "delete": "d"}
"""Letters of the field `sp` of a signature, one of which is needed."""
_SHOWN = {"sp": "permissions", "se": "expires", "st": "starts", "sr": "resource", "spr": "protocols"}
_CLAIMS = ("upn", "unique_name", "preferred_username", "appid", "azp", "oid")
_VARIABLES = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"),
    "AZURE_STORAGE_TOKEN",
    *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
)


class AzureProbed:
    """The calls of a container, and their caller."""

    kind = "azure"
    names_of_permissions = _AZURE_NAMES

    def __init__(self, calls: AzureCalls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return who calls. Raises CredentialsMissing."""
        credentials = self.calls.credentials
        options = credentials.options
        chain = {name: "set" for name in _VARIABLES if os.environ.get(name)}
        if options.credential_kind == "none":
            return Identity(None, ANONYMOUS, {}, chain)
        if options.credential_kind == "key":
            source = f"key of the account ({_origin(options.account_key)})"
            return Identity(options.account, source, {"rights": "all, on every container"}, chain)
        if options.credential_kind == "signature":
            source = f"shared access signature ({_origin(options.sas_token)})"
            return Identity(options.account, source, _fields(options.sas_token), chain)
        token = credentials.get_token()
        claims = _claims(token)
        name = next((str(claims[name]) for name in _CLAIMS if claims.get(name)), None)
        details = {
            word: str(claims[claim]) for claim, word in {"tid": "tenant", "oid": "object"}.items() if claims.get(claim)
        }
        return Identity(name, _azure_source(credentials.get_credential(), credentials.identity), details, chain)

    def permits(self) -> dict[str, Permit]:
        """Return what the credentials themselves grant: an account key everything, a signature the rights in it."""
        options = self.calls.credentials.options
        if options.credential_kind == "key":
            return {name: Permit(Granted.YES, "a key of the account has all rights") for name in _LETTERS}
        if options.credential_kind == "signature":
            rights = parse_qs(options.sas_token).get("sp", [""])[0]
            return {name: _by_signature(rights, letters) for name, letters in _LETTERS.items()}
        return unknown_without_writing("only an attempt to write shows the roles of the caller")


def _by_signature(rights: str, letters: str) -> Permit:
    if not rights:
        return Permit(Granted.UNKNOWN, "the signature refers to a stored access policy")
    if any(letter in rights for letter in letters):
        return Permit(Granted.YES, f"the signature has sp={rights}")
    return Permit(Granted.NO, f"the signature has sp={rights} without {' or '.join(letters)}")


def _fields(signature: str) -> dict[str, str]:
    """Return the fields of a signature that are no secret."""
    fields = parse_qs(signature)
    return {word: fields[name][0] for name, word in _SHOWN.items() if fields.get(name)}


def _claims(token: str) -> dict[str, Json]:
    """Return the claims of a token, which are not verified; empty for another form of token."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))) if len(parts) == 3 else {}
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _azure_source(credential: AzureCredential, identity: str) -> str:
    """Return which credential of the chain was used, if the library tells."""
    used = getattr(credential, "_successful_credential", None)
    return f"{type(used).__name__} of azure-identity" if used is not None else identity


def _origin(secret: str) -> str:
    """Return the variable that a secret comes from, else that it is an option."""
    holders = [name for name in _VARIABLES if secret in os.environ.get(name, "")]
    return holders[0] if holders else f"{parameter('open_table.storage_options')}, or the configuration file"
