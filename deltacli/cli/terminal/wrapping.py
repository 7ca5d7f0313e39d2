"""Wrap texts for a terminal so that commands can still be pasted and long words break where readers expect it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltacli.cli.command_table import COMMANDS
from deltacli.cli.terminal.characters import count_cells
from deltacli.core.units import keep_units_together

UNIT_BLANK = "\U0010fffd"
"""A private character, one cell wide. Stands for the blank between a number and its unit while a text is wrapped."""

MIN_VALUE_CELLS = 24
"""Cells for values below which they stand under their label instead of beside it."""

_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_SHELL_WORD = re.compile(rf"""(?:{_QUOTED}|\\.|[^\s'"\\])+""")
_COMMAND_IN_SENTENCE = re.compile(r"(.*?:) (deltacli [^;]+)(?:; (.*))?")
"""A sentence with a command at its end, and what follows after a semicolon."""

_LINE_INDENT = re.compile(r"[a-z]+: |  \S+(?: \S+)*  +| *")
"""What the other lines of a wrapped message are indented by: `error: `, a fact's name in its column, or blanks."""

_CONTINUATION = "    "
"""The indent of the second and later lines of a command."""

_MAX_CELLS_BEFORE_COMMAND = 30
"""Cells of what may stand before a command on its line, such as `next: `."""


def join_units(text: str) -> str:
    """Return a text in which a number and its unit are one word, until `split_units`."""
    return keep_units_together(text, UNIT_BLANK)


def split_units(text: str) -> str:
    """Return a wrapped text with blanks between numbers and units."""
    return text.replace(UNIT_BLANK, " ")


def first_words_of_commands() -> str:
    """Return the alternatives of a regular expression for the first word of any command: `history|snapshot|…`."""
    return "|".join({name.split()[0] for name in COMMANDS})


def wrap_message(text: str, width: int) -> str:
    """Wrap a line of a message between words, with a hanging indent. A command in it can still be pasted.

    A text that has several lines already, or is a JSON object, is returned unchanged.
    """
    if count_cells(text) <= width or "\n" in text or text.startswith("{"):
        return text

    indent = " " * min(_count_indent(text), width // 2)
    sentence, command = _split_before_command(text)
    other_lines: list[str] = []
    if command is not None and _is_about_commands(command):
        # The text goes on after the command: give each command in it lines of its own.
        command = None
        sentence, *other_lines = wrap_with_commands(text, width)

    lines = _wrap_sentence(sentence, width, indent)
    if command is not None:
        lines = _append_command(lines, command, sentence, width)
    else:
        lines += [_wrap_other_line(line, width, indent) for line in other_lines]
    return split_units("\n".join(line.rstrip() for line in lines))


def _count_indent(text: str) -> int:
    match = _LINE_INDENT.match(text)
    return len(match[0]) if match else 0


def _split_before_command(text: str) -> tuple[str, str | None]:
    """Return what stands before the first command of a text, and the text from there on; None if there is none."""
    is_command = rf"(?<= )(?=deltacli (?:--?|(?:help|{first_words_of_commands()})(?: |$)))"
    sentence, *command = re.split(is_command, text, maxsplit=1)
    return sentence, command[0] if command else None


def _is_about_commands(text: str) -> bool:
    """Return True if a text that begins with a command is a sentence that goes on, or names several commands."""
    return re.search("[,;] | deltacli ", re.sub(_QUOTED, "", text)) is not None


def _wrap_sentence(sentence: str, width: int, indent: str) -> list[str]:
    """Return the lines of a sentence, each word followed by a blank; a number and its unit stay on one line."""
    lines = [""]
    for word in join_units(sentence).split(" "):
        has_words = count_cells(lines[-1]) > len(indent)
        if has_words and count_cells(lines[-1]) + count_cells(word) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += word + " "
    return lines


def _append_command(lines: Sequence[str], command: str, sentence: str, width: int) -> list[str]:
    """Return the lines of a sentence with a command behind it, which begins a line only after a long sentence."""
    last_line = lines[-1]
    has_no_room = count_cells(last_line.rstrip()) + 1 + count_cells(command) > width
    if has_no_room and count_cells(sentence) > _MAX_CELLS_BEFORE_COMMAND:
        return [*lines, *wrap_command(command, width)]
    first, *others = wrap_command(command, width - (count_cells(last_line) - 1))
    return [*lines[:-1], last_line[:-1] + first, *others]


def _wrap_other_line(line: str, width: int, indent: str) -> str:
    is_command = line.startswith(("deltacli ", _CONTINUATION))
    return line if is_command else wrap_message(indent + line, width)


def wrap_command(command: str, width: int) -> list[str]:
    """Return a command of a shell on lines of a width, broken between its words with a backslash.

    A command that this module cannot split into words of a shell is returned on one line: broken at the wrong place,
    it would be another command.
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
    """Return a text on lines of which its commands have their own, so that they can be pasted.

    A text that fits the width stays on one line. Sentences are not wrapped, commands are:

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
    # What stands behind `#` explains the command. It gets a line of its own, too.
    command, _, remark = command.partition("   # ")
    following = "; ".join(filter(None, (remark, following)))
    lines = [sentence, *wrap_command(command, width)]
    if following:
        lines += wrap_with_commands(following, width)
    return lines


def break_long_words(text: str, width: int) -> str:
    """Return a text in which words too long for a line break after a separator, where that takes no more lines."""
    if count_cells(text) <= width:
        return text
    return " ".join("\n".join(_break_word(word, width)) for word in text.split(" "))


def _break_word(word: str, width: int) -> list[str]:
    """Return the pieces of a word: broken after slashes if possible, else after other separators, else uncut."""
    fewest_lines = -(-count_cells(word) // max(width, 1))
    if fewest_lines <= 1:
        return [word]
    for separators in ("/", "/.=_-"):
        pieces = _break_after(word, separators, width)
        # Breaking anywhere takes the fewest lines. A break after a separator must not take more.
        if pieces is not None and len(pieces) <= fewest_lines:
            return pieces
    return [word]


def _break_after(word: str, separators: str, width: int) -> list[str] | None:
    """Return the longest pieces of a word that end with a separator; None if a piece does not fit the width."""
    pieces: list[str] = []
    while count_cells(word) > width:
        end = max(word.rfind(separator, 0, width) for separator in separators) + 1
        if end == 0:
            return None
        pieces.append(word[:end])
        word = word[end:]
    return [*pieces, word]
