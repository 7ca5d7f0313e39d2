"""Commits whose bytes are no JSON, odd JSON, or JSON meant to break a parser: an answer, or an error with a rule."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from deltacli.core.documents import dumps
from deltacli.core.errors import CommitCorrupt, DeltacliError
from deltacli.delta.log.actions import MAX_DEPTH, read_actions
from deltacli.delta.log.file_actions import extract_num_records_column, parse_num_records
from deltacli.delta.schema.to_arrow import arrow_type
from deltacli.delta.schema.types import PrimitiveType, parse_schema
from tests.support.actions import add, birth, commit_info, metadata, protocol, to_bytes
from tests.support.builder import TableBuilder
from tests.support.reading import large_commits, open_built
from tests.support.rows import parquet_bytes, schema_of, table_of

WHOLE = to_bytes([add("a", size=1)])
DEEP = 100_000


def nested(depth: int) -> bytes:
    """Arrays within each other."""
    return b"[" * depth + b"]" * depth


def verdict(data: bytes) -> object:
    """What a snapshot makes of commit 1: how many files are live, or the rule that it breaks."""
    table = open_built(TableBuilder().commit(*birth(), add("old", size=5)).commit(raw=data))
    try:
        return table.snapshot().counts()[0].count
    except DeltacliError as error:
        return error.code if f"{1:020d}.json" in error.message else f"no file is named: {error}"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0" * 100, "commit.bad-json"),
        (WHOLE + b"\0" * 100, "commit.bad-json"),
        (WHOLE.replace(b'"a"', b'"a\\u0000"'), 2),
        (WHOLE.replace(b'"a"', b'"a\0"'), "commit.bad-json"),
        (b"\xef\xbb\xbf" + WHOLE, "commit.not-utf8"),
        (WHOLE.decode().encode("utf-16"), "commit.not-utf8"),
        (WHOLE.decode().encode("utf-16-le"), "commit.bad-json"),
        (WHOLE.decode().encode("utf-32"), "commit.not-utf8"),
        (WHOLE.replace(b'"a"', b'"\\ud800"'), "action.wrong-type"),
        (WHOLE.replace(b'"a"', b'"\\ud83d\\ude00"'), 2),
        (WHOLE.replace(b'"size":1', b'"size":1,"size":2'), 2),
        (WHOLE.replace(b"\n", b"\r") * 3, 2),
        (WHOLE.replace(b"\n", b"\r") + b"{", "commit.bad-json"),
        (b"null\n", "commit.line-not-object"),
        (b"[]\n", "commit.line-not-object"),
        (b'"text"\n', "commit.line-not-object"),
        (b"7\n", "commit.line-not-object"),
        (b"{}\n", 1),
        (nested(DEEP), "commit.bad-json"),
        (b'{"add":' * DEEP + b"1" + b"}" * DEEP, "commit.bad-json"),
        (b'{"future":' + nested(DEEP) + b"}", "commit.bad-json"),
        (b"1" * 1_000_000, "commit.bad-json"),
        (b'{"future":[NaN,' + b"1" * 5_000 + b"]}", "commit.bad-json"),
        (WHOLE.replace(b'"size":1', b'"size":' + b"1" * 1_000_000), "commit.bad-json"),
        (WHOLE.replace(b'"size":1', b'"size":1e999'), "action.wrong-type"),
        (b'{"add":{"path":"a","size":1,"%s":1}}' % (b"k" * 10_000_000), 2),
        (b'{"%s":{"path":"a"}}' % (b"k" * 10_000_000), 1),
        (b'{"future":{%s}}' % b",".join(b'"%d":1' % number for number in range(300_000)), 1),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_hostile_commit_has_an_answer_or_a_rule(data: bytes, expected: object) -> None:
    assert expected == verdict(data)

    with large_commits(block_bytes=4 << 20):
        assert expected == verdict(data) or b"\r" in data  # several actions on a line are for small commits


def test_a_long_commit_with_one_bad_line_costs_no_square_of_its_length() -> None:
    """
    6 MiB of good lines: each of 60,000 steps used to copy what was left.
    """
    data = WHOLE * ((6 << 20) // len(WHOLE)) + b"{"

    with pytest.raises(CommitCorrupt, match="ends in the middle of line"):
        read_actions(data, "commit")


@pytest.mark.parametrize(
    "action",
    [
        {"metaData": {"partitionColumns": 5}},
        {"metaData": {"partitionColumns": [["a"]]}},
        {"metaData": {"configuration": [1]}},
        {"metaData": {"configuration": [["a", "b", "c"]]}},
        {"metaData": {"configuration": {"a": {"b": 1}}}},
        {"metaData": {"format": {"options": ["x"]}}},
        {"metaData": {"name": [1]}},
        {"metaData": {"id": {"a": 1}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [[1]]}},
        {"domainMetadata": {"domain": "d", "configuration": {"a": 1}}},
    ],
    ids=json.dumps,
)
def test_a_small_action_with_a_field_of_another_shape_is_refused_by_name(action: dict[str, object]) -> None:
    builder = TableBuilder().commit(protocol(), metadata(), raw=to_bytes([*birth(), action]))

    with pytest.raises(CommitCorrupt) as raised:
        open_built(builder).snapshot()

    assert "action.wrong-type" == raised.value.code
    assert f"{0:020d}.json: {next(iter(action))}." in raised.value.message


@pytest.mark.parametrize("neighbour", [None, "{}", '{"numRecords": 7}', "not json"])
def test_a_number_of_thousands_of_digits_hides_no_record_count(neighbour: str | None) -> None:
    text = '{"minValues":{"id":' + "1" * 5_000 + '},"numRecords":12}'

    assert 12 == extract_num_records_column(pa.array([text, neighbour], pa.string()))[0].as_py()
    assert 12 == parse_num_records(text)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 2, MAX_DEPTH + 1, 900, DEEP])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_deeply_nested_commit_info_is_shown_or_is_a_problem(depth: int, is_first: bool) -> None:
    raw = b'{"commitInfo":{"operation":"WRITE","operationParameters":' + nested(depth) + b"}}\n"
    builder = TableBuilder().commit(*birth()).commit(raw=raw if is_first else WHOLE + raw)

    item = open_built(builder).history().items[0]

    assert (None if depth < MAX_DEPTH or (depth == DEEP and not is_first) else "commit.bad-json") == item.problem
    assert json.loads(dumps(item.as_json()))["version"] == 1


def test_values_keep_their_odd_characters_in_json() -> None:
    odd = "a\x00b\n\x1b[31m\u202e\u2028\ud800"
    raw = json.dumps(commit_info(odd, userName=odd, operationParameters={odd: odd})).encode() + b"\n"

    item = open_built(TableBuilder().commit(*birth()).commit(raw=raw)).history().items[0]

    found = json.loads(dumps(item.as_json()))
    assert (odd, odd, {odd: odd}) == (found["operation"], found["userName"], found["operationParameters"])


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"array","elementType":' * DEEP,
        '{"type":"struct","fields":[{"name":"a","type":' * 5_000 + '"long"' + "}]}" * 5_000,
        '{"type":"struct","fields":[{"name":"a","type":'
        + '{"type":"array","elementType":' * 300
        + '"long"'
        + "}" * 300
        + "}]}",
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":' + "[" * DEEP,
    ],
    ids=["open", "structs", "arrays", "metadata"],
)
def test_a_deeply_nested_schema_is_refused(text: str) -> None:
    with pytest.raises(DeltacliError, match=r"nested too deeply|not JSON") as raised:
        parse_schema(text)

    assert "schema.bad-json" == raised.value.code


@pytest.mark.parametrize("kind", ["add", "remove"])
@pytest.mark.parametrize("half", ["\\ud800", "\\udcff"])
@pytest.mark.parametrize("field", ["path", "pathOrInlineDv"])
def test_half_of_a_surrogate_pair_in_a_key_is_refused_by_name(kind: str, half: str, field: str) -> None:
    """
    Legal in JSON, and no name of a file.
    """
    path, place = (half, "x") if field == "path" else ("é.parquet", half)
    raw = (
        f'{{"{kind}":{{"path":"{path}","partitionValues":{{}},"size":1,"modificationTime":0,"dataChange":true,'
        f'"deletionVector":{{"storageType":"u","pathOrInlineDv":"{place}","sizeInBytes":1,"cardinality":1}}}}}}\n'
    )

    with pytest.raises(CommitCorrupt, match=f"{1:020d}.json: .*wrong type") as raised:
        open_built(TableBuilder().commit(*birth()).commit(raw=raw.encode())).snapshot()

    assert "action.wrong-type" == raised.value.code


HUGE_NUMBERS = (
    "1e99999999999999999999",
    "-1e99999999999999999999",
    "1e-99999999999999999999",
    "0e99999999999999999999",
)


@pytest.mark.parametrize("kind", ["decimal(10,2)", "double", "long"])
@pytest.mark.parametrize(
    "number", [*HUGE_NUMBERS, "1e1000000", "9" * 5_000, f"1e{'9' * 5_000}"], ids=lambda text: text[:12]
)
def test_bounds_beyond_every_type_skip_no_file(kind: str, number: str) -> None:
    value = Decimal(1) if kind.startswith("decimal") else 1
    rows = pa.table({"d": pa.array([value], arrow_type(PrimitiveType(kind)))})
    data = parquet_bytes(rows)
    builder = table_of({}, schema_of(rows)).file("a.parquet", data)
    bounds = f'{{"d":{number}}}'
    low, high = (bounds, "{}") if number.startswith("-") or "e-" in number or number[0] == "0" else ("{}", bounds)
    stats = f'{{"numRecords":1,"minValues":{low},"maxValues":{high},"nullCount":{{"d":0}}}}'
    builder.commit(add("a.parquet", size=len(data), stats=stats))

    table = open_built(builder)
    found = [row for batch in table.snapshot().scan(where="d > 0") for row in batch.to_pylist()]

    assert 1 == len(found)
    assert 1 == table.validate().version
