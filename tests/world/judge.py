"""One cell: a change, a moment and an event, and everything that is wrong about how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from deltacli.changing.change_kind import ChangeKind
from deltacli.core.errors import DeltacliError, OutcomeUnknown, PartlyDone
from tests.support.builder import LOG, Files, commit_path
from tests.world.changes import Row, appended, begin
from tests.world.events import Answer, Event, Moment
from tests.world.oracle import Damaged, Reading, Rows
from tests.world.places import Listener, World, changed
from tests.world.tables import TARGET, Writer

_WAITED_S = 121
"""Longer than a look at the log is good for, with the retries of a request."""
_STAGES = 2


class Interruption(Listener):
    """Lets something happen at a moment, once."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._happens: Callable[[], None] | None = None
        self._winner: Callable[[], None] | None = None

    def expect(self, happens: Callable[[], None], winner: Callable[[], None]) -> None:
        """Begin to wait for the moment."""
        self._happens, self._winner = happens, winner

    @property
    def is_over(self) -> bool:
        """Whether it has happened."""
        return self._happens is None

    def happen(self) -> None:
        """Let it happen now."""
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()

    def begins(self) -> None:
        if self._moment is Moment.BATCH:
            self.happen()

    def commits(self) -> None:
        if self._moment is Moment.ATTEMPT and self._winner is not None:
            winner, self._winner = self._winner, None
            winner()

    def committed(self) -> None:
        if self._moment is Moment.ATTEMPT and self._winner is None:
            self.happen()

    def wrote(self) -> None:
        if self._moment is Moment.BATCH:
            self.happen()


@dataclass
class Ending:
    """What there was: at first, before the event, after it, and in the end; by the name of the place."""

    change: Row
    now_ms: int
    is_elsewhere: bool
    """Whether the table's directory is not at its path any more."""
    first: dict[str, Files]
    before: dict[str, Files]
    after: dict[str, Files]
    last: dict[str, Files]
    error: BaseException | None
    truth: Files
    problems: list[str] = field(default_factory=list)

    @property
    def spans(self) -> Iterator[tuple[dict[str, Files], dict[str, Files]]]:
        """What there was at the beginning and at the end of what the change did, before the event and after it."""
        yield self.first, self.before
        yield self.after, self.last

    @property
    def answer(self) -> Answer:
        if self.error is None:
            return Answer.DONE
        return Answer.PARTLY if isinstance(self.error, PartlyDone | OutcomeUnknown) else Answer.REFUSED


def play(world: World, change: Row, event: Event | None, moment: Moment) -> list[str]:
    """Let a change be planned and executed, and the event happen at its moment; return what is wrong."""
    with world.closing:
        return _play(world, change, event, moment)


def _play(world: World, change: Row, event: Event | None, moment: Moment) -> list[str]:
    truth = begin(world, change)
    first = _all(world)
    stages: list[dict[str, Files]] = []

    def winner() -> None:
        stages.append(_all(world))
        files = world.files("own")
        writer = Writer(files, world.time.now_ms)
        version = writer.reading.newest + 1
        writer.commit("WRITE", [writer.add(f"p=b/winner{version}.parquet", 600 + version)])
        world.write("own", files)

    def happens() -> None:
        if not stages:
            stages.append(_all(world))
        if event is not None:
            world.time.wait(_WAITED_S)
            event.happen(world)
        stages.append(_all(world))

    interruption = world.listener
    assert isinstance(interruption, Interruption)
    table = world.table()
    error: BaseException | None = None
    try:
        plan = change.plan(world)(table)
    except DeltacliError as fault:
        return [] if not change.is_sound else [f"it cannot be planned: {fault}"]
    interruption.expect(happens, winner)
    try:
        if moment.is_before:
            interruption.happen()
        change.execute(table, plan, moment is not Moment.PROMPT)
    except Exception as fault:  # noqa: BLE001  (what is no error of deltacli is wrong, too)
        error = fault
    if interruption.is_over and len(stages) < _STAGES:
        assert error is not None
        raise error
    if not interruption.is_over:
        return [f"the moment never came; it ended with {error!r}"]
    ending = Ending(
        change,
        world.time.now_ms,
        event is not None and event.is_place,
        first,
        stages[0],
        stages[1],
        _all(world),
        error,
        truth,
    )
    found = list(_problems(ending))
    is_undisturbed = event is None or change.goes_on(event)
    if ending.answer is Answer.DONE and (is_undisturbed or not change.may_leave):
        found += _undone(ending)
    if event is not None and not found and not change.is_beside:
        right = event.right(change.change_kind, moment, goes_on=change.goes_on(event))
        if ending.answer not in right:
            said = "" if error is None else f": {getattr(error, 'code', '')} {error}"
            found.append(f"it is {ending.answer.value}, not {' or '.join(sorted(one.value for one in right))}{said}")
    return found


