"""Comparing two answers to one question, and the differences that a decision record explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.judges.figures import FIGURES


@dataclass(frozen=True)
class KnownDifference:
    """A difference between deltacli and an engine that is right, or that is somebody else's fault.

    Attributes:
        case: The name of the case, such as "nan/optimize"; a trailing "*" stands for any rest.
        question: The question whose answers differ, in the same way. If no question of a case differs any more, the
            case fails, so that whoever removes the difference removes its line. Only a pattern of several cases may
            stay unused, because some of them may have none.
        reason: Why, with the decision record or the entry of the page of faults that explains it.
    """

    case: str
    question: str
    reason: str

    def matches(self, case: str, question: str) -> bool:
        """Return whether this is the difference that was found."""
        return _matches(self.case, case) and _matches(self.question, question)


def _matches(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


@dataclass
class Comparison:
    """Collects the differences of one case, so that one run shows all of them.

    Use it as a context manager: its end raises an AssertionError that lists every difference that is not known, and
    every known difference of this case that did not occur.
    """

    case: str
    known: Sequence[KnownDifference] = ()
    differences: list[str] = field(default_factory=list)
    occurred: set[KnownDifference] = field(default_factory=set)

    def equal(self, question: str, expected: Any, actual: Any) -> None:  # Any: any two answers
        """Record a difference if the answers are not equal. NaN equals NaN."""
        FIGURES["comparisons"] += 1
        if repr(expected) == repr(actual) or expected == actual:
            return
        explanations = {known for known in self.known if known.matches(self.case, question)}
        if explanations:
            self.occurred |= explanations
            FIGURES["known differences"] += 1
            return
        FIGURES["differences"] += 1
        self.differences.append(f"{question}\n    expected: {_short(expected)}\n    actual:   {_short(actual)}")

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        unused = [known for known in self.known if known.case == self.case and known not in self.occurred]
        problems = self.differences + [f"{known.question}\n    no longer differs: remove {known}" for known in unused]
        if problems:
            raise AssertionError(f"{self.case}: {len(problems)} differences\n" + "\n".join(problems))


def _short(answer: Any) -> str:  # Any: an answer
    text = repr(answer)
    return text if len(text) <= 2000 else f"{text[:2000]}… ({len(text)} characters)"
