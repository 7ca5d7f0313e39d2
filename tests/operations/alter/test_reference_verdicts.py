"""The verdicts of the reference on all cases of its suites, and ours: each difference is explained, and is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from tests.operations.alter import (
    test_columns,
    test_demands,
    test_drop_cases,
    test_drop_feature,
    test_mapping,
    test_properties_cases,
    test_remove_mapping,
)

OK, NOTHING, REFUSED = "ok", "nothing", "refused"
LAST = {5: 51, 6: 47, 7: 21, 8: 48}
"""The numbers of cases: columns and properties, column mapping, constraints, features and protocols."""


def _refused() -> Iterator[str]:
    """The cases that the reference refuses; it accepts the others."""
    yield from (f"5.{number}" for number in (4, 5, 8, 9, 10, 15, 16, 17, 18, 19, 20, 23, 24, 27, 30, 31, 32))
    yield from (f"5.{number}" for number in (35, 36, 37, 38, 39, 40, 43, 47, 49, 50))
    yield from (f"6.{number}" for number in (2, 4, 8, 9, 11, 12, 13, 17, 20, 22, 23, 25, 28, 29, 30, 32, 33, 35, 37))
    yield from (f"6.{number}" for number in (38, 39, 41, 46))
    yield from (f"7.{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 19, 20, 21))
    yield from (f"8.{number}" for number in (5, 7, 10, 14, 15, 18, 19, 20, 21, 22, 23, 36, 38, 41, 43, 44, 47, 48))


REFERENCE = {
    **{f"{chapter}.{number}": OK for chapter, last in LAST.items() for number in range(1, last + 1)},
    **dict.fromkeys(_refused(), REFUSED),
    # variants of a case
    "6.25 function": OK,  # the name is that of a function
    "5.45 shorter": REFUSED,
    "6.29 other": OK,
    "6.39 other": OK,
    "8.10 last": OK,
}
"""Case -> whether the reference makes the change, by its defaults. What takes two calls counts by the last one."""

DIFFERENT = {
    "5.2": "the reference commits a version that changes nothing, or refuses; here it is nothing to do, with a warning",
    "5.3": "the reference corrects the case of a key; here the message has the right spelling, and nothing is changed",
    "5.9": "location and provider are words of SQL; here they are keys like any other, without effect",
    "5.34": "the reference commits a version that changes nothing",
    "5.41 again": "as 5.34",
    "5.40": "the reference refuses NOT NULL even of an empty table; here the rows are read",
    "5.47": "the reference refuses a default without the feature; here an option adds the feature in the same commit",
    "6.3": "the mapping goes with its feature (features drop columnMapping), where the reference has a property for it",
    "6.12": "an add writes the right number; other changes leave what `validate` reports (mapping.max-id-too-small)",
    "7.4 again": "an identical constraint is nothing to do, so that a file of changes can be applied twice",
    "7.14": "a constraint is never a property: its rows would not be checked",
    "7.17": "what only an engine evaluates has not been checked here, so it is refused (alter.rows-unknown)",
    "8.39": "only the engine that redirects a table knows when that ends",
    "8.45": "the reference ignores a lower version; here it is refused, with the command for features",
    "8.46": "features have a command of their own (features add)",
    "8.47": "as 5.47",
}
"""Cases with another verdict than that of the reference, and why."""

OTHER_FORM = {
    "6.5": "the feature is always listed: deltalake 1.6.6 reads the versions 2 and 5 wrong",
    "6.25 text": "a text in an expression that could name the column counts as its name",
    "7.12": "the text of a condition is kept as it was given, as by the reference's programming interface",
    "7.18": "the reference refuses where it validates; here no engine has checked the rows (alter.rows-unknown)",
    "7.19": "as 7.18",
    "8.26": "reader version 3 instead of 2, see 6.5",
    "8.36": "only the catalog commits to its tables, so that nothing is dropped at all",
    "8.38": "as 8.36",
}
"""Cases with the same verdict, of which something else differs."""

NOWHERE = {
    "5.49": "a table is where its files are; no change has a place",
    "5.50": "as 5.49",
    "6.14": "mapping is always a commit of its own, as in 6.8, with and without change data",
    "6.19": "no change replaces a table",
    "6.20": "tables are not converted",
    "6.30": "dependent expressions are always checked",
    "6.47": "a drop of a feature takes no other property",
    "7.8": "no rows are written by a change; `validate` counts null as a violation (constraint.violated)",
    "7.20": "lengths only grow, so no row that exists is too long",
}
"""Cases that mean nothing here, and why."""

SHOWN: dict[ModuleType, dict[str, dict[str, str]]] = {
    test_properties_cases: {"test_a_property_that_is_not_set_is_not_unset": {"5.2": NOTHING}},
    test_columns: {
        "test_a_default_needs_the_feature_and_consent": {"5.47": OK},
        "test_a_type_of_a_feature_needs_consent": {"8.47": OK},
    },
    test_demands: {"test_a_column_without_nulls_becomes_not_null": {"5.40": OK}},
    test_mapping: {"test_conditions_are_about_physical_names_in_files": {"6.18": OK}},
    test_remove_mapping: {
        "test_files_get_the_names_of_the_table_and_rows_stay": {"6.43": OK, "6.44": OK, "6.45": OK},
        "test_a_damaged_file_keeps_the_mapping_and_leaves_nothing_behind": {"8.44": REFUSED},
        "test_what_keeps_the_mapping": {"6.46": REFUSED, "8.41": REFUSED, "8.22": REFUSED},
    },
    test_drop_feature: {
        "test_an_implied_feature_is_dropped_from_a_list_of_all_others": {"8.3": OK},
        "test_a_second_drop_moves_the_protection": {"8.4": OK, "8.27": OK},
        "test_history_that_does_not_need_the_feature_stays": {"8.9": OK},
        "test_vectors_of_a_real_table_are_purged_and_their_files_recorded": {"8.28": OK, "8.30": OK, "8.33": OK},
    },
    test_drop_cases: {
        "test_a_feature_that_came_into_use_again_waits_again": {"8.10": REFUSED, "8.10 last": OK},
        "test_a_history_that_has_expired_keeps_nothing_back": {"8.17": OK},
        "test_timestamps_go_with_their_properties": {"8.37": OK},
        "test_checkpoints_are_classic_afterwards": {"8.35": OK},
        "test_new_files_are_in_directories_of_two_letters": {"5.6": OK},
        "test_what_the_reference_never_removes_is_refused_by_its_name": {"8.18": REFUSED},
        "test_a_tombstone_of_a_vector_is_no_change_of_rows": {"8.34": OK},
        "test_a_type_change_that_no_reader_knows_keeps_type_widening": {"8.43": REFUSED},
        "test_protocols_of_the_future_are_not_read": {"8.48": REFUSED},
    },
}
"""Test -> the cases that it shows, and our verdicts. It has their numbers in its docstring or its data."""

_NUMBER = re.compile(r"[5-8]\.[0-9]{1,2}\b")


def own_verdicts() -> Iterator[tuple[str, str]]:
    """Yield all cases that are tried, and the verdicts that their tests assert."""
    yield from ((case.id, case.verdict) for case in (*test_columns.COLUMNS, *test_mapping.MAPPING))
    yield from ((case, verdict) for case, *_, verdict in test_properties_cases.SET)
    yield from ((case, verdict) for (case, _), verdict in test_demands.CONDITIONS.items())
    yield from ((case, verdict) for case, _, verdict in test_demands.NAMES)
    yield from ((str(case), OK) for case, *_ in (*test_drop_feature.PROTOCOLS, *test_drop_cases.KEPT))
    yield from ((str(case), REFUSED) for case, *_ in (*test_drop_feature.REFUSED, *test_drop_cases.UNWRITABLE))
    for cases, _, verdicts, _ in test_drop_cases.HISTORIES:
        numbers = cases.split()
        yield from zip(numbers, verdicts[-len(numbers) :], strict=True)
    yield from (pair for tests in SHOWN.values() for cases in tests.values() for pair in cases.items())


def names_of(cases: Iterable[str]) -> set[str]:
    """The cases, and their numbers without what tells variants apart."""
    return {name for case in cases for name in (case, _number(case))}


def _number(case: str) -> str:
    return case.partition(" ")[0]


def test_every_verdict_is_that_of_the_reference_or_explained() -> None:
    tried = {(case, verdict) for case, verdict in own_verdicts() if _NUMBER.match(case)}
    theirs = {case: REFERENCE.get(case, REFERENCE[_number(case)]) for case, _ in tried}
    found = {case for case, verdict in tried if theirs[case] != (verdict if verdict in (OK, NOTHING) else REFUSED)}

    numbers = {_number(case) for case, _ in tried}
    assert 167 == len({_number(case) for case in REFERENCE})
    assert {_number(case) for case in REFERENCE} - numbers == set(NOWHERE)
    assert [] == sorted(case for case in found if not names_of([case]) & {*DIFFERENT, *OTHER_FORM})
    assert [] == sorted(set(DIFFERENT) - names_of(found))
    assert [] == sorted(set(OTHER_FORM) - names_of(case for case, _ in tried))


def test_the_tests_of_cases_name_them() -> None:
    for module, tests in SHOWN.items():
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        for test, cases in tests.items():
            assert callable(getattr(module, test)), test
            assert all(_number(case) in text for case in cases), test
