"""The keys of one mapping of a configuration file, read by type. Every fault names file, line and key.

A YAML file becomes a tree of values with their lines, built from the events of the parser: its own tree builder is
recursive, and libyaml's crashes the process for deep nesting. Scalars stay text; the reader of a key decides what it
accepts.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltacli.core.errors import UsageError, command, install_command, nearest_name, quote_word
from deltacli.sharing.protocol.names import LONGEST_NAME

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
    """Return the only document of a YAML file, null if empty. Raises YamlFault, and UsageError without a parser."""
    try:
        import yaml
    except ImportError as fault:
        message = "the configuration needs the package PyYAML, which is not installed"
        raise UsageError(message, code="usage.missing-extra", hint=install_command("share")) from fault
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


def _is_no_string(text: str) -> bool:
    import yaml

    known = yaml.SafeLoader.yaml_implicit_resolvers
    return any(pattern.match(text) for _, pattern in (*known.get(text[:1], ()), *known.get(None, ())))


CODE = "share.config"
USUAL = "shares.yaml"
"""The file that commands read without `--config`."""

_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass
class ConfigurationFile:
    """A file of the configuration, and the remarks about it."""

    path: Path
    environment: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def fault(self, line: int, message: str, *, hint: str | None = None, expected: str | None = None) -> UsageError:
        facts = {} if expected is None else {"expected": expected}
        first = self.files[0] if self.files else self.path
        hint = hint or command("share check", config=first)
        return UsageError(f"{self.path}:{line}: {message}", code=CODE, facts=facts, hint=hint)

    def note(self, line: int, message: str) -> None:
        """Remember a remark about a line."""
        self.notes.append(f"{self.path}:{line}: {message}")

    def other(self, path: Path) -> ConfigurationFile:
        """Return another file of the same configuration, whose remarks are collected with those of this one."""
        return ConfigurationFile(path, self.environment, self.notes, self.files)

    def place_of(self, text: str) -> Path:
        """Return a path that the file names; relative ones start at its directory."""
        return self.path.parent / os.path.expanduser(text)

    def read(self) -> Fields:
        """Return the keys of the file. Raises UsageError."""
        self.files.append(self.path)
        try:
            data = self.path.read_bytes()
        except (OSError, ValueError) as fault:
            reason = (getattr(fault, "strerror", None) or "invalid path").lower()
            facts, hint = {}, f"ls -l {quote_word(str(self.path))}"
            if isinstance(fault, FileNotFoundError) and len(self.files) == 1:
                facts["instead"] = f"local tables can be served without a configuration: {command('share serve', '.')}"
                hint = command("share init", ".")
                if str(self.path) != USUAL:
                    hint = command("share init", ".", config=self.path)
            raise UsageError(
                f"the configuration {self.path} cannot be read: {reason}", code=CODE, facts=facts, hint=hint
            ) from fault
        try:
            node = read_yaml(data)
        except YamlFault as fault:
            raise self.fault(fault.line, fault.message) from None
        if isinstance(node, Scalar) and node.text is None:
            raise self.fault(1, "the file is empty", expected="version: 1, and shares")
        return Fields(self, node, "the configuration")


class Fields:
    """The keys of one mapping."""

    def __init__(self, source: ConfigurationFile, node: Node, what: str) -> None:
        if not isinstance(node, Mapped):
            raise source.fault(node.line, f"{what} is not a mapping", expected="keys with values")
        self.source = source
        self.what = what
        self.line = node.line
        self._node = node

    def require_known(self, known: Collection[str]) -> None:
        """Note unknown keys. Raises UsageError for one that looks like a known key, which it would not replace."""
        for key, line in self._node.key_lines.items():
            if key in known:
                continue
            nearest = nearest_name(key, known, ignores_case=True)
            if nearest is None:
                self.source.note(line, f"the key {key!r} of {self.what} is unknown and has no effect")
                continue
            raise self.source.fault(line, f"{self.what} has an unknown key {key!r}; did you mean {nearest!r}?")

    def __contains__(self, key: str) -> bool:
        """Return True for a key that has a value other than null."""
        node = self._node.items.get(key)
        return node is not None and not (isinstance(node, Scalar) and node.text is None)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys in the order of the file."""
        return iter(self._node.items)

    def line_of(self, key: str) -> int:
        """Return the line of a key, or of the mapping where it is absent."""
        return self._node.key_lines.get(key, self.line)

    def fault(self, key: str, message: str, *, hint: str | None = None, expected: str | None = None) -> UsageError:
        """Return the error for the value of a key."""
        return self.source.fault(self.line_of(key), f"{key} of {self.what} {message}", hint=hint, expected=expected)

    def text(self, key: str) -> str | None:
        """Return a text, None where it is absent. Raises UsageError."""
        if key not in self:
            return None
        node = self._node.items[key]
        if not isinstance(node, Scalar) or node.text is None:
            raise self.fault(key, "is not a string")
        if "\0" in node.text:
            raise self.fault(key, "contains a NUL character")
        return node.text

    def string(self, key: str) -> str | None:
        """Return a text that YAML takes for one: a number, a date, yes and no must be quoted. Raises UsageError."""
        text, node = self.text(key), self._node.items.get(key)
        if text is not None and isinstance(node, Scalar) and not node.is_quoted and _is_no_string(text):
            raise self.fault(key, f"is {text[:40]}, which YAML takes for another type", expected="the text in quotes")
        return text

    def required(self, key: str) -> str:
        """Return a text that must be there. Raises UsageError."""
        text = self.text(key)
        if text is None:
            raise self.source.fault(self.line, f"{self.what} has no {key}")
        return text

    def whole(self, key: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        """Return a whole number in a range. Raises UsageError."""
        text = self.text(key)
        if text is None:
            return default
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None or not least <= int(text) <= most:
            raise self.fault(key, f"is {text[:40]!r}", expected=f"a whole number from {least} to {most}")
        return int(text)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return true or false. Raises UsageError."""
        text = self.text(key)
        if text is None:
            return default
        if (value := _FLAGS.get(text.lower())) is None:
            raise self.fault(key, f"is {text[:40]!r}", expected="true or false")
        return value

    def path(self, key: str) -> Path | None:
        """Return a path; relative ones start at the directory of the file. Raises UsageError."""
        text = self.text(key)
        if text == "":
            raise self.fault(key, "is empty", expected="a path")
        return None if text is None else self.source.place_of(text)

    def fields(self, key: str) -> Fields | None:
        """Return the keys of a mapping, None where it is absent. Raises UsageError."""
        return Fields(self.source, self._node.items[key], key) if key in self else None

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the items of a list; empty where it is absent. Raises UsageError."""
        if key not in self:
            return ()
        node = self._node.items[key]
        if not isinstance(node, Sequence):
            raise self.fault(key, "is not a list", expected="lines that begin with a dash")
        return node.items

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, or one text as a list. Raises UsageError."""
        if key in self and isinstance(self._node.items[key], Scalar):
            return (self.required(key),)
        found = self.items(key)
        for node in found:
            if not isinstance(node, Scalar) or not node.text or "\0" in node.text:
                raise self.source.fault(node.line, f"{key} of {self.what} has an item that is not a string")
        return tuple(node.text for node in found if isinstance(node, Scalar) and node.text)

    def secret(self, key: str) -> tuple[str | None, bool]:
        """Return a secret, and whether it is in the file or referred to (`${NAME}`, `file:PATH`). Raises UsageError."""
        text = self.text(key)
        if text is None:
            return None, False
        if variable := _VARIABLE.fullmatch(text):
            return self._of_environment(key, variable[1]), False
        if text.startswith("file:"):
            return self._of_file(key, text.removeprefix("file:")), False
        if _VARIABLE.search(text):
            raise self.fault(key, "mixes a reference with text", expected="${NAME} as the whole value")
        return text, True

    def _of_environment(self, key: str, name: str) -> str:
        value = self.source.environment.get(name)
        if not value:
            raise self.fault(key, f"refers to the environment variable {name}, which is not set or empty")
        return value

    def _of_file(self, key: str, name: str) -> str:
        place = self.source.place_of(name)
        self.source.files.append(place)
        try:
            value = place.read_text("utf-8").strip()
        except (OSError, ValueError) as fault:
            reason = (getattr(fault, "strerror", None) or "not UTF-8").lower()
            raise self.fault(key, f"refers to {place}, which cannot be read: {reason}") from None
        if not value:
            raise self.fault(key, f"refers to {place}, which is empty")
        return value


def fault_in_name(name: str, *, may_have_dots: bool = False) -> str | None:
    """Return why a name of a share, schema, table or recipient is refused, or None for a valid one. Only names of
    shares may contain dots. Spec: Delta Sharing, Names.

    `.` and `..` are refused because clients and proxies remove them from URLs.
    """
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name):,} characters, and at most {LONGEST_NAME} are allowed"
    if name in (".", ".."):
        return "URLs cannot contain it"
    for character in name:
        if character in " /":
            return f"it contains {'a space' if character == ' ' else repr(character)}"
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"it contains the control character U+{ord(character):04X}"
        if character == "." and not may_have_dots:
            return "it contains a dot, which only names of shares may have"
    return None
