"""`explain` of a Paimon table: which clients read and write it, what stops them and since which schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deltacli.core.errors import Unreadable, UsageError
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.clients import access
from deltacli.operations.explain.explain import Explained, Explanation, asked_of
from deltacli.operations.explain.request import ExplainRequest
from deltacli.operations.paimon.references import traits_of_manifests
from deltacli.operations.paimon.snapshot import Point, read_paimon_snapshot
from deltacli.operations.paimon.table_files import read_schemas
from deltacli.paimon.table_paths import MAIN_BRANCH
from deltacli.paimon.traits import UNREADABLE_SCHEMA, traits_of_schemas
from deltacli.table.handle import TableHandle
from deltacli.table.known_clients import paimon_clients


class TableTraits(NamedTuple):
    """The newest schema of a branch, and each trait with the schema since which the table has it; None: unknown."""

    schema_id: int
    since: Mapping[str, int | None]


def table_traits(table: TableHandle, branch: str = MAIN_BRANCH) -> TableTraits:
    """Return the traits of a table. Raises NotATable, Unreadable and what `read_paimon_snapshot` raises."""
    newest = read_paimon_snapshot(table, Point(branch))
    read = read_schemas(table.storage, table.engine, newest.schema_ids, branch, progress=table.progress)
    schemas = {schema_id: one for schema_id, one in read.items() if not isinstance(one, Unreadable)}
    since: dict[str, int | None] = {}
    for number, traits in zip(schemas, traits_of_schemas(schemas.values()), strict=True):
        first = number if number == 0 or number - 1 in schemas else None  # it may be older where a schema is missing
        since = {trait: since.get(trait, first) for trait in traits}
    if len(schemas) < len(read):
        since[UNREADABLE_SCHEMA] = None
    if newest.snapshot is not None:
        found = traits_of_manifests(table.storage, table.engine, newest.snapshot)
        since |= {trait: since.get(trait) for trait in found}
    return TableTraits(newest.schema_id, since)


def explain_paimon(table: TableHandle, request: ExplainRequest, branch: str = MAIN_BRANCH) -> Explanation:
    """Return which clients read and write the newest schema and snapshot of a branch, and what stops the others.

    Raises UsageError for supposed changes and for clients of other tables, and what `table_traits` raises.
    """
    if request.supposed:
        raise UsageError("changes can be supposed on Delta tables only", code="usage.table-format")
    found = table_traits(table, branch)
    does = [access(client, found.since.keys(), version) for client, version in asked_of(paimon_clients(), request)]
    clients = tuple(Explained(one, one, found.since, "schema") for one in does)
    traits = frozenset(found.since)
    return Explanation(table, found.schema_id, TableConfiguration(), clients, (), (), (), paimon_traits=traits)
