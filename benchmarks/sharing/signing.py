"""How long it takes to sign the URLs of a table, per kind of signer, in one process.

  python benchmarks/sharing/signing.py [FILES]

Times are those of the processor, so other processes do not count. The limit is 10 µs per URL.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from deltacli.sharing.signing.choose import AzureUrlSigner, GcsUrlSigner, S3UrlSigner, UrlSigner
from deltacli.sharing.signing.keys import LocalUrlSigner, ServerKeys
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSigning,
    GcsSigning,
    HmacCredential,
    ObjectAddress,
    S3Signing,
)

CHUNK = 10_000
LIMIT = 10.0
NOW_MS = 1_709_251_199_000


def signers() -> Mapping[str, UrlSigner]:
    """Return one signer of each kind that needs no request and no private key."""
    keys, pair = ServerKeys.generate(NOW_MS), HmacCredential("AKIAEXAMPLE", "secret", "t" * 800)
    at = ObjectAddress("https://bucket.s3.eu-central-1.amazonaws.com", "/lake/events/")
    return {
        "local": LocalUrlSigner(keys, "https://share.example/delta-sharing", table_id="t", recipient="r", epoch=1),
        "s3": S3UrlSigner(lambda: S3Signing(at, "eu-central-1", pair)),
        "gcs, HMAC key": GcsUrlSigner(lambda: GcsSigning(at, HmacCredential("GOOG1", "secret"))),
        "azure, account key": AzureUrlSigner(lambda _: AzureSigning(at, "/blob/a/c/t/", AccountKey(b"k" * 64))),
    }


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else 200_000
    paths = [
        f"date=2021-04-{number % 28 + 1:02d}/part-{number:05d}-8b0086f2-7b27-4935-ac5a-8ed6215a6640.c000.snappy.parquet"
        for number in range(count)
    ]
    slowest = 0.0
    for name, signer in signers().items():
        began = time.process_time()
        for start in range(0, count, CHUNK):
            signer.sign(paths[start : start + CHUNK], expires_ms=NOW_MS + 3_600_000, now_ms=NOW_MS)
        microseconds = (time.process_time() - began) / count * 1e6
        slowest = max(slowest, microseconds)
        print(f"{name:20} {microseconds:6.2f} µs per URL")
    return int(slowest > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
