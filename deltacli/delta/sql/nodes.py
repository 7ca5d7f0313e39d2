"""The parts of an SQL expression."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
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
