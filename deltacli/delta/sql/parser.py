"""SQL expressions of a table: tokens, nodes, and a parser that detects expressions that cannot work.

Constraints, generated columns and defaults are kept as text for engines, which this package does not run. A fault is
reported only if no engine could accept the text. Constructs that this parser does not support make the answer
uncertain, never wrong.

Spec: CHECK Constraints; Column Invariants; Generated Columns; Default Columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


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
    """A token; `text` of a quoted name or string: the text between the quotes; `value` of a string: its meaning."""

    kind: TokenKind
    text: str
    position: int
    value: str = ""

    @property
    def lower(self) -> str:
        return self.text.lower()


class SqlFault(Exception):
    """No SQL engine accepts this text. The message completes a sentence; `position`: where it could not be split."""

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(reason)
        self.position = position


class NotUnderstood(Exception):
    """Something that may be valid SQL."""


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


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
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


# -- SQL expressions of a table ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Expression:
    """Parse one SQL expression."""
    parser = None
    try:
        parser = _Parser(tokens_of(text))
        root = parser.whole()
    except SqlFault as fault:
        return Expression(None, str(fault), True, parser.token.position if parser else max(fault.position, 0))
    except NotUnderstood:
        return Expression(None, None, False, parser.token.position if parser else 0)
    return Expression(root, None, True)


_MAX_DEPTH = 100


class _Parser:
    """Operators by their strength, operands by their first token."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.bound: list[str] = []  # names of lambda parameters in scope

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def is_kind(self, *kinds: TokenKind) -> bool:
        return self.token.kind in kinds

    def is_operator(self, *texts: str) -> bool:
        return self.token.kind is TokenKind.OPERATOR and self.token.text in texts

    def is_word(self, *words: str) -> bool:
        return self.token.kind is TokenKind.WORD and self.token.lower in words

    def accept_word(self, *words: str) -> bool:
        return self.is_word(*words) and self.take() is not None

    def expect(self, text: str) -> None:
        """Consume a required operator. Brackets are known to match, so anything else is an unknown word."""
        if not self.is_operator(text):
            self.unexpected()
        self.take()

    def unexpected(self) -> None:
        """Raise for a token after an operand: a fault if it certainly cannot follow one."""
        if self.token.kind is TokenKind.NUMBER:
            raise SqlFault(f"{self.token.text} follows a value without an operator")
        raise NotUnderstood

    def whole(self) -> Node:
        if self.is_kind(TokenKind.END):
            raise SqlFault("it is empty")
        root = self.expression(0)
        if not self.is_kind(TokenKind.END):
            self.unexpected()
        return root

    # -- operators ----------------------------------------------------------------------------------------------------

    def expression(self, strength: int) -> Node:
        """Parse operands joined by operators of higher precedence than `strength`."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotUnderstood
        left = self.prefixed()
        while (joined := self.joined(left, strength)) is not None:
            left = joined
        self.depth -= 1
        return left

    def prefixed(self) -> Node:
        position = self.token.position
        return self._prefixed()._replace(position=position)

    def _prefixed(self) -> Node:
        if self.is_word("not") and not self._is_name_here():
            self.take()
            return Node(Form.CONDITION, "not", parts=(self.expression(NOT_STRENGTH),))
        if self.is_operator("!"):
            self.take()
            return Node(Form.CONDITION, "not", parts=(self.expression(NOT_STRENGTH),))
        if self.is_operator("-", "+", "~"):
            name = self.take().text
            return Node(Form.VALUE, name, parts=(self.expression(SIGN_STRENGTH),))
        return self.postfixed(self.operand())

    def joined(self, left: Node, strength: int) -> Node | None:
        """Join the left side with the next operator and its right side, or return None if that has lower precedence."""
        token = self.token
        if token.kind is TokenKind.OPERATOR and token.text in COMPARISONS:
            if strength >= COMPARISON_STRENGTH:
                return None
            self.take()
            parts = (left, self.expression(COMPARISON_STRENGTH))
            return Node(Form.CONDITION, token.text, parts=parts, position=left.position)
        if token.kind is TokenKind.WORD and token.lower in CONDITION_WORDS:
            return None if strength >= COMPARISON_STRENGTH else self.condition(left)._replace(position=left.position)
        name = token.lower if token.kind in (TokenKind.WORD, TokenKind.OPERATOR) else ""
        if name not in BINARY or strength >= BINARY[name]:
            return None
        self.take()
        right = self.expression(BINARY[name])
        form = Form.CONDITION if name in ("and", "or", "xor") else Form.VALUE
        return Node(form, name, parts=(left, right), position=left.position)

    def condition(self, left: Node) -> Node:
        """Parse IS, IN, BETWEEN and LIKE after their left side."""
        negated = self.accept_word("not")
        word = self.take().lower if self.token.kind is TokenKind.WORD else ""
        match word:
            case "is" if not negated:
                negated = self.accept_word("not")
                what = self.token.lower
                if self.accept_word("distinct"):
                    self.accept_word("from")
                    right = self.expression(COMPARISON_STRENGTH)
                    return Node(Form.CONDITION, "is", parts=(left, right), word=what, negated=negated)
                if not self.accept_word("null", "true", "false", "unknown"):
                    raise NotUnderstood
                return Node(Form.CONDITION, "is", parts=(left,), word=what, negated=negated)
            case "in":
                if not self.is_operator("("):
                    raise SqlFault("IN has no list in parentheses")
                return Node(Form.CONDITION, "in", parts=(left, *self.arguments()), negated=negated)
            case "between":
                low = self.expression(COMPARISON_STRENGTH)
                if not self.accept_word("and"):
                    raise SqlFault("BETWEEN has no AND")
                high = self.expression(COMPARISON_STRENGTH)
                return Node(Form.CONDITION, "between", parts=(left, low, high), negated=negated)
            case "like" | "ilike" | "rlike" | "regexp":
                which = self.token.lower
                if self.accept_word("any", "some", "all"):
                    return Node(Form.CONDITION, word, parts=(left, *self.arguments()), word=which, negated=negated)
                pattern = self.expression(COMPARISON_STRENGTH)
                escape = (self.expression(COMPARISON_STRENGTH),) if self.accept_word("escape") else ()
                return Node(Form.CONDITION, word, parts=(left, pattern, *escape), negated=negated)
        raise NotUnderstood

    # -- operands -----------------------------------------------------------------------------------------------------

    def operand(self) -> Node:
        token = self.take()
        match token.kind:
            case TokenKind.END:
                raise SqlFault("it ends where a value is expected")
            case TokenKind.NUMBER:
                return Node(Form.NUMBER, token.text)
            case TokenKind.TEXT:
                pieces = [token]
                while self.token.kind is TokenKind.TEXT:
                    pieces.append(self.take())
                value = "".join(piece.value for piece in pieces)
                return Node(Form.TEXT, "".join(piece.text for piece in pieces), value=value)
            case TokenKind.OPERATOR:
                return self.bracketed(token)
            case TokenKind.QUOTED:
                return self.call(token) if self.is_operator("(") else self.column(token)
        return self.word(token)

    def bracketed(self, token: Token) -> Node:
        if token.text == "(":
            return self.in_brackets()
        if token.text in BINARY_ONLY or token.text in (",", ")", "]"):
            raise SqlFault(f"{token.text} was found where a value is expected")
        raise NotUnderstood

    def in_brackets(self) -> Node:
        """Parse what follows an opening bracket: one value, a row, the parameters of a lambda function, a query."""
        names = self._lambda_names()
        if names is not None:
            return self.lambda_body(names)
        if self.is_operator(")"):
            raise SqlFault("the parentheses are empty")
        if self.is_word("select", "with", "values", "table"):
            raise NotUnderstood
        inner = [self.expression(0)]
        while self.is_operator(","):
            self.take()
            inner.append(self.expression(0))
        self.expect(")")
        return inner[0] if len(inner) == 1 else Node(Form.VALUE, "row", parts=tuple(inner))

    def _lambda_names(self) -> list[str] | None:
        """Take `x, y) ->` after its bracket; None, and nothing taken, where something else is there."""
        ahead, names = 0, []
        while self.peek(ahead).kind in (TokenKind.WORD, TokenKind.QUOTED):
            names.append(self.peek(ahead).lower)
            if self.peek(ahead + 1).text != ",":
                break
            ahead += 2
        if not names or self.peek(ahead + 1).text != ")" or self.peek(ahead + 2).text != "->":
            return None
        self.at += ahead + 3
        return names

    def lambda_body(self, names: list[str]) -> Node:
        self.bound += names
        body = self.expression(0)
        del self.bound[-len(names) :]
        return Node(Form.OTHER, "lambda", parts=(body,))

    def word(self, token: Token) -> Node:
        """Parse an operand that begins with a word: a literal, CASE, CAST, a call, or the name of a column."""
        word = token.lower
        if self.is_operator("("):
            return self.call(token)
        if self.is_operator("->"):
            self.take()
            return self.lambda_body([word])
        if self.token.kind is TokenKind.TEXT:
            if word not in TYPED_LITERALS:
                raise NotUnderstood
            return self.interval() if word == "interval" else self.typed_literal(word)
        if word in ("true", "false"):
            return Node(Form.CONDITION, word)
        if word == "null":
            return Node(Form.NULL)
        if word == "case" and not self._ends_here():
            return self.case()
        if word == "interval" and (self.is_kind(TokenKind.NUMBER) or self._has_more_units()):
            return self.interval()
        if word in ("select", "then", "when", "else", "end", "and", "or", "like", "in", "between", "is"):
            # Spark accepts these as names of columns, depending on its settings.
            raise NotUnderstood
        return self.column(token)

    def _ends_here(self) -> bool:
        """Return True if no operand follows, so that the previous token was a name."""
        token = self.token
        return token.kind is TokenKind.END or (
            token.kind is TokenKind.OPERATOR and token.text not in ("(", "-", "+", "!", "~")
        )

    def _is_name_here(self) -> bool:
        """Return True if the word here is a name although it could be a prefix: `not = 1`."""
        following = self.peek()
        return following.kind is TokenKind.END or (
            following.kind is TokenKind.OPERATOR and following.text in (BINARY_ONLY | {",", ")", "."})
        )

    def typed_literal(self, word: str) -> Node:
        token = self.take()
        text = Node(Form.TEXT, token.text, value=token.value, position=token.position)
        return Node(Form.VALUE, word, parts=(text,))

    def interval(self) -> Node:
        """Parse `INTERVAL 1 DAY`, `INTERVAL '1-2' YEAR TO MONTH`, several units in a row."""
        parts = [self.interval_part()]
        while self._has_more_units():
            parts.append(self.interval_part())
        return Node(Form.VALUE, "interval", parts=tuple(parts))

    def interval_part(self) -> Node:
        while self.is_operator("-", "+"):
            self.take()
        if not self.is_kind(TokenKind.NUMBER, TokenKind.TEXT):
            raise NotUnderstood
        amount = Node(Form.TEXT, self.take().text)
        if self.is_kind(TokenKind.WORD) and not self.is_word(*ENDING_WORDS, *CONDITION_WORDS):
            self.take()
            if self.accept_word("to"):
                self.take()
        return amount

    def _has_more_units(self) -> bool:
        """Return True if an amount and its unit follow. A sign alone is an operator."""
        ahead = 1 if self.is_operator("-", "+") else 0
        is_amount = self.peek(ahead).kind in (TokenKind.NUMBER, TokenKind.TEXT)
        return is_amount and self.peek(ahead + 1).kind is TokenKind.WORD

    def column(self, token: Token) -> Node:
        path = [token.text]
        while self.is_operator(".") and self.peek().kind in (TokenKind.WORD, TokenKind.QUOTED):
            self.take()
            path.append(self.take().text)
        if self.is_operator("("):
            raise NotUnderstood  # a function of another catalog
        if path[0].lower() in self.bound:
            return Node(Form.OTHER, "parameter")
        if token.kind is TokenKind.WORD and token.lower in NILADIC and len(path) == 1:
            return Node(Form.CALL, token.lower, path=tuple(path))
        return Node(Form.COLUMN, path=tuple(path))

    def case(self) -> Node:
        word = "" if self.is_word("when") else "operand"
        parts = [self.expression(0)] if word else []
        while self.accept_word("when"):
            parts.append(self.expression(0))
            if not self.accept_word("then"):
                raise SqlFault("CASE has a WHEN without THEN")
            parts.append(self.expression(0))
        if self.accept_word("else"):
            parts.append(self.expression(0))
        if not self.accept_word("end"):
            if self.token.kind is TokenKind.END or self.is_operator(")", ","):
                raise SqlFault("CASE has no END")
            raise NotUnderstood
        return Node(Form.OTHER, "case", parts=tuple(parts), word=word)

    def call(self, token: Token) -> Node:
        """Parse a call after its name."""
        name = token.lower
        if token.kind is TokenKind.WORD:
            if name in ("cast", "try_cast"):
                return self.cast()._replace(word=name)
            if name in ("case", "in", "and", "or", "when", "then", "else"):
                raise NotUnderstood
        if name in SPECIAL_CALLS:
            return self.special_call(name)
        if name in UNIT_FUNCTIONS and self.peek(2).text == "," and self.peek().kind is TokenKind.WORD:
            if name not in ("timestampadd", "timestampdiff") and not self._has_three_arguments():
                return Node(Form.CALL, name, parts=self.arguments())
            self.take()
            unit = self.take().lower
            return Node(Form.CALL, name, (unit,), self.arguments(opened=True))
        return Node(Form.CALL, name, parts=self.arguments())

    def _has_three_arguments(self) -> bool:
        """Return True if the call at its bracket has three arguments, the first of which is a unit."""
        depth, commas = 0, 0
        for token in self.tokens[self.at :]:
            if token.kind is TokenKind.OPERATOR:
                depth += (token.text in "([{") - (token.text in ")]}")
                commas += token.text == "," and depth == 1
            if depth == 0:
                break
        return commas == 2

    def arguments(self, *, opened: bool = False) -> tuple[Node, ...]:
        """Parse arguments in brackets; `opened`: the bracket, or the comma before, is already consumed."""
        if opened:
            self.take()
        else:
            self.expect("(")
        if self.is_word("select", "with", "values") and self.peek().text not in (",", ")"):
            raise NotUnderstood
        arguments: list[Node] = []
        if self.is_operator(")"):
            self.take()
            return ()
        if self.is_word("distinct", "all") and not self._is_name_here():
            self.take()
        while True:
            arguments.append(self.argument())
            if not self.is_operator(","):
                break
            self.take()
        self.expect(")")
        if self.is_word("over", "filter", "within", "ignore", "respect"):
            raise NotUnderstood
        return tuple(arguments)

    def argument(self) -> Node:
        if self.is_operator("*") and self.peek().text in (")", ","):
            self.take()
            return Node(Form.OTHER, "*")
        if self.token.kind is TokenKind.WORD and self.peek().text == "=>":
            self.take()
            self.take()
        expression = self.expression(0)
        if self.accept_word("as"):
            self.take()
        return expression

    def cast(self) -> Node:
        self.expect("(")
        value = self.expression(0)
        if not self.accept_word("as"):
            if self.is_operator(")", ","):
                raise SqlFault("CAST has no AS")
            raise NotUnderstood
        name = self.type_name()
        self.expect(")")
        return Node(Form.CAST, name, parts=(value,))

    def type_name(self) -> str:
        """Take a type, as text without blanks: `decimal(10,2)`, `map<string,array<int>>`."""
        if self.token.kind is not TokenKind.WORD:
            raise SqlFault("CAST has no type")
        parts = [self.take().lower]
        angles, rounds = 0, 0
        while True:
            token = self.token
            if token.kind is TokenKind.END:
                break
            if token.kind is TokenKind.OPERATOR:
                if not angles and not rounds and token.text not in ("(", "<"):
                    break
                rounds += (token.text == "(") - (token.text == ")")
                angles += token.text.count("<") - token.text.count(">")
            elif not angles and not rounds:
                break
            parts.append(self.take().lower)
        return "".join(parts)

    def special_call(self, name: str) -> Node:
        """Parse a call with words between its arguments: `EXTRACT(YEAR FROM x)`, `TRIM(BOTH ' ' FROM x)`."""
        if name == "exists" and self.peek().lower in ("select", "with", "values"):
            raise NotUnderstood
        if name == "extract":
            self.take()
            unit = self.take().lower
            if not self.accept_word("from"):
                raise NotUnderstood
            value = self.expression(0)
            self.expect(")")
            return Node(Form.CALL, "extract", (unit,), (value,))
        self.take()
        has_side = name == "trim" and self.is_word("both", "leading", "trailing") and self.peek().text not in (")", ",")
        side = self.take().lower if has_side else ""
        # POSITION(a IN b) reads as a condition without brackets after IN.
        strength = COMPARISON_STRENGTH if name == "position" else 0
        parts: list[Node] = []
        while not self.is_operator(")"):
            if self.is_kind(TokenKind.END):
                raise NotUnderstood
            if not self.accept_word("from", "for", "placing", "in"):
                parts.append(self.expression(strength))
            if self.is_operator(","):
                self.take()
        self.take()
        return Node(Form.CONDITION if name == "exists" else Form.CALL, name, parts=tuple(parts), word=side)

    def postfixed(self, node: Node) -> Node:
        """Parse what may follow an operand: `[i]`, `.field`, `::type`, `:path`."""
        while True:
            if self.is_operator("["):
                self.take()
                index = self.expression(0)
                self.expect("]")
                node = Node(Form.OTHER, "item", parts=(node, index))
            elif self.is_operator("."):
                self.take()
                if not self.is_kind(TokenKind.WORD, TokenKind.QUOTED):
                    if self.is_kind(TokenKind.END):
                        raise SqlFault("it ends after a period")
                    raise NotUnderstood
                field = self.take().text
                if self.is_operator("("):
                    raise NotUnderstood
                node = Node(Form.OTHER, "field", parts=(node,), word=field)
            elif self.is_operator("::"):
                self.take()
                node = Node(Form.CAST, self.type_name(), parts=(node,))
            elif self.is_operator(":"):
                self.take()
                if not self.is_kind(TokenKind.WORD, TokenKind.QUOTED):
                    raise NotUnderstood
                node = Node(Form.OTHER, "variant item", parts=(node,), word=self.take().text)
            else:
                return node
