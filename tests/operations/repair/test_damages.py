"""The 27 damages on which tools are compared, and every corruption of the rules that a repair acts on."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deltacli.core.errors import NotATable, ShellSyntax, use_hint_syntax
from deltacli.rules.framework.base import CATALOGUE, Severity
from deltacli.rules.framework.repairs import StepKind, repair_rows
from tests.rules.corruptions import DAMAGES, Damage, load_all
from tests.support.damaged_tables import LAST, TABLE_DAMAGES, DamagedTable, TableDamage
from tests.support.repairing import open_damaged, readable_rows, repair_and_check, request

load_all()
STEPS = repair_rows()
CORRUPTIONS = [damage for damage in DAMAGES if STEPS[damage.rule].steps]
FIRST_OF_RULE = {damage.rule: damage for damage in reversed(CORRUPTIONS)}

GIVEN_UP = {"lose_a_data_file": 70, "tear_a_data_file": 70}
"""Damages of which no part of the table knows the rows -> the rows that are left."""
ONLY_FROM_A_SOURCE = {
    "lose_a_commit_after_the_checkpoint",
    "tear_the_last_commit",
    "tear_a_middle_commit",
    "empty_a_commit",
    "lose_the_head",
    "lose_the_log",
}
DETERMINED = {"lose_a_commit_before_the_checkpoint"}
"""Damages of commits that the rest of the log determines."""
OF_CACHES = {
    "empty_the_hint",
    "garble_the_hint",
    "hint_past_the_newest_checkpoint",
    "empty_the_checkpoint",
    "tear_the_checkpoint",
    "lose_a_part",
}
OUTCOMES = Path(__file__).with_name("outcomes.json")
"""What becomes of each corruption without a source, as docs/repair.md says. `python -m` of this module measures it."""
_KINDS_OF_LEFT = {
    "no source was named": "left without a source",
    "its rows cannot be read": "left without rows",
}
IN_COMMITS = {one.name for one in TABLE_DAMAGES} - ONLY_FROM_A_SOURCE - DETERMINED - OF_CACHES - GIVEN_UP.keys()
"""Damages that a writer committed: a log without them is another history."""


def test_every_rule_has_a_row_with_steps_or_a_reason() -> None:
    assert set(CATALOGUE.rules) == set(STEPS)
    assert [] == [rule for rule, row in STEPS.items() if bool(row.steps) == bool(row.reason)]
    assert [] == [rule for rule, row in STEPS.items() if bool(row.steps) != (row.family is not None)]
    assert 60 < sum(bool(row.steps) for row in STEPS.values())


def test_what_gives_rows_up_is_the_last_step_of_its_rule() -> None:
    assert [] == [rule for rule, row in STEPS.items() if StepKind.REMOVE_REFERENCE in row.steps[:-1]]


@pytest.mark.parametrize(
    "damage", [one for one in TABLE_DAMAGES if one.name not in IN_COMMITS], ids=lambda damage: damage.name
)
def test_a_damage_is_repaired_from_a_copy_without_loss(damage: TableDamage, tmp_path: Path) -> None:
    table = DamagedTable()
    healthy = table.write(tmp_path / "copy")
    damage.apply(damaged := DamagedTable())
    root = damaged.write(tmp_path / "t")
    rows = readable_rows(open_damaged(healthy))

    done = repair_and_check(root, request(sources=[healthy], accept_loss=False))

    assert rows == readable_rows(open_damaged(root))
    if damage.name in ONLY_FROM_A_SOURCE | DETERMINED | GIVEN_UP.keys():
        assert {StepKind.RECOVER} == {step.action for step in done.steps}
        assert LAST == done.plan.version


@pytest.mark.parametrize("damage", TABLE_DAMAGES, ids=lambda damage: damage.name)
def test_without_a_copy_nothing_is_invented(damage: TableDamage, tmp_path: Path) -> None:
    damage.apply(damaged := DamagedTable())
    root = damaged.write(tmp_path / "t")
    before = readable_rows(open_damaged(root))
    rows = readable_rows(open_damaged(DamagedTable().write(tmp_path / "healthy")))
    if damage.name == "lose_the_log":
        with pytest.raises(NotATable):
            repair_and_check(root, request())
        return

    done = repair_and_check(root, request())

    after = readable_rows(open_damaged(root))
    assert before <= after <= rows
    if damage.name in GIVEN_UP:
        assert GIVEN_UP[damage.name] == after.total()
        assert (1, 10) == (done.loss.files, done.loss.rows)
    else:
        assert 0 == done.loss.files
    if damage.name in DETERMINED:
        assert {StepKind.REBUILD} == {step.action for step in done.steps}
        assert rows == after
    if damage.name in ONLY_FROM_A_SOURCE:
        assert not done.steps
        assert "no source was named" in done.plan.unrepaired[0].reason


@pytest.mark.quartered
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(one, id=f"{one.rule}-{one.name}", marks=() if FIRST_OF_RULE[one.rule] is one else pytest.mark.long)
        for one in CORRUPTIONS
    ],
)
def test_a_corruption_is_repaired_or_left_as_the_page_says(damage: Damage, tmp_path: Path) -> None:
    recorded = json.loads(OUTCOMES.read_text(encoding="utf-8"))

    assert recorded[damage.rule][damage.name] == outcome_of(damage, tmp_path / "t")


def outcome_of(damage: Damage, root: Path) -> str:
    """What a repair without a source does about a corruption."""
    table = damage.make()
    table.write(root).mkdir(exist_ok=True)
    try:
        done = repair_and_check(root, request(level=table.level))
    except NotATable:
        return "left without a source: there is no log"
    acted = [step for step in done.steps if step.rule == damage.rule]
    if StepKind.REMOVE_REFERENCE in {step.action for step in acted}:
        return "given up: " + ", ".join(f"{lost.rows} rows" for step in acted if (lost := step.loses))
    if acted:
        return f"repaired: {acted[0].action}"
    left = [one.reason for one in done.plan.unrepaired if one.rule == damage.rule]
    assert left or CATALOGUE.rules[damage.rule].severity is Severity.INFO, "only an observation is left without a word"
    why = left[0] if left else "no reader is misled"
    return f"{_KINDS_OF_LEFT.get(why.partition(';')[0].partition(':')[0], 'left')}: {why}"


def main() -> None:
    outcomes: dict[str, dict[str, str]] = {}
    for damage in CORRUPTIONS:
        with TemporaryDirectory() as place:
            outcomes.setdefault(damage.rule, {})[damage.name] = outcome_of(damage, Path(place) / "t")
    OUTCOMES.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with use_hint_syntax(ShellSyntax()):
        main()
