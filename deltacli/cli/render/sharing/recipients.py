"""Recipients and their tokens, listed or changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import SCHEMA_VERSION
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style
from deltacli.sharing.configuration.recipient_changes import CreatedToken
from deltacli.sharing.configuration.recipients import Recipient, TokenRecord, TokenState
from deltacli.typing import Json, JsonObject
from deltacli.units import format_age, format_moment, plural


def share_fields(kind: str, **fields: object) -> dict[str, Json]:
    """Return the first fields of a document that is not about one table."""
    known = {name: value for name, value in fields.items() if value is not None}
    return {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "complete": True, **known}


def recipients_result(
    file: Path, recipients: Sequence[Recipient], now_ms: int, *, action: str = "list", dry_run: bool | None = None
) -> Listing[JsonObject]:
    """Return recipients: all of them, or the one that was changed."""
    items = [one.as_json(now_ms) for one in recipients]
    columns: list[Column[JsonObject]] = [
        Column("name", lambda one: one["name"], priority=1),
        Column("grants", lambda one: ", ".join(one["grants"]), priority=1, folds=True, least=12),
        Column("tokens", lambda one: _count(one, TokenState.ACTIVE), right=True, priority=2),
        Column("expired", lambda one: _count(one, TokenState.EXPIRED), right=True, priority=4),
        Column("comment", lambda one: one.get("comment"), priority=3, folds=True),
    ]
    said = [] if items else [Section("recipients", ["none"])]
    fields = share_fields("share-recipients", recipientsFile=str(file), action=action, dryRun=dry_run)
    return Listing(fields, "share-recipient", items, columns, items, items_name="recipients", said=lambda _: said)


def tokens_result(
    file: Path,
    recipients: Sequence[Recipient],
    now_ms: int,
    *,
    action: str = "list",
    dry_run: bool | None = None,
    created: CreatedToken | None = None,
    profile: str | None = None,
) -> Listing[JsonObject]:
    """Return tokens: those of recipients, or the one that was `created`, in clear text unless a profile has it."""
    items = [
        _token_item(one, token, now_ms, created, profile)
        for one in recipients
        for token in one.tokens
        if created is None or token.token_id == created.record.token_id
    ]
    fields = share_fields("share-tokens", recipientsFile=str(file), action=action, dryRun=dry_run)
    said = [] if items else [Section("tokens", ["none"])]
    if created is not None:
        said = _created_sections(items[0])
    columns = _token_columns(now_ms, has_secret=created is not None)
    return Listing(fields, "share-token", items, columns, items, items_name="tokens", said=lambda _: said)


def _token_columns(now_ms: int, *, has_secret: bool) -> list[Column[JsonObject]]:
    columns: list[Column[JsonObject]] = [
        Column("recipient", lambda one: one["recipient"], priority=1),
        Column("id", lambda one: one["id"], priority=1),
        Column("state", lambda one: one["state"], priority=1, style=_style),
        Column("created", lambda one: one.get("created"), text=_age_of("createdMs", now_ms), priority=3),
        Column("expires", lambda one: one.get("expires"), text=_age_of("expiresMs", now_ms), priority=2),
        Column("notBefore", lambda one: one.get("notBefore"), priority=4),
    ]
    if has_secret:
        columns += [
            Column("token", lambda one: one.get("token"), priority=1, on_screen=False),
            Column("profile", lambda one: one.get("profile"), priority=4, on_screen=False),
        ]
    return columns


def _token_item(
    one: Recipient, token: TokenRecord, now_ms: int, created: CreatedToken | None, profile: str | None
) -> dict[str, Json]:
    item = {"recipient": one.name, **token.as_json(now_ms)}
    if created is None:
        return item
    return {**item, **({"token": created.text} if profile is None else {"profile": profile})}


def _created_sections(item: JsonObject) -> list[Section]:
    expires = format_moment(item["expiresMs"]) + " UTC" if "expiresMs" in item else "never"
    lines = {name: item.get(name) for name in ("recipient", "id", "token", "profile")}
    sections = [Section(name, [text], is_cut=False) for name, text in lines.items() if text is not None]
    return [*sections, Section("expires", [expires])]


def _age_of(name: str, now_ms: int) -> Any:  # Any: Callable[[JsonObject], str]
    return lambda one: format_age(one[name], now_ms) if name in one else "never"


def _count(recipient: JsonObject, state: TokenState) -> int:
    return sum(token["state"] == state.value for token in recipient["tokens"])


def _style(one: JsonObject) -> Style:
    return Style.PLAIN if one["state"] == TokenState.ACTIVE else Style.PROBLEM


def what_of(recipient: Recipient) -> str:
    """Return what a recipient has, for questions."""
    return f"{plural(len(recipient.tokens), 'token')} and {plural(len(recipient.grants), 'grant')}"
