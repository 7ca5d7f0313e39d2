"""What `share init` found and wrote."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import FleetListing
from deltacli.cli.render.json import SCHEMA_VERSION
from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.fleet.planning.discovery import Failure
from deltacli.sharing.configuration.starting import StartedTable
from deltacli.storage.secrets import without_secrets
from deltacli.typing import JsonObject
from deltacli.units import plural


def init_result(
    file: str, tables: Sequence[StartedTable], others: int, failures: Sequence[Failure]
) -> FleetListing[JsonObject]:
    """Return the tables of a new configuration, and what could not be searched."""
    items: list[JsonObject] = [{"table": one.full_name, "location": without_secrets(one.location)} for one in tables]
    failed = [(without_secrets(one.name), without_secrets(one.fault.message)) for one in failures]
    content = {
        "problems": [{"path": name, "message": message} for name, message in failed],
        "summary": {"tables": len(items), "problems": len(failed), "otherFormats": others},
    }
    shares = len({one.share for one in tables})
    said = f"{file}: {plural(shares, 'share')} of {plural(len(items), 'table')}"
    if others:
        said += f"; {plural(others, 'table')} of another format left out"
    sections = [
        Section("problems", [f"{name}: {message}" for name, message in failed], Style.PROBLEM),
        Section("wrote", [said], Style.GOOD),
    ]
    about = {"kind": "deltacli.share-init", "schemaVersion": SCHEMA_VERSION, "complete": not failed, "file": file}
    return FleetListing(
        about | content,
        "share-init-table",
        items,
        [
            Column("table", lambda one: one["table"], keep_both=True, priority=1),
            Column("location", lambda one: one["location"], keep_both=True, priority=2),
        ],
        items,
        items_name="tables",
        last={"type": "share-init", "file": file, **content},
        said=lambda _: [section for section in sections if section.lines],
    )
