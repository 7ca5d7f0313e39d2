"""Which URLs the files of a location get, signed by its store or of the server itself, and signature version 4.

What is the same for all files of a table, the key of the day among it, is computed once per call.

RSA, with Google, takes about 1 ms per URL
with a private key, and a request per URL without one (signBlob). An HMAC key takes microseconds.

Spec: V4 signing process (Google); Signature Version 4, query parameters (S3); a shared access signature per blob, with
the account key or a user delegation key (Azure).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.storage.signing import values

# -- what all signers of URLs have in common ---------------------------------------------------------------------------

_SEPARATOR = "\x00"
_FREQUENT = {"%": "%25", "=": "%3D", " ": "%20", ":": "%3A"}
"Replaced first, the percent sign before all, because that is ten times faster than a regular expression."
_UNSAFE = re.compile(rf"[^A-Za-z0-9_.~/%{_SEPARATOR}-]+")


class SignedUrls(NamedTuple):
    """The URLs of files, in their order. `expires_ms`: until when they are valid, which may be earlier than asked."""

    urls: list[str]
    expires_ms: int


class UrlSigner(Protocol):
    """Signs URLs for GET requests of files of one table, whole or in ranges."""

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root.

        They may expire earlier, with the credential that signs. Raises StorageFailed if there is no credential, or none
        that is valid long enough. May block while credentials are refreshed.
        """


def encode_paths(paths: Sequence[str]) -> list[str]:
    """Return paths in percent-encoding, with only [A-Za-z0-9_.~/-] as they are. Raises ValueError for a NUL character.

    All paths are encoded in one go, several times faster than one by one.
    """
    if not paths:
        return []
    text = _SEPARATOR.join(paths)
    for character, code in _FREQUENT.items():
        text = text.replace(character, code)
    encoded = _UNSAFE.sub(_percent, text).split(_SEPARATOR)
    if len(encoded) != len(paths):
        raise ValueError("a path has a NUL character")
    return encoded


def encode_value(text: str) -> str:
    """Return a value of a query in percent-encoding, with only [A-Za-z0-9_.~-] as they are."""
    return encode_paths([text])[0].replace("/", "%2F")


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


LONGEST_SECONDS = 7 * 86_400
"""Both stores refuse URLs that are valid for longer."""
_BLOCK_BYTES = 64


class Dialect(NamedTuple):
    """The names of a store."""

    algorithm: str
    prefix: str
    key_prefix: str
    service: str
    terminator: str


class SignedRequest(NamedTuple):
    """What the URLs of a call have in common."""

    dialect: Dialect
    address: values.ObjectAddress
    key_id: str
    region: str
    parameters: tuple[tuple[str, str], ...] = ()
    "Further parameters, such as a session token."


class Period(NamedTuple):
    """When URLs are valid: from `start`, for `seconds`."""

    start: datetime
    seconds: int

    @property
    def expires_ms(self) -> int:
        return (int(self.start.timestamp()) + self.seconds) * 1000


