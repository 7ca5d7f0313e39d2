"""What the commands of `catalog` show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import Column, Section, refused
from deltacli.cli.results import Emit, Listing, Outcome, emit_lines
from deltacli.cli.terminal.term import Style
from deltacli.core.documents import SCHEMA_VERSION, envelope
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_age, format_size

if TYPE_CHECKING:
    from deltacli.catalogs.base import Listed
    from deltacli.operations.catalog import CatalogStatus, Divergence, PublishOutcome, StagedFiles


def listing_result(address: str, tables: Sequence[Listed]) -> Listing[JsonObject]:
    """Return the tables of a catalog or a schema, with their whole names."""
    items: list[dict[str, Json]] = [
        {
            "name": str(one.name).removeprefix("uc://"),
            "type": one.table_type,
            "format": one.data_format,
            "managed": one.is_managed,
        }
        for one in tables
    ]
    columns: list[Column[JsonObject]] = [
        Column("name", lambda one: one["name"], priority=1),
        Column("type", lambda one: one["type"], priority=2),
        Column("format", lambda one: one["format"], priority=3),
        Column("managed", lambda one: one["managed"], on_screen=False),
    ]
    fields = {"kind": "deltacli.catalog-ls", "schemaVersion": SCHEMA_VERSION, "complete": True, "address": address}
    said = [] if items else [Section("tables", ["none"])]
    return _Tables(fields, "catalog-table", items, columns, items, said=lambda _: said)


class _Tables(Listing[JsonObject]):
    """Tables, whose type is `tableType` in lines, which have a `type` of their own."""

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, ({_OF_LINES.get(name, name): one[name] for name in one} for one in self.items), self.line)
        return True


_OF_LINES = {"type": "tableType"}


def status_result(status: CatalogStatus) -> Outcome:
    """Return where a catalog and a log stand; its rows are what differs."""
    content = status.as_json()
    columns = ("kind", "name", "log", "catalog")
    return Outcome(
        "catalog-status", status.table, content, lambda: list(_status(status)), content["divergence"], columns
    )


def _status(status: CatalogStatus) -> Iterator[Section]:
    yield Section("table", [status.table])
    yield Section("ratified", [f"version {status.latest_ratified}"])
    published = "no version is known to be" if status.latest_published is None else f"version {status.latest_published}"
    yield Section("published", [published])
    yield Section("unpublished", [f"version {one.version}, {_ago(one.age_ms)}" for one in status.unpublished])
    named = ["none: the catalog names none"] if status.permissions is None else [*status.permissions] or ["none"]
    yield Section("permitted", named)
    lines = [_difference(one) for one in status.divergence]
    yield Section("differs", lines, Style.PROBLEM) if lines else Section("differs", ["nothing"], Style.GOOD)


def _difference(one: Divergence) -> str:
    return f"{one.kind} {one.name}: log {_short(one.log)}, catalog {_short(one.catalog)}"


def _short(value: Json) -> str:
    if value is None:
        return "has none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def staged_result(staged: StagedFiles) -> Listing[JsonObject]:
    """Return the staged commits of a table."""
    items = staged.as_json()["items"]
    columns: list[Column[JsonObject]] = [
        Column("path", lambda one: one["path"], priority=3, folds=True, least=20),
        Column("version", lambda one: one["version"], right=True, priority=1),
        Column("class", lambda one: one["class"], priority=1),
        Column(
            "sizeBytes",
            lambda one: one["sizeBytes"],
            lambda one: format_size(one["sizeBytes"]),
            right=True,
            title="size",
        ),
        Column("ageMs", lambda one: one["ageMs"], lambda one: _ago(one["ageMs"]), right=True, title="age"),
    ]
    fields = envelope("deltacli.catalog-staged", staged.table, complete=True)
    said = [] if items else [Section("staged", ["none"])]
    return Listing(fields, "staged-commit", items, columns, items, said=lambda _: said)


def publish_result(table: str, outcome: PublishOutcome, *, dry_run: bool) -> Outcome:
    """Return which commits were published, or would be."""
    content = outcome.as_json(dry_run=dry_run)
    rows = [{"version": version} for version in content["published"]]
    return Outcome(
        "catalog-publish", table, content, lambda: list(_published(table, outcome, dry_run=dry_run)), rows, ("version",)
    )


def _published(table: str, outcome: PublishOutcome, *, dry_run: bool) -> Iterator[Section]:
    plan = outcome.plan
    if plan.is_noop:
        yield Section("nothing to do", [f"{table}: every ratified version is published"])
        return
    yield Section("table", [table])
    shown = [one for one in plan.items if dry_run or one.version in outcome.published]
    lines = [f"version {one.version}, {format_size(one.size_bytes)}, {_ago(one.age_ms)}" for one in shown]
    yield Section("would publish" if dry_run else "published", lines, Style.PLAIN if dry_run else Style.GOOD)
    yield Section("reported", [] if dry_run or outcome.reported is None else [f"up to version {outcome.reported}"])
    yield refused([] if plan.refusal is None else [f"{plan.refusal.reason} [{plan.refusal.code}]"])


def _ago(age_ms: int) -> str:
    return format_age(-age_ms, 0)
