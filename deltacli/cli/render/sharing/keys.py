"""The keys of the sharing server, without their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltacli.cli.render.columns import Column
from deltacli.cli.render.sharing.recipients import share_fields
from deltacli.cli.results import Listing
from deltacli.sharing.signing.keys import ServerKey, ServerKeys
from deltacli.typing import Json, JsonObject
from deltacli.units import format_age, format_timestamp


def keys_result(file: Path, keys: ServerKeys, now_ms: int, *, dry_run: bool) -> Listing[JsonObject]:
    """Return the keys after a rotation, newest first. The new one has no id before it is made."""
    items = [_item(key, keys, now_ms) for key in keys.keys]
    if dry_run:
        items[0]["id"] = "new"
    columns: list[Column[JsonObject]] = [
        Column("id", lambda one: one["id"], priority=1),
        Column("state", lambda one: one["state"], priority=1),
        Column("starts", lambda one: one["starts"], text=lambda one: format_age(one["startsMs"], now_ms), priority=2),
        Column("retires", lambda one: one.get("retires"), text=_retirement(now_ms), priority=2),
    ]
    fields = share_fields("share-keys", keyFile=str(file), action="rotate", dryRun=dry_run)
    return Listing(fields, "share-key", items, columns, items, items_name="keys")


def _item(key: ServerKey, keys: ServerKeys, now_ms: int) -> dict[str, Json]:
    is_signing = key.id == keys.signing("", now_ms).id
    state = "signing" if is_signing else "starting" if key.starts_ms > now_ms else "accepted"
    item = {"id": key.id.hex(), "state": state, "startsMs": key.starts_ms, "starts": format_timestamp(key.starts_ms)}
    if key.retires_ms is None:
        return item
    return {**item, "retiresMs": key.retires_ms, "retires": format_timestamp(key.retires_ms)}


def _retirement(now_ms: int) -> Any:  # Any: Callable[[JsonObject], str]
    return lambda one: format_age(one["retiresMs"], now_ms) if "retiresMs" in one else "never"
