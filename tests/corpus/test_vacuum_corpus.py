"""`vacuum` on every real table: exactly the files that the manifest calls not live are deleted, and every row is kept.

Retention 0 is asked for, foreign files included, so that nothing but what the table needs is left.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, Refused
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum.plan import Reason, VacuumPlan, VacuumResult
from deltacli.rules.framework.base import Severity
from deltacli.storage import open_storage
from deltacli.storage.hadoop_checksums import get_checksummed_path, is_checksum_name
from tests.corpus.test_read_corpus import REFUSED as UNREADABLE
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerRows, Task, ask_for_rows, has_peer, peer_python
from tests.support.row_counts import Rows, count_rows

NOW_MS = 1_800_000_000_000
"""2027-01-15: later than every file and every time in the logs."""

WEEK_MS = 7 * 24 * 3_600_000
LARGE = {"kernel-rs/300k-add-files-100-col-partitioned"}
"""Ten seconds of log and no data: planned in the long suite."""

LOST = {
    # Table -> why nothing may be deleted there: its live files are not in the archive.
    "delta-rs-err/table_a": "vacuum.empty-listing",
    "delta-rs-err/table_g": "vacuum.empty-listing",
    "delta-rs/checkpoint_with_partitions": "vacuum.empty-listing",
    "delta-rs/latest_not_checkpointed": "vacuum.empty-listing",
    "delta-rs/spark-variant-stable-feature-checkpoint": "vacuum.empty-listing",
    "delta-rs/table-with-domain-metadata": "vacuum.empty-listing",
    "delta-rs/with_checkpoint_no_last_checkpoint": "vacuum.empty-listing",
    "derived/checkpoint-wrong-a": "vacuum.empty-listing",
    "derived/only-checkpoint-a": "vacuum.empty-listing",
    "golden/checkpoint": "vacuum.empty-listing",
    "golden/parquet-decimal-dictionaries-v1": "vacuum.live-files-missing",
    "kernel-java/spark-variant-stable-feature-checkpoint": "vacuum.live-files-missing",
    "kernel-rs/300k-add-files-100-col-partitioned": "vacuum.empty-listing",
    "kernel-rs/app-txn-with-last-updated": "vacuum.empty-listing",
}

PEERS = {"deltalake": "rows_with_deltalake.py", "duckdb": "rows_with_duckdb.py"}

TABLES = [
    table for table in corpus.tables() if table.entry["outcome"] == "ok" and table.entry.get("writable") is not False
]
SOUND = [table for table in TABLES if table.id not in LOST]


def not_live(table: CorpusTable) -> list[str]:
    """The files of a table that its newest version does not need, by the manifest."""
    return sorted(table.entry.get("disk", {}).get("not_live_paths", ()))


RENAMED = {
    "kernel-java/spark-variant-stable-feature-checkpoint",
    "spark/partitioned-table-with-dv-large",
    "spark/table-with-dv-small",
    "spark/table-with-dv-special-char",
}
"""Tables whose needed files, or those of deletion vectors, lie there under another name than in the log: kept."""

CHANGED = [table for table in SOUND if not_live(table) and table.id not in RENAMED]


def each(tables: Sequence[CorpusTable]) -> pytest.MarkDecorator:
    """Return one case per table."""
    chosen = [pytest.param(table, id=table.id) for table in tables]
    return pytest.mark.parametrize("table", chosen)


def open_at(place: Path) -> Table:
    return Table(open_storage(str(place)), clock=fixed_clock(NOW_MS))


def vacuum(table: Table, *, dry_run: bool = False) -> VacuumResult:
    """Delete whatever the newest version does not need."""
    return table.vacuum(
        retention_ms=0,
        allow_retention_below_ms=WEEK_MS,
        include_foreign=True,
        max_delete="100%",
        dry_run=dry_run,
    )


def goes(plan: VacuumPlan) -> list[str]:
    """The paths of a plan, change data left out: the manifest counts it as something of its own."""
    rows = plan.candidates.select(["path", "reason"]).to_pylist()
    return sorted(row["path"].decode() for row in rows if row["reason"] != Reason.CHANGE_DATA)


def copy_of(table: CorpusTable, root: Path, place: Path) -> Path:
    """A copy with the times of the files, which may be written to."""
    shutil.copytree(table.path(root), place)
    for path in [place, *place.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return place


def rows_of(table: Table) -> Rows | str:
    """Every row of the newest version; the code of the refusal where it can't be read."""
    scan = table.snapshot().scan()
    try:
        return count_rows(scan, scan.schema.names)
    except DataUnreadable as fault:
        return fault.code


