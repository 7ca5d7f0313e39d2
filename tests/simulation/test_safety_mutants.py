"""The mutants of the safety code fit the code as it is, and one of them is found."""

from __future__ import annotations

import pytest

from tests.simulation.commands import COMMANDS
from tests.simulation.events import EVENTS
from tests.simulation.scenario import AHEAD, CLOCK, SLOTS, WRITES
from tools.safety_mutants import Mutant, Trial, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
QUICK = "removes-of-winners"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_each_text_of_a_mutant_is_in_its_module_once(mutant: Mutant) -> None:
    for name, text in mutant.texts().items():
        compile(text, name, "exec")


def test_mutants_are_looked_for_by_what_there_is() -> None:
    known = {*COMMANDS, *EVENTS, *SLOTS, *WRITES, CLOCK, AHEAD}

    links = {link for one in MUTANTS.values() for link in (*one.commands, *one.events, *one.chain)}

    assert set() == {name for link in links for name in link.split("~")} - known


def test_a_mutant_is_found() -> None:
    found = Trial(MUTANTS[QUICK], range(1, 31)).run()

    assert found is not None
    assert "removed files were live" in found.violation


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in MUTANTS if name.startswith("A")])
def test_what_lost_data_once_is_found(name: str) -> None:
    assert Trial(MUTANTS[name], range(1, 501)).run() is not None
