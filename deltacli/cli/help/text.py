"""Help as text: plain sections, as wide as the terminal, or in 80 columns."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from deltacli.cli.invocation import HELP_ALL, colour_of_environment

WIDTH = 80
"""Columns of help that is written to a pipe."""

_LEAST_WIDTH = 40
_WIDEST_PROSE = 100
_ELSEWHERE = "explained by deltacli --help-all"
_EXAMPLES = "Examples:\n"

_SELDOM_USED = ("manifest", "spark", "completion")
"""Commands that the program without arguments names in its last line only."""

Entry: TypeAlias = tuple[str, str]
"""An option, argument or command, and its description."""

Sections: TypeAlias = Mapping[str, Sequence[Entry]]
"""Entries below headings. Their descriptions are in one column."""


@dataclass(frozen=True, slots=True)
class HelpPage:
    """What the help of a command or group says, not folded yet.

    Attributes:
        usage: The words of the usage line.
        description: The help text: paragraphs with an empty line between them. Lines that begin with a space are
            examples.
        lists: Arguments, options or commands in sections. A text is a paragraph between them.
        common: The common options. None: the page has one form only.
        names: Heading of options that are not explained here -> their names, two spaces between them.
        exit_codes: The exit codes, below a heading.
        closing: The last paragraph.
    """

    usage: Sequence[str]
    description: str
    lists: Sequence[Sections | str]
    common: Sequence[Entry] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    exit_codes: str = ""
    closing: str = ""


class Definitions(NamedTuple):
    """Names with their meanings in a topic of help. The lines of a meaning are separated by line ends."""

    rows: tuple[tuple[str, str], ...]


def define_stated(rows: Iterable[tuple[str, str]]) -> Definitions:
    """Return the definitions of those names that have a meaning."""
    return Definitions(tuple((label, text) for label, text in rows if text))


class ExampleLines(NamedTuple):
    """The lines of an example in a topic of help."""

    lines: tuple[str, ...]


TopicBlock: TypeAlias = str | Definitions | ExampleLines
"""A part of a topic; text is a paragraph."""


@dataclass(frozen=True, slots=True)
class Topic:
    """An explanation that `deltacli help WORD` shows.

    Attributes:
        title: Its first line.
        blocks: What it says.
        is_code: True if it explains a code of errors, refusals or warnings.
    """

    title: str
    blocks: tuple[TopicBlock, ...]
    is_code: bool = False


class Layout(NamedTuple):
    """The form of a text.

    Attributes:
        width: Its columns.
        is_bold: True if headings are bold.
    """

    width: int
    is_bold: bool

    def emphasize(self, text: str) -> str:
        """Return a heading."""
        return f"\x1b[1m{text}\x1b[0m" if self.is_bold else text


def find_layout() -> Layout:
    """Return the layout of stdout."""
    if not sys.stdout.isatty():
        return Layout(WIDTH, is_bold=False)
    width = max(shutil.get_terminal_size((WIDTH, 24)).columns, _LEAST_WIDTH)
    return Layout(width, is_bold=sys.stderr.isatty() and colour_of_environment() is not False)


def fold_topic(topic: Topic) -> str:
    """Return the text of a topic: paragraphs, names with their meanings and lines of examples, as wide as a page."""
    layout = find_layout()
    blocks = [[layout.emphasize(topic.title)]]
    for block in topic.blocks:
        if isinstance(block, str):
            blocks.append(_fold_paragraph(block, min(layout.width, _WIDEST_PROSE)))
        elif isinstance(block, ExampleLines):
            blocks.append(_fold_examples([f"    {line}" for line in block.lines], layout.width))
        else:
            blocks.append(_fold_definitions(block, layout.width))
    return _join_blocks(blocks)


def _fold_definitions(definitions: Definitions, width: int) -> list[str]:
    """Return names and meanings in two columns; each line of a meaning begins a line of its own."""
    lengths = [len(name) for name, _text in definitions.rows if len(name) <= width * 2 // 5]
    column = max(lengths, default=0) + 4
    lines: list[str] = []
    for name, text in definitions.rows:
        first_part, *other_parts = text.split("\n")
        lines += _fold_entry(name, first_part, column, width)
        for part in other_parts:
            lines += _fold_entry("", part, column, width)
    return lines


def fold(page: HelpPage) -> str:
    """Return the text of a page, as wide as the terminal, or in 80 plain columns."""
    return _fold_page(page, _fold_line)


def fold_common(page: HelpPage) -> str:
    """Return the text of a page up to its examples, with its common options, and the command that shows the others."""
    if page.common is None:
        return fold(page)

    lists: list[Sections | str] = []
    for sections in page.lists:
        assert not isinstance(sections, str)
        other_sections = {heading: entries for heading, entries in sections.items() if not _are_options(entries)}
        if len(other_sections) == len(sections):
            lists.append(sections)
            continue
        # The common options stand in the place of all options.
        lists.append({**other_sections, "Common options": page.common} if page.common else other_sections)
        lists.append(_count_further_options(page, page.common))

    introduction, heading, examples = page.description.partition(_EXAMPLES)
    first_examples = examples.partition("\n\n")[0]
    short_page = replace(page, description=introduction + heading + first_examples, lists=lists, names={})
    return _fold_page(short_page, _shorten_line)


def fold_short(page: HelpPage) -> str:
    """Return what a page says first, and its commands on one line each but those that few users need."""
    layout = find_layout()
    commands = page.lists[0]
    assert not isinstance(commands, str)
    names = [name for entries in commands.values() for name, _text in entries]
    column = max(map(len, names)) + 4
    first_line = page.description.partition("\n")[0]
    lines = [" ".join(["Usage:", *page.usage]), "", f"  {first_line}", ""]
    for heading, entries in commands.items():
        lines.append(layout.emphasize(f"{heading}:"))
        for name, text in entries:
            if name not in _SELDOM_USED:
                lines.append(f"  {name}".ljust(column) + _shorten_description(text, layout.width - column))
    lines += ["", f"  Also {', '.join(_SELDOM_USED)}. See deltacli --help, deltacli help COMMAND"]
    return "\n".join(lines)


def _fold_page(page: HelpPage, fold_exit_code: Callable[[str, int], str]) -> str:
    """Return the text of a page.

    Args:
        page: The page.
        fold_exit_code: Returns the line of an exit code, of which a width is given.
    """
    layout = find_layout()
    width = layout.width
    usage = _wrap(" ".join(["Usage:", *page.usage]), width, "", " " * len("Usage: "))
    blocks = [usage, *_fold_description(page.description, width)]
    for part in page.lists:
        blocks += [_fold_paragraph(part, width)] if isinstance(part, str) else _fold_sections(part, layout)
    for heading, names in page.names.items():
        title = layout.emphasize(f"{heading}:")
        blocks.append([f"{title} ({_ELSEWHERE})", *_fold_paragraph(names, width)])
    if page.exit_codes:
        heading, *lines = page.exit_codes.replace("\b\n", "").splitlines()
        blocks.append([layout.emphasize(heading), *(fold_exit_code(line, width) for line in lines)])
    blocks.append(_fold_paragraph(page.closing, width))
    return _join_blocks(blocks)


def _join_blocks(blocks: Iterable[Sequence[str]]) -> str:
    """Return blocks of lines with an empty line between them; blocks without lines are left out."""
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _are_options(entries: Sequence[Entry]) -> bool:
    return entries[0][0].startswith("-")


def _count_further_options(page: HelpPage, common: Sequence[Entry]) -> str:
    """Return how many options a page has besides the common ones, and what shows them; "" for none."""
    common_names = {name for name, _text in common}
    options: dict[str, list[str]] = {}
    for sections in page.lists:
        assert not isinstance(sections, str)
        for heading, entries in sections.items():
            if _are_options(entries):
                options[heading] = [name for name, _text in entries]
    for heading, names in page.names.items():
        options[heading] = names.replace("\xa0", " ").split("  ")

    headings: list[str] = []
    for heading, spellings in options.items():
        # `-h, --help` is how one got here.
        further = [name for name in spellings if name not in common_names and not name.startswith("-h")]
        headings += [heading] * len(further)
    if not headings:
        return ""
    command = f"{page.usage[0]} {HELP_ALL}".replace(" ", "\xa0")
    return f"{len(headings)} more options: {command} ({', '.join(dict.fromkeys(headings)).lower()})"


def _shorten_description(text: str, width: int) -> str:
    """Return a description, up to the end of the sentence or clause that has room."""
    for mark in (". ", "; ", ": ", ", "):
        while len(text) > width and mark in text:
            text = text.rpartition(mark)[0] + "."
    return text


def _fold_description(text: str, width: int) -> Iterator[list[str]]:
    """Yield the paragraphs of a help text: prose is refilled, examples are unchanged."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.replace("\b", "").strip("\n").splitlines()
        if any(line.startswith(" ") for line in lines):
            yield _fold_examples([f"  {line}" for line in lines], width)
        else:
            yield _fold_paragraph(" ".join(lines), min(width, _WIDEST_PROSE))


