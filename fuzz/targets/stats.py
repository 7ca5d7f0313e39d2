"""Statistics of files, one text a line: the column and the parser of one text must agree."""

from __future__ import annotations

import pyarrow as pa

from deltacli.delta.log.file_actions import extract_num_records_column, parse_num_records
from fuzz.mutate import JSON_TOKENS
from fuzz.targets.collect import collect
from tests.support import strategies as some

TOKENS = (*JSON_TOKENS, b'{"numRecords":', b'"numRecords"', b'\n{"numRecords":7}\n', b"}null", b"}{", b"007")
_LEAD = '{"numRecords":'


def seeds() -> list[bytes]:
    """The statistics of the property tests, and any JSON."""
    plain = [text for text in some.STATISTICS if text is not None]
    texts = [*plain, *collect(some.json_texts(), 60)]
    wide = '{"numRecords":12,"minValues":{"a":1,"s":"x"},"maxValues":{"a":9},"nullCount":{"a":0}}'
    return [text.encode("utf-8", "replace") for text in (*texts, wide, "\n".join(plain))]


def test_one_input(data: bytes) -> None:
    """A text counts the same rows whatever its neighbours are."""
    texts: list[str | None] = [*data.decode("utf-8", "replace").split("\n"), None]
    found = extract_num_records_column(pa.array(texts, pa.string())).to_pylist()
    for text, records in zip(texts, found, strict=True):
        if text is None or (text.startswith(_LEAD) and text.endswith("}")):
            continue  # by position, whatever its tail is
        alone = extract_num_records_column(pa.array([text], pa.string())).to_pylist()
        if not [parse_num_records(text)] == alone == [records]:
            raise AssertionError(f"{text[:200]!r}: {parse_num_records(text)} by itself, {alone}, {records} in a column")
