"""Differences between deltacli and Paimon that entries of the page of faults explain, and that other changes remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.judges.answers import Comparison, KnownDifference

KNOWN: Sequence[KnownDifference] = ()
"""Each has to be seen where a test asks for it: one that has been repaired must leave this list."""


@dataclass
class PaimonComparison(Comparison):
    """A comparison that also fails where a known difference has disappeared."""

    known: Sequence[KnownDifference] = KNOWN

    def equal(self, question: str, expected: Any, actual: Any) -> None:  # Any: any two answers
        """Record a difference if the answers are not equal, or if a difference is known and they are equal."""
        super().equal(question, expected, actual)
        if expected == actual:
            for known in self.known:
                if known.matches(self.case, question):
                    self.differences.append(
                        f"{question}\n    no longer differs; remove it from known.py: {known.reason}"
                    )
