"""The lines of the keys of a TOML file, which the parser of the standard library does not return.

Reads valid TOML only: parse the text with `tomllib` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

KeyPath = tuple[str | int, ...]
"""Names of keys, and the positions of elements of arrays."""

_TOKEN = re.compile(
    r'(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<blank>[ \t\r]+)"
    r"|(?P<mark>[][{}=,.])"
    r"|(?P<bare>[^][{}=,.\s#\"']+)",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the line of each key and of each element of an array; a table that occurs twice has its first line."""
    return _Reader(text).read()


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind not in ("blank", "comment"):
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
    yield _Token("end", "", line)


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._table: KeyPath = ()
        self._sizes: dict[KeyPath, int] = {}

    def read(self) -> Mapping[KeyPath, int]:
        while self._now.kind != "end":
            if self._now.kind == "newline":
                self._at += 1
            elif self._now.text == "[":
                self._header()
            else:
                self._pair(self._table)
        return self._lines

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _header(self) -> None:
        line = self._now.line
        is_element = self._tokens[self._at + 1].text == "["
        self._at += 2 if is_element else 1
        path = self._inside_last(self._key())
        for end in range(1, len(path) + 1):
            self._note(path[:end], line)
        if is_element:
            position = self._sizes[path] = self._sizes.get(path, -1) + 1
            path = (*path, position)
            self._note(path, line)
        self._table = path
        self._at += 2 if is_element else 1

    def _inside_last(self, names: list[str]) -> KeyPath:
        """Return the path of a table, inside the last element of each array of tables on its way."""
        path: KeyPath = ()
        for name in names[:-1]:
            path = (*path, name)
            if path in self._sizes:
                path = (*path, self._sizes[path])
        return (*path, names[-1])

    def _key(self) -> list[str]:
        names = [_name(self._now)]
        self._at += 1
        while self._now.text == ".":
            names.append(_name(self._tokens[self._at + 1]))
            self._at += 2
        return names

    def _pair(self, table: KeyPath) -> None:
        line = self._now.line
        path = table
        for name in self._key():
            path = (*path, name)
            self._note(path, line)
        self._at += 1  # the equals sign
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        match self._now.text:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                while self._now.kind in ("text", "bare") or self._now.text == ".":
                    self._at += 1

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        while self._now.text != "]":
            if self._now.kind == "newline" or self._now.text == ",":
                self._at += 1
                continue
            self._note((*path, position), self._now.line)
            self._value((*path, position))
            position += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._now.text != "}":
            if self._now.text == ",":
                self._at += 1
            else:
                self._pair(path)
        self._at += 1

    def _note(self, path: KeyPath, line: int) -> None:
        self._lines.setdefault(path, line)


def _name(token: _Token) -> str:
    """Return the name of a key. A quoted one is read as TOML reads it."""
    if token.kind == "bare":
        return token.text
    import tomllib

    name: str = tomllib.loads(f"name = {token.text}")["name"]
    return name
