"""From a seed to a history: a past, who acts, what happens from outside, what goes wrong.

Free search takes a few commands and events at a time (a swarm), so that a history has room for each; chains are made
by a grammar, in which each command consumes what the one before made.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.simulation.commands import COMMANDS
from tests.simulation.events import EVENTS, OF_DISKS
from tests.simulation.schedule import OF_CALLS, OF_CREATIONS, OF_WRITES, Fault

READ = "read"
CLOCK, AHEAD = "clock", "clock-ahead"
"""The clock of an admin goes wrong; days ahead only where that is asked for, because a plan without START trusts it."""
WRITES = (
    *3 * ("append",),
    "delete",
    "update",
    "overwrite",
    "rewrite",
    "act",
    "act",
    "checkpoint",
    "clean_log",
    "add_column",
)
_ASKS = (0.05, 1.0, 4.0, 20.0, 130.0, 3_600.0, 108_000.0)
_WAITS = (0.0, 0.0, 0.0, 0.1, 2.0, 60.0, 4_000.0)
CLOCKS_MS = (-86_400_000, -600_000, -20_000, 60_000)
"""Not far ahead: nothing shows a machine that the time has not come."""
_CALLS = 60
_AMONG_CALLS = 0.8
"""The share of events that happen at a call of somebody; the others happen at a time."""
_CHAINS = 0.3
"""The share of chains."""
_ASIDE = 0.1
"""The share of their commands that something happens to between question and answer."""
_MEANWHILE = tuple(name for name in (*EVENTS, *COMMANDS) if name not in OF_DISKS)


class Item(NamedTuple):
    """What somebody does: a command, a step of a writer, or something that happens from outside."""

    actor: str
    what: str
    chance: int
    """The seed of its own choices."""
    wait_seconds: float = 0.0
    ask_seconds: float = 0.05
    calls: int = 0
    """So many calls of others it lets pass."""
    is_standing: bool = True
    meanwhile: str = ""
    """The event that happens between question and answer, or the command that a colleague carries out then."""

    def __str__(self) -> str:
        ask = f", asks for {self.ask_seconds:g} s" if self.what in COMMANDS else ""
        consent = "" if self.is_standing or self.what not in COMMANDS else ", for this plan only"
        meanwhile = f", meanwhile {self.meanwhile}" if self.meanwhile else ""
        return f"{self.actor}: {self.what} after {self.wait_seconds:g} s{ask}{consent}{meanwhile}"


@dataclass(frozen=True)
class Scenario:
    """A history before it happens. What it lacks, others do not miss."""

    seed: int
    is_disk: bool
    items: tuple[Item, ...]
    faults: tuple[Fault, ...]
    offsets_ms: Mapping[str, int]
    """How far the clocks of actors are ahead."""
    has_copy: bool
    has_backup: bool
    order: int = 0
    """Another schedule of the same items."""

    @property
    def actors(self) -> list[str]:
        """Who acts, in order."""
        return list(dict.fromkeys(item.actor for item in self.items))

    def without(self, *items: Item) -> Scenario:
        """The same without some items."""
        return replace(self, items=tuple(item for item in self.items if item not in items))


COMPANIONS = {"undo": "repair", "purge": "vacuum-quarantine"}
"""Commands that have something to do only after others."""
SLOTS: Mapping[str, Sequence[str]] = {
    "damage": (
        "lose-file",
        "lose-commit",
        "lose-newest",
        "cut-file",
        "cut-checkpoint",
        "cut-commit",
        "roll-back",
        "lose-hint",
    ),
    "mend": ("undelete", "repair", "repair-saved", "log-restore", "restore-from"),
    "maintain": (
        "expire",
        "vacuum",
        "optimize",
        "checkpoint",
        "compact",
        "append",
        "delete",
        "features-drop",
        "zorder",
    ),
    "commit": ("properties", "alter", "optimize", "features-add", "vacuum", "restore"),
    "after": ("undo", "restore", "bring-back", "undelete", "purge", "repair", "vacuum", "optimize"),
}
CHAINS: Sequence[Sequence[str]] = (
    ("copy-anew", "damage", "mend", "maintain", "after"),
    ("backup", "append", "lose-commit", "log-restore", "maintain", "after"),
    ("backup", "append", "lose-newest", "log-restore", "maintain"),
    ("checkpoint", "cut-checkpoint", "repair", "checksum", "expire", "undo"),
    ("checkpoint", "cut-checkpoint", "repair", "maintain", "undo"),
    ("delete", "vacuum-quarantine", "damage", "undelete", "maintain", "purge"),
    ("optimize", "vacuum", "restore", "maintain", "vacuum"),
    ("optimize-purge", "restore", "maintain", "restore"),
    ("copy-anew", "append", "roll-back", "append", "undelete", "maintain"),
    ("fork", "damage", "mend", "maintain", "after"),
    ("fork", "append", "lose-newest", "mend", "maintain"),
    ("append", "checkpoint", "expire", "lose-hint", "restore", "maintain"),
    ("compact", "lose-commit", "mend", "maintain", "after"),
    ("checksum", "damage", "mend", "after", "maintain"),
    ("features-add", "delete", "features-drop", "maintain", "after"),
    ("alter", "append", "restore", "maintain", "after"),
    ("copy-anew", "cut-commit", "repair", "append", "undo", "maintain"),
    ("fork", "backup-copy", "append", "lose-newest", "log-restore", "maintain"),
    ("compact", "lose-newest", "commit", "mend", "maintain"),
    ("fork", "lose-log", "mend~bring-back", "maintain"),
    ("overwrite", "vacuum~commit", "maintain", "after"),
    ("copy", "maintain", "append", "copy", "maintain", "copy"),
    ("overwrite", "copy~commit", "append", "copy", "after", "copy"),
    ("copy", "append", "damage", "mend", "copy"),
    ("clone", "overwrite", "vacuum", "maintain", "vacuum"),
    ("overwrite", "clone~vacuum", "maintain", "vacuum"),
    ("overwrite", "vacuum~clone", "clone", "after", "vacuum"),
)
"""Orders in which each command consumes what the one before made; the names of slots stand for one of theirs. What
comes after `~` happens between question and answer.
"""


def make_scenario(
    seed: int, *, commands: Sequence[str] = (), events: Sequence[str] = (), chain: Sequence[str] = ()
) -> Scenario:
    """The history of a seed; only with some commands and events, or of one chain, where they are given."""
    chance = random.Random(f"scenario {seed}")
    is_disk = chance.random() < 0.6
    if chain or not (commands or events or chance.random() >= _CHAINS):
        items = _chain(chance, chain or chance.choice(CHAINS), events)
    else:
        items = _swarm(chance, commands or (*COMMANDS,), events, is_disk=is_disk)
    actors = [*dict.fromkeys(item.actor for item in items)]
    happenings = {item.what for item in items}
    return Scenario(
        seed,
        is_disk,
        tuple(item for item in items if is_disk or item.what not in OF_DISKS),
        tuple(_faults(chance, [one for one in actors if one != "world"])),
        {name: chance.choice((-100_000, -400, 0, 0, 90, 2_000)) for name in actors if name != "world"},
        has_copy=bool({*OF_DISKS} & happenings) or chance.random() < 0.5,
        has_backup=chance.random() < 0.6,
    )


def _swarm(chance: random.Random, commands: Sequence[str], events: Sequence[str], *, is_disk: bool) -> list[Item]:
    chosen = chance.sample(commands, min(len(commands), chance.randint(1, 5)))
    chosen += [COMPANIONS[name] for name in chosen if name in COMPANIONS]
    possible = events or [name for name in EVENTS if is_disk or name not in OF_DISKS]
    happenings = chance.sample(possible, min(len(possible), chance.choice((1, 1, 2, 3))))
    items: list[Item] = []
    for admin in range(1, chance.choice((1, 1, 2, 2, 3)) + 1):
        for _ in range(chance.choice((1, 1, 2, 3))):
            items.append(_item(chance, f"admin{admin}", chance.choice(chosen)))
    for writer in range(1, chance.choice((0, 1, 1, 2)) + 1):
        for _ in range(chance.choice((1, 2, 3))):
            items.append(_item(chance, f"writer{writer}", chance.choice(WRITES)))
    if chance.random() < 0.15:
        items.append(_item(chance, "reader", READ))
    for _ in range(chance.choice((0, 1, 1, 2) if not events else (1, 2))):
        items.append(_item(chance, "world", chance.choice(happenings)))
    if chance.random() < 0.1:
        items.append(_item(chance, "world", CLOCK))
    return items


def _chain(chance: random.Random, chain: Sequence[str], events: Sequence[str]) -> list[Item]:
    items = []
    for link in chain:
        name, meanwhile = (chance.choice(SLOTS.get(one, (one,))) for one in (*link.split("~"), "")[:2])
        if not meanwhile and name in COMMANDS and chance.random() < _ASIDE:
            meanwhile = chance.choice(_MEANWHILE)
        wait = chance.choice((0.0, 5.0, 4_000.0, 8 * 86_400.0))
        items.append(_item(chance, "admin1", name)._replace(wait_seconds=wait, meanwhile=meanwhile))
    if events or chance.random() < 0.1:
        items.append(_item(chance, "world", chance.choice(events or [*EVENTS])))
    if chance.random() < 0.2:
        items.append(_item(chance, "writer1", chance.choice(WRITES)))
    if chance.random() < 0.2:
        items.append(_item(chance, "admin2", chance.choice([*COMMANDS])))
    return items


def _item(chance: random.Random, actor: str, what: str) -> Item:
    seed, wait, ask, is_standing = (
        chance.getrandbits(32),
        chance.choice(_WAITS),
        chance.choice(_ASKS),
        chance.random() < 0.7,
    )
    calls = 0
    if actor == "world" and chance.random() < _AMONG_CALLS:
        wait, calls = 0.0, chance.choice((chance.randrange(_CALLS), chance.randrange(3 * _CALLS)))
    return Item(actor, what, seed, wait, ask, calls, is_standing)


def _faults(chance: random.Random, actors: Sequence[str]) -> list[Fault]:
    found = []
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2)) if actors else 0):
        actor = chance.choice(actors)
        match chance.choice(("call", "write", "write", "creation")):
            case "call":
                found.append(Fault(actor, chance.randint(1, 2 * _CALLS), chance.choice(OF_CALLS), False))
            case "write":
                found.append(Fault(actor, chance.randint(1, _CALLS // 4), chance.choice(OF_WRITES)))
            case _:
                found.append(Fault(actor, chance.randint(1, _CALLS // 12), chance.choice(OF_CREATIONS)))
    return found
