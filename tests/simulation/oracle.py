"""The table as it must be: told of every change of a directory when it happens, it keeps each version as committed.

It shares no code with deltacli. What is wrong is collected as values; after each of them it believes what is there, so
that one fault is one violation and not a hundred.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from tests.simulation.judging import (
    Version,
    absent,
    checksum_difference,
    data_changes,
    difference,
    doubled,
    listed,
    metadata_changes,
    row_ids,
    rows_as_of,
    times,
)
from tests.simulation.promises import ENVIRONMENT, Answer, Intent, Invariant, Tree, Violation
from tests.simulation.reading import (
    Kind,
    Name,
    Tracked,
    checkpoints_of,
    columns_of,
    commits_of,
    counted,
    deleted_rows,
    find_paths_in_manifest,
    info_of,
    is_mapped,
    lines_of,
    name_of,
    paths_of,
    physical_records,
    shown,
    told_difference,
)
from tests.simulation.truth import Truth
from tests.support.actions import Action, Line
from tests.support.builder import LOG, StoredFile, commit_path
from tests.support.model import State, identity, num_records
from tests.world.oracle import Damaged

_NOBODY = Intent("nothing")
_CLOCK_SKEW_MS = 15 * 60_000
"""Five minutes, and as long as a slow store takes."""


@dataclass
class Doing:
    """What an actor is doing."""

    intent: Intent
    begun: int
    """The number of changes that there had been."""
    act: int = 0
    """The number of what it does, of all actors."""
    changes: dict[str, tuple[StoredFile | None, StoredFile | None]] = field(default_factory=dict)
    landed: list[int] = field(default_factory=list)
    to_vacuum: frozenset[str] = frozenset()
    is_believed: bool = False
    """It puts the log of somebody back where there was none, so that nothing can say that it is another one."""
    is_over: bool = False


_VACUUM_INFO = f"{LOG}/_last_vacuum_info"
_CLONES = f"{LOG}/_deltacli_clones/"


class Oracle(Truth):
    """The truth about one directory. `changed` is a watcher of it."""

    def __init__(self, tree: Tree, now_ms: Callable[[], int]) -> None:
        super().__init__(tree, now_ms)
        self.violations: list[Violation] = []
        self._doing: dict[str, Doing] = {}
        self._by_txn: dict[str, Intent] = {}
        self._clocks_moved = self._acts = 0
        self._gone: set[str] = set()
        """Files that nobody needed when they were deleted."""
        self._is_landing = False
        """What happens was sent before, so nobody could look again."""
        self._believed: set[tuple[int, bytes]] = set()
        """Commits of a log that was put back where there was none, so that it goes on in the same way."""

    def intends(self, actor: str, intent: Intent) -> None:
        """An actor begins, or knows better what it is about to do."""
        before = self._doing.get(actor)
        if before is None or before.is_over:
            self._acts += 1
            self._doing[actor] = Doing(intent, self._ticks, self._acts)
        else:
            self._doing[actor] = Doing(intent, before.begun, before.act)
        is_cut = any(name_of(path).kind is Kind.CHECKPOINT for path in self._changed & self.tree.files.keys())
        has_gap = any(name_of(path).kind is Kind.COMMIT for path in self._lost)
        has_gap = has_gap or not commits_of(self.tree.files).keys() <= self._rebuilt  # a clean-up that was killed
        if intent.cleans and not (is_cut or has_gap):  # a vacuum keeps what the rest of the log may name
            self._doing[actor].to_vacuum = frozenset(self.to_vacuum(intent.retention_ms))
        if intent.txn_id:
            self._by_txn[intent.txn_id] = intent

    def landing_of(self, actor: str) -> Callable[[Callable[[], object]], None]:
        """Return what lets a request land later as one of what its actor does now, whatever it does by then."""
        sent = self._doing.get(actor)

        def land(effect: Callable[[], object]) -> None:
            now = self._doing.get(actor)
            self._is_landing = True
            if sent is None or now is None or sent.act == now.act:
                effect()
            else:
                self._doing[actor] = sent
                effect()
                self._doing[actor] = now
            self._is_landing = False

        return land

    def clocks_moved(self) -> None:
        """The clock of somebody went wrong: who is acting has looked at another one."""
        self._ticks += 1
        self._clocks_moved = self._ticks

    @property
    def ticks(self) -> int:
        """The number of changes that there have been."""
        return self._ticks

    def is_alone(self, actor: str, begun: int) -> bool:
        """Whether nobody else has changed anything since."""
        return all(last <= begun for name, last in self._last_of.items() if name != actor)

    def deleted_by(self, actor: str) -> dict[str, StoredFile]:
        """The files that an actor has deleted since it began, as they were."""
        doing = self._doing.get(actor)
        changes = {} if doing is None else doing.changes
        return {path: before for path, (before, after) in changes.items() if after is None and before is not None}

    def judge_answer(self, actor: str, answer: Answer, *, is_elsewhere: bool = False) -> None:
        """An actor ended: is it what it did since it began? With `is_elsewhere` another directory is at the table's
        path now, so that it cannot tidy up here.
        """
        doing = self._doing.get(actor)
        if doing is None:
            return
        doing.is_over = True
        files = self.tree.files
        left = [
            path
            for path, (before, after) in doing.changes.items()
            if before != after and (before is not None or path in files)  # the environment took some of them away
            if before is not None or not self._is_of_before(path, after, doing.intent)
        ]
        if answer in (Answer.REFUSED, Answer.NOTHING):
            named = self._named() if is_elsewhere else {*left}
            stays = (Kind.DATA, Kind.SIDECAR, *((Kind.HIDDEN,) if is_elsewhere else ()))
            left = [path for path in left if name_of(path).kind not in stays or path in named]
            left = [path for path in left if not (is_elsewhere and path.startswith(_CLONES))]
        else:
            left = [path for path in left if name_of(path).kind is not Kind.HIDDEN]
        intent = doing.intent
        match answer:
            case Answer.REFUSED | Answer.NOTHING if left:
                self._report(Invariant.REFUSAL, actor, f"{intent.what}: {answer.value}, but {listed(left)} changed")
            case Answer.GAVE_UP if doing.landed:
                self._report(Invariant.REFUSAL, actor, f"{intent.what} gave up, but committed {doing.landed}")
            case Answer.DONE:
                left = [path for path in left if path != _VACUUM_INFO]  # it is done without that, too
                if intent.is_again and left:
                    self._report(Invariant.AGAIN, actor, f"{intent.what} a second time changed {listed(left)}")
                if intent.commits and not doing.landed and self._last_commit <= doing.begun:
                    self._report(Invariant.DONE, actor, f"{intent.what} is done, but there is no commit")
                if intent.done is not None and (wrong := intent.done()):
                    self._report(Invariant.DONE, actor, f"{intent.what} is done, but {wrong}")
            case _:
                pass
        left = sorted(doing.to_vacuum & self.to_vacuum(intent.retention_ms)) if doing.to_vacuum else []
        if left and answer in (Answer.DONE, Answer.NOTHING):
            self._report(Invariant.LEFTOVER, actor, f"{intent.what} is done and left {listed(left)}")

    def _is_of_before(self, path: str, file: StoredFile | None, intent: Intent) -> bool:
        """Whether a file is a commit of what its actor did before, whose request was on its way when it was killed."""
        if file is None or name_of(path).kind is not Kind.COMMIT:
            return False
        try:
            txn_id = info_of(lines_of(file.data)).get("txnId", "")
        except Damaged:
            return False
        return self._by_txn.get(txn_id, intent) is not intent

    def changed(self, tree: Tree, path: str, before: StoredFile | None, after: StoredFile | None, actor: str) -> None:
        """A file was made, replaced or deleted."""
        assert tree is self.tree
        if actor == ENVIRONMENT:
            self.environment({path: after})
            return
        self._ticks += 1
        self._last_of[actor] = self._ticks
        doing = self._doing.get(actor)
        if doing is None:
            self._report(Invariant.OUTSIDE, actor, f"{path} was changed")
            doing = self._doing[actor] = Doing(_NOBODY, self._ticks)
        first, _ = doing.changes.get(path, (before, None))
        doing.changes[path] = (first, after)
        if before is not None and after is not None and before.data == after.data:
            return
        name = name_of(path)
        match name.kind:
            case Kind.COMMIT:
                self._commit_changed(name.version, before, after, actor, doing)
            case Kind.DATA if after is None:
                assert before is not None
                self._data_deleted(path, before, actor, doing)
            case Kind.DATA:
                self._data_written(path, before, after, actor, doing)
                if self._believed and path not in self._lost:  # its rows were not known as long as it was missing
                    self._rows.clear()
                    self.truth.clear()
                    self._follow()
            case Kind.CHECKPOINT | Kind.COMPACTION | Kind.CHECKSUM if after is not None and doing.is_believed:
                self.truth.clear()  # its commits came before, and say more with it
                self._follow()
            case Kind.CHECKPOINT | Kind.COMPACTION | Kind.CHECKSUM if after is not None and not doing.intent.undoes:
                if before is not None and not (
                    doing.intent.replaces
                    or doing.intent.is_trusting
                    or path in self._changed
                    or self._is_of_unfinished(name)
                ):
                    self._report(Invariant.IMMUTABLE, actor, f"{path} was replaced")
                for invariant, wrong in self._contradictions(path):
                    self._report(invariant, actor, wrong)
            case _:
                pass
        if name.kind in (Kind.COMMIT, Kind.CHECKPOINT, Kind.SIDECAR):
            self._look_at_log(actor, doing.intent)

    def _is_of_unfinished(self, name: Name) -> bool:
        """Whether a file is a part of a checkpoint that somebody left without the others: no version has it."""
        of_it = (name.kind, name.version, name.instance, name.parts)
        found = (name_of(path) for path in self.tree.files)
        return sum((one.kind, one.version, one.instance, one.parts) == of_it for one in found) < name.parts

    def finish(self) -> None:
        """The history is over: is what is left a table, and does each version read as it was committed?"""
        files = self.tree.files
        commits = sorted(commits_of(files))
        for before, after in itertools.pairwise(commits):
            missing = [number for number in range(before + 1, after) if commit_path(number) not in self._lost]
            if missing and commit_path(before) not in self._changed:  # it may have come back below expired ones
                self._report(Invariant.GAP, "", f"commits {missing} are missing")
        for version in sorted(self._rebuilt):
            starts = [
                one for one in checkpoints_of(files) if one.version <= version and one.version not in self._shaken
            ]
            for start in [None, *starts]:
                state = self._rebuild(version, start)
                told = self.truth.get(version)
                if state is not None and told is not None and (wrong := told_difference(told.state, state)):
                    origin = "commits" if start is None else f"checkpoint {start.version}"
                    self._report(Invariant.REBUILT, "", f"version {version} by {origin} has another {wrong}")
        for version in sorted(self._rebuilt & self.truth.keys()):
            if version == self.newest or self._is_retained(version):
                for path in sorted(find_paths_in_manifest(self.truth[version].state.live.values())):
                    if path not in files and path not in self._lost and path not in self._gone:
                        self._report(Invariant.NEEDED, "", f"{path} of version {version} is gone")
        for path, known in self._bytes.items():
            if path in files and path not in self._lost and files[path].data != known.data:
                self._report(Invariant.IMMUTABLE, "", f"{path} is another file now")

    def _report(self, invariant: Invariant, actor: str, message: str) -> None:
        doing = self._doing.get(actor)
        if doing is None or not doing.intent.is_trusting or self._last_environment <= doing.begun:
            self.violations.append(Violation(invariant, actor, message))

    def _commit_changed(
        self, version: int, before: StoredFile | None, after: StoredFile | None, actor: str, doing: Doing
    ) -> None:
        intent = doing.intent
        known = self.truth.get(version)
        is_damaged = commit_path(version) in self._lost
        is_undone = after is not None and intent.undoes and after.data in self._damaged
        is_rebuilt = after is not None and is_damaged and known is not None and known.data != after.data
        if before is not None and (is_undone or not (is_rebuilt and intent.puts_back)):
            if is_undone:
                self._lost[commit_path(version)] = self._ticks
            elif after is not None and is_damaged and known is not None and known.data == after.data:
                self._lost.pop(commit_path(version))
            elif after is not None:
                self._report(Invariant.REPLACED, actor, f"commit {version} was replaced")
                self._follow()
            elif not intent.expires:
                self._report(Invariant.REPLACED, actor, f"commit {version} was deleted")
            return
        assert after is not None
        commits = commits_of(self.tree.files)
        newest = max([*(one for one in commits if one != version), *self._of_checkpoints(version)], default=-1)
        if intent.puts_back and before is None:
            around = {(one, self.tree.files[commit_path(one)].data) for one in commits if one != version}
            is_all = bool(around) and around <= self._believed
            is_other = (version, after.data) in intent.believes and (
                is_damaged
                or max(self.truth, default=-1) > newest
                or intent.what == "log restore"  # by the list of the backup
            )
            is_other = is_other and (known is None or known.data != after.data)
            doing.is_believed = doing.is_believed or newest < 0 or is_all or is_other
        if doing.is_believed:
            self._believed.add((version, after.data))
            doing.landed.append(version)
            self._lost.pop(commit_path(version), None)
            self.truth.clear()
            self._follow()
            for path in self._named() - self.tree.files.keys() - self._bytes.keys():  # only somebody else had them
                self._lost[path] = self._ticks
            return
        if known is not None and known.data == after.data:
            self._lost.pop(commit_path(version), None)
            doing.landed.append(version)
            return
        is_late = intent.is_trusting and version < newest  # and lands where the environment took another one away
        is_unknown = intent.puts_back and version in self._rewritten and after.data in self._had  # nothing tells it
        if known is not None and (is_late or is_unknown):
            self._lost.pop(commit_path(version), None)
            doing.landed.append(version)
            self._had.add(after.data)
            self._follow()
            return
        others = commits.keys() - {version, *(doing.landed if intent.puts_back else ())}
        before_it = max([*others, *self._of_checkpoints(version)], default=-1)
        doing.landed.append(version)
        once = self._once.get((version, after.data))
        if intent.puts_back and once is not None and version > before_it:
            is_first = version - 1 not in commits  # the newest one of a past comes back first
            again = once if is_first else self._made(version, after, self.truth.get(version - 1))
            if not told_difference(once.state, again.state):
                self.truth[version] = again
                self._lost.pop(commit_path(version), None)
                return
        if not intent.puts_back:  # what was rebuilt may be undone
            self._once_lost.discard(version)
        self._last_commit = self._ticks
        for path in [] if intent.is_trusting or intent.puts_back else self._compactions_of(version):
            self._report(Invariant.COMPACTION, actor, f"commit {version} is made, and {path} has another one")
        is_below = version <= newest and known is None
        is_first = intent.puts_back and after.data in self._had  # the newest one comes back first
        if (version > newest + 1 and not is_first) or is_below:
            where = "below" if is_below else "above a gap:"
            if not self._is_landing:
                self._report(Invariant.GAP, actor, f"commit {version} is {where} the newest, {newest}")
            if version - 1 not in self.truth:
                return
        try:
            made = self._judged(version, after, actor, doing)
        except (Damaged, KeyError) as fault:
            self._report(Invariant.UNREADABLE, actor, f"commit {version} cannot be read: {fault!r}")
            return
        is_older = intent.puts_back and version > before_it and after.data in self._had  # of before a rolled back log
        self._had.add(after.data)
        if known is not None and not is_older and (intent.puts_back or version <= newest):
            wrong = told_difference(known.state, made.state)
            if wrong or known.counted != made.counted:
                self._report(Invariant.OTHER_PAST, actor, f"commit {version} has another {wrong or 'rows'} than it had")
        self.truth[version] = made
        if version > newest:
            for later in [number for number in self.truth if number > version]:
                del self.truth[later]
        self._lost.pop(commit_path(version), None)

    def _compactions_of(self, version: int) -> Iterator[str]:
        """The compactions that engines read instead of a commit: those after the checkpoint from which they start."""
        files = self.tree.files
        starts = (one.version for one in checkpoints_of(files) if one.version < version and one.is_readable(files))
        start = max(starts, default=-1)
        for path in files:
            name = name_of(path)
            if name.kind is Kind.COMPACTION and start < name.version <= version <= name.last:
                yield path

    def _of_checkpoints(self, without: int) -> Iterator[int]:
        for one in checkpoints_of(self.tree.files):
            if one.version != without:
                yield one.version

    def _judged(self, version: int, file: StoredFile, actor: str, doing: Doing) -> Version:
        """A version by its commit, and what is wrong about that."""
        lines = lines_of(file.data)
        base = self.truth.get(version - 1)
        made = self._made(version, file, base)
        info = info_of(lines)
        intent = self._by_txn.get(info.get("txnId", ""), doing.intent)
        is_putting_back = intent.puts_back and version in self.truth
        for invariant, wrong in (
            *self._files_of(lines, base, made, doing),
            *absent(lines, base),
            *doubled(base, made.state),
            *(() if is_putting_back else self._rows_as_meant(lines, base, made, intent)),
            *(() if base is None else times(lines, base, made)),
            *(() if is_putting_back else row_ids(lines, base, made, intent, self._target_of(intent, info))),
            *(() if base is None or is_putting_back else metadata_changes(lines, base.state, made.state, intent)),
            *data_changes(lines),
            *(() if is_putting_back or self._clocks_moved > doing.begun else self._ages(lines, version)),
        ):
            self._report(invariant, actor, f"{intent.what}, version {version}: {wrong}")
        return made

    def _ages(self, lines: tuple[Line, ...], version: int) -> Iterator[tuple[Invariant, str]]:
        before = self.tree.files.get(commit_path(version - 1))
        for line in lines:
            if before is not None and (remove := line.get("remove")) is not None:
                early_ms = before.modified_ms - remove.get("deletionTimestamp", 0)
                if early_ms > _CLOCK_SKEW_MS:
                    yield Invariant.TIME, f"{remove['path']} is removed {early_ms} ms before the version before it"

    def _files_of(
        self, lines: tuple[Line, ...], base: Version | None, made: Version, doing: Doing
    ) -> Iterator[tuple[Invariant, str]]:
        files = self.tree.files
        before = set() if base is None else find_paths_in_manifest(base.state.live.values())
        for line in lines:
            if (add := line.get("add")) is None:
                continue
            path = unquote(add["path"])
            wanted = paths_of(add)
            missing = [one for one in sorted(wanted) if one not in files]
            for one in missing:
                if doing.intent.puts_back and one in self._gone:  # a vacuum has deleted it since
                    continue
                if one not in before and (self._lost.get(one, -1) <= doing.begun or one in doing.changes):
                    yield Invariant.FILES, f"{one} was added and is not there"
            if missing or self._is_damaged(wanted):
                continue
            partitions = {name for name, _ in add["partitionValues"].items()}
            columns = (made.state.metadata or {})["partitionColumns"]
            if len(partitions) != len(columns):
                yield Invariant.FILES, f"{path} has values of {sorted(partitions)}, not of {columns}"
            if len(files[path].data) != add["size"]:
                yield Invariant.FILES, f"{path} has {len(files[path].data)} bytes, not {add['size']}"
                continue
            try:
                count, gone = physical_records(path, files), deleted_rows(add.get("deletionVector"), files)
            except Damaged as fault:
                yield Invariant.UNREADABLE, f"{path}: {fault}"
                continue
            if (said := num_records(add)) is not None and said != count:
                yield Invariant.FILES, f"{path} has {count} rows, not {said}"
            if gone and len(gone) != add["deletionVector"]["cardinality"]:
                yield Invariant.FILES, f"the vector of {path} has {len(gone)} rows"
            if gone and max(gone) >= count:
                yield Invariant.FILES, f"the vector of {path} has rows that it does not have"

    def _is_damaged(self, paths: set[str]) -> bool:
        return any(path in self._lost for path in paths)

    def _target_of(self, intent: Intent, info: Action) -> Version | None:
        """The version that a commit restores."""
        number = intent.restores
        if number is None and info.get("operation") == "RESTORE":
            said = info.get("operationParameters", {}).get("version")
            number = None if said is None else int(said)
        return None if number is None else self.truth.get(number)

    def _rows_as_meant(
        self, lines: tuple[Line, ...], base: Version | None, made: Version, intent: Intent
    ) -> Iterator[tuple[Invariant, str]]:
        target = self._target_of(intent, info_of(lines))
        if target is not None:
            expected = rows_as_of(target, made.state)
            if intent.where is not None:
                if not is_mapped(made.state) and columns_of(made.state) != columns_of(target.state):
                    # A column that was dropped and added again by its name shows what the files have of it.
                    expected = counted(self._rows_of_state(replace(target.state, metadata=made.state.metadata)))
                there = {row: intent.where(shown(row, made.state)) for row in expected | made.counted}
                expected = Counter({row: count for row, count in expected.items() if there[row]})
                rest = Counter() if base is None else rows_as_of(base, made.state)
                expected += Counter(
                    {row: count for row, count in rest.items() if not intent.where(shown(row, made.state))}
                )
        else:
            expected = Counter() if base is None else rows_as_of(base, made.state)
            absent = intent.removes - expected
            if absent:
                yield Invariant.ROWS, f"{absent.total()} rows that it deletes were deleted before"
            expected = expected - intent.removes + intent.adds
            if base is not None and (intent.accepts_loss or info_of(lines).get("operation") == "FSCK"):
                expected -= counted(self._lost_rows(lines, base))
        if expected != made.counted:
            yield Invariant.ROWS, difference(expected, made.counted)

    def _lost_rows(self, lines: tuple[Line, ...], base: Version) -> Iterator[Tracked]:
        """The rows of removed files that are not there as a whole."""
        gone = {identity(line["remove"]["path"]) for line in lines if line.get("remove")}
        again = {identity(line["add"]["path"]) for line in lines if line.get("add")}
        for key, add in base.state.live.items():
            if key[0] in gone - again and not all(
                path in self.tree.files and path not in self._lost for path in paths_of(add)
            ):
                yield from self._rows_of(add, base.state)

    def _look_at_log(self, actor: str, intent: Intent) -> None:
        found = self._rebuildable()
        for version in sorted(self._rebuilt - found):
            is_expired = intent.is_trusting or self._is_expired(version, intent.retention_ms)
            is_undone = intent.undoes and version in self._once_lost
            if not (intent.expires and is_expired) and not is_undone:
                self._report(Invariant.REBUILT, actor, f"{intent.what}: version {version} cannot be rebuilt any more")
        self._rebuilt = found

    def _contradictions(self, path: str) -> Iterator[tuple[Invariant, str]]:
        """What a derived file of the log says otherwise than the versions."""
        name, files = name_of(path), self.tree.files
        known = self.truth.get(name.last if name.kind is Kind.COMPACTION else name.version)
        if known is None:
            yield Invariant.CHECKPOINT, f"{path} is of a version that is not there"
            return
        try:
            match name.kind:
                case Kind.CHECKPOINT:
                    for one in checkpoints_of(files):
                        if path in one.paths:
                            found = one.state(files)
                            wrong = told_difference(known.state, found) or self._tombstones(known.state, found)
                            if wrong:
                                yield Invariant.CHECKPOINT, f"checkpoint {name.version} has another {wrong}"
                case Kind.COMPACTION if name.version and name.version - 1 not in self.truth:
                    pass  # nothing tells what it adds to
                case Kind.COMPACTION:
                    before = self.truth[name.version - 1].state if name.version else State()
                    data = files[path].data  # of commits that only say what was done: nothing
                    state = before.after(lines_of(data) if data else [])
                    if wrong := told_difference(known.state, state):
                        yield Invariant.COMPACTION, f"{path} has another {wrong}"
                case _:
                    if wrong := checksum_difference(json.loads(files[path].data), known):
                        yield Invariant.CHECKSUM, f"{path} has another {wrong}"
        except (Damaged, KeyError, ValueError) as fault:
            yield Invariant.UNREADABLE, f"{path} cannot be read: {fault!r}"

    def _tombstones(self, known: State, found: State) -> str:
        # Those that were dropped before the retention was raised do not come back.
        kept = min(self._retention_ms(version.state) for version in self.truth.values())
        cutoff = self._now_ms() - kept
        wanted = {key for key, one in known.tombstones.items() if one.get("deletionTimestamp", 0) > cutoff}
        return (
            "tombstones"
            if wanted - found.tombstones.keys() or found.tombstones.keys() - known.tombstones.keys()
            else ""
        )

    def _data_written(
        self, path: str, before: StoredFile | None, after: StoredFile | None, actor: str, doing: Doing
    ) -> None:
        assert after is not None
        known = self._bytes.get(path)
        if before is not None and doing.intent.undoes and after.data in self._damaged:
            self._lost[path] = self._ticks
        elif before is not None and path not in self._lost:
            self._report(Invariant.IMMUTABLE, actor, f"{path} was replaced")
        elif known is not None and known.data != after.data and path in self._named():
            self._report(Invariant.OTHER_PAST, actor, f"{path} is not the file that the table had")
        else:
            self._lost.pop(path, None)

    def _data_deleted(self, path: str, before: StoredFile, actor: str, doing: Doing) -> None:
        newest = self.newest
        head = self.truth.get(newest)
        if head is None:
            return
        intent = doing.intent
        now, kept = self._now_ms(), self._retention_of_late_ms()
        cutoff = now - (kept if intent.retention_ms is None else intent.retention_ms)
        if path in find_paths_in_manifest(head.state.live.values()):
            self._report(Invariant.NEEDED, actor, f"{path} was deleted and is live in version {newest}")
            return
        if doing.changes[path][0] is None:
            return
        if path in self.pinned_files():
            self._report(Invariant.NEEDED, actor, f"{path} was deleted, which a clone needs")
            return
        removed = [
            remove.get("deletionTimestamp", 0) for remove in self._visible(head).values() if path in paths_of(remove)
        ]
        if removed and max(removed) > cutoff:
            self._report(Invariant.NEEDED, actor, f"{path} was deleted, which was removed {now - max(removed)} ms ago")
        elif not removed and before.modified_ms > cutoff:
            self._report(Invariant.NEEDED, actor, f"{path} was deleted, which a writer may be about to commit")
        elif not intent.deletes:
            self._report(Invariant.NEEDED, actor, f"{intent.what} deleted {path}")
        else:
            self._gone.add(path)
