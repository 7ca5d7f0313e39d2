"""A YAML file as a tree of values with their lines.

Built from the events of the parser: its own tree builder is recursive, and libyaml's crashes the process for deep
nesting. Scalars stay text; the reader of a key decides what it accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltacli.errors import UsageError

MOST_BYTES = 16 * 1024 * 1024
_DEEPEST = 32
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class YamlFault(Exception):
    """What is wrong with the text of a file, and the line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar; `text` is None for null. `is_quoted` scalars are texts whatever they look like."""

    text: str | None
    line: int
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping whose keys are texts. `key_lines` has the line of each key."""

    items: Mapping[str, Node]
    line: int
    key_lines: Mapping[str, int] = field(default_factory=dict)


Node = Scalar | Sequence | Mapped


def read_yaml(data: bytes) -> Node:
    """Return the only document of a YAML file; null for an empty one. Raises YamlFault, and UsageError where the parser
    is not installed.
    """
    try:
        import yaml
    except ImportError as fault:
        raise UsageError(
            "the configuration needs the package PyYAML, which is not installed",
            code="usage.missing-extra",
            hint="pip install 'deltacli[share]'",
        ) from fault
    if len(data) > MOST_BYTES:
        raise YamlFault(f"the file is larger than {MOST_BYTES >> 20} MiB", 1)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: a class of either parser
    try:
        text = data.decode("utf-8-sig")
        return _Builder().build(yaml.parse(text, Loader=loader))
    except UnicodeDecodeError as fault:
        raise YamlFault("the file is not UTF-8", data.count(b"\n", 0, fault.start) + 1) from None
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        raise YamlFault(f"not YAML: {fault.problem or fault.context}", mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position if isinstance(fault.position, int) else 0) + 1
        raise YamlFault("the file contains a control character, which YAML forbids", line) from None
    except (yaml.YAMLError, RecursionError) as fault:
        raise YamlFault(f"not YAML: {' '.join(str(fault).split())[:200]}", 1) from None


class _Open:
    """A list or mapping that is being read."""

    def __init__(self, line: int, anchor: str | None, *, is_mapping: bool) -> None:
        self.line = line
        self.anchor = anchor
        self.is_mapping = is_mapping
        self.items: list[Node] = []
        self.fields: dict[str, Node] = {}
        self.key_lines: dict[str, int] = {}
        self.key: str | None = None

    def add(self, node: Node) -> None:
        if not self.is_mapping:
            self.items.append(node)
        elif self.key is None:
            self._set_key(node)
        else:
            self.fields[self.key] = node
            self.key = None

    def _set_key(self, node: Node) -> None:
        if not isinstance(node, Scalar) or node.text is None:
            raise YamlFault("a key is not a string", node.line)
        if node.text in self.fields:
            first = self.key_lines[node.text]
            raise YamlFault(f"the key {node.text!r} is used twice, first in line {first}", node.line)
        self.key = node.text
        self.key_lines[node.text] = node.line

    def close(self) -> Node:
        if self.is_mapping:
            return Mapped(self.fields, self.line, self.key_lines)
        return Sequence(tuple(self.items), self.line)


class _Builder:
    """Builds a tree from events; anchors refer to what is already complete, so there are no circles."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._documents = 0

    def build(self, events: Iterator[Any]) -> Node:  # Any: events of the parser
        for event in events:
            self._take(event, event.start_mark.line + 1 if event.start_mark else 1)
        return self._root or Scalar(None, 1)

    def _take(self, event: Any, line: int) -> None:  # Any: an event of the parser
        match type(event).__name__:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise YamlFault("the file has more than one document", line)
            case "ScalarEvent":
                self._require_plain(event, line)
                self._add(self._scalar(event, line), event.anchor)
            case "SequenceStartEvent" | "MappingStartEvent" as name:
                self._require_plain(event, line)
                if len(self._open) >= _DEEPEST:
                    raise YamlFault(f"nested more than {_DEEPEST} levels deep", line)
                self._open.append(_Open(line, event.anchor, is_mapping=name == "MappingStartEvent"))
            case "SequenceEndEvent" | "MappingEndEvent":
                closed = self._open.pop()
                self._add(closed.close(), closed.anchor)
            case "AliasEvent":
                if event.anchor not in self._anchors:
                    raise YamlFault(f"the anchor {event.anchor!r} is not defined above", line)
                self._add(self._anchors[event.anchor], None)

    @staticmethod
    def _require_plain(event: Any, line: int) -> None:  # Any: an event of the parser
        tag = event.tag
        if tag is not None and not (isinstance(tag, str) and tag.startswith("tag:yaml.org,2002:")) and tag != "!":
            raise YamlFault(f"the tag {tag} is not supported", line)

    @staticmethod
    def _scalar(event: Any, line: int) -> Scalar:  # Any: an event of the parser
        is_quoted = bool(event.style)  # plain: None, or empty from libyaml
        return Scalar(None if not is_quoted and event.value in _NULL else event.value, line, is_quoted)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1].add(node)
        else:
            self._root = node
