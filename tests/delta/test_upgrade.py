"""Protocols with more features."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deltacli.core.errors import Refused
from deltacli.delta.log.actions import Action
from deltacli.delta.protocol.feature_use import added_features, upgraded

PLAIN = ("appendOnly", "invariants")
CHECKS = (*PLAIN, "checkConstraints")
CHANGES = (*CHECKS, "changeDataFeed", "generatedColumns")
MAPPED = (*CHANGES, "columnMapping")


def action(
    reader: int, writer: int, readers: Sequence[str] | None = None, writers: Sequence[str] | None = None
) -> Action:
    found: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if readers is not None:
        found["readerFeatures"] = list(readers)
    if writers is not None:
        found["writerFeatures"] = list(writers)
    return found


@pytest.mark.parametrize(
    ("before", "readers", "writers"),
    [
        (action(1, 1), (), ()),
        (action(1, 2), (), PLAIN),
        (action(2, 2), (), PLAIN),
        (action(1, 3), (), CHECKS),
        (action(1, 4), (), CHANGES),
        (action(1, 5), (), CHANGES),
        (action(2, 4), (), CHANGES),
        (action(2, 5), ("columnMapping",), MAPPED),
        (action(1, 6), (), (*CHANGES, "identityColumns")),
        (action(2, 6), ("columnMapping",), (*MAPPED, "identityColumns")),
        (action(1, 7, None, ["rowTracking", "appendOnly"]), (), ("rowTracking", "appendOnly")),
        (action(1, 7, None, []), (), ()),
        (action(2, 7, None, ["x", "columnMapping"]), ("columnMapping",), ("x", "columnMapping")),
        (action(2, 7, None, ["invariants"]), (), ("invariants",)),
        (action(3, 7, ["v", "a", "v"], ["z", "v", "z", "a"]), ("v", "a"), ("z", "v", "a")),
        (action(3, 7, ["deletionVectors"], []), ("deletionVectors",), ("deletionVectors",)),
        (action(3, 7, ["x"], ["y"]), ("x",), ("y", "x")),
        (action(3, 7), (), ()),
    ],
)
def test_type_widening_from_every_version(before: Action, readers: Sequence[str], writers: Sequence[str]) -> None:
    after = upgraded(before, ["typeWidening"])

    assert after is not None
    assert [*readers, "typeWidening"] == after["readerFeatures"]
    assert [*writers, "typeWidening"] == after["writerFeatures"]
    assert (3, 7) == (after["minReaderVersion"], after["minWriterVersion"])
    assert ("typeWidening",) == added_features(before, after)


def test_several_features_are_added_in_their_order_and_unknown_fields_stay() -> None:
    before = {**action(3, 7, ["timestampNtz"], ["timestampNtz"]), "more": 1}

    after = upgraded(before, ["typeWidening", "timestampNtz", "typeWidening"])

    assert {**action(3, 7, *[["timestampNtz", "typeWidening"]] * 2), "more": 1} == after


def test_a_feature_that_is_there_needs_no_upgrade() -> None:
    names = ["typeWidening", "timestampNtz"]

    assert upgraded(action(3, 7, names, [*names, "invariants", "invariants"]), names) is None
    assert upgraded(action(1, 1), []) is None


def test_a_feature_in_one_list_is_added_to_the_other() -> None:
    for readers, writers in ((["typeWidening"], ["a"]), ([], ["a", "typeWidening"])):
        after = upgraded(action(3, 7, readers, writers), ["typeWidening"])

        assert action(3, 7, ["typeWidening"], ["a", "typeWidening"]) == after


def test_other_features_of_a_table_of_features_stay_where_they_are() -> None:
    after = upgraded(action(3, 7, [], ["deletionVectors"]), ["typeWidening"])

    assert action(3, 7, ["typeWidening"], ["deletionVectors", "typeWidening"]) == after


def test_a_feature_of_writers_leaves_readers_alone() -> None:
    assert action(1, 7, None, [*PLAIN, "rowTracking"]) == upgraded(action(1, 2), ["rowTracking"])
    assert action(2, 7, None, [*MAPPED, "rowTracking"]) == upgraded(action(2, 5), ["rowTracking"])


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (action(3, 6), "protocol.reader3-needs-writer7"),
        (action(3, 2), "protocol.reader3-needs-writer7"),
        (action(4, 7), "protocol.version-out-of-range"),
        (action(1, 8), "protocol.version-out-of-range"),
        (action(0, 2), "protocol.version-out-of-range"),
    ],
)
def test_an_invalid_protocol_is_refused(before: Action, code: str) -> None:
    with pytest.raises(Refused) as refused:
        upgraded(before, ["typeWidening"])

    assert code == refused.value.code
