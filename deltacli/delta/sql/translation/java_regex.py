"""Java's regular expressions as RE2's, where both have the same meaning.

RE2's `$` and `.` recognize one line end, Java's recognize five; texts with one of the other four are excluded by a
guard.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from deltacli.delta.sql.translation.values import NotTranslated

OTHER_LINE_ENDS = "\r\u0085\u2028\u2029"
_PUNCTUATION = frozenset("!\"#%&',-/:;<=>@_`~ ") | frozenset(".^$*+?()[]{}|\\")
_CLASSES = {"d": "0-9", "w": "a-zA-Z_0-9", "s": r" \t\n\x0B\f\r"}
"The meaning of \\d, \\w and \\s; RE2's \\s lacks a character."
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_COUNT = re.compile(r"\{([0-9]{1,3})(,([0-9]{1,3})?)?\}")
_MAX_COUNT = 1000


class Regex(NamedTuple):
    """`minds_lines`: the guard is needed."""

    text: str
    minds_lines: bool


def re2_of(pattern: str) -> Regex:
    """Raises NotTranslated for anything whose meaning may differ."""
    return _Reader(pattern).read()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.minds_lines = False
        self.counted = 1

    def read(self) -> Regex:
        pieces: list[str] = []
        can_repeat = False
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            if character in "*+?{":
                if not can_repeat:
                    raise self.odd(character)
                pieces.append(self.repeated())
                can_repeat = False
                continue
            piece, can_repeat = self.piece(character)
            pieces.append(piece)
        if self.depth:
            raise self.odd("(")
        return Regex("".join(pieces), self.minds_lines)

    def odd(self, what: str) -> NotTranslated:
        return NotTranslated(f"the regular expression '{self.pattern[:60]}' contains unsupported syntax: {what[:20]}")

    def take(self, count: int = 1) -> str:
        text = self.pattern[self.at : self.at + count]
        self.at += count
        return text

    def rest_starts(self, *texts: str) -> bool:
        return self.pattern.startswith(texts, self.at)

    def piece(self, character: str) -> tuple[str, bool]:
        """The next part, and whether it may be repeated."""
        self.take()
        match character:
            case ".":
                self.minds_lines = True
                return r"[^\n]", True
            case "^":
                # Elsewhere than at the start it cannot match, or is repeated.
                if self.at > 1 and self.pattern[self.at - 2] not in "(|":
                    raise self.odd("^")
                return r"\A", False
            case "$":
                if self.depth or not (self.at == len(self.pattern) or self.rest_starts("|")):
                    raise self.odd("$")
                self.minds_lines = True
                return r"\n?\z", False
            case "(":
                self.depth += 1
                if self.rest_starts("?"):
                    if not self.rest_starts("?:"):
                        raise self.odd(f"({self.take(3)}")
                    self.take(2)
                return "(?:", False
            case ")":
                if not self.depth:
                    raise self.odd(")")
                self.depth -= 1
                return ")", True
            case "|":
                return "|", False
            case "[":
                return self.character_class(), True
            case "\\":
                return self.escaped(), True
        if character in "]}" or not character.isprintable():
            raise self.odd(repr(character))
        return re.escape(character) if character.isascii() else character, True

    def repeated(self) -> str:
        if self.rest_starts("{"):
            match = _COUNT.match(self.pattern, self.at)
            if match is None or (match[3] and int(match[3]) < int(match[1])):
                raise self.odd("{")
            self.counted *= max(1, int(match[1]), int(match[3] or 0))
            if self.counted > _MAX_COUNT:
                raise self.odd("many repetitions")
            self.at = match.end()
            text = match[0]
        else:
            text = self.take()
        if self.rest_starts("?"):
            text += self.take()  # fewer first: the same texts match
        if self.rest_starts("+", "*", "?", "{"):
            raise self.odd(text + self.pattern[self.at])
        return text

    def escaped(self) -> str:
        character = self.take()
        if character in _CLASSES:
            return f"[{_CLASSES[character]}]"
        if character.lower() in _CLASSES and character:
            return f"[^{_CLASSES[character.lower()]}]"
        return self.literal_escape(character)

    def literal_escape(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if not character or character not in _PUNCTUATION:
            raise self.odd(f"\\{character}")
        return re.escape(character)

    def character_class(self) -> str:
        text = "[^" if self.rest_starts("^") else "["
        if text == "[^":
            self.take()
        start = self.at
        while not self.rest_starts("]") or self.at == start:
            if self.at >= len(self.pattern) or self.rest_starts("&&", "[", "]"):
                raise self.odd("[" + self.pattern[self.at : self.at + 2])
            text += self.member()
        self.take()
        return text + "]"

    def member(self) -> str:
        """One character of a class, a range of them, or \\d and its like."""
        if self.rest_starts("\\") and self.pattern[self.at + 1 : self.at + 2] in _CLASSES:
            self.take()
            if self.pattern[self.at + 1 : self.at + 2] == "-" and self.pattern[self.at + 2 : self.at + 3] != "]":
                raise self.odd("a range of classes")
            return _CLASSES[self.take()]
        first, low = self.one()
        if not self.rest_starts("-") or self.pattern[self.at + 1 : self.at + 2] == "]":
            return first
        self.take()
        if self.rest_starts("[") or (self.rest_starts("\\") and self.pattern[self.at + 1 : self.at + 2] in _CLASSES):
            raise self.odd("a range of classes")
        last, high = self.one()
        if not (low.isascii() and high.isascii() and low <= high):
            raise self.odd(f"{low}-{high}")
        return f"{first}-{last}"

    def one(self) -> tuple[str, str]:
        """A character of a class, as RE2 takes it and as it is."""
        character = self.take()
        if character == "\\":
            escaped = self.take()
            return self.literal_escape(escaped), {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
        if not character or not character.isprintable():
            raise self.odd("a character class")
        return (re.escape(character) if character.isascii() else character), character
