"""Temporary credentials for one directory in Google Cloud Storage.

The security token service of Google exchanges the access token of the server for a token that an access boundary
restricts to the directory. The new token expires together with the token of the server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, NamedTuple

from deltacli.storage.gcs.credentials import GcsCredentials, make_auth_request
from deltacli.storage.gcs.options import read_gcs_options
from deltacli.storage.gcs.store import LIBRARIES
from deltacli.storage.libraries import require_libraries
from deltacli.storage.objects.bounded_reading import make_bounded_session
from deltacli.storage.signing.delegation import CannotMint, Delegation, MintedCredential
from deltacli.storage.signing.gcs import HMAC_OPTIONS
from deltacli.storage.signing.policies import (
    MAX_EXPRESSION_CHARACTERS,
    build_access_boundary,
    build_boundary_expression,
)

_TOKEN_SERVICE = "https://sts.googleapis.com/v1/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"
_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
_TIMEOUT_SECONDS = 10


def mint_token(
    directory: tuple[str, str],
    options: Mapping[str, str],
    delegation: Delegation,
    clock: Callable[[], float] = time.time,
) -> MintedCredential:
    """Request an access token for one directory.

    Args:
        directory: The bucket and the prefix of the directory.
        options: The storage options of the server.
        delegation: The URL of the token service.
        clock: Returns the time in epoch seconds.

    Raises:
        CannotMint: If the token service refuses the request, or cannot be reached.
        UsageError: If an option is invalid.
    """
    require_libraries("gs", *LIBRARIES)
    bucket, prefix = directory
    if len(build_boundary_expression(bucket, prefix)) > MAX_EXPRESSION_CHARACTERS:
        raise CannotMint(f"the condition of its token has more than {MAX_EXPRESSION_CHARACTERS:,} characters")

    server_token = _request_server_token(options)
    parameters = {
        "grant_type": _GRANT_TYPE,
        "subject_token_type": _TOKEN_TYPE,
        "requested_token_type": _TOKEN_TYPE,
        "subject_token": server_token.token,
        "options": json.dumps(build_access_boundary(bucket, prefix)),
    }
    requested_at = clock()
    response = _exchange_token(delegation.sts_endpoint or _TOKEN_SERVICE, parameters)
    token = response.get("access_token")
    if not isinstance(token, str) or not token:
        raise CannotMint("the token service of Google gave no token", is_transient=True)

    lifetime_seconds = response.get("expires_in")
    if isinstance(lifetime_seconds, int) and lifetime_seconds > 0:
        expires_at: float | None = requested_at + lifetime_seconds
    else:
        expires_at = server_token.expires_at
    if expires_at is None:
        raise CannotMint("the token service of Google does not say when its token ends")
    return MintedCredential("gcpOauthToken", {"oauthToken": token}, int(expires_at * 1_000))


class _ServerToken(NamedTuple):
    """An access token of the server.

    Attributes:
        token: The token.
        expires_at: The expiry in epoch seconds; None if it is unknown.
    """

    token: str
    expires_at: float | None


def _request_server_token(options: Mapping[str, str]) -> _ServerToken:
    """Request a new access token for the server itself.

    Raises:
        CannotMint: If the server has no usable credentials, or if Google Cloud cannot be reached.
        UsageError: If an option is invalid.
    """
    from google.auth.exceptions import GoogleAuthError, TransportError

    gcs_options = read_gcs_options({name: text for name, text in options.items() if name not in HMAC_OPTIONS})
    if gcs_options.anonymous:
        raise CannotMint("its requests are anonymous")
    try:
        credentials = GcsCredentials(gcs_options, "the table", _SCOPE).load_credentials()
        credentials.refresh(make_auth_request())
    except TransportError:
        raise CannotMint("Google Cloud cannot be reached for a token", is_transient=True) from None
    except GoogleAuthError as error:
        raise CannotMint(f"the server has no usable credentials of Google Cloud ({type(error).__name__})") from None

    # google-auth returns a UTC time without time zone.
    expires_at = credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else None
    return _ServerToken(str(credentials.token), expires_at)


def _exchange_token(endpoint: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Send a request to the token service, and return the JSON object of its response.

    Raises:
        CannotMint: If there is no response, or if it is not successful.
    """
    import requests

    try:
        with make_bounded_session() as session:
            response = session.post(endpoint, data=parameters, timeout=_TIMEOUT_SECONDS, allow_redirects=False)
            status = response.status_code
            content = response.content
    except (requests.RequestException, OSError) as error:
        name = type(error).__name__
        raise CannotMint(f"the token service of Google cannot be reached ({name})", is_transient=True) from None

    if status != 200:
        raise CannotMint(f"the token service of Google answered {status}", is_transient=status == 429 or status >= 500)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise CannotMint("the answer of the token service of Google is not JSON", is_transient=True)
    return document
