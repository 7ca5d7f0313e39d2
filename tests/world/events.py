"""What happens to the world of a table, and what a change may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from deltacli.changing.change_kind import ChangeKind
from tests.support.actions import protocol
from tests.support.builder import LOG, commit_path
from tests.world.oracle import Reading
from tests.world.places import DiskWorld, World
from tests.world.tables import CHECKPOINT, DAY_MS, FEATURES, ORPHAN, Writer, a_diverged_copy

EVERY = (
    ChangeKind.CHANGE_METADATA
    | ChangeKind.ADD_FILES
    | ChangeKind.REUSE_FILES
    | ChangeKind.DELETE_FILES
    | ChangeKind.RECOVER_FILES
    | ChangeKind.DERIVE_LOG_FILES
    | ChangeKind.EXPIRE_LOG_FILES
)

NOTHING = ChangeKind(0)


class Moment(StrEnum):
    """When it happens."""

    PLANNED = "planned"
    """After the plan of a command whose consent was given before."""
    PROMPT = "prompt"
    """After the plan was shown, before somebody agrees to it."""
    BATCH = "batch"
    """While the first new file is made, or after the first one was put or deleted."""
    ATTEMPT = "attempt"
    """Between two attempts of a commit: another writer was first."""

    @property
    def is_before(self) -> bool:
        """True before the first act."""
        return self in (Moment.PLANNED, Moment.PROMPT)


class Answer(Enum):
    """How a change ends."""

    DONE = "done"
    REFUSED = "refused"
    """With an error that says that nothing was changed."""
    PARTLY = "partly done"


_STOPS = frozenset({Answer.REFUSED, Answer.PARTLY})
_GOES_ON = frozenset({Answer.DONE})
_ANY = frozenset(Answer)


@dataclass(frozen=True)
class Event:
    """Something that others do. `stops` are the acts that must not begin after it, `halts` those that must not go on
    after it, `passes` those that must do both; what the others answer only has to be right.
    """

    happen: Callable[[World], None]
    kinds: tuple[str, ...] = ("disk", "objects")
    stops: ChangeKind = NOTHING
    halts: ChangeKind = NOTHING
    passes: ChangeKind = NOTHING
    reads: bool = False
    """Whether it needs a table that can be read."""
    is_place: bool = False
    """Whether another directory comes to be at the path of the table."""
    is_equal: bool = False
    """Whether that is an equal table."""

    def right(self, act: ChangeKind, moment: Moment, *, goes_on: bool) -> frozenset[Answer]:
        """The right answers of a change."""
        if act & (self.stops if moment.is_before else self.halts):
            return _STOPS
        return _GOES_ON if goes_on else _ANY


def _write(step: Callable[[Writer], object]) -> Callable[[World], None]:
    """Let another engine do something with the table's files."""

    def happen(world: World) -> None:
        files = world.files("own")
        step(Writer(files, world.time.now_ms))
        world.write("own", files)

    return happen


def _link(world: World) -> None:
    assert isinstance(world, DiskWorld)
    world.switch_link("copy")


def _rename(world: World) -> None:
    assert isinstance(world, DiskWorld)
    world.rename("copy")


def _equal_copy(world: World) -> None:
    assert isinstance(world, DiskWorld)
    world.write("equal", world.files("own"))
    world.rename("equal")


def _replaced(world: World) -> None:
    world.write("own", a_diverged_copy(world.time.begun_ms))


def _rolled_back(writer: Writer) -> None:
    """Bring the directory back to an earlier state of it, as from a snapshot of the disk."""
    newest = writer.reading.newest
    for version in {newest - 1, newest} & writer.reading.commits.keys():
        added = [line["add"]["path"] for line in writer.reading.lines(version) if "add" in line]
        writer.delete(*added, commit_path(version))
    above = [path for path in writer.files if path.startswith(LOG) and path[len(LOG) + 1 :][:20] > f"{newest - 2:020d}"]
    writer.delete(*(path for path in above if path.endswith(("parquet", "crc", "compacted.json"))))


