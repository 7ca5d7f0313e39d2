"""What URLs of Google Cloud Storage are signed with, and tokens of the server, cut to a directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any
from urllib.parse import quote

from deltacli.core.typing import GoogleAuth
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.gcs.credentials import GcsCredentials, missing_credentials, read_gcs_options, request_of
from deltacli.storage.gcs.store import LIBRARIES
from deltacli.storage.objects.http import bounded_session
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.signing import values

HMAC_OPTIONS = ("hmac_key_id", "hmac_secret")
"""Storage options for signing only: an HMAC key of a service account."""
_ENDPOINT = "https://storage.googleapis.com"


def gcs_source(uri: str, options: Mapping[str, str]) -> values.GcsSource:
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
        credentials = source.google()
        signer = getattr(credentials, "signer", None)
        if isinstance(signer, crypt.Signer):
            return values.BlobSigner(credentials.signer_email, signer.sign, is_remote=False)
        email, sign = _remote(credentials)
    except exceptions.GoogleAuthError as fault:
        raise missing_credentials(fault, uri) from None

    def translated(text: bytes) -> bytes:
        try:
            return bytes(sign(text))
        except exceptions.GoogleAuthError as fault:
            raise missing_credentials(fault, uri) from None

    return values.BlobSigner(email, translated, is_remote=True)


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
        raise values.CannotSign("its credentials are not those of a service account")
    return email, iam.Signer(request, credentials, email).sign


# -- access tokens for a directory -------------------------------------------------------------------------------------

_TOKEN_SERVICE = "https://sts.googleapis.com/v1/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
_SECONDS = 10


def mint_token(
    place: tuple[str, str],
    options: Mapping[str, str],
    delegation: values.Delegation,
    clock: Callable[[], float] = time.time,
) -> values.Minted:
    """Return a token for a directory, which ends with the token of the server. Raises CannotMint and UsageError."""
    require_libraries("gs", *LIBRARIES)
    if len(values.boundary_expression(*place)) > values.LONGEST_EXPRESSION:
        raise values.CannotMint(f"the condition of its token has more than {values.LONGEST_EXPRESSION:,} characters")
    subject, subject_ends = _own_token(options)
    asked = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": _TOKEN_TYPE,
        "requested_token_type": _TOKEN_TYPE,
        "subject_token": subject,
        "options": json.dumps(values.access_boundary(*place)),
    }
    begun = clock()
    answer = _exchange(delegation.sts_endpoint or _TOKEN_SERVICE, asked)
    token, lifetime = answer.get("access_token"), answer.get("expires_in")
    if not isinstance(token, str) or not token:
        raise values.CannotMint("the token service of Google gave no token", is_transient=True)
    ends = begun + lifetime if isinstance(lifetime, int) and lifetime > 0 else subject_ends
    if ends is None:
        raise values.CannotMint("the token service of Google does not say when its token ends")
    return values.Minted("gcpOauthToken", {"oauthToken": token}, int(ends * 1_000))


def _own_token(options: Mapping[str, str]) -> tuple[str, float | None]:
    """Return a new token of the server, and when it ends in epoch seconds."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    read = read_gcs_options({name: text for name, text in options.items() if name not in HMAC_OPTIONS})
    if read.anonymous:
        raise values.CannotMint("its requests are anonymous")
    try:
        credentials = GcsCredentials(read, "the table", _SCOPE).google()
        credentials.refresh(request_of())
    except TransportError:
        raise values.CannotMint("Google Cloud cannot be reached for a token", is_transient=True) from None
    except GoogleAuthError as fault:
        raise values.CannotMint(
            f"the server has no usable credentials of Google Cloud ({type(fault).__name__})"
        ) from None
    ends = credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else None
    return str(credentials.token), ends


def _exchange(endpoint: str, asked: Mapping[str, str]) -> dict[str, Any]:
    import requests

    try:
        with bounded_session() as session:
            answer = session.post(endpoint, data=asked, timeout=_SECONDS, allow_redirects=False)
            status, content = answer.status_code, answer.content
    except (requests.RequestException, OSError) as fault:
        name = type(fault).__name__
        raise values.CannotMint(f"the token service of Google cannot be reached ({name})", is_transient=True) from None
    if status != 200:
        raise values.CannotMint(
            f"the token service of Google answered {status}", is_transient=status == 429 or status >= 500
        )
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise values.CannotMint("the answer of the token service of Google is not JSON", is_transient=True)
    return found
