"""Help of commands and groups: plain text in sections, as wide as the terminal.

A page is a JSON object of texts that are not folded yet. It is read from the command tree, or, where the command line
asks for help only, from a generated file, which imports neither typer nor the command.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from deltacli.cli.invocation import HELP_ALL, colour_of_environment
from deltacli.core.typing import Click, JsonObject

# -- the sections of a command's help ----------------------------------------------------------------------------------


class OptionHeading(StrEnum):
    """The headings above options, in the order of the help."""

    SELECTION = "Selection"
    EXECUTION = "Execution"
    OUTPUT = "Output"
    SAFETY = "Safety"
    GLOBAL = "Global"


_OPTIONS: Mapping[OptionHeading, str] = {
    OptionHeading.SELECTION: """
        --version --versions --newest --timestamp --from --to --rows --key --where --actions --checkpoint --retention
        --mode --prefix --client --if --target-size --min-size --min-files --zorder --cluster --purge --purge-ratio
        --max-bytes --partition --like --exclude --missing --checkpoints --tables --restart-point
        --branch --schema-id --snapshot-id --tag --schemas
        --inventory --include-foreign --level --sample --select --ignore --profile --baseline --list-rules --verify
        --comment --default --position --nullable --not-null --keep-nullability --with-options --drop --none
        --apply --undo --explain --full -c --grant --all --refs --no-refs --max-tables --only --resume
        --profile-of --time-zone --partition-value
    """,
    OptionHeading.EXECUTION: """
        --engine --master --remote --spark-conf --layout --parts --rows-per-file --v2-top --stats --if-behind --threads
        --rate --no-log-entries --commit-metadata --enable --upgrade-protocol --max-requests --time-budget --pause
        --no-credentials --probe-scope
        --truncate-history --replica --deep --expires --overlap
        --state --jobs --read --temp-dir --prices --no-listing --from-checksum
        --host --port --admin-port --workers --behind-proxy
    """,
    OptionHeading.OUTPUT: """
        --columns --row-ids --limit --count --as --counts --ddl --pretty
        --files --tombstones --schema --mapping --digest --brief --group --max-findings
        --fail-on --exit-zero --exit-code --write-baseline --trend --save-plan --save-plans --details --metrics --html
        --pages --write-pages --serve-metrics
        --format --json --template --output
    """,
    OptionHeading.SAFETY: """
        --dry-run --yes --check --check-files --force --replace --allow-retention-below --max-delete --keep-version
        --protect-from --skip-nested-tables --keep-last --quarantine --purge-older --trust-listing --steal-leases
        --allow-removals --allow-remote --accept-commits --accept-copy --accept-loss --accept-empty-commits
        --allow-lossy --allow-in-use
        --max-missing --unprotected --keep-external --accept-unknowable --protect-streams --ignore-streams-older
        --allow-stream-loss --min-paimon
    """,
    OptionHeading.GLOBAL: """
        -C --now --storage-option --retry-budget --allow-external --table-format --access --config --profile-name
        --catalog-profile --color --progress --log-format --no-pager --quiet --verbose --help -V
    """,
}
"""OptionHeading -> its options, mostly by their long names; -V is the --version of the program."""

_COMMON = """
    --version --timestamp --from --to --columns --limit --select --level --retention
    --check --dry-run --yes --max-delete --format --json --config -C -q -v -V --help
