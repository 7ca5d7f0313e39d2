"""Which URLs the files of a location get: signed by its store, or of the server itself.

Spec: V4 signing process (Google); Signature Version 4, query parameters (S3); a shared access
signature per blob, with the account key or a user delegation key (Azure). RSA, with Google, takes about 1 ms per URL
with a private key, and a request per URL without one (signBlob). An HMAC key takes microseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.sharing.signing.v4 import (
    Dialect,
    SignedRequest,
    SignedUrls,
    UrlSigner,
    day_key,
    day_scope,
    encode_paths,
    encode_value,
    hmac_signatures,
    hmac_states,
    period,
    sign_paths,
)
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSource,
    BlobSigner,
    CannotSign,
    DelegationKey,
    GcsSource,
    HmacCredential,
    S3Source,
)

_HMAC_OPTIONS = ("hmac_key_id", "hmac_secret")


class Mode(StrEnum):
    """Who returns the bytes of files, and who checks the URLs."""

    LOCAL = "local"
    "The server, from a local disk."
    SIGNED = "signed"
    "The store. The server only signs."
    PROXIED = "proxied"
    "The server, which reads them from the store."


class Proxy(StrEnum):
    """Whether the server returns files of stores itself."""

    NEVER = "never"
    WHEN_NEEDED = "when-needed"
    ALWAYS = "always"


class FileAccess(NamedTuple):
    """How recipients get the files of a location. `signer`: only for SIGNED; the others need a `LocalUrlSigner`.
    `waits`: every URL takes a request to the cloud.
    """

    mode: Mode
    reason: str
    signer: UrlSigner | None = None
    waits: bool = False


def choose_access(location: str, storage_options: Mapping[str, str], *, proxy: Proxy | str) -> FileAccess:
    """Return how recipients get the files of a location.

    Raises UsageError (`share.signing`) for a store whose URLs cannot be signed if the server must not proxy, and what
    looking up credentials raises.
    """
    scheme = location.partition("://")[0].lower() if "://" in location else "file"
    if scheme == "file" or location.lower().startswith("file:"):
        return FileAccess(Mode.LOCAL, "a local directory")
    if proxy == Proxy.ALWAYS:
        return FileAccess(Mode.PROXIED, "the configuration says so")
    make = _SIGNERS.get(scheme)
    try:
        if make is None:
            raise CannotSign(f"URLs of {scheme}:// cannot be signed")
        return make(location, storage_options)
    except CannotSign as fault:
        if proxy == Proxy.NEVER:
            raise UsageError(
                f"{location} cannot be shared: {fault}",
                code="share.signing",
                hint="let the server return its files: proxyFiles: when-needed",
            ) from None
        return FileAccess(Mode.PROXIED, str(fault))


def without_signing_options(storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that open the store, without those that only sign URLs."""
    return {name: value for name, value in storage_options.items() if name not in _HMAC_OPTIONS}


def _s3(location: str, options: Mapping[str, str]) -> FileAccess:
    from deltacli.storage.signing.s3 import s3_source

    return FileAccess(Mode.SIGNED, "signed by the credentials for S3", S3UrlSigner(s3_source(location, options)))


def _gcs(location: str, options: Mapping[str, str]) -> FileAccess:
    from deltacli.storage.signing.gcs import gcs_source

    source = gcs_source(location, options)
    waits = False
    match source().credential:
        case BlobSigner(is_remote=True):
            waits, reason = True, "signed by the cloud (signBlob), one request per file: an HMAC key is faster"
        case BlobSigner():
            reason = "signed by the private key of the service account, 1 ms per file: an HMAC key is faster"
        case _:
            reason = "signed by an HMAC key"
    return FileAccess(Mode.SIGNED, reason, GcsUrlSigner(source), waits)


def _azure(location: str, options: Mapping[str, str]) -> FileAccess:
    from deltacli.storage.signing.azure import DelegatedSource, azure_source

    source = azure_source(location, options)
    kind = "a user delegation key" if isinstance(source, DelegatedSource) else "the account key"
    return FileAccess(Mode.SIGNED, f"signed by {kind}", AzureUrlSigner(source))


_SIGNERS: Mapping[str, Callable[[str, Mapping[str, str]], FileAccess]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _s3),
    **dict.fromkeys(("gs", "gcs"), _gcs),
    **dict.fromkeys(("abfs", "abfss", "az"), _azure),
}


_HMAC = Dialect("GOOG4-HMAC-SHA256", "X-Goog-", "GOOG4", "storage", "goog4_request")
_RSA = _HMAC._replace(algorithm="GOOG4-RSA-SHA256")
_REGION = "auto"
_AT_ONCE = 16
"""Requests to the cloud at a time, for a credential without a private key."""


class GcsUrlSigner:
    """Signs URLs of one table with the credential of a source."""

    def __init__(self, source: GcsSource) -> None:
        self._source = source

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root. Raises StorageFailed."""
        signing = self._source()
        match signing.credential:
            case HmacCredential() as credential:
                request = SignedRequest(_HMAC, signing.address, credential.key_id, _REGION)
                valid = period(now_ms, expires_ms, credential.expires_ms)
                key = day_key(_HMAC, credential.secret, day_scope(request, valid))
                return sign_paths(request, paths, valid, hmac_signatures(key))
            case BlobSigner() as signer:
                request = SignedRequest(_RSA, signing.address, signer.email, _REGION)
                return sign_paths(request, paths, period(now_ms, expires_ms, None), _rsa_signatures(signer))


def _rsa_signatures(signer: BlobSigner) -> Callable[[bytes, Sequence[bytes]], Sequence[str]]:
    def sign(common: bytes, rest: Sequence[bytes]) -> Sequence[str]:
        texts = [common + text for text in rest]
        if not signer.is_remote:
            return [signer.sign(text).hex() for text in texts]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [signed.hex() for signed in pool.map(signer.sign, texts)]

    return sign


_DIALECT = Dialect("AWS4-HMAC-SHA256", "X-Amz-", "AWS4", "s3", "aws4_request")


class S3UrlSigner:
    """Signs URLs of one table with the credentials of a source, which may change between calls."""

    def __init__(self, source: S3Source) -> None:
        self._source = source

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root. Raises StorageFailed."""
        signing = self._source()
        credential = signing.credential
        token = (("X-Amz-Security-Token", credential.token),) if credential.token else ()
        request = SignedRequest(
            _DIALECT, signing.address, credential.key_id, signing.region, (*token, *signing.extra_query)
        )
        valid = period(now_ms, expires_ms, credential.expires_ms)
        key = day_key(_DIALECT, credential.secret, day_scope(request, valid))
        return sign_paths(request, paths, valid, hmac_signatures(key))


_VERSION = "2024-05-04"
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
            "sv": _VERSION,
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
    what = ["", parameters["spr"], _VERSION, "b", "", ""]  # an address, then a snapshot and an encryption scope
    return "\n".join([*who, *what, *[""] * 5])  # the headers of the answer
