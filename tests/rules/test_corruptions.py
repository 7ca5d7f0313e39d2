"""Each rule reports its own damage, alone; the undamaged table is silent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.log.segment import Place
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.storage import AllowedPrefixes, open_storage
from tests.rules.corruptions import DAMAGES, Damage, load_all
from tests.rules.data_table import DataTable
from tests.rules.table_builder import NOW_MS, TableBuilder
from tests.support.validating import validate_table

load_all()


def inspect(root: Path, level: str = "storage") -> Validation:
    everywhere = AllowedPrefixes(directories=("/",))
    return validate_table(open_storage(str(root)), EmbeddedEngine(), level=level, now_ms=NOW_MS, allowed=everywhere)


def rules_of(found: Validation) -> set[str]:
    return {finding.rule.id for finding in found.findings}


def damages() -> list[Any]:  # Any: a ParameterSet, which pytest does not name
    """Return the first damage of each rule, of which the suite has half, and the others, of which it has a quarter."""
    cases, seen = [], set[str]()
    for damage in DAMAGES:
        marks = [pytest.mark.quartered if damage.rule in seen else pytest.mark.halved]
        cases.append(pytest.param(damage, id=f"{damage.rule}-{damage.name}", marks=marks))
        seen.add(damage.rule)
    return cases


@pytest.mark.parametrize("make", [TableBuilder, DataTable])
def test_the_undamaged_table_is_silent(make: type[TableBuilder], tmp_path: Path) -> None:
    found = inspect(make().write(tmp_path / "t"), make.level)

    assert [] == [(finding.rule.id, finding.message) for finding in found.findings]


@pytest.mark.parametrize("damage", damages())
def test_a_damage_is_reported_and_nothing_else(damage: Damage, tmp_path: Path) -> None:
    table = damage.make()
    found = inspect(table.write(tmp_path / "t"), table.level)

    shown = "\n".join(f"{f.severity} {f.rule.id} {f.place} {f.message}" for f in found.findings)
    assert {damage.rule} | damage.also == rules_of(found), shown
    assert [] == [finding.place for finding in found.findings if not is_consistent(finding.place)]


def is_consistent(place: Place) -> bool:
    """False for a place in a commit that gives the version of another one."""
    commit = re.fullmatch(r"_delta_log/([0-9]{20})[.]json", place.path)
    return commit is None or place.version in (int(commit[1]), None)


@pytest.mark.parametrize("rule", ["metadata.partition-column-type", "variant.partition-or-cluster"])
def test_values_of_a_partition_column_without_a_text_form_are_refused(rule: str, tmp_path: Path) -> None:
    """No text is an array, a struct or a variant; the rows of the other files are checked."""
    damages = [damage for damage in DAMAGES if damage.rule == rule]

    for number, damage in enumerate(damages):
        found = inspect(damage.make().write(tmp_path / str(number)), "data")
        assert rule in rules_of(found)
        assert "validate.check-crashed" not in rules_of(found)
