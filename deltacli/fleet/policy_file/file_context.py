"""What reading a policy file needs in all its parts: the values of tables, the lines of keys, and the problems."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from deltacli.core.errors import nearest_name
from deltacli.core.typing import Toml
from deltacli.fleet.policy_file.keys import Key
from deltacli.fleet.policy_file.model import Entry, Problem
from deltacli.fleet.policy_file.toml_lines import KeyPath
from deltacli.fleet.policy_file.value_kinds import TEXTS

_MOST_CHARACTERS = 60
"""Characters of a value that a message shows."""


class FileContext:
    """A policy file while it is read.

    Attributes:
        path: The file.
        lines: The line of each key.
        problems: What is wrong in the file, in the order in which it was found.
    """

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self.path = path
        self.lines = lines
        self.problems: list[Problem] = []

    def add_error(self, key: KeyPath, message: str, expected: str | None = None) -> None:
        """Note an error at a key."""
        self.problems.append(Problem(self.find_line(key), spell_key(key), message, expected))

    def add_warning(self, key: KeyPath, message: str) -> None:
        """Note what does not keep the file from being used."""
        self.problems.append(Problem(self.find_line(key), spell_key(key), message, is_error=False))

    def add_undefined(self, key: KeyPath, kind: str, name: str, known_names: Iterable[str]) -> None:
        """Note a name that is not defined in the file, with the one that was probably meant.

        Args:
            key: The key whose value is the name.
            kind: What the name should be of, such as `policy`.
            name: The name.
            known_names: The names that are defined.
        """
        names = list(known_names)
        suggestion = _suggest(nearest_name(name, names, ignores_case=True))
        self.add_error(key, f"{kind} {name!r} is not defined{suggestion}", ", ".join(names) or None)

    def find_line(self, key: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it."""
        while key and key not in self.lines:
            key = key[:-1]
        return self.lines.get(key, 1)

    def read_section(self, content: Mapping[str, Toml], name: str) -> dict[str, Toml]:
        """Return a table of the file; empty if it is missing or not a table."""
        table = content.get(name, {})
        if isinstance(table, dict):
            return table
        self.add_error((name,), "is not a table", f"[{name}.NAME]")
        return {}

    def read_values(
        self, at: KeyPath, table: Mapping[str, Toml], keys: Iterable[Key], *, other_names: Iterable[str] = ()
    ) -> dict[str, Toml]:
        """Return the valid values of a table by key.

        Args:
            at: The path of the table.
            table: The table.
            keys: The keys that it can have.
            other_names: Further keys that it can have, which are read elsewhere.
        """
        known_keys = {key.name: key for key in keys}
        self._require_known_names(at, table, [*known_keys, *other_names])

        values: dict[str, Toml] = {}
        for name, value in table.items():
            key = known_keys.get(name)
            if key is None:
                continue
            try:
                values[name] = key.parse(value)
            except ValueError:
                path, invalid_value = _find_invalid_value((*at, name), key, value)
                self.add_error(path, f"invalid value {show_value(invalid_value)}", key.expected)
        return values

    def _require_known_names(self, at: KeyPath, table: Mapping[str, Toml], known_names: list[str]) -> None:
        """Note unknown keys of a table."""
        for name in table:
            if name not in known_names:
                suggestion = _suggest(nearest_name(name.replace("_", "-"), known_names, ignores_case=True))
                self.add_error((*at, name), f"unknown key{suggestion}", ", ".join(known_names))

    def read_entries(self, values: Mapping[str, Toml], at: KeyPath, name: str) -> tuple[Entry, ...]:
        """Return the texts of a key with their lines, paths as absolute ones."""
        texts = values.get(name, ())
        return tuple(
            Entry(self.resolve_place(text), self.find_line((*at, name, position)))
            for position, text in enumerate(texts)
        )

    def resolve_place(self, text: str) -> str:
        """Return a URI as it is, and a path as absolute; a relative one belongs to the directory of the file."""
        if "://" in text or text.startswith("file:"):
            return text if text.endswith("://") else text.rstrip("/")
        path = os.path.join(self.path.parent, os.path.expanduser(text))
        return os.path.normpath(os.path.abspath(path))


def _suggest(name: str | None) -> str:
    return f"; did you mean {name!r}?" if name else ""


def _find_invalid_value(path: KeyPath, key: Key, value: object) -> tuple[KeyPath, object]:
    """Return the path and the value that are wrong: of a list of texts, those of its first wrong element."""
    if key.kind is TEXTS and isinstance(value, list):
        for position, element in enumerate(value):
            if not isinstance(element, str) or not element or "\0" in element:
                return (*path, position), element
    return path, value


def spell_key(path: KeyPath) -> str:
    """Return a key as it is spelled in a file: `groups.bronze.globs[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def show_value(value: object) -> str:
    """Return a value for a message, shortened. True and False are spelled as in TOML."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
