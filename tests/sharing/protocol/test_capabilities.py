"""The capabilities header, as clients write it."""

from __future__ import annotations

import pytest

from deltacli.sharing.protocol.parameters import ResponseFormat, WireError, parse_capabilities

P, D = ResponseFormat.PARQUET, ResponseFormat.DELTA


@pytest.mark.parametrize(
    "header, formats, features, ends",
    [
        (None, (P,), set(), False),
        ("", (P,), set(), False),
        ("responseformat=delta;readerfeatures=deletionvectors", (D,), {"deletionvectors"}, False),
        ("responseFormat=delta,parquet; readerFeatures = A,b", (D, P), {"a", "b"}, False),
        ("responseformat=parquet;includeEndStreamAction=true", (P,), set(), True),
        ("asyncquery=true;responseformat=orc,delta", (D,), set(), False),
        ("responseformat;;=;delta", (P,), set(), False),
    ],
)
def test_headers(header: str | None, formats: tuple[ResponseFormat, ...], features: set[str], ends: bool) -> None:
    found = parse_capabilities(header)

    assert (formats, features, ends) == (found.formats, set(found.reader_features), found.end_stream_action)


def test_formats_that_do_not_exist_are_refused() -> None:
    with pytest.raises(WireError, match="orc"):
        parse_capabilities("responseformat=orc")
