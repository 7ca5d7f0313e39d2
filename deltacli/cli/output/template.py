"""Write results in a format of the user (`--template`).

For each item, the fields of its NDJSON line are inserted into the template:

    $ deltacli history trips --template '{version}: {operation}'
    12: WRITE
    11: OPTIMIZE

A misspelled field is an error before the command runs, if the fields of the items are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.documents_of_commands import ANY_FIELD, find_fields, find_item_lines, is_known_line
from deltacli.cli.invocation import invocation
from deltacli.cli.output.columns import format_exact
from deltacli.cli.output.grids import EncodedItems
from deltacli.cli.output.results import Result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import encode_utf8, escape_control
from deltacli.cli.terminal.stderr import write_message
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.documents import loads
from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.typing import Json, JsonObject

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|\\[nt\\]|[^{}\\]+|\\")
_LITERALS = {"{{": "{", "}}": "}", r"\n": "\n", r"\t": "\t", r"\\": "\\"}
_DOUBLE_BRACES = re.compile(r"\{\{\s*\.?([\w.-]+)\s*\}\}")
"""Matches a field in the syntax of Go templates: `{{ .version }}`. Users of docker and kubectl type it from habit."""

_SHOWN_CHARACTERS = 20
"""Number of characters of a template that an error message quotes."""

_MIN_FIELD_SIMILARITY = 0.6
"""Similarity to a known field, from 0 to 1, from which an unknown field is considered misspelled."""
_MIN_KEY_SIMILARITY = 0.81
"""The same for objects with arbitrary keys. There, an unknown field may exist in other items."""


class TemplatePart(NamedTuple):
    """A part of a template: either a text or a field.

    Attributes:
        text: The text to write; "" for a field.
        field: The name of the field to insert, such as `operationParameters.mode`; "" for a text.
    """

    text: str
    field: str


def check_template(template: str) -> None:
    """Check a template before the command runs.

    Raises:
        UsageError: If the template is empty, has unbalanced or empty braces, contains no field, or contains a
            field that does not exist in the items of this command.
    """
    parts = parse_template(template)
    if not any(part.field for part in parts):
        raise _no_field_error(template)

    line_types = find_item_lines(_current_command())
    # The columns of a table are fields of its rows. They are known when the first row comes.
    if any(f"{line_type}.{ANY_FIELD}" in find_fields(line_type) for line_type in line_types):
        return
    known_fields = list(dict.fromkeys(field for line_type in line_types for field in find_fields(line_type)))
    if not known_fields:
        return
    for part in parts:
        error = _find_field_error(part.field, known_fields, template)
        if error is not None:
            raise error


def _no_field_error(template: str) -> UsageError:
    meant = _DOUBLE_BRACES.sub(r"{\1}", template)
    return UsageError(
        f"--template has no field: {template}",
        code="usage.template",
        facts={"expected": "a field, such as {version}; {{ and }} stand for braces"},
        hint=None if meant == template else repeat_command_with(invocation.arguments, "--template", meant),
    )


def parse_template(template: str) -> list[TemplatePart]:
    """Split a template into texts and fields.

    Raises:
        UsageError: If the template is empty, or has unbalanced or empty braces.
    """
    if not template:
        raise _syntax_error(template, 0)
    parts: list[TemplatePart] = []
    end = 0
    while end < len(template):
        token = _TOKEN.match(template, end)
        if token is None:
            raise _syntax_error(template, end)
        if token[1] is None:
            parts.append(TemplatePart(text=_LITERALS.get(token[0], token[0]), field=""))
        else:
            field = token[1].strip()
            if not all(field.split(".")):
                raise _syntax_error(template, end)
            parts.append(TemplatePart(text="", field=field))
        end = token.end()
    return parts


def _syntax_error(template: str, position: int) -> UsageError:
    return UsageError(
        f"invalid --template at character {position + 1}: {template[position : position + _SHOWN_CHARACTERS]}",
        code="usage.template",
        facts={"expected": "{FIELD} or {FIELD.FIELD}; {{ and }} for braces, \\t for a tab, \\n for a line end"},
    )


def write_template(sink: BinaryIO, result: Result, _terminal: Terminal, template: str) -> None:
    """Write a line per item.

    Raises:
        UsageError: If a field does not exist in the items. For objects with arbitrary keys, this is known only
            after the last item. A command that changes tables writes a note instead: its changes have been made,
            so it must not end with an error.
    """
    formatter = TemplateFormatter(template)

    def write_items(block: EncodedItems) -> None:
        lines = formatter.format_lines(bytes(block.data))
        sink.write(b"".join(map(encode_utf8, lines)))
        if result.is_live:
            sink.flush()

    result.lines(write_items)
    formatter.require_all_fields_present()


class TemplateFormatter:
    """Inserts the fields of items into a template.

    Call `require_all_fields_present` after the last item.
    """

    def __init__(self, template: str) -> None:
        self._template = template
        self._parts = parse_template(template)
        self._checked_types: set[str] = set()
        # Maps a field that did not occur in any item yet to the known fields. Only for objects with arbitrary keys.
        self._absent_fields: dict[str, Sequence[str]] = {}

    def format_lines(self, data: bytes) -> Iterator[str]:
        """Format items.

        Args:
            data: Lines of NDJSON. Lines that are not items are skipped.

        Raises:
            UsageError: If a field does not exist in an item, as for `write_template`.
        """
        for line in data.splitlines():
            item = loads(line)
            assert isinstance(item, dict)
            line_type = item["type"]
            fields = find_fields(line_type) if is_known_line(line_type) else [ANY_FIELD]
            if not fields:
                continue  # not an item: it ends a list

            row = item.get(line_type)
            columns = row if isinstance(row, dict) else {}  # of a table: they can be named without the type
            item |= columns
            if line_type not in self._checked_types:
                self._checked_types.add(line_type)
                nested = [f"{name}.{ANY_FIELD}" for name in columns]
                self._check_fields([*fields, *columns, *nested], item)
            # Escape only the values: tabs and line ends in the template itself are intended.
            yield "".join(part.text or self._format_field(part.field, item) for part in self._parts) + "\n"

    def _format_field(self, field: str, item: Json) -> str:
        """Format the value of a field, such as `operationParameters.mode`; "" if the item does not have the field.

        Keys may contain dots: `configuration.delta.appendOnly` refers to the key `delta.appendOnly` of
        `configuration`.
        """
        remaining = field
        while isinstance(item, dict):
            if remaining in item:
                self._absent_fields.pop(field, None)
                return escape_control(format_exact(item[remaining]))
            key = next((key for key in item if remaining.startswith(f"{key}.")), None)
            if key is None:
                break
            item = item[key]
            remaining = remaining[len(key) + 1 :]
        return ""

    def _check_fields(self, known_fields: Sequence[str], item: JsonObject) -> None:
        """Report fields of the template that do not exist in items of a type.

        Args:
            known_fields: The fields of the type. `ANY_FIELD` stands for arbitrary keys.
            item: The first item of this type.
        """
        has_any_fields = ANY_FIELD in known_fields
        if has_any_fields:
            known_fields = [*known_fields, *item]
        for part in self._parts:
            error = _find_field_error(part.field, known_fields, self._template)
            if error is not None:
                self._report(error)
            elif part.field and has_any_fields and not _is_known(part.field, known_fields):
                self._absent_fields[part.field] = known_fields

    def require_all_fields_present(self) -> None:
        """Report fields of the template that occurred in no item.

        Raises:
            UsageError: If there is such a field, and the command does not change tables.
        """
        for field, known_fields in self._absent_fields.items():
            message = f"no item has a field {field!r}"
            self._report(_unknown_field_error(message, field, None, known_fields, self._template))

    def _report(self, error: UsageError) -> None:
        """Raise an error. If the command may have changed a table, write a note instead."""
        # Which commands change something follows from their permissions, whose module is needed for errors only.
        from deltacli.cli.changing_commands import find_change

        if find_change(_current_command()) is None:
            raise error
        if not {"-q", "--quiet"} & {*invocation.arguments}:
            write_message(escape_control(f"note: {error.message}; it is empty in the lines"))


def _current_command() -> str:
    return " ".join(get_command_path(invocation.arguments))


def _is_known(field: str, known_fields: Sequence[str]) -> bool:
    """Return True for a known field, and for a field of an object with arbitrary keys: `operationParameters.mode`."""
    objects = tuple(known.removesuffix(ANY_FIELD) for known in known_fields if known.endswith(f".{ANY_FIELD}"))
    return field in known_fields or field.startswith(objects)


def _find_field_error(field: str, known_fields: Sequence[str], template: str) -> UsageError | None:
    """Return the error for an unknown field of a template; None if the field is known or may exist in other items."""
    if not field or _is_known(field, known_fields):
        return None
    names = [known for known in known_fields if not known.endswith(ANY_FIELD)]
    has_any_fields = ANY_FIELD in known_fields
    similarity = _MIN_KEY_SIMILARITY if has_any_fields else _MIN_FIELD_SIMILARITY
    nearest = nearest_name(field, names, ignores_case=True, cutoff=similarity)
    # Writers may add arbitrary keys to such an object. Only a name that is similar to a known field is an error.
    if has_any_fields and nearest is None:
        return None
    nested = next((name for name in names if name.endswith(f".{field}")), None)
    return _unknown_field_error(f"unknown field {field!r}", field, nested or nearest, names, template)


def _unknown_field_error(
    message: str, field: str, meant: str | None, known_fields: Sequence[str], template: str
) -> UsageError:
    """Return the error for an unknown field. Its hint is the command line with the corrected template.

    Args:
        message: The message.
        field: The unknown field.
        meant: The known field that the user probably meant; None if no field is similar.
        known_fields: The known fields.
        template: The template.
    """
    hint = None
    if meant:
        message = f"{message}; did you mean {meant}?"
        corrected = template.replace(f"{{{field}}}", f"{{{meant}}}")
        hint = repeat_command_with(invocation.arguments, "--template", corrected)
    names = {known for known in known_fields if "." not in known and known != ANY_FIELD}
    return UsageError(message, code="usage.template", facts={"fields": ", ".join(sorted(names))}, hint=hint)
