"""The whole corpus there and back: every file as it was, the same state, the same findings; the rest is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from deltacli.operations.copy.note import NOTE_PATH
from deltacli.operations.read.snapshot import summarize
from deltacli.storage import LocalStorage, Storage, open_storage
from tests.operations.copy.states import names_in
from tests.operations.copy.tables import copy, files_of
from tests.operations.copy.test_stores import place_in
from tests.support import corpus
from tests.support.azurite import PROGRAM

NOT_COPIED = (
    *("log.temp-leftover", "log.name-unknown", "log.subdir-unknown", "path.orphan", "data.orphan", "dv.orphan"),
    *("vacuumcheck", "hint.", "iceberg.", "checkpoint.multipart-incomplete", "storage.hadoop-checksum"),
)
"""Findings about files that no version needs, about hints, which a copy has only where they are right, and about
checksum files of Hadoop, which it does not have.
"""
OF_TIMES = ("log.mtime", "log.cleanup-overdue", "data.expired-tombstone-present")
"""Findings about the times of files of the log, which an object store gives anew."""
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


REFUSED_FAR = REFUSED | {"golden/deltalog-getChanges: other findings": 1}
"""On a store: a vacuum may have deleted the change data of an old commit, and the commit has a new time."""


def findings_of(place: Path, *, but: tuple[str, ...] = ()) -> set[str]:
    found = open_table(place).validate(level="storage").findings
    messages = {f"{one.rule.id} {one.message.replace(str(place), '')}" for one in found}
    return {one for one in messages if not one.startswith((*NOT_COPIED, *but))}


def there_and_back(source: Path, there: Storage, back: Path) -> str | None:
    """Copy a table and its copy; return the code of its refusal."""
    try:
        copy(source, there, replica=True)
    except DeltacliError as fault:
        assert [] == names_in(there)
        return fault.code
    copy(there.uri, back, replica=True, level="data")
    origin, found = files_of(source), files_of(back)
    assert sorted([*found, NOTE_PATH]) == names_in(there)
    made = {path for path in found if "checkpoint" in path}  # the first version may have none of one file
    assert {path: data for path, data in found.items() if path in origin or path not in made}.items() <= origin.items()
    assert summarize(open_table(source), digest=True).digests == summarize(open_table(back), digest=True).digests
    return None


def check_every_table(
    root: Path, place: Path, store_of: Callable[[int], Storage], but: tuple[str, ...] = ()
) -> Counter[str]:
    """Send every table there and back, and return how many were refused, by the code."""
    refused: Counter[str] = Counter()
    for number, entry in enumerate(corpus.tables()):
        code = there_and_back(entry.path(root), store_of(number), place / "back")
        if code is not None:
            refused[code] += 1
        elif findings_of(entry.path(root), but=but) != findings_of(place / "back", but=but):
            refused[f"{entry.id}: other findings"] += 1
        shutil.rmtree(place / "back", ignore_errors=True)
    return refused


@pytest.mark.parametrize(
    "name",
    ["dat/deletion_vectors", "delta-rs/cdc_ict_table", "golden/multi-part-checkpoint", "golden/type-widening"],
)
def test_a_real_table_comes_back_with_the_same_findings(name: str, root: Path, tmp_path: Path) -> None:
    source = corpus.table(name).path(root)

    assert there_and_back(source, LocalStorage(str(tmp_path / "there")), tmp_path / "back") is None
    assert findings_of(source) == findings_of(tmp_path / "back")


@pytest.mark.long
@pytest.mark.halved
def test_every_real_table_comes_back_or_is_refused(root: Path, tmp_path: Path) -> None:
    refused = check_every_table(root, tmp_path, lambda number: LocalStorage(str(tmp_path / f"there-{number}")))

    assert REFUSED == dict(refused)


@pytest.mark.soak
@pytest.mark.parametrize("store", ["s3", "gcs", *(["own_azurite"] if PROGRAM else [])])
def test_every_real_table_comes_back_from_a_store(
    store: str, root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = place_in(store, request)

    refused = check_every_table(root, tmp_path, lambda number: open_storage(f"{place}/{number}"), OF_TIMES)

    assert REFUSED_FAR == dict(refused)