def _written_anew(writer: Writer) -> None:
    newest = writer.reading.newest
    _rolled_back(writer)
    for number in range(newest - 1, newest + 2):
        lines = [writer.add(f"p=b/anew{number}.parquet", 700 + 10 * number)]
        if number == newest - 1:
            lines += [writer.action_of(path) for path in ("p=a/a0.parquet", "p=b/b3.parquet") if path in writer.files]
        writer.commit("WRITE", lines)


def _tip_anew(writer: Writer) -> None:
    """Bring the directory back by one version, and append another one in its place."""
    newest = writer.reading.newest
    writer.delete(*(path for path in writer.files if path.startswith(f"{LOG}/{newest:020d}.")))
    writer.commit("WRITE", [writer.add(f"p=b/tip{newest}.parquet", 700 + 10 * newest)])


def _equal_tip(world: World) -> None:
    """Another commit gets the size and the time of the newest one, as from an archive."""
    files = world.files("own")
    path = commit_path(Reading(files).newest)
    data = files[path].data.replace(b"WRITE", b"MERGE").replace(b"VACUUM", b"REWORK")
    world.write("own", files | {path: replace(files[path], data=data)})


def _remove(writer: Writer) -> None:
    live = [one["path"] for one in writer.reading.state(writer.reading.newest).live.values()]
    gone = next((path for path in ("p=a/a7.parquet", "p=b/b5.parquet") if path in live), live[0])
    writer.commit("DELETE", [writer.remove(gone)])


def _readd(writer: Writer) -> None:
    paths = [path for path in ("p=a/a0.parquet", "p=b/b3.parquet") if path in writer.files]
    writer.commit("RESTORE", [writer.action_of(path) for path in paths])


def _metadata(writer: Writer) -> None:
    field = {"name": "other", "type": "string", "nullable": True, "metadata": {}}
    writer.commit("ADD COLUMNS", [writer.metadata(fields=[field])])


def _retention(writer: Writer) -> None:
    kept = "interval 100 days"
    line = writer.metadata(delta_deletedFileRetentionDuration=kept, delta_logRetentionDuration=kept)
    writer.commit("SET TBLPROPERTIES", [line])


def _feature(writer: Writer) -> None:
    features = [*FEATURES, "featureOfTheFuture"]
    writer.commit("UPGRADE PROTOCOL", [protocol(3, 7, reader_features=["deletionVectors"], writer_features=features)])


def _append(writer: Writer) -> None:
    version = writer.reading.newest + 1
    writer.commit("WRITE", [writer.add(f"p=b/appended{version}.parquet", 800 + 10 * version)])


def _vacuum(writer: Writer, *, tells: bool = True) -> None:
    """Delete, with a retention of nothing, what was removed."""
    state = writer.reading.state(writer.reading.newest)
    live = {one["path"] for one in state.live.values()}
    gone = [path for path in sorted(writer.reading.named()) if path.endswith(".parquet") and path not in live]
    if tells:
        writer.commit("VACUUM START", [])
    writer.delete(*gone, ORPHAN)
    if tells:
        writer.commit("VACUUM END", [])


def _expire_before(writer: Writer, version: int) -> None:
    if version not in writer.reading.checkpoints:
        writer.checkpoint(version)
    old = [path for path in writer.files if path.startswith(LOG) and path[len(LOG) + 1 :][:20] < f"{version:020d}"]
    writer.delete(*(path for path in old if not path.endswith("_last_checkpoint")))


def _expiry(writer: Writer) -> None:
    _expire_before(writer, CHECKPOINT)


def _full_expiry(writer: Writer) -> None:
    _expire_before(writer, writer.reading.newest)


def _compaction(writer: Writer) -> None:
    writer.compaction(5, writer.reading.newest)


