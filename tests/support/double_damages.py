"""Two damages of a copy of a real table, drawn from a seed, and what must hold of its repair."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, NotATable, Refused
from deltacli.core.machine import fixed_clock
from deltacli.delta.data_files import vector_file
from deltacli.delta.paths.spelling import decode
from deltacli.operations.repair.plan import StepState
from deltacli.operations.repair.repair import RepairOutcome, plan_repair
from deltacli.storage import open_storage
from deltacli.storage.hadoop_checksums import is_checksum_name
from deltacli.table.data_files import build_data_files
from deltacli.table.selection import Selection
from deltacli.work.rows.row_reader import read_rows
from tests.rules.table_builder import NOW_MS
from tests.support import corpus
from tests.support.repairing import content_of, execute_repair, put_back, request
from tests.support.row_counts import Rows, count_rows

LOG = "_delta_log"
MOST_FILES, MOST_BYTES, MOST_ROWS = 80, 3_000_000, 100_000
Files = Mapping[str, Rows]
"""The rows of each live file that can be read, by its path."""


def delete(path: Path, _: random.Random) -> None:
    path.unlink()


def truncate(path: Path, chooser: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chooser.randrange(max(len(data), 1))])


def flip(path: Path, chooser: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chooser.choice((1, 1, 4))):
        if data:
            data[chooser.randrange(len(data))] ^= 1 << chooser.randrange(8)
    path.write_bytes(data)


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


WAYS: tuple[Callable[[Path, random.Random], None], ...] = (delete, truncate, flip, empty)


@dataclass(frozen=True)
class Read:
    """A version, the rows of its files that can be read, and its live files; without a version, none can be rebuilt."""

    version: int | None
    files: Files
    live: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DoubleDamage:
    """A damaged copy. `healthy` is the table that it was, `named` what was done to which file."""

    root: Path
    healthy: Path
    named: tuple[str, ...]
    has_source: bool
    level: str

    @property
    def has_other_commits(self) -> bool:
        """Return True where a commit may have been changed to another that is valid."""
        return any(name.startswith("flip _delta_log/0") and name.endswith(".json") for name in self.named)

    def __str__(self) -> str:
        source = "with a source" if self.has_source else "without a source"
        return f"{self.healthy.name}: {', '.join(self.named)}; {source}, {self.level}"


def table_at(root: Path) -> Table:
    return Table(open_storage(str(root)), clock=fixed_clock(NOW_MS))


def read_files(root: Path, version: int | None = None) -> Read:
    """Read every live file for itself."""
    table = table_at(root)
    try:
        snapshot = table.snapshot(version=version)
        wanted = Selection.resolve(snapshot.schema, None, None)
        adds = list(snapshot.files())
    except DeltacliError:
        return Read(None, {})
    found: dict[str, Rows] = {}
    live = frozenset(decode(name) for batch in adds for name in batch["path"].to_pylist())
    for batch in adds:
        for row in range(batch.num_rows):
            with suppress(DeltacliError):
                one = build_data_files(batch.slice(row, 1), snapshot.config, wanted.needed)[0]
                spec = wanted.make_read_spec(snapshot.config)
                found[decode(one.path)] = count_rows(read_rows(table.files(), spec, one), spec.schema.names)
    return Read(snapshot.version, found, live)


@cache
def _is_usable(place: Path) -> bool:
    """Return True for a small table of which every file can be read."""
    files = [path for path in place.rglob("*") if path.is_file()] if (place / LOG).is_dir() else []
    if not 0 < len(files) <= MOST_FILES or sum(path.stat().st_size for path in files) > MOST_BYTES:
        return False
    found = read_files(place)
    rows = sum(each.total() for each in found.files.values())
    return found.version is not None and found.files.keys() == found.live and rows <= MOST_ROWS


def _table(chooser: random.Random) -> Path:
    """Return a table of the corpus that is small, and of which every file can be read."""
    places = [table.path(corpus.unpacked()) for table in corpus.tables()]
    return next(place for place in chooser.sample(places, len(places)) if _is_usable(place))


def damage(seed: int, place: Path) -> DoubleDamage:
    """Damage two files of a copy: of the log, of the data, of the vectors."""
    chooser = random.Random(seed)
    healthy = _table(chooser)
    root = place / "t"
    shutil.copytree(healthy, root)
    groups = _groups(root)
    named = []
    for _ in range(2):
        kind = chooser.choice(sorted(groups))
        path = chooser.choice(groups[kind])
        if path.is_file():
            how = chooser.choice(WAYS)
            how(path, chooser)
            named.append(f"{how.__name__} {path.relative_to(root)}")
    return DoubleDamage(root, healthy, tuple(named), chooser.random() < 0.5, chooser.choice(("storage", "data")))


def _groups(root: Path) -> dict[str, list[Path]]:
    """The files of a table by what they are."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / LOG).rglob("*")):
        if path.is_file():
            is_checkpoint = "checkpoint" in path.name or "_sidecars" in path.parts
            kind = "checkpoint" if is_checkpoint else "commit" if path.suffix == ".json" else "other"
            found.setdefault("hint" if path.name == "_last_checkpoint" else kind, []).append(path)
    for batch in table_at(root).snapshot().files():
        for name, vector in zip(batch["path"].to_pylist(), batch["deletionVector"].to_pylist(), strict=True):
            if (path := root / decode(name)).is_file():
                found.setdefault("data", []).append(path)
            is_stored = vector and vector["storageType"] == "u"
            if is_stored and (path := root / (vector_file(vector["pathOrInlineDv"]) or "")).is_file():
                found.setdefault("vector", []).append(path)
    return found


