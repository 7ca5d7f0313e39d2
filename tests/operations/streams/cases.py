"""What is expected of streams at a table of twenty versions, case by case: the table, the checkpoint, the verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.operations.streams.checkpoints import NOTHING, Checkpoint, delta, offset_log, standing
from tests.operations.streams.tables import History, adding, changing, name_of, removing, vector, vector_file
from tests.support.actions import metadata
from tests.support.builder import commit_path

OTHER_ID = "11111111-2222-3333-4444-555555555555"
SCHEMA_OF_TWO = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"b","type":"long","nullable":true,"metadata":{}}]}'
)
FEED = {"delta.enableChangeDataFeed": "true"}
_LOG_OF_NINE = tuple(commit_path(version) for version in range(10))
_CHECKPOINT_OF_TEN = "_delta_log/00000000000000000010.checkpoint.parquet"


@dataclass(frozen=True)
class Case:
    """A directory and what is to be found: `verdict` of the only source, or of the query where it has none; words of
    `because`; `log`: the first needed version of the log; `files`: the needed files that are not live; `feed`: the
    verdict of the change feed where it differs.
    """

    number: int
    what: str
    checkpoint: Checkpoint
    verdict: str | None
    because: tuple[str, ...] = ()
    table: History = field(default_factory=History)
    log: int | None = None
    files: frozenset[str] = frozenset()
    feed: str | None = None
    kind: str | None = None


def _text(text: str) -> Checkpoint:
    return Checkpoint().batch(0, text)


def _log_of(text: bytes) -> Checkpoint:
    return Checkpoint().file("offsets/0", text).file("commits/0", b"v1\n{}")


def _offset(**changed: object) -> str:
    """Return an offset with other fields; those that are None are left out."""
    fields = {**json.loads(delta(21)), **changed}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


READY = delta(21)
_SPACED = json.dumps({"more": {"a": 1}, **dict(reversed(json.loads(READY).items()))}, indent=None)

PARSING = [
    Case(1, "the base of a version", standing(READY), "ok"),
    Case(2, "the base as version 3 writes it", standing(delta(21, source_version=3)), "ok"),
    Case(3, "a barrier", standing(_offset(sourceVersion=3, index=-20, reservoirVersion=12)), "ok", log=12),
    Case(
        3,
        "the second step of a barrier",
        standing(_offset(sourceVersion=3, index=-19, reservoirVersion=12)),
        "ok",
        log=12,
    ),
    Case(4, "a barrier of version 1", standing(_offset(index=-20, reservoirVersion=12)), "ok", log=12),
    Case(4, "an index of -1 in version 3", standing(_offset(sourceVersion=3, index=-1)), "dead", ("index",)),
    Case(5, "a reserved version", standing(_offset(sourceVersion=2)), "dead", ("reserved",)),
    Case(5, "no valid version", standing(_offset(sourceVersion=0)), "dead", ("sourceVersion 0",)),
    Case(5, "a negative version", standing(_offset(sourceVersion=-1)), "dead", ("sourceVersion -1",)),
    Case(5, "no id of the table", standing(_offset(reservoirId=None)), "dead", ("reservoirId",)),
    Case(6, "a version of a newer Delta", standing(_offset(sourceVersion=4)), "unknown", ("newer",)),
    Case(7, "no source version", standing(_offset(sourceVersion=None)), "dead", ("sourceVersion",)),
    Case(7, "no version of the table", standing(_offset(reservoirVersion=None)), "unknown", ("reservoirVersion",)),
    Case(8, "a source version that is a text", standing(_offset(sourceVersion="foo")), "unknown"),
    Case(9, "another order, spaces, one more field", standing(_SPACED), "ok"),
    Case(10, "no metadata in an old log", _log_of(b"v1\n\n" + READY.encode()), "ok"),
    Case(11, "a source without an offset", standing(NOTHING), None),
    Case(12, "an offset that is a number", standing("3"), None, kind="other"),
    Case(13, "a source with a name", _log_of(offset_log(READY, log_version=2, names=("orders",))), "ok"),
    Case(14, "a named source without an offset", _log_of(b'v2\n{"batchWatermarkMs":0}\n0:-'), None),
    Case(15, "a line without a colon", _log_of(b'v2\n{"batchWatermarkMs":0}\n{"logOffset"}'), "unknown"),
    Case(16, "an unknown version of the log", _log_of(offset_log(READY).replace(b"v1", b"v9")), "unknown", ("v9",)),
    Case(68, "a newest entry that is cut in its last line", standing(READY[:-5], delta(19)), "dead", ("JSON",)),
    Case(68, "an entry before it that is cut in its last line", standing(READY, delta(19)[:-5]), "dead", ("JSON",)),
    Case(17, "an empty file", _log_of(b""), "dead"),
    Case(18, "CRLF and a newline at the end", _log_of(offset_log(READY).replace(b"\n", b"\r\n") + b"\r\n"), "ok"),
    Case(19, "commits of all versions", standing(READY).file("commits/7", b"v3\n{}").file("commits/6", b""), "ok"),
    Case(61, "an empty commit file", standing(delta(20), delta(19)).file("commits/7"), "dead", ("commits/7",), log=19),
    Case(61, "a cut commit file", standing(READY, delta(19)).file("commits/7", b'v1\n{"next'), "dead", log=19),
    Case(62, "a commit file of a newer format", standing(READY, delta(19)).file("commits/7", b"v9"), "unknown", log=19),
    Case(
        62,
        "an empty commit file before a batch in flight",
        standing(delta(20), delta(19), committed=False).file("commits/6"),
        "dead",
        ("commits/6",),
        log=19,
    ),
]

_TWO = standing(READY)
DIRECTORY = [
    Case(20, "a query that never ran", Checkpoint(), None),
    Case(21, "no metadata", standing(READY, query_id=None), "unknown", ("metadata",)),
    Case(71, "an empty file metadata", standing(READY, query_id=None).file("metadata"), "dead", ("metadata",)),
    Case(71, "metadata cut", standing(READY, query_id=None).file("metadata", b'{"id":"ab'), "dead", ("metadata",)),
    Case(71, "metadata without an id", standing(READY, query_id=None).file("metadata", b"{}"), "dead", ("metadata",)),
    Case(72, "a checksum of later offsets", standing(READY).file("offsets/.8.crc"), "at-risk", ("offsets/.8.crc",)),
    Case(72, "a checksum of a later commit", standing(READY).file("commits/.8.crc"), "at-risk", ("commits/.8.crc",)),
    Case(
        72,
        "a checksum of the commit of a batch in flight",
        standing(READY, delta(19), committed=False).file("commits/.7.crc"),
        "at-risk",
        ("commits/.7.crc",),
    ),
    Case(73, "checksums of files that exist", standing(READY).file("commits/.7.crc").file("offsets/.7.crc"), "ok"),
    Case(73, "a checksum of no next file", standing(READY).file("commits/.9.crc").file("offsets/.6.crc"), "ok"),
    Case(22, "an uncommitted batch", standing(READY, delta(19), committed=False), "ok", log=19),
    Case(23, "no commits", standing(READY, delta(19), committed=False).without("commits/6"), "ok", log=19),
    Case(24, "a commit without its batch", standing(READY).file("commits/8", b"v1\n{}"), "dead"),
    Case(25, "a gap below the newest", Checkpoint().batch(0, delta(12)).batch(2, READY), "at-risk", ("async",), log=12),
    Case(26, "async progress", Checkpoint().batch(0, delta(3)).batch(3, delta(12)).batch(6, READY), "at-risk", log=12),
    Case(27, "purged batches", standing(READY, delta(18), batch=14), "ok", log=18),
    Case(
        28,
        "names that are ignored",
        standing(READY).file(".8.crc").file("offsets/.9.x.tmp", b"?").file("offsets/999/a"),
        "ok",
    ),
]

_REMOVED = {18: [removing(name_of(16))]}
_OPTIMIZED = {18: [removing(name_of(16), data_change=False), adding("big.parquet", data_change=False)]}
_THREE = {15: [adding("a.parquet"), adding("b.parquet"), adding("c.parquet")]}
_MIXED = {15: [adding("a.parquet"), adding("x.parquet", data_change=False), *_THREE[15][1:]]}
_GONE_OF_THREE = {18: [removing(f"{name}.parquet", data_change=False) for name in "abc"]}
_SNAPSHOT = {12: [removing(name_of(5), data_change=False), removing(name_of(4), data_change=False)]}
_SAME_TIME = {
    3: [adding("z.parquet", modified_ms=5), adding("a.parquet", modified_ms=5), adding("m.parquet", modified_ms=5)],
    12: [removing(f"{name}.parquet", data_change=False) for name in "zam"],
}
BEHIND = standing(delta(15))
PLAIN = [
    Case(33, "caught up", standing(READY, delta(19)), "ok", log=19),
    Case(
        34,
        "a commit before the last batch is gone",
        standing(READY, delta(19)),
        "dead",
        ("19",),
        History(checkpoints=(10, 20), gone=[commit_path(19)]),
    ),
    Case(
        35,
        "a file that was removed six days ago",
        BEHIND,
        "at-risk",
        (),
        History(_REMOVED, ages={18: 6}),
        15,
        frozenset([name_of(16)]),
    ),
    Case(
        36,
        "the same by OPTIMIZE",
        BEHIND,
        "at-risk",
        (),
        History(_OPTIMIZED, ages={18: 6}),
        15,
        frozenset([name_of(16)]),
    ),
    Case(
        36, "OPTIMIZE of yesterday", BEHIND, "ok", (), History(_OPTIMIZED, ages={18: 1}), 15, frozenset([name_of(16)])
    ),
    Case(37, "the file is gone", BEHIND, "dead", (name_of(16),), History(_OPTIMIZED, gone=[name_of(16)])),
    Case(
        38,
        "the third of three files",
        standing(delta(15, 1)),
        "ok",
        (),
        History(_THREE | _GONE_OF_THREE),
        15,
        frozenset(["c.parquet"]),
    ),
    Case(
        39,
        "files without a change of data",
        standing(delta(15, 1)),
        "ok",
        (),
        History(_MIXED | _GONE_OF_THREE),
        15,
        frozenset(["c.parquet"]),
    ),
    Case(
        40,
        "an uncommitted batch",
        standing(delta(15, 1), delta(13), committed=False),
        "ok",
        (),
        History(_THREE | _GONE_OF_THREE),
        13,
        frozenset(["a.parquet", "b.parquet", "c.parquet"]),
    ),
    Case(
        41,
        "in the first snapshot",
        standing(delta(10, 4, in_snapshot=True)),
        "ok",
        (),
        History(_SNAPSHOT),
        10,
        frozenset([name_of(5)]),
    ),
    Case(
        42,
        "files of the same time",
        standing(delta(10, 0, in_snapshot=True)),
        "ok",
        (),
        History(_SAME_TIME),
        10,
        frozenset(["m.parquet", "z.parquet"]),
    ),
    Case(
        43,
        "the snapshot is gone",
        standing(delta(10, 4, in_snapshot=True)),
        "dead",
        ("10",),
        History(_SNAPSHOT, checkpoints=(10, 20), gone=[*_LOG_OF_NINE, _CHECKPOINT_OF_TEN]),
    ),
    Case(
        44,
        "the snapshot of a checkpoint",
        standing(delta(10, 4, in_snapshot=True)),
        "ok",
        (),
        History(gone=_LOG_OF_NINE),
        10,
    ),
    Case(
        44,
        "a checkpoint without its commit",
        standing(delta(10, 4, in_snapshot=True)),
        "dead",
        ("10",),
        History(gone=[*_LOG_OF_NINE, commit_path(10)]),
    ),
    Case(
        45,
        "the commit after the snapshot is gone",
        standing(delta(10, 4, in_snapshot=True)),
        "dead",
        ("11",),
        History(checkpoints=(10, 20), gone=[commit_path(11)]),
    ),
    Case(
        46,
        "the snapshot before the last batch is gone",
        standing(delta(11), delta(10, 8, in_snapshot=True)),
        "dead",
        ("10",),
        History(checkpoints=(10, 20), gone=[*_LOG_OF_NINE, commit_path(10), _CHECKPOINT_OF_TEN]),
    ),
    Case(47, "a first batch", standing(delta(11), batch=0), "ok", (), History(_SNAPSHOT), 0),
    Case(
        48,
        "a first batch that is not finished",
        standing(delta(11), batch=0, committed=False),
        "ok",
        (),
        History(_SNAPSHOT),
        0,
        frozenset([name_of(4), name_of(5)]),
    ),
    Case(49, "a log that was set back", standing(delta(25)), "dead", ("25", "new checkpoint")),
    Case(
        49, "a log that was set back below a batch in flight", standing(delta(25), delta(15), committed=False), "dead"
    ),
    Case(49, "a log that was set back below a snapshot", standing(delta(21, 0, in_snapshot=True)), "dead", ("21",)),
    Case(50, "another table", standing(delta(21, table=OTHER_ID)), "unknown"),
    Case(
        51,
        "a former id",
        standing(delta(15)),
        "dead",
        (),
        History({**_OPTIMIZED, 17: [metadata(OTHER_ID), adding(name_of(17))]}, ages={18: 1}),
    ),
    Case(52, "one table twice", Checkpoint().batch(0, delta(5), delta(9)).batch(1, delta(5), delta(9)), "ok", log=5),
    Case(53, "a barrier", standing(_offset(sourceVersion=3, index=-20, reservoirVersion=12)), "ok", log=12),
    Case(
        54,
        "a commit that deletes rows",
        BEHIND,
        "at-risk",
        ("or ignoreDeletes",),
        History({17: [removing(name_of(2))]}),
        15,
    ),
    Case(
        54,
        "commits that delete rows, and change some",
        BEHIND,
        "at-risk",
        ("skipChangeCommits or ignoreChanges",),
        History({17: [removing(name_of(2))], 18: [removing(name_of(3)), adding("n.parquet")]}),
        15,
    ),
    Case(
        55,
        "a change of the schema",
        BEHIND,
        "dead",
        (),
        History({17: [metadata(schema_string=SCHEMA_OF_TWO.replace('"id"', '"x"'))]}),
        15,
    ),
    Case(60, "not touched for 90 days", standing(delta(15), modified_ms=0), "ok", log=15),
]

_CHANGES = {16: [removing(name_of(3)), changing("_change_data/c.parquet")]}
_BOTH = {16: [removing(name_of(3)), adding("new.parquet")], 18: [removing("new.parquet", data_change=False)]}
_VECTORS = {
    12: [adding("v.parquet", vector=vector(1))],
    16: [removing("v.parquet", vector=vector(1)), adding("v.parquet", vector=vector(2))],
    18: [removing("v.parquet", vector=vector(2), data_change=False), adding("w.parquet", data_change=False)],
}
_LIVE_FILE = {
    16: [adding("v.parquet", vector=vector(1))],
    18: [removing("v.parquet", vector=vector(1)), adding("v.parquet", vector=vector(2))],
}
_NO_OP = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
FEEDS = [
    Case(
        63,
        "change data",
        BEHIND,
        "at-risk",
        (),
        History(_CHANGES, properties=FEED),
        15,
        frozenset(["_change_data/c.parquet"]),
    ),
    Case(
        64,
        "changes without change data",
        BEHIND,
        "at-risk",
        (),
        History(_BOTH, properties=FEED),
        15,
        frozenset([name_of(3), "new.parquet"]),
    ),
    Case(
        65,
        "both vectors of a file",
        BEHIND,
        "at-risk",
        (),
        History(_VECTORS, properties=FEED),
        15,
        frozenset(["v.parquet", vector_file(1), vector_file(2)]),
    ),
    Case(
        65, "the old vector of a live file", BEHIND, "at-risk", (), History(_LIVE_FILE), 15, frozenset([vector_file(1)])
    ),
    Case(
        67,
        "the snapshot of the start is gone",
        BEHIND,
        "ok",
        (),
        History(properties=FEED, checkpoints=(18,), gone=_LOG_OF_NINE),
        15,
        feed="dead",
    ),
]

CASES = [*PARSING, *DIRECTORY, *PLAIN, *FEEDS]
