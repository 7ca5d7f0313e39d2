"""Help as text: plain sections, as wide as the terminal, or in 80 columns."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltacli.cli.invocation import HELP_ALL, colour_of_environment
from deltacli.core.typing import JsonObject

WIDTH = 80
"""Columns of help that is written to a pipe."""

_LEAST_WIDTH = 40
_WIDEST_PROSE = 100
_ELSEWHERE = "explained by deltacli --help-all"


def _looks() -> tuple[int, bool]:
    """Return the width of a page, and whether its headings are bold."""
    if not sys.stdout.isatty():
        return WIDTH, False
    width = max(shutil.get_terminal_size((WIDTH, 24)).columns, _LEAST_WIDTH)
    return width, sys.stderr.isatty() and colour_of_environment() is not False


def fold_topic(title: str, blocks: Sequence[Any]) -> str:
    """Return the text of a topic: paragraphs, names with their meanings and lines of examples, as wide as a page."""
    width, is_bold = _looks()
    written = [[f"\x1b[1m{title}\x1b[0m" if is_bold else title]]
    for block in blocks:
        match block:
            case str():
                written.append(_block(block, min(width, _WIDEST_PROSE)))
            case {"code": lines}:
                written.append(_examples([f"    {line}" for line in lines], width))
            case _:
                column = max((len(name) for name, _ in block if len(name) <= width * 2 // 5), default=0) + 4
                parts = ((name * (not at), part) for name, text in block for at, part in enumerate(text.split("\n")))
                written.append([line for name, part in parts for line in _defined(name, part, column, width)])
    return "\n\n".join("\n".join(lines) for lines in written)


def fold(page: JsonObject, *, is_whole: bool = True) -> str:
    """Return the text of a page, as wide as the terminal, or in 80 plain columns."""
    cut = _folded if is_whole else _in_one_line
    width, is_bold = _looks()
    title = "\x1b[1m{}:\x1b[0m" if is_bold else "{}:"
    usage = _wrapped(" ".join(["Usage:", *page["usage"]]), width, "", " " * 7)
    blocks = [usage, *_description(page["description"], width)]
    for part in page["lists"]:
        blocks += [_block(part, width)] if isinstance(part, str) else _definitions(part, title, width)
    for heading, names in page.get("names", {}).items():
        blocks.append([f"{title.format(heading)} ({_ELSEWHERE})", *_block(names, width)])
    if exit_codes := page.get("exit codes"):
        heading, *lines = exit_codes.replace("\b\n", "").splitlines()
        blocks.append([title.format(heading.rstrip(":")), *(cut(line, width) for line in lines)])
    blocks.append(_block(page.get("closing", ""), width))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def fold_common(page: JsonObject) -> str:
    """Return the text of a page up to its examples, with its common options, and the command that shows the others."""
    if (common := page.get("common")) is None:
        return fold(page)
    shown = {name for name, _ in common}
    options = {
        heading: [name for name, _ in entries]
        for sections in page["lists"]
        for heading, entries in sections.items()
        if entries[0][0].startswith("-")
    }
    options |= {heading: names.replace("\xa0", " ").split("  ") for heading, names in page.get("names", {}).items()}
    left = [heading for heading, names in options.items() for name in names if name not in shown and name[:2] != "-h"]
    command = f"{page['usage'][0]} {HELP_ALL}".replace(" ", "\xa0")
    more = f"{len(left)} more options: {command} ({', '.join(dict.fromkeys(left)).lower()})" if left else ""
    lists: list[Any] = []
    for sections in page["lists"]:
        lists.append({heading: entries for heading, entries in sections.items() if heading not in options})
        if len(lists[-1]) < len(sections):
            lists[-1] |= {"Common options": common} if common else {}
            lists.append(more)
    before, examples, after = page["description"].partition("Examples:\n")
    description = before + examples + after.partition("\n\n")[0]
    return fold({**page, "description": description, "lists": lists, "names": {}}, is_whole=False)


_SELDOM = ("manifest", "spark", "completion")
"""Commands that the program without arguments names in its last line only."""


def fold_short(page: JsonObject) -> str:
    """Return what a page says first, and its commands on one line each but those that few users need."""
    width, is_bold = _looks()
    title = "\x1b[1m{}:\x1b[0m" if is_bold else "{}:"
    column = max(len(name) for entries in page["lists"][0].values() for name, _ in entries) + 4
    lines = [" ".join(["Usage:", *page["usage"]]), "", f"  {page['description'].partition(chr(10))[0]}", ""]
    for heading, entries in page["lists"][0].items():
        lines.append(title.format(heading))
        shown = [entry for entry in entries if entry[0] not in _SELDOM]
        lines += (f"  {name}".ljust(column) + _in_short(text, width - column) for name, text in shown)
    lines += ["", f"  Also {', '.join(_SELDOM)}. See deltacli --help, deltacli help COMMAND"]
    return "\n".join(lines)


def _in_short(text: str, room: int) -> str:
    """Return a description, up to the end of the sentence or clause that has room."""
    for mark in (". ", "; ", ": ", ", "):
        while len(text) > room and mark in text:
            text = text.rpartition(mark)[0] + "."
    return text


def _description(text: str, width: int) -> Iterator[list[str]]:
    """Return the paragraphs of a help text: prose is refilled, examples are unchanged."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.replace("\b", "").strip("\n").splitlines()
        if any(line.startswith(" ") for line in lines):
            yield _examples([f"  {line}" for line in lines], width)
        else:
            yield _block(" ".join(lines), min(width, _WIDEST_PROSE))


