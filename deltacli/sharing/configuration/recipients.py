"""Recipients: who they are, which tokens are theirs, what they may read, and changes of that.

Their file is JSON with hashes of tokens, changed by one writer at a time, read at any time.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, NoReturn

from deltacli.core.documents import dumps
from deltacli.core.errors import Refused, UsageError, command, nearest_name, parameter, quote_word
from deltacli.core.lock_free_property import cached_property
from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json
from deltacli.sharing.configuration.fields import fault_in_name
from deltacli.sharing.configuration.secrets import create_token, digest_token, locked, write_private
from deltacli.sharing.model import Catalog, Grant, Share

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
        return int.from_bytes(digest_token(self.sha256.hex())[:6])

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

    def find_token(self, token: str) -> Identity | None:
        """Return whose token this is, valid or not.

        Takes the same time for a wrong token, however much of it is right: what is looked up and compared is its hash,
        of which nobody can choose a part.
        """
        digest = digest_token(token)
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


VERSION = 1
CODE = "share.recipients"


def read_recipients(path: Path) -> Recipients:
    """Return the recipients of a file. Raises UsageError, which never has a hash, also where it does not exist."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as fault:
        raise UsageError(
            f"the file of recipients {path} does not exist",
            code=CODE,
            hint=command("share recipient add", "NAME", config="shares.yaml"),
        ) from fault
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or "invalid path").lower()
        raise UsageError(
            f"the file of recipients {path} cannot be read: {reason}", code=CODE, hint=f"ls -l {quote_word(str(path))}"
        ) from fault
    return parse_recipients(data, str(path))


