"""Random logs: all actions, odd spellings of paths, all forms of checkpoints, hints good and bad, damage, junk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from hypothesis import strategies as st

from tests.support import damage
from tests.support.actions import (
    Action,
    Line,
    add,
    commit_info,
    deletion_vector,
    domain,
    metadata,
    protocol,
    remove,
    to_bytes,
    txn,
)
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.checkpoints import CheckpointKind, Shape
from tests.support.model import WEEK_MS, State
from tests.support.reading import NOW_MS

FILES = (
    "part-0.parquet",
    "part-1.parquet",
    "p=1/part-0.parquet",
    "p=a b/part-0.parquet",
    "p=a%20b/part-0.parquet",
    "p=100%/x.parquet",
    "p=50%25/x+y.parquet",
    "ünï/日本/😀.parquet",
    "t=12:30:00/é#?&=.parquet",
    "-._~!$&'()*,;@.parquet",
    'quote"back\\slash.parquet',
    "tab\tand\u2028line.parquet",
)
"""Names of files as they are on disk: identities."""

_DOTS = ("", "", "", "./", "././")


@st.composite
def spellings(draw: st.DrawFn, name: str) -> str:
    """One of the many ways to write a relative or absolute path of `name` in the log."""
    segments = name.split("/")
    spelled = [draw(_segment(segment, is_first=index == 0)) for index, segment in enumerate(segments)]
    joint = draw(st.sampled_from(["/", "/", "/", "//", "/./"])) if len(spelled) > 1 else "/"
    return draw(st.sampled_from(_DOTS)) + joint.join(spelled)


@st.composite
def absolute_spellings(draw: st.DrawFn, name: str) -> str:
    """One of the ways to write an absolute local path: `/data/…`, `file:/data/…`, `file:///data/…`, `file://localhost/data/…`."""
    prefix = draw(st.sampled_from(["/", "file:/", "file:///", "FILE:///", "file://localhost/"]))
    rest = "/".join(draw(_segment(segment, is_first=False)) for segment in f"data/{name}".split("/"))
    return prefix + rest


@st.composite
def _segment(draw: st.DrawFn, text: str, *, is_first: bool) -> str:
    """Percent-encode what must be, and at random what need not be, in capitals or not."""
    style = draw(st.sampled_from(["must", "usual", "everything", "mixed"]))
    pieces = []
    for char in text:
        must = char == "%" or (is_first and char == ":")
        usual = quote(char, safe="") != char
        encode = (
            must or (style == "usual" and usual) or style == "everything" or (style == "mixed" and draw(st.booleans()))
        )
        encoded = "".join(f"%{byte:02X}" for byte in char.encode())
        pieces.append((encoded.lower() if draw(st.booleans()) and style == "mixed" else encoded) if encode else char)
    return "".join(pieces)


def paths() -> st.SearchStrategy[str]:
    """A spelling of one of few files, so that logs hit the same file again."""
    names = st.sampled_from(FILES)
    plain = names.map(lambda name: quote(name, safe="/=-._~"))
    return st.one_of(plain, plain, names.flatmap(spellings), names.flatmap(absolute_spellings))


def vectors() -> st.SearchStrategy[Action | None]:
    """No vector, or one of few, with offset 0, another offset, or none."""
    some = st.builds(
        deletion_vector,
        st.sampled_from(
            ["ab^-aqEH.-t@S}K{vb[*k^", "vBn[lx{q8@P<9BNH/isA", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"]
        ),
        storage=st.sampled_from(["u", "i"]),
        offset=st.sampled_from([None, 0, 1, 4096]),
        rows=st.integers(0, 9),
    )
    return st.one_of(st.none(), st.none(), some)


STATISTICS: tuple[str | None, ...] = (
    None,
    "",
    "{}",
    '{"numRecords":7}',
    '{"numRecords": 7}',
    '{"minValues":{"id":1},"numRecords":12}',
    '{"numRecords":0,"nullCount":{"id":0}}',
    '{"numRecords":null}',
    '{"numRecords":"9"}',
    '{"numRecords":3,"maxValues":{"s":"a\\"b,}\u2028"}}',
    "not json",
)


def adds(path: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Line]:
    """An add of a random file."""
    return st.builds(
        add,
        paths() if path is None else path,
        size=st.one_of(st.integers(0, 5_000), st.just(2**40)),
        stats=st.sampled_from(STATISTICS),
        vector=vectors(),
        partition_values=st.sampled_from([{}, {"p": "1"}, {"p": None}, {"p": "a b", "q": "\u00fc"}]),
        modified_ms=st.integers(0, 2 * EPOCH_MS),
    )


def removes(path: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Line]:
    """A remove of a random file, dated around the moment at which tombstones expire, or not at all."""
    dates = st.sampled_from([None, 0, NOW_MS - WEEK_MS - 1, NOW_MS - WEEK_MS, NOW_MS - WEEK_MS + 1, NOW_MS])
    return st.builds(remove, paths() if path is None else path, vector=vectors(), deleted_ms=dates)


def small_actions() -> st.SearchStrategy[Line]:
    """Transactions, domains, protocols, metadata and what replay ignores."""
    transactions = st.builds(
        txn,
        st.sampled_from(["app", "stream-1", "ü"]),
        st.integers(-3, 9),
        last_updated=st.sampled_from([None, 0, EPOCH_MS]),
    )
    domains = st.builds(
        domain,
        st.sampled_from(["delta.clustering", "app.settings", "z"]),
        st.sampled_from(["{}", '{"a":1}', ""]),
        removed=st.booleans(),
    )
    protocols = st.sampled_from(
        [
            protocol(),
            protocol(2, 5),
            protocol(
                3,
                7,
                reader_features=["v2Checkpoint", "deletionVectors"],
                writer_features=["v2Checkpoint", "deletionVectors"],
            ),
            protocol(3, 7, reader_features=[], writer_features=["inCommitTimestamp", "domainMetadata"]),
            protocol(3, 7, reader_features=["futureFeature"], writer_features=["futureFeature"]),
        ]
    )
    tables = st.builds(
        metadata,
        configuration=st.sampled_from([{}, {"delta.appendOnly": "true"}, {"a": '\u2028 "x"'}]),
        partition_columns=st.sampled_from([[], ["p"], ["p", "q"]]),
    )
    ignored = st.sampled_from(
        [
            commit_info("WRITE", operationParameters={"mode": "Append"}),
            {"cdc": {"path": "_change_data/c.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
            {"fromTheFuture": {"path": "part-0.parquet"}},
            {"add": None, "txn": {"appId": "app", "version": 1}},
        ]
    )
    return st.one_of(transactions, transactions, domains, domains, protocols, tables, tables, ignored)


@st.composite
def commits(draw: st.DrawFn, before: State) -> list[Line]:
    """The lines of one commit after a state, in any order: fresh files, live ones again, keys named twice."""
    lines = draw(st.lists(st.one_of(adds(), adds(), removes(), small_actions()), max_size=6))
    if before.live:
        live = st.sampled_from(list(before.live.values()))
        for action in draw(st.lists(live, max_size=3)):
            vector = action.get("deletionVector")
            match draw(st.sampled_from(["remove", "remove", "new vector", "again", "add and remove"])):
                case "remove":
                    lines.append(remove(action["path"], vector=vector, deleted_ms=NOW_MS))
                case "new vector":
                    lines.append(remove(action["path"], vector=vector, deleted_ms=NOW_MS))
                    lines.append(
                        add(
                            action["path"],
                            size=action["size"],
                            stats=action.get("stats"),
                            vector=deletion_vector(rows=5),
                        )
                    )
                case "again":
                    lines.append(add(action["path"], size=action["size"] + 1, records=1, vector=vector))
                case "add and remove":
                    lines.append(add(action["path"], size=3, records=2, vector=vector))
                    lines.append(remove(action["path"], vector=vector, deleted_ms=NOW_MS))
    return draw(st.permutations(lines))


@st.composite
def described_logs(draw: st.DrawFn, *, max_commits: int = 7) -> TableBuilder:
    """A whole, undamaged log of commits only. Now and then it begins without protocol or metadata."""
    builder = TableBuilder()
    for version in range(draw(st.integers(1, max_commits))):
        before = builder.states[-1] if builder.states else State()
        lines = draw(commits(before))
        if version == 0:
            first = draw(st.sampled_from([[protocol(), metadata()]] * 9 + [[metadata()]]))
            lines = [*first, *lines]
        builder.commit(*lines, raw=to_bytes(lines) if lines else b"\n")
    return builder


def shapes() -> st.SearchStrategy[Shape]:
    """Layouts of a checkpoint."""
    return st.builds(
        Shape,
        files=st.integers(2, 3),
        row_group_rows=st.sampled_from([1, 2, 3, 1_000]),
        stats=st.sampled_from(["json", "json", "both"]),
        footer_statistics=st.booleans(),
        absent_columns=st.booleans(),
        foreign_columns=st.booleans(),
        compression=st.sampled_from(["snappy", "zstd", "none"]),
        large_text=st.booleans(),
        shuffle=st.integers(0, 99),
    )


def kinds() -> st.SearchStrategy[CheckpointKind]:
    return st.sampled_from(list(CheckpointKind))


@st.composite
def checkpointed(draw: st.DrawFn, builder: TableBuilder, *, max_checkpoints: int = 3) -> TableBuilder:
    """Add checkpoints of any kind at versions that can have one."""
    possible = [version for version, state in enumerate(builder.states) if state.protocol and state.metadata]
    for index in range(draw(st.integers(0, max_checkpoints)) if possible else 0):
        kind, shape = draw(kinds()), draw(shapes())
        builder.checkpoint(draw(st.sampled_from(possible)), kind, shape=shape, tag=str(index))
    return builder


@st.composite
def hinted(draw: st.DrawFn, builder: TableBuilder) -> TableBuilder:
    """Add a hint: right, stale, dangling, forged, torn, no JSON; or none."""
    version = draw(st.integers(0, builder.newest + 3))
    match draw(st.sampled_from(["none", "plain", "right", "wrong", "torn", "noise"])):
        case "plain":
            builder.hint(version)
        case "right":
            builder.hint(version, checksum="right", parts=2)
        case "wrong":
            builder.hint(version, checksum="wrong")
        case "torn":
            builder.hint(version).damaged(damage.torn_hint(draw(st.integers(0, 15))))
        case "noise":
            builder.file(
                f"{LOG}/_last_checkpoint",
                draw(st.sampled_from([b"", b"[]", b"\xff\xfe", b'{"version":-1}', b'{"version":"x"}', b"null"])),
            )
    return builder


JUNK: Sequence[tuple[str, bytes]] = (
    ("00000000000000000099.crc", b"{}"),
    ("00000000000000000000.crc", b"no json"),
    ("00000000000000000000.00000000000000000003.compacted.json", b'{"add":{"path":"ghost"}}\n'),
    ("00000000000000000002.json.tmp", b"{"),
    (".00000000000000000001.json.crc", b"crc\x00"),
    ("00000000000000000001.checkpoint.parquet.tmp", b"PAR1"),
    ("0000000000000000000000.json", b'{"add":{"path":"ghost","size":1}}\n'),
    ("77.json", b'{"add":{"path":"ghost","size":1}}\n'),
    ("00000000000000000001.checkpoint.a.b.parquet", b"PAR1"),
    ("00000000000000000004.checkpoint.0000000001.0000000003.parquet", b"PAR1"),
    ("00000000000000000003.checkpoint.parquet", b""),
    ("99999999999999999999.json", b"{}"),
    ("_last_vacuum_info", b"{}"),
    ("_staged_commits/00000000000000000050.6d9cd5a8-6d4c-4f1b-8a0b-5f4e4a0c0d11.json", b"{}"),
    ("_sidecars/nobody-names-me.parquet", b"PAR1"),
    ("notes.txt", b"hello"),
)
"""Names in `_delta_log` that mean nothing, or nothing usable, to a reader."""


@st.composite
def littered(draw: st.DrawFn, builder: TableBuilder) -> TableBuilder:
    """Drop junk files into the log, over nothing that is there."""
    for name, data in draw(st.lists(st.sampled_from(JUNK), max_size=4, unique_by=lambda junk: junk[0])):
        if f"{LOG}/{name}" not in builder.files:
            builder.file(f"{LOG}/{name}", data)
    return builder


@st.composite
def damaged(draw: st.DrawFn, builder: TableBuilder) -> TableBuilder:
    """Let cleanup take the head of the log, or something go wrong with a commit or a checkpoint."""
    present = builder.commits_present()
    match draw(st.sampled_from(["nothing", "nothing", "head", "head", "gap", "empty", "cut", "checkpoint", "tail"])):
        case "head":
            builder.damaged(damage.head_cleaned(draw(st.integers(0, len(present)))))
        case "gap":
            builder.damaged(damage.gap(draw(st.sampled_from(present))))
        case "empty":
            builder.damaged(damage.zero_byte_commit(draw(st.sampled_from(present))))
        case "cut":
            long = [version for version in present if len(builder.files[f"{LOG}/{version:020d}.json"].data) > 10]
            builder.damaged(*(damage.truncate_commit(version) for version in long[:1]))
        case "tail":
            builder.damaged(damage.gap(draw(st.sampled_from(present)), builder.newest))
        case "checkpoint":
            names = sorted(name for name in builder.files if ".checkpoint." in name)
            if names:
                name = draw(st.sampled_from(names))
                match draw(st.sampled_from(["gone", "empty", "cut"])):
                    case "gone":
                        del builder.files[name]
                    case "empty":
                        builder.file(name, b"")
                    case "cut":
                        data = builder.files[name].data
                        builder.file(name, data[: len(data) // 2].rstrip(b"\n}"))
    return builder


@st.composite
def any_logs(draw: st.DrawFn) -> TableBuilder:
    """Everything at once."""
    builder = draw(described_logs())
    builder = draw(checkpointed(builder))
    builder = draw(hinted(builder))
    builder = draw(damaged(builder))
    return draw(littered(builder))


def json_values() -> st.SearchStrategy[object]:
    """Any JSON value that both orjson and the standard library agree on."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
        max_leaves=6,
    )


def json_texts() -> st.SearchStrategy[str]:
    """JSON texts, compact or not."""
    separators = st.sampled_from([(",", ":"), (", ", ": ")])
    return st.builds(
        lambda value, pair, ascii_only: json.dumps(value, separators=pair, ensure_ascii=ascii_only),
        json_values(),
        separators,
        st.booleans(),
    )
