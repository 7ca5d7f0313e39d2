"""What a checksum states of a version of a real table is what a replay finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import open_storage
from deltacli.table.version_from_checksum import ReplayNeeded, VersionFromChecksum, read_version_from_checksum
from tests.support import corpus
from tests.support.corpus import CorpusTable

Json = Any  # Any: JSON values

REPLAYED = {
    **dict.fromkeys(
        (
            ("delta-rs/COVID-19_NYT", 0),
            ("spark/dbr_8_1_generated_columns", 0),
            *(("spark/transaction_log_schema_evolvability", version) for version in range(4)),
        ),
        "metadata is missing",
    ),
    ("delta-rs/cdc_ict_table", 1): "another in-commit timestamp than commit 1",
    ("derived/checkpoint-part-missing-a", 5): "the log has problems: checkpoint.multipart-incomplete",
    ("derived/commit-truncated-a", 1): "another in-commit timestamp than commit 1",
    ("derived/commit-truncated-a", 3): "in the middle of line 7: the file is incomplete",
    ("derived/crc-wrong-a", 1): "allFiles has another number of files than numFiles",
}
"""(table, version) -> the end of why its checksum is not used."""


def in_both(stated: Json, replayed: Json) -> tuple[Json, Json]:
    """The fields that two documents have both, at every depth."""
    if not isinstance(stated, dict) or not isinstance(replayed, dict):
        return stated, replayed
    pairs = {name: in_both(stated[name], replayed[name]) for name in stated.keys() & replayed.keys()}
    return {name: one for name, (one, _) in pairs.items()}, {name: other for name, (_, other) in pairs.items()}


def outcome_of(read: Callable[..., object], table: Table, version: int) -> object:
    try:
        return read(table, version=version)
    except DeltacliError as fault:
        return fault


def versions_with_checksum(table: CorpusTable, root: Path) -> list[int]:
    log = table.path(root) / "_delta_log"
    names = (path.name for path in log.iterdir()) if log.is_dir() else ()
    return sorted(int(name[:20]) for name in names if re.fullmatch(r"[0-9]{20}\.crc", name))


@pytest.mark.long
def test_a_stated_version_is_the_replayed_one(root: Path) -> None:
    stated, replayed, reasons, findings, refused = [], [], {}, [], []
    for table in corpus.tables():
        opened = Table(open_storage(str(table.path(root))))
        versions = versions_with_checksum(table, root)
        wrong = {one.place.version for one in opened.validate(select=["crc.*"]).findings} if versions else set()
        for version in versions:
            found = outcome_of(read_version_from_checksum, opened, version)
            if isinstance(found, DeltacliError):
                refused.append((found, outcome_of(summarize, opened, version)))
                continue
            if isinstance(found, ReplayNeeded):
                reasons[table.id, version] = found.reason
                continue
            assert isinstance(found, VersionFromChecksum)
            one, other = in_both(found.as_json(), summarize(opened, version=version).as_json())
            stated.append((table.id, one))
            replayed.append((table.id, other))
            findings += [(table.id, version)] if version in wrong else []

    assert 123 == len(stated)
    assert replayed == stated
    assert [str(one) for one, _ in refused] == [str(other) for _, other in refused]
    assert REPLAYED == {key: words for key, words in REPLAYED.items() if reasons.pop(key, "").endswith(words)}
    assert {} == reasons
    assert [] == findings
