"""The results of `fleet init` and `share init`: the tables of the new file, and what could not be searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.sections import Section
from deltacli.cli.render.fleet.check import FleetListing, fleet_fields
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.fleet.planning.discovery import Failure
    from deltacli.sharing.configuration.starting import StartedTable

_MAX_NAMES = 3


@dataclass(frozen=True)
class CreatedFile:
    """The file that an `init` command has written.

    Attributes:
        path: The path of the file.
        schema: The path of its JSON Schema for editors. None: the schema was not written.
        other_formats: The number of tables that were left out, because they are not Delta tables.
        failures: The directories that could not be searched.
    """

    path: str
    schema: str | None
    other_formats: int
    failures: Sequence[Failure]


def make_fleet_init_result(
    file: CreatedFile, directory: str, tables: Sequence[str], other_tables: Sequence[str]
) -> FleetListing[str]:
    """Return the result of `fleet init`.

    Args:
        file: The policy file.
        directory: The directory that was searched.
        tables: The tables in the policy file.
        other_tables: The tables of another format.
    """
    directory = mask_secrets(directory)
    summary = f"a policy for {plural(len(tables), 'table')} at and below {directory}"
    if other_tables:
        names = ", ".join(mask_secrets(table) for table in other_tables[:_MAX_NAMES])
        if len(other_tables) > _MAX_NAMES:
            names += ", …"
        summary += f"; {plural(len(other_tables), 'table')} of another format left out: {names}"

    items: list[JsonObject] = [{"table": mask_secrets(table)} for table in tables]
    columns: list[Column[str]] = [Column("table", mask_secrets, keep_both=True)]
    return _make_listing("fleet-init", file, {"directory": directory}, items, columns, tables, summary)


def make_share_init_result(file: CreatedFile, tables: Sequence[StartedTable]) -> FleetListing[StartedTable]:
    """Return the result of `share init`.

    Args:
        file: The configuration.
        tables: The shared tables in the configuration.
    """
    shares = {table.share for table in tables}
    summary = f"{plural(len(shares), 'share')} of {plural(len(tables), 'table')}"
    if file.other_formats:
        summary += f"; {plural(file.other_formats, 'table')} of another format left out"

    items: list[JsonObject] = [{"table": table.full_name, "location": mask_secrets(table.location)} for table in tables]
    columns: list[Column[StartedTable]] = [
        Column("table", lambda table: table.full_name, keep_both=True, priority=1),
        Column("location", lambda table: mask_secrets(table.location), keep_both=True, priority=2),
    ]
    return _make_listing("share-init", file, {}, items, columns, tables, summary)


def _make_listing(
    kind: str,
    file: CreatedFile,
    fields: JsonObject,
    items: list[JsonObject],
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    summary: str,
) -> FleetListing[Row]:
    """Return the listing of the tables in a new file.

    Args:
        kind: The kind of the document without `deltacli.`, such as `fleet-init`.
        file: The file.
        fields: Further fields of the document.
        items: The tables as items of the document.
        columns: The columns of the table for people.
        rows: The rows of that table.
        summary: The sentence about the content of the file.
    """
    problems = [(mask_secrets(failure.name), mask_secrets(failure.fault.message)) for failure in file.failures]
    content = {
        **fields,
        "problems": [{"path": name, "message": message} for name, message in problems],
        "summary": {"tables": len(items), "problems": len(problems), "otherFormats": file.other_formats},
    }
    sections = [Section("problems", [f"{name}: {message}" for name, message in problems], Style.PROBLEM)]
    if file.schema:
        sections.append(Section("keys", [f"{file.schema}: the schema by which editors check the keys"]))
    sections.append(Section("wrote", [f"{file.path}: {summary}"], Style.GOOD))
    return FleetListing(
        fleet_fields(kind, file.path, complete=not problems) | content,
        f"{kind}-table",
        items,
        columns,
        rows,
        items_name="tables",
        last_line={"type": kind, "file": file.path, **content},
        make_sections=lambda _: [section for section in sections if section.lines],
    )
