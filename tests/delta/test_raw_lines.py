"""Lines of a commit with all their faults: each is reported at its line, and sound actions are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import Place
from deltacli.rules.log import commit_lines as raw_lines
from deltacli.rules.log.commit_lines import LineScanner, ScannedLines

PLACE = Place("_delta_log/00000000000000000001.json", version=1)


def add_of(**fields: Any) -> Action:
    values = {"path": "a", "partitionValues": {"p": "a"}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": values | fields}


def remove_with(vector: Action) -> Action:
    return {"remove": {"path": "a", "dataChange": True, "deletionVector": vector}}


def line_of(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def scan(*lines: object) -> ScannedLines:
    """What one file of these lines gives: bytes as they are, anything else as a machine writes it."""
    data = b"\n".join(line if isinstance(line, bytes) else line_of(line) for line in lines)
    return LineScanner().scan(data + b"\n", PLACE)


def told(found: ScannedLines) -> list[tuple[str, int | None, str]]:
    return [(finding.rule.id, finding.place.line, finding.message) for finding in found.findings]


def rules_at(found: ScannedLines) -> list[tuple[str, int | None]]:
    return [(finding.rule.id, finding.place.line) for finding in found.findings]


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_line_may_be_as_long_as_readers_support(extra: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_lines, "MAX_LINE_BYTES", len(line_of(add_of())) + extra)

    found = scan({"txn": None, "x": {}}, add_of())

    too_long = extra < 0
    assert ([("commit.bad-json", 2)] if too_long else []) == rules_at(found)
    assert too_long is not found.is_readable
    assert [f"{len(line_of(add_of()))} bytes"] * too_long == [finding.seen for finding in found.findings]


@pytest.mark.parametrize("length", [59, 60, 61])
def test_the_end_of_a_line_that_is_not_json_is_shown(length: int) -> None:
    text = '{"add":' + "x" * (length - 7)

    found = scan(text.encode())

    assert not found.is_readable
    assert [text if length <= 60 else f"…{text[1:]}"] == [finding.seen for finding in found.findings]


def test_only_duplicate_keys_are_reported() -> None:
    found = scan(b'{"txn":{"appId":"a","version":1,"appId":"b","version":2,"lastUpdated":3}}')

    assert [("commit.duplicate-key", "appId"), ("commit.duplicate-key", "version")] == [
        (finding.rule.id, finding.seen) for finding in found.findings
    ]
    assert [{"appId": "b", "version": 2, "lastUpdated": 3}] == [placed.action for placed in found.actions]


def test_blank_lines_and_carriage_returns_are_counted_once_a_file() -> None:
    found = scan(b"", b" ", line_of(add_of()) + b"\r", line_of(add_of()))

    assert [("commit.crlf-or-blank", "2")] == [(finding.rule.id, finding.seen) for finding in found.findings]
    assert [3, 4] == [placed.line for placed in found.actions]


def test_the_end_of_a_file_is_not_a_blank_line() -> None:
    assert [] == told(LineScanner().scan(line_of(add_of()) + b"\n", PLACE))
    assert [] == told(LineScanner().scan(line_of(add_of()), PLACE))


@pytest.mark.parametrize("end", ["", "\n", " \r\n\t"])
def test_actions_spread_over_lines_are_taken_by_their_first_line(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    actions: list[Action] = [add_of(), {"commitInfo": {}}]
    text = "\n".join(json.dumps(action, indent=2) for action in actions)
    monkeypatch.setattr(raw_lines, "MAX_LINE_BYTES", max(map(len, text.split("\n"))))

    found = LineScanner().scan((text + end).encode(), PLACE)

    assert [("commit.pretty-printed", 1)] == rules_at(found)
    assert [("add", 1), ("commitInfo", 12)] == [(placed.kind, placed.line) for placed in found.actions]


@pytest.mark.parametrize(
    "text", ['{\n"add":\n{}}\n[1]', '{\n"add":\n{}}\n{"add"', '{\n"x":' + "[" * 300 + "]" * 300 + "}"]
)
def test_lines_that_are_not_json_together_are_reported_one_by_one(text: str) -> None:
    found = LineScanner().scan(text.encode(), PLACE)

    assert ("commit.bad-json", 1) in rules_at(found)
    assert "commit.pretty-printed" not in {finding.rule.id for finding in found.findings}
    assert not found.is_readable


# -- actions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({}, "the line has no actions, expected one"),
        ({"add": None}, "the line has no actions, expected one"),
        ({"commitInfo": {}, "txn": {"appId": "a", "version": 1}}, "the line has 2 actions, expected one"),
        ({"commitInfo": {}, "txn": {"appId": "a", "version": 1}, "x": {}}, "the line has 2 actions, expected one"),
        ({"x": None, "y": None}, "the line has no actions, expected one"),
    ],
)
def test_a_line_contains_one_action(line: Action, message: str) -> None:
    found = scan(line)

    assert [("commit.line-not-object", 1, message)] == told(found)
    assert found.is_readable


def not_finite(found: ScannedLines) -> list[tuple[int | None, str | None]]:
    rule = raw_lines.NOT_FINITE
    return [(finding.place.line, finding.seen) for finding in found.findings if finding.rule.id == rule.id]


def test_numbers_that_are_not_json_are_reported_at_their_line_and_the_actions_are_kept() -> None:
    lines = (b'{"commitInfo":{"a":NaN,"b":[-Infinity,NaN]}}', b'{"add":{"path":"a","new":Infinity}}', b'{"x":NaN}')
    found = scan(*lines)

    assert [(1, "NaN and -Infinity"), (2, "Infinity"), (3, "NaN")] == not_finite(found)
    assert found.is_readable
    assert ["commitInfo", "add", "x"] == [placed.kind for placed in found.actions]


def test_words_and_large_numbers_are_not_taken_for_them() -> None:
    """Engines read 1e999, as infinity or not at all, and texts that name the constants."""
    schema = json.dumps({"type": "struct", "fields": [{"name": "NaN", "metadata": {"comment": "Infinity"}}]})
    lines = ({"commitInfo": {"NaN": "-Infinity"}}, b'{"commitInfo":{"a":1e999, "b":-1E400}}')
    found = scan(*lines, {"metaData": {"schemaString": schema}})

    assert [] == not_finite(found)


def test_a_schema_and_an_action_on_several_lines_are_looked_into() -> None:
    assert [(1, "NaN")] == not_finite(scan({"metaData": {"schemaString": '{"fields":[NaN]}'}}))
    assert [(1, "NaN")] == not_finite(scan(b'{"commitInfo":', b'{"a":NaN}}'))


@pytest.mark.parametrize(
    "line", [{"add": None, "commitInfo": {}}, {"commitInfo": {}, "x": {}}, {"x": {}, "y": 1}, {"x": 1}, {"x": {}}]
)
def test_unknown_keys_may_appear_next_to_an_action(line: Action) -> None:
    found = scan(line)

    assert [] == told(found)
    assert found.is_readable
    assert [kind for kind, action in line.items() if action is not None] == [placed.kind for placed in found.actions]


def test_an_action_that_is_not_an_object_is_invalid() -> None:
    found = scan({"add": 1}, {"commitInfo": "text"}, {"x": 1})

    assert [("action.wrong-type", 1)] == rules_at(found)
    assert [("add", {})] == [(placed.kind, placed.action) for placed in found.broken]
    assert [("commitInfo", {"": "text"}), ("x", {})] == [(placed.kind, placed.action) for placed in found.actions]


def test_an_action_is_broken_by_a_wrong_type_or_without_a_path() -> None:
    without_size, without_path = add_of(), add_of()
    del without_size["add"]["size"], without_path["add"]["path"]

    found = scan(without_size, without_path, add_of(size="1"))

    assert [("action.missing-required", 1), ("action.missing-required", 2), ("action.wrong-type", 3)] == rules_at(found)
    assert ["a", None, "a"] == [finding.place.key for finding in found.findings]
    assert [1] == [placed.line for placed in found.actions]
    assert [2, 3] == [placed.line for placed in found.broken]


def test_unknown_fields_are_counted_by_kind_and_name() -> None:
    odd = add_of(x=1)

    found = scan(add_of(), odd, odd, {"txn": {"appId": "a", "version": 1, "x": 1}}, odd)

    assert [
        ("commit.unknown-field", 2, "add.x is not defined by the protocol in 3 actions; readers ignore it"),
        ("commit.unknown-field", 4, "txn.x is not defined by the protocol; readers ignore it"),
    ] == told(found)


PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
WITH_FEATURES = PROTOCOL | {"writerFeatures": ["a"]}
VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "cardinality": 1, "sizeInBytes": 1}


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        (add_of(), add_of(size=2**63)),
        (add_of(), add_of(size=-(2**63) - 1)),
        (add_of(x=1), add_of(x=1, size=2**63)),
        ({"protocol": PROTOCOL}, {"protocol": PROTOCOL | {"minWriterVersion": 2**31}}),
        ({"protocol": PROTOCOL}, {"protocol": PROTOCOL | {"minReaderVersion": -(2**31) - 1}}),
        ({"protocol": WITH_FEATURES}, {"protocol": WITH_FEATURES | {"writerFeatures": [1]}}),
        (add_of(), add_of(partitionValues={"p": 1})),
        (add_of(deletionVector=VECTOR), add_of(deletionVector=VECTOR | {"storageType": None, "sizeInBytes": "1"})),
        (add_of(deletionVector=VECTOR), add_of(deletionVector=VECTOR | {"sizeInBytes": 2**31})),
        (remove_with({"storageType": "u"}), remove_with({"storageType": "u", "offset": "1"})),
        (add_of(), add_of(size=-(2**63) - 1, modificationTime=-(2**63))),
        (add_of(), add_of(size=2**63, modificationTime=2**62)),
        ({"protocol": PROTOCOL}, {"protocol": {"minReaderVersion": 2**31, "minWriterVersion": 2**31}}),
    ],
)
def test_an_action_like_a_sound_one_may_be_broken(sound: Action, broken: Action) -> None:
    found = scan(sound, broken)

    faults = [finding for finding in found.findings if finding.rule.id != "commit.unknown-field"]
    assert {("action.wrong-type", 2)} == {(finding.rule.id, finding.place.line) for finding in faults}
    assert ([1], [2]) == ([one.line for one in found.actions], [one.line for one in found.broken])


@pytest.mark.parametrize(
    "other",
    [
        add_of(size=2**63 - 1, modificationTime=-(2**63)),
        add_of(size=2**62),
        add_of(size=2**31, modificationTime=-(2**31) - 1),
        add_of(partitionValues={"p": None}),
        {"protocol": {"minReaderVersion": 2**31 - 1, "minWriterVersion": -(2**31)}},
    ],
)
def test_an_action_like_a_sound_one_is_sound_to_the_edge(other: Action) -> None:
    found = scan(add_of(), {"protocol": PROTOCOL}, other)

    assert [] == told(found)
    assert [1, 2, 3] == [placed.line for placed in found.actions]