def parse_recipients(data: bytes, name: str) -> Recipients:
    """Return the recipients of a text; `name` is that of its file in messages. Raises UsageError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(
            f"the file of recipients {name} is not JSON", code=CODE, hint=f"python3 -m json.tool {quote_word(name)}"
        ) from None
    return _Reader(name).read(document)


def encode_recipients(recipients: Recipients) -> bytes:
    """Return the content of a file."""
    items = [_encode(recipient) for recipient in recipients.items]
    return dumps({"version": VERSION, "recipients": items}, indent=True) + b"\n"


def change_recipients(
    path: Path,
    change: Callable[[Recipients], Recipients],
    *,
    may_create: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> Recipients:
    """Apply a change to the newest content of a file, which no other writer changes meanwhile, and return the result.

    Readers see the old or the new file, never a part. The file gets mode 0600. Raises what `change` raises, with the
    file unchanged; UsageError for a file that is damaged, or missing unless it `may_create` one; StorageFailed where
    it cannot be written, or another writer does not finish.
    """
    with locked(path, pause):
        is_new = may_create and not os.path.lexists(path)
        before = Recipients() if is_new else read_recipients(path)
        after = change(before)
        if after != before or is_new:
            write_private(path, encode_recipients(after))
        return after


def _encode(recipient: Recipient) -> dict[str, Json]:
    return {
        "name": recipient.name,
        **({"comment": recipient.comment} if recipient.comment is not None else {}),
        "epoch": recipient.epoch,
        "tokens": [_encode_token(token) for token in recipient.tokens],
        "grants": [_encode_grant(grant) for grant in recipient.grants],
    }


def _encode_token(token: TokenRecord) -> dict[str, Json]:
    times = {"expiresMs": token.expires_ms, "notBeforeMs": token.not_before_ms}
    return {
        "id": token.token_id,
        "sha256": token.sha256.hex(),
        "createdMs": token.created_ms,
        **{name: value for name, value in times.items() if value is not None},
    }


def _encode_grant(grant: Grant) -> dict[str, str]:
    parts = {"share": grant.share, "schema": grant.schema, "table": grant.table}
    return {name: value for name, value in parts.items() if value is not None}


class _Reader:
    """Reads a document. Unknown keys are errors: a misspelt `expiresMs` must not become a token without an end."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, document: object) -> Recipients:
        top = self._object(document, "the file", {"version", "recipients"})
        if top.get("version") != VERSION:
            self._fail(f"has version {top.get('version')!r}, and {VERSION} is expected")
        items = tuple(self._recipient(item) for item in self._list(top.get("recipients"), "recipients"))
        found = Recipients(items)
        names = [one.name.casefold() for one in items]
        digests = [token.sha256 for one in items for token in one.tokens]
        if len(set(names)) < len(names):
            self._fail("has two recipients of one name")
        if len(set(digests)) < len(digests):
            self._fail("has one token twice")
        return found

    def _recipient(self, value: object) -> Recipient:
        item = self._object(value, "a recipient", {"name", "comment", "epoch", "tokens", "grants"})
        name = self._text(item, "name", "a recipient")
        if reason := fault_in_name(name, may_have_dots=True):
            self._fail(f"has the recipient {name[:60]!r}: {reason}")
        where = f"the recipient {name}"
        tokens = tuple(self._token(token, where) for token in self._list(item.get("tokens"), f"tokens of {where}"))
        if len({token.token_id for token in tokens}) < len(tokens):
            self._fail(f"has two tokens of one id at {where}")
        grants = tuple(self._grant(grant, where) for grant in self._list(item.get("grants"), f"grants of {where}"))
        comment = self._text(item, "comment", where) if "comment" in item else None
        return Recipient(name, tokens, grants, self._whole(item, "epoch", where), comment)

    def _token(self, value: object, where: str) -> TokenRecord:
        item = self._object(value, f"a token of {where}", {"id", "sha256", "createdMs", "expiresMs", "notBeforeMs"})
        text = self._text(item, "sha256", where)
        try:
            digest = bytes.fromhex(text)
        except ValueError:
            digest = b""
        if len(digest) != 32:
            self._fail(f"has a token of {where} whose sha256 is not 64 hexadecimal digits")
        expires = self._whole(item, "expiresMs", where) if "expiresMs" in item else None
        begins = self._whole(item, "notBeforeMs", where) if "notBeforeMs" in item else None
        return TokenRecord(
            self._text(item, "id", where), digest, self._whole(item, "createdMs", where), expires, begins
        )

    def _grant(self, value: object, where: str) -> Grant:
        item = self._object(value, f"a grant of {where}", {"share", "schema", "table"})
        if "table" in item and "schema" not in item:
            self._fail(f"has a grant of {where} with a table and without a schema")
        share = self._text(item, "share", where)
        schema = self._text(item, "schema", where) if "schema" in item else None
        return Grant(share, schema, self._text(item, "table", where) if "table" in item else None)

    def _object(self, value: object, what: str, known: set[str]) -> Mapping[str, object]:
        if not isinstance(value, dict):
            self._fail(f"has {what} that is not an object" if what != "the file" else "is not an object")
        if unknown := sorted(set(value) - known):
            self._fail(f"has {what} with the unknown key {unknown[0][:60]!r}")
        return value

    def _list(self, value: object, what: str) -> list[object]:
        if not isinstance(value, list):
            self._fail(f"lacks the list {what}")
        return value

    def _text(self, item: Mapping[str, object], key: str, where: str) -> str:
        value = item.get(key)
        if not isinstance(value, str) or not value or len(value) > 1_000 or not value.isprintable():
            self._fail(f"has no valid {key} at {where}")
        return value

    def _whole(self, item: Mapping[str, object], key: str, where: str) -> int:
        value = item.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**53:
            self._fail(f"has no valid {key} at {where}")
        return value

    def _fail(self, message: str) -> NoReturn:
        raise UsageError(
            f"the file of recipients {self._name} {message}",
            code=CODE,
            hint=f"{command('share recipient list')}   # after it is corrected, or restored from a backup",
        )


# -- changes of recipients ---------------------------------------------------------------------------------------------

MOST_TOKENS = 20
"""Live tokens per recipient: more of them are forgotten ones."""


class CreatedToken(NamedTuple):
    """A new token in clear text, which exists nowhere else, and its record."""

    text: str
    record: TokenRecord


def find_recipient(recipients: Recipients, name: str) -> Recipient:
    """Return a recipient. Raises UsageError with the nearest name."""
    found = recipients.find(name)
    if found is not None:
        return found
    names = [one.name for one in recipients.items]
    nearest = nearest_name(name, names, ignores_case=True)
    raise UsageError(
        f"there is no recipient {name!r}",
        code="share.recipient",
        facts={"recipients": ", ".join(names[:20]) or "none"},
        hint=command("share recipient list") if names else command("share recipient add", name),
    ).suggest(name, nearest, is_quoted=True)