def check(damaged: DoubleDamage) -> RepairOutcome | None:
    """Repair a table, and check what must hold whatever was damaged; None where every step was refused."""
    root = damaged.root
    asked = request(level=damaged.level, sources=[damaged.healthy] if damaged.has_source else [])
    table = table_at(root)
    content = content_of(root)
    before = read_files(root)
    try:
        done = execute_repair(plan_repair(table, asked))
    except (NotATable, Refused):
        assert content == content_of(root)
        return None
    assert [] == [(step.rule, step.place, step.reason) for step in done.steps if step.state is not StepState.DONE]
    after = read_files(root)
    _check_rows(damaged, before, after, done)
    again = plan_repair(table_at(root), asked).planned
    assert [] == [(step.rule, step.place, step.what) for step in again], "a second run has nothing to do"
    _check_undo(damaged, content, done)
    return done


def _check_rows(damaged: DoubleDamage, before: Read, after: Read, done: RepairOutcome) -> None:
    """No row is lost or invented: each file has the rows that it had, or those of the healthy table."""
    if after.version is None:
        assert before.version is None
        return
    base = after.version - len(done.versions)
    assert before.version is None or before.version <= base
    healthy = read_files(damaged.healthy, base)
    for path, rows in after.files.items():
        if before.version is None and f"flip {path}" in damaged.named:
            continue  # nobody knows how it read before
        assert rows in (healthy.files.get(path), before.files.get(path)), f"rows of {path}"
    if before.version == base:
        assert before.files.keys() <= after.files.keys(), "files that could be read"
        for path, rows in before.files.items():
            assert rows.total() <= after.files[path].total(), f"rows of {path}"
    if damaged.level == "data" and not damaged.has_other_commits:
        assert after.live - after.files.keys() <= healthy.live - healthy.files.keys(), "every file can be read"


def _check_undo(damaged: DoubleDamage, content: Mapping[str, bytes], done: RepairOutcome) -> None:
    """What was replaced or moved is put back, byte for byte; then the table is as the repair left it.

    Checksum files of Hadoop do not come back: the store removes them with each file that is written.
    """
    if done.backup_uri is None:
        return
    after = content_of(damaged.root)
    put_back(table_at(damaged.root), done.backup_uri)
    found = content_of(damaged.root)
    lost = {path: len(data) for path, data in content.items() if found.get(path) != data}
    assert [] == [path for path in lost if not is_checksum_name(path.rpartition("/")[2])]
    for path in found.keys() - after.keys():
        (damaged.root / path).unlink()
    for path, data in after.items():
        (damaged.root / path).write_bytes(data)
