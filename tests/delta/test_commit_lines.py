"""Commit files as they are found in the field, and errors that name file, line and byte."""

from __future__ import annotations

import pytest

from deltacli.core.errors import CommitCorrupt
from deltacli.delta.log.actions import read_actions, split_lines, stream_actions

NAME = "00000000000000000003.json"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c"])
def test_only_lf_ends_a_line(separator: str) -> None:
    """
    Jackson writes these raw inside strings; `str.splitlines` would cut there. (Below U+0020 they must be escaped.)
    """
    raw = separator if separator >= " " else f"\\u{ord(separator):04x}"
    data = f'{{"txn":{{"appId":"a{raw}b","version":1}}}}\n{{"txn":{{"appId":"c","version":2}}}}\n'.encode()

    assert ["a" + separator + "b", "c"] == [action["appId"] for _, action in read_actions(data, NAME)]


@pytest.mark.parametrize(
    "data",
    [
        b'{"txn":{"appId":"a","version":1}}\n{"txn":{"appId":"b","version":2}}\n',
        b'{"txn":{"appId":"a","version":1}}\n{"txn":{"appId":"b","version":2}}',
        b'{"txn":{"appId":"a","version":1}}\r\n{"txn":{"appId":"b","version":2}}\r\n',
        b'\n\n{"txn":{"appId":"a","version":1}}\n  \n\t\n{"txn":{"appId":"b","version":2}}\n\n',
        b'{\n  "txn": {"appId": "a",\n "version": 1}\n}\n{\n "txn": {"appId": "b", "version": 2}}',
        b'{"txn":{"appId":"a","version":1}} {"txn":{"appId":"b","version":2}}',
    ],
    ids=["usual", "no final newline", "CRLF", "blank lines", "over several lines", "two on a line"],
)
def test_ways_to_write_the_same_commit(data: bytes) -> None:
    assert [("txn", {"appId": "a", "version": 1}), ("txn", {"appId": "b", "version": 2})] == read_actions(data, NAME)


def test_nan_and_infinity_in_provenance_are_read() -> None:
    data = b'{"commitInfo":{"operationMetrics":{"a":NaN,"b":-Infinity}}}\n{"txn":{"appId":"a","version":1}}\n'

    kinds = [kind for kind, _ in read_actions(data, NAME)]

    assert ["commitInfo", "txn"] == kinds


def test_a_lone_surrogate_is_read() -> None:
    data = b'{"commitInfo":{"userMetadata":"\\ud800"}}\n'

    assert [("commitInfo", {"userMetadata": "\ud800"})] == read_actions(data, NAME)


@pytest.mark.parametrize("number", [b"1", b"NaN"], ids=["orjson", "standard library"])
def test_of_duplicate_keys_the_last_counts(number: bytes) -> None:
    data = b'{"txn":{"appId":"first","version":1,"appId":"last","x":' + number + b"}}\n"

    assert "last" == read_actions(data, NAME)[0][1]["appId"]


def test_null_actions_are_passed_over() -> None:
    data = b'{"add":null,"remove":{"path":"a"},"txn":null}\n'

    assert [("remove", {"path": "a"})] == read_actions(data, NAME)


def test_unknown_actions_and_fields_are_carried() -> None:
    data = (
        b'{"fromTheFuture":{"a":[1]}}\n{"fromTheFuture2":5}\n{"txn":{"appId":"a","version":1,"unknown":{"b":null}}}\n'
    )

    assert [
        ("fromTheFuture", {"a": [1]}),
        ("fromTheFuture2", {}),
        ("txn", {"appId": "a", "version": 1, "unknown": {"b": None}}),
    ] == read_actions(data, NAME)


@pytest.mark.parametrize(
    ("line", "code", "says", "byte_in_line"),
    [
        (b'{"add":{"path":"a"', "commit.bad-json", "is not JSON", 18),
        ('{"add":{"path":"äöü"'.encode(), "commit.bad-json", "is not JSON", 23),
        (b"not json", "commit.bad-json", "is not JSON", 0),
        (b'{"add":{"path":"\xff"}}', "commit.not-utf8", "is not UTF-8", 16),
        (b"[]", "commit.line-not-object", "found an array, expected an object", 0),
        (b"7", "commit.line-not-object", "found a number, expected an object", 0),
        (b"null", "commit.line-not-object", "found null, expected an object", 0),
        (b'{"add":"path"}', "action.wrong-type", "add is a string, expected an object", 0),
        (b'{"txn":[]}', "action.wrong-type", "txn is an array, expected an object", 0),
        (b'{"protocol":true}', "action.wrong-type", "protocol is a boolean, expected an object", 0),
    ],
)
@pytest.mark.parametrize("reader", ["whole", "stream"])
def test_an_error_names_file_line_and_byte(reader: str, line: bytes, code: str, says: str, byte_in_line: int) -> None:
    before = b'{"txn":{"appId":"\xc3\xbc","version":1}}\r\n\n'
    data = before + line + b'\n{"txn":{"appId":"b","version":2}}\n'

    with pytest.raises(CommitCorrupt) as raised:
        read_actions(data, NAME) if reader == "whole" else list(stream_actions(data.split(b"\n"), NAME))

    assert code == raised.value.code
    assert f"{NAME} line 3" in raised.value.message
    assert says in raised.value.message
    assert str(len(before) + byte_in_line) == raised.value.facts["byte"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_put_together_across_blocks(size: int) -> None:
    data = b"one\n\ntwo\r\nlast without newline"

    assert [b"one", b"", b"two\r", b"last without newline"] == list(
        split_lines(data[start : start + size] for start in range(0, len(data), size))
    )


@pytest.mark.parametrize("reader", ["whole", "stream"])
@pytest.mark.parametrize(
    "end",
    ['{"add":{"path":"a', '{"add":{"path":"a"', '{"add":', '{"add":{"dataChange":tr', "{", '{"add":{"path":"\udcc3'],
)
def test_a_truncated_commit_is_reported_as_incomplete(reader: str, end: str) -> None:
    data = b'{"txn":{"appId":"a","version":1}}\n' + end.encode(errors="surrogateescape")

    with pytest.raises(CommitCorrupt) as raised:
        read_actions(data, NAME) if reader == "whole" else list(stream_actions(data.split(b"\n"), NAME))

    assert f"{NAME} ends in the middle of line 2: the file is incomplete" == raised.value.message


@pytest.mark.parametrize(
    "data", [b"not json", b'{"add":{"path":"a\n{"txn":{}}\n', b'{"add":{"path":"a"}}}', b'{"a":1 "b":2}']
)
def test_a_commit_damaged_elsewhere_is_not_reported_as_incomplete(data: bytes) -> None:
    with pytest.raises(CommitCorrupt, match=r"line 1 is not JSON: [a-z', ]+[a-z]$"):
        read_actions(data, NAME)
