"""What `fleet init` and `share init` found and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import FleetListing, fleet_fields
from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.storage.secrets import without_secrets

if TYPE_CHECKING:
    from deltacli.fleet.planning.discovery import Failure
    from deltacli.sharing.configuration.starting import StartedTable

_MOST_NAMED = 3


def policy_result(
    file: str, directory: str, tables: Sequence[str], others: Sequence[str], failures: Sequence[Failure]
) -> FleetListing[JsonObject]:
    """Return the tables of a new policy file, and what could not be searched."""
    items: list[JsonObject] = [{"table": without_secrets(table)} for table in tables]
    place = without_secrets(directory)
    said = f"a policy for {plural(len(items), 'table')} at and below {place}"
    if others:
        first = ", ".join(map(without_secrets, others[:_MOST_NAMED])) + (", …" if len(others) > _MOST_NAMED else "")
        said += f"; {plural(len(others), 'table')} of another format left out: {first}"
    columns: list[Column[JsonObject]] = [Column("table", lambda one: one["table"], keep_both=True)]
    return _result("fleet-init", file, {"directory": place}, items, columns, len(others), failures, said)


def configuration_result(
    file: str, tables: Sequence[StartedTable], others: int, failures: Sequence[Failure]
) -> FleetListing[JsonObject]:
    """Return the tables of a new configuration, and what could not be searched."""
    items: list[JsonObject] = [{"table": one.full_name, "location": without_secrets(one.location)} for one in tables]
    said = f"{plural(len({one.share for one in tables}), 'share')} of {plural(len(items), 'table')}"
    if others:
        said += f"; {plural(others, 'table')} of another format left out"
    columns: list[Column[JsonObject]] = [
        Column("table", lambda one: one["table"], keep_both=True, priority=1),
        Column("location", lambda one: one["location"], keep_both=True, priority=2),
    ]
    return _result("share-init", file, {}, items, columns, others, failures, said)


def _result(
    kind: str,
    file: str,
    about: JsonObject,
    items: list[JsonObject],
    columns: Sequence[Column[JsonObject]],
    others: int,
    failures: Sequence[Failure],
    said: str,
) -> FleetListing[JsonObject]:
    failed = [(without_secrets(one.name), without_secrets(one.fault.message)) for one in failures]
    content = {
        **about,
        "problems": [{"path": name, "message": message} for name, message in failed],
        "summary": {"tables": len(items), "problems": len(failed), "otherFormats": others},
    }
    sections = [
        Section("problems", [f"{name}: {message}" for name, message in failed], Style.PROBLEM),
        Section("wrote", [f"{file}: {said}"], Style.GOOD),
    ]
    return FleetListing(
        fleet_fields(kind, file, complete=not failed) | content,
        f"{kind}-table",
        items,
        columns,
        items,
        items_name="tables",
        last={"type": kind, "file": file, **content},
        said=lambda _: [section for section in sections if section.lines],
    )
