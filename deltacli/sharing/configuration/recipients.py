"""Recipients: who they are, which tokens are theirs, and what they may read."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from deltacli.sharing.configuration.bearer_tokens import digest_of
from deltacli.sharing.model import Grant
from deltacli.typing import Json
from deltacli.units import format_timestamp

_NO_DIGEST = bytes(32)


class TokenState(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is stored. `token_id` names it in commands and logs; `expires_ms` None: it does not expire."""

    token_id: str
    sha256: bytes
    created_ms: int
    expires_ms: int | None = None
    not_before_ms: int | None = None

    @property
    def epoch(self) -> int:
        """Return what URLs of files carry: the number of this token alone, from which its hash does not follow."""
        return int.from_bytes(digest_of(self.sha256.hex())[:6])

    def state(self, now_ms: int) -> TokenState:
        """Return whether the token is valid at a time."""
        if self.expires_ms is not None and now_ms >= self.expires_ms:
            return TokenState.EXPIRED
        if self.not_before_ms is not None and now_ms < self.not_before_ms:
            return TokenState.NOT_YET_VALID
        return TokenState.ACTIVE

    def as_json(self, now_ms: int) -> dict[str, Json]:
        """Return the token for documents, without its hash."""
        times = {"created": self.created_ms, "expires": self.expires_ms, "notBefore": self.not_before_ms}
        return {
            "id": self.token_id,
            "state": self.state(now_ms).value,
            **{name: value for key, ms in times.items() for name, value in _both_forms(key, ms)},
        }


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient. The epoch is that of page tokens: a recipient of the same name that is added later has another."""

    name: str
    tokens: tuple[TokenRecord, ...] = ()
    grants: tuple[Grant, ...] = ()
    epoch: int = 0
    comment: str | None = None

    def find_token(self, token_id: str) -> TokenRecord | None:
        """Return the token of this id, or None."""
        return next((token for token in self.tokens if token.token_id == token_id), None)

    def with_token(self, token: TokenRecord) -> Recipient:
        """Return the recipient with another token."""
        return replace(self, tokens=(*self.tokens, token))

    def without_tokens(self, token_ids: Iterable[str]) -> Recipient:
        """Return the recipient without these tokens."""
        dropped = set(token_ids)
        return replace(self, tokens=tuple(token for token in self.tokens if token.token_id not in dropped))

    def with_grants(self, grants: Iterable[Grant]) -> Recipient:
        """Return the recipient with more grants; those it has are not repeated."""
        known = {_folded(grant) for grant in self.grants}
        added = [grant for grant in dict.fromkeys(grants) if _folded(grant) not in known]
        return replace(self, grants=(*self.grants, *added))

    def without_grants(self, grants: Iterable[Grant]) -> Recipient:
        """Return the recipient without these grants."""
        dropped = {_folded(grant) for grant in grants}
        return replace(self, grants=tuple(grant for grant in self.grants if _folded(grant) not in dropped))

    def has_grant(self, grant: Grant) -> bool:
        """Return True if exactly this grant is present."""
        return _folded(grant) in {_folded(own) for own in self.grants}

    def as_json(self, now_ms: int) -> dict[str, Json]:
        """Return the recipient for documents, without hashes."""
        return {
            "name": self.name,
            **({"comment": self.comment} if self.comment is not None else {}),
            "grants": [spelled(grant) for grant in self.grants],
            "tokens": [token.as_json(now_ms) for token in self.tokens],
        }


class Identity(NamedTuple):
    """Who presented a token, and the token."""

    recipient: Recipient
    token: TokenRecord


@dataclass(frozen=True)
class Recipients:
    """All recipients, in the order of the file."""

    items: tuple[Recipient, ...] = ()

    def find(self, name: str) -> Recipient | None:
        """Return the recipient of this name, or None. Names ignore case."""
        return self._by_name.get(name.casefold())

    def authenticate(self, token: str, now_ms: int) -> Identity | None:
        """Return who a valid token belongs to, None for an unknown, expired or not yet valid one."""
        found = self.find_token(token)
        return found if found is not None and found.token.state(now_ms) is TokenState.ACTIVE else None

    def find_token(self, token: str) -> Identity | None:
        """Return whose token this is, valid or not.

        Takes the same time for a wrong token, however much of it is right: what is looked up and compared is its hash,
        of which nobody can choose a part.
        """
        digest = digest_of(token)
        found = self._by_digest.get(digest)
        expected = _NO_DIGEST if found is None else found.token.sha256
        return found if hmac.compare_digest(digest, expected) else None

    def put(self, recipient: Recipient) -> Recipients:
        """Return the recipients with this one in place of the one of the same name, or at the end."""
        key = recipient.name.casefold()
        if key not in self._by_name:
            return Recipients((*self.items, recipient))
        return Recipients(tuple(recipient if one.name.casefold() == key else one for one in self.items))

    def without(self, name: str) -> Recipients:
        """Return the recipients without the one of this name."""
        return Recipients(tuple(one for one in self.items if one.name.casefold() != name.casefold()))

    @cached_property
    def _by_name(self) -> Mapping[str, Recipient]:
        return {recipient.name.casefold(): recipient for recipient in self.items}

    @cached_property
    def _by_digest(self) -> Mapping[bytes, Identity]:
        return {token.sha256: Identity(one, token) for one in self.items for token in one.tokens}


def spelled(grant: Grant) -> str:
    """Return a grant as commands accept it: `share`, `share/schema` or `share/schema/table`.

    A slash separates the names because those of shares may contain dots.
    """
    return "/".join(part for part in (grant.share, grant.schema, grant.table) if part is not None)


def _folded(grant: Grant) -> Sequence[str | None]:
    return tuple(None if part is None else part.casefold() for part in (grant.share, grant.schema, grant.table))


def _both_forms(name: str, ms: int | None) -> list[tuple[str, int | str]]:
    return [] if ms is None else [(f"{name}Ms", ms), (name, format_timestamp(ms))]
