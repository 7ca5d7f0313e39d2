"""`_last_checkpoint`: any bytes cost a listing at most."""

from __future__ import annotations

from deltacli.delta.log.segment import Hint, read_hint
from fuzz.mutate import JSON_TOKENS
from tests.support.builder import HINT, TableBuilder
from tests.support.reading import open_built

TOKENS = (
    *JSON_TOKENS,
    b'"checksum":"',
    b'"version":',
    b'{"version":1,"checksum":"x","a":' + b"[" * 900 + b"]" * 900 + b"}",
    b'"v2Checkpoint":{"path":"x","nonFileActions":[{}]}',
)


def seeds() -> list[bytes]:
    """Hints with and without checksums, small and large."""
    made = [
        TableBuilder().hint(3),
        TableBuilder().hint(0, checksum="right", parts=2),
        TableBuilder().hint(1, checksum="wrong", sizeInBytes=7, numOfAddFiles=3),
        TableBuilder().hint(1, checksum="right", tags="a b/é"),
        TableBuilder().hint(1, checksum="wrong", v2Checkpoint={"path": "x", "sidecarFiles": [1, [2.5, None, True]]}),
    ]
    return [builder.files[HINT].data for builder in made]


def test_one_input(data: bytes) -> None:
    """A hint is believed or has a rule that it breaks; the snapshot is the same."""
    found = read_hint(data)
    if isinstance(found, Hint) and not 0 <= found.version < 2**63:
        raise AssertionError(f"{found} is believed")
    snapshot = open_built(_TABLE.file(HINT, data)).snapshot()
    if (snapshot.version, snapshot.counts()[0].count) != (3, 3):
        raise AssertionError(f"a hint changes the state: {snapshot.counts()}")


_TABLE = TableBuilder().commits(4).checkpoint(1)
