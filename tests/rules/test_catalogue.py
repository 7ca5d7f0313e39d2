"""The catalogue is complete, its rules are distinct, and each rule is proven by a damage."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pkgutil import walk_packages

from deltacli import rules
from deltacli.rules.checkpoints import contents as checkpoint_contents
from deltacli.rules.framework.base import CATALOGUE, Area, Level, Rule, Severity
from deltacli.rules.log import commit_lines
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from tests.rules.corruptions import DAMAGES, load_all
from tests.support.material import REFERENCE

RULES = CATALOGUE.rules
BY_READERS = {
    rule.id
    for module in (commit_lines, checkpoint_contents)
    for rule in vars(module).values()
    if isinstance(rule, Rule)
}
"""Rules that the readers of lines and checkpoints report themselves, on their way."""

ADDED = {
    "checkpoint.add-column-missing": (Severity.ERROR, Level.LOG),
    "storage.hadoop-checksum": (Severity.ERROR, Level.STORAGE),
    "checkpoint.several-forms": (Severity.ERROR, Level.LOG),
    "action.number-spelling": (Severity.ERROR, Level.LOG),
    "path.colon": (Severity.ERROR, Level.LOG),
    "log.name-mistaken": (Severity.ERROR, Level.LOG),
    "schema.no-columns": (Severity.ERROR, Level.LOG),
    "commit.lone-surrogate": (Severity.ERROR, Level.LOG),
    "stats.records-disagree": (Severity.ERROR, Level.LOG),
    "mapping.file-with-logical-names": (Severity.ERROR, Level.FOOTERS),
    "mapping.file-with-other-names": (Severity.WARNING, Level.FOOTERS),
    "partition.kernel-unreadable": (Severity.WARNING, Level.LOG),
    "rowtracking.materialised-beyond-mark": (Severity.ERROR, Level.DATA),
    "data.manifest-stale": (Severity.WARNING, Level.STORAGE),
    "path.file-uri-form": (Severity.WARNING, Level.LOG),
    "dv.names-nothing": (Severity.ERROR, Level.LOG),
    "catalog.diverged": (Severity.ERROR, Level.LOG),
    "catalog.staged-missing": (Severity.WARNING, Level.LOG),
    "stats.text-too-long": (Severity.WARNING, Level.LOG),
    "schema.collation-of-another": (Severity.WARNING, Level.LOG),
    "data.nan-beyond-bounds": (Severity.WARNING, Level.DATA),
    "data.int96-beyond-nanoseconds": (Severity.WARNING, Level.DATA),
    "partition.binary-altered": (Severity.WARNING, Level.LOG),
    "data.archived": (Severity.ERROR, Level.STORAGE),
    "commit.number-not-finite": (Severity.ERROR, Level.LOG),
}
"""Rules that the reference does not have."""

PROVEN_OTHERWISE = {
    "data.archived": "what only object stores have: tests/operations/test_archived_files.py asks two of them",
    "commit.huge": "a gigabyte, or a million lines: test_action_rules.py shows a view of them",
    "catalog.diverged": "what only a catalog knows: tests/catalogs/test_commands.py asks one",
    "catalog.staged-missing": "what only a catalog knows: tests/catalogs/test_staged_files_gone.py asks one",
}

MILDER = {"schema.invalid-chars": Severity.WARNING}
"""Where real tables show that the reference is too strict: the protocol allows it, and one engine alone does not."""

STRICTER = dict.fromkeys(
    (
        "path.not-encoded",
        "path.not-normalised",
        "log.checkpoint-commit-missing",
        "commit.crlf-or-blank",
        "commitinfo.not-object",
        "crc.without-commit",
        "hint.schema-wrong",
        "partition.key-case",
        "protocol.writer-feature-in-reader",
        "stats.bad-json",
    ),
    Severity.ERROR,
)
"""Where an engine was measured that refuses the table, which the reference does not say."""

load_all()


def test_every_rule_is_reported_by_a_check() -> None:
    by_checks = {rule.id for area in CATALOGUE.areas() for check in area.checks for rule in check.rules}

    assert set() == set(RULES) - by_checks - BY_READERS


def test_modules_name_the_views_of_their_checks() -> None:
    for catalogue in (CATALOGUE, PAIMON_CATALOGUE):
        for name, views in catalogue.modules.items():
            checks = (check for area in catalogue.areas_of(name) for check in area.checks)
            assert views.split() == sorted({check.view.__name__ for check in checks}), name


def test_every_area_of_rules_is_in_a_catalogue() -> None:
    modules = [import_module(found.name) for found in walk_packages(rules.__path__, "deltacli.rules.")]
    known = {
        id(area)
        for catalogue in (CATALOGUE, PAIMON_CATALOGUE)
        for name in catalogue.modules
        for area in catalogue.areas_of(name)
    }

    unknown = {
        f"{area.name} in {module.__name__}"
        for module in modules
        for area in vars(module).values()
        if isinstance(area, Area) and id(area) not in known
    }

    assert set() == unknown


def test_every_rule_has_a_damage() -> None:
    assert [] == sorted(set(RULES) - {damage.rule for damage in DAMAGES} - PROVEN_OTHERWISE.keys())
    assert [] == sorted({damage.rule for damage in DAMAGES} - set(RULES))


def test_ids_are_distinguished_and_rows_are_filled() -> None:
    ids = Counter(rule.id for rule in RULES.values())

    assert [] == [rule for rule, count in ids.items() if count > 1]
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z0-9]+\.[a-z0-9-]+", rule.id)
        assert all((rule.checks, rule.spec, rule.example, *rule.fix)), rule.id
        assert rule.checks.endswith("."), rule.id


def test_the_catalogue_is_the_reference() -> None:
    text = (REFERENCE.require() / "delta-protocol.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9]+\.[a-z0-9-]+)` \| ([EWI]) \| (log|ckpt|list|foot|data) \|", text, re.MULTILINE)
    levels = {"log": "log", "ckpt": "log", "list": "storage", "foot": "footers", "data": "data"}
    letters = {"E": Severity.ERROR, "W": Severity.WARNING, "I": Severity.INFO}
    other = MILDER | STRICTER
    expected = {rule: (other.get(rule, letters[severity]), Level(levels[level])) for rule, severity, level in rows}

    assert 405 == len(rows) == len(RULES) - len(ADDED)
    assert set() == set(ADDED) & set(expected)
    assert expected | ADDED == {rule.id: (rule.severity, rule.level) for rule in RULES.values()}
