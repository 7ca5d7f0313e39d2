"""Integers in another spelling are the same numbers in every file of a log, for readers and for `validate`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import Table, open_table
from deltacli.core.errors import CommitCorrupt
from deltacli.delta.log.actions import read_actions
from deltacli.work.commits import reading
from tests.support.actions import add, commit_info, metadata, protocol, to_bytes
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.checkpoints import CheckpointKind

SIZE = 486
_NUMBER = re.compile(rb'("(?:size|modificationTime|version|createdTime|timestamp|min\w+Version|cardinality)":) ?(\d+)')


def facts_of(table: Table) -> object:
    """What of a table depends on its integers."""
    snapshot = table.snapshot()
    files = [
        (row["path"], row["size"], row["modificationTime"]) for batch in snapshot.files() for row in batch.to_pylist()
    ]
    counts = snapshot.counts()[0]
    history = [item.as_json() for item in table.history().items]
    return (
        sorted(files),
        counts,
        (snapshot.protocol, snapshot.metadata.created_time, snapshot.transactions),
        [(item["version"], str(item.get("commitInfoTimestampMs"))) for item in history],
    )


def described(kind: CheckpointKind | None = None) -> TableBuilder:
    """A table of two versions with a transaction, and a checkpoint of the last one."""
    lines = [
        commit_info(timestamp=EPOCH_MS),
        protocol(1, 2),
        metadata(createdTime=EPOCH_MS),
        {"txn": {"appId": "a", "version": 7, "lastUpdated": EPOCH_MS}},
        add("a.parquet", size=SIZE, records=3),
    ]
    table = (
        TableBuilder().commit(*lines).commit(commit_info(timestamp=EPOCH_MS), add("b.parquet", size=SIZE, records=1))
    )
    return table if kind is None else table.checkpoint(kind=kind)


def respelled(data: bytes, spell: Callable[[int], str]) -> bytes:
    return _NUMBER.sub(lambda match: match[1] + spell(int(match[2])).encode(), data)


def as_doubles(data: bytes) -> bytes:
    """The Parquet file with every integer of its structs as a double."""
    table = pq.read_table(io.BytesIO(data))

    def double(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(double(field.type)) for field in kind])
        return pa.float64() if pa.types.is_integer(kind) else kind

    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema([field.with_type(double(field.type)) for field in table.schema])), sink)
    return sink.getvalue()


@pytest.mark.parametrize("is_large", [False, True], ids=["by lines", "in columns"])
@pytest.mark.parametrize("spell", [lambda n: f"{n}.0", lambda n: f"{n}e0", lambda n: f"{n * 100}E-2"])
def test_a_commit_is_read_the_same_whatever_the_spelling(
    spell: Callable[[int], str], is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = facts_of(open_table(described().write(tmp_path / "plain")))
    odd = described()
    for number in (0, 1):
        file = odd.files[f"{LOG}/{number:020d}.json"]
        odd.file(f"{LOG}/{number:020d}.json", respelled(file.data, spell), modified_ms=file.modified_ms)
    if is_large:
        monkeypatch.setattr(reading, "LARGE_COMMIT_BYTES", 1)

    table = open_table(odd.write(tmp_path / "odd"))

    assert expected == facts_of(table)
    assert {"action.number-spelling"} <= {one.rule.id for one in table.validate().findings}
    assert not {"action.wrong-type"} & {one.rule.id for one in table.validate().findings}


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.V2_JSON_INLINE, CheckpointKind.V2_JSON])
def test_a_checkpoint_is_read_the_same_whatever_the_spelling(kind: CheckpointKind, tmp_path: Path) -> None:
    def without_commits(table: TableBuilder, root: Path) -> Path:
        table.write(root)
        (root / f"{LOG}/{0:020d}.json").unlink()
        return root

    plain, odd = described(kind), described(kind)
    for path, file in list(odd.files.items()):
        if "checkpoint" in path or "sidecar" in path:
            change = as_doubles if path.endswith(".parquet") else lambda data: respelled(data, "{}.0".format)
            odd.file(path, change(file.data), modified_ms=file.modified_ms)

    tables = [open_table(without_commits(one, tmp_path / name)) for one, name in ((plain, "plain"), (odd, "odd"))]

    assert facts_of(tables[0]) == facts_of(tables[1])


@pytest.mark.parametrize("text", ["486.5", "1e19", "9223372036854775808", "1e400"])
def test_a_number_that_is_not_whole_or_too_large_is_refused(text: str, tmp_path: Path) -> None:
    odd = described()
    path = f"{LOG}/{1:020d}.json"
    odd.file(path, odd.files[path].data.replace(b'"size":486', b'"size":' + text.encode()))

    with pytest.raises(CommitCorrupt, match="size"):
        facts_of(open_table(odd.write(tmp_path)))


@pytest.mark.parametrize("text, value", [("9007199254740993.0", 2**53 + 1), ("9.223372036854775807e18", 2**63 - 1)])
def test_a_large_number_is_exact(text: str, value: int) -> None:
    line = to_bytes([add("a.parquet", size=SIZE)]).replace(b'"size":486', b'"size":' + text.encode())

    assert value == read_actions(line, "a commit")[0][1]["size"]


def test_numbers_of_other_fields_keep_their_spelling() -> None:
    line = json.dumps({"commitInfo": {"timestamp": 1.0, "metrics": {"share": 2.0}}}).encode()

    ((_, info),) = read_actions(line, "a commit")

    assert ("1", "2.0") == (str(info["timestamp"]), str(info["metrics"]["share"]))
