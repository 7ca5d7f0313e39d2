"""Generate references in Markdown: commands and groups, a list of all, error codes, and the index of modules."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deltacli.cli.command_table import HEADINGS
from deltacli.cli.described_commands import DescribedCommand, DescribedOption
from deltacli.cli.help.all_commands import find_variables
from deltacli.cli.help.sections import OptionHeading
from deltacli.rules.framework.base import CATALOGUE
from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE
from tools.help_topics import DOCS, exit_code_rows

GUIDES: Mapping[str, str] = {
    "alter": "alter.md",
    "catalog": "catalogs.md",
    "changes": "reading.md#changes",
    "checkpoint": "checkpoints.md",
    "clone": "clone.md",
    "completion": "scripting.md#manual-pages-and-completions",
    "convert": "convert.md",
    "copy": "copy.md",
    "diff": "before-a-change.md#what-differs",
    "doctor": "doctor.md",
    "explain": "before-a-change.md#who-can-read-and-write-it",
    "features": "properties.md",
    "fleet": "tasks/many-tables.md",
    "history": "tasks/what-happened.md",
    "log": "tasks/reclaim-space.md#the-log-takes-space-too",
    "manifest": "systems.md#other-engines",
    "optimize": "optimize.md",
    "properties": "properties.md",
    "reach": "before-a-change.md#how-far-back",
    "streams": "streams.md",
    "read": "reading.md",
    "repair": "tasks/repair-a-table.md",
    "restore": "tasks/undo.md",
    "schema": "paimon.md#schemas-across-formats",
    "share": "tasks/share-a-table.md",
    "snapshot": "tasks/why-is-it-slow.md#look-at-the-state",
    "spark": "spark.md",
    "stats": "stats.md",
    "undelete": "tasks/undo.md#files-are-gone",
    "vacuum": "vacuum.md",
    "validate": "validate.md",
    "widen-type": "widen-type.md",
}
"""Command or group -> where it is explained with examples, if it is."""


def render_reference(root: DescribedCommand, environment: Mapping[str, str]) -> dict[str, str]:
    """Return each page of the reference by its path below docs/."""
    top = {command.name: command for command in root.children}
    pages = {f"commands/{name}.md": "\n".join(_page(command, environment)) for name, command in top.items()}
    shared = next(command for command in root.walk() if command.path and not command.children).sections
    lines = [
        "# Commands",
        "",
        "`deltacli COMMAND --help` prints the same text. `deltacli help --where` explains an option.",
    ]
    for heading, names in HEADINGS.items():
        lines += ["", f"## {heading}", "", "| command | what it does |", "|---|---|"]
        lines += [row for name in names.split() for row in _rows(top[name])]
    lines += ["", "## Global options", "", *_option_table("Every command", shared[OptionHeading.GLOBAL], environment)]
    lines += ["## Exit codes", "", *exit_code_rows(), "", "## Environment", "", *environment_rows(environment), ""]
    return {"commands.md": "\n".join(lines), **pages}


def _usage(command: DescribedCommand) -> str:
    return " ".join(["deltacli", command.name, *(argument.spelled for argument in command.arguments)])


def _anchor(command: DescribedCommand) -> str:
    """Return the id that the heading of a command gets, from mkdocs and GitHub."""
    return re.sub(r"[^\w\s-]", "", _usage(command)).lower().replace(" ", "-")


def _leaves(command: DescribedCommand) -> Iterator[DescribedCommand]:
    return (below for below in command.walk() if not below.children)


def _rows(command: DescribedCommand) -> Iterator[str]:
    """Yield the rows of a command, or of those of a group, with the ids that they had when all were on one page."""
    for leaf in _leaves(command):
        link = f"[`{leaf.name}`](commands/{command.name}.md#{_anchor(leaf)})"
        yield f'| <a id="{_anchor(leaf)}"></a>{link} | {cell(leaf.summary)} |'


def _page(command: DescribedCommand, environment: Mapping[str, str]) -> list[str]:
    """Return the page of a command, or of a group with all commands below it."""
    links = "[Global options](../commands.md#global-options) · [All commands](../commands.md)"
    guide = GUIDES.get(command.name)
    if guide is not None:
        title = (DOCS / guide.partition("#")[0]).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        links = f"With examples: [{title}](../{guide}) · {links}"
    if not command.children:
        return [f"# `{_usage(command)}`", "", links, "", *_body(command, environment)]
    lines = [f"# `deltacli {command.name}`", "", command.summary, "", links, ""]
    for leaf in _leaves(command):
        lines += [f"## `{_usage(leaf)}`", "", *_body(leaf, environment)]
    return lines


def _body(command: DescribedCommand, environment: Mapping[str, str]) -> list[str]:
    lines = [line for block in command.help.split("\n\n") for line in (*_block(block), "")]
    for heading, options in command.sections.items():
        if heading != OptionHeading.GLOBAL:
            lines += _option_table(heading, options, environment)
    return [*lines, "```text", command.epilog, "```", ""]


_CODE = re.compile(r"`[^`]+`|(?<![\w-])--?[a-z][a-z-]*(?![\w-])|[\w./]*_[\w./…-]*[\w…]|[\\*\[\]<]")
"""What is code in a help text, and last the characters that Markdown would take for marks."""


def _block(text: str) -> Iterator[str]:
    """Yield a paragraph of a help text as prose, or as it is where lines are indented."""
    if re.search("^ ", text, re.MULTILINE):
        yield from ("```text", text, "```")
    else:
        yield _CODE.sub(_marked, text)


def _marked(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("`"):
        return text
    return f"`{text}`" if len(text) > 1 else {"<": "&lt;"}.get(text, f"\\{text}")


def _option_table(heading: str, options: Sequence[DescribedOption], environment: Mapping[str, str]) -> list[str]:
    return [f"| {heading} | meaning |", "|---|---|", *(_option_row(option, environment) for option in options), ""]


def _option_row(option: DescribedOption, environment: Mapping[str, str]) -> str:
    variables = [name for name in sorted(find_variables(option)) if name in environment]
    text = option.full_help + (f" Environment: `{'`, `'.join(variables)}`." if variables else "")
    return f"| `{cell(option.spelled)}` | {cell(text)} |"


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|")


def environment_rows(environment: Mapping[str, str]) -> list[str]:
    """Return the table of environment variables."""
    return [
        "| variable | meaning |",
        "|---|---|",
        *(f"| `{name}` | {cell(text)} |" for name, text in environment.items()),
    ]


# -- the page of error codes -------------------------------------------------------------------------------------------

DECLARED = Path(__file__).resolve().parent / "error_codes.toml"

_ERRORS_HEAD = """\
# Error codes

