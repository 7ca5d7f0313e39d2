"""Plays a history and says what is wrong about it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deltacli.changing.base_version import MAX_FILE_CHECK_AGE_SECONDS
from deltacli.changing.change import execute_change
from deltacli.core.errors import DeltacliError
from deltacli.operations.log.log_backup import LogBackup
from deltacli.operations.vacuum.full_plan import VacuumChange
from deltacli.operations.vacuum.plan import VacuumRequest
from tests.simulation.commands import COMMANDS, Done, Turn, carried_out, rows_of
from tests.simulation.elsewhere import REPLICA, Clones, Replica
from tests.simulation.events import EVENTS, OF_FILES, TAKE_NEXT, Scene
from tests.simulation.oracle import Oracle
from tests.simulation.past import Past, make_past
from tests.simulation.promises import Answer, Intent
from tests.simulation.scenario import AHEAD, CLOCK, CLOCKS_MS, READ, Item, Scenario
from tests.simulation.schedule import START_MS, Crash, Schedule, Step
from tests.simulation.store import Tree, World
from tests.simulation.writers import Writer
from tests.support.builder import StoredFile

_LEAVING = tuple(f": {answer.name.lower()}" for answer in (Answer.CRASHED, Answer.GAVE_UP, Answer.UNKNOWN))
_LATER_SECONDS = 60 * 24 * 3_600
_SOON_MS = 600_000


@dataclass
class Outcome:
    """How a history went."""

    scenario: Scenario
    digest: str
    trace: list[Step]
    violations: list[str]
    answers: Counter[str]
    """Command and answer."""
    codes: Counter[str]
    """Errors of commands, by code."""
    steps: int


class Witness:
    """Tells the oracle of the tree that is at a path what a writer is about to do."""

    def __init__(self, oracle: Callable[[], Oracle | None]) -> None:
        self._find = oracle
        self._oracle: Oracle | None = None

    def intends(self, actor: str, intent: Intent) -> None:
        self._oracle = self._find()
        if self._oracle is not None:
            self._oracle.intends(actor, intent)

    def judge_answer(self, actor: str, answer: Answer) -> None:
        if self._oracle is not None:
            self._oracle.judge_answer(actor, answer)


@dataclass
class History:
    """One run of a scenario."""

    scenario: Scenario
    oracles: dict[int, Oracle] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    lost: dict[tuple[Tree, str], StoredFile] = field(default_factory=dict)
    writing: set[str] = field(default_factory=set)
    """The writers that are about to commit."""
    replica: Replica | None = None
    last: tuple[Item, Done, int, int] | None = None
    """The last command that was done, the number of changes when it began, and when that was."""

    def __post_init__(self) -> None:
        scenario = self.scenario
        self.happens = frozenset(name for item in scenario.items for name in (item.what, item.meanwhile))
        self.schedule = Schedule(f"{scenario.seed} {scenario.order}", scenario.faults)
        self.world = World(self.schedule, is_disk=scenario.is_disk)
        root = "disk://lake" if scenario.is_disk else "objects://lake"
        self.uri = f"{root}/table"
        past: Past = make_past(random.Random(f"past {scenario.seed}"), now_ms=START_MS - 60_000)
        self.past = past
        self._place(Tree("table", dict(past.files)), "table")
        if scenario.has_copy:
            self._place(Tree("copy", dict(past.copy)), "copy")
        if scenario.has_backup:
            self.world.places[f"{root}/backup"] = Tree("backup", dict(past.files))
            execute_change(LogBackup(self.world.storage(f"{root}/log", "")), self._turn("", 0).table())
        if "copy" in self.happens:
            self._watch_replica(Tree(REPLICA))
        if "clone" in self.happens:
            self.world.watchers.append(Clones(f"{root}/table", self.oracles.values))

    def _place(self, tree: Tree, name: str) -> None:
        self.world.places[f"{self.uri.rpartition('/')[0]}/{name}"] = tree
        oracle = Oracle(tree, lambda: self.schedule.time_ms)
        tree.watchers.append(oracle)
        self.oracles[tree.inode] = oracle

    def _watch_replica(self, tree: Tree) -> None:
        self.replica = Replica(tree, self.oracles.values, lambda: self.schedule.time_ms)
        for each in (tree, *(one for one in self.world.places.values() if one.inode in self.oracles)):
            each.watchers.append(self.replica)
        self.world.places[f"{self.uri.rpartition('/')[0]}/{REPLICA}"] = tree

    def play(self) -> Outcome:
        """Let everybody act, and look at what is left."""
        for actor in self.scenario.actors:
            items = [item for item in self.scenario.items if item.actor == actor]
            offset = self.scenario.offsets_ms.get(actor, 0)
            self.schedule.add(actor, lambda items=items: self._act(items), offset_ms=offset)  # type: ignore[misc]
        try:
            self.schedule.run()
            self._finish()
        finally:
            self.world.close()
        found = [f"{one.actor}: {one.message} ({one.invariant})" for o in self.oracles.values() for one in o.violations]
        return Outcome(
            self.scenario,
            self.schedule.digest,
            self.schedule.trace,
            [*found, *self.problems, *([] if self.replica is None else self.replica.problems)],
            self.answers,
            self.codes,
            self.schedule.steps,
        )

    def _act(self, items: list[Item]) -> None:
        for item in items:
            self.schedule.sleep(item.wait_seconds)
            self.schedule.let_call(item.calls)
            self.schedule.note(f"begins {item.what}")
            if self.last is not None and self.last[0].actor == item.actor:
                self.last = None
            try:
                self._do(item)
            except Crash:
                self.answers[f"{item.what}: crashed"] += 1
                self.schedule.revive()

    def _do(self, item: Item) -> None:
        chance = random.Random(item.chance)
        if item.actor.startswith("writer"):
            self._write(item, chance)
        elif item.what in COMMANDS:
            self._command(item)
        elif item.what in EVENTS:
            self._happen(item.what, chance)
        elif item.what == CLOCK:
            others = [actor for actor in self.scenario.actors if actor.startswith("admin")]
            if others:
                self.schedule.let_look(lambda: not self.writing, of_files=True)
                self.schedule.move_clock(chance.choice(others), chance.choice(CLOCKS_MS))
            self._note_clocks()
        elif item.what == AHEAD:
            for actor in self.scenario.actors:
                self.schedule.move_clock(actor, 864_000_000 if actor.startswith("admin") else 0)
            self._note_clocks()
        elif item.what == READ:
            self._read(item)
        else:
            self._write(item, chance)

    def _happen(self, event: str, chance: random.Random) -> None:
        self.schedule.let_land()
        self.schedule.let_look(lambda: not self.writing, takes_next=event in TAKE_NEXT, of_files=event in OF_FILES)
        EVENTS[event](Scene(self.world, self.uri, chance, self.lost))
        if not self.scenario.is_disk or event in OF_FILES:  # a look counts for seconds, one at files for a minute
            self.schedule.jump(MAX_FILE_CHECK_AGE_SECONDS + 1)

    def _command(self, item: Item) -> None:
        def asks() -> None:
            self.schedule.sleep(item.ask_seconds / 2)
            if item.meanwhile:
                self.schedule.note(f"meanwhile {item.meanwhile}")
            if item.meanwhile in EVENTS:
                self._happen(item.meanwhile, random.Random(item.chance))
            elif item.meanwhile:
                self._command(Item(f"{item.actor}'s colleague", item.meanwhile, item.chance))
            self.schedule.sleep(item.ask_seconds / 2)

        turn = self._turn(item.actor, item.chance)
        before, begun_ms = {id(oracle): oracle.ticks for oracle in self.oracles.values()}, self.schedule.time_ms
        done = carried_out(item.what, turn, oracle_of=self._oracle_of, asks=asks, is_standing=item.is_standing)
        is_final = COMMANDS[item.what].is_again_nothing and not done.leaves_rest
        if done.answer is Answer.DONE and is_final and done.oracle is not None:
            self.last = item, done, before.get(id(done.oracle), 0), begun_ms
        if done.answer is Answer.UNKNOWN:
            self.schedule.let_land()
        self.answers[f"{item.what}: {done.answer.name.lower()}"] += 1
        if done.code is not None:
            self.codes[done.code] += 1
        if done.bug is not None:
            self.problems.append(f"{item.actor}: {item.what} failed with {done.bug!r}")

    def _write(self, item: Item, chance: random.Random) -> None:
        storage: Any = self.world.storage(self.uri, item.actor)
        storage = storage.bind_to_directory() if self.scenario.is_disk else storage
        writer = Writer(self.schedule, storage, chance, name=item.actor, witness=Witness(self._oracle))
        self.writing.add(item.actor)  # it does not look again at what it has read, as the product does
        try:
            answer: Answer = getattr(writer, item.what)()
        finally:
            self.writing.discard(item.actor)
        if answer is Answer.UNKNOWN:
            self.schedule.let_land()
        self.answers[f"writer {item.what}: {answer.name.lower()}"] += 1
        self.schedule.note(answer.name)

    def _read(self, item: Item) -> None:
        turn = self._turn(item.actor, item.chance)
        try:
            version, rows = rows_of(turn.table())
        except DeltacliError as fault:
            self.codes[f"read {fault.code}"] += 1
            return
        if not self._is_shaken and rows != self._known().rows(version):
            self.problems.append(f"{item.actor}: version {version} was read with other rows")

    def _note_clocks(self) -> None:
        for oracle in self.oracles.values():
            oracle.clocks_moved()

    @property
    def _is_shaken(self) -> bool:
        return bool(self.happens & EVENTS.keys())

    def _turn(self, actor: str, chance: int) -> Turn:
        return Turn(self.world, self.uri, actor, random.Random(chance), self._known(), self.happens)

    def _oracle(self) -> Oracle | None:
        tree = self.world.places.get(self.uri)
        return None if tree is None else self.oracles.get(tree.inode)

    def _known(self) -> Oracle:
        oracle = self._oracle()
        assert oracle is not None
        return oracle

    def _oracle_of(self, storage: Any) -> Oracle | None:
        """The oracle of the tree that a store is bound to."""
        place = getattr(storage, "place", None)
        return self._oracle() if place is None else self.oracles.get(place[2])

    def _finish(self) -> None:
        self._do_again()
        self._clean_up()
        for oracle in self.oracles.values():
            oracle.finish()
        oracle = self._known()
        turn = self._turn("", 0)
        try:
            version, rows = rows_of(turn.table())
        except DeltacliError as fault:
            if not self._is_shaken:
                self.problems.append(f"in the end the table cannot be read: {fault}")
            return
        except Exception as fault:  # noqa: BLE001  (a violation)
            self.problems.append(f"in the end reading fails with {fault!r}")
            return
        if version in oracle.truth and rows != oracle.rows(version):
            self.problems.append(f"in the end version {version} is read with other rows")

    def _do_again(self) -> None:
        """Do the last command again, where nobody acted since and clocks are right: there is nothing to do, unless
        it asked for long, or others waited, while files grew old.
        """
        if self.last is None or {CLOCK, AHEAD} & self.happens:
            return
        item, done, begun, begun_ms = self.last
        if (
            self.schedule.time_ms - begun_ms > _SOON_MS
            or done.oracle is None
            or done.oracle is not self._oracle()
            or not done.oracle.is_alone(item.actor, begun)
        ):
            return
        turn = self._turn("again", item.chance)
        found = carried_out(item.what, turn, oracle_of=self._oracle_of, again=done.change)
        if found.bug is not None:
            self.problems.append(f"{item.what} fails with {found.bug!r} when it is done again")

    def _clean_up(self) -> None:
        """Vacuum after a crash, when all that is not needed is old."""
        oracle = self._known()
        if oracle.newest not in oracle.truth or not any(answer.endswith(_LEAVING) for answer in self.answers):
            return
        self.schedule.jump(_LATER_SECONDS)
        change, table = VacuumChange(VacuumRequest(max_delete="100%")), self._turn("cleaner", 0).table()
        answer = Answer.DONE
        oracle.intends("cleaner", Intent("vacuum", deletes=True, cleans=True))
        try:
            execute_change(change, table)
        except DeltacliError:
            answer = Answer.PARTLY
        except Exception as fault:  # noqa: BLE001  (a violation)
            self.problems.append(f"in the end vacuum fails with {fault!r}")
            answer = Answer.PARTLY
        oracle.judge_answer("cleaner", answer)


def play(scenario: Scenario) -> Outcome:
    """Play a scenario."""
    return History(scenario).play()
