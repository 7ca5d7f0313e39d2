"""SQL text split into tokens, as in Spark (strings, quoted names, numbers, words, operators), and the parts of an
expression that is parsed from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.patterns import pattern


class Form(StrEnum):
    """What a node is. CONDITION is true, false or null whatever it is made of; VALUE is surely no condition."""

    COLUMN = "column"
    NUMBER = "number"
    TEXT = "text"
    NULL = "null"
    CALL = "call"
    CAST = "cast"
    CONDITION = "condition"
    VALUE = "value"
    OTHER = "other"


class Node(NamedTuple):
    """A part of an expression. `name` is a function's or a type's name, lower case, or a literal's text; `path` the
    names of a column; of a call, the unit that stands before its arguments.

    `word`: what the form and the name leave open: the word after IS, `any` after LIKE, `try_cast`, the name of a field,
    `operand` of a CASE that has one, the side of TRIM.
    `negated`: NOT stood before IN, BETWEEN and LIKE, or after IS. `value`: a string without its escapes. `position`:
    where in the text it begins.
    """

    form: Form
    name: str = ""
    path: tuple[str, ...] = ()
    parts: tuple[Node, ...] = ()
    word: str = ""
    negated: bool = False
    value: str = ""
    position: int = -1

    def chain(self) -> list[Node]:
        """Return the parts of `a and b and c`, which is parsed as `(a and b) and c`."""
        parts: list[Node] = []
        rest = self
        while rest.form is Form.CONDITION and rest.name == self.name:
            parts.append(rest.parts[1])
            rest = rest.parts[0]
        return [rest, *reversed(parts)]


class Expression(NamedTuple):
    """A parsed text.

    `fault`: why no engine accepts it. `is_certain`: False if something was not understood; then `root` is None, and
    only a fault is conclusive. `stopped_at`: the position of the parser then, or of the fault.
    """

    root: Node | None
    fault: str | None
    is_certain: bool
    stopped_at: int = 0

    @property
    def columns(self) -> list[tuple[str, ...]]:
        """Return the paths of all columns it refers to, in order, without parameters of lambda functions."""
        return [node.path for node in self.nodes() if node.form is Form.COLUMN]

    @property
    def functions(self) -> list[str]:
        return [node.name for node in self.nodes() if node.form is Form.CALL]

    def nodes(self) -> Iterator[Node]:
        """Return every node, parents first."""
        waiting = [self.root] if self.root else []
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.parts))


BINARY = {"or": 1, "and": 2, "xor": 2, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, ">>>": 8}
BINARY |= {"+": 9, "-": 9, "||": 9, "*": 10, "/": 10, "%": 10, "div": 10}
COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>"})
COMPARISON_STRENGTH = 4
NOT_STRENGTH = 3
SIGN_STRENGTH = 11

CONDITION_WORDS = frozenset({"is", "in", "between", "like", "ilike", "rlike", "regexp", "not"})
ENDING_WORDS = frozenset({"then", "when", "else", "end", "as", "from", "for", "escape", "and", "or"})
"Words after an operand that belong to the construct around it."
BINARY_ONLY = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "/", "%", "|", "&", "^", "||", "<<", ">>"})
"Operators that cannot begin an operand."

NILADIC = frozenset(
    {
        "current_date",
        "current_timestamp",
        "current_user",
        "current_time",
        "current_catalog",
        "current_database",
        "current_schema",
        "localtimestamp",
        "session_user",
        "user",
    }
)
"""Functions that are called without brackets."""
TYPED_LITERALS = frozenset({"date", "timestamp", "timestamp_ntz", "timestamp_ltz", "x", "time", "interval"})
UNIT_FUNCTIONS = frozenset(
    {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff", "timediff"}
)
"""Functions whose first argument may be the name of a unit."""
SPECIAL_CALLS = frozenset({"trim", "extract", "position", "overlay", "substring", "substr", "exists"})
"""Functions with words between their arguments."""


class TokenKind(StrEnum):
    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "string"
    NUMBER = "number"
    OPERATOR = "operator"
    END = "end"


class Token(NamedTuple):
    """A token; `text` of a quoted name and of a string is the text between the quotes, `value` of a string its
    meaning.
    """

    kind: TokenKind
    text: str
    position: int
    value: str = ""

    @property
    def lower(self) -> str:
        return self.text.lower()


class SqlFault(Exception):
    """No SQL engine accepts this text. The message says why and completes a sentence; `position`: where, if the text
    could not be split into tokens.
    """

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(reason)
        self.position = position


class NotUnderstood(Exception):
    """Something that may be valid SQL."""


_TOKEN = pattern(
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
    """Split a text into tokens, an END last. Raises SqlFault for unterminated tokens, for brackets that do not match,
    and for characters that SQL does not have; NotUnderstood for a nested comment, because engines disagree on its end.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SqlFault(_unreadable(text, position), position)
        if text.startswith("/*", position) and match.lastgroup != "blank":
            raise SqlFault("a comment is opened and never closed", position)
        if match[0].startswith("/*") and "/*" in match[0][2:]:
            raise NotUnderstood
        token = _token(match)
        if token is not None:
            tokens.append(token)
        position = match.end()
    _check_brackets(tokens)
    return [*tokens, Token(TokenKind.END, "", position)]


def _check_brackets(tokens: list[Token]) -> None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind is not TokenKind.OPERATOR:
            continue
        if token.text in _CLOSING.values():
            opened.append(token)
        elif token.text in _CLOSING and (not opened or opened.pop().text != _CLOSING[token.text]):
            raise SqlFault(f"a {token.text} has no opening bracket", token.position)
    if opened:
        raise SqlFault(f"a {opened[-1].text} is never closed", opened[-1].position)


def _token(match: re.Match[str]) -> Token | None:
    text = match[0]
    match match.lastgroup:
        case "blank":
            return None
        case "text":
            inside = _inside(text.lstrip("rR"))
            return Token(TokenKind.TEXT, inside, match.start(), inside if text[0] in "rR" else _unescaped(inside))
        case "quoted":
            return Token(TokenKind.QUOTED, _inside(text), match.start())
        case "number":
            return Token(TokenKind.NUMBER, text, match.start())
        case "word":
            return Token(TokenKind.WORD, text, match.start())
    return Token(TokenKind.OPERATOR, text, match.start())


def _inside(text: str) -> str:
    """Return the text between quotes, with doubled quotes made one. Escapes are kept."""
    return text[1:-1].replace(text[0] * 2, text[0])


_ESCAPE = pattern(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"Return what a character means after a backslash. One of a pattern is kept escaped, any other is itself."


def _unescaped(text: str) -> str:
    """Return the meaning of a string by Spark's escapes."""
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_escaped, text)
    try:
        # Two escapes may be the halves of one character.
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return unescaped


def _escaped(match: re.Match[str]) -> str:
    for base, digits in ((16, match[1]), (16, match[2]), (8, match[3])):
        if digits is not None:
            code = int(digits, base)
            return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _CONTROLS.get(match[4], match[4])


def _unreadable(text: str, position: int) -> str:
    character = text[position]
    if character in _UNCLOSED:
        return f"{_UNCLOSED[character]} is opened and never closed"
    return f"the character {character!r} is not valid in SQL here"