"""
"""Options that are common for every command that has them; others are where an example of the command uses them."""

_FIRST = [
    "--version",
    "--timestamp",
    "--from",
    "--to",
    "--retention",
    "--level",
    "--select",
    "--where",
    "--dry-run",
    "--check",
    "--yes",
]
_LAST = ["--schemas", "--branch"]
"""Common options that are shown before, and behind, the others."""

_SECTION_OF = {option: section for section, options in _OPTIONS.items() for option in options.split()}


def section_of(spellings: Iterable[str], text: str) -> OptionHeading | None:
    """Return the section of an option, None where it has none. By its help `text`, one that writes a file is output,
    also where another command reads a file by the same name, and one that takes something from a file is selection.
    """
    if text.startswith("Write the ") and " file" in text:
        return OptionHeading.OUTPUT
    if text.startswith("Take the ") and " file" in text:
        return OptionHeading.SELECTION
    return next((_SECTION_OF[name] for name in spellings if name in _SECTION_OF), None)


# -- help of commands and groups ---------------------------------------------------------------------------------------

TYPE_CHECKING = False  # importing it takes as long as folding a page
if TYPE_CHECKING:
    from typing import Any

    Entries = Iterable[tuple[str, str]]
    """Options, arguments or commands, and their descriptions."""

GENERATED = os.path.join(os.path.dirname(__file__), "help_pages.json")
"""The pages of all commands and groups by name; that of the program has none."""

WIDTH = 80
"""Columns of help that is written to a pipe."""

_WORDS = (
    ("deltacli help vacuum", "Explain a command."),
    ("deltacli help --where", "Explain an option, and list its commands."),
    ("deltacli help 3", "Explain an exit code."),
    ("deltacli help log.gap", "Explain a rule, or the code of an error."),
    ("deltacli help delta.appendOnly", "Explain a table property."),
    ("deltacli help deletionVectors", "Explain a table feature."),
    ("deltacli help topics", "List topics, such as tasks, json and exit-codes."),
    ("deltacli help all", "List all commands; --json describes them."),
)
"""A word of each kind that `deltacli help` explains."""
_LEAST_WIDTH = 40
_WIDEST_PROSE = 100
_ELSEWHERE = "explained by deltacli --help-all"


def show_generated_help(path: Sequence[str], view: Callable[[JsonObject], str]) -> bool:
    """Write the generated page of a command or group in one of the views below. False where it is missing."""
    name = " ".join(path)
    if name.split() != path:
        return False
    try:
        with open(GENERATED, encoding="utf-8") as file:
            page = json.load(file)[name]
        sys.stdout.write(view(page) + "\n")
        sys.stdout.flush()
    except (OSError, LookupError, ValueError):
        return False
    return True


def options() -> Iterator[tuple[str, str, str]]:
    """Yield each option of each command (""; global) with its value and help; nothing without the generated pages."""
    try:
        with open(GENERATED, encoding="utf-8") as file:
            pages = json.load(file)
    except (OSError, ValueError):
        return
    for command, page in pages.items():
        for sections in page["lists"]:
            for spelled, text in (entry for entries in sections.values() for entry in entries):
                if spelled.startswith("-"):
                    yield command, spelled, text


def names_in(spelled: str) -> list[str]:
    return [word for word in spelled.replace(",", " ").replace("/", " ").split() if word.startswith("-")]


def commands_with(option: str) -> list[str]:
    return [command for command, spelled, _ in options() if command and option in names_in(spelled)]


def command_page(command: Click, context: Click) -> JsonObject:
    """Return the page of a command: usage, description, examples, options in sections, exit codes."""
    sections = _sections(command, context)
    common = sorted(_common(sections, _cleaned(command.help)), key=_place)
    names = [spelled.replace(" ", "\xa0") for spelled, _ in sections.pop(OptionHeading.GLOBAL, [])]
    arguments = [found for found in command.get_params(context) if found.param_type_name == "argument"]
    if arguments:
        sections = {"Arguments": [(_spelled(found), found.help or "") for found in arguments], **sections}
    return {
        "usage": [context.command_path, "[OPTIONS]", *map(_spelled, arguments)],
        "description": _cleaned(command.help),
        "lists": [sections],
        "common": common,
        "names": {OptionHeading.GLOBAL: "  ".join(names)},
        "exit codes": command.epilog or "",
    }


def group_page(group: Click, context: Click) -> JsonObject:
    """Return the page of a group: usage, description, examples, commands, options; the root has its commands below
    headings, and the global options.
    """
    from deltacli.cli.command_tree import HEADINGS

    commands = {
        name: " ".join(_cleaned(command.help).split("\n\n")[0].split())
        for name, command in group.commands.items()
        if not command.hidden
    }
    own = [entry for entries in _sections(group, context).values() for entry in entries]
    whole = {"Options": own} if context.parent else {"Global options": [*_global_options(), *own]}
    headings = {"Commands": commands} if context.parent else {key: names.split() for key, names in HEADINGS.items()}
    return {
        "usage": [context.command_path, "[OPTIONS]", "COMMAND", "..."],
        "description": _cleaned(group.help),
        "lists": [
            {heading: [(name, commands[name]) for name in names] for heading, names in headings.items()},
            whole,
            *([] if context.parent else [{"Help": _WORDS}]),
        ],
        **({} if context.parent else {"common": [*_common(whole, "")]}),
        "closing": _cleaned(group.epilog),
    }


def _common(sections: Mapping[str, Entries], text: str) -> Iterator[tuple[str, str]]:
    """Yield the options that are common, and those that the examples in the help `text` use."""
    import re

    examples = "\n".join(line for line in text.splitlines() if line.startswith(" "))
    used = {*re.findall(r"(?<!\S)--?[a-z][a-z-]*", examples)}
    for heading, entries in sections.items():
        known = used if heading is OptionHeading.GLOBAL else {*used, *_COMMON.split()}
        yield from (entry for entry in entries if known & {*names_in(entry[0])})


def _place(entry: tuple[str, str]) -> int:
    (*_, name) = names_in(entry[0])
    return _FIRST.index(name) if name in _FIRST else len(_FIRST) + (name in _LAST)


def _cleaned(text: str | None) -> str:
    from inspect import cleandoc

    return cleandoc(text or "")


def _sections(command: Click, context: Click) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], **{section: [] for section in OptionHeading}}
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option" and (record := parameter.get_help_record(context)) is not None:
            sections[section_of(parameter.opts, parameter.help or "") or "Options"].append(record)
    return {heading: entries for heading, entries in sections.items() if entries}


def _spelled(argument: Click) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _global_options() -> Entries:
    from dataclasses import fields

    from deltacli.cli.command_tree import GlobalOptions
    from deltacli.core.request_fields import spellings_of

    for one in fields(GlobalOptions):
        if option := one.metadata.get("option"):
            spellings = ", ".join(spellings_of(one.name, option))
            yield f"{spellings} {option.metavar or ''}".rstrip(), option.meaning


def _looks() -> tuple[int, bool]:
    """Return the width of a page, and whether its headings are bold."""
    if not sys.stdout.isatty():
        return WIDTH, False
    import shutil

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
