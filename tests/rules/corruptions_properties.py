"""Damages of table properties."""

from __future__ import annotations

from tests.rules.corruptions import damage
from tests.rules.corruptions_protocol import protocol
from tests.rules.table_builder import TableBuilder


def having(**properties: str) -> TableBuilder:
    """The table with properties, named without `delta.`, dots as two underscores."""
    return TableBuilder(properties={f"delta.{key.replace('__', '.')}": value for key, value in properties.items()})


@damage("property.unknown-delta-key")
def key_with_a_slip_of_the_pen() -> TableBuilder:
    """One letter too many."""
    return having(checkpointIntervall="10")


@damage("property.unknown-delta-key")
def key_in_lower_case() -> TableBuilder:
    """Case counts in names of properties."""
    return having(appendonly="true")


@damage("property.bad-boolean")
def boolean_is_yes() -> TableBuilder:
    """A value for people."""
    return having(randomizeFilePrefixes="yes")


@damage("property.bad-number")
def checkpoint_interval_zero() -> TableBuilder:
    """One below the lowest value."""
    return having(checkpointInterval="0")


@damage("property.bad-number")
def indexed_columns_below_minus_one() -> TableBuilder:
    """-1 means all columns, -2 means nothing."""
    return having(dataSkippingNumIndexedCols="-2")


@damage("property.bad-number")
def number_is_a_word() -> TableBuilder:
    """No digits at all."""
    return having(randomPrefixLength="two")


@damage("property.bad-number")
def file_size_in_unknown_units() -> TableBuilder:
    """An unreadable size."""
    return having(targetFileSize="128 megas")


@damage("property.bad-interval")
def interval_in_months() -> TableBuilder:
    """A month has no fixed length."""
    return having(logRetentionDuration="interval 1 month")


@damage("property.interval-portability")
def interval_without_its_first_word() -> TableBuilder:
    """Delta-Spark adds the word, others take their default."""
    return having(logRetentionDuration="30 days")


@damage("property.interval-portability")
def interval_of_two_units() -> TableBuilder:
    """Others take the first one only."""
    return having(logRetentionDuration="interval 4 weeks 2 days")


@damage("property.retention-order")
def log_shorter_than_files() -> TableBuilder:
    """The log is gone while its files stay: one hour below the default of files."""
    return having(logRetentionDuration="interval 167 hours")


@damage("property.retention-short")
def files_kept_less_than_a_day() -> TableBuilder:
    """One minute less than a day."""
    return having(deletedFileRetentionDuration="interval 1439 minutes")


@damage("property.retention-long")
def log_kept_more_than_a_year() -> TableBuilder:
    """One day more than a year."""
    return having(logRetentionDuration="interval 366 days")


@damage("property.legacy-append-only-key")
def append_only_as_in_the_samples() -> TableBuilder:
    """The key without its prefix."""
    return TableBuilder(properties={"appendOnly": "true"})


@damage("property.stats-both-off")
def no_statistics_in_checkpoints() -> TableBuilder:
    """The columns are off by the builder, JSON from version 4 on, after the checkpoint."""
    table = TableBuilder()
    metadata = table.change_metadata()
    metadata["metaData"]["configuration"]["delta.checkpoint.writeStatsAsJson"] = "false"
    table.commit(metadata, operation="SET TBLPROPERTIES")
    return table


@damage("property.stats-struct-unset")
def statistics_as_columns_not_set() -> TableBuilder:
    """Engines disagree on the default."""
    table = TableBuilder()
    table.configure({"delta.checkpoint.writeStatsAsStruct": None})
    return table


@damage("property.checkpoint-policy")
def policy_v2_without_the_feature() -> TableBuilder:
    """Checkpoints without the feature for readers."""
    return having(checkpointPolicy="v2")


@damage("property.checkpoint-policy")
def policy_of_another_name() -> TableBuilder:
    """Neither classic nor v2: case counts."""
    return having(checkpointPolicy="V2")


@damage("property.compression-codec")
def codec_of_archives() -> TableBuilder:
    """Parquet has no such codec."""
    return having(parquet__compression__codec="zip")


@damage("property.parquet-version")
def parquet_version_cut() -> TableBuilder:
    """A version of one number."""
    return having(parquet__format__version="2")


@damage("property.protocol-in-config")
def feature_as_a_property() -> TableBuilder:
    """An option of ALTER TABLE that was stored as it came."""
    return having(feature__deletionVectors="supported")


@damage("property.protocol-in-config")
def version_as_a_property() -> TableBuilder:
    """A version of the protocol among the properties."""
    return having(minReaderVersion="1")


@damage("property.log-cleanup-off")
def log_is_never_cleaned() -> TableBuilder:
    """The log grows for ever."""
    return having(enableExpiredLogCleanup="false")


@damage("property.cdf-legacy-key")
def change_data_under_its_former_name() -> TableBuilder:
    """Supported by writer version 4, off under its former name."""
    return TableBuilder(protocol=protocol(1, 4), properties={"delta.enableChangeDataCapture": "false"})