def _lost(writer: Writer) -> None:
    state = writer.reading.state(writer.reading.newest)
    live = sorted(one["path"] for one in state.live.values())
    writer.delete(next((path for path in live if path.startswith("p=b")), live[0]))


def _clock_back(world: World) -> None:
    world.time.moved_ms -= DAY_MS


def _purged(world: World) -> None:
    for name in ("source", "beside"):
        if name in world.names():
            world.write(name, {})


def _place(happen: Callable[[World], None], *, is_equal: bool = False) -> Event:
    return Event(happen, ("disk",), stops=EVERY, halts=EVERY, is_place=True, is_equal=is_equal)


_COMMITTING = ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES | ChangeKind.DELETE_FILES
_LASTING = ChangeKind.DELETE_FILES | ChangeKind.EXPIRE_LOG_FILES
"""Acts that cannot be taken back: the past of the table is looked at before each batch."""

EVENTS: Mapping[str, Event] = {
    "link switched to a copy": _place(_link),
    "renamed, a copy in its place": _place(_rename),
    "renamed, an equal copy in its place": _place(_equal_copy, is_equal=True),
    "replaced by a copy": Event(
        _replaced,
        ("objects",),
        stops=_COMMITTING | ChangeKind.EXPIRE_LOG_FILES | ChangeKind.RECOVER_FILES,
        halts=_LASTING,
    ),
    "rolled back": Event(
        _write(_rolled_back), stops=_COMMITTING | ChangeKind.EXPIRE_LOG_FILES | ChangeKind.RECOVER_FILES, halts=_LASTING
    ),
    "rolled back and written anew": Event(
        _write(_written_anew),
        stops=_COMMITTING | ChangeKind.EXPIRE_LOG_FILES | ChangeKind.RECOVER_FILES,
        halts=_LASTING,
    ),
    "newest version written anew": Event(
        _write(_tip_anew),
        stops=_COMMITTING | ChangeKind.EXPIRE_LOG_FILES | ChangeKind.RECOVER_FILES,
        halts=ChangeKind.EXPIRE_LOG_FILES,
    ),
    "newest version written anew in its size and time": Event(
        _equal_tip, ("disk",), stops=ChangeKind.DELETE_FILES | ChangeKind.EXPIRE_LOG_FILES
    ),
    "commit removes a file": Event(_write(_remove), reads=True),
    "commit re-adds removed files": Event(
        _write(_readd),
        reads=True,
        passes=ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.DERIVE_LOG_FILES,
    ),
    "commit changes metadata": Event(_write(_metadata), reads=True),
    "commit adds an unknown feature": Event(_write(_feature), reads=True, stops=_COMMITTING, halts=_COMMITTING),
    "commit keeps files longer": Event(_write(_retention), reads=True),
    "append": Event(
        _write(_append),
        reads=True,
        passes=ChangeKind.CHANGE_METADATA
        | ChangeKind.ADD_FILES
        | ChangeKind.DELETE_FILES
        | ChangeKind.DERIVE_LOG_FILES
        | ChangeKind.EXPIRE_LOG_FILES,
    ),
    "vacuum": Event(_write(_vacuum), reads=True),
    "vacuum that tells nobody": Event(_write(lambda writer: _vacuum(writer, tells=False)), reads=True),
    "expiry": Event(_write(_expiry), reads=True),
    "expiry of all but the newest": Event(_write(_full_expiry), reads=True),
    "checkpoint": Event(_write(Writer.checkpoint), reads=True, passes=EVERY),
    "compaction": Event(_write(_compaction), reads=True, passes=EVERY),
    "clock a day back": Event(
        _clock_back,
        stops=ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES | ChangeKind.DELETE_FILES | ChangeKind.EXPIRE_LOG_FILES,
    ),
    "a live file is lost": Event(_write(_lost), reads=True),
    "sources and quarantine purged": Event(_purged),
}
