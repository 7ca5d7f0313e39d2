"""The request to explain who reads and writes a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import UsageError
from deltacli.core.hints import nearest_name, parameter
from deltacli.core.request_fields import OF_DELTA, Kind, option
from deltacli.table.known_clients import known_clients, paimon_clients

_OTHER_NAMES = {"delta-rs": "deltalake", "clickhouse": "chdb", "delta-spark": "spark", "dbr": "databricks"}


class ChangeKind(StrEnum):
    """A change whose effect is asked for."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"


class Supposed(NamedTuple):
    """A change that is supposed: a feature, or a column with its new type."""

    kind: ChangeKind
    name: str
    data_type: str = ""

    @property
    def text(self) -> str:
        """The change as it is asked for."""
        return f"{self.kind}={self.name}" + (f":{self.data_type}" if self.data_type else "")


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """The clients that are asked about, each as `NAME` or `NAME=VERSION` (none: all that are known), and changes whose
    effect on them is asked for, in their order: `add=FEATURE`, `drop=FEATURE`, `widen=COLUMN:TYPE`.
    """

    clients: Sequence[str] = option(
        "Client to explain, in a version or the newest known.  Repeatable.  [default: all known]",
        "NAME[=VERSION]",
        Kind.TEXTS,
        default=(),
        spelled="--client",
    )
    changes: Sequence[str] = option(
        "Change to suppose: add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE.  Repeatable.",
        "CHANGE",
        Kind.TEXTS,
        default=(),
        spelled="--if",
        table_format=OF_DELTA,
    )

    def __post_init__(self) -> None:
        """Raise UsageError for unknown clients, and for what is not a change."""
        for name in ("clients", "changes"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"{parameter(f'explain.{name}')} is a text, expected a list")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _ = self.named, self.supposed

    @property
    def named(self) -> list[tuple[str, str | None]]:
        """The clients with their versions."""
        return [_client(text) for text in self.clients]

    @property
    def supposed(self) -> list[Supposed]:
        """The changes."""
        return [_change(text) for text in self.changes]


def _client(text: str) -> tuple[str, str | None]:
    name, has_version, version = text.partition("=")
    known = [client.name for client in (*known_clients(), *paimon_clients())]
    found = _OTHER_NAMES.get(name.lower(), name.lower())
    if found not in known:
        near = nearest_name(found, [*known, *_OTHER_NAMES])
        raise UsageError(
            f"nothing is known of a client {name!r}", code="usage.client", facts={"known": ", ".join(known)}
        ).asking(name, near and _OTHER_NAMES.get(near, near))
    if has_version and not any(map(str.isdigit, version)):
        raise UsageError(f"{version!r} is not a version of {found}", facts={"expected": f"{found}=1.2.3"})
    return found, version.removeprefix("v") or None


def _change(text: str) -> Supposed:
    kind, _, rest = text.partition("=")
    column, _, data_type = rest.rpartition(":") if kind == "widen" else (rest, "", "")
    if kind not in list(ChangeKind) or not column or (kind == "widen" and not data_type):
        unknown = UsageError(
            f"{text!r} is not a change that can be supposed",
            code="usage.change",
            facts={"expected": "add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE"},
        )
        parts = re.fullmatch(r"(\w+)[=:](.+)", text)
        near = None if parts is None else nearest_name(parts[1], list(ChangeKind))
        if parts is not None and near is not None and (near != ChangeKind.WIDEN or ":" in parts[2]):
            unknown.meaning(text, f"{near}={parts[2]}")
        raise unknown
    return Supposed(ChangeKind(kind), column, data_type)
