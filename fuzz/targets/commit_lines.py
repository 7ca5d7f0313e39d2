"""Commits: read whole, in blocks of lines by Arrow, and for their provenance alone. All must agree."""

from __future__ import annotations

import re
from collections.abc import Callable

from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError
from deltacli.delta.log.actions import stream_actions
from deltacli.table.version import Snapshot
from fuzz.mutate import JSON_TOKENS
from fuzz.targets.collect import collect
from tests.property.test_large_commits import ODD_LINES, STAMPED
from tests.support import strategies as some
from tests.support.actions import add, to_bytes
from tests.support.builder import TableBuilder
from tests.support.reading import large_commits, live_rows, open_built, state_document, tombstone_rows

TOKENS = (
    *JSON_TOKENS,
    b'\n{"add":{"path":"z","size":1}}\n',
    b'\n{"remove":{"path":"z"}}\n',
    b'"deletionVector":{"storageType":"u","pathOrInlineDv":"x","cardinality":1},',
    b'"numRecords":',
    b'"partitionColumns":',
    b'"configuration":',
    b'"inCommitTimestamp":',
    b'{"commitInfo":',
    b'{"txn":',
    b'"appId":',
)
_FAULTS_THAT_HIDE = re.compile(rb'"path"')
_BLOCK_BYTES = 211


def seeds() -> list[bytes]:
    """Commits of random logs, and the odd lines of the property tests, each between plain ones."""
    found = []
    for log in collect(some.described_logs(), 40):
        found += [file.data for path, file in log.files.items() if path.endswith(".json")]
    around = to_bytes([add("before", size=1, records=1)]), to_bytes([add("after", size=1)])
    return found + [around[0] + line + b"\n" + around[1] for line in ODD_LINES]


def test_one_input(data: bytes) -> None:
    """Every way to read the commit gives an answer that can be written as JSON, or an error of ours."""
    builder = TableBuilder().commit(*STAMPED, add("old", size=5)).commit(raw=data or b"\n")
    small = _outcome(builder)
    with large_commits(block_bytes=max(_BLOCK_BYTES, len(data) // 20)):
        large = _outcome(builder)
    for name, expected in small.items():
        if expected != large[name] and not _may_differ(data, expected, large[name]):
            raise AssertionError(f"{name}: {expected!r} read whole, {large[name]!r} in blocks")


def _outcome(builder: TableBuilder) -> dict[str, object]:
    table = open_built(builder)
    snapshot = _attempt(table.snapshot)
    found = {"history": _attempt(lambda: [dumps(item.as_json()) for item in table.history(counts=True).items])}
    if not isinstance(snapshot, Snapshot):
        return found | dict.fromkeys(("document", "live", "tombstones", "time", "schema"), snapshot)
    return found | {
        "document": _attempt(lambda: dumps(state_document(table))),
        "live": _attempt(lambda: live_rows(snapshot)),
        "tombstones": _attempt(lambda: tombstone_rows(snapshot)),
        "time": _attempt(lambda: snapshot.time),
        "schema": _attempt(lambda: len(snapshot.schema.fields)),
    }


def _attempt(answer: Callable[[], object]) -> object:
    try:
        return answer()
    except DeltacliError as error:
        return type(error).__name__, error.code


def _failed(found: object) -> bool:
    return isinstance(found, tuple) or (isinstance(found, list) and any(b'"problem"' in item for item in found))


def _may_differ(data: bytes, small: object, large: object) -> bool:
    """What the contract leaves open: faults of actions that another one of the same key hides, which of two faults is
    named, and commits that are no lines at all (`commit.pretty-printed` is for small ones).
    """
    failures = [_failed(found) for found in (small, large)]
    if all(failures):
        return True
    if not any(failures):
        return False
    if len(_FAULTS_THAT_HIDE.findall(data)) > len(
        set(re.findall(rb'"path"[ \t\r]*:[ \t\r]*"((?:[^"\\\n]|\\.)*)"', data))
    ):
        return True
    try:
        for _ in stream_actions(data.split(b"\n"), "lines"):
            pass
    except DeltacliError:
        return True
    return False