def add_recipient(
    recipients: Recipients, name: str, grants: Iterable[Grant], now_ms: int, *, comment: str | None = None
) -> Recipients:
    """Add a recipient without tokens. Raises UsageError for an invalid name, or one that exists."""
    if reason := fault_in_name(name, may_have_dots=True):
        message = f"the name {name[:60]!r} is refused: {reason}"
        raise UsageError(message, code="share.recipient", hint=command("share recipient add", "acme"))
    if comment is not None and not (0 < len(comment) <= 1_000 and comment.isprintable()):
        message = f"{parameter('share recipient add.comment')} is empty, longer than 1,000 characters, or not one line"
        raise UsageError(message, code="share.recipient", hint=command("share recipient add", name))
    if known := recipients.find(name):
        message = f"the recipient {known.name!r} exists already"
        raise UsageError(message, code="share.recipient", hint=command("share token create", known.name))
    return recipients.put(Recipient(name, epoch=now_ms, comment=comment).with_grants(grants))


def remove_recipient(recipients: Recipients, name: str) -> Recipients:
    """Remove a recipient with all tokens and grants. Raises UsageError."""
    return recipients.without(find_recipient(recipients, name).name)


def grant_to(recipients: Recipients, name: str, grants: Iterable[Grant]) -> Recipients:
    """Add grants to a recipient. Raises UsageError."""
    return recipients.put(find_recipient(recipients, name).with_grants(grants))


def revoke_from(recipients: Recipients, name: str, grants: Sequence[Grant]) -> Recipients:
    """Remove grants from a recipient. Raises UsageError for one it lacks; a part of a larger one cannot be removed."""
    recipient = find_recipient(recipients, name)
    for grant in grants:
        if not recipient.has_grant(grant):
            raise UsageError(
                f"the recipient {recipient.name!r} has no grant of {spelled(grant)}",
                code="share.grant",
                facts={"grants": ", ".join(map(spelled, recipient.grants)) or "none"},
                hint=command("share recipient list", recipient.name),
            )
    return recipients.put(recipient.without_grants(grants))


def add_token(
    recipients: Recipients, name: str, now_ms: int, *, expires_ms: int | None
) -> tuple[Recipients, CreatedToken]:
    """Give a recipient another token. Raises UsageError, and Refused where it has too many."""
    recipient = find_recipient(recipients, name)
    live = [token for token in recipient.tokens if token.state(now_ms) is not TokenState.EXPIRED]
    if len(live) >= MOST_TOKENS:
        raise Refused(
            f"the recipient {recipient.name!r} has {len(live)} valid tokens, and at most {MOST_TOKENS} are allowed",
            code="share.too-many-tokens",
            hint=command("share token list", recipient.name),
        )
    text = create_token()
    record = TokenRecord(_new_id(recipients), digest_token(text), now_ms, expires_ms)
    return recipients.put(recipient.with_token(record)), CreatedToken(text, record)


def revoke_tokens(recipients: Recipients, name: str, token_ids: Sequence[str]) -> Recipients:
    """Remove tokens of a recipient; all of them without ids. Raises UsageError for an unknown id."""
    recipient = find_recipient(recipients, name)
    for token_id in token_ids:
        if recipient.find_token(token_id) is None:
            raise UsageError(
                f"the recipient {recipient.name!r} has no token {token_id!r}",
                code="share.token",
                facts={"tokens": ", ".join(token.token_id for token in recipient.tokens) or "none"},
                hint=command("share token list", recipient.name),
            )
    dropped = token_ids or [token.token_id for token in recipient.tokens]
    return recipients.put(recipient.without_tokens(dropped))


