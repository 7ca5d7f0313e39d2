"""`_last_checkpoint`: used as far as it is valid, never an error."""

from __future__ import annotations

import json

import pytest

from deltacli.delta.log.segment import BadHint, Hint, checksums, read_hint

SAMPLE = {
    "k0": "'v 0'",
    "checksum": "ignored",
    "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
}


def test_the_checksum_of_the_protocols_sample_is_the_protocols() -> None:
    assert "6a92d155a59bf2eecbd4b4ec7fd1f875" in checksums(SAMPLE)


def test_the_order_of_more_than_ten_array_items_may_be_either() -> None:
    """
    By path `…+1` comes before `…+10`; Spark sorts whole pairs, where `=` comes after `0`. Both stand in tables.
    """
    assert 1 == len(checksums({"features": list(range(10))}))
    assert 2 == len(checksums({"features": list(range(11))}))


@pytest.mark.parametrize(
    "text",
    [
        '{"version":7}',
        '{"version":7,"size":3,"parts":2,"unknown":null}',
        '{"version":7,"checksum":"45790853c735991cd1619c5575ffc363"}',
        '{"version":7,"checksum":"45790853C735991CD1619C5575FFC363"}',
    ],
)
def test_a_good_hint_names_a_version(text: str) -> None:
    assert Hint(7) == read_hint(text.encode())


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "hint.bad-json"),
        (b'{"version":7,"si', "hint.bad-json"),
        (b"[7]", "hint.bad-json"),
        (b"\xff\xfe", "hint.bad-json"),
        (b'{"version":7,"version":8}', "hint.bad-json"),
        (b"[" * 100_000, "hint.bad-json"),
        (b'{"version":7,"checksum":"0","deep":' + b"[" * 300 + b"]" * 300 + b"}", "hint.bad-json"),
        (b'{"version":7,"checksum":"0","text":"\\ud800"}', "hint.bad-json"),
        (b'{"version":7,"checksum":"0","\\ud800":1}', "hint.bad-json"),
        (b'{"version":7,"checksum":"0","%s":[%s1]}' % (b"k" * 1_000_000, b"1," * 1_000), "hint.bad-json"),
        (b'{"size":7}', "hint.missing-field"),
        (b'{"version":"7"}', "hint.missing-field"),
        (b'{"version":-1}', "hint.missing-field"),
        (b'{"version":true}', "hint.missing-field"),
        (b'{"version":9223372036854775808}', "hint.missing-field"),
        (b'{"version":7,"checksum":"00000000000000000000000000000000"}', "hint.checksum-bad"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_bad_hint_names_the_rule_it_violates(data: bytes, rule: str) -> None:
    assert BadHint(rule) == read_hint(data)


def test_a_checksum_covers_every_field() -> None:
    content = {"version": 7, "v2Checkpoint": {"sidecarFiles": [{"path": "a b"}]}}
    right = next(iter(checksums(content)))
    forged = {**content, "version": 8, "checksum": right}

    assert Hint(7) == read_hint(json.dumps({**content, "checksum": right}).encode())
    assert BadHint("hint.checksum-bad") == read_hint(json.dumps(forged).encode())
