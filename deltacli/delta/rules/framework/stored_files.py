"""Files that rules check: where the log names a live one, and when one was last removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import Place
from deltacli.delta.paths.locate_paths import locate_all


def place_of(add: Mapping[str, Any]) -> Place:  # Any: values of the columns
    """Return where the log names a live file, by its row of `StorageView.live_adds`."""
    version = add["version"]
    return Place(add["source"], add["line"], version if version >= 0 else None, add["path"])


def newest_removals(tombstones: Iterable[Action], uri: str) -> dict[str, int]:
    """Return path relative to the table -> time of its last removal, 0 if the remove has none."""
    removes = [remove for remove in tombstones if isinstance(remove.get("path"), str)]
    newest: dict[str, int] = {}
    for path, remove in zip(locate_all((remove["path"] for remove in removes), uri), removes, strict=True):
        if path is not None:
            timestamp = remove.get("deletionTimestamp")
            newest[path] = max(newest.get(path, 0), timestamp if type(timestamp) is int else 0)
    return newest
