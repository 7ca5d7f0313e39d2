"""URLs of Google Cloud Storage. Spec: V4 signing process, with an HMAC key or with RSA.

RSA takes about 1 ms per URL with a private key, and a request per URL without one (signBlob). An HMAC key takes
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltacli.sharing.signing.signed_urls import SignedUrls
from deltacli.sharing.signing.v4 import Dialect, Request, day_key, day_scope, hmac_signatures, period, sign_paths
from deltacli.storage.signing.values import BlobSigner, GcsSource, HmacCredential

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
                request = Request(_HMAC, signing.address, credential.key_id, _REGION)
                valid = period(now_ms, expires_ms, credential.expires_ms)
                key = day_key(_HMAC, credential.secret, day_scope(request, valid))
                return sign_paths(request, paths, valid, hmac_signatures(key))
            case BlobSigner() as signer:
                request = Request(_RSA, signing.address, signer.email, _REGION)
                return sign_paths(request, paths, period(now_ms, expires_ms, None), _rsa_signatures(signer))


def _rsa_signatures(signer: BlobSigner) -> Callable[[bytes, Sequence[bytes]], Sequence[str]]:
    """Return a function that signs texts with the key of a service account."""

    def sign(common: bytes, rest: Sequence[bytes]) -> Sequence[str]:
        texts = [common + text for text in rest]
        if not signer.is_remote:
            return [signer.sign(text).hex() for text in texts]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [signed.hex() for signed in pool.map(signer.sign, texts)]

    return sign
