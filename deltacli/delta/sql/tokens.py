"""SQL text cut into tokens, as Spark cuts it: strings, quoted names, numbers, words, operators."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple


class TokenKind(StrEnum):
    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "string"
    NUMBER = "number"
    OPERATOR = "operator"
    END = "end"


class Token(NamedTuple):
    """A token; `text` of a quoted name and of a string is what stands between the quotes."""

    kind: TokenKind
    text: str
    position: int

    @property
    def lower(self) -> str:
        return self.text.lower()


class SqlFault(Exception):
    """No SQL engine takes this text. The message says why, in words that finish a sentence."""


class NotUnderstood(Exception):
    """Something that may well be SQL."""


_TOKEN = re.compile(
    r"""
    (?P<blank>\s+ | --[^\n]* | /\*.*?\*/)
  | (?P<text>r'[^']*' | r"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?(?![A-Za-z_0-9]))
  | (?P<word>[^\W\d]\w*|\d+[^\W\d]\w*)
  | (?P<operator><=>|>>>|<=|<>|>=|!=|!<|!>|==|\|\||\|>|->|=>|::|<<|>>|[-+*/%&|^~!=<>(),.\[\]:;?{}@$])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_UNCLOSED = {"'": "a string", '"': "a string", "`": "a quoted name"}


def tokens_of(text: str) -> list[Token]:
    """Cut a text into tokens, an END last. Raises SqlFault for what never ends, for brackets that do not pair, and for
    characters that SQL does not know; NotUnderstood for a comment within a comment, where engines disagree on the end.
    """
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SqlFault(_unreadable(text, position))
        if text.startswith("/*", position) and match.lastgroup != "blank":
            raise SqlFault("a comment is opened and never closed")
        if match[0].startswith("/*") and "/*" in match[0][2:]:
            raise NotUnderstood
        token = _token(match)
        if token is not None:
            found.append(token)
        position = match.end()
    _check_brackets(found)
    return [*found, Token(TokenKind.END, "", position)]


def _check_brackets(tokens: list[Token]) -> None:
    opened: list[str] = []
    for token in tokens:
        if token.kind is not TokenKind.OPERATOR:
            continue
        if token.text in _CLOSING.values():
            opened.append(token.text)
        elif token.text in _CLOSING and (not opened or opened.pop() != _CLOSING[token.text]):
            raise SqlFault(f"a {token.text} closes nothing")
    if opened:
        raise SqlFault(f"a {opened[-1]} is never closed")


def _token(match: re.Match[str]) -> Token | None:
    text = match[0]
    match match.lastgroup:
        case "blank":
            return None
        case "text":
            return Token(TokenKind.TEXT, _inside(text.lstrip("rR")), match.start())
        case "quoted":
            return Token(TokenKind.QUOTED, _inside(text), match.start())
        case "number":
            return Token(TokenKind.NUMBER, text, match.start())
        case "word":
            return Token(TokenKind.WORD, text, match.start())
    return Token(TokenKind.OPERATOR, text, match.start())


def _inside(text: str) -> str:
    """What stands between quotes, doubled quotes made one; escapes stay as they are."""
    return text[1:-1].replace(text[0] * 2, text[0])


def _unreadable(text: str, position: int) -> str:
    character = text[position]
    if character in _UNCLOSED:
        return f"{_UNCLOSED[character]} is opened and never closed"
    return f"the character {character!r} stands where SQL has none"
