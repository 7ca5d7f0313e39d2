"""Alerts of many tables by their cause, each with the number of its tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deltacli.fleet.status import Alert, TableStatus
from deltacli.typing import Json
from deltacli.units import plural


class Cause(NamedTuple):
    """What is wrong with some tables, and the advice for the first of them."""

    what: str
    tables: tuple[str, ...]
    advice: str | None

    @property
    def sentence(self) -> str:
        """Return the cause with its table, or with the number of its tables."""
        if len(self.tables) == 1:
            return f"{self.what} ({self.tables[0]})"
        return f"{self.what}: {plural(len(self.tables), 'table')}"

    def as_json(self) -> dict[str, Json]:
        """Return the cause for documents."""
        found = {"cause": self.what, "tables": len(self.tables)}
        return found if self.advice is None else found | {"next": self.advice}


def find_causes(tables: Iterable[TableStatus]) -> list[Cause]:
    """Return the causes of all alerts, those of the most tables first."""
    found: dict[tuple[str, ...], list[tuple[str, Alert]]] = {}
    for table in tables:
        for alert in table.found:
            found.setdefault(alert.cause, []).append((table.shown_name, alert))
    causes = []
    for cause, alerts in found.items():
        messages = {alert.message for _, alert in alerts}
        what = messages.pop() if len(messages) == 1 else ": ".join(filter(None, (" ".join(cause[:2]), *cause[2:])))
        names = tuple(dict.fromkeys(name for name, _ in alerts))
        causes.append(Cause(what, names, alerts[0][1].advice))
    return sorted(causes, key=lambda cause: -len(cause.tables))
