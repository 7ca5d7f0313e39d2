"""Whether two spellings of a protocol or of a metaData action are equivalent: a copy in a checkpoint or a checksum
compared with replay.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from deltacli.delta.log.state import Metadata
from deltacli.delta.protocol.features import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION, Protocol


def metadata_differences(actual: Metadata, expected: Metadata) -> list[str]:
    """Return the names of the fields that differ. The order of properties and the JSON spelling of a schema are
    ignored.
    """
    names = []
    for field in Metadata._fields:
        one, other = getattr(actual, field), getattr(expected, field)
        same = _same_schema(one, other) if field == "schema_string" else one == other
        if not same:
            names.append(_WORDS.get(field, field))
    return names


def protocol_differences(actual: Protocol, expected: Protocol, *, with_null_lists: bool = True) -> list[str]:
    """Return the names of the fields that differ. An empty list equals a missing one. Without `with_null_lists`, a list
    that is null or not null contrary to its versions is also equal, because another rule reports it.
    """
    names = []
    if actual.min_reader_version != expected.min_reader_version:
        names.append("minReaderVersion")
    if actual.min_writer_version != expected.min_writer_version:
        names.append("minWriterVersion")
    faulty = () if with_null_lists else misplaced_feature_lists(actual)
    if set(actual.reader_features or ()) != set(expected.reader_features or ()) and "readerFeatures" not in faulty:
        names.append("readerFeatures")
    if set(actual.writer_features or ()) != set(expected.writer_features or ()) and "writerFeatures" not in faulty:
        names.append("writerFeatures")
    return names


def misplaced_feature_lists(protocol: Protocol) -> Collection[str]:
    """Return the feature lists that are null although the versions require one, or present although they allow none."""
    lists = {
        "readerFeatures": (protocol.reader_features, protocol.min_reader_version >= READER_FEATURES_VERSION),
        "writerFeatures": (protocol.writer_features, protocol.min_writer_version >= WRITER_FEATURES_VERSION),
    }
    return [name for name, (features, is_due) in lists.items() if (features is not None) is not is_due]


def _same_schema(one: str | None, other: str | None) -> bool:
    """Return True if two texts are the same JSON. Texts that are not JSON must be identical."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


_WORDS = {
    "schema_string": "schemaString",
    "partition_columns": "partitionColumns",
    "created_time": "createdTime",
    "provider": "format.provider",
    "format_options": "format.options",
}
