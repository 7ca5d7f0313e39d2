"""The statistics of a view of files, parsed once for all rules that use them."""

from __future__ import annotations

from deltacli.delta.rules.framework.views import FilesView
from deltacli.delta.stats.columns import StatsColumns, parse_stats


def stats_of(view: FilesView) -> StatsColumns:
    """Return the statistics of a view, parsed at the first call."""
    stats = view.memory.get("stats")
    if not isinstance(stats, StatsColumns):
        stats = view.memory["stats"] = parse_stats(view.adds.column("stats"), view.config)
    return stats
