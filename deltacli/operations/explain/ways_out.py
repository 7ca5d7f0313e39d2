"""How a table gets rid of what stops clients, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.log.counts import FileCounts
from deltacli.delta.protocol.clients import USED
from deltacli.delta.protocol.feature_drops import MAPPING, REMOVALS, VECTORS, widened_columns
from deltacli.delta.protocol.features import FEATURES
from deltacli.errors import DeltacliError
from deltacli.hints import TABLE, command, quoted_table
from deltacli.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.delta.protocol.clients import Blocker
    from deltacli.operations.table.version import Snapshot

_SWITCHES = {name: feature.enabled_by for name, feature in FEATURES.items() if feature.enabled_by}


@dataclass(frozen=True)
class WayOut:
    """How a table gets rid of a feature, or of what uses it: a command (None: none does), its steps, and the files that
    are rewritten (`files`, `size_bytes`; None: unknown). `why`: why no command does it.
    """

    feature: str
    command: str | None
    steps: tuple[str, ...]
    files: int | None
    size_bytes: int | None
    why: str | None = None

    def as_json(self) -> JsonObject:
        """As in the document."""
        return {
            "feature": self.feature,
            "command": self.command,
            "steps": list(self.steps),
            "files": self.files,
            "sizeBytes": self.size_bytes,
            "why": self.why,
        }


def ways_out(snapshot: Snapshot, blockers: Collection[Blocker]) -> Iterator[WayOut]:
    """Yield a way out for each feature that stops a client, by name. Raises what counting the files raises."""
    counts: FileCounts | None = None
    by_feature: dict[str, list[Blocker]] = {}
    for one in blockers:
        if one.trait.startswith("features."):  # a list of features goes with the last of them
            continue
        by_feature.setdefault(one.feature, []).append(one)
    for feature, stopping in sorted(by_feature.items()):
        if counts is None:
            counts = snapshot.counts()[0]
        yield _way_out(snapshot, feature, [one.trait for one in stopping], counts)


def _way_out(snapshot: Snapshot, feature: str, traits: list[str], counts: FileCounts) -> WayOut:
    switch = _SWITCHES.get(feature)
    if switch in snapshot.properties and all(trait == feature + USED for trait in traits):
        return WayOut(feature, _named(snapshot, command("properties unset", switch)), (f"unset {switch}",), 0, 0)
    anew = ("write the rows into a new table without it",)
    if feature not in REMOVALS:
        return WayOut(feature, None, anew, counts.count, counts.size_bytes, _not_removable(feature))
    from deltacli.operations.change.drop_feature import plan_drop

    try:
        plan = plan_drop(snapshot.table, feature)
    except DeltacliError as fault:
        if fault.code == "features.required":  # it can be dropped after the other one
            return WayOut(feature, None, (), 0, 0, f"{fault.message}, which has to be dropped first")
        return WayOut(feature, None, anew, counts.count, counts.size_bytes, fault.message)
    files, size = _rewritten(snapshot, feature, counts)
    return WayOut(feature, _named(snapshot, command("features drop", feature)), tuple(plan.steps), files, size)


def _rewritten(snapshot: Snapshot, feature: str, counts: FileCounts) -> tuple[int | None, int | None]:
    """Return how many data files a drop rewrites, and their bytes; None where that is not known before."""
    files: int | None = 0
    size: int | None = 0
    if feature == VECTORS:
        files = counts.deletion_vectors
    elif feature == MAPPING:
        from deltacli.operations.change.remove_mapping import files_to_rename

        files, size = files_to_rename(snapshot) or (0, 0)
    elif REMOVALS[feature].rewrites_types(feature):
        files = None if widened_columns(snapshot.config) else 0
    return files, None if files is None or (files and not size) else size


def _named(snapshot: Snapshot, advice: str) -> str:
    """Return a command with the name of the table."""
    return advice.replace(TABLE, quoted_table(snapshot.table.name or snapshot.table.uri))


def _not_removable(feature: str) -> str:
    if feature not in FEATURES:
        return "no command removes it"
    return f"the feature {feature} cannot be dropped from a protocol"
