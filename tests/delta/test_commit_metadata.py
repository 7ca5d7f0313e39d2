"""Keys that a user adds to the commitInfo, and reserved keys."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.log.actions import RESERVED, parse_commit_metadata, require_unreserved_keys


def test_pairs_become_keys_and_texts() -> None:
    found = parse_commit_metadata(["team=data=platform", "userMetadata=why", "note=", "team=data=platform"])

    assert {"team": "data=platform", "userMetadata": "why", "note": ""} == found


@pytest.mark.parametrize("key", [*RESERVED, "TXNID"])
def test_keys_written_by_the_protocol_and_engines_are_reserved(key: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_commit_metadata([f"{key}=x"])

    assert (2, "usage.commit-metadata") == (raised.value.exit_code, raised.value.code)
    assert raised.value.facts["why"]


@pytest.mark.parametrize("texts", [["team"], ["=x"], ["team=a", "team=b"], ["team=\udcff"]])
def test_an_argument_that_is_not_a_pair_is_a_usage_error(texts: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        parse_commit_metadata(texts)

    assert "usage.commit-metadata" == raised.value.code


@pytest.mark.parametrize("metadata", [{"team": 1}, {1: "x"}, {"team": None}])
def test_only_texts_are_written(metadata: Any) -> None:
    with pytest.raises(UsageError):
        require_unreserved_keys(metadata)