def _all(world: World) -> dict[str, Files]:
    return {name: world.files(name) for name in world.names()}


def _problems(ending: Ending) -> Iterator[str]:
    error = ending.error
    if error is not None and not isinstance(error, DeltacliError):
        yield f"exit 70: {error!r}"
        return
    if isinstance(error, OutcomeUnknown):
        yield f"exit 8 although no answer was lost: {error}"
    acted = [change for begin, end in ending.spans for change in _changes(begin, end)]
    net = [(name, path) for name, path in acted if name in ("own", "copy", "equal") and _is_left(ending, name, path)]
    if ending.answer is Answer.REFUSED and net:
        yield f"{type(error).__name__} ({getattr(error, 'code', '')}: {error}), but {net[0][0]}/{net[0][1]} was changed"
    elsewhere = [(name, path) for name, path in acted if name in ("copy", "equal", "source")]
    if elsewhere:
        yield f"{elsewhere[0][1]} of {elsewhere[0][0]} was changed"
    if ending.change.is_backup and ending.answer is Answer.DONE:
        yield from _backup(ending)
    for old, new in ending.spans:
        yield from _deletions(ending, old["own"], new["own"])
        yield from _log(ending, old["own"], new["own"])
        yield from _rows(ending, Reading(old["own"]), Reading(new["own"]))


def _backup(ending: Ending) -> Iterator[str]:
    """What is wrong about a copy of the log: it is that of one time."""
    copied, times = ending.last["beside"], (ending.first["own"], ending.after["own"])
    commits = Reading(copied).commits.values()
    if not any(all(path in files and files[path].data == copied[path].data for path in commits) for files in times):
        yield "the backup has commits of several pasts"


def _changes(begin: dict[str, Files], end: dict[str, Files]) -> Iterator[tuple[str, str]]:
    for name in begin.keys() | end.keys():
        yield from ((name, path) for path in sorted(changed(begin.get(name, {}), end.get(name, {}))))


def _is_left(ending: Ending, name: str, path: str) -> bool:
    """Whether what the change did to a file is still there, and is more than a file that no version names in a
    directory that is at its path no more.
    """
    first, before, after, last = (
        stage.get(name, {}).get(path) for stage in (ending.first, ending.before, ending.after, ending.last)
    )
    if before != after:  # the event undid it
        return after != last
    is_new = first is None and not path.startswith(LOG)
    is_kept = ending.is_elsewhere or ending.change.keeps_files
    return first != last and not (is_kept and is_new and path not in Reading(ending.last[name]).named())


def _deletions(ending: Ending, begin: Files, end: Files) -> Iterator[str]:
    """What was deleted that is needed."""
    gone = {path for path in begin.keys() - end.keys() if not path.startswith(LOG)}
    own = ending.before["own"].keys() - ending.first["own"].keys() | (end.keys() - begin.keys())
    table = Reading(begin)
    try:
        needed, named = table.needed(ending.now_ms), table.named()
        young_ms = ending.now_ms - table.retention_ms
    except Damaged:
        return
    for path in sorted(gone):
        if path in needed:
            yield f"{path} was deleted, which {needed[path]}"
        elif path not in own and not ending.change.change_kind & ChangeKind.DELETE_FILES:
            yield f"{path} was deleted"
        elif path not in own | named and begin[path].modified_ms > young_ms:
            yield f"{path} was deleted, which a writer may be about to commit"


