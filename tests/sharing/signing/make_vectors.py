"""URLs that the SDKs of the clouds sign, for `test_cloud_urls.py`. Run by hand, in an environment of its own:

pip install google-cloud-storage==3.17.1 azure-storage-blob==12.20.0
python tests/sharing/signing/make_vectors.py > tests/sharing/signing/sdk_urls.json

12.20.0 is the last version of azure-storage-blob that signs for the version 2024-05-04 of the service.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import quote

BLOBS = ("part-0.parquet", "date=2024-01-01/part 1.parquet", "a+b&c%20d~e#f?g:h@i/é☃😀'\"()*!$,;[]{}|^`\\.parquet")
EMAIL = "signer@project-1.iam.gserviceaccount.com"
DATE = "20240229T235959Z"
ACCOUNT_KEY = "Zm9vIGJhciBhY2NvdW50IGtleSB3aXRoIDY0IGJ5dGVzIG9mIGRhdGEgLyArIGFuZCBzbyBvbiBhbmQgb24gIQ=="
CLAIMS = {
    "signed_oid": "11111111-2222-3333-4444-555555555555",
    "signed_tid": "66666666-7777-8888-9999-000000000000",
    "signed_start": "2024-02-29T00:00:00Z",
    "signed_expiry": "2024-03-02T00:00:00Z",
    "signed_service": "b",
    "signed_version": "2024-05-04",
    "value": "c29tZSBkZWxlZ2F0aW9uIGtleSBvZiBzb21lIGxlbmd0aCAvKw==",
}


def main() -> None:
    vectors: dict[str, Any] = {"gcs": gcs(), "azure": azure()}
    sys.stdout.write(json.dumps(vectors, indent=1) + "\n")


def gcs() -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
    from google.cloud.storage import _signing
    from google.oauth2 import service_account

    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    info = {"private_key": pem, "client_email": EMAIL, "token_uri": "https://localhost/token"}
    credentials = service_account.Credentials.from_service_account_info(info)
    urls = {
        blob: _signing.generate_signed_url_v4(
            credentials,
            f"/bucket/my%20table/{quote(blob.encode(), safe=b'/~')}",
            3600,
            api_access_endpoint="https://storage.googleapis.com",
            _request_timestamp=DATE,
        )
        for blob in BLOBS
    }
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return {"publicKey": public, "email": EMAIL, "urls": urls}


def azure() -> dict[str, Any]:
    from azure.storage.blob import UserDelegationKey, generate_blob_sas

    delegation = UserDelegationKey()
    for name, value in CLAIMS.items():
        setattr(delegation, name, value)

    def sas(blob: str, **key: Any) -> str:
        return str(
            generate_blob_sas(
                "account", "container", f"my table/{blob}", permission="r", expiry="2024-03-01T00:59:59Z",
                protocol="https", **key,
            )
        )  # fmt: skip

    return {
        "accountKey": ACCOUNT_KEY,
        "claims": CLAIMS,
        "byAccountKey": {blob: sas(blob, account_key=ACCOUNT_KEY) for blob in BLOBS},
        "byDelegationKey": {blob: sas(blob, user_delegation_key=delegation) for blob in BLOBS},
    }


if __name__ == "__main__":
    main()
