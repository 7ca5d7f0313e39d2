"""Changes of recipients: each takes all recipients and returns them changed, or raises UsageError."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from deltacli.core.errors import QUOTED, Refused, UsageError
from deltacli.core.hints import command, nearest_name, parameter, quoted
from deltacli.sharing.configuration.bearer_tokens import create_token, digest_of
from deltacli.sharing.configuration.fields import fault_in_name
from deltacli.sharing.configuration.recipients import Recipient, Recipients, TokenRecord, TokenState, spelled
from deltacli.sharing.model import Catalog, Grant

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
    ).asking(name, nearest, QUOTED)


def add_recipient(
    recipients: Recipients, name: str, grants: Iterable[Grant], now_ms: int, *, comment: str | None = None
) -> Recipients:
    """Add a recipient without tokens. Raises UsageError for an invalid name, or one that exists."""
    if reason := fault_in_name(name, may_have_dots=True):
        raise UsageError(
            f"the name {name[:60]!r} is refused: {reason}",
            code="share.recipient",
            hint=command("share recipient add", "acme"),
        )
    if comment is not None and not (0 < len(comment) <= 1_000 and comment.isprintable()):
        raise UsageError(
            f"{parameter('share recipient add.comment')} is empty, longer than 1,000 characters, or not one line",
            code="share.recipient",
            hint=command("share recipient add", name),
        )
    if known := recipients.find(name):
        raise UsageError(
            f"the recipient {known.name!r} exists already",
            code="share.recipient",
            hint=command("share token create", known.name),
        )
    return recipients.put(Recipient(name, epoch=now_ms, comment=comment).with_grants(grants))


def remove_recipient(recipients: Recipients, name: str) -> Recipients:
    """Remove a recipient with all tokens and grants. Raises UsageError."""
    return recipients.without(find_recipient(recipients, name).name)


def grant_to(recipients: Recipients, name: str, grants: Iterable[Grant]) -> Recipients:
    """Add grants to a recipient. Raises UsageError."""
    return recipients.put(find_recipient(recipients, name).with_grants(grants))


def revoke_from(recipients: Recipients, name: str, grants: Sequence[Grant]) -> Recipients:
    """Remove grants from a recipient. Raises UsageError for one that it does not have as such.

    A part of a larger grant cannot be removed: the larger one has to be replaced.
    """
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
    record = TokenRecord(_new_id(recipients), digest_of(text), now_ms, expires_ms)
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
            hint=f"use slashes, such as {quoted(min(map(spelled, readings)))}",
        )
    known = [name for share in catalog.shares for name in _names_in(share.name, catalog)]
    nearest = nearest_name(text.replace(".", "/"), known, ignores_case=True)
    raise UsageError(
        f"nothing is shared as {text!r}",
        code="share.grant",
        facts={"shares": ", ".join(share.name for share in catalog.shares) or "none"},
        hint=command("share check"),
    ).asking(text, nearest, QUOTED)


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


def _names_in(share_name: str, catalog: Catalog) -> Iterable[str]:
    share = catalog.find_share(share_name)
    assert share is not None
    yield share.name
    for schema in share.schemas:
        yield f"{share.name}/{schema.name}"
        yield from (f"{share.name}/{schema.name}/{table.name}" for table in schema.tables[:1_000])
