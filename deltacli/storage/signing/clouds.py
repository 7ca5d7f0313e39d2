"""What URLs of S3, Google Cloud Storage and Azure Blob Storage are signed with, by the credentials of each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from deltacli.core.errors import CredentialsMissing
from deltacli.core.typing import Botocore, GoogleAuth
from deltacli.storage.azure.credentials import AzureOptions, decoded_key, read_address, read_azure_options
from deltacli.storage.azure.store import open_azure
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.gcs.credentials import GcsCredentials, missing_credentials, read_gcs_options, request_of
from deltacli.storage.gcs.store import LIBRARIES
from deltacli.storage.retry import Retry
from deltacli.storage.s3.options import S3Options, make_client, make_session, read_s3_options
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.signing.values import (
    AccountKey,
    AzureSigning,
    AzureSource,
    BlobSigner,
    CannotSign,
    DelegationKey,
    GcsSigning,
    GcsSource,
    HmacCredential,
    ObjectAddress,
    S3Signing,
)

# -- what S3 URLs of a table are signed with ---------------------------------------------------------------------------

_PROBE = "probe"
_KEY_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def s3_source(uri: str, options: Mapping[str, str]) -> S3SigningSource:
    """Return the source of signatures for a location. Raises CannotSign for anonymous access, UsageError."""
    require_libraries(uri.partition("://")[0], "botocore.session")
    read = read_s3_options(options)
    if read.anonymous:
        raise CannotSign("its requests are anonymous (storage option anon)")
    return S3SigningSource(uri, read)


class S3SigningSource:
    """Looks up address, region and credentials on first use, and asks for current credentials each time."""

    def __init__(self, uri: str, options: S3Options) -> None:
        self._uri = uri.rstrip("/")
        self._bucket, _, self._root = self._uri.partition("://")[2].partition("/")
        self._options = replace(options, config={**options.config, "signature_version": "s3v4"})
        self._lock = Lock()
        self._opened: tuple[ObjectAddress, str, Botocore] | None = None

    def __call__(self) -> S3Signing:
        """Return what to sign with now. Raises StorageFailed and UsageError."""
        from deltacli.storage.s3.faults import FAULTS, translate_boto

        try:
            with self._lock:
                if self._opened is None:
                    self._opened = self._open()
            address, region, credentials = self._opened
            frozen = credentials.get_frozen_credentials()
        except FAULTS as fault:
            error = translate_boto(fault, self._uri, "signed", self._options)
            raise error from error.__cause__
        expiry = getattr(credentials, "_expiry_time", None)
        credential = HmacCredential(
            frozen.access_key, frozen.secret_key, frozen.token, int(expiry.timestamp() * 1000) if expiry else None
        )
        payer = (("x-amz-request-payer", "requester"),) if self._options.requester_pays else ()
        return S3Signing(address, region, credential, payer)

    def _open(self) -> tuple[ObjectAddress, str, Any]:
        options, session = self._options, make_session(self._options)
        credentials = self._given(session) or session.get_credentials()
        if credentials is None:
            raise CredentialsMissing(
                f"URLs of {self._uri} cannot be signed: no usable AWS credentials",
                hint="export AWS_PROFILE=NAME for the server",
            )
        client = make_client(options, session)
        if "endpoint_url" not in options.client and (region := self._region_of_bucket(client)):
            options = replace(options, client={**options.client, "region_name": region})
            client = make_client(options, session)
        return (*self._address(client), credentials)

    def _given(self, session: Botocore) -> Botocore:
        """Return the credentials of the storage options."""
        import botocore.credentials

        key, secret, token = (self._options.client.get(name) for name in _KEY_NAMES)
        if not (key and secret):
            return None
        session.set_credentials(key, secret, token)
        return botocore.credentials.Credentials(key, secret, token)

    def _region_of_bucket(self, client: Any) -> str | None:
        """Return the region of the bucket: a URL that is signed for another one is refused. None if it is not known,
        or the same.
        """
        from deltacli.storage.s3.faults import FAULTS

        answer: Mapping[str, Any] = {}
        try:
            answer = client.head_bucket(Bucket=self._bucket)
        except FAULTS as fault:
            answer = getattr(fault, "response", answer)
        region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        return region if isinstance(region, str) and region != client.meta.region_name else None

    def _address(self, client: Any) -> tuple[ObjectAddress, str]:
        """Return the URL of the table and the region of its signatures, as botocore makes them for one object."""
        url = urlsplit(client.generate_presigned_url("get_object", {"Bucket": self._bucket, "Key": _PROBE}, 60))
        scope = parse_qs(url.query)["X-Amz-Credential"][0].split("/")
        root = quote(self._root, safe="/~")
        path = url.path.removesuffix(_PROBE) + (f"{root}/" if root else "")
        default = {"http": ":80", "https": ":443"}.get(url.scheme, "")  # which the Host header does not have
        return ObjectAddress(f"{url.scheme}://{url.netloc.removesuffix(default)}", path), scope[-3]


# -- what URLs of Google Cloud Storage are signed with -----------------------------------------------------------------

HMAC_OPTIONS = ("hmac_key_id", "hmac_secret")
"""Storage options for signing only: an HMAC key of a service account."""
_ENDPOINT = "https://storage.googleapis.com"


def gcs_source(uri: str, options: Mapping[str, str]) -> GcsSource:
    """Return the source of signatures for a location.

    Raises CannotSign for credentials that cannot sign, and what opening the store raises.
    """
    others = {name: value for name, value in options.items() if name not in HMAC_OPTIONS}
    key_id, secret = (options.get(name, "").strip() for name in HMAC_OPTIONS)
    address = _address(uri, options.get("endpoint_url", ""))
    if key_id and secret:
        remember_secrets({"hmac_secret": secret})
        return lambda: GcsSigning(address, HmacCredential(key_id, secret))
    read = read_gcs_options(others)
    if read.anonymous:
        raise CannotSign("its requests are anonymous")
    require_libraries(uri.partition("://")[0], *LIBRARIES)
    signer = _signer(uri, GcsCredentials(read, uri))
    return lambda: GcsSigning(address, signer)


def _address(uri: str, endpoint: str) -> ObjectAddress:
    bucket, _, root = uri.partition("://")[2].rstrip("/").partition("/")
    path = "/".join(quote(part, safe="/~") for part in (bucket, root) if part)
    return ObjectAddress(endpoint.rstrip("/") or _ENDPOINT, f"/{path}/")


def _signer(uri: str, source: GcsCredentials) -> BlobSigner:
    """Return the signer of a service account: its private key, or the signBlob request of the cloud."""
    from google.auth import crypt, exceptions

    try:
        credentials = source.google()
        signer = getattr(credentials, "signer", None)
        if isinstance(signer, crypt.Signer):
            return BlobSigner(credentials.signer_email, signer.sign, is_remote=False)
        email, sign = _remote(credentials)
    except exceptions.GoogleAuthError as fault:
        raise missing_credentials(fault, uri) from None

    def translated(text: bytes) -> bytes:
        try:
            return bytes(sign(text))
        except exceptions.GoogleAuthError as fault:
            raise missing_credentials(fault, uri) from None

    return BlobSigner(email, translated, is_remote=True)


def _remote(credentials: GoogleAuth) -> tuple[str, GoogleAuth]:
    """Return the service account of credentials without a private key, and how they sign. Raises CannotSign."""
    from google.auth import iam

    if hasattr(credentials, "sign_bytes"):  # an impersonated service account
        return credentials.signer_email, credentials.sign_bytes
    request = request_of()
    if not getattr(credentials, "valid", True):
        credentials.refresh(request)  # a machine of the cloud knows its account only after that
    email = getattr(credentials, "service_account_email", None)
    if not email or "@" not in email:
        raise CannotSign("its credentials are not those of a service account")
    return email, iam.Signer(request, credentials, email).sign


# -- what URLs of Azure Blob Storage are signed with -------------------------------------------------------------------

_LONGEST_MS = 7 * 86_400_000 - 3_600_000
"""A user delegation key is valid for 7 days at the most."""
_SPARE_MS = 3_600_000
"""A key is asked for an hour longer than needed, and so once per hour."""

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_WORD = re.compile(r"(?<=[a-z])[A-Z]")

GetKey = Callable[[datetime, datetime], Any]  # Any: an object with the fields of a UserDelegationKey
"""Returns a user delegation key that is valid from one time to another."""


def azure_source(uri: str, options: Mapping[str, str]) -> AzureSource:
    """Return the source of signatures for a location.

    Raises CannotSign for credentials that cannot sign, and what opening the store raises.
    """
    address = read_address(uri)
    read = read_azure_options(options, address)
    root = "/".join(part for part in (address.container, address.root) if part)
    parts = urlsplit(read.endpoint)
    if parts.path.strip("/"):
        raise CannotSign("its endpoint has the account in the path, as emulators do")
    place = ObjectAddress(f"{parts.scheme}://{parts.netloc}", f"/{quote(root, safe='/~')}/")
    resource = f"/blob/{read.account}/{root}/"
    if read.used in ("none", "signature"):
        raise CannotSign("its credentials are a shared access signature, or none")
    if read.used == "key":
        signing = AzureSigning(place, resource, AccountKey(decoded_key(read.account_key)))
        return lambda _expires_ms: signing
    open_azure(uri, options)  # which needs the extra
    return DelegatedSource(place, resource, _get_key(uri, read))


class DelegatedSource:
    """Signs with a user delegation key, which is asked for again before it expires."""

    def __init__(
        self, address: ObjectAddress, resource: str, get_key: GetKey, clock: Callable[[], float] = time.time
    ) -> None:
        self._address, self._resource = address, resource
        self._get_key, self._clock = get_key, clock
        self._lock = Lock()
        self._key: DelegationKey | None = None

    def __call__(self, expires_ms: int) -> AzureSigning:
        """Return what to sign with until a time, or until the latest time that a key may have."""
        with self._lock:
            latest_ms = int(self._clock() * 1000) + _LONGEST_MS
            if self._key is None or self._key.expires_ms < min(expires_ms, latest_ms):
                wanted_ms = min(expires_ms, latest_ms) + _SPARE_MS
                begin = datetime.fromtimestamp(self._clock(), UTC)
                self._key = _delegation_key(self._get_key(begin, datetime.fromtimestamp(wanted_ms // 1000, UTC)))
            return AzureSigning(self._address, self._resource, self._key)


def _delegation_key(key: Any) -> DelegationKey:
    claims = {
        "skoid": key.signed_oid,
        "sktid": key.signed_tid,
        "skt": key.signed_start,
        "ske": key.signed_expiry,
        "sks": key.signed_service,
        "skv": key.signed_version,
    }
    expires = datetime.fromisoformat(str(key.signed_expiry).replace("Z", "+00:00"))
    return DelegationKey({name: str(value) for name, value in claims.items()}, decoded_key(key.value),
                         int(expires.timestamp() * 1000))  # fmt: skip


def _get_key(uri: str, options: AzureOptions) -> GetKey:
    """Return how a user delegation key is asked for. Spec: Get User Delegation Key."""

    def get_key(begin: datetime, expiry: datetime) -> SimpleNamespace:
        from deltacli.storage.azure.credentials import AzureCredentials
        from deltacli.storage.azure.store import DIALECT, AzureCalls
        from deltacli.storage.objects.http import HttpFault, translate_fault

        calls = AzureCalls("", options, AzureCredentials(options, uri), Retry())
        span = "".join(f"<{name}>{moment:{_TIME}}</{name}>" for name, moment in (("Start", begin), ("Expiry", expiry)))
        try:
            return _key_of(calls.delegation_key(f"<KeyInfo>{span}</KeyInfo>".encode()))
        except HttpFault as fault:
            error = translate_fault(fault, uri, "signed for", DIALECT, calls.endpoint, calls.identity)
            raise error from error.__cause__

    return get_key


def _key_of(fields: Mapping[str, str]) -> SimpleNamespace:
    """Return a key from the elements of an answer, such as SignedOid, by the names that Python gives them."""
    return SimpleNamespace(**{_WORD.sub(r"_\g<0>", name).lower(): text for name, text in fields.items()})