def errors_of(table: Table) -> Counter[str]:
    """How often each rule reports an error."""
    findings = table.validate(level="storage", max_findings=0).findings
    return Counter(found.rule.id for found in findings if found.severity is Severity.ERROR)


def test_every_table_that_may_be_written_is_looked_at(root: Path) -> None:
    assert root.is_dir()
    assert (172, 158, 41) == (len(TABLES), len(SOUND), len(CHANGED))


@pytest.mark.halved
@each([table for table in TABLES if table.id not in LARGE])
def test_deleted_files_match_the_manifest(table: CorpusTable, root: Path) -> None:
    plan = vacuum(open_at(table.path(root)), dry_run=True).plan

    assert ([] if table.id in RENAMED else not_live(table)) == goes(plan)
    assert ([LOST[table.id]] if table.id in LOST else []) == [refusal.code for refusal in plan.refusals]


@pytest.mark.soak
@each([table for table in TABLES if table.id in LARGE])
def test_deleted_files_of_a_large_table_match_the_manifest(table: CorpusTable, root: Path) -> None:
    assert not_live(table) == goes(vacuum(open_at(table.path(root)), dry_run=True).plan)


@each([table for table in TABLES if table.id in LOST and table.id not in LARGE])
def test_a_table_whose_live_files_are_missing_is_refused(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    place = copy_of(table, root, tmp_path / "table")
    before = sorted(place.rglob("*"))

    with pytest.raises(Refused) as raised:
        vacuum(open_at(place))

    assert (4, LOST[table.id]) == (raised.value.exit_code, raised.value.code)
    assert before == sorted(place.rglob("*"))


@pytest.mark.quartered
@each(CHANGED)
def test_a_real_run_keeps_every_row(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    keeps_all_but_what_goes(table, root, tmp_path)


@pytest.mark.matrix
@each([table for table in SOUND if table not in CHANGED])
def test_a_run_without_candidates_keeps_every_row(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    keeps_all_but_what_goes(table, root, tmp_path)


def keeps_all_but_what_goes(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    """Rows and findings are those from before, the files are gone, and a second run finds nothing."""
    place = copy_of(table, root, tmp_path / "table")
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    rows, errors = rows_of(open_at(place)), errors_of(open_at(place))

    plan, outcome = vacuum(open_at(place))

    assert outcome is not None
    left = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    planned = {path.decode() for path in plan.candidates.column("path").to_pylist()}
    gone = {path for path in files - left if not is_checksum_name(path.rpartition("/")[2])}
    assert planned == gone
    assert all(get_checksummed_path(path) in gone for path in files - left - gone), (
        "only the checksum files of deleted files"
    )
    assert all(path.startswith("_delta_log/") for path in left - files)
    assert (len(planned), 0) == (outcome.deleted.files, outcome.failed.count)
    assert rows == rows_of(open_at(place))
    assert isinstance(rows, Counter) or rows == UNREADABLE[table.id]
    assert not errors_of(open_at(place)) - errors
    assert not vacuum(open_at(place)).plan.files


@pytest.mark.long
def test_peers_read_the_same_rows_afterwards(root: Path, tmp_path: Path) -> None:
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    peers = [peer for peer in PEERS if has_peer(python, peer)]
    if not peers:
        pytest.skip(f"{python} has no other engine")
    places = [copy_of(table, root, tmp_path / str(number)) for number, table in enumerate(CHANGED)]
    tasks = [Task(table.id, str(place), None) for table, place in zip(CHANGED, places, strict=True)]
    before = {peer: peer_rows(ask_for_rows(python, PEERS[peer], tasks, tmp_path)) for peer in peers}

    for place in places:
        vacuum(open_at(place))

    for peer, rows in before.items():
        assert rows == peer_rows(ask_for_rows(python, PEERS[peer], tasks, tmp_path))
        assert sum(isinstance(found, Counter) for found in rows) > len(CHANGED) * 3 / 4


def peer_rows(answers: Sequence[PeerRows]) -> list[Rows | str]:
    """All rows of each table; the kind of refusal where there are none."""
    found: list[Rows | str] = []
    for answer in answers:
        if answer.place is None:
            found.append((answer.refusal or "").partition(":")[0])
            continue
        with pa.memory_map(str(answer.place)) as source:
            table = pa.ipc.open_file(source).read_all()
            found.append(count_rows([table], sorted(table.schema.names)))
    return found
