"""Snapshots, changelogs and tags: JSON files that name a schema and lists of manifests."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltacli.errors import Unreadable
from deltacli.paimon.json_text import BadJson, read_object
from deltacli.typing import JsonObject

MAX_SNAPSHOT_BYTES = 64 << 20

_LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One snapshot, changelog or tag. `content` is the whole file."""

    id: int
    schema_id: int
    commit_kind: str
    time_ms: int
    content: JsonObject = field(compare=False)

    @property
    def manifest_lists(self) -> tuple[str, ...]:
        """The names of all its manifest lists."""
        return tuple(name for key in _LISTS if (name := _text(self.content.get(key))) is not None)

    @property
    def state_lists(self) -> tuple[str, ...]:
        """The names of the manifest lists from which its live files follow, oldest first."""
        return tuple(name for key in _LISTS[:2] if (name := _text(self.content.get(key))) is not None)


def read_snapshot(data: bytes) -> SnapshotFile:
    """Return a snapshot. Raises Unreadable (`paimon.bad-snapshot`)."""
    try:
        content = read_object(data).value
    except BadJson as fault:
        raise _bad(str(fault)) from None
    return SnapshotFile(
        _number(content, "id"),
        _number(content, "schemaId"),
        str(content.get("commitKind") or ""),
        _number(content, "timeMillis", 0),
        content,
    )


def _number(content: JsonObject, key: str, default: int | None = None) -> int:
    value = content.get(key, default)
    if type(value) is not int:
        raise _bad(f"{key} is missing" if value is None else f"{key} is not a whole number")
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _bad(reason: str) -> Unreadable:
    return Unreadable(reason, code="paimon.bad-snapshot")
