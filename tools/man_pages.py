"""Generate the manual pages in roff. They have the version and no date, so that they change only with the code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from deltacli import __version__
from deltacli.cli.described_commands import DescribedCommand, DescribedOption
from deltacli.core.errors import EXIT_CODES

_ROOT_TEXT = """\
deltacli rebuilds the history and the state of a table from its log by the rules of the Delta protocol, without a
cluster or a catalog. A TABLE is a path or a URI: ./t, file:///..., s3://..., gs://..., abfss://... or any other scheme
that fsspec supports.

Only the result is written to standard output. Notes and errors are written to standard error. A terminal gets aligned
columns, a pipe gets complete values and absolute UTC times.
"""


def render_man_pages(root: DescribedCommand, environment: Mapping[str, str]) -> dict[str, str]:
    """Return each page by its file name."""
    commands = [command for command in root.walk() if command.path and not command.children]
    pages = {"deltacli.1": _root_page(root, commands, environment)}
    for command in commands:
        pages[f"{_page(command)}.1"] = _command_page(command, environment)
    return pages


def _root_page(root: DescribedCommand, commands: list[DescribedCommand], environment: Mapping[str, str]) -> str:
    lines = [*_head("deltacli", root.summary), ".SH SYNOPSIS"]
    lines += [".B deltacli", "[\\fIOPTIONS\\fR]", "\\fICOMMAND\\fR", "[\\fIOPTIONS\\fR]", "\\fITABLE\\fR"]
    lines += [".SH DESCRIPTION", *_prose(_ROOT_TEXT), ".SH COMMANDS"]
    for command in commands:
        lines += [".TP", f"\\fBdeltacli\\-{_text(command.name.replace(' ', '-'))}\\fR(1)", _line(command.summary)]
    lines += [".SH OPTIONS", "These may also stand behind a command, except \\fB\\-\\-version\\fR, which"]
    lines += ["there chooses a version of the table.", *_options(root)]
    meanings = {number: code.meaning for number, code in EXIT_CODES.items()}
    lines += [*_exit_status(meanings), *_environment(environment), *_examples(root.help)]
    return _end(lines, [_page(command) for command in commands])


def _command_page(command: DescribedCommand, environment: Mapping[str, str]) -> str:
    arguments = " ".join(f"\\fI{_text(argument.spelled)}\\fR" for argument in command.arguments)
    lines = [*_head(_page(command), command.summary), ".SH SYNOPSIS"]
    lines += [f".B deltacli {_text(command.name)}", "[\\fIOPTIONS\\fR]", arguments or ".", ".SH DESCRIPTION"]
    lines += [*_prose(_description(command.help)), ".SH OPTIONS"]
    for argument in command.arguments:
        lines += [".TP", f"\\fI{_text(argument.spelled)}\\fR", _line(argument.help)]
    lines += _options(command)
    lines += _exit_status(
        {int(code): text for code, text in re.findall(r"^ *(\d+) +(.*)", command.epilog, re.MULTILINE)}
    )
    lines += [*_environment(environment), *_examples(command.help)]
    return _end(lines, ["deltacli"])


def _head(name: str, summary: str) -> list[str]:
    brief = summary[:1].lower() + summary[1:].rstrip(".")
    return [
        '.\\" Generated from the command tree, do not edit.',
        f'.TH {_text(name.upper())} 1 "" "deltacli {_text(__version__)}" "deltacli manual"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(brief)}",
    ]


def _options(command: DescribedCommand) -> list[str]:
    """The options, each section under a heading of its own."""
    lines = []
    for heading, options in command.sections.items():
        lines.append(f".SS {_text(heading)}")
        for option in options:
            lines += [".TP", _spelled(option), _line(option.full_help)]
    return lines


def _spelled(option: DescribedOption) -> str:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.spellings)
    return names + (f" \\fI{_text(option.value.name)}\\fR" if option.value else "")


def _exit_status(codes: Mapping[int, str]) -> list[str]:
    lines = [".SH EXIT STATUS"]
    for code, text in codes.items():
        lines += [".TP", f"\\fB{code}\\fR", _line(text)]
    return [*lines, ".TP", "\\fB128+N\\fR", "signal N"]


def _environment(environment: Mapping[str, str]) -> list[str]:
    lines = [".SH ENVIRONMENT"]
    for name, meaning in environment.items():
        lines += [".TP", f"\\fB{_text(name)}\\fR", _line(meaning)]
    return lines


def _examples(text: str) -> list[str]:
    found = re.search(r"^Examples:\n((?:  .*\n?)+)", text, re.MULTILINE)
    if not found:
        return []
    lines = [_line(line) for line in textwrap.dedent(found[1]).splitlines()]
    return [".SH EXAMPLES", ".EX", *lines, ".EE"]


def _description(text: str) -> str:
    """Return the help of a command without its examples."""
    return re.sub(r"^Examples:\n(?:  .*\n?)+", "", text, flags=re.MULTILINE)


def _prose(text: str) -> list[str]:
    """Return text as paragraphs. Indented lines are kept as they are."""
    lines: list[str] = []
    for paragraph in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        lines += [".PP"] if lines else []
        if any(line.startswith("  ") for line in paragraph.splitlines()):
            lines += [".EX", *(_line(line) for line in paragraph.splitlines()), ".EE"]
        else:
            lines += [_line(line) for line in textwrap.fill(" ".join(paragraph.split()), 76).splitlines()]
    return lines


def _end(lines: list[str], others: list[str]) -> str:
    see = ",\n".join(f"\\fB{_text(name)}\\fR(1)" for name in others)
    return "\n".join([*lines, ".SH SEE ALSO", see]) + "\n"


def _page(command: DescribedCommand) -> str:
    return "-".join(("deltacli", *command.path))


def _line(text: str) -> str:
    """Return a line of text that is not taken for a request, with `code` in bold."""
    marked = re.sub(r"`([^`]*)`", "\x01\\1\x02", text)
    found = _text(marked).replace("\x01", "\\fB").replace("\x02", "\\fR")
    return f"\\&{found}" if found.startswith((".", "'")) else found


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha")
    return "".join(c if c < "\x7f" else f"\\[u{ord(c):04X}]" for c in escaped)