def rotate_tokens(
    recipients: Recipients, name: str, now_ms: int, *, expires_ms: int | None, overlap_ms: int
) -> tuple[Recipients, CreatedToken]:
    """Give a recipient a new token and end its other tokens after `overlap_ms`; those that end before are unchanged.

    Without an overlap they are revoked at once, with all URLs that were signed for them. Raises UsageError.
    """
    recipient = find_recipient(recipients, name)
    if overlap_ms <= 0:
        recipient = recipient.without_tokens([token.token_id for token in recipient.tokens])
    else:
        ends_ms = now_ms + overlap_ms
        recipient = replace(recipient, tokens=tuple(_ending(token, ends_ms, now_ms) for token in recipient.tokens))
        recipient = replace(recipient, tokens=tuple(one for one in recipient.tokens if not _is_over(one, now_ms)))
    return add_token(recipients.put(recipient), name, now_ms, expires_ms=expires_ms)


def parse_grant(text: str, catalog: Catalog) -> Grant:
    """Return the grant that a text names: `share`, `share/schema`, `share/schema/table`, or the same with dots.

    Raises UsageError for what does not exist, and for dots that have more than one meaning.
    """
    readings = {grant for parts in _splits(text) if (grant := _named(parts, catalog)) is not None}
    if len(readings) == 1:
        return readings.pop()
    if readings:
        raise UsageError(
            f"{text!r} has more than one meaning",
            code="share.grant",
            facts={"meanings": ", ".join(sorted(map(spelled, readings)))},
            hint=f"use slashes, such as {quote_word(min(map(spelled, readings)))}",
        )
    known = [name for share in catalog.shares for name in _names_in(share)]
    nearest = nearest_name(text.replace(".", "/"), known, ignores_case=True)
    raise UsageError(
        f"nothing is shared as {text!r}",
        code="share.grant",
        facts={"shares": ", ".join(share.name for share in catalog.shares) or "none"},
        hint=command("share check"),
    ).suggest(text, nearest, is_quoted=True)


def parse_old_grant(text: str, recipient: Recipient) -> Grant:
    """Return the grant of a recipient that a text names, which need not be shared any more. Raises UsageError."""
    wanted = text.replace("/", ".").casefold()
    found = [grant for grant in recipient.grants if spelled(grant).replace("/", ".").casefold() == wanted]
    exact = [grant for grant in found if spelled(grant).casefold() == text.casefold()]
    chosen = exact or found
    if len(chosen) != 1:
        raise UsageError(
            f"the recipient {recipient.name!r} has no grant of {text!r}"
            if not chosen
            else f"{text!r} has more than one meaning",
            code="share.grant",
            facts={"grants": ", ".join(map(spelled, recipient.grants)) or "none"},
            hint=command("share recipient list", recipient.name),
        )
    return chosen[0]


def _ending(token: TokenRecord, ends_ms: int, now_ms: int) -> TokenRecord:
    if _is_over(token, now_ms) or (token.expires_ms is not None and token.expires_ms <= ends_ms):
        return token
    return replace(token, expires_ms=ends_ms)


def _is_over(token: TokenRecord, now_ms: int) -> bool:
    return token.state(now_ms) is TokenState.EXPIRED


def _new_id(recipients: Recipients) -> str:
    used = {token.token_id for one in recipients.items for token in one.tokens}
    while (token_id := f"t{secrets.token_hex(4)}") in used:
        pass
    return token_id


def _splits(text: str) -> Iterable[tuple[str, ...]]:
    """Yield the readings of a text as names: with slashes there is one."""
    if "/" in text:
        yield tuple(text.split("/"))
        return
    parts = text.split(".")
    for below in range(min(3, len(parts))):
        share = ".".join(parts[: len(parts) - below])
        yield (share, *parts[len(parts) - below :])


def _named(parts: Sequence[str], catalog: Catalog) -> Grant | None:
    """Return the grant of names that exist, in the spelling of the configuration."""
    share = catalog.find_share(parts[0]) if 1 <= len(parts) <= 3 else None
    if share is None or len(parts) == 1:
        return None if share is None else Grant(share.name)
    schema = share.find_schema(parts[1])
    if schema is None or len(parts) == 2:
        return None if schema is None else Grant(share.name, schema.name)
    table = schema.find_table(parts[2])
    return None if table is None else Grant(share.name, schema.name, table.name)


def _names_in(share: Share) -> Iterable[str]:
    yield share.name
    for schema in share.schemas:
        yield f"{share.name}/{schema.name}"
        yield from (f"{share.name}/{schema.name}/{table.name}" for table in schema.tables[:1_000])
