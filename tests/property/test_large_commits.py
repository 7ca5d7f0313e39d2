"""A commit read in blocks is read, or refused, like one that is held: whatever its lines hold, wherever blocks end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltacli.core.errors import DeltacliError
from tests.support import strategies as some
from tests.support.actions import (
    add,
    birth,
    commit_info,
    deletion_vector,
    domain,
    metadata,
    protocol,
    remove,
    to_bytes,
    txn,
)
from tests.support.builder import TableBuilder
from tests.support.effort import examples
from tests.support.reading import NOW_MS, large_commits, live_rows, open_built, state_document, tombstone_rows

BLOCKS = (61, 4 << 20)

ODD_SIZE = b'{"add":{"path":"a","size":9223372036854775808}}'
ODD_LINES: tuple[bytes, ...] = (
    b"",
    b"  ",
    b"\r",
    b"null",
    b"5",
    b"[]",
    b"{}",
    b'"text"',
    b"not json",
    b'{"add":',
    b'{"add":null}',
    b'{"add":5}',
    b'{"add":{}}',
    b'{"add":{"path":null,"size":1}}',
    b'{"add":{"path":7,"size":1}}',
    b'{"add":{"path":"no-size"}}',
    b'{"add":{"path":"a","size":null}}',
    b'{"add":{"path":"a","size":"1"}}',
    b'{"add":{"path":"a","size":1.0}}',
    b'{"add":{"path":"a","size":1e2}}',
    b'{"add":{"path":"a","size":-1}}',
    b'{"add":{"path":"a","size":9223372036854775807}}',
    ODD_SIZE,
    b'{"add":{"path":"a","size":true}}',
    b'{"add":{"path":"a","size":1,"size":2}}',
    b'{"add":{"path":"a","path":"b","size":2}}',
    b'{"add":{"path":"a","size":1,"stats":{"numRecords":1}}}',
    b'{"add":{"path":"a","size":1,"stats":5}}',
    b'{"add":{"path":"a","size":1,"stats":"null"}}',
    b'{"add":{"path":"a","size":1,"deletionVector":{}}}',
    b'{"add":{"path":"a","size":1,"deletionVector":null}}',
    b'{"add":{"path":"a","size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x"}}}',
    b'{"add":{"path":"a","size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x","cardinality":"3"}}}',
    b'{"add":{"path":"a","size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x","cardinality":3,"offset":0}}}',
    b'{"add":{"path":"a","size":1,"deletionVector":"u"}}',
    b'{"add":{"path":"a","size":1,"deletionVector":{"cardinality":3}}}',
    b'{"add":{"path":"a","size":1,"future":{"x":[1,{"y":null}]},"tags":{"a":"b"}}}',
    b'{"add":{"path":"a","size":1,"minValues":NaN}}',
    b'{"add":{"path":"a\\ud800","size":1}}',
    b'{"add":{"path":"a\\u0000b","size":1}}',
    b'{"add":{"path":"a","size":1,"tags":{"x":"\\ud800"}}}',
    b'{"add":{"path":"\xff","size":1}}',
    b'{"add":{"path":"a","size":1,"tags":{"x":"\xff"}}}',
    b'{"add":{"path":"","size":1}}',
    b'{"add":{"path":"a/","size":1}}',
    b' { "add" : { "path" : "a" , "size" : 3 } } ',
    b'{"add":{"path":"a","size":1}} ',
    b'{"add":{"path":"a","size":1}}\r',
    b'{"add":{"path":"a","size":1}}x',
    b'{"add":{"path":"a","size":1},"remove":{"path":"b"}}',
    b'{"add":{"path":"a","size":1},"txn":{"appId":"two kinds on a line","version":1}}',
    b'{"txn":{"appId":"two kinds on a line","version":1},"add":{"path":"a","size":1}}',
    b'{"add":{"path":"a","size":1},"add":{"path":"b","size":1}}',
    b'{"remove":{}}',
    b'{"remove":{"path":"a","deletionTimestamp":"1"}}',
    b'{"remove":{"path":"a","deletionTimestamp":1.5}}',
    b'{"remove":{"path":"a","deletionTimestamp":null,"size":"large"}}',
    b'{"remove":{"path":"a","deletionVector":{"storageType":"u","pathOrInlineDv":"x"}}}',
    b'{"\\u0061dd":{"path":"a","size":1}}',
    b'{"future":5}',
    b'{"future":{"add":{"path":"ghost","size":1}}}',
    b'{"future":{"path":"}\\n{\\"add\\":"}}',
    b'{"commitInfo":[]}',
    b'{"txn":5}',
    b'{"txn":{"appId":"a"}}',
    b'{"txn":{"appId":"a","version":"1"}}',
    b'{"domainMetadata":{"domain":"d","configuration":"{\\"add\\":{}}","removed":false}}',
    b'{"protocol":{"minReaderVersion":"1","minWriterVersion":2}}',
    b'{"cdc":{"path":"c","size":"x"}}',
    b'{"add":' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"add":{"path":"a","size":1,"future":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}}",
)

STAMPED = [
    protocol(1, 7, writer_features=["inCommitTimestamp"]),
    metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
]
"""In-commit timestamps are on, so that it matters whether commitInfo is the first action."""


def plain_lines() -> st.SearchStrategy[bytes]:
    """Lines as writers write them."""
    stamps = st.builds(commit_info, inCommitTimestamp=st.integers(0, 9))
    lines = st.one_of(some.adds(), some.adds(), some.removes(), some.small_actions(), stamps)
    return lines.map(lambda line: to_bytes([line])[:-1])


def apart(lines: list[bytes]) -> list[bytes]:
    """Give odd lines paths of their own: a fault of an add that a later one of the same key hides need not be seen."""
    return [line.replace(b'"path":"a"', b'"path":"a%d"' % number) for number, line in enumerate(lines)]


def outcome(builder: TableBuilder, *, codes: bool = True) -> list[object]:
    """What comes of reading the newest version in each way there is: an answer, or the kind of error in its place, with
    its code. Of two faults either may be met first.
    """

    def attempt(answer: Callable[[], object]) -> object:
        try:
            return answer()
        except DeltacliError as error:
            return type(error).__name__, error.code if codes else None

    table = open_built(builder)
    return [
        attempt(lambda: state_document(table)),
        attempt(lambda: table.snapshot().counts()),
        attempt(lambda: live_rows(table.snapshot())),
        attempt(lambda: tombstone_rows(table.snapshot())),
        attempt(lambda: table.snapshot().time),
        attempt(lambda: table.snapshot().problems),
        attempt(lambda: table.history(counts=True).items),
    ]


@given(
    st.lists(plain_lines() | plain_lines() | st.sampled_from(ODD_LINES), max_size=7),
    st.sampled_from([b"\n", b""]),
    st.sampled_from(BLOCKS),
)
@example([b"null"], b"\n", 4 << 20)
@example([b'{"add":{"path":"a","size":1}}', b'{"commitInfo":{"inCommitTimestamp":5}}'], b"\n", 4 << 20)
@example([ODD_SIZE, b'{"add":{"path":"a","size":1,"deletionVector":{"cardinality":3}}}'], b"\n", 61)
@examples(20)
def test_a_large_commit_is_read_or_refused_like_a_small_one(lines: list[bytes], end: bytes, block_bytes: int) -> None:
    data = b"\n".join([b"{}", *apart(lines)]) + end
    builder = TableBuilder().commit(*STAMPED, add("old", size=5)).commit(raw=data)
    is_faulty_once = sum(line in ODD_LINES for line in lines) < 2
    expected = outcome(builder, codes=is_faulty_once)

    with large_commits(block_bytes=block_bytes):
        assert expected == outcome(builder, codes=is_faulty_once)


@pytest.mark.parametrize("line", ODD_LINES, ids=lambda line: line[:60].decode("latin-1"))
def test_an_odd_line_is_read_or_refused_the_same_way(line: bytes) -> None:
    around = to_bytes([add("before", size=1, records=1)]), to_bytes([txn("after", 1), add("after", size=1)])
    builder = TableBuilder().commit(*STAMPED).commit(raw=around[0] + line + b"\n" + around[1])
    expected = outcome(builder)

    for block_bytes in BLOCKS:
        with large_commits(block_bytes=block_bytes):
            assert expected == outcome(builder)


def test_keys_named_twice_in_a_large_commit_are_settled_like_in_a_small_one() -> None:
    """
    Far apart in the commit, so that they meet in no block: two adds, add before remove, remove before add, two removes.
    """
    fill = [add(f"fill-{number}", size=1, records=1) for number in range(40)]
    once = [add("twice", size=1), add("first-add", size=2), remove("first-remove"), remove("two-removes", deleted_ms=1)]
    again = [
        add("twice", size=10),
        remove("first-add"),
        add("first-remove", size=20),
        remove("two-removes", deleted_ms=2),
    ]
    vector = [add("twice", size=100, vector=deletion_vector(rows=1)), domain("d", "{}")]
    builder = TableBuilder().commit(*birth(), *once, *fill, *vector, *again)
    live = {
        row["path"]: row["size"] for row in live_rows(open_built(builder).snapshot()) if row["deletionVector"] is None
    }

    with large_commits(block_bytes=200):
        found = state_document(open_built(builder))

    assert (10, 2, 20) == (live["twice"], live["first-add"], live["first-remove"])
    assert builder.states[0].document(now_ms=NOW_MS) == found
    assert 40 + 4 == found["files"]["count"]
    assert 1 == found["tombstones"]["count"]


@given(st.integers(1, 90), st.booleans())
@examples(30)
def test_blocks_may_end_anywhere(block_bytes: int, has_final_newline: bool) -> None:
    lines = [*birth(), add("é.parquet", size=1), add("b", size=2, records=3), remove("c"), txn("app", 7)]
    data = b"\n".join(json.dumps(line, ensure_ascii=False).encode() for line in lines) + (
        b"\n" if has_final_newline else b""
    )
    builder = TableBuilder().commit(*lines, raw=data)

    with large_commits(block_bytes=block_bytes):
        found = state_document(open_built(builder))

    assert builder.states[0].document(now_ms=NOW_MS) == found
