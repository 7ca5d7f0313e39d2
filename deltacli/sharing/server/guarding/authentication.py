"""Who asks: the bearer token of a request, or the recipient that a signed URL was made for."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.sharing.configuration.recipients import Recipient, TokenRecord, TokenState
from deltacli.sharing.server.guarding.refusals import token_missing, token_refused, url_revoked
from deltacli.sharing.server.guarding.serving_state import EVERYONE, ServingState
from deltacli.sharing.server.ports import Access, Caller

_LONGEST_TOKEN = 4_096


def authenticate(headers: Iterable[tuple[bytes, bytes]], state: ServingState, now_ms: int) -> Access:
    """Return the access of the bearer of a token. Raises WireError (401)."""
    if state.is_open:
        return Access(Caller(EVERYONE), state.configuration.catalog)
    token = bearer_token(headers)
    found = state.find_token(token)
    if found is None:
        raise token_refused()
    validity = found.token.state(now_ms)
    if validity is not TokenState.ACTIVE:
        is_over = validity is TokenState.EXPIRED
        raise token_refused(validity, found.token.expires_ms if is_over else found.token.not_before_ms)
    return _access(state, found.recipient, found.token)


def authorize_url(name: str, token_epoch: int, state: ServingState, now_ms: int) -> Access:
    """Return the access of the token that a signed URL was made with. Raises WireError (403) where the token is no
    longer valid, or its recipient was removed.
    """
    if state.is_open and name == EVERYONE:
        return Access(Caller(EVERYONE), state.configuration.catalog)
    recipient = state.find_recipient(name)
    tokens = () if recipient is None else recipient.tokens
    token = next((one for one in tokens if one.epoch == token_epoch), None)
    if recipient is None or token is None or token.state(now_ms) is not TokenState.ACTIVE:
        raise url_revoked()
    return _access(state, recipient, token)


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the token of a request. Raises WireError (401) where there is none, or more than one."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        raise token_missing()
    scheme, _, token = values[0].strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        raise token_missing()
    if len(token) > _LONGEST_TOKEN or not token.isascii() or b" " in token:
        raise token_refused()
    return token.decode("ascii")


def _access(state: ServingState, recipient: Recipient, token: TokenRecord) -> Access:
    caller = Caller(recipient.name, recipient.epoch, token.expires_ms, token.token_id, token.epoch)
    return Access(caller, state.catalog_of(recipient))
