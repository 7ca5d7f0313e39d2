"""What `fleet init` found and wrote."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.cli.render.columns import Column
from deltacli.cli.render.fleet.check import FleetListing, fleet_fields
from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style
from deltacli.fleet.planning.discovery import Failure
from deltacli.storage.secrets import without_secrets
from deltacli.typing import JsonObject
from deltacli.units import plural

_MOST_NAMED = 3


def init_result(
    file: str, directory: str, tables: Sequence[str], others: Sequence[str], failures: Sequence[Failure]
) -> FleetListing[JsonObject]:
    """Return the tables of a new policy file, and what could not be searched."""
    items: list[JsonObject] = [{"table": without_secrets(table)} for table in tables]
    failed = [(without_secrets(one.name), without_secrets(one.fault.message)) for one in failures]
    content = {
        "directory": without_secrets(directory),
        "problems": [{"path": name, "message": message} for name, message in failed],
        "summary": {"tables": len(items), "problems": len(failed), "otherFormats": len(others)},
    }
    said = f"{file}: a policy for {plural(len(items), 'table')} at and below {without_secrets(directory)}"
    if others:
        first = ", ".join(map(without_secrets, others[:_MOST_NAMED])) + (", …" if len(others) > _MOST_NAMED else "")
        said += f"; {plural(len(others), 'table')} of another format left out: {first}"
    sections = [
        Section("problems", [f"{name}: {message}" for name, message in failed], Style.PROBLEM),
        Section("wrote", [said], Style.GOOD),
    ]
    return FleetListing(
        fleet_fields("fleet-init", file, complete=not failed) | content,
        "fleet-init-table",
        items,
        [Column("table", lambda one: one["table"], keep_both=True)],
        items,
        items_name="tables",
        last={"type": "fleet-init", "file": file, **content},
        said=lambda _: [section for section in sections if section.lines],
    )
