"""Files that rules look at: where a live one is named, and when one was removed last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.place import Place
from deltacli.delta.paths.stored_paths import locate_all


def place_of(add: Mapping[str, Any]) -> Place:  # Any: values of the columns
    """Where a live file is named, by its row of `StorageView.live_adds`."""
    version = add["version"]
    return Place(add["source"], add["line"], version if version >= 0 else None, add["path"])


def newest_removals(tombstones: Iterable[Action], uri: str) -> dict[str, int]:
    """Path relative to the table -> when it was removed last; 0 where the remove does not say."""
    removes = [remove for remove in tombstones if isinstance(remove.get("path"), str)]
    newest: dict[str, int] = {}
    for path, remove in zip(locate_all((remove["path"] for remove in removes), uri), removes, strict=True):
        if path is not None:
            found = remove.get("deletionTimestamp")
            newest[path] = max(newest.get(path, 0), found if type(found) is int else 0)
    return newest
