"""The results of `catalog ls`, `catalog status`, `catalog staged` and `catalog publish`.

In a table that a catalog manages, a writer stages its commit as a file, the catalog ratifies the file as the next
version, and a client publishes the version: it copies the file into the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column, Row, make_item_columns
from deltacli.cli.output.grids import WriteItems, write_lines
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import SCHEMA_VERSION, envelope
from deltacli.core.times import format_age
from deltacli.core.typing import Json
from deltacli.core.units import format_size

if TYPE_CHECKING:
    from deltacli.catalogs.base import Listed
    from deltacli.operations.catalog import (
        CatalogStatus,
        Divergence,
        PublishOutcome,
        StagedFile,
        StagedFiles,
        ToPublish,
    )

_CATALOG_TYPE = "CATALOG"
"""The type of a catalog in a listing. Tables have the types MANAGED, EXTERNAL and VIEW."""


def _remove_scheme(table: Listed) -> str:
    """Return the complete name of a table without the scheme, such as `prod.sales.orders`."""
    return str(table.name).removeprefix("uc://")


_TABLE_COLUMNS: Sequence[Column[Listed]] = (
    Column("name", _remove_scheme, priority=1),
    Column("type", lambda table: table.table_type, priority=2),
    Column("format", lambda table: table.data_format, priority=3),
    Column("managed", lambda table: table.is_managed, on_screen=False),
)
"""The columns of a listed table. They are the fields of the JSON document as well."""

_CATALOG_COLUMNS: Sequence[Column[str]] = (
    Column("name", lambda catalog_name: catalog_name, priority=1),
    Column("type", lambda _: _CATALOG_TYPE, priority=2),
    Column("format", lambda _: "", on_screen=False),
    Column("managed", lambda _: False, on_screen=False),
)
"""The columns of a listed catalog. They have the names of `_TABLE_COLUMNS`, because both are listed by `catalog ls`."""

_DIVERGENCE_COLUMNS = make_item_columns(("kind", "name", "log", "catalog"))
"""The columns of a difference between log and catalog. Each one is a field of the JSON document."""

_STAGED_COLUMNS: Sequence[Column[StagedFile]] = (
    Column("path", lambda file: file.path, priority=3, wraps=True, min_width=20),
    Column("version", lambda file: file.version, align_right=True, priority=1),
    Column("class", lambda file: file.fate, priority=1),
    Column(
        "sizeBytes",
        lambda file: file.size_bytes,
        lambda file: format_size(file.size_bytes),
        align_right=True,
        title="size",
    ),
    Column("ageMs", lambda file: file.age_ms, lambda file: _format_age(file.age_ms), align_right=True, title="age"),
)
"""The columns of a staged commit."""

_PUBLISHED_COLUMNS: Sequence[Column[int]] = (Column("version", lambda version: version),)
"""The columns of a published version."""


def listing_result(address: str, tables: Sequence[Listed]) -> ListResult[Listed]:
    """Return the tables of a catalog or a schema as the result of `catalog ls`.

    Args:
        address: The address of the catalog or the schema, such as `uc://prod.sales`.
        tables: The tables.
    """
    return _make_listing(address, _TABLE_COLUMNS, tables, label="tables")


def catalogs_result(address: str, names: Sequence[str]) -> ListResult[str]:
    """Return the names of all catalogs as the result of `catalog ls uc://`."""
    return _make_listing(address, _CATALOG_COLUMNS, names, label="catalogs")


class _CatalogListing(ListResult[Row]):
    """A listing of tables or catalogs.

    A line of NDJSON contains the type of the line as `type`. Therefore the type of the table is `tableType` there, but
    `type` in the document.
    """

    def lines(self, write_items: WriteItems) -> bool:
        """Write a line per table or catalog."""
        field_names = {"type": "tableType"}
        items = [{field_names.get(name, name): value for name, value in item.items()} for item in self.items]
        write_lines(write_items, items, self.line_type)
        return True


def _make_listing(
    address: str, columns: Sequence[Column[Row]], entries: Sequence[Row], *, label: str
) -> _CatalogListing[Row]:
    """Return a listing whose items have a field per column.

    Args:
        address: The address whose content is listed.
        columns: The columns of an entry.
        entries: The tables or catalogs.
        label: The label of the line that says that there are none.
    """
    fields = {"kind": "deltacli.catalog-ls", "schemaVersion": SCHEMA_VERSION, "complete": True, "address": address}
    items = [{column.name: column.value(entry) for column in columns} for entry in entries]
    # A listing is drawn as a table, unless it has sections.
    sections = [] if entries else [Section(label, ["none"])]
    return _CatalogListing(fields, "catalog-table", items, columns, entries, make_sections=lambda _: sections)


def status_result(status: CatalogStatus) -> SingleResult:
    """Return the versions in catalog and log, and their differences, as the result of `catalog status`."""
    content = status.as_json()
    return SingleResult(
        "catalog-status",
        status.table,
        content,
        lambda: list(_make_status_sections(status)),
        content["divergence"],
        _DIVERGENCE_COLUMNS,
    )


def _make_status_sections(status: CatalogStatus) -> Iterator[Section]:
    """Yield the newest versions, the permissions, and the differences as labelled lines."""
    yield Section("table", [status.table])
    yield Section("ratified", [f"version {status.latest_ratified}"])
    published = "no version is known to be" if status.latest_published is None else f"version {status.latest_published}"
    yield Section("published", [published])
    unpublished = [f"version {commit.version}, {_format_age(commit.age_ms)}" for commit in status.unpublished]
    yield Section("unpublished", unpublished)
    yield Section("permitted", _list_permissions(status))

    if status.divergence:
        differences = [_describe_difference(difference) for difference in status.divergence]
        yield Section("differs", differences, Style.PROBLEM)
    else:
        yield Section("differs", ["nothing"], Style.GOOD)


def _list_permissions(status: CatalogStatus) -> Sequence[str]:
    if status.permissions is None:
        return ["none: the catalog names none"]
    return status.permissions or ["none"]


def _describe_difference(difference: Divergence) -> str:
    log_value = _format_value(difference.log)
    catalog_value = _format_value(difference.catalog)
    return f"{difference.kind} {difference.name}: log {log_value}, catalog {catalog_value}"


def _format_value(value: Json) -> str:
    if value is None:
        return "has none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def staged_result(staged: StagedFiles) -> ListResult[StagedFile]:
    """Return the staged commits of a table as the result of `catalog staged`."""
    fields = envelope("deltacli.catalog-staged", staged.table, complete=True)
    items = staged.as_json()["items"]
    sections = [] if items else [Section("staged", ["none"])]
    return ListResult(fields, "staged-commit", items, _STAGED_COLUMNS, staged.items, make_sections=lambda _: sections)


def publish_result(table: str, outcome: PublishOutcome, *, dry_run: bool) -> SingleResult:
    """Return the commits that were published, or would be, as the result of `catalog publish`.

    Args:
        table: The table as the user wrote it.
        outcome: The outcome. Before the execution no version is published.
        dry_run: Whether the plan is only shown.
    """
    content = outcome.as_json(dry_run=dry_run)
    return SingleResult(
        "catalog-publish",
        table,
        content,
        lambda: list(_make_publish_sections(table, outcome, dry_run=dry_run)),
        content["published"],
        _PUBLISHED_COLUMNS,
    )


def _make_publish_sections(table: str, outcome: PublishOutcome, *, dry_run: bool) -> Iterator[Section]:
    plan = outcome.plan
    if plan.is_noop:
        yield Section("nothing to do", [f"{table}: every ratified version is published"])
        return

    yield Section("table", [table])
    if dry_run:
        yield Section("would publish", [_describe_commit(commit) for commit in plan.items])
    else:
        published = [_describe_commit(commit) for commit in plan.items if commit.version in outcome.published]
        yield Section("published", published, Style.GOOD)
        yield Section("reported", [] if outcome.reported is None else [f"up to version {outcome.reported}"])
    yield make_refusal_section([] if plan.refusal is None else [f"{plan.refusal.reason} [{plan.refusal.code}]"])


def _describe_commit(commit: ToPublish) -> str:
    description = f"version {commit.version}, {format_size(commit.size_bytes)}, {_format_age(commit.age_ms)}"
    return f"{description}, proposed to the catalog again" if commit.is_forgotten else description


def _format_age(age_ms: int) -> str:
    """Return an age such as `3 days ago`."""
    return format_age(-age_ms, 0)
