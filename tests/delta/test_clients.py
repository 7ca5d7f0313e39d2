"""What is said of clients: by facts about traits, in versions, and of changes of a table."""

from __future__ import annotations

import pytest

from deltacli.delta.protocol.clients import ClientAccess, determine_access, read_clients
from deltacli.table.known_clients import find_affected_clients

MEASURED = {
    "name": "m",
    "title": "M",
    "version": "1.2",
    "measuredOn": "2026-01-02",
    "facts": {
        "columnMapping": [True, True],
        "columnMapping.used": [True, False],
        "deletionVectors": [False, None],
        "rowTracking": [True, None],
        "domainMetadata": [True, False],
    },
}
DOCUMENTED = {
    "name": "d",
    "title": "D",
    "version": "3.0",
    "facts": [
        {
            "source": "https://example.org",
            "checkedOn": "2026-01-01",
            "traits": {"deletionVectors": ["2.3", "2.3"], "checkConstraints": [True, "0.8.0"]},
        }
    ],
}


BOTH = {
    **DOCUMENTED,
    "name": "b",
    "measured": {
        "version": "4.4.0",
        "measuredOn": "2026-01-03",
        "facts": {
            "deletionVectors": [True, True],
            "checkConstraints": [True, False],
            "variantType": [True, True],
        },
    },
}


def told(name: str, *traits: str, version: str | None = None) -> ClientAccess:
    clients = {one.name: one for one in read_clients({"clients": [MEASURED, DOCUMENTED, BOTH]})}
    return determine_access(clients[name], traits, version)


def pair(found: ClientAccess) -> tuple[bool | None, bool | None]:
    return found.reads, found.writes


def test_what_was_not_measured_is_unknown_and_not_assumed() -> None:
    assert pair(told("m")) == (True, True)
    assert pair(told("m", "columnMapping", "columnMapping.used")) == (True, False)
    assert pair(told("m", "deletionVectors", "deletionVectors.used")) == (False, None)
    assert pair(told("m", "columnMapping", version="1.3")) == (None, None)
    assert told("m", "vacuumProtocolCheck").unknown == ("vacuumProtocolCheck",)


@pytest.mark.parametrize(("version", "expected"), [(None, True), ("4.4", True), ("4.4.0", True), ("4.3", None)])
def test_what_was_measured_with_the_newest_version_is_not_assumed_of_others(
    version: str | None, expected: bool | None
) -> None:
    assert (expected, expected) == pair(told("b", "variantType", version=version))
    assert "4.4.0" == told("b").version


def test_documents_say_since_when_and_measurements_win_where_they_differ() -> None:
    assert "2.3" == told("b", "deletionVectors").since
    assert (True, False) == pair(told("b", "checkConstraints"))
    assert (True, True) == pair(told("b", "checkConstraints", version="4.3"))
    assert ("measured with 4.4.0 (2026-01-03)",) == told("b", "checkConstraints").sources


def test_a_feature_that_needs_another_one_is_not_unknown_where_that_one_stops_the_client() -> None:
    found = told("m", "rowTracking", "domainMetadata")

    assert pair(found) == (True, False)
    assert [one.trait for one in found.blockers] == ["domainMetadata"]
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("version", "expected"), [("2", False), ("2.2.9", False), ("2.3", True), ("2.3.0", True), ("4", True)]
)
def test_a_documented_version_is_the_first_of_those_that_do(version: str, expected: bool) -> None:
    found = told("d", "deletionVectors", "deletionVectors.used", version=version)

    assert pair(found) == (expected, expected)
    assert [one.needs for one in found.blockers] == ([] if expected else ["2.3"])


def test_readers_may_ignore_writer_features_that_nothing_is_documented_of() -> None:
    assert pair(told("d", "rowTracking")) == (True, None)
    assert pair(told("d", "vacuumProtocolCheck")) == (None, None)


@pytest.mark.parametrize("warning", ["widen.partition-date", "widen.partition-decimal"])
@pytest.mark.parametrize("added", [[], ["typeWidening"]])
def test_a_client_that_cannot_parse_the_partition_values_loses_access(warning: str, added: list[str]) -> None:
    found = {one.client.name: one for one in find_affected_clients(added, [warning], used=True)}

    assert found["duckdb"].reads is False
    assert found["spark"].reads is True


def test_a_warning_of_streams_or_shares_says_nothing_of_clients() -> None:
    assert find_affected_clients(["timestampNtz"], used=True) == find_affected_clients(
        ["timestampNtz"], ["alter.streams", "alter.shares"], used=True
    )
    assert () == find_affected_clients([], ["alter.streams"])


def test_clients_that_lose_access_come_first_unless_they_had_none_before() -> None:
    found = find_affected_clients(["columnMapping"], used=True)
    again = find_affected_clients(["columnMapping"], used=True, before=["columnMapping", "columnMapping.used"])

    lost = [
        (one.client.name, one.loses_reads, one.loses_writes) for one in found if one.loses_reads or one.loses_writes
    ]
    assert [("polars", True, False), ("duckdb", False, True)] == lost[:2]
    assert [one[0] for one in lost] == [one.client.name for one in found[: len(lost)]]
    assert not [one for one in again if one.client.name == "duckdb" and one.loses_writes]
