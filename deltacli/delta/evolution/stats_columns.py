"""`delta.dataSkippingStatsColumns` when columns change their names or go. Spec: Per-file Statistics."""

from __future__ import annotations

import re
from collections.abc import Callable

from deltacli.delta.evolution.draft import Draft, names_of, quoted_path
from deltacli.delta.schema.column_path import ColumnPlace
from deltacli.delta.stats.indexed_columns import STATS_COLUMNS
from deltacli.errors import UsageError

_PART = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")


def renamed_in_stats(draft: Draft, place: ColumnPlace, new: str) -> dict[str, str | None]:
    """Return the property with a column's new name; nothing where it does not name the column."""
    depth = len(place.steps)

    return _edited(draft, place, lambda names: quoted_path((*names[: depth - 1], new, *names[depth:])))


def dropped_from_stats(draft: Draft, place: ColumnPlace) -> dict[str, str | None]:
    """Return the property without a column and its fields; nothing where it does not name them."""
    return _edited(draft, place, lambda _: None)


def _edited(draft: Draft, place: ColumnPlace, edit: Callable[[tuple[str, ...]], str | None]) -> dict[str, str | None]:
    value = draft.configuration.get(STATS_COLUMNS)
    if not isinstance(value, str) or not value.strip():
        return {}
    own = names_of(place)
    kept, is_changed = [], False
    for part in _PART.findall(value):
        try:
            names = names_of(draft.finder.find(part.strip()))
        except UsageError:
            names = ()
        if names[: len(own)] == own:
            is_changed = True
            text = edit(names)
            kept += [] if text is None else [text]
        else:
            kept.append(part.strip())
    return {STATS_COLUMNS: ",".join(kept) or None} if is_changed else {}
