"""Damages of log compaction files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.rules.corruptions import damage
from tests.rules.corruptions_actions import domain, with_domains, without_the_first_commits
from tests.rules.table_builder import Action, TableBuilder

Actions = list[Action]


def compact(table: TableBuilder, first: int, last: int, edit: Callable[[Actions], Any] | None = None) -> TableBuilder:
    """Put a compaction next to the commits, after an edit of its actions in place."""
    state: dict[str, dict[Any, Action]] = {}
    for version in range(first, last + 1):
        for action in table.commits.get(version, ()):
            for kind, fields in action.items():
                if kind != "commitInfo":
                    key = fields.get("path") or fields.get("appId") or fields.get("domain") or ""
                    state.setdefault("file" if kind in ("add", "remove") else kind, {})[key] = {kind: fields}
    actions: Actions = json.loads(json.dumps([action for found in state.values() for action in found.values()]))
    if edit:
        edit(actions)
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    table.put(f"_delta_log/{first:020d}.{last:020d}.compacted.json", lines)
    return table


def without(kind: str) -> Callable[[Actions], None]:
    def edit(actions: Actions) -> None:
        del actions[next(number for number, action in enumerate(actions) if kind in action)]

    return edit


def healthy() -> TableBuilder:
    """A table with all there is to compact, in versions 1 to 4."""
    table = with_domains()
    table.commits[2].append(domain("app.other", "{}"))
    table.commits[3] += [domain("app.other", "{}", removed=True), {"txn": {"appId": "stream", "version": 4}}]
    table.commits[3].append(table.change_metadata())
    return table


@damage("compaction.bad-name")
def versions_in_reverse() -> TableBuilder:
    table = TableBuilder()
    table.put(f"_delta_log/{2:020d}.{1:020d}.compacted.json", "")
    return table


@damage("compaction.bad-name")
def one_version_alone() -> TableBuilder:
    return compact(TableBuilder(), 2, 2)


@damage("compaction.beyond-log")
def compaction_of_commits_to_come() -> TableBuilder:
    return compact(TableBuilder(), 2, 4)


@damage("compaction.missing-remove")
def compaction_without_the_remove() -> TableBuilder:
    return compact(healthy(), 1, 4, without("remove"))


@damage("compaction.missing-domain-tombstone")
def compaction_without_the_removed_domain() -> TableBuilder:
    def edit(actions: Actions) -> None:
        actions[:] = [action for action in actions if action.get("domainMetadata", {}).get("domain") != "app.other"]

    return compact(healthy(), 1, 4, edit)


@damage("compaction.content")
def compaction_without_an_add() -> TableBuilder:
    return compact(healthy(), 1, 4, without("add"))


@damage("compaction.content")
def compaction_without_the_transaction() -> TableBuilder:
    return compact(healthy(), 1, 4, without("txn"))


@damage("compaction.content")
def compaction_without_the_metadata() -> TableBuilder:
    return compact(healthy(), 1, 4, without("metaData"))


@damage("compaction.content")
def compaction_with_another_size() -> TableBuilder:
    def edit(actions: Actions) -> None:
        next(action["add"] for action in actions if "add" in action)["size"] = 3

    return compact(healthy(), 1, 4, edit)


@damage("compaction.content")
def compaction_with_an_older_transaction() -> TableBuilder:
    def edit(actions: Actions) -> None:
        next(action["txn"] for action in actions if "txn" in action)["version"] = 3

    return compact(healthy(), 1, 4, edit)


@damage("compaction.content")
def compaction_with_a_file_too_many() -> TableBuilder:
    table = healthy()
    return compact(table, 1, 4, lambda actions: actions.append(table.new_add("b", 9, 4)))


@damage("compaction.content")
def compaction_with_an_add_twice() -> TableBuilder:
    return compact(healthy(), 1, 4, lambda actions: actions.append(next(a for a in actions if "add" in a)))


@damage("compaction.content")
def compaction_that_revives_a_file() -> TableBuilder:
    def edit(actions: Actions) -> None:
        without("remove")(actions)
        actions.append(TableBuilder().new_add("a", 1, 1))

    return compact(healthy(), 1, 4, edit)


@damage("compaction.forbidden-action")
def compaction_with_provenance() -> TableBuilder:
    return compact(healthy(), 1, 4, lambda actions: actions.append(TableBuilder().info(4)))


# The log was cleaned up: what lies below its checkpoint is gone.
@damage("compaction.stale", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def compaction_that_a_cleanup_left() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    compact(table, 0, 1)
    return without_the_first_commits(table)


@damage("compaction.stale", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def compaction_that_begins_with_the_oldest_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checksums=False)
    compact(table, 2, 3)
    return without_the_first_commits(table)
