"""Damages of change data, and of tables that only grow."""

from __future__ import annotations

from tests.rules.corruptions import damage
from tests.rules.corruptions_log_files import OldTable
from tests.rules.table_builder import Action, TableBuilder

FEED = {"delta.enableChangeDataFeed": "true"}
WITH_FEED: Action = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed"]}
VECTORS: Action = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["appendOnly", "deletionVectors"],
}


class FeedTable(TableBuilder):
    """A table whose second version has change data."""

    def __init__(self) -> None:
        super().__init__(protocol=dict(WITH_FEED), properties=FEED)
        self.commits[2].append(self.new_cdc("_change_data/p=a/cdc-00001.parquet"))

    def new_cdc(self, path: str) -> Action:
        return {"cdc": {"path": path, "partitionValues": {"p": "a"}, "size": 1003, "dataChange": False}}


class OldFeedTable(FeedTable, OldTable):
    """Its change data is past the retention; its removed file was vacuumed with it."""

    days = 20


@damage("cdc.file-missing")
def change_data_file_is_missing() -> TableBuilder:
    table = FeedTable()
    table.drop(table.action(2, "cdc")["path"])
    return table


@damage("cdc.file-missing", also=("data.expired-tombstone-present",))  # the vacuum that took it left a data file
def change_data_file_is_vacuumed() -> TableBuilder:
    table = OldFeedTable()
    table.drop(table.action(2, "cdc")["path"])
    return table


@damage("cdc.size-mismatch")
def change_data_file_is_cut() -> TableBuilder:
    table = FeedTable()
    table.put(table.action(2, "cdc")["path"], b"x" * 1002)
    return table


@damage("cdc.location")
def change_data_beside_data() -> TableBuilder:
    table = FeedTable()
    table.action(2, "cdc")["path"] = "p=a/cdc-00001.parquet"
    return table


@damage("cdc.without-feature")
def change_data_in_a_plain_table() -> TableBuilder:
    table = FeedTable()
    table.protocol.clear()
    table.protocol.update({"minReaderVersion": 1, "minWriterVersion": 2})
    table.configure({"delta.enableChangeDataFeed": None})
    return table


@damage("cdc.missing-when-enabled")
def update_without_change_data() -> TableBuilder:
    table = FeedTable()
    table.commits[2].pop()
    return table


@damage("cdc.missing-when-enabled")
def overwrite_that_copies_rows() -> TableBuilder:
    table = FeedTable()
    table.commits[2].pop()
    table.action(2, "commitInfo").update(operation="WRITE", operationMetrics={"numCopiedRows": "1"})
    return table


@damage("cdc.partition-values")
def change_data_without_partition_value() -> TableBuilder:
    table = FeedTable()
    table.action(2, "cdc")["partitionValues"] = {}
    return table


@damage("appendonly.violated")
def remove_in_a_growing_table() -> TableBuilder:
    return TableBuilder(properties={"delta.appendOnly": "true"})


@damage("appendonly.dv-delete")
def deletion_vector_in_a_growing_table() -> TableBuilder:
    table = TableBuilder(
        protocol=VECTORS, properties={"delta.appendOnly": "true", "delta.enableDeletionVectors": "true"}
    )
    vector = {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    add = table.add(2)
    add.update(table.add(1), deletionVector=vector | {"sizeInBytes": 44, "cardinality": 6})
    table.set_stats(2, {"numRecords": 10, "tightBounds": False})
    return table
