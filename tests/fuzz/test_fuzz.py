"""The fuzz targets hold for two hundred inputs, the same ones every time; and the engine notices when one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.run import run_target
from fuzz.targets import TARGETS

INPUTS = 200


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_survives_hostile_inputs(target: str, tmp_path: Path) -> None:
    outcome = run_target(target, tmp_path, inputs=INPUTS)

    assert (INPUTS, []) == (outcome.inputs, sorted(place.read_text() for place in tmp_path.glob("*.txt")))


@pytest.mark.long
def test_a_fault_a_death_and_a_hang_are_findings_and_their_inputs_are_kept(tmp_path: Path) -> None:
    """
    The first worker raises on one input and dies of the next; its successors draw from the same six until a hang.
    """
    outcome = run_target("tests.fuzz.dying", tmp_path, inputs=40, deadline=10)

    assert 3 == outcome.findings
    assert {b"raise", b"die", b"hang"} == {place.read_bytes() for place in tmp_path.glob("*.bin")}
