"""The classes of what is at stake: each rule in one of them at most, and by its name."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import CATALOGUE, Level, Severity
from deltacli.rules.framework.choice import CHECK_CRASHED
from deltacli.rules.framework.repairs import RULES, SAYS, UNREADABLE, UNREADABLE_FILES, Risk, risk_of
from tests.support.material import REFERENCE

NAMED = [rule for rules in RULES.values() for rule in rules.split()]


def test_a_rule_is_of_one_class() -> None:
    assert list(Risk) == list(RULES) == list(SAYS)
    assert [] == [rule for rule, count in Counter(NAMED).items() if count > 1]


def test_the_classes_name_rules_that_there_are() -> None:
    text = (REFERENCE.require() / "delta-protocol.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9]+\.[a-z0-9-]+)` \| [EWI] \|", text, re.M)

    assert set() == set(NAMED) - set(rows) - set(CATALOGUE.rules)


def test_no_class_names_a_rule_that_only_observes() -> None:
    infos = {rule.id for rule in CATALOGUE.rules.values() if rule.severity is Severity.INFO}

    assert set() == infos & set(NAMED)


def test_an_unreadable_table_is_reported_as_an_error() -> None:
    found = {CATALOGUE.rules[rule].severity for rule in UNREADABLE & CATALOGUE.rules.keys()}

    assert {Severity.ERROR} == found


@pytest.mark.parametrize(
    ("rule", "severity", "risk"),
    [
        ("log.gap", Severity.ERROR, Risk.UNREADABLE),
        ("log.gap", Severity.INFO, None),
        ("data.shared-file", Severity.WARNING, Risk.FILES_DELETED),
        ("hint.ahead-of-log", Severity.ERROR, Risk.READERS_FAIL),
        ("log.mtime-order", Severity.WARNING, None),
    ],
)
def test_the_risk_follows_from_rule_and_severity(rule: str, severity: Severity, risk: Risk | None) -> None:
    assert risk is risk_of(CATALOGUE.rules[rule].at(Place(""), "", severity=severity))


def test_a_failed_check_implies_nothing_about_the_table() -> None:
    assert risk_of(CHECK_CRASHED.at(Place(""), "")) is None


def test_what_only_files_show_is_of_levels_that_list_or_open_them() -> None:
    of_files = {rule for rule in UNREADABLE if CATALOGUE.rules[rule].level is not Level.LOG}

    assert of_files == UNREADABLE_FILES