def _fold_examples(lines: Sequence[str], width: int) -> list[str]:
    """Return lines of commands and tables.

    Where one is too wide, remarks stand above their commands, which continue after a backslash.
    """
    if all(len(line) <= width for line in lines):
        return list(lines)
    return [part for line in lines for part in _fold_example(line, width)]


def _fold_example(line: str, width: int) -> Iterator[str]:
    """Yield a line of an example as lines of at most `width`."""
    example, _, remark = line.partition("  # ")
    indent = " " * (len(example) - len(example.lstrip()))
    if remark:
        yield from _wrap(remark, width, f"{indent}# ", f"{indent}# ")

    if len(example.rstrip()) <= width:
        yield example.rstrip()
    elif "  " in example.strip():
        yield from _fold_row(example, indent, width)
    else:
        # Only a command that is too wide needs it.
        from deltacli.cli.terminal.wrapping import wrap_command

        yield from (indent + part for part in wrap_command(example.strip(), width - len(indent)))


def _fold_row(row: str, indent: str, width: int) -> Iterator[str]:
    """Yield a row of a table: a name and its meaning in two columns, other cells below each other."""
    name, text = row.strip().split("  ", maxsplit=1)
    column = len(row) - len(text.lstrip())
    if "  " not in text.strip() and column <= width // 3:
        yield from _fold_entry(name, text, column, width, indent)
        return
    for cell in row.split("  "):
        if cell.strip():
            yield indent + cell.strip()


