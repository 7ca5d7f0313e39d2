"""Files of checkpoints with their bytes changed. The first byte of an input names the table, the second the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice

from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError
from deltacli.operations.read.snapshot import summarize
from deltacli.table.version import Snapshot
from fuzz.mutate import JSON_TOKENS
from tests.support.actions import add, deletion_vector, domain, remove, txn
from tests.support.builder import Files, StoredFile, TableBuilder
from tests.support.checkpoints import CheckpointKind, Shape
from tests.support.reading import open_built

TOKENS = (
    *JSON_TOKENS,
    b"PAR1",
    b"PARE",
    b"\xff\xff\xff\x7fPAR1",
    b"\x00\x00\x00\x80PAR1",
    b"\x15\x00",
    b"\x19\xfc\xff\xff\xff\xff\x0f",  # a list of 2^32 structs in Thrift's compact protocol
    b"\x18\xff\xff\xff\xff\x07",  # a string of 2 GiB
    b"\x26\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\x0f",
    b"add\0",
    b"\x18\x03add",
    b"\x18\x06remove",
    b"\x18\x04path",
)
_SHAPES = (
    Shape(),
    Shape(row_group_rows=2, stats="both", compression="zstd", large_text=True),
    Shape(stats="struct", footer_statistics=False, compression="none", foreign_columns=True),
    Shape(row_group_rows=3, absent_columns=True, compression="gzip"),
)


@lru_cache(maxsize=1)
def _tables() -> list[tuple[TableBuilder, list[str]]]:
    """Every kind of checkpoint in several shapes: the table, and the names of its checkpoint's files."""
    found = []
    for kind in CheckpointKind:
        for shape in _SHAPES if not kind.value.startswith("v2 json") else _SHAPES[:2]:
            builder = TableBuilder().commits(4)
            builder.commit(txn("app", 3), domain("d"), add("v", size=1, records=9, vector=deletion_vector()))
            builder.commit(remove("part-00001.parquet"), add("v", size=1, records=9, vector=deletion_vector("b")))
            builder.checkpoint(4, kind, shape=shape)
            names = [name for name in builder.files if ".checkpoint." in name]
            for version in range(5):
                del builder.files[f"_delta_log/{version:020d}.json"]  # or a bad checkpoint would be passed over
            found.append((builder, names))
    return found


def seeds() -> list[bytes]:
    """Every file of every checkpoint."""
    return [
        bytes((number, position)) + builder.files[name].data
        for number, (builder, names) in enumerate(_tables())
        for position, name in enumerate(names)
    ]


def test_one_input(data: bytes) -> None:
    """The table is read, or refused with an error of ours, in every way there is."""
    tables = _tables()
    number, position = (*data[:2], 0, 0)[:2]
    builder, names = tables[number % len(tables)]
    changed: Files = dict(builder.files)
    changed[names[position % len(names)]] = StoredFile(data[2:])
    table = open_built(_with(changed))
    snapshot = _attempt(table.snapshot)
    if isinstance(snapshot, Snapshot):
        _attempt(snapshot.counts)
        _attempt(lambda: dumps(summarize(table, digest=True).as_json()))
        _attempt(lambda: len(snapshot.schema.fields))
        _attempt(lambda: [batch.validate(full=True) for batch in islice(snapshot.files(), 100)])
        _attempt(lambda: [batch.validate(full=True) for batch in islice(snapshot.tombstones(), 100)])


def _with(files: Mapping[str, StoredFile]) -> TableBuilder:
    builder = TableBuilder()
    builder.files = dict(files)
    return builder


def _attempt(answer: Callable[[], object]) -> object:
    try:
        return answer()
    except DeltacliError as error:
        if error.code == "bug" or not error.message:
            raise AssertionError(f"an error without a rule: {error!r}") from error
        return None
