"""URLs of stores: the same as those of the clouds' SDKs.

S3 is compared with botocore; GCS and Azure with `sdk_urls.json`, which `make_vectors.py` made with their SDKs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit
from urllib.request import Request, urlopen

import botocore.config
import botocore.session
import pytest

from deltacli.core.errors import CredentialsMissing, UsageError
from deltacli.sharing.signing.choose import (
    AzureUrlSigner,
    GcsUrlSigner,
    Mode,
    S3UrlSigner,
    choose_access,
    without_signing_options,
)
from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.options import read_azure_options
from deltacli.storage.s3.options import read_s3_options
from deltacli.storage.signing.azure import DelegatedSource, make_azure_source, make_key_getter
from deltacli.storage.signing.s3 import S3SigningSource
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSigning,
    BlobSigner,
    CannotSign,
    DelegationKey,
    GcsSigning,
    HmacCredential,
    ObjectAddress,
    S3Signing,
)
from tests.sharing.signing.make_vectors import ACCOUNT_KEY, CLAIMS, EMAIL
from tests.support.azure import AzureServer
from tests.support.cloud import Said, answers
from tests.support.s3 import ENVIRONMENT, S3Server

SDK = json.loads((Path(__file__).parent / "sdk_urls.json").read_text(encoding="utf-8"))
NOW_MS = 1_709_251_199_000  # 2024-02-29T23:59:59Z
HOUR_MS = 3_600_000
KEYS = (
    "part-0.parquet",
    "date=2024-01-01/part 1.parquet",
    "a+b&c%20d~e#f?g:h@i/é☃😀'\"()*!$,;[]{}|^`\\.parquet",
    "a//b/./c/..d/\t\x7f\x01",
    "%2F%25/%",
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def in_parts(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(":80" if parts.scheme == "http" else ":443")
    return f"{parts.scheme}://{host}{parts.path}", dict(parse_qsl(parts.query, strict_parsing=True))


# -- S3 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"endpoint_url": "http://127.0.0.1:9000"},
    {"endpoint_url": "https://store.example:443", "addressing_style": "virtual"},
    {"endpoint_url": "https://s3.eu-central-1.amazonaws.com"},
    {"endpoint_url": "https://s3.us-east-1.amazonaws.com", "addressing_style": "path", "region": "us-east-1"},
    {"endpoint_url": "http://[::1]:80/prefix/below"},
    {"endpoint_url": "https://store.example", "key": "A/K+=", "secret": "s/e+c=r et", "token": "t/o+k=e&n" * 40},
], ids=lambda options: options["endpoint_url"])  # fmt: skip
@pytest.mark.parametrize("root", ["", "my table/é"])
def test_s3_urls_are_those_of_botocore(options: dict[str, str], root: str) -> None:
    options = {"region": "eu-central-1", **options}
    options |= {"secret": options["secret"].replace(" ", "")} if "secret" in options else {}
    signer = S3UrlSigner(S3SigningSource(f"s3://bucket/{root}", read_s3_options(options)))

    for key, url in zip(KEYS, signer.sign(KEYS, expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls, strict=True):
        assert in_parts(by_botocore(options, f"{root}/{key}" if root else key)) == in_parts(url)


def by_botocore(options: dict[str, str], key: str) -> str:
    """The URL that botocore signs at the same time."""
    parameters = {"Bucket": "bucket", "Key": key}
    with pytest.MonkeyPatch.context() as patch:
        moment = datetime.fromtimestamp(NOW_MS // 1000, UTC)
        patch.setattr("botocore.auth.get_current_datetime", lambda *_: moment)
        client = client_of(tuple(options.items()))
        return str(client.generate_presigned_url("get_object", parameters, ExpiresIn=3600))


@cache
def client_of(items: tuple[tuple[str, str], ...]) -> Any:  # Any: botocore makes its classes when they are needed
    """Return a client with these options: making one takes half a second."""
    options = dict(items)
    config = botocore.config.Config(
        signature_version="s3v4", s3={"addressing_style": options.get("addressing_style", "auto")}
    )
    session = botocore.session.Session()
    if "key" in options:
        session.set_credentials(options["key"], options["secret"], options["token"])
    return session.create_client(
        "s3", region_name=options["region"], endpoint_url=options["endpoint_url"], config=config
    )


def test_the_requester_that_pays_is_part_of_the_url() -> None:
    """botocore wants a header for it instead, which clients of shared tables do not send."""
    options = read_s3_options({"requester_pays": "true", "endpoint_url": "https://store.example"})

    url = S3UrlSigner(S3SigningSource("s3://bucket/t", options)).sign(
        ["a"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS
    ).urls[0]  # fmt: skip

    assert "&X-Amz-SignedHeaders=host&x-amz-request-payer=requester&X-Amz-Signature=" in url


def test_a_signed_url_returns_ranges_of_a_file() -> None:
    server = S3Server()
    try:
        bucket = server.make_bucket()
        server.put(bucket, "t/d=é 1/part+0.parquet", b"0123456789")
        access = choose_access(f"s3://{bucket}/t", {"endpoint_url": server.url}, proxy="never")
        assert access.signer
        url = access.signer.sign(["d=é 1/part+0.parquet"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls[0]

        with urlopen(Request(url, headers={"Range": "bytes=2-4"})) as answer:
            found = (answer.status, answer.read())
    finally:
        server.stop()

    assert (206, b"234") == found


def test_urls_are_signed_for_the_region_of_the_bucket() -> None:
    source = S3SigningSource("s3://bucket/t", read_s3_options({"region": "us-east-1"}))
    client = _AnsweringClient("eu-west-3")

    assert "eu-west-3" == source._find_other_region(client)
    assert source._find_other_region(_AnsweringClient("us-east-1")) is None


class _AnsweringClient:
    def __init__(self, region: str) -> None:
        self._region = region
        self.meta = type("Meta", (), {"region_name": "us-east-1"})

    def head_bucket(self, **_: Any) -> Any:
        return {"ResponseMetadata": {"HTTPHeaders": {"x-amz-bucket-region": self._region}}}


def test_credentials_of_the_chain_bring_their_own_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"Version": 1, "AccessKeyId": "ASIA", "SecretAccessKey": "of the chain", "SessionToken": "t/+=",
              "Expiration": "2999-01-01T00:00:00Z"}  # fmt: skip
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = cat {tmp_path / 'answer.json'}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    options = read_s3_options({"profile": "p", "endpoint_url": "https://store.example", "region": "us-east-1"})
    expiry_ms = int(datetime(2999, 1, 1, tzinfo=UTC).timestamp() * 1000)

    found = S3UrlSigner(S3SigningSource("s3://bucket/t", options)).sign(
        ["a"], expires_ms=expiry_ms + HOUR_MS, now_ms=expiry_ms - 600_000
    )

    parameters = in_parts(found.urls[0])[1]
    assert expiry_ms == found.expires_ms
    assert "600" == parameters["X-Amz-Expires"]
    assert "t/+=" == parameters["X-Amz-Security-Token"]
    assert parameters["X-Amz-Credential"].startswith("ASIA/29981231/")


def s3(expires_ms: int | None = None) -> S3UrlSigner:
    credential = HmacCredential("key", "secret", None, expires_ms)
    return S3UrlSigner(lambda: S3Signing(ObjectAddress("https://h", "/b/"), "r", credential))


@pytest.mark.parametrize(("asked_ms", "credential_ms", "expected_ms"), [
    (HOUR_MS, None, HOUR_MS),
    (HOUR_MS + 999, None, HOUR_MS),
    (HOUR_MS, 600_000, 600_000),
    (30 * 86_400_000, None, 7 * 86_400_000),
])  # fmt: skip
def test_urls_expire_with_their_credential(asked_ms: int, credential_ms: int | None, expected_ms: int) -> None:
    signer = s3(None if credential_ms is None else NOW_MS + credential_ms)

    found = signer.sign(["a"], expires_ms=NOW_MS + asked_ms, now_ms=NOW_MS + 123)

    assert NOW_MS + expected_ms == found.expires_ms
    assert [str(expected_ms // 1000)] == parse_qs(urlsplit(found.urls[0]).query)["X-Amz-Expires"]


def test_an_expired_credential_signs_nothing() -> None:
    with pytest.raises(CredentialsMissing):
        s3(NOW_MS).sign(["a"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)


def test_a_path_with_a_nul_character_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        s3().sign(["a", "b\0c"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)


def test_no_files_have_no_urls() -> None:
    assert [] == s3().sign([], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls


# -- GCS --------------------------------------------------------------------------------------------------------------

GCS = ObjectAddress("https://storage.googleapis.com", "/bucket/my%20table/")


@pytest.mark.parametrize("is_remote", [False, True])
def test_gcs_urls_are_those_of_the_sdk(is_remote: bool) -> None:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    public: Any = load_pem_public_key(SDK["gcs"]["publicKey"].encode())
    expected = [in_parts(url) for url in SDK["gcs"]["urls"].values()]
    signatures = [bytes.fromhex(parameters["X-Goog-Signature"]) for _, parameters in expected]

    def sign(text: bytes) -> bytes:
        """Return the signature of the SDK that belongs to this text; raise where there is none."""
        for signature in signatures:
            try:
                public.verify(signature, text, PKCS1v15(), SHA256())
            except Exception:  # noqa: BLE001  (InvalidSignature)
                continue
            return signature
        raise AssertionError(text)

    signer = GcsUrlSigner(lambda: GcsSigning(GCS, BlobSigner(EMAIL, sign, is_remote)))
    found = signer.sign(list(SDK["gcs"]["urls"]), expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls

    assert expected == [in_parts(url) for url in found]


def test_a_gcs_url_by_hmac_key_signs_the_same_request() -> None:
    signer = GcsUrlSigner(lambda: GcsSigning(GCS, HmacCredential("GOOG1KEY", "secret")))

    url = signer.sign(["a b"], expires_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS).urls[0]

    place, parameters = in_parts(url)
    scope = "20240229/auto/storage/goog4_request"
    query = (
        "X-Goog-Algorithm=GOOG4-HMAC-SHA256&X-Goog-Credential=GOOG1KEY%2F20240229%2Fauto%2Fstorage%2Fgoog4_request"
        "&X-Goog-Date=20240229T235959Z&X-Goog-Expires=3600&X-Goog-SignedHeaders=host"
    )
    canonical = (
        f"GET\n/bucket/my%20table/a%20b\n{query}\nhost:storage.googleapis.com\n\nhost\nUNSIGNED-PAYLOAD".encode()
    )
    key = b"GOOG4secret"
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"GOOG4-HMAC-SHA256\n20240229T235959Z\n{scope}\n{hashlib.sha256(canonical).hexdigest()}"
    assert "https://storage.googleapis.com/bucket/my%20table/a%20b" == place
    assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == parameters["X-Goog-Signature"]


# -- Azure ------------------------------------------------------------------------------------------------------------

AZURE = ObjectAddress("https://account.blob.core.windows.net", "/container/my%20table/")
RESOURCE = "/blob/account/container/my table/"
NAMES = {"signed_oid": "skoid", "signed_tid": "sktid", "signed_start": "skt", "signed_expiry": "ske",
         "signed_service": "sks", "signed_version": "skv"}  # fmt: skip


@pytest.mark.parametrize("kind", ["byAccountKey", "byDelegationKey"])
def test_azure_urls_are_those_of_the_sdk(kind: str) -> None:
    claims = {NAMES[name]: value for name, value in CLAIMS.items() if name in NAMES}
    delegated = DelegationKey(claims, base64.b64decode(CLAIMS["value"]), NOW_MS + 2 * 86_400_000)
    key = delegated if kind == "byDelegationKey" else AccountKey(base64.b64decode(ACCOUNT_KEY))
    signer = AzureUrlSigner(lambda _: AzureSigning(AZURE, RESOURCE, key))
    blobs = list(SDK["azure"][kind])

    found = signer.sign(blobs, expires_ms=NOW_MS + HOUR_MS + 500, now_ms=NOW_MS)

    assert NOW_MS + HOUR_MS == found.expires_ms
    for expected, url in zip(SDK["azure"][kind].values(), found.urls, strict=True):
        assert dict(parse_qsl(expected)) == in_parts(url)[1]
    assert "https://account.blob.core.windows.net/container/my%20table/part-0.parquet" == in_parts(found.urls[0])[0]


def test_a_delegation_key_is_asked_for_once_per_hour() -> None:
    asked: list[datetime] = []

    def get_key(_begin: datetime, expiry: datetime) -> Any:
        asked.append(expiry)
        return type("Key", (), {**CLAIMS, "signed_expiry": expiry.strftime("%Y-%m-%dT%H:%M:%SZ")})

    now = [NOW_MS / 1000]
    signer = AzureUrlSigner(DelegatedSource(AZURE, RESOURCE, get_key, lambda: now[0]))
    expiries = []
    for minutes in (0, 30, 59, 61):
        now[0] = NOW_MS / 1000 + 60 * minutes
        now_ms = int(now[0] * 1000)
        expiries.append(signer.sign(["a"], expires_ms=now_ms + 30 * 86_400_000, now_ms=now_ms).expires_ms - now_ms)
        signer.sign(["a"], expires_ms=now_ms + HOUR_MS, now_ms=now_ms)

    assert 2 == len(asked)
    assert all(6 * 86_400_000 < expiry <= 7 * 86_400_000 for expiry in expiries)


@pytest.mark.parametrize(("text", "origin"), [
    ("AccountName=a;AccountKey=aw==;EndpointSuffix=core.chinacloudapi.cn", "https://a.blob.core.chinacloudapi.cn"),
    ("accountname=a;AccountKey=aw==;BlobEndpoint=https://b.example:8443/", "https://b.example:8443"),
    ("AccountName=a;AccountKey=aw==", "https://a.blob.core.windows.net"),
])  # fmt: skip
def test_a_connection_string_names_the_endpoint(text: str, origin: str) -> None:
    signing = make_azure_source("az://box/dir with space/t", {"connection_string": text})(0)

    assert origin == signing.address.origin
    assert ("/box/dir%20with%20space/t/", "/blob/a/box/dir with space/t/") == (signing.address.path, signing.resource)


def test_an_emulator_is_not_signed_for() -> None:
    with pytest.raises(CannotSign, match="emulators"):
        make_azure_source(
            "az://box/t", {"connection_string": "AccountName=a;AccountKey=aw==;BlobEndpoint=http://127.0.0.1:10000/a"}
        )


def test_a_user_delegation_key_has_the_fields_of_the_answer(azure: AzureServer) -> None:
    expected = {"SignedOid": "o", "SignedTid": "t", "SignedExpiry": "2026-11-23T00:00:00Z", "Value": "aw=="}
    body = "".join(f"<{name}>{text}</{name}>" for name, text in expected.items())
    azure.fail(
        "POST", "comp=userdelegationkey", answers(Said(200, f"<UserDelegationKey>{body}</UserDelegationKey>".encode()))
    )
    get_key = make_key_getter("az://box/t", read_azure_options({}, read_address("az://box/t"), azure.environment))

    key = get_key(datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))

    assert ("o", "t", "2026-11-23T00:00:00Z", "aw==") == (key.signed_oid, key.signed_tid, key.signed_expiry, key.value)
    assert b"<Start>2026-11-22T00:00:00Z</Start><Expiry>2026-11-23T00:00:00Z</Expiry>" in azure.requests[-1].body


# -- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("location", "options", "proxy", "expected"), [
    ("/data/t", {}, "never", Mode.LOCAL),
    ("file:///data/t", {}, "always", Mode.LOCAL),
    ("file:/data/t", {}, "never", Mode.LOCAL),
    ("s3://bucket/t", {}, "when-needed", Mode.SIGNED),
    ("s3a://bucket/t", {}, "never", Mode.SIGNED),
    ("s3://bucket/t", {}, "always", Mode.PROXIED),
    ("s3://bucket/t", {"anon": "true"}, "when-needed", Mode.PROXIED),
    ("gs://bucket/t", {"hmac_key_id": "GOOG1", "hmac_secret": "secret-of-it"}, "never", Mode.SIGNED),
    ("hdfs://host/t", {}, "when-needed", Mode.PROXIED),
    ("memory://t", {}, "when-needed", Mode.PROXIED),
])  # fmt: skip
def test_a_location_is_signed_where_its_store_can(
    location: str, options: dict[str, str], proxy: str, expected: Mode
) -> None:
    access = choose_access(location, options, proxy=proxy)

    assert expected == access.mode
    assert (expected == Mode.SIGNED) == (access.signer is not None)
    assert access.reason


def test_a_store_that_cannot_sign_is_an_error_where_the_server_must_not_proxy() -> None:
    with pytest.raises(UsageError, match=r"hdfs://host/t cannot be shared: URLs of hdfs:// cannot be signed"):
        choose_access("hdfs://host/t", {}, proxy="never")


def test_secrets_are_not_shown() -> None:
    credential = HmacCredential("key", "the-secret", "the-token")

    assert "the-" not in repr(S3Signing(AZURE, "r", credential)) + repr(AccountKey(b"the-key"))
    assert {"a": "b"} == without_signing_options({"a": "b", "hmac_secret": "the-secret"})
