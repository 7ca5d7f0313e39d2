"""The oracle reports each broken invariant, and nothing where a history is sound."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from tests.simulation.oracle import Oracle
from tests.simulation.promises import ENVIRONMENT, Answer, Intent, Invariant
from tests.simulation.quiet import Quiet, QuietTree
from tests.simulation.reading import columns_of
from tests.simulation.stored import Stored, data_file, stored_row
from tests.simulation.writers import DAY_MS, Writer
from tests.support.actions import Action, Line, commit_info, domain, remove, to_bytes
from tests.support.builder import LOG, StoredFile, commit_path
from tests.support.checkpoints import CheckpointKind, Shape, write_checkpoint
from tests.support.small_vectors import inline

VECTORS, TRACKED, TIMED = ("deletionVectors",), ("rowTracking",), ("inCommitTimestamp",)


class Scene:
    """A table of three versions, its oracle, and an admin who does whatever a test wants."""

    def __init__(self, features: tuple[str, ...] = ()) -> None:
        self.time = Quiet(1)
        self.lost, self.kept = "", StoredFile(b"")
        self.tree = QuietTree(self.time)
        self.writer = Writer(self.time, self.tree, random.Random(3))
        self.writer.create(features, {"delta.logRetentionDuration": "interval 7 days"})
        for _ in range(2):
            self.time.time_ms += DAY_MS
            self.writer.append()
        self.oracle = Oracle(self.tree, self.time.now_ms)
        self.tree.watchers.append(self.oracle)
        self.writer = Writer(self.time, self.tree, random.Random(4), witness=self.oracle)

    def admin(self, *steps: Callable[[], object], answer: Answer = Answer.DONE, **intent: Any) -> None:  # Any: fields
        """What the admin does, and how that ended."""
        self.tree.actor = "admin"
        self.oracle.intends("admin", Intent("a command", **intent))
        for step in steps:
            step()
        self.oracle.judge_answer("admin", answer)
        self.tree.actor = "writer"

    def environment(self, change: Callable[[], object]) -> None:
        """Something happens to the table."""
        self.tree.by(ENVIRONMENT, lambda _: change())

    @property
    def newest(self) -> int:
        return self.oracle.newest

    @property
    def live(self) -> list[Action]:
        """The live files, oldest first."""
        return list(self.oracle.truth[self.newest].state.live.values())

    def removed(self, number: int = 0, *, data_change: bool = False) -> Line:
        """The remove of a live file."""
        one = self.live[number]
        gone = remove(one["path"], vector=one.get("deletionVector"), deleted_ms=self.time.now_ms(), size=one["size"])
        return {"remove": {**gone["remove"], "dataChange": data_change}}

    def added(self, path: str = "new.parquet", number: int = 0, **fields: object) -> Line:
        """The add of a new file with the rows of a live one."""
        one = self.live[number]
        if path not in self.tree.files:
            self.tree.put(path, self.tree.files[one["path"]].data)
        return {"add": {**one, "path": path, "dataChange": False, **fields}}

    def commit(self, *lines: Line, operation: str = "OPTIMIZE", version: int | None = None, **info: object) -> None:
        """Create a commit; the next version, unless told otherwise."""
        chosen = self.newest + 1 if version is None else version
        data = to_bytes([commit_info(operation, **info), *lines])
        self.tree.put(commit_path(chosen), data)

    def metadata(self, **properties: str) -> Line:
        """The metadata with more properties."""
        found = self.oracle.truth[self.newest].state.metadata
        assert found is not None
        return {"metaData": {**found, "configuration": found["configuration"] | properties}}

    def checkpoint(self, *, without: str = "", of: int | None = None) -> None:
        """Write a checkpoint, without the actions of a kind."""
        version = self.newest if of is None else of
        actions = [line for line in self.oracle.truth[version].state.actions() if without not in line]
        for name, data in write_checkpoint(version, actions, CheckpointKind.CLASSIC, Shape()).all.items():
            self.tree.put(f"{LOG}/{name}", data)

    def restored(self, version: int) -> list[Line]:
        """The actions that bring the files of a version back."""
        target, now = self.oracle.truth[version].state, self.oracle.truth[self.newest].state
        gone = [self.removed(number, data_change=True) for number, key in enumerate(now.live) if key not in target.live]
        return [*gone, *({"add": one} for key, one in target.live.items() if key not in now.live)]

    def rewritten(
        self, *, keeps_ids: bool = True, number: int = 1, version: int | None = None, **values: object
    ) -> list[Line]:
        """The actions that put a copy in place of a file, with the ids of its rows or without, and with other values or
        another version in its rows.
        """
        now, count = self.oracle.truth[self.newest], self._count(self.live[0])
        rows = sorted(now.rows, key=lambda row: row.row_id)[:count]
        stored = [stored_row(row) if keeps_ids else Stored(dict(row.row)) for row in rows]
        stored = [replace(row, values=row.values | values, version=version or row.version) for row in stored]
        data = data_file(columns_of(now.state), stored, now.state)
        self.tree.put("moved.parquet", data)
        before = json.loads(now.state.domains["delta.rowTracking"]["configuration"])["rowIdHighWaterMark"]
        new = {"baseRowId": before + 1, "defaultRowCommitVersion": self.newest + number, "size": len(data)}
        return [self.removed(), self.added("moved.parquet", **new), mark(before + count)]

    @staticmethod
    def _count(one: Action) -> int:
        return int(json.loads(one["stats"])["numRecords"])

    def age(self, days: int = 40) -> None:
        """Let time pass."""
        self.time.time_ms += days * DAY_MS

    def orphan(self) -> None:
        """A file that no version names, of a writer."""
        self.oracle.intends("writer", Intent("a writer that crashed"))
        self.tree.put("orphan.parquet", b"PAR1")

    def delete(self, *paths: str) -> None:
        """Delete files."""
        for _ in self.tree.delete_many(paths):
            pass

    def replace_file(self, path: str) -> None:
        """Put other bytes in place of a file."""
        self.tree.put(path, self.tree.files[path].data + b" ")


@dataclass(frozen=True)
class Case:
    """A history that breaks an invariant, and one beside it that does not."""

    name: str
    invariant: Invariant
    broken: Callable[[Scene], object]
    sound: Callable[[Scene], object]
    features: tuple[str, ...] = ()


def commits(*lines: Callable[[Scene], Line], operation: str = "OPTIMIZE", **others: Any) -> Callable[[Scene], None]:
    """A history: the admin commits something. What is not about the commit is about what the admin intends."""
    info = {name: others.pop(name) for name in ("inCommitTimestamp", "txnId", "version") if name in others}

    def play(scene: Scene) -> None:
        scene.admin(lambda: scene.commit(*(line(scene) for line in lines), operation=operation, **info), **others)

    return play


def does(
    *steps: Callable[[Scene], object], before: Callable[[Scene], object] = lambda _: None, **intent: Any
) -> Callable[[Scene], None]:
    """A history: the admin does some steps, and something happens before."""

    def play(scene: Scene) -> None:
        before(scene)
        scene.admin(*((lambda step=step: step(scene)) for step in steps), **intent)

    return play


def removed(scene: Scene) -> Line:
    return scene.removed()


def added(scene: Scene) -> Line:
    return scene.added()


def but(**fields: object) -> Callable[[Scene], Line]:
    """The add of the rewritten file, with some fields wrong."""
    return lambda scene: scene.added(**fields)  # type: ignore[arg-type]


def dead(scene: Scene) -> None:
    """A file is not live any more, and its tombstone is of today."""
    scene.admin(lambda: scene.commit(scene.removed(), scene.added()))


def long_dead(scene: Scene) -> None:
    """So it was, eight days ago."""
    dead(scene)
    scene.age(8)


def old_orphan(scene: Scene) -> None:
    scene.orphan()
    scene.age(8)


def first_of_past(scene: Scene) -> str:
    return str(next(iter(scene.oracle.truth[0].state.live.values()))["path"])


def absent(scene: Scene) -> Line:
    return {"add": {**scene.live[0], "path": "absent.parquet", "dataChange": False}}


def forget(scene: Scene) -> None:
    """The oracle learns of the table when its first commit is gone already."""
    scene.writer.checkpoint()
    scene.environment(lambda: scene.delete(commit_path(0)))
    scene.tree.watchers.remove(scene.oracle)
    scene.oracle = Oracle(scene.tree, scene.time.now_ms)
    scene.tree.watchers.append(scene.oracle)


def lose(scene: Scene) -> None:
    """A live file is lost, and there is a copy of it."""
    scene.lost = scene.live[0]["path"]
    scene.kept = scene.tree.files[scene.lost]
    scene.environment(lambda: scene.delete(scene.lost))


def mark(value: int) -> Line:
    """The high-water mark of row ids."""
    return domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": value}))


def old_ids(scene: Scene) -> list[Line]:
    """A rewritten file whose ids are not above the mark."""
    gone, new, moved = scene.rewritten(keeps_ids=True)
    return [gone, {"add": {**new["add"], "baseRowId": 0}}, moved]


def sidecars(scene: Scene, count: int) -> None:
    """Write a checkpoint and so many of its two sidecars."""
    actions = scene.oracle.truth[scene.newest].state.actions()
    written = write_checkpoint(scene.newest, actions, CheckpointKind.V2_JSON, Shape())
    for name, data in (*list(written.sidecars.items())[:count], *written.top.items()):
        scene.tree.put(f"{LOG}/{name}", data)


def copied(scene: Scene) -> None:
    """The newest commit is lost, and there is a copy of it."""
    path = commit_path(1)
    scene.kept = scene.tree.files[path]
    scene.environment(lambda: scene.delete(path))


def cut_short(scene: Scene) -> None:
    """The newest commit is cut, and there is a copy of it."""
    path = commit_path(1)
    scene.kept = scene.tree.files[path]
    scene.environment(lambda: scene.tree.put(path, scene.kept.data[:-3]))


def rebuild(scene: Scene, *, has_files: bool) -> None:
    """Make the newest commit anew, in another order; without `has_files`, without what it adds."""
    lines = scene.kept.data.splitlines(keepends=True)[::-1]
    scene.tree.put(commit_path(1), b"".join(line for line in lines if has_files or not line.startswith(b'{"add"')))


def marked(scene: Scene, *, cardinality: int) -> list[Line]:
    vector = {**inline([0]), "cardinality": cardinality}
    return [scene.removed(), scene.added(scene.live[0]["path"], deletionVector=vector)]


def by_vector(cardinality: int) -> Callable[[Scene], None]:
    """A history: the first row of a file is deleted by a vector that says how many it deletes."""

    def play(scene: Scene) -> None:
        first = scene.oracle.truth[scene.newest].rows[0].row
        lines = marked(scene, cardinality=cardinality)
        scene.admin(lambda: scene.commit(*lines, operation="DELETE"), removes=Counter([first]))

    return play


def restores(version: int, said: int) -> Callable[[Scene], None]:
    """A history: RESTORE brings the files of a version back and says which."""
    return lambda scene: scene.admin(
        lambda: scene.commit(*scene.restored(version), operation="RESTORE"), restores=said, alters=True
    )


def next_time(ahead_ms: int) -> Callable[[Scene], None]:
    """A history: a commit so long after the one before it."""
    return lambda scene: scene.admin(
        lambda: scene.commit(inCommitTimestamp=scene.oracle.truth[scene.newest].time_ms + ahead_ms)
    )


def checksum(files: int) -> Callable[[Scene], object]:
    def play(scene: Scene) -> None:
        size = sum(one["size"] for one in scene.live)
        said = {"numFiles": len(scene.live) + files, "tableSizeBytes": size}
        scene.tree.put(f"{LOG}/{scene.newest:020d}.crc", json.dumps(said).encode())

    return play


def compaction(first: int, said: int) -> Callable[[Scene], object]:
    """A compaction of the commits after `first`, under the name of those after `said`."""

    def play(scene: Scene) -> None:
        lines = [{"add": one} for one in scene.live if one not in scene.oracle.truth[first].state.live.values()]
        scene.tree.put(f"{LOG}/{said + 1:020d}.{scene.newest:020d}.compacted.json", to_bytes(lines))

    return play


def expires(*versions: int) -> Callable[[Scene], None]:
    """A history: commits are deleted, behind a checkpoint, when they are old."""

    def play(scene: Scene) -> None:
        scene.admin(lambda: scene.checkpoint(of=1))
        scene.age()
        scene.admin(lambda: scene.delete(*map(commit_path, versions)), expires=True)

    return play


def vacuums(*, days: int, finds: bool = True, what: str = "orphan.parquet") -> Callable[[Scene], None]:
    """A history: a file that no version names is deleted, or left, after some days."""

    def play(scene: Scene) -> None:
        scene.orphan()
        scene.age(days)
        steps = [lambda: scene.delete(what)] if finds else []
        scene.admin(*steps, deletes=True, cleans=True)

    return play


def answers(answer: Answer, *steps: Callable[[Scene], object], **intent: Any) -> Callable[[Scene], None]:
    return lambda scene: scene.admin(*((lambda step=step: step(scene)) for step in steps), answer=answer, **intent)


def a_file_in(tree: QuietTree) -> None:
    tree.put("new.parquet", b"PAR1")


def a_file(scene: Scene) -> None:
    a_file_in(scene.tree)


def no_file(scene: Scene) -> None:
    scene.delete("new.parquet")


def a_commit(scene: Scene) -> None:
    scene.commit()


def compacted(first: int, last: int) -> str:
    return f"{LOG}/{first:020d}.{last:020d}.compacted.json"


def lose_new(scene: Scene) -> None:
    """A rewritten file is lost before it is committed."""
    lines = scene.removed(), scene.added()
    scene.environment(lambda: scene.delete("new.parquet"))
    scene.commit(*lines)


CASES = (
    Case("rows are lost", Invariant.ROWS, commits(removed), commits(removed, added)),
    Case("rows are doubled", Invariant.ROWS, commits(added), commits(removed, added)),
    Case("rows are invented", Invariant.ROWS, lambda s: s.admin(lambda: s.commit(s.added(), operation="WRITE")),
         lambda s: s.writer.append()),
    Case("a file is live twice", Invariant.ROWS,
         lambda s: s.admin(lambda: s.commit(*marked(s, cardinality=1)[1:], operation="DELETE")), by_vector(1), VECTORS),
    Case("another version is restored", Invariant.ROWS, restores(1, said=0), restores(1, said=1)),
    Case("a commit is no JSON", Invariant.UNREADABLE, does(lambda s: s.tree.put(commit_path(3), b"{")), does(a_commit)),
    Case("a file is not there", Invariant.FILES, commits(removed, absent), commits(removed, added)),
    Case("a new file is lost before its commit", Invariant.FILES, lambda s: s.admin(lambda: lose_new(s)),
         commits(removed, added)),
    Case("a size is wrong", Invariant.FILES, commits(removed, but(size=7)), commits(removed, added)),
    Case("a number of rows is wrong", Invariant.FILES, commits(removed, but(stats='{"numRecords":77}')),
         commits(removed, but(stats=None))),
    Case("a cardinality is wrong", Invariant.FILES, by_vector(7), by_vector(1), VECTORS),
    Case("partition values are of no column", Invariant.FILES, commits(removed, but(partitionValues={"x": "1"})),
         commits(removed, added)),
    Case("a removed file was not live", Invariant.ABSENT, commits(lambda _: remove("absent.parquet")),
         commits(removed, added)),
    Case("a commit is above a gap", Invariant.GAP, commits(version=5), commits(version=3)),
    Case("a commit is below the newest", Invariant.GAP, does(lambda s: s.commit(version=0), before=forget),
         does(a_commit)),
    Case("a commit is replaced", Invariant.REPLACED, commits(version=2), commits()),
    Case("a commit is deleted", Invariant.REPLACED,
         does(lambda s: s.checkpoint(of=0), lambda s: s.delete(commit_path(0))), expires(0)),
    Case("a lost commit is another one", Invariant.OTHER_PAST,
         does(lambda s: s.commit(version=1), before=copied, puts_back=True),
         does(lambda s: s.tree.put(commit_path(1), s.kept.data), before=copied, puts_back=True)),
    Case("a cut commit is made another one", Invariant.OTHER_PAST,
         does(lambda s: rebuild(s, has_files=False), before=cut_short, puts_back=True),
         does(lambda s: rebuild(s, has_files=True), before=cut_short, puts_back=True)),
    Case("the lost newest commit is another one", Invariant.OTHER_PAST,
         does(a_commit, before=lambda s: s.environment(lambda: s.delete(commit_path(2))), puts_back=True),
         does(a_commit, before=lambda s: s.environment(lambda: s.delete(commit_path(2))))),
    Case("a lost file is another one", Invariant.OTHER_PAST,
         does(lambda s: s.tree.put(s.lost, b"x"), before=lose, puts_back=True),
         does(lambda s: s.tree.put(s.lost, s.kept.data), before=lose, puts_back=True)),
    Case("a file is replaced", Invariant.IMMUTABLE, does(lambda s: s.replace_file(first_of_past(s))), does(a_file)),
    Case("rows get other ids", Invariant.ROW_IDS, lambda s: s.admin(lambda: s.commit(*s.rewritten(keeps_ids=False))),
         lambda s: s.admin(lambda: s.commit(*s.rewritten(keeps_ids=True))), TRACKED),
    Case("a new file has old ids", Invariant.HIGH_WATER_MARK, lambda s: s.admin(lambda: s.commit(*old_ids(s))),
         lambda s: s.writer.append(), TRACKED),
    Case("a mark goes back", Invariant.HIGH_WATER_MARK, commits(lambda _: mark(0)),
         commits(lambda _: mark(1_000)), TRACKED),
    Case("a commit is older than the one before", Invariant.TIME, next_time(0), next_time(1), TIMED),
    Case("a commit has no time", Invariant.TIME, commits(), next_time(1), TIMED),
    Case("OPTIMIZE changes properties", Invariant.METADATA, commits(lambda s: s.metadata(team="x")),
         commits(lambda s: s.metadata(team="x"), operation="SET TBLPROPERTIES", alters=True)),
    Case("another property changes", Invariant.METADATA,
         commits(lambda s: s.metadata(team="x"), operation="SET TBLPROPERTIES", alters=True, sets={"a": "b"}),
         commits(lambda s: s.metadata(team="x"), operation="SET TBLPROPERTIES", alters=True, sets={"team": "x"})),
    Case("the same rows are a change of data", Invariant.DATA_CHANGE, commits(removed, but(dataChange=True)),
         commits(removed, added)),
    Case("a checkpoint lacks files", Invariant.CHECKPOINT, does(lambda s: s.checkpoint(without="add")),
         does(lambda s: s.checkpoint())),
    Case("a checkpoint lacks tombstones", Invariant.CHECKPOINT,
         does(lambda s: s.checkpoint(without="remove"), before=dead),
         does(lambda s: s.checkpoint(), before=dead)),
    Case("a checkpoint lacks its sidecars", Invariant.UNREADABLE, does(lambda s: sidecars(s, 0)),
         does(lambda s: sidecars(s, 2)), ("v2Checkpoint",)),
    Case("a compaction is of other commits", Invariant.COMPACTION, does(compaction(1, said=0)),
         does(compaction(0, said=0))),
    Case("a commit is covered by a compaction", Invariant.COMPACTION,
         does(a_commit, before=lambda s: s.environment(lambda: s.tree.put(compacted(1, 3), b"{}"))),
         does(a_commit, before=lambda s: s.environment(lambda: s.tree.put(compacted(1, 2), b"{}")))),
    Case("a checksum is wrong", Invariant.CHECKSUM, does(checksum(1)), does(checksum(0))),
    Case("a version cannot be rebuilt", Invariant.REBUILT, expires(0, 2), expires(0)),
    Case("a live file is deleted", Invariant.NEEDED, does(lambda s: s.delete(s.live[0]["path"]), deletes=True),
         vacuums(days=8)),
    Case("a file is deleted within the retention", Invariant.NEEDED,
         does(lambda s: s.delete(first_of_past(s)), before=dead, deletes=True),
         does(lambda s: s.delete(first_of_past(s)), before=long_dead, deletes=True)),
    Case("a young file is deleted", Invariant.NEEDED, vacuums(days=6), vacuums(days=8)),
    Case("a file is deleted by who may not", Invariant.NEEDED,
         does(lambda s: s.delete("orphan.parquet"), before=old_orphan), does(a_file, no_file)),
    Case("somebody else's table is touched", Invariant.OUTSIDE, lambda s: s.tree.by("other", a_file_in), does(a_file)),
    Case("a refusal leaves a file", Invariant.REFUSAL, answers(Answer.REFUSED, a_file),
         answers(Answer.REFUSED, a_file, no_file)),
    Case("a refusal has committed", Invariant.REFUSAL, answers(Answer.REFUSED, a_commit),
         answers(Answer.PARTLY, a_commit)),
    Case("a success has no commit", Invariant.DONE, answers(Answer.DONE, commits=True),
         answers(Answer.DONE, a_commit, commits=True)),
    Case("a success is none", Invariant.DONE, answers(Answer.DONE, done=lambda: "nothing happened"),
         answers(Answer.DONE, done=lambda: None)),
    Case("a second run changes something", Invariant.AGAIN, answers(Answer.DONE, a_commit, is_again=True),
         answers(Answer.NOTHING, is_again=True)),
    Case("a vacuum leaves what nobody needs", Invariant.LEFTOVER, vacuums(days=8, finds=False), vacuums(days=8)),
)  # fmt: skip


def tracked(change: Callable[[list[Line]], object] = lambda _: None, **how: Any) -> Callable[[Scene], None]:  # Any: how
    """A history: a file with row ids is rewritten, and something is wrong about it."""

    def play(scene: Scene) -> None:
        lines: list[Line] = []

        def rewrites() -> None:
            lines.extend(scene.rewritten(**how))
            change(lines)
            scene.commit(*lines)

        scene.admin(rewrites)

    return play


def without_ids(lines: list[Line]) -> None:
    del lines[1]["add"]["baseRowId"]


def unseen(change: Callable[[Scene], object]) -> Callable[[Scene], None]:
    """A history: something happens to the files that nobody was told of."""

    def play(scene: Scene) -> None:
        scene.admin(scene.checkpoint)
        change(scene)

    return play


def other_metadata(**fields: object) -> Callable[[Scene], Line]:
    return lambda scene: {"metaData": {**scene.metadata()["metaData"], **fields}}


def beyond(scene: Scene) -> None:
    """A vector deletes a row that its file does not have."""
    lines = marked(scene, cardinality=1)
    lines[1]["add"]["deletionVector"] = inline([99])
    scene.admin(lambda: scene.commit(*lines, operation="DELETE"))


def unreadable(scene: Scene) -> Line:
    scene.tree.put("new.parquet", b"PAR1")
    return scene.added(size=4)


def cut(scene: Scene, path: str) -> None:
    scene.tree.files[path] = StoredFile(scene.tree.files[path].data[:-9])


def stale_checkpoint(scene: Scene) -> None:
    """A checkpoint of the version before, under the name of the newest."""
    actions = scene.oracle.truth[1].state.actions()
    for name, data in write_checkpoint(2, actions, CheckpointKind.CLASSIC, Shape()).all.items():
        scene.tree.files[f"{LOG}/{name}"] = StoredFile(data)


DETAILS: tuple[tuple[str, Callable[[Scene], object], tuple[str, ...]], ...] = (
    ("has no row ids", tracked(without_ids), TRACKED),
    ("has ids above the mark", tracked(lambda lines: lines.pop()), TRACKED),
    ("is of version 4", tracked(number=2), TRACKED),
    ("row ids are there twice", tracked(lambda lines: lines.pop(0)), TRACKED),
    ("and was of 0", tracked(version=1), TRACKED),
    ("is another one, of version 0", tracked(n=7_777), TRACKED),
    ("the table's id", commits(other_metadata(id="another")), ()),
    ("the partition columns", commits(other_metadata(partitionColumns=["p"]), operation="X", alters=True), ()),
    ("gave up, but committed", answers(Answer.GAVE_UP, a_commit), ()),
    ("commits [1] are missing", unseen(lambda s: s.tree.files.pop(commit_path(1))), ()),
    ("by checkpoint 2 has another files", unseen(stale_checkpoint), ()),
    ("of version 2 is gone", unseen(lambda s: s.tree.files.pop(first_of_past(s))), ()),
    ("is another file now", unseen(lambda s: cut(s, first_of_past(s))), ()),
    ("new.parquet: ", commits(removed, unreadable), ()),
    ("rows that it does not have", beyond, VECTORS),
    ("were deleted before", commits(removes=Counter([(("id", 1),)])), ()),
    ("of a version that is not there", does(lambda s: s.tree.put(f"{LOG}/{9:020d}.crc", b"{}")), ()),
)


@pytest.mark.parametrize("says, broken, features", DETAILS, ids=[says for says, _, _ in DETAILS])
def test_the_oracle_says_what_is_wrong(says: str, broken: Callable[[Scene], object], features: tuple[str, ...]) -> None:
    scene = Scene(features)

    broken(scene)
    scene.oracle.finish()

    assert any(says in one.message for one in scene.oracle.violations), scene.oracle.violations


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_invariant_is_reported_and_a_sound_history_is_not(case: Case) -> None:
    broken, sound = Scene(case.features), Scene(case.features)

    case.broken(broken)
    case.sound(sound)
    sound.oracle.finish()

    assert case.invariant in {one.invariant for one in broken.oracle.violations}
    assert [] == sound.oracle.violations


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert set(Invariant) == {case.invariant for case in CASES}


def rolled_back(scene: Scene) -> None:
    scene.environment(lambda: scene.delete(commit_path(2)))
    scene.writer.append()


def rewritten(scene: Scene) -> None:
    data = scene.tree.files[commit_path(1)].data
    scene.environment(lambda: scene.tree.put(commit_path(2), data.replace(b"part-", b"past-")))
    scene.environment(lambda: scene.delete(commit_path(2)))
    scene.writer.append()


def lost_file(scene: Scene) -> None:
    lose(scene)
    scene.writer.append()
    scene.writer.set_property()


def given_up(scene: Scene) -> None:
    """FSCK removes a file that is lost."""
    lose(scene)
    scene.admin(lambda: scene.commit(scene.removed(), operation="FSCK"))


def cut_checkpoint(scene: Scene) -> None:
    """A checkpoint that is cut is put in its place again, as an undo does it."""
    scene.admin(scene.checkpoint)
    path = f"{LOG}/{scene.newest:020d}.checkpoint.parquet"
    cut = scene.tree.files[path].data[:-9]
    scene.environment(lambda: scene.tree.put(path, cut))
    scene.admin(scene.checkpoint)
    scene.admin(lambda: scene.tree.put(path, cut), undoes=True)


def cut_commit(scene: Scene) -> None:
    """A commit that is cut is repaired, and the repair is undone."""
    path = commit_path(2)
    whole = scene.tree.files[path].data
    scene.environment(lambda: scene.tree.put(path, whole[:-9]))
    scene.admin(lambda: scene.tree.put(path, whole), puts_back=True)
    scene.admin(lambda: scene.tree.put(path, whole[:-9]), undoes=True)


def other_log(scene: Scene) -> None:
    """The log is lost, and that of a copy, which has another newest version, is put in its place."""
    log = {version: scene.tree.files[commit_path(version)].data for version in range(3)}
    log[2] = log[2].replace(b"WRITE", b"MERGE")
    scene.environment(lambda: scene.delete(*map(commit_path, log)))
    scene.admin(*(partial(scene.tree.put, commit_path(one), data) for one, data in log.items()), puts_back=True)


def older_commit(scene: Scene) -> None:
    """A log is rolled back twice, and what it had at first is put back."""
    path, files = commit_path(2), scene.tree.files
    first = files[path].data
    for _ in range(2):
        scene.environment(lambda: scene.delete(path))
        if path not in scene.oracle.tree.files:
            scene.writer.append()
    scene.environment(lambda: scene.delete(path))
    scene.admin(lambda: scene.tree.put(path, first), puts_back=True)


def brought_back(scene: Scene) -> None:
    """A lost file comes back as it was."""
    lose(scene)
    scene.environment(lambda: scene.tree.put(scene.lost, scene.kept.data))
    scene.writer.overwrite()


def behind_a_rollback(scene: Scene) -> None:
    """Another engine removes a file that the environment took from its version meanwhile."""
    gone = scene.removed(len(scene.live) - 1)
    scene.oracle.intends("writer", Intent("a writer", is_trusting=True))
    scene.environment(lambda: scene.delete(commit_path(2)))
    scene.commit(gone, version=3)


@pytest.mark.parametrize(
    "happens",
    [
        rolled_back,
        rewritten,
        lost_file,
        given_up,
        cut_checkpoint,
        cut_commit,
        other_log,
        older_commit,
        brought_back,
        behind_a_rollback,
    ],
)
def test_the_model_follows_the_environment(happens: Callable[[Scene], None]) -> None:
    scene = Scene()

    happens(scene)

    assert [] == scene.oracle.violations


def test_a_cut_checkpoint_in_place_of_a_needed_one_is_reported() -> None:
    scene = Scene()
    expires(0)(scene)
    path = f"{LOG}/{1:020d}.checkpoint.parquet"
    cut = scene.tree.files[path].data[:-9]

    scene.admin(lambda: scene.tree.put(path, cut), undoes=True)

    assert Invariant.REBUILT in {one.invariant for one in scene.oracle.violations}


def test_a_cut_commit_below_a_newer_one_is_reported() -> None:
    scene = Scene()
    path = commit_path(2)
    whole = scene.tree.files[path].data
    scene.environment(lambda: scene.tree.put(path, whole[:-9]))
    scene.admin(lambda: scene.tree.put(path, whole), puts_back=True)
    scene.writer.append()

    scene.admin(lambda: scene.tree.put(path, whole[:-9]), undoes=True)

    assert {Invariant.REBUILT} == {one.invariant for one in scene.oracle.violations}


def test_a_refusal_that_cannot_tidy_up_elsewhere_may_leave_what_no_version_names() -> None:
    scene = Scene()
    scene.oracle.intends("admin", Intent("a command"))
    scene.tree.by("admin", a_file_in)

    scene.oracle.judge_answer("admin", Answer.REFUSED, is_elsewhere=True)

    assert [] == scene.oracle.violations


def test_a_refusal_leaves_nothing_that_the_environment_took_away() -> None:
    scene = Scene()
    scene.oracle.intends("admin", Intent("a command"))
    scene.tree.by("admin", a_file_in)
    scene.environment(lambda: scene.delete("new.parquet"))

    scene.oracle.judge_answer("admin", Answer.REFUSED)

    assert [] == scene.oracle.violations


def test_a_late_commit_is_of_who_sent_it_and_not_of_what_its_actor_does_next() -> None:
    found: list[list[str]] = []
    for txn_id in ("sent", "another"):
        scene = Scene()
        scene.admin(answer=Answer.CRASHED, txn_id="sent")
        scene.admin(partial(scene.commit, txnId=txn_id), answer=Answer.REFUSED)
        found.append([one.invariant for one in scene.oracle.violations])

    assert [[], [Invariant.REFUSAL]] == found
