"""Which URLs the files of a location get: signed by its store, or of the server itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from deltacli.errors import UsageError
from deltacli.sharing.signing.clouds import AzureUrlSigner, GcsUrlSigner, S3UrlSigner
from deltacli.sharing.signing.signed_urls import UrlSigner
from deltacli.storage.signing.values import BlobSigner, CannotSign

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
