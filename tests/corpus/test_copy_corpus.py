"""The whole corpus there and back: every file as it was, the same state, the same findings; the rest is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.operations.read.snapshot import summarize
from tests.operations.copy.tables import copy, files_of
from tests.support import corpus

NOT_COPIED = (
    *("log.temp-leftover", "log.name-unknown", "log.subdir-unknown", "path.orphan", "data.orphan", "dv.orphan"),
    *("vacuumcheck", "hint.", "iceberg.", "checkpoint.multipart-incomplete"),
)
"""Findings about files that no version needs, and about hints, which a copy has only where they are right."""
REFUSED = {
    "catalog.managed": 2,
    "copy.absolute-paths": 1,
    "copy.external-files": 4,
    "copy.source-incomplete": 24,
    "log.not-a-table": 2,
    "derived/commit-hole-before-checkpoint-a: other findings": 1,  # the copy begins behind the hole
    "protocol.missing": 1,
    "protocol.unknown-feature": 3,
    "protocol.version-out-of-range": 1,
}


def findings_of(place: Path) -> set[str]:
    found = open_table(place).validate(level="storage").findings
    messages = {f"{one.rule.id} {one.message.replace(str(place), '')}" for one in found}
    return {one for one in messages if not one.startswith(NOT_COPIED)}


def there_and_back(source: Path, place: Path) -> str | None:
    """Copy a table and its copy; return the code of its refusal."""
    try:
        copy(source, place / "there", replica=True)
    except DeltacliError as fault:
        assert not (place / "there").exists()
        return fault.code
    copy(place / "there", place / "back", replica=True, level="data")
    there, back = files_of(place / "there"), files_of(place / "back")
    made = {path for path in there if "checkpoint" in path}  # the first version may have none of one file
    assert there == back
    origin = files_of(source)
    assert {path: data for path, data in there.items() if path in origin or path not in made}.items() <= origin.items()
    assert (
        summarize(open_table(source), digest=True).digests == summarize(open_table(place / "back"), digest=True).digests
    )
    return None


@pytest.mark.parametrize(
    "name",
    ["dat/deletion_vectors", "delta-rs/cdc_ict_table", "golden/multi-part-checkpoint", "golden/type-widening"],
)
def test_a_real_table_comes_back_with_the_same_findings(name: str, root: Path, tmp_path: Path) -> None:
    source = corpus.table(name).path(root)

    assert there_and_back(source, tmp_path) is None
    assert findings_of(source) == findings_of(tmp_path / "back")


@pytest.mark.long
def test_every_real_table_comes_back_or_is_refused(root: Path, tmp_path: Path) -> None:
    refused: Counter[str] = Counter()
    for entry in corpus.tables():
        code = there_and_back(entry.path(root), tmp_path / "t")
        if code is not None:
            refused[code] += 1
        elif findings_of(entry.path(root)) != findings_of(tmp_path / "t" / "back"):
            refused[f"{entry.id}: other findings"] += 1
        shutil.rmtree(tmp_path / "t", ignore_errors=True)

    assert REFUSED == dict(refused)
