"""Statements about clients match the effect of a change on a table that they could read before."""

from __future__ import annotations

import pytest

from deltacli.delta.protocol.clients import access_of


@pytest.mark.parametrize("warning", ["widen.partition-date", "widen.partition-decimal"])
@pytest.mark.parametrize("added", [[], ["typeWidening"]])
def test_a_client_that_cannot_parse_the_partition_values_loses_access(warning: str, added: list[str]) -> None:
    found = {one.name: one for one in access_of(added, [warning])}

    duckdb = found["duckdb delta"]
    assert (False, False, None) == (duckdb.reads, duckdb.writes, duckdb.since)
    assert "partition values" in duckdb.sources[-1]
    assert [True] * len(added) == [one.reads for name, one in found.items() if name == "Delta Lake for Spark"]
