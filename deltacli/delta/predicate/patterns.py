"""Patterns of LIKE: % matches any text, _ any character, and the character after the escape character matches
itself.
"""

from __future__ import annotations

import re
from functools import cached_property

from deltacli.arrow import compute as pc
from deltacli.delta.predicate.literals import NoValueError
from deltacli.typing import ArrowArray

_ANY, _ONE = "%", "_"


class Pattern:
    """A pattern, split into texts and wildcards. Raises NoValueError if the escape character escapes nothing."""

    def __init__(self, pattern: str, escape: str = "\\") -> None:
        self.text = pattern
        self._parts = _parts_of(pattern, escape)

    @cached_property
    def prefix(self) -> str:
        """Return the prefix of every match."""
        first = self._parts[0] if self._parts else None
        return first[0] if first is not None and first[1] else ""

    @cached_property
    def escaped(self) -> str:
        """Return the same pattern with a backslash as its escape character."""
        escapes = str.maketrans({"\\": "\\\\", _ANY: f"\\{_ANY}", _ONE: f"\\{_ONE}"})
        return "".join(text.translate(escapes) if is_text else text for text, is_text in self._parts)

    @cached_property
    def is_plain(self) -> bool:
        """Return True if only the prefix matches."""
        return all(is_text for _, is_text in self._parts)

    @property
    def is_prefix(self) -> bool:
        """Return True if everything that begins with the prefix matches."""
        wildcards = self._parts[1:] if self.prefix else self._parts
        return wildcards == [(_ANY, False)]

    def match(self, values: ArrowArray) -> ArrowArray:
        """Return which strings match; null if the string is."""
        if self.is_plain:
            return pc.equal(values, self.prefix)
        if self.is_prefix:
            return pc.starts_with(values, self.prefix)
        return pc.match_substring_regex(values, self._expression)

    @cached_property
    def _expression(self) -> str:
        wildcards = {_ANY: ".*", _ONE: "."}
        pieces = [re.escape(text) if is_text else wildcards[text] for text, is_text in self._parts]
        return rf"(?s)\A{''.join(pieces)}\z"


def _parts_of(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return texts and wildcards, in order, each with whether it is text; neighbours are joined."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        is_text = character not in (_ANY, _ONE)
        if character == escape:
            position += 1
            character, is_text = pattern[position : position + 1], True
            if character not in (_ANY, _ONE, escape) or not character:
                place = f"before {character!r}" if character else "at the end"
                raise NoValueError(f"the escape character {escape!r} is {place} in the pattern")
        if is_text and parts and parts[-1][1]:
            parts[-1] = (parts[-1][0] + character, True)
        elif (character, is_text) != (_ANY, False) or not parts or parts[-1] != (_ANY, False):
            parts.append((character, is_text))
        position += 1
    return parts
