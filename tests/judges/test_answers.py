"""A comparison fails for differences that nobody has explained, and for explanations that explain nothing any more."""

import pytest

from tests.judges.answers import Comparison, KnownDifference

ROWS = KnownDifference("nan/optimize", "rows", "E101")
ALL_CASES = KnownDifference("nan/*", "rows", "E101")


def test_an_unknown_difference_fails() -> None:
    with (
        pytest.raises(AssertionError, match="nan/optimize: 1 differences\nfiles\n    expected: 1\n    actual:   2"),
        Comparison("nan/optimize") as comparison,
    ):
        comparison.equal("files", 1, 2)


@pytest.mark.parametrize("known", [ROWS, ALL_CASES])
def test_a_known_difference_passes(known: KnownDifference) -> None:
    with Comparison("nan/optimize", [known]) as comparison:
        comparison.equal("rows", 1, 2)


def test_a_known_difference_that_no_longer_occurs_fails() -> None:
    with (
        pytest.raises(AssertionError, match="rows\n    no longer differs: remove KnownDifference"),
        Comparison("nan/optimize", [ROWS]) as comparison,
    ):
        comparison.equal("rows", 1, 1)


@pytest.mark.parametrize("known", [ALL_CASES, KnownDifference("nan/checkpoint", "rows", "E92")])
def test_known_differences_of_other_cases_may_stay_unused(known: KnownDifference) -> None:
    with Comparison("nan/optimize", [known]) as comparison:
        comparison.equal("rows", 1, 1)
