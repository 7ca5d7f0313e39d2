"""`--template`: a line of the user's form for each item, with the fields that its line of NDJSON has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import orjson

from deltacli.cli.command_tree import path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.render.columns import exact
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.cli.terminal.stderr import write_message
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.documents import loads
from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.typing import Json, JsonObject

if TYPE_CHECKING:
    from deltacli.cli.results import EncodedItems, Result

Parts = Sequence[tuple[str, str]]
"""A text, or the name of a field."""

OPEN = "*"
"""In place of a field: the object may have others."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|\\[nt\\]|[^{}\\]+|\\")
_LITERALS = {"{{": "{", "}}": "}", r"\n": "\n", r"\t": "\t", r"\\": "\\"}
_SHOWN = 20
_ALIKE, _NEARLY_THE_SAME = 0.6, 0.81
"""The similarity above which a name counts as misspelt: of a field, and of a key that only some items have."""


def parse_template(text: str) -> Parts:
    """Return the parts of a template. Raises UsageError where it is empty, has a brace without a pair, no field between
    two, no field at all, or one that no item of the command of this run can have.
    """
    parts = _parts_of(text)
    if not any(name for _, name in parts):
        meant = _OTHER_BRACES.sub(r"{\1}", text)
        raise UsageError(
            f"--template has no field: {text}",
            code="usage.template",
            facts={"expected": "a field, such as {version}; {{ and }} stand for braces"},
            hint=None if meant == text else repeat_command_with(invocation.arguments, "--template", meant),
        )
    lines = known_lines()
    types = lines.commands.get(_command(), [])
    if not any(f"{kind}.{OPEN}" in lines.types[kind] for kind in types):  # rows, whose columns are fields
        known = list(dict.fromkeys(field for kind in types for field in lines.types[kind]))
        for _, name in parts:
            if known and (fault := _fault_of(name, known, text)):
                raise fault
    return parts


def _command() -> str:
    return " ".join(path_of(invocation.arguments))


_OTHER_BRACES = re.compile(r"\{\{\s*\.?([\w.-]+)\s*\}\}")
"""A field in the templates of other programs."""


def _parts_of(text: str) -> Parts:
    parts: list[tuple[str, str]] = []
    end = 0
    while end < len(text) or not text:
        token = _TOKEN.match(text, end)
        name = "" if token is None else (token[1] or "").strip()
        if token is None or (token[1] is not None and not all(name.split("."))):
            raise UsageError(
                f"invalid --template at character {end + 1}: {text[end : end + _SHOWN]}",
                code="usage.template",
                facts={"expected": "{FIELD} or {FIELD.FIELD}; {{ and }} for braces, \\t for a tab, \\n for a line end"},
            )
        parts.append(("" if name else _LITERALS.get(token[0], token[0]), name))
        end = token.end()
    return parts


def write_template(sink: BinaryIO, result: Result, _terminal: Terminal, template: str) -> None:
    """Write a line per item. Raises UsageError for a field that no item can have, before the first line, and for one
    that none had, after the last; commands that can change something only note it.
    """
    lines = TemplateLines(template)

    def emit(block: EncodedItems) -> None:
        sink.write(b"".join(encode_utf8(line) for line in lines.of(bytes(block.data))))
        if result.is_live:
            sink.flush()

    result.lines(emit)
    lines.require_found()


class TemplateLines:
    """Makes the lines for items."""

    def __init__(self, template: str) -> None:
        self._template, self._parts = template, _parts_of(template)
        self._lines = known_lines()
        self._types: set[str] = set()
        self._absent: dict[str, Sequence[str]] = {}
        """Fields of objects with any keys that no item had so far, with other fields."""

    def of(self, data: bytes) -> Iterator[str]:
        """Yield the line of each item in some lines of NDJSON. Raises UsageError for a field that it cannot have."""
        for text in data.splitlines():
            item = loads(text)
            assert isinstance(item, dict)
            if not (fields := self._lines.types.get(kind := item["type"], [OPEN])):  # not an item: it ends a list
                continue
            row = item.get(kind)
            item |= row if isinstance(row, dict) else {}  # columns of a table
            if kind not in self._types:
                self._types.add(kind)
                of_row = [*row, *(f"{name}.{OPEN}" for name in row)] if isinstance(row, dict) else []
                self._require_known([*fields, *of_row], item)
            yield "".join(text or self._value(name, item) for text, name in self._parts) + "\n"

    def _value(self, name: str, item: Json) -> str:
        rest = name
        while isinstance(item, dict):
            if rest in item:
                self._absent.pop(name, None)
                return escape_control(exact(item[rest]))
            key = next((key for key in item if rest.startswith(f"{key}.")), None)  # keys may have dots, too
            if key is None:
                break
            item, rest = item[key], rest[len(key) + 1 :]
        return ""

    def _require_known(self, known: Sequence[str], item: JsonObject) -> None:
        known = [*known, *(item if OPEN in known else ())]
        for _, name in self._parts:
            if fault := _fault_of(name, known, self._template):
                self._report(fault)
            elif name and OPEN in known and not _is_known(name, known):
                self._absent[name] = known

    def require_found(self) -> None:
        """Raise UsageError for a field that no item had."""
        for name, names in self._absent.items():
            self._report(_unknown(f"no item has a field {name!r}", name, None, names, self._template))

    def _report(self, fault: UsageError) -> None:
        """Raise a fault, or only note it where the command may have made a change."""
        if _command() not in self._lines.changing:
            raise fault
        if not {"-q", "--quiet"} & {*invocation.arguments}:
            write_message(escape_control(f"note: {fault.message}; it is empty in the lines"))


def _is_known(name: str, known: Sequence[str]) -> bool:
    maps = tuple(one.removesuffix(OPEN) for one in known if one.endswith(f".{OPEN}"))
    return name in known or name.startswith(maps)


def _fault_of(name: str, known: Sequence[str], template: str) -> UsageError | None:
    """Return what is wrong with a field of a template; None for one that is known, or may be where others are."""
    if not name or _is_known(name, known):
        return None
    names = [one for one in known if not one.endswith(OPEN)]
    is_open = OPEN in known
    near = nearest_name(name, names, ignores_case=True, alike=_NEARLY_THE_SAME if is_open else _ALIKE)
    if is_open and near is None:
        return None
    inner = next((one for one in names if one.endswith(f".{name}")), None)
    return _unknown(f"unknown field {name!r}", name, inner or near, names, template)


def _unknown(message: str, name: str, near: str | None, known: Sequence[str], template: str) -> UsageError:
    meant = template.replace(f"{{{name}}}", f"{{{near}}}")
    return UsageError(
        f"{message}; did you mean {near}?" if near else message,
        code="usage.template",
        facts={"fields": ", ".join(sorted({one for one in known if "." not in one and one != OPEN}))},
        hint=repeat_command_with(invocation.arguments, "--template", meant) if near else None,
    )


class KnownLines(NamedTuple):
    """What is known about lines of NDJSON."""

    types: Mapping[str, Sequence[str]]
    """The fields of each type, nested ones behind a dot; none of those that are no items but end a list."""
    commands: Mapping[str, Sequence[str]]
    """The types of the lines of each command."""
    changing: Sequence[str]
    """The commands that change something, and so must not fail after it."""


def known_lines() -> KnownLines:
    """Return what the generated file says about lines."""
    with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "line_fields.json"), "rb") as file:
        return KnownLines(**orjson.loads(file.read()))