def _examples(lines: Sequence[str], width: int) -> list[str]:
    """Return lines of commands and tables; where one is too wide, remarks stand above their commands, which continue
    after a backslash.
    """
    if all(len(line) <= width for line in lines):
        return list(lines)
    return [part for line in lines for part in _example(line, width)]


def _example(line: str, width: int) -> Iterator[str]:
    said, _, remark = line.partition("  # ")
    indent = " " * (len(said) - len(said.lstrip()))
    if remark:
        yield from _wrapped(remark, width, f"{indent}# ", f"{indent}# ")
    if len(said.rstrip()) <= width:
        yield said.rstrip()
    elif "  " in said.strip():  # cells of a table
        name, text = said.strip().split("  ", maxsplit=1)
        if "  " not in text.strip() and len(said) - len(text.lstrip()) <= width // 3:  # a name and what it means
            yield from _defined(name, text, len(said) - len(text.lstrip()), width, indent)
        else:
            yield from (indent + cell.strip() for cell in said.split("  ") if cell.strip())
    else:
        from deltacli.cli.terminal.wrapping import wrap_command

        yield from (indent + part for part in wrap_command(said.strip(), width - len(indent)))


def _definitions(sections: Mapping[str, Sequence[tuple[str, str]]], title: str, width: int) -> Iterator[list[str]]:
    """Return lists of names and descriptions below headings, with all descriptions in one column."""
    names = [len(name) for entries in sections.values() for name, _ in entries]
    column = max((length for length in names if length <= width // 3), default=0) + 4
    for heading, entries in sections.items():
        yield [title.format(heading), *(line for entry in entries for line in _defined(*entry, column, width))]


def _defined(name: str, text: str, column: int, width: int, before: str = "  ") -> list[str]:
    """Return the lines of a name and its description; a name that is too long has a line of its own."""
    indent = " " * column
    text = " ".join(text.split())
    lines = _wrapped(text, width, indent, indent)
    name = before + name
    if not lines or len(name) + 2 > column:
        return [*_wrapped(name.lstrip(), width, before, before), *lines]
    return [name.ljust(column) + lines[0].lstrip(), *lines[1:]]


def _in_one_line(line: str, width: int) -> str:
    """Cut a list of examples after a comma; fold what is still too wide."""
    parts: Sequence[str] = line.split(", ")
    while len(parts) > 1 and len(line) > width:
        parts = parts[:-1]
        line = ", ".join([*parts, "…"])
    return _folded(line, width)


def _folded(line: str, width: int) -> str:
    return "\n".join(_wrapped(line, width, "", " " * 6))


def _block(text: str, width: int) -> list[str]:
    """Return text in indented lines of at most `width`; no-break spaces hold words together."""
    return _wrapped(text, width, "  ", "  ")


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    """Return text in lines of at most `width`, broken between words; a word too long for the indent has less of it."""
    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    lines = [line if len(line) <= width else line.lstrip().rjust(width) for line in lines]
    return [line.replace("\xa0", " ") for line in lines]
