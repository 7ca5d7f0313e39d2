"""The keys for presigned URLs of Google Cloud Storage: HMAC keys and service accounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

from deltacli.core.typing import GoogleAuth
from deltacli.storage.gcs.credentials import GcsCredentials, build_credentials_error, make_auth_request
from deltacli.storage.gcs.options import read_gcs_options
from deltacli.storage.gcs.store import LIBRARIES
from deltacli.storage.libraries import require_libraries
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.signing import values

HMAC_OPTIONS = ("hmac_key_id", "hmac_secret")
"""Storage options with an HMAC key of a service account. They are used for signing only."""

_ENDPOINT = "https://storage.googleapis.com"


def make_gcs_source(uri: str, options: Mapping[str, str]) -> values.GcsSource:
    """Return the source of keys for a table.

    Args:
        uri: The URI of the directory of the table.
        options: The storage options. An HMAC key takes precedence over a service account.

    Raises:
        CannotSign: If the credentials cannot sign.
        CredentialsMissing: If google-auth finds no usable credentials.
        UsageError: If an option is invalid.
    """
    bucket, _, root = uri.partition("://")[2].rstrip("/").partition("/")
    path = "/".join(quote(part, safe="/~") for part in (bucket, root) if part)
    address = values.ObjectAddress(options.get("endpoint_url", "").rstrip("/") or _ENDPOINT, f"/{path}/")

    key_id, secret = (options.get(name, "").strip() for name in HMAC_OPTIONS)
    if key_id and secret:
        remember_secrets({"hmac_secret": secret})
        return lambda: values.GcsSigning(address, values.HmacCredential(key_id, secret))

    gcs_options = read_gcs_options({name: value for name, value in options.items() if name not in HMAC_OPTIONS})
    if gcs_options.anonymous:
        raise values.CannotSign("its requests are anonymous")
    require_libraries(uri.partition("://")[0], *LIBRARIES)
    signer = _make_signer(uri, GcsCredentials(gcs_options, uri))
    return lambda: values.GcsSigning(address, signer)


def _make_signer(uri: str, gcs_credentials: GcsCredentials) -> values.BlobSigner:
    """Return the signer of a service account.

    It signs with the private key if the credentials contain one, and otherwise with `signBlob` requests.

    Raises:
        CannotSign: If the credentials are not those of a service account.
        CredentialsMissing: If google-auth finds no usable credentials.
    """
    from google.auth import crypt, exceptions

    try:
        credentials = gcs_credentials.load_credentials()
        signer = getattr(credentials, "signer", None)
        if isinstance(signer, crypt.Signer):
            return values.BlobSigner(credentials.signer_email, signer.sign, is_remote=False)
        remote_signer = _find_remote_signer(credentials)
    except exceptions.GoogleAuthError as error:
        raise build_credentials_error(error, uri) from None

    def sign(text: bytes) -> bytes:
        try:
            return bytes(remote_signer.sign(text))
        except exceptions.GoogleAuthError as error:
            raise build_credentials_error(error, uri) from None

    return values.BlobSigner(remote_signer.email, sign, is_remote=True)


class _RemoteSigner(NamedTuple):
    """A service account whose private key remains in Google Cloud.

    Attributes:
        email: The address of the service account.
        sign: Sends a `signBlob` request, and returns the signature.
    """

    email: str
    sign: Callable[[bytes], bytes]


def _find_remote_signer(credentials: GoogleAuth) -> _RemoteSigner:
    """Return the signer for credentials without a private key.

    Raises:
        CannotSign: If the credentials are not those of a service account.
        GoogleAuthError: If the credentials cannot be refreshed.
    """
    from google.auth import iam

    # Credentials of an impersonated service account sign by themselves.
    if hasattr(credentials, "sign_bytes"):
        return _RemoteSigner(credentials.signer_email, credentials.sign_bytes)

    request = make_auth_request()
    if not getattr(credentials, "valid", True):
        # On a virtual machine, the address of the service account is known only after a refresh.
        credentials.refresh(request)
    email = getattr(credentials, "service_account_email", None)
    if not email or "@" not in email:
        raise values.CannotSign("its credentials are not those of a service account")
    return _RemoteSigner(email, iam.Signer(request, credentials, email).sign)