def _fold_sections(sections: Sections, layout: Layout) -> Iterator[list[str]]:
    """Yield lists of names and descriptions below headings, with all descriptions in one column."""
    lengths = [len(name) for entries in sections.values() for name, _text in entries]
    column = max((length for length in lengths if length <= layout.width // 3), default=0) + 4
    for heading, entries in sections.items():
        lines = [layout.emphasize(f"{heading}:")]
        for name, text in entries:
            lines += _fold_entry(name, text, column, layout.width)
        yield lines


def _fold_entry(name: str, text: str, column: int, width: int, indent: str = "  ") -> list[str]:
    """Return the lines of a name and its description; a name that is too long has a line of its own.

    Args:
        name: The name.
        text: The description, which begins in `column`.
        column: A number of characters.
        width: The columns of a line.
        indent: What stands before the name.
    """
    lines = _wrap(" ".join(text.split()), width, " " * column, " " * column)
    indented_name = indent + name
    if not lines or len(indented_name) + 2 > column:
        return [*_wrap(name.lstrip(), width, indent, indent), *lines]
    return [indented_name.ljust(column) + lines[0].lstrip(), *lines[1:]]


def _shorten_line(line: str, width: int) -> str:
    """Return the line of an exit code, cut after a comma of its examples; fold what is still too wide."""
    parts = line.split(", ")
    while len(parts) > 1 and len(line) > width:
        parts = parts[:-1]
        line = ", ".join([*parts, "…"])
    return _fold_line(line, width)


def _fold_line(line: str, width: int) -> str:
    return "\n".join(_wrap(line, width, "", " " * 6))


def _fold_paragraph(text: str, width: int) -> list[str]:
    """Return text in indented lines of at most `width`; no-break spaces hold words together."""
    return _wrap(text, width, "  ", "  ")


def _wrap(text: str, width: int, first_indent: str, indent: str) -> list[str]:
    """Return text in lines of at most `width`, broken between words; a word too long for the indent has less of it."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first_indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [line if len(line) <= width else line.lstrip().rjust(width) for line in lines]
    return [line.replace("\xa0", " ") for line in lines]