What each code of an error, a refusal or a warning means, and what to do about it. `deltacli help CODE` shows the same.
To find a code here, search the page for it, or add it without its dot to the address: `#tableversion-absent`.

A code without an action here has that of its family, such as `alter.*`, or of its
[exit code](scripting.md#exit-codes). A code that is a [rule](rules.md) of `validate` means that the table breaks the
rule, whose `fix` says what to do.

In the commands, TABLE, COLUMN and other upper-case words stand for your own values. Commands that change something show
their plan first: add `--dry-run`, then `--yes`.

| a code that begins with | is about |
|---|---|
"""
_ERROR_COLUMNS = {"exit": "exit", "what": "what happened", "do": "what to do"}


class ErrorCodes(NamedTuple):
    """Codes that mean the same: the exit codes that they have, what happened and what to do, as Markdown."""

    codes: tuple[str, ...]
    exit: str
    what: str
    do: str


def read_error_codes() -> dict[str, list[ErrorCodes]]:
    """Return the declared codes by section."""
    sections = tomllib.loads(DECLARED.read_text(encoding="utf-8"))
    return {heading: [_error_codes(*entry) for entry in entries.items()] for heading, entries in sections.items()}


def _error_codes(codes: str, entry: Mapping[str, object]) -> ErrorCodes:
    exits, what, do = (str(entry.get(part, "")) for part in ("exit", "what", "do"))
    return ErrorCodes(tuple(codes.split(", ")), exits, what, do)


def render_errors_page() -> str:
    """Return the page in Markdown."""
    codes = read_error_codes()
    sections = (f"## {heading}\n\n{_error_table(rows)}" for heading, rows in codes.items())
    return "\n".join([_ERRORS_HEAD + "".join(_families(codes)), *sections])


def _families(sections: Mapping[str, Sequence[ErrorCodes]]) -> Iterator[str]:
    """Yield a row for each section, with the words before the dot of its codes."""
    for heading, rows in sections.items():
        begins = sorted({code.partition(".")[0] for row in rows for code in row.codes})
        link = re.sub(r"[^ a-z]", "", heading.lower()).replace(" ", "-")
        yield f"| {', '.join(f'`{word}`' for word in begins)} | [{heading}](#{link}) |\n"


def _error_table(rows: Sequence[ErrorCodes]) -> str:
    """Return the table of codes, with the columns that a row has something for."""
    columns = {name: label for name, label in _ERROR_COLUMNS.items() if any(getattr(row, name) for row in rows)}
    cells = ([", ".join(map(_linked, row.codes)), *(getattr(row, name) for name in columns)] for row in rows)
    lines = [["code", *columns.values()], ["---"] * (len(columns) + 1), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _linked(code: str) -> str:
    """Return a code with its place on the page, and with a link to the rule where it is one."""
    anchor = re.sub(r"[^\w-]", "", code)
    pages = {"rules.md": CATALOGUE.rules, "paimon-rules.md": PAIMON_CATALOGUE.rules}
    page = next((page for page, rules in pages.items() if code in rules), None)
    place = "" if "*" in code else f'<a id="{anchor}"></a>'  # a family is no code
    return place + (f"`{code}`" if page is None else f"[`{code}`]({page}#{anchor})")
