"""JSON that is nested deeply: parsers and walks that call themselves for each level must not see it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import CommitCorrupt
from deltacli.delta.encoding.ndjson import MAX_DEPTH, is_nested_deeply, parse_ndjson
from deltacli.delta.log.actions import format_json_value
from deltacli.delta.log.file_actions import NarrowRows
from deltacli.delta.stats.columns import read_json
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import LOG, TableBuilder
from tests.support.peak import deltacli

DEPTHS = [400, 2_000, 30_000]


def objects(depth: int) -> str:
    """Objects within each other."""
    return '{"a":' * depth + "1" + "}" * depth


def with_deep_statistics(place: Path, depth: int, **configuration: str) -> Path:
    """A table with one file between a hundred others whose statistics hold an unknown field of this depth."""
    sound = [add(f"f{number}", size=1, records=1) for number in range(100)]
    deep = add("deep", size=1, stats='{"numRecords":1,"future":' + objects(depth) + "}")
    head = [commit_info("WRITE"), protocol(), metadata(configuration=configuration)]
    return TableBuilder().commit(*head, *sound[:50], deep, *sound[50:]).write(place)


@pytest.mark.parametrize("depth", DEPTHS)
def test_statistics_nested_30_000_deep_are_a_finding(tmp_path: Path, depth: int) -> None:
    table = with_deep_statistics(tmp_path, depth)

    run = deltacli("validate", table, "--json", "--select", "stats.bad-json", "--fail-on", "warning")

    assert 1 == run.code, run.error
    findings = json.loads(run.out)["tables"][0]["findings"]
    assert ["stats.bad-json"] == [finding["rule"] for finding in findings]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("by_property", [True, False])
def test_a_checkpoint_with_structs_leaves_out_statistics_nested_deeply(
    tmp_path: Path, depth: int, *, by_property: bool
) -> None:
    wanted = {"delta.checkpoint.writeStatsAsStruct": "true"} if by_property else {}
    table = with_deep_statistics(tmp_path, depth, **wanted)

    run = deltacli("checkpoint", table, *([] if by_property else ["--stats", "both"]))

    assert 0 == run.code, run.error
    (written,) = (tmp_path / LOG).glob("*.checkpoint.parquet")
    adds = [row["add"] for row in pq.read_table(written).to_pylist() if row["add"]]
    counts = {row["path"]: row["stats_parsed"] and row["stats_parsed"]["numRecords"] for row in adds}
    assert {"deep": None, **{f"f{number}": 1 for number in range(100)}} == counts


def test_arrow_infers_no_types_of_lines_nested_deeply() -> None:
    fields = pa.schema([("n", pa.int64())])
    line = b'{"n":1,"future":%b}\n'

    sound = parse_ndjson(line % objects(MAX_DEPTH - 1).encode(), fields, infer=True)
    deep = parse_ndjson(line % objects(30_000).encode(), fields, infer=True)

    assert sound is not None
    assert deep is None


def test_arrow_passes_over_fields_of_any_depth_on_a_small_stack() -> None:
    """
    Only inference calls itself for each level. Another process: should a later Arrow differ, that one ends.
    """
    program = """
import threading, pyarrow
from deltacli.delta.encoding.ndjson import read_lines
line = b'{"n":1,"future":' + b'{"a":' * 1_000_000 + b'1' + b'}' * 1_000_000 + b'}'
threading.stack_size(512 << 10)
read = lambda: print(read_lines(line, pyarrow.schema([("n", pyarrow.int64())]), infer=False).num_rows)
thread = threading.Thread(target=read); thread.start(); thread.join()
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert (0, b"1\n") == (done.returncode, done.stdout)


@pytest.mark.parametrize("levels", [95, 96, 190])
def test_a_schema_nested_deeply_can_have_a_checkpoint_with_structs(tmp_path: Path, levels: int) -> None:
    """
    Arrow reads 100 levels of a Parquet schema, so that what was written could not be read back.
    """
    nested: object = "long"
    for _ in range(levels):
        nested = {"type": "struct", "fields": [{"name": "a", "type": nested, "nullable": True, "metadata": {}}]}
    plain = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    fields = [plain, plain | {"name": "deep", "type": nested}]
    schema = json.dumps({"type": "struct", "fields": fields})
    head = [commit_info("WRITE"), protocol(), metadata(schema_string=schema)]
    stats = '{"numRecords":1,"minValues":{"n":5}}'
    table = TableBuilder().commit(*head, add("f", size=1, stats=stats)).write(tmp_path)

    run = deltacli("checkpoint", table, "--stats", "both")

    assert 0 == run.code, run.error
    (written,) = (tmp_path / LOG).glob("*.checkpoint.parquet")
    (parsed,) = [row["add"]["stats_parsed"] for row in pq.read_table(written).to_pylist() if row["add"]]
    assert 5 == parsed["minValues"]["n"]
    assert (levels <= 95) == ("deep" in parsed["minValues"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", False),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, False),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), True),
        ('{"a":[' * MAX_DEPTH + "]}" * MAX_DEPTH, True),
        ('{"a":\n' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), True),
        ("[{}]\n" * 10_000, False),
        (json.dumps({"text": "[" * 1_000}), False),
        (json.dumps({"text": '\\"' + "{" * 1_000}), False),
        (json.dumps({"text": "}" * 1_000, "deep": 0}).replace("0", objects(1_000)), True),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_depth_is_counted_across_lines_and_without_strings(text: str, *, expected: bool) -> None:
    assert expected == is_nested_deeply(text.encode())


def test_a_text_nested_deeply_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ValueError, match="256 levels"):
        read_json(objects(MAX_DEPTH + 1))


def test_a_size_nested_deeply_is_refused_by_name() -> None:
    """
    The message showed the value, and to show it calls itself for each level.
    """
    value: object = 1
    for _ in range(5_000):
        value = [value]
    rows = NarrowRows()
    rows.append([{"path": "a", "size": value}], [])

    with pytest.raises(CommitCorrupt, match=r"add\.size has the wrong type"):
        rows.build_batches("commit")
    assert "nested too deeply" in format_json_value(value)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ({"txn": {"appId": "a", "version": 1}}, "log compact {} --from 0 --to 1"),
        (metadata(), "properties {} set a=b --yes"),
    ],
    ids=["compaction", "commit"],
)
def test_an_unknown_field_too_deep_to_be_written_again_is_refused_by_name(
    line: dict[str, dict[str, object]], command: str, tmp_path: Path
) -> None:
    """
    It is read: parsers take more levels than writers.
    """
    place = TableBuilder().commit(protocol(), metadata(), add("f", size=1)).write(tmp_path)
    (kind, fields), depth = next(iter(line.items())), 985
    text = json.dumps({kind: {**fields, "future": 0}}).replace('"future": 0', f'"future": {objects(depth)}')
    (place / LOG / f"{1:020d}.json").write_text(text + "\n")

    run = deltacli(*command.format(place).split())

    assert 3 == run.code, run.error
    assert "nested too deeply to be written" in run.error
