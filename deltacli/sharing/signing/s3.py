"""URLs of S3 and compatible stores. Spec: Signature Version 4, query parameters."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.sharing.signing.signed_urls import SignedUrls
from deltacli.sharing.signing.v4 import Dialect, Request, day_key, day_scope, hmac_signatures, period, sign_paths
from deltacli.storage.signing.values import S3Source

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
        request = Request(_DIALECT, signing.address, credential.key_id, signing.region, (*token, *signing.extra_query))
        valid = period(now_ms, expires_ms, credential.expires_ms)
        key = day_key(_DIALECT, credential.secret, day_scope(request, valid))
        return sign_paths(request, paths, valid, hmac_signatures(key))
