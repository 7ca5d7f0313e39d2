"""The columns by which a table is clustered. Files stay as they are until they are optimized. Spec: Clustered Table."""

from __future__ import annotations

import json
from dataclasses import replace

from deltacli.delta.clustering.clustering_columns import DOMAIN, FEATURE, find_column
from deltacli.delta.clustering.order_columns import order_columns
from deltacli.delta.evolution.draft import Changed, ColumnNames, Draft, Effect, Settings, forbid
from deltacli.delta.evolution.requests import SetClustering
from deltacli.delta.log.commit_lines import Action
from deltacli.errors import UsageError

MOST_CLUSTERING_COLUMNS = 4


def set_clustering(draft: Draft, change: SetClustering, _: Settings) -> Changed:
    """Cluster a table by other columns, or by none."""
    columns = order_columns(draft.config, change.columns) if change.columns else ()
    if len(columns) > MOST_CLUSTERING_COLUMNS:
        raise UsageError(
            f"a table can be clustered by up to {MOST_CLUSTERING_COLUMNS} columns, not by {len(columns)}",
            code="usage.column",
        )
    partitions = list(draft.metadata.get("partitionColumns") or [])
    if columns and partitions:
        forbid(
            "alter.partitioned",
            f"the table cannot be clustered: it is partitioned by {', '.join(partitions)}",
            "copy the rows into a table without partitions",
        )
    paths = tuple(column.path for column in columns)
    effect = Effect(
        change, "clustering columns", logical_names(draft) or None, ",".join(c.text for c in columns) or None
    )
    changed = replace(draft, clustering=paths)
    return (changed.needing([FEATURE, "domainMetadata"]) if columns else changed), effect


def logical_names(draft: Draft) -> str:
    """Return the clustering columns as people write them, separated by commas."""
    found = (find_column(draft.config, draft.schema, path) for path in draft.clustering)
    return ",".join(".".join(field.name for field in one.fields) or one.name for one in found)


def clustering_action(paths: tuple[ColumnNames, ...]) -> Action:
    """Return the action of the domain that names the columns."""
    configuration = {"clusteringColumns": [list(path) for path in paths], "domainName": DOMAIN}
    return {"domain": DOMAIN, "configuration": json.dumps(configuration, separators=(",", ":")), "removed": False}
