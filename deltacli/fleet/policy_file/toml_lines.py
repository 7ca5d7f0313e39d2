"""The lines of the keys of a TOML file, which `tomllib` does not tell.

`find_key_lines` reads valid TOML only: parse the text with `tomllib` first. It follows the structure of the file and
leaves the values alone:

    [groups.bronze]          ("groups",), ("groups", "bronze"): line 1
    globs = ["/lake/*",      ("groups", "bronze", "globs"), ("groups", "bronze", "globs", 0): line 2
             "/raw/*"]       ("groups", "bronze", "globs", 1): line 3
"""

from __future__ import annotations

import re
import tomllib
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
    """A token of TOML.

    Attributes:
        kind: The name of the group of `_TOKEN` that matches it, or `end`.
        text: Its text.
        line: The line that it begins in.
    """

    kind: str
    text: str
    line: int


def find_key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the line of each key and of each element of an array; a table that occurs twice has its first line."""
    return _LineReader(text).read()


def _split_into_tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens without blanks and comments; the last one is `end`."""
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind not in ("blank", "comment"):
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
    yield _Token("end", "", line)


class _LineReader:
    """Reads the tokens of a file from the first to the last, and notes the line of each key."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split_into_tokens(text))
        self._position = 0
        self._lines: dict[KeyPath, int] = {}
        # The table that the last header began: keys belong to it.
        self._table: KeyPath = ()
        # The position of the last element of each array of tables.
        self._last_elements: dict[KeyPath, int] = {}

    def read(self) -> Mapping[KeyPath, int]:
        """Return the line of each key."""
        while self._token.kind != "end":
            if self._token.kind == "newline":
                self._position += 1
            elif self._token.text == "[":
                self._read_header()
            else:
                self._read_pair(self._table)
        return self._lines

    @property
    def _token(self) -> _Token:
        return self._tokens[self._position]

    def _read_header(self) -> None:
        """Read `[table]`, or `[[array of tables]]`, which begins a new element."""
        line = self._token.line
        is_element = self._tokens[self._position + 1].text == "["
        brackets = 2 if is_element else 1

        self._position += brackets
        path = self._find_path(self._read_key())
        for end in range(1, len(path) + 1):
            self._note_line(path[:end], line)
        if is_element:
            element = self._last_elements.get(path, -1) + 1
            self._last_elements[path] = element
            path = (*path, element)
            self._note_line(path, line)
        self._table = path
        self._position += brackets

    def _find_path(self, names: list[str]) -> KeyPath:
        """Return the path of a table, inside the last element of each array of tables on its way."""
        path: KeyPath = ()
        for name in names[:-1]:
            path = (*path, name)
            if path in self._last_elements:
                path = (*path, self._last_elements[path])
        return (*path, names[-1])

    def _read_key(self) -> list[str]:
        """Read a key, which may be dotted, and return its names."""
        names = [_unquote_name(self._token)]
        self._position += 1
        while self._token.text == ".":
            names.append(_unquote_name(self._tokens[self._position + 1]))
            self._position += 2
        return names

    def _read_pair(self, table: KeyPath) -> None:
        """Read `key = value`."""
        line = self._token.line
        path = table
        for name in self._read_key():
            path = (*path, name)
            self._note_line(path, line)
        self._position += 1  # the equals sign
        self._read_value(path)

    def _read_value(self, path: KeyPath) -> None:
        """Read a value. A number such as 1.5 and a time are several tokens."""
        if self._token.text == "[":
            self._read_array(path)
        elif self._token.text == "{":
            self._read_inline_table(path)
        else:
            while self._token.kind in ("text", "bare") or self._token.text == ".":
                self._position += 1

    def _read_array(self, path: KeyPath) -> None:
        self._position += 1
        element = 0
        while self._token.text != "]":
            if self._token.kind == "newline" or self._token.text == ",":
                self._position += 1
                continue
            self._note_line((*path, element), self._token.line)
            self._read_value((*path, element))
            element += 1
        self._position += 1

    def _read_inline_table(self, path: KeyPath) -> None:
        self._position += 1
        while self._token.text != "}":
            if self._token.text == ",":
                self._position += 1
            else:
                self._read_pair(path)
        self._position += 1

    def _note_line(self, path: KeyPath, line: int) -> None:
        self._lines.setdefault(path, line)


def _unquote_name(token: _Token) -> str:
    """Return the name that a bare or quoted key stands for."""
    if token.kind == "bare":
        return token.text
    name: str = tomllib.loads(f"name = {token.text}")["name"]
    return name
