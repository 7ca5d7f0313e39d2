"""Access tokens of Google for one directory: the token of the server, cut down by its token service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

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
_SECONDS = 10


def mint_token(
    directory: tuple[str, str],
    options: Mapping[str, str],
    delegation: Delegation,
    clock: Callable[[], float] = time.time,
) -> MintedCredential:
    """Return a token for a directory, which ends with the token of the server. Raises CannotMint and UsageError."""
    require_libraries("gs", *LIBRARIES)
    if len(build_boundary_expression(*directory)) > MAX_EXPRESSION_CHARACTERS:
        raise CannotMint(f"the condition of its token has more than {MAX_EXPRESSION_CHARACTERS:,} characters")
    subject, subject_ends = _own_token(options)
    asked = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": _TOKEN_TYPE,
        "requested_token_type": _TOKEN_TYPE,
        "subject_token": subject,
        "options": json.dumps(build_access_boundary(*directory)),
    }
    begun = clock()
    response = _exchange(delegation.sts_endpoint or _TOKEN_SERVICE, asked)
    token = response.get("access_token")
    lifetime = response.get("expires_in")
    if not isinstance(token, str) or not token:
        raise CannotMint("the token service of Google gave no token", is_transient=True)
    ends = begun + lifetime if isinstance(lifetime, int) and lifetime > 0 else subject_ends
    if ends is None:
        raise CannotMint("the token service of Google does not say when its token ends")
    return MintedCredential("gcpOauthToken", {"oauthToken": token}, int(ends * 1_000))


def _own_token(options: Mapping[str, str]) -> tuple[str, float | None]:
    """Return a new token of the server, and when it ends in epoch seconds."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    read = read_gcs_options({name: text for name, text in options.items() if name not in HMAC_OPTIONS})
    if read.anonymous:
        raise CannotMint("its requests are anonymous")
    try:
        credentials = GcsCredentials(read, "the table", _SCOPE).load_credentials()
        credentials.refresh(make_auth_request())
    except TransportError:
        raise CannotMint("Google Cloud cannot be reached for a token", is_transient=True) from None
    except GoogleAuthError as error:
        raise CannotMint(f"the server has no usable credentials of Google Cloud ({type(error).__name__})") from None
    ends = credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else None
    return str(credentials.token), ends


def _exchange(endpoint: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of the token service. Raises CannotMint."""
    import requests

    try:
        with make_bounded_session() as session:
            response = session.post(endpoint, data=asked, timeout=_SECONDS, allow_redirects=False)
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
