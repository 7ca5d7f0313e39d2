"""The directories in which golden runs begin: tables with fixed times and ids, and what lies beside them."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.support import make_sample
from tests.fleet.lake import write_lake
from tests.golden.running import NOW_NS, run_in
from tests.sharing.client.serving import Proxy, proxied
from tests.sharing.pulling.origin import Origin
from tests.sharing.served import shared as served
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.damaged_tables import CHECKPOINT, HINT, DamagedTable
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder
from tests.support.sick_tables import VECTORS, SickTable
from tests.support.stream_checkpoints import offset, write_checkpoint
from tests.support.vacuuming import write_table

LOG = "_delta_log"


def sample(root: Path) -> None:
    """The sample table of examples/."""
    make_sample(root / "tbl")
    changes = [{"change": "name", "name": "rides"}, {"change": "comment", "column": "ride.fare", "comment": "in EUR"}]
    (root / "changes.json").write_text(json.dumps(changes))
    unknown(root)


def streamed(root: Path) -> None:
    """The sample table, and the checkpoint of a query that reads it."""
    sample(root)
    table_id = json.loads((root / "tbl" / LOG / f"{0:020}.json").read_text().splitlines()[2])["metaData"]["id"]
    write_checkpoint(root / "chk" / "orders", [offset(table_id, 13), offset(table_id, 14, 0)])


def files(root: Path) -> None:
    """The sample table, and a directory of a Parquet file."""
    make_sample(root / "tbl")
    numbers = {"trip": pa.array(range(361, 1591)), "day": pa.array([date(2026, 1, 1)] * 1230)}
    (root / "files").mkdir()
    pq.write_table(pa.table(numbers), root / "files" / "rides.parquet")
    (root / "files" / "_SUCCESS").touch()
    for path in (root / "files").iterdir():
        os.utime(path, ns=(NOW_NS, NOW_NS))


def unknown(root: Path) -> None:
    """A table with a feature that nobody knows."""
    features = protocol(3, 7, reader_features=["deletionVectors"], writer_features=["deletionVectors", "nosuchFeature"])
    files = [add(f"part-{number}.parquet", size=1, records=1) for number in range(3)]
    TableBuilder().commit(commit_info("CREATE TABLE"), features, metadata(), *files).write(root / "other")


def lost(root: Path) -> None:
    """A table that lost a live data file and one of an older version, and its complete copy."""
    make_sample(root / "tbl")
    make_sample(root / "copy")
    for name in ("part-00014-*", "part-00008-*"):
        sorted((root / "tbl").glob(f"day=2026-01-02/{name}"))[0].unlink()


def partly(root: Path) -> None:
    """The same, with a copy that lacks one of them."""
    lost(root)
    sorted((root / "tbl").glob("day=2026-01-03/part-00014-*"))[0].unlink()
    sorted((root / "copy").glob("day=2026-01-02/part-00014-*"))[0].unlink()


def damaged(root: Path) -> None:
    """A table with a torn checkpoint, a hint without checkpoint and a lost data file, and its complete copy."""
    DamagedTable().write(root / "tbl")
    shutil.copytree(root / "tbl", root / "copy")
    (root / "tbl" / "p=a" / "part-00013-c000.snappy.parquet").unlink()
    (root / "tbl" / CHECKPOINT).write_bytes(b"")
    (root / "tbl" / HINT).write_bytes(b'{"version":3,"size":3}')


def broken(root: Path) -> None:
    """A table that lost a data file which no source has."""
    DamagedTable().write(root / "tbl")
    sorted((root / "tbl").rglob("*.parquet"))[-1].unlink()


def vectors(root: Path) -> None:
    """A table of small files with deleted rows."""
    made = SickTable(configuration=VECTORS, features=["deletionVectors"]).append(3, rows=40, deleted=20)
    made.append(1, rows=40).builder.write(root / "tbl")


def unused(root: Path) -> None:
    """A table with features that it does not use."""
    SickTable(features=["checkConstraints", "appendOnly", "v2Checkpoint"]).append(2).builder.write(root / "tbl")


def garbage(root: Path) -> None:
    """A table with something of everything that a vacuum keeps and deletes."""
    write_table(root / "tbl")
    make_sample(root / "other")


def paimon(root: Path) -> None:
    """A Paimon table of fifteen schemas, two snapshots and a tag."""
    table = PaimonBuilder(root / "paimon").schema(ID, NAME).snapshot(0).tag("first", 1)
    for _ in range(14):
        table.schema(ID, NAME, PRICE)
    table.snapshot(14)


def lake(root: Path) -> None:
    """Tables for a fleet, healthy ones and damaged ones, with their policy."""
    write_lake(root)


def shared(root: Path) -> None:
    """The profile of a share with a table of one file, and the sample table."""
    shutil.copy(_server().profile, root / "p.share")
    make_sample(root / "tbl")


@cache
def _server() -> Proxy:
    """Serve the table until this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    place = Path(stack.enter_context(TemporaryDirectory(prefix="deltacli-golden-")))
    return stack.enter_context(proxied(place, served(Origin(place / "t").append(range(10)).path)))


Build = Callable[[Path], None]


class Places:
    """Makes each place once, and copies it for each run to the same directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, root / "place"
        self._made: dict[tuple[object, ...], Path] = {}

    def begin(self, build: Build, before: Sequence[str] = ()) -> Path:
        """Return the directory of a run, as `build` and the commands before it make it."""
        place, key = self.place, (build, *before)
        if key not in self._made:
            _empty(place)
            build(place)
            _age(place, EPOCH_MS * 1_000_000)
            for line in before:
                done = run_in(place, shlex.split(line))
                assert done.code in (0, 1), f"{line}: {done}"
                _age(place, NOW_NS - 3_600 * 1_000_000_000)
            kept = self.root / f"made-{len(self._made)}"
            shutil.copytree(place, kept, symlinks=True)
            self._made[key] = kept
        _empty(place)
        shutil.copytree(self._made[key], place, symlinks=True, dirs_exist_ok=True)
        return place


def _empty(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)


def _age(place: Path, time_ns: int) -> None:
    """Let what was written by the clock of this machine have a time that is the same in every run."""
    for path in place.rglob("*"):
        if path.lstat().st_mtime_ns > NOW_NS:
            os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)
