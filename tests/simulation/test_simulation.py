"""Histories from seeds: each is the same whenever it is played, and nothing is wrong about it.

`python3 dev.py simulate` plays more of them, and tells one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from deltacli.operations.checkpoint.checkpoint import Checkpoint, CheckpointRequest
from tests.simulation import history
from tests.simulation.commands import COMMANDS, Command
from tests.simulation.events import EVENTS
from tests.simulation.found import FOUND, Found
from tests.simulation.history import play
from tests.simulation.running import seeds_of_night
from tests.simulation.scenario import CHAINS, SLOTS, Item, Scenario, make_scenario
from tests.simulation.schedule import Actor, Fault, FaultKind
from tests.simulation.shrink import shrunk
from tests.simulation.story import told

SEEDS = 300
PARTS = 6
"""The seeds are played in so many tests, which different processes may run."""
_TWICE = 10
_OFTEN = 60


@pytest.mark.long(turns=False)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_wrong_about_any_history(part: int) -> None:
    for seed in range(1 + part, SEEDS + 1, PARTS):
        outcome = play(make_scenario(seed))
        assert [] == outcome.violations, "\n".join(told(shrunk(outcome)))


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.what)
def test_what_was_found_goes_right(found: Found) -> None:
    outcome = play(found.scenario)

    assert [] == outcome.violations, "\n".join(told(outcome))


@pytest.mark.parametrize("seed", [107, 743, 100_191, 100_444, 101_007])
def test_copies_and_clones_go_right_in_a_world_that_changes(seed: int) -> None:
    outcome = play(make_scenario(seed, commands=("copy", "clone")))

    assert [] == outcome.violations, "\n".join(told(shrunk(outcome)))


@pytest.mark.halved
@pytest.mark.parametrize("count", [_TWICE, pytest.param(_OFTEN, marks=pytest.mark.long)])
def test_a_seed_has_the_same_history_in_every_process(count: int) -> None:
    """Byte for byte, whatever Python's hashes are."""
    found = [_digests(count, hash_seed) for hash_seed in (1, 4_242)]

    assert count == len(found[0])
    assert found[0] == found[1]


def _digests(count: int, hash_seed: int) -> list[str]:
    code = (
        "from tests.simulation.history import play\n"
        "from tests.simulation.scenario import make_scenario\n"
        f"for seed in range({count}):\n"
        "    print(seed, play(make_scenario(seed)).digest)\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


def test_no_seed_is_played_in_two_nights_or_in_the_gate() -> None:
    nights = [seeds_of_night(date(2026, 12, day)) for day in (30, 31)] + [seeds_of_night(date(2027, 1, 1))]

    assert [one.stop for one in nights[:-1]] == [one.start for one in nights[1:]]
    assert nights[0].start > SEEDS


def test_what_a_crash_leaves_has_to_be_found_by_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    after_first_write = Fault("admin1", 1, FaultKind.CRASH_AFTER)
    scenario = Scenario(1, False, (Item("admin1", "zorder", 7),), (after_first_write,), {}, False, False)
    assert [] == play(scenario).violations

    monkeypatch.setattr(history, "execute_change", lambda *_: None)

    assert any("vacuum is done and left" in one for one in play(scenario).violations)


def test_a_second_run_must_not_do_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    forced = Command(lambda _: Checkpoint(CheckpointRequest(force=True)), COMMANDS["checkpoint"].intends)
    monkeypatch.setitem(COMMANDS, "checkpoint", forced)

    outcome = play(Scenario(1, False, (Item("admin1", "checkpoint", 7),), (), {}, False, False))

    assert any("a second time" in one for one in outcome.violations)


@pytest.mark.parametrize(
    ("call", "since_look", "takes_next", "acts"),
    [
        ("t: delete a.parquet", 99, False, True),
        ("t: create _delta_log/00000000000000000007.json [1 2]", 99, False, True),
        ("t: create _delta_log/00000000000000000007.json [1 2]", 1, True, False),
        ("t: create _delta_log/00000000000000000007.checkpoint.parquet [1 2]", 1, True, True),
        ("t: list _delta_log from 0", 1, False, False),
        ("t: read a.parquet", 3, False, True),
        ("t: read a.parquet", 4, False, False),
    ],
)
def test_nothing_happens_between_a_look_and_an_act(call: str, since_look: int, takes_next: bool, acts: bool) -> None:
    actor = Actor("admin", lambda: None, random.Random(1), call=call, since_look=since_look)

    assert acts == actor.acts_by_look(takes_next=takes_next, of_files=False)


def test_a_look_at_the_log_is_none_at_the_files() -> None:
    look = "t: stat _delta_log/00000000000000000007.json"
    acts = {of: Actor("admin", lambda: None, random.Random(1), call=look, since_look=2) for of in (True, False)}

    assert {True: True, False: False} == {
        of: actor.acts_by_look(takes_next=False, of_files=of) for of, actor in acts.items()
    }


def test_chains_are_made_of_what_there_is() -> None:
    links = {link for chain in (*CHAINS, *SLOTS.values()) for link in chain}
    names = {name for link in links for name in link.split("~")} - SLOTS.keys()

    assert {"append", "delete", "overwrite"} == names - COMMANDS.keys() - EVENTS.keys()


def test_a_story_tells_who_did_what() -> None:
    outcome = play(make_scenario(1))

    text = "\n".join(told(outcome, is_whole=True))

    assert all(str(item) in text for item in outcome.scenario.items)
    assert f"digest {outcome.digest}" in text
    assert text == "\n".join(told(play(make_scenario(1)), is_whole=True))
