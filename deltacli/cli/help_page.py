"""Help of commands and groups: plain text in sections, as wide as the terminal.

Drawn without rich, so that help takes no longer than the import of typer.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from typing import Any, NamedTuple, get_args

from deltacli.cli.options.global_options import GLOBAL_OPTIONS
from deltacli.cli.options.sections import Section, section_of

WIDTH = 80
"""Columns of help that is written to a pipe."""

_LEAST_WIDTH = 40
_WIDEST_PROSE = 100
_ELSEWHERE = "explained by deltacli --help"


class Entry(NamedTuple):
    """An option, an argument or a command, and its description."""

    name: str
    text: str


class Page(NamedTuple):
    """The device that help is written to."""

    width: int
    is_bold: bool

    def heading(self, text: str, remark: str = "") -> str:
        """Return the line above a section."""
        title = f"\x1b[1m{text}:\x1b[0m" if self.is_bold else f"{text}:"
        return f"{title} {remark}".rstrip()


def command_help(command: Any, context: Any) -> str:  # Any: typer's own click
    """Return the help of a command: usage, description, examples, options in sections, exit codes."""
    page = _page()
    sections = _sections(command, context)
    names = [spelled.replace(" ", "\xa0") for spelled, _ in sections.pop(Section.GLOBAL, [])]
    blocks = [_usage(command, context), *_description(command.help or "", page)]
    if arguments := _arguments(command, context):
        sections = {"Arguments": arguments, **sections}
    blocks += _definitions(sections, page)
    blocks.append([page.heading(Section.GLOBAL, f"({_ELSEWHERE})"), *_block("  ".join(names), page.width)])
    return _joined([*blocks, _exit_codes(command.epilog or "", page)])


def group_help(group: Any, context: Any) -> str:  # Any: typer's own click
    """Return the help of a group: usage, description, examples, commands, options; the root has the global ones."""
    page = _page()
    is_root = context.parent is None
    commands = [Entry(name, _summary(command)) for name, command in group.commands.items() if not command.hidden]
    own = [entry for entries in _sections(group, context).values() for entry in entries]
    options = {"Global options": [*_global_options(), *own]} if is_root else {"Options": own}
    blocks = [_usage(group, context), *_description(group.help or "", page)]
    blocks += [*_definitions({"Commands": commands}, page), *_definitions(options, page)]
    return _joined([*blocks, _block(cleandoc(group.epilog or ""), page.width)])


def _page() -> Page:
    """Return the terminal, or 80 plain columns."""
    if not sys.stdout.isatty():
        return Page(WIDTH, is_bold=False)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return Page(max(shutil.get_terminal_size((WIDTH, 24)).columns, _LEAST_WIDTH), is_bold=not is_plain)


def _usage(command: Any, context: Any) -> list[str]:  # Any: typer's own click
    arguments = [
        _spelled(argument) for argument in command.get_params(context) if argument.param_type_name == "argument"
    ]
    rest = ["COMMAND", "..."] if hasattr(command, "commands") else arguments
    return [" ".join(["Usage:", context.command_path, "[OPTIONS]", *rest])]


def _sections(command: Any, context: Any) -> dict[str, list[Entry]]:  # Any: typer's own click
    """Return the options of a command by section, those without a section first."""
    sections: dict[str, list[Entry]] = {"Options": [], **{section: [] for section in Section}}
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option" and (record := parameter.get_help_record(context)) is not None:
            sections[section_of(parameter.opts) or "Options"].append(Entry(*record))
    return {heading: entries for heading, entries in sections.items() if entries}


def _arguments(command: Any, context: Any) -> list[Entry]:  # Any: typer's own click
    parameters = [parameter for parameter in command.get_params(context) if parameter.param_type_name == "argument"]
    return [Entry(_spelled(parameter), parameter.help or "") for parameter in parameters]


def _spelled(argument: Any) -> str:  # Any: typer's own click
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _global_options() -> Iterator[Entry]:
    """Return the global options as they are declared."""
    for annotation in GLOBAL_OPTIONS.values():
        option = get_args(annotation)[-1]
        spellings = ", ".join(str(name) for name in (option.default, *option.param_decls) if name)
        yield Entry(f"{spellings} {option.metavar or ''}".rstrip(), option.help)


def _summary(command: Any) -> str:  # Any: typer's own click
    return " ".join(cleandoc(command.help or "").split("\n\n")[0].split())


def _description(text: str, page: Page) -> Iterator[list[str]]:
    """Return the paragraphs of a help text: prose is refilled, examples are unchanged."""
    for paragraph in cleandoc(text).split("\n\n"):
        lines = paragraph.replace("\b", "").strip("\n").splitlines()
        if any(line.startswith(" ") for line in lines):
            yield [f"  {line}" for line in lines]
        else:
            yield _block(" ".join(lines), min(page.width, _WIDEST_PROSE))


def _definitions(sections: dict[str, list[Entry]], page: Page) -> Iterator[list[str]]:
    """Return lists of names and descriptions below headings, with all descriptions in one column."""
    widest = page.width * 2 // 5
    names = [len(entry.name) for entries in sections.values() for entry in entries]
    column = max((length for length in names if length <= widest), default=0) + 4
    for heading, entries in sections.items():
        yield [page.heading(heading), *(line for entry in entries for line in _defined(entry, column, page.width))]


def _defined(entry: Entry, column: int, width: int) -> list[str]:
    """Return the lines of a name and its description; a name that is too long has a line of its own."""
    indent = " " * column
    text = " ".join(entry.text.split())
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    name = f"  {entry.name}"
    if not lines or len(name) + 2 > column:
        return [name, *lines]
    return [name.ljust(column) + lines[0].lstrip(), *lines[1:]]


def _exit_codes(epilog: str, page: Page) -> list[str]:
    """Return the exit codes, one line each; examples that do not fit are left out."""
    heading, *lines = epilog.replace("\b\n", "").splitlines()
    return [page.heading(heading.rstrip(":")), *(_in_one_line(line, page.width) for line in lines)]


def _in_one_line(line: str, width: int) -> str:
    """Cut a list of examples after a comma; fold what is still too wide."""
    parts: Sequence[str] = line.split(", ")
    while len(parts) > 1 and len(line) > width:
        parts = parts[:-1]
        line = ", ".join([*parts, "…"])
    return "\n".join(textwrap.wrap(line, width, subsequent_indent=" " * 6))


def _block(text: str, width: int) -> list[str]:
    """Return text in lines of at most `width`; no-break spaces hold words together."""
    lines = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _joined(blocks: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks if block)