def period(now_ms: int, expires_ms: int, credential_ms: int | None) -> Period:
    """Return when URLs are valid, clipped to the credential and to what stores accept. Raises CredentialsMissing."""
    if credential_ms is not None:
        expires_ms = min(expires_ms, credential_ms)
    seconds = min(expires_ms // 1000 - now_ms // 1000, LONGEST_SECONDS)
    if seconds < 1:
        raise CredentialsMissing("URLs cannot be signed: the credential, or the time asked for, has expired")
    return Period(datetime.fromtimestamp(now_ms // 1000, UTC), seconds)


def sign_paths(
    request: SignedRequest,
    paths: Sequence[str],
    valid: Period,
    signature: Callable[[bytes, Sequence[bytes]], Sequence[str]],
) -> SignedUrls:
    """Return the URLs of files. `signature` returns the hexadecimal signatures of the texts to be signed, given as what
    they have in common and the rest of each.
    """
    moment = valid.start.strftime("%Y%m%dT%H%M%SZ")
    scope = day_scope(request, valid)
    query = _query(request, scope, moment, valid.seconds)
    encoded = encode_paths(paths)
    head = hashlib.sha256(f"GET\n{request.address.path}".encode())
    tail = f"\n{query}\nhost:{request.address.host}\n\nhost\nUNSIGNED-PAYLOAD".encode()
    digests = []
    for path in encoded:
        canonical = head.copy()
        canonical.update(path.encode() + tail)
        digests.append(canonical.hexdigest().encode())
    common = f"{request.dialect.algorithm}\n{moment}\n{scope}\n".encode()
    base = f"{request.address.origin}{request.address.path}"
    query = f"?{query}&{request.dialect.prefix}Signature="
    signed = zip(encoded, signature(common, digests), strict=True)
    return SignedUrls([f"{base}{path}{query}{sealed}" for path, sealed in signed], valid.expires_ms)


def day_scope(request: SignedRequest, valid: Period) -> str:
    """Return the scope of a credential: a day, a region and a service."""
    return "/".join((valid.start.strftime("%Y%m%d"), request.region, request.dialect.service,
                     request.dialect.terminator))  # fmt: skip


def day_key(dialect: Dialect, secret: str, scope: str) -> bytes:
    """Return the key that signs for a scope."""
    key = f"{dialect.key_prefix}{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def hmac_signatures(key: bytes) -> Callable[[bytes, Sequence[bytes]], Sequence[str]]:
    """Return a function that signs texts with a key."""

    def sign(common: bytes, rest: Sequence[bytes]) -> Sequence[str]:
        inner, outer = hmac_states(key)
        inner.update(common)
        signatures = []
        for text in rest:
            code = inner.copy()
            code.update(text)
            seal = outer.copy()
            seal.update(code.digest())
            signatures.append(seal.hexdigest())
        return signatures

    return sign


def hmac_states(secret: bytes) -> tuple[Any, Any]:  # Any: hash objects
    """Return the two states of an HMAC-SHA256 after its key: copying them takes half the time of a new HMAC."""
    if len(secret) > _BLOCK_BYTES:
        secret = hashlib.sha256(secret).digest()
    block = secret.ljust(_BLOCK_BYTES, b"\x00")
    inner, outer = hashlib.sha256(), hashlib.sha256()
    inner.update(bytes(byte ^ 0x36 for byte in block))
    outer.update(bytes(byte ^ 0x5C for byte in block))
    return inner, outer


def _query(request: SignedRequest, scope: str, moment: str, seconds: int) -> str:
    """Return the query without the signature, in the order of its names."""
    prefix = request.dialect.prefix
    parameters = {
        f"{prefix}Algorithm": request.dialect.algorithm,
        f"{prefix}Credential": f"{request.key_id}/{scope}",
        f"{prefix}Date": moment,
        f"{prefix}Expires": str(seconds),
        f"{prefix}SignedHeaders": "host",
        **dict(request.parameters),
    }
    return "&".join(f"{name}={encode_value(parameters[name])}" for name in sorted(parameters))


# -- which URLs the files of a location get ----------------------------------------------------------------------------

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
            raise values.CannotSign(f"URLs of {scheme}:// cannot be signed")
        return make(location, storage_options)
    except values.CannotSign as fault:
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
    from deltacli.storage.signing.s3 import make_s3_source

    return FileAccess(Mode.SIGNED, "signed by the credentials for S3", S3UrlSigner(make_s3_source(location, options)))


def _gcs(location: str, options: Mapping[str, str]) -> FileAccess:
    from deltacli.storage.signing.gcs import make_gcs_source

    source = make_gcs_source(location, options)
    waits = False
    match source().credential:
        case values.BlobSigner(is_remote=True):
            waits, reason = True, "signed by the cloud (signBlob), one request per file: an HMAC key is faster"
        case values.BlobSigner():
            reason = "signed by the private key of the service account, 1 ms per file: an HMAC key is faster"
        case _:
            reason = "signed by an HMAC key"
    return FileAccess(Mode.SIGNED, reason, GcsUrlSigner(source), waits)


def _azure(location: str, options: Mapping[str, str]) -> FileAccess:
    from deltacli.storage.signing.azure import DelegatedSource, make_azure_source

    source = make_azure_source(location, options)
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

    def __init__(self, source: values.GcsSource) -> None:
        self._source = source

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root. Raises StorageFailed."""
        signing = self._source()
        match signing.credential:
            case values.HmacCredential() as credential:
                request = SignedRequest(_HMAC, signing.address, credential.key_id, _REGION)
                valid = period(now_ms, expires_ms, credential.expires_ms)
                key = day_key(_HMAC, credential.secret, day_scope(request, valid))
                return sign_paths(request, paths, valid, hmac_signatures(key))
            case values.BlobSigner() as signer:
                request = SignedRequest(_RSA, signing.address, signer.email, _REGION)
                return sign_paths(request, paths, period(now_ms, expires_ms, None), _rsa_signatures(signer))


def _rsa_signatures(signer: values.BlobSigner) -> Callable[[bytes, Sequence[bytes]], Sequence[str]]:
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

    def __init__(self, source: values.S3Source) -> None:
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

    def __init__(self, source: values.AzureSource) -> None:
        self._source = source

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root. Raises StorageFailed."""
        signing = self._source(expires_ms)
        key = signing.credential
        if isinstance(key, values.DelegationKey):
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
            **(key.claims if isinstance(key, values.DelegationKey) else {}),
        }
        query = "&".join(f"{name}={encode_value(value)}" for name, value in parameters.items() if value)
        base = f"{signing.address.origin}{signing.address.path}"
        signatures = _signatures(key, signing.resource, paths, parameters)
        signed = zip(encode_paths(paths), signatures, strict=True)
        return SignedUrls([f"{base}{path}?{query}&sig={seal}" for path, seal in signed], seconds * 1000)


def _signatures(
    key: values.AccountKey | values.DelegationKey, resource: str, paths: Sequence[str], parameters: Mapping[str, str]
) -> list[str]:
    inner, outer = hmac_states(key.secret)
    inner.update(f"r\n\n{parameters['se']}\n{resource}".encode())
    tail = f"\n{_rest(parameters, is_delegated=isinstance(key, values.DelegationKey))}".encode()
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
