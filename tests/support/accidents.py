"""Accidents of tables on stores that keep versions, from a seed: what was lost must come back, byte for byte."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone, Refused
from deltacli.storage import Created, Storage, open_storage
from tests.support.small_types import Column
from tests.support.small_writer import SmallTable

LOG = "_delta_log"
COLUMNS = (Column("n", "long", 1, "n"), Column("p", "integer", 2, "p"))


@dataclass
class Accident:
    """A table as it was, and what is left of it. `version`: the one whose files are wanted, None for the newest."""

    seed: int
    uri: str
    storage: Storage
    before: dict[str, bytes]
    times: list[int]
    version: int | None = None

    @property
    def table(self) -> Table:
        return open_table(self.uri)

    def left(self) -> dict[str, bytes]:
        return content_of(self.storage)


def content_of(storage: Storage) -> dict[str, bytes]:
    """Every file of a store."""
    paths = (
        f"{entry.directory}/{name}" if entry.directory else name
        for entry in storage.walk("", lambda _, names: names)
        for name in entry.names
    )
    return {path: storage.read(path) for path in paths}


def make(seed: int, root: Path, uri: str) -> Accident:
    """A table of a few commits in partitions, with vectors, checkpoints and a checksum, on a store."""
    chooser = random.Random(seed)
    ict = {"delta.enableInCommitTimestamps": "true"} if chooser.random() < 0.3 else {}
    features = ("deletionVectors", *(["inCommitTimestamp"] if ict else []))
    table = SmallTable(root, COLUMNS, partition=(2,), features=features, configuration=ict).create()
    number = 0
    for step in range(chooser.randint(3, 7)):
        files = []
        for part in chooser.sample(range(4), chooser.randint(1, 3)):
            rows = [{1: number + row, 2: part} for row in range(chooser.randint(3, 20))]
            number += len(rows)
            files.append(table.new_file(rows, directory=f"p={part}", texts={2: str(part)}))
        table.append(files)
        live = sorted(table.live)
        if chooser.random() < 0.5:
            marked = {path: frozenset({0, 2}) for path in chooser.sample(live, 1)}
            table.mark(marked, table.vectors(marked, how="u", uuid=UUID(int=seed * 100 + step), prefix="ab"))
        if chooser.random() < 0.6:
            table.replace_files(chooser.sample(live, 1), [], data_change=True)
    newest = len(table.versions) - 1
    if chooser.random() < 0.7:
        layout = chooser.choice(["classic", "multi-part"])
        more = {"parts": 2} if layout == "multi-part" else {}
        open_table(root).checkpoint(version=chooser.randint(1, newest), layout=layout, **more)  # type: ignore[arg-type]
    storage = open_storage(uri)
    for path in sorted(root.rglob("*"), key=lambda path: (LOG in path.parts, path)):
        if path.is_file():
            assert storage.put_if_absent(path.relative_to(root).as_posix(), path.read_bytes()) == Created()
    times = [commit.time.timestamp_ms for commit in open_table(uri).history().items if commit.time is not None]
    return Accident(seed, uri, storage, content_of(storage), times)


def lose(accident: Accident, chosen: Callable[[str], bool]) -> None:
    for _, outcome in accident.storage.delete_many([path for path in accident.before if chosen(path)]):
        assert type(outcome).__name__ == "Deleted"


def lose_a_partition(accident: Accident, chooser: random.Random) -> None:
    part = chooser.choice(sorted({path.partition("/")[0] for path in accident.before if path.startswith("p=")}))
    lose(accident, lambda path: path.startswith(f"{part}/"))


def lose_the_log(accident: Accident, _: random.Random) -> None:
    lose(accident, lambda path: path.startswith(f"{LOG}/"))


def lose_both(accident: Accident, chooser: random.Random) -> None:
    lose_a_partition(accident, chooser)
    lose_the_log(accident, chooser)


def vacuum_at_once(accident: Accident, chooser: random.Random) -> None:
    """A vacuum without retention, which takes the files of older versions."""
    accident.version = chooser.randrange(len(accident.times))
    accident.table.vacuum(retention_ms=0, allow_retention_below_ms=7 * 86_400_000, max_delete="100%")


def truncate_a_data_file(accident: Accident, chooser: random.Random) -> None:
    live = [json.loads(line) for line in _lines_of(accident)]
    paths = {line["add"]["path"] for line in live if "add" in line} - {
        line["remove"]["path"] for line in live if "remove" in line
    }
    if paths:
        path = chooser.choice(sorted(paths))
        accident.storage.put(path, accident.before[path][: chooser.randrange(len(accident.before[path]))])


def _lines_of(accident: Accident) -> list[bytes]:
    commits = sorted(path for path in accident.before if path.startswith(f"{LOG}/") and path[-5:] == ".json")
    return [line for path in commits for line in accident.before[path].splitlines()]


LOSSES: Mapping[str, Callable[[Accident, random.Random], None]] = {
    "a partition": lose_a_partition,
    "the log": lose_the_log,
    "both": lose_both,
    "a vacuum at once": vacuum_at_once,
    "a truncated data file": truncate_a_data_file,
}


def overwrite_a_commit(accident: Accident, chooser: random.Random) -> str:
    path = f"{LOG}/{chooser.randrange(len(accident.times)):020d}.json"
    accident.storage.put(path, accident.before[path] + b'{"txn":{"appId":"x","version":1}}\n')
    return path


def truncate_a_commit(accident: Accident, chooser: random.Random) -> str:
    path = f"{LOG}/{chooser.randrange(len(accident.times)):020d}.json"
    accident.storage.put(path, accident.before[path][: len(accident.before[path]) // 2])
    return path


def overwrite_and_delete_a_commit(accident: Accident, chooser: random.Random) -> str:
    path = overwrite_a_commit(accident, chooser)
    lose(accident, lambda one: one == path)
    return path


DAMAGES: Mapping[str, Callable[[Accident, random.Random], str]] = {
    "an overwritten commit": overwrite_a_commit,
    "a truncated commit": truncate_a_commit,
    "a commit overwritten and deleted": overwrite_and_delete_a_commit,
}


def check_loss(accident: Accident, kind: str) -> None:
    """Bring everything back, and compare each byte, and the time of each commit where the store can keep it."""
    LOSSES[kind](accident, random.Random(accident.seed))
    done = accident.table.undelete(version=accident.version)
    left = accident.left()
    wanted = {path for path in accident.before if path.startswith(f"{LOG}/")} | _files_of(accident)
    assert {path: left.get(path) for path in wanted} == {path: accident.before[path] for path in wanted}
    if accident.version is None:
        assert left.items() <= accident.before.items()
    if not done.plan.changed_times:
        times = [commit.time.timestamp_ms for commit in accident.table.history().items if commit.time is not None]
        assert times[len(times) - len(accident.times) :] == accident.times
    again = accident.table.undelete(version=accident.version)
    assert again.plan.found.files == again.plan.missing.files == 0


def _files_of(accident: Accident) -> set[str]:
    """The data files and vectors of the wanted version."""
    snapshot = accident.table.snapshot(version=accident.version)
    found = {path for batch in snapshot.files() for path in batch.column("path").to_pylist()}
    vectors = {path for path in accident.before if path.startswith("ab/")}
    used = {
        vector["pathOrInlineDv"]
        for batch in snapshot.files()
        for vector in batch.column("deletionVector").to_pylist()
        if vector
    }
    from deltacli.delta.data_files import vector_file

    return found | ({vector_file(text) or "" for text in used} & vectors)


def check_damage(accident: Accident, kind: str) -> None:
    """Nothing is changed, and every content of the commit is reported."""
    path = DAMAGES[kind](accident, random.Random(accident.seed))
    after = accident.left()
    plan = accident.table.undelete(dry_run=True).plan
    with contextlib.suppress(Refused, PartlyDone):
        accident.table.undelete()
    assert accident.left() == after
    assert [(one.path, len(one.versions)) for one in plan.overwritten] == [(path, 2)]
