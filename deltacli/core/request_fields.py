"""The fields of requests. Each declares a value once, with type, default and help; the options of commands, the
parameters of the Python API and the keys of fleet policies are made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from deltacli.core.errors import UsageError, nearest_name

if TYPE_CHECKING:
    pass

Fields = ParamSpec("Fields")
Request = TypeVar("Request")
Result = TypeVar("Result")
Self = TypeVar("Self")


class Kind(Enum):
    """What a value is, in words for people."""

    TEXT = "a text"
    TEXTS = "a list of strings"
    FLAG = "true or false"
    OPPOSITE = "true, where false is asked for"
    COUNT = "a number of at least 1"
    SIZE = "a size such as 64MiB"
    DURATION = "a duration such as 7d or 36h"
    WINDOW = "a time of the day in UTC such as 22:00-06:00"
    SHARE = "a share such as 10%"
    LIMIT = "a share or size such as 20% or 10GiB"
    RATE = "files per second, such as 500/s or 0.5/s"
    VERSIONS = "5,10-12"
    PATTERNS = "a list of patterns, separated by commas"
    COLUMNS = "a list of columns, separated by commas"
    NAMES = "names of columns, separated by commas"
    COMMIT_METADATA = "a list of keys with values"
    CHOICE = "one of several words"


class Option(NamedTuple):
    """How people see a field. Without a `kind` the value is of the type of the field as it is given. `spelled`: the
    names on the command line, where they are not that of the field; `policy`: the meaning in a fleet policy, where it
    differs; `table_format`: the only format of tables that it is for.
    """

    meaning: str
    metavar: str | None = None
    kind: Kind | None = None
    spelled: str | None = None
    choices: type[StrEnum] | None = None
    least: int | None = None
    is_hidden: bool = False
    is_counted: bool = False
    shows_default: bool = False
    policy: str | None = None
    table_format: str | None = None


OF_DELTA, OF_PAIMON = "Delta", "Paimon"
"""The formats of tables that an option may be for."""

COMMIT_METADATA = Option(
    "Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.", "K=V", Kind.COMMIT_METADATA
)


PROTECT_STREAMS = Option(
    "Keep what Spark queries need whose checkpoint directories match, such as 's3://lake/checkpoints/*'. Repeatable.",
    "GLOB",
    Kind.TEXTS,
    policy="Patterns of checkpoint directories of Spark queries, for which what they need is kept: paths or URIs.",
)
IGNORE_STREAMS_OLDER = Option(
    "Do not keep anything for a query that is behind and whose checkpoint is older than this.",
    "DURATION",
    Kind.DURATION,
)
ALLOW_STREAM_LOSS = Option(
    "Delete although this query (its id or checkpoint directory) cannot continue then. Repeatable.", "QUERY", Kind.TEXTS
)


def option(
    meaning: str, metavar: str | None = None, kind: Kind | None = None, *, default: Any = None, **others: Any
) -> Any:  # Any: a field of any type
    """Return a field of a request: None without a `default`. `others`: as in `Option`; `choices` alone are a choice."""
    if kind is None and (choices := others.get("choices")) is not None:
        metavar, kind = "|".join(choices), Kind.CHOICE
    return shared(Option(meaning, metavar, kind, **others), default)


def shared(option: Option, default: Any = None) -> Any:  # Any: a field of any type
    """Return a field of a request with an option that several requests have."""
    metadata = {"option": option}
    if default.__hash__ is None:
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def spellings_of(name: str, option: Option) -> list[str]:
    """Return the names of a field on the command line."""
    if option.spelled is not None:
        return option.spelled.split()
    word = name.removesuffix("s") if option.kind is Kind.VERSIONS else name.removesuffix("_ms")
    return [f"--{'no-' if option.kind is Kind.OPPOSITE else ''}{word.replace('_', '-')}"]


def require_known_word(value: object, name: str, words: Iterable[str]) -> None:
    """Raise UsageError for a value that is none of the words, with the one that was probably meant."""
    known = [*words]
    if value not in known:
        near, expected = nearest_name(str(value), known), ", ".join(known)
        wrong = UsageError(f"{name} is {value!r}, expected {expected}", facts={"expected": expected})
        raise wrong.asking(str(value), near)
