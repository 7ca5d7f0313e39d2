"""The keys that URLs of Google Cloud Storage are signed with."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from deltacli.core.typing import GoogleAuth
from deltacli.storage.gcs.credentials import GcsCredentials, build_credentials_error, make_auth_request
from deltacli.storage.gcs.options import read_gcs_options
from deltacli.storage.gcs.store import LIBRARIES
from deltacli.storage.libraries import require_libraries
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.signing import values

HMAC_OPTIONS = ("hmac_key_id", "hmac_secret")
"""Storage options for signing only: an HMAC key of a service account."""
_ENDPOINT = "https://storage.googleapis.com"


def make_gcs_source(uri: str, options: Mapping[str, str]) -> values.GcsSource:
    """Return the source of signatures for a location. Raises CannotSign, and what opening the store raises."""
    others = {name: value for name, value in options.items() if name not in HMAC_OPTIONS}
    key_id, secret = (options.get(name, "").strip() for name in HMAC_OPTIONS)
    bucket, _, root = uri.partition("://")[2].rstrip("/").partition("/")
    path = "/".join(quote(part, safe="/~") for part in (bucket, root) if part)
    address = values.ObjectAddress(options.get("endpoint_url", "").rstrip("/") or _ENDPOINT, f"/{path}/")
    if key_id and secret:
        remember_secrets({"hmac_secret": secret})
        return lambda: values.GcsSigning(address, values.HmacCredential(key_id, secret))
    read = read_gcs_options(others)
    if read.anonymous:
        raise values.CannotSign("its requests are anonymous")
    require_libraries(uri.partition("://")[0], *LIBRARIES)
    signer = _signer(uri, GcsCredentials(read, uri))
    return lambda: values.GcsSigning(address, signer)


def _signer(uri: str, source: GcsCredentials) -> values.BlobSigner:
    """Return the signer of a service account: its private key, or the signBlob request of the cloud."""
    from google.auth import crypt, exceptions

    try:
        credentials = source.load_credentials()
        signer = getattr(credentials, "signer", None)
        if isinstance(signer, crypt.Signer):
            return values.BlobSigner(credentials.signer_email, signer.sign, is_remote=False)
        email, sign = _remote(credentials)
    except exceptions.GoogleAuthError as error:
        raise build_credentials_error(error, uri) from None

    def translated(text: bytes) -> bytes:
        try:
            return bytes(sign(text))
        except exceptions.GoogleAuthError as error:
            raise build_credentials_error(error, uri) from None

    return values.BlobSigner(email, translated, is_remote=True)


def _remote(credentials: GoogleAuth) -> tuple[str, GoogleAuth]:
    """Return the service account of credentials without a private key, and how they sign. Raises CannotSign."""
    from google.auth import iam

    if hasattr(credentials, "sign_bytes"):  # an impersonated service account
        return credentials.signer_email, credentials.sign_bytes
    request = make_auth_request()
    if not getattr(credentials, "valid", True):
        credentials.refresh(request)  # a machine of the cloud knows its account only after that
    email = getattr(credentials, "service_account_email", None)
    if not email or "@" not in email:
        raise values.CannotSign("its credentials are not those of a service account")
    return email, iam.Signer(request, credentials, email).sign
