"""Wrap messages for the width of a terminal.

Two kinds of text need special care. A command in a message is broken between its words with backslashes, so that it can
still be pasted into a shell:

    hint: deltacli vacuum s3://warehouse/sales/trips \\
        --retention 7d --dry-run

A long path is broken after a slash. A number and its unit (`12 MiB`) stay on one line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.units import keep_units_together

UNIT_BLANK = "\U0010fffd"
"""A private-use character, one cell wide, that replaces the space between a number and its unit during wrapping."""

MIN_VALUE_CELLS = 24
"""Minimum width of the column of values. If a terminal is narrower, values are written below their labels."""

_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_SHELL_WORD = re.compile(rf"""(?:{_QUOTED}|\\.|[^\s'"\\])+""")
_COMMAND_IN_SENTENCE = re.compile(r"(.*?:) (deltacli [^;]+)(?:; (.*))?")
"""Matches a sentence, a command after a colon, and optionally a second sentence after a semicolon."""

_LINE_PREFIX = re.compile(r"[a-z]+: |  \S+(?: \S+)*  +| *")
"""The beginning of a line of a message: `error: `, the padded name of a fact, or spaces. Further lines are indented by
its width.
"""

_CONTINUATION = "    "
"""The indent of the second and later lines of a command."""

_MAX_CELLS_BEFORE_COMMAND = 30
"""Maximum width of a text that a command follows on the same line, such as `next: `."""


def join_units(text: str) -> str:
    """Replace the space between a number and its unit by `UNIT_BLANK`, so that both are one word."""
    return keep_units_together(text, UNIT_BLANK)


def split_units(text: str) -> str:
    """Undo `join_units` in a wrapped text."""
    return text.replace(UNIT_BLANK, " ")


def format_command_pattern() -> str:
    """Return a regular expression for the first word of any command: `history|snapshot|…`."""
    return "|".join({name.split()[0] for name in COMMANDS})


def wrap_message(text: str, width: int) -> str:
    """Wrap a line of a message between words, with a hanging indent. A command in it can still be pasted.

    Args:
        text: The line. A JSON object, and a text of several lines, is returned unchanged.
        width: The width of the terminal in cells.
    """
    if count_cells(text) <= width or "\n" in text or text.startswith("{"):
        return text

    indent = " " * min(_count_indent(text), width // 2)
    sentence, command = _split_before_command(text)
    other_lines: list[str] = []
    if command is not None and _continues_after_command(command):
        # Write each command on lines of its own, so that it can be selected without the sentence.
        command = None
        sentence, *other_lines = wrap_with_commands(text, width)

    lines = _wrap_sentence(sentence, width, indent)
    if command is not None:
        lines = _append_command(lines, command, sentence, width)
    else:
        lines += [_wrap_other_line(line, width, indent) for line in other_lines]
    return split_units("\n".join(line.rstrip() for line in lines))


def _count_indent(text: str) -> int:
    match = _LINE_PREFIX.match(text)
    return len(match[0]) if match else 0


def _split_before_command(text: str) -> tuple[str, str | None]:
    """Split a text before its first command.

    Returns:
        The text before the command, and the text from the command to the end; None if there is no command.
    """
    command_start = rf"(?<= )(?=deltacli (?:--?|(?:help|{format_command_pattern()})(?: |$)))"
    sentence, *command = re.split(command_start, text, maxsplit=1)
    return sentence, command[0] if command else None


def _continues_after_command(text: str) -> bool:
    """Return True if a text that begins with a command contains more: the end of a sentence, or another command."""
    unquoted_text = re.sub(_QUOTED, "", text)
    return re.search("[,;] | deltacli ", unquoted_text) is not None


def _wrap_sentence(sentence: str, width: int, indent: str) -> list[str]:
    """Wrap a sentence between words. A number and its unit stay on one line. Each line may end with a space."""
    lines = [""]
    for word in join_units(sentence).split(" "):
        has_words = count_cells(lines[-1]) > len(indent)
        if has_words and count_cells(lines[-1]) + count_cells(word) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += word + " "
    return lines


def _append_command(lines: Sequence[str], command: str, sentence: str, width: int) -> list[str]:
    """Append a command to a wrapped sentence.

    The command begins on the last line of the sentence if it fits there, or if the sentence is short, such as `hint: `.
    """
    last_line = lines[-1]
    fits_last_line = count_cells(last_line.rstrip()) + 1 + count_cells(command) <= width
    if not fits_last_line and count_cells(sentence) > _MAX_CELLS_BEFORE_COMMAND:
        return [*lines, *wrap_command(command, width)]
    first_line, *further_lines = wrap_command(command, width - (count_cells(last_line) - 1))
    return [*lines[:-1], last_line[:-1] + first_line, *further_lines]


def _wrap_other_line(line: str, width: int, indent: str) -> str:
    is_command = line.startswith(("deltacli ", _CONTINUATION))
    return line if is_command else wrap_message(indent + line, width)


def wrap_command(command: str, width: int) -> list[str]:
    """Break a shell command between its words, with a backslash at the end of each line.

    A command that `_SHELL_WORD` cannot split into words is returned as one line. A backslash within a word would change
    the command.
    """
    words: list[str] = _SHELL_WORD.findall(command)
    if count_cells(command) <= width or " ".join(words) != command:
        return [command]

    lines = [words[0]]
    for word in words[1:]:
        if count_cells(lines[-1]) + count_cells(word) + len("  \\") > width:
            lines.append(_CONTINUATION + word)
        else:
            lines[-1] += f" {word}"
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def wrap_with_commands(text: str, width: int) -> list[str]:
    """Split a text into lines, with each command on lines of its own, so that it can be pasted.

    A text that fits into the width stays on one line. Only commands are wrapped, sentences are not. For example,
    `find out why; to see the files: deltacli validate … ; or: …` becomes

        find out why; to see the files:
        deltacli validate damaged --level storage
        or: deltacli undelete damaged
    """
    if text.startswith("deltacli "):
        return wrap_command(text, width)
    if count_cells(text) <= width:
        return [text]
    match = _COMMAND_IN_SENTENCE.fullmatch(text)
    if match is None:
        return [text]

    sentence, command, following = match.groups()
    # A comment after `#` explains the command. Write it on the next line.
    command, _, comment = command.partition("   # ")
    following = "; ".join(filter(None, (comment, following)))
    lines = [sentence, *wrap_command(command, width)]
    if following:
        lines += wrap_with_commands(following, width)
    return lines


def break_long_words(text: str, width: int) -> str:
    """Break words that are longer than a line after slashes or other separators, such as paths.

    A word is not broken if that would take more lines than a terminal needs to wrap it at any character.
    """
    if count_cells(text) <= width:
        return text
    return " ".join("\n".join(_break_word(word, width)) for word in text.split(" "))


def _break_word(word: str, width: int) -> list[str]:
    """Return the parts of a word, broken after slashes if possible, or else after other separators."""
    fewest_lines = -(-count_cells(word) // max(width, 1))
    if fewest_lines <= 1:
        return [word]
    for separators in ("/", "/.=_-"):
        pieces = _break_after(word, separators, width)
        if pieces is not None and len(pieces) <= fewest_lines:
            return pieces
    return [word]


def _break_after(word: str, separators: str, width: int) -> list[str] | None:
    """Break a word into parts that end with a separator and are as long as possible.

    Returns:
        The parts; None if there are more than `width` cells between two separators.
    """
    pieces: list[str] = []
    while count_cells(word) > width:
        end = max(word.rfind(separator, 0, width) for separator in separators) + 1
        if end == 0:
            return None
        pieces.append(word[:end])
        word = word[end:]
    return [*pieces, word]
