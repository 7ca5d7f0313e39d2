"""URLs of Azure Blob Storage: a shared access signature per blob, with the account key or a user delegation key."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from deltacli.errors import CredentialsMissing
from deltacli.sharing.signing.signed_urls import SignedUrls, encode_paths, encode_value
from deltacli.sharing.signing.v4 import hmac_states
from deltacli.storage.signing.values import AccountKey, AzureSource, DelegationKey

VERSION = "2024-05-04"
"""The version of the service, which decides about the fields of the text to be signed."""
_CLAIMS = ("skoid", "sktid", "skt", "ske", "sks", "skv")


class AzureUrlSigner:
    """Signs URLs of one table with the key of a source."""

    def __init__(self, source: AzureSource) -> None:
        self._source = source

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root. Raises StorageFailed."""
        signing = self._source(expires_ms)
        key = signing.credential
        if isinstance(key, DelegationKey):
            expires_ms = min(expires_ms, key.expires_ms)
        seconds = expires_ms // 1000
        if seconds * 1000 <= now_ms:
            raise CredentialsMissing("URLs cannot be signed: the credential, or the time asked for, has expired")
        parameters = {
            "se": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "sp": "r",
            "spr": "https" if signing.address.origin.startswith("https:") else "",
            "sr": "b",
            "sv": VERSION,
            **(key.claims if isinstance(key, DelegationKey) else {}),
        }
        query = "&".join(f"{name}={encode_value(value)}" for name, value in parameters.items() if value)
        base = f"{signing.address.origin}{signing.address.path}"
        signatures = _signatures(key, signing.resource, paths, parameters)
        signed = zip(encode_paths(paths), signatures, strict=True)
        return SignedUrls([f"{base}{path}?{query}&sig={seal}" for path, seal in signed], seconds * 1000)


def _signatures(
    key: AccountKey | DelegationKey, resource: str, paths: Sequence[str], parameters: Mapping[str, str]
) -> list[str]:
    """Return the signatures of blobs, in percent-encoding."""
    inner, outer = hmac_states(key.secret)
    inner.update(f"r\n\n{parameters['se']}\n{resource}".encode())
    tail = f"\n{_rest(parameters, is_delegated=isinstance(key, DelegationKey))}".encode()
    found = []
    for path in paths:
        code = inner.copy()
        code.update(path.encode("utf-8", "surrogateescape") + tail)
        seal = outer.copy()
        seal.update(code.digest())
        text = base64.b64encode(seal.digest()).decode()
        found.append(text.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"))
    return found


def _rest(parameters: Mapping[str, str], *, is_delegated: bool) -> str:
    """Return the part of the text to be signed behind the resource: one field per line, most of them empty."""
    if is_delegated:
        who = [*(parameters.get(name, "") for name in _CLAIMS), "", "", ""]  # two other users, and a correlation
    else:
        who = [""]  # a stored access policy
    what = ["", parameters["spr"], VERSION, "b", "", ""]  # an address, then a snapshot and an encryption scope
    return "\n".join([*who, *what, *[""] * 5])  # the headers of the answer
