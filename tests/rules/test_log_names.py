"""Which checkpoints and checksums a log may have by the names of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deltacli.delta.log.segment import LogFile, make_log_file, read_listing
from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.validate.log_reader import next_config
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.rules.framework.views import HistoryView, ListingView, LocatedAction, StoredFile
from deltacli.rules.log.checksums import checksums_have_their_commits, versions_have_a_checksum
from tests.rules.table_builder import NOW_MS, TableBuilder

DAY_MS = 86_400_000
UUID = "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
CLASSIC = "checkpoint.parquet"


def part(number: int, parts: int) -> str:
    return f"checkpoint.{number:010d}.{parts:010d}.parquet"


def files_of(names: Sequence[str]) -> list[LogFile]:
    """`3` is commit 3, `0-5` are commits, `4.checkpoint.parquet` is padded; `4.crc!` is empty."""
    found = []
    for name in names:
        head, _, rest = name.rstrip("!").partition(".")
        first, _, last = head.partition("-")
        for version in range(int(first), int(last or first) + 1):
            path = f"{version:020d}.{rest or 'json'}"
            found.append(make_log_file(path, 0 if name.endswith("!") else 100, 1_000 * version))
    return sorted(found, key=lambda file: file.name)


def config_of(*features: str, version: int = 0, **properties: str) -> TableConfiguration:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": list(features),
    }
    table = TableBuilder(protocol=protocol, properties={f"delta.{name}": text for name, text in properties.items()})
    config = next_config(
        TableConfiguration(),
        [LocatedAction("protocol", table.protocol, 1), LocatedAction("metaData", table.metadata, 2)],
        0,
    )
    return replace(config, protocol_version=version)


def listed(*names: str, config: TableConfiguration | None = None, **fields: Any) -> ListingView:
    files = files_of(names)
    others: dict[str, Any] = {"directories": [], "sidecars": [], "staged": [], "has_hint": True} | fields
    return ListingView(
        files=files, listing=read_listing(files), config=config or config_of("v2Checkpoint"), now_ms=NOW_MS, **others
    )


def found_in(view: ListingView) -> list[Finding]:
    return [
        finding
        for check in CATALOGUE.find_checks(ListingView)
        if check.rules[0].id.startswith(("checkpoint.", "sidecar."))
        for finding in check.run(view)
    ]


def told(view: ListingView) -> list[tuple[str, int | None]]:
    return [(finding.rule.id.partition(".")[2], finding.place.version) for finding in found_in(view)]


CLASSICAL = config_of()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["0-3", f"2.{part(1, 2)}", f"2.{part(2, 2)}"], None),
        (["0-3", f"2.{part(1, 2)}"], "1 part of 2: missing 2"),
        (["0-3", f"2.{part(2, 2)}"], "1 part of 2: missing 1"),
        (["0-3", f"2.{part(1, 2)}", f"2.{part(3, 2)}"], "1 part of 2: missing 2"),
        (["0-3", f"2.{part(0, 2)}", f"2.{part(1, 2)}"], "1 part of 2: missing 2"),
        (["0-3", f"2.{part(1, 1)}", f"2.{part(2, 1)}"], "part 2 of only 1"),
        (["0-3", f"2.{part(0, 1)}", f"2.{part(1, 1)}"], "part 0 of only 1"),
        (["0-3", f"2.{part(2, 6)}"], "1 part of 6: missing 1, 3-6"),
        (["0-3", f"2.{part(2, 7)}"], "1 part of 7: missing 1, 3-6 and 1 more"),
        (["0-3", f"2.{part(1, 0)}"], "part 1 of only 0"),
    ],
)
def test_the_parts_of_a_checkpoint_are_counted(names: list[str], message: str | None) -> None:
    found = found_in(listed(*names, config=CLASSICAL))

    assert [f"the multi-part checkpoint of version 2 has {message}"] * (message is not None) == [
        finding.message for finding in found
    ]


def test_parts_of_two_checkpoints_are_one_fault_if_neither_is_complete() -> None:
    both = [f"2.{part(1, 2)}", f"2.{part(1, 3)}"]

    assert [("multipart-mixed", 2)] == told(listed("0-3", *both, config=CLASSICAL))
    assert [("multipart-incomplete", 2)] == told(listed("0-3", *both, f"2.{part(2, 2)}", config=CLASSICAL))


@pytest.mark.parametrize(
    ("commits", "severity"),
    [
        (["0-3"], Severity.WARNING),
        (["3"], Severity.ERROR),
        (["2-3"], Severity.ERROR),
        (["1-3"], Severity.ERROR),
        (["4-5"], Severity.WARNING),
        (["3", "5"], Severity.WARNING),
        (["1"], Severity.ERROR),
        (["0-1"], Severity.ERROR),
        (["0-1", f"3.{CLASSIC}", "4"], Severity.WARNING),
    ],
)
def test_parts_weigh_more_where_they_alone_lead_to_the_newest_version(commits: list[str], severity: Severity) -> None:
    names = [*commits, f"2.{part(1, 2)}"]

    found = [finding for finding in found_in(listed(*names, config=CLASSICAL)) if "incomplete" in finding.rule.id]

    assert [severity] == [finding.severity for finding in found]


def test_empty_files_are_reported_for_checkpoints_only() -> None:
    names = ["0-3", f"1.{CLASSIC}!", f"2.{UUID}!", f"3.{part(1, 2)}!", f"3.{part(2, 2)}!", "0.crc!", "3.json!"]

    assert [("zero-length", 1), ("zero-length", 2), ("zero-length", 3), ("zero-length", 3)] == told(listed(*names))


def test_parts_are_forbidden_from_the_protocol_on() -> None:
    names = ["0-3", *(f"{version}.{part(number, 2)}" for version in (1, 2, 3) for number in (1, 2))]
    config = config_of("v2Checkpoint", version=2)

    assert [("multipart-forbidden", 2), ("multipart-forbidden", 3)] == told(listed(*names, config=config))
    assert [] == told(listed(*names, config=CLASSICAL))


def test_a_checkpoint_of_one_part_is_reported_if_parts_are_allowed() -> None:
    assert [("multipart-one", 2)] == told(listed("0-3", f"2.{part(1, 1)}", config=CLASSICAL))
    assert [("multipart-forbidden", 2)] == told(listed("0-3", f"2.{part(1, 1)}"))


def test_a_checkpoint_has_a_commit_at_or_above_it() -> None:
    names = ["0-3", f"3.{CLASSIC}", f"4.{CLASSIC}"]

    assert [("without-commit", 4)] == told(listed(*names, config=CLASSICAL))
    assert [("unpublished", 4)] == told(listed(*names, config=config_of("catalogManaged", "inCommitTimestamp")))
    assert [("without-commit", 4)] == told(listed(*names, config=TableConfiguration()))
    assert [] == told(listed(f"4.{CLASSIC}", config=CLASSICAL))
    assert [("without-commit", 4)] == told(listed("0", f"4.{CLASSIC}", config=CLASSICAL))


def test_uuid_names_need_the_feature_from_the_protocol_on() -> None:
    names = ["0-3", *(f"{version}.{UUID}" for version in (1, 2, 3)), f"3.{CLASSIC}"]

    assert [("v2-without-feature", 2), ("v2-without-feature", 3)] == told(listed(*names, config=config_of(version=2)))
    assert [] == told(listed(*names))
    assert [] == told(listed(*names, config=TableConfiguration()))


def test_a_log_that_begins_with_a_checkpoint_has_one_that_old_clients_see() -> None:
    def is_told(*names: str) -> bool:
        return ("v2-compat-missing", 2) in told(listed(*names))

    assert is_told("3", f"2.{UUID}", f"3.{UUID}")
    assert not is_told("0-3", f"2.{UUID}")
    assert not is_told("3", f"2.{UUID}", f"3.{CLASSIC}")
    assert not is_told("3")


def test_a_checkpoint_is_compared_with_the_commits_since_another() -> None:
    def unavailable(*names: str) -> list[int | None]:
        view = listed(*names, config=CLASSICAL)
        return [version for rule, version in told(view) if rule == "replay-unavailable"]

    assert [2] == unavailable("2-9", f"2.{CLASSIC}", f"5.{CLASSIC}", f"9.{CLASSIC}")
    assert [2] == unavailable("3-9", f"2.{CLASSIC}", f"3.{CLASSIC}")
    assert [2, 5] == unavailable("4-9", f"2.{CLASSIC}", f"5.{CLASSIC}")
    assert [1, 5] == unavailable("5-9", f"1.{CLASSIC}", f"5.{CLASSIC}")
    assert [2, 3] == unavailable("4-9", f"2.{CLASSIC}", f"3.{CLASSIC}", f"4.{CLASSIC}")
    assert [5] == unavailable("5", "7-9", f"5.{CLASSIC}", f"9.{CLASSIC}")
    assert [] == unavailable("0-9", f"2.{CLASSIC}")
    assert [] == unavailable(f"2.{CLASSIC}")


@pytest.mark.parametrize(
    ("before", "names", "expected"),
    [
        ("5", ["3-9"], "no checkpoint"),
        ("5", ["3-9", f"5.{CLASSIC}"], None),
        ("5", ["3-9", f"6.{CLASSIC}", f"7.{CLASSIC}"], "6, 7"),
        ("3", ["3-9"], None),
        ("4", ["3-9"], "no checkpoint"),
        ("9", ["3-9"], "no checkpoint"),
        ("10", ["3-9"], None),
        ("x", ["3-9"], None),
        ("5", [f"6.{CLASSIC}"], None),
    ],
)
def test_protected_versions_keep_a_checkpoint(before: str, names: list[str], expected: str | None) -> None:
    protected = config_of("checkpointProtection", requireCheckpointProtectionBeforeVersion=before)

    found = [finding.seen for finding in found_in(listed(*names, config=protected)) if "protected" in finding.rule.id]

    assert [expected] * (expected is not None) == found
    plain = config_of(requireCheckpointProtectionBeforeVersion=before)
    assert [] == [rule for rule, _ in told(listed(*names, config=plain)) if "protected" in rule]


def test_unreferenced_sidecars_are_reported_after_a_day() -> None:
    old = NOW_MS - DAY_MS - 1
    sidecars = [
        StoredFile("named.parquet", 1, old),
        StoredFile("old.parquet", 1, old),
        StoredFile("young.parquet", 1, NOW_MS - DAY_MS),
        StoredFile(".old.parquet", 1, old),
        StoredFile("old.txt", 1, old),
    ]
    fields: dict[str, Any] = {"sidecars": sidecars, "named_sidecars": frozenset(["named.parquet"])}

    found = found_in(listed("0-3", **fields))

    assert ["_delta_log/_sidecars/old.parquet"] == [finding.place.path for finding in found]
    assert [] == told(listed("0-3", sidecars=sidecars))
    assert [] == told(listed("0-3", **fields, config=config_of("adaptiveMetadata")))


def test_a_metadata_tree_has_no_parts_and_no_uuid_names() -> None:
    parts = [f"1.{part(1, 2)}", f"1.{part(2, 2)}", f"2.{part(1, 2)}", f"2.{part(2, 2)}"]

    for feature in ("adaptiveMetadata", "adaptiveMetadata-preview"):
        config = config_of(feature, version=2)
        assert [("amt-classic", 2)] == told(listed("0-3", f"2.{CLASSIC}", *parts, config=config))


# -- checksums --------------------------------------------------------------------------------------------------------


def checksums(*names: str, config: TableConfiguration = CLASSICAL) -> list[tuple[str, str | None]]:
    view = listed(*names, config=config)
    history = HistoryView([], view.listing, view.config, view.now_ms, {})
    found = [*checksums_have_their_commits(view), *versions_have_a_checksum(history)]
    return [(finding.rule.id.partition(".")[2], finding.seen) for finding in found]


def test_a_checksum_requires_its_commit() -> None:
    assert [] == checksums("2-4", "2-4.crc")
    assert [("without-commit", "0-1"), ("without-commit", "5")] == checksums("2-4", "0-5.crc")
    assert [] == checksums("0-2", "4-5", "0-5.crc")
    assert [] == checksums("0-5.crc")
    assert [] == checksums("2-4", "0-5.crc", config=config_of("catalogManaged", "inCommitTimestamp"))
    assert ["without-commit", "without-commit"] == [
        rule for rule, _ in checksums("2-4", "0-5.crc", config=TableConfiguration())
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["0-9", "0-9.crc"], []),
        (["0-9", "0-8.crc"], []),
        (["0-9", "3-9.crc"], []),
        (["0-9", "0-4.crc", "6-9.crc"], [("missing", "0-4, 6-9")]),
        (["0-4", "0.crc", "3-4.crc"], [("missing", "0, 3-4")]),
        (["0-5", "0.crc", "4-5.crc"], []),
        (["0-5"], []),
    ],
)
def test_versions_have_a_checksum_where_most_have_one(names: list[str], expected: list[tuple[str, str]]) -> None:
    assert expected == checksums(*names)
