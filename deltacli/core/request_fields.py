"""How the fields of requests are declared as options of commands.

A request is a data class of an operation. Its docstring explains its attributes to callers of the Python API; what is
said here is for the command line only: the text of help, the spelling, and the kind of text that is parsed.
"""

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
    """How people see a field on the command line.

    Attributes:
        meaning: The text of help. It may end with the default: `Text.  [default: 5]`.
        metavar: The word that stands for a value in help.
        kind: How a value is parsed; None: it has the type of the field as it is given.
        spelled: The names of the option, if they are not that of the field.
        choices: The words that a value may be.
        least: The least value of a number.
        is_hidden: True if help does not list the option.
        is_counted: True if the option is repeated, and the number of times is its value.
        shows_default: True if help shows the default of the field.
        table_format: The only format of tables that the option is for.
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
    table_format: str | None = None


OF_DELTA, OF_PAIMON = "Delta", "Paimon"
"""Formats of tables that an option may be for."""

COMMIT_METADATA = Option(
    "Key to add to the commitInfo; userMetadata=V sets that field. Repeatable.", "K=V", Kind.COMMIT_METADATA
)


PROTECT_STREAMS = Option(
    "Keep what Spark queries need whose checkpoint directories match, such as 's3://lake/checkpoints/*'. Repeatable.",
    "GLOB",
    Kind.TEXTS,
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
    """Return a field of a request that is an option of a command.

    Args:
        meaning: The text of help.
        metavar: The word that stands for a value in help. With `choices` it is made of them.
        kind: How a value is parsed. With `choices` it is one of them.
        default: The default of the field.
        others: Further attributes of `Option`.
    """
    choices = others.get("choices")
    if kind is None and choices is not None:
        metavar = "|".join(choices)
        kind = Kind.CHOICE
    return shared(Option(meaning, metavar, kind, **others), default)


def shared(option: Option, default: Any = None) -> Any:  # Any: a field of any type
    """Return a field of a request with an option that several requests have."""
    metadata = {"option": option}
    # Data classes refuse a default that can be changed, such as a dictionary.
    if default.__hash__ is None:
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def spellings_of(name: str, option: Option) -> list[str]:
    """Return the names of a field on the command line: by rule `--retention` for `retention_ms`."""
    if option.spelled is not None:
        return option.spelled.split()
    # The option for versions is repeated, one value each time.
    word = name.removesuffix("s") if option.kind is Kind.VERSIONS else name.removesuffix("_ms")
    prefix = "no-" if option.kind is Kind.OPPOSITE else ""
    return [f"--{prefix}{word.replace('_', '-')}"]


def require_known_word(value: object, name: str, words: Iterable[str]) -> None:
    """Require one of several words.

    Raises:
        UsageError: If the value is none of them, with the one that was probably meant.
    """
    known_words = [*words]
    if value in known_words:
        return
    expected = ", ".join(known_words)
    error = UsageError(f"{name} is {value!r}, expected {expected}", facts={"expected": expected})
    raise error.suggest(str(value), nearest_name(str(value), known_words))