def _log(ending: Ending, begin: Files, end: Files) -> Iterator[str]:
    """What is wrong about the files of the log that a change made, replaced or deleted."""
    old, new = Reading(begin), Reading(end)
    for version, path in old.commits.items():
        if path not in end:
            if not ending.change.change_kind & ChangeKind.EXPIRE_LOG_FILES:
                yield f"commit {version} was deleted"
            elif begin[path].modified_ms > ending.now_ms - old.log_retention_ms:
                yield f"commit {version} was deleted within the retention"
        elif end[path].data != begin[path].data:
            yield f"commit {version} was replaced"
    made = sorted(new.commits.keys() - old.commits.keys())
    for version in made:
        known = ending.truth.get(commit_path(version))
        if ending.change.change_kind & ChangeKind.RECOVER_FILES and (
            known is None or known.data != end[commit_path(version)].data
        ):
            yield f"commit {version} is not the one that the table had"
        if version > 0 and version - 1 not in new.commits and version - 1 not in new.checkpoints:
            yield f"commit {version} is above a gap"
    for path in sorted(end.keys() - begin.keys()):
        try:
            yield from new.contradictions(path)
        except Damaged as fault:
            yield f"{path} cannot be read: {fault}"
    if ending.change.change_kind & ChangeKind.RECOVER_FILES:
        for path in sorted(end.keys() - begin.keys()):
            known = ending.truth.get(path)
            if path.endswith(".parquet") and not path.startswith(LOG) and known and known.data != end[path].data:
                yield f"{path} is not the file that the table had"


def _rows(ending: Ending, old: Reading, new: Reading) -> Iterator[str]:
    """Which versions cannot be read any more, have other rows, or not those that their commit is for."""
    for version, rows in old.versions.items():
        found = new.versions.get(version)
        if found is None:
            if version == old.newest:
                yield f"version {version}, the newest one, cannot be read any more"
            elif not ending.change.change_kind & (ChangeKind.DELETE_FILES | ChangeKind.EXPIRE_LOG_FILES):
                yield f"version {version} cannot be read any more"
        elif found != rows:
            yield f"version {version} has other rows: {_difference(rows, found)}"
    if old.newest in old.versions and new.newest not in new.versions:
        yield f"version {new.newest}, which was made, cannot be read"
    for version in sorted(new.versions.keys() - old.versions.keys()):
        expected = _expected(ending, old, new, version) if version > old.newest else None
        if expected is not None and new.versions[version] != expected:
            yield f"version {version} has other rows than it should: {_difference(expected, new.versions[version])}"


def _expected(ending: Ending, old: Reading, new: Reading, version: int) -> Rows | None:
    before = new.versions.get(version - 1)
    operation = next((line["commitInfo"].get("operation") for line in new.lines(version) if "commitInfo" in line), "")
    if operation == "SHARE PULL":
        shared = Reading(ending.first["source"])
        return shared.versions[shared.newest]
    if operation == "RESTORE":
        return old.versions.get(TARGET)
    if ending.change.change_kind & ChangeKind.RECOVER_FILES:
        return None
    if before is not None and operation == "WRITE":
        return before + appended()
    return before


def _difference(expected: Rows, found: Rows) -> str:
    lost, more = (expected - found).total(), (found - expected).total()
    return f"{lost} lost, {more} more"


def _undone(ending: Ending) -> Iterator[str]:
    table = Reading(ending.last["own"])
    try:
        if not ending.change.did(table):
            yield "it is said to be done, and is not"
    except (Damaged, KeyError) as fault:
        yield f"it is said to be done, and cannot be read: {fault!r}"
    named = table.named() if ending.change.change_kind & (ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES) else set()
    for path in sorted(ending.last["own"].keys() - ending.after["own"].keys()):
        if named and path.endswith(".parquet") and not path.startswith(LOG) and path not in named:
            yield f"{path} is left behind, and no version names it"
