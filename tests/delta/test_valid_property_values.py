"""Values of properties: refused, or written so that every engine reads them alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.log.state import PORTABLE_INTERVAL, parse_interval
from deltacli.delta.protocol.known_properties import known_keys
from deltacli.delta.protocol.property_changes import expected_of, normal_form
from tests.property.test_intervals import terms
from tests.support.effort import examples


@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        ("delta.appendOnly", "TRUE", "true"),
        ("delta.appendOnly", "yes", None),
        ("delta.checkpointInterval", "+007", "7"),
        ("delta.checkpointInterval", "0", None),
        ("delta.checkpointInterval", "9" * 5000, None),
        ("delta.checkpointInterval", "1.5", None),
        ("delta.dataSkippingNumIndexedCols", "-1", "-1"),
        ("delta.logRetentionDuration", "30 DAYS", "interval 30 days"),
        ("delta.logRetentionDuration", "interval 1 week 12 hours", "interval 180 hours"),
        ("delta.logRetentionDuration", "interval 1.5 seconds", "interval 1500 milliseconds"),
        ("delta.logRetentionDuration", "1 day", "interval 1 day"),
        ("delta.logRetentionDuration", "0 hours", "interval 0 weeks"),
        ("delta.logRetentionDuration", "interval  3  days", "interval 3 days"),
        ("delta.logRetentionDuration", "interval 1 month", None),
        ("delta.logRetentionDuration", "interval -1 days", None),
        ("delta.logRetentionDuration", "interval 99999999999999999 weeks", None),
        ("delta.checkpointPolicy", "v3", None),
        ("delta.isolationLevel", "Serializable", "Serializable"),
        ("delta.isolationLevel", "SnapshotIsolation", None),
        ("delta.parquet.compression.codec", "zstd", "zstd"),
        ("delta.parquet.compression.codec", "zip", None),
        ("delta.parquet.format.version", "2.6.0", "2.6.0"),
        ("delta.parquet.format.version", "2", None),
        ("delta.targetFileSize", "128mb", "128mb"),
        ("delta.targetFileSize", "some", None),
        ("owner", " any = thing ", " any = thing "),
    ],
)
def test_a_value_is_written_in_its_normal_form_or_invalid(key: str, value: str, written: str | None) -> None:
    assert written == normal_form(key, value)


@given(st.lists(terms(), min_size=1, max_size=3))
@examples(100)
def test_every_interval_is_written_for_every_engine_and_keeps_its_length(parts: list[tuple[str, object]]) -> None:
    text = " ".join(part for part, _ in parts)
    written = normal_form("delta.logRetentionDuration", text)

    length = parse_interval(text)
    assert (length is None) == (written is None)
    if written is not None:
        assert PORTABLE_INTERVAL.fullmatch(written)
        assert length == parse_interval(written)


@pytest.mark.parametrize("key", known_keys())
def test_a_normal_form_is_its_own(key: str) -> None:
    assert expected_of(key)
    for value in ("true", "7", "interval 3 days", "v2", "none", "zstd", "1.0.0", "Serializable"):
        written = normal_form(key, value)
        assert written is None or written == normal_form(key, written)
