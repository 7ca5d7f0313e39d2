"""Damages of in-commit timestamps, and of tables that a catalog or manifests manage."""

from __future__ import annotations

from typing import Any

from tests.rules.corruptions import damage
from tests.rules.table_builder import NOW_MS, Action, TableBuilder

ON = {"delta.enableInCommitTimestamps": "true"}


class TimedTable(TableBuilder):
    """A table with in-commit timestamps from its first version on, unless `since` says otherwise."""

    since = 0

    def __init__(self, *, features: tuple[str, ...] = (), properties: dict[str, str] | None = None) -> None:
        protocol: Action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
        if features:
            protocol["writerFeatures"] += features
            protocol |= {"minReaderVersion": 3, "readerFeatures": list(features)}
        on = ON if self.since == 0 else {}
        super().__init__(protocol=protocol, properties=on | (properties or {}))

    def info(self, version: int, operation: str = "WRITE") -> Action:
        found = super().info(version, operation)
        if version >= self.since:
            timed = {"inCommitTimestamp": self.time_of(version) + 1}
            found["commitInfo"] = timed | found["commitInfo"]
        return found

    def _checksum(self, version: int) -> Action:
        time = self.action(version, "commitInfo").get("inCommitTimestamp")
        return super()._checksum(version) | ({"inCommitTimestampOpt": time} if time is not None else {})


class LateTable(TimedTable):
    """A table that turns in-commit timestamps on with version 3."""

    since = 3

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        properties = {
            "delta.inCommitTimestampEnablementVersion": "3",
            "delta.inCommitTimestampEnablementTimestamp": str(self.action(3, "commitInfo")["inCommitTimestamp"]),
        }
        metadata = self.change_metadata()
        configuration = metadata["metaData"]["configuration"]
        configuration |= ON | properties | changes
        for key in [key for key, value in configuration.items() if value is None]:
            del configuration[key]
        self.commits[3].insert(1, metadata)


class ManagedTable(TimedTable):
    """A table that a catalog manages."""

    def __init__(self, *, properties: dict[str, str] | None = None) -> None:
        super().__init__(features=("catalogManaged", "vacuumProtocolCheck"), properties=properties)


@damage("ict.missing")
def commit_without_timestamp() -> TableBuilder:
    table = TimedTable().derive(checksums=False)
    del table.action(3, "commitInfo")["inCommitTimestamp"]
    return table


@damage("ict.not-first")
def commit_info_at_the_end() -> TableBuilder:
    table = TimedTable()
    table.commits[3].reverse()
    return table


@damage("ict.not-monotone")
def timestamp_of_the_version_before() -> TableBuilder:
    table = TimedTable()
    table.action(3, "commitInfo")["inCommitTimestamp"] = table.action(2, "commitInfo")["inCommitTimestamp"]
    return table


@damage("ict.future")
def timestamp_beyond_the_clock() -> TableBuilder:
    table = TimedTable()
    table.action(3, "commitInfo")["inCommitTimestamp"] = NOW_MS + 300_001
    return table


@damage("ict.future")
def timestamp_that_nothing_can_follow() -> TableBuilder:
    table = TimedTable()
    table.action(max(table.commits), "commitInfo")["inCommitTimestamp"] = 2**63 - 1
    return table


@damage("ict.enablement-properties")
def enablement_without_its_timestamp() -> TableBuilder:
    return LateTable(**{"delta.inCommitTimestampEnablementTimestamp": None})


@damage("ict.enablement-properties")
def enablement_is_not_told() -> TableBuilder:
    names = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
    return LateTable(**dict.fromkeys(names))


@damage("ict.enablement-properties")
def enablement_tells_another_time() -> TableBuilder:
    table = LateTable()
    configuration = table.action(3, "metaData")["configuration"]
    configuration["delta.inCommitTimestampEnablementTimestamp"] = str(table.time_of(3))
    return table


@damage("ict.enable-before-mtime")
def enabling_is_as_old_as_the_file_before() -> TableBuilder:
    table = LateTable()
    time = table.time_of(2)
    table.action(3, "commitInfo")["inCommitTimestamp"] = time
    configuration = table.action(3, "metaData")["configuration"]
    configuration["delta.inCommitTimestampEnablementTimestamp"] = str(time)
    return table


@damage("ict.without-feature")
def timestamps_on_without_feature() -> TableBuilder:
    return TableBuilder(properties=ON)


@damage("catalog.unpublished-possible")
def table_of_a_catalog() -> TableBuilder:
    return ManagedTable()


# That a catalog manages the table is always said.
@damage("catalog.txnid-missing", also=("catalog.unpublished-possible",))
def commit_without_txn_id() -> TableBuilder:
    table = ManagedTable()
    del table.action(3, "commitInfo")["txnId"]
    return table


@damage("catalog.ict-missing", also=("catalog.unpublished-possible",))
def table_of_a_catalog_turns_timestamps_off() -> TableBuilder:
    table = ManagedTable()
    metadata = table.change_metadata()
    metadata["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "false"
    table.commits[3].insert(1, metadata)
    del table.action(3, "commitInfo")["inCommitTimestamp"]
    return table


@damage("catalog.publish-order", also=("catalog.unpublished-possible",))
def version_is_not_published() -> TableBuilder:
    table = ManagedTable().derive(checkpoint=False, checksums=False)
    table.drop(f"_delta_log/{2:020d}.json")
    return table


# The feature demands four others, which would have to be used as well.
@damage("amt.readable-partially", also=("protocol.dependency",))
def table_with_manifests() -> TableBuilder:
    return TimedTable(features=("adaptiveMetadata",)).derive(checkpoint=False)
