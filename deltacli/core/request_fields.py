"""The fields of requests. Each declares a value once, with type, default and help; the options of commands, the
parameters of the Python API and the keys of fleet policies are made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, fields
from enum import Enum, StrEnum
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from deltacli.core.errors import UsageError, nearest_name

if TYPE_CHECKING:
    from inspect import Signature

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


class Lazy:
    """A request that is imported when it is first made: a start of the process that makes none need not build it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self.__name__ = module, name

    def load(self) -> Callable[..., Any]:  # Any: a request
        found: Callable[..., Any] = getattr(import_module(self._module), self.__name__)
        return found

    def __call__(self, *arguments: object, **fields: object) -> Any:  # Any: a request
        return self.load()(*arguments, **fields)


class _Fields:
    """The signature of a method that takes the fields of a request, for `inspect`."""

    def __init__(self, request: Callable[..., object], method: Callable[..., object]) -> None:
        self._request, self.__wrapped__ = request, method

    @property
    def annotations(self) -> dict[str, object]:
        request = self._request.load() if isinstance(self._request, Lazy) else self._request
        return {one.name: one.type for one in fields(request)}  # type: ignore[arg-type]

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        request = self._request.load() if isinstance(self._request, Lazy) else self._request
        own, made = signature(self.__wrapped__), signature(request)
        first = next(iter(own.parameters.values()))
        is_plan = self.__wrapped__.__name__.startswith("plan_")  # which changes nothing, whatever `dry_run` is
        others = (one for one in made.parameters.values() if not (is_plan and one.name == "dry_run"))
        return own.replace(parameters=[first, *others])


def takes(
    request: Callable[Fields, Request],
) -> Callable[[Callable[[Self, Request], Result]], Callable[Concatenate[Self, Fields], Result]]:
    """Let a method that takes a request take the fields of the request instead."""

    def with_fields(method: Callable[[Self, Request], Result]) -> Callable[Concatenate[Self, Fields], Result]:
        @wraps(method)
        def call(self: Self, /, *arguments: Fields.args, **fields: Fields.kwargs) -> Result:
            try:
                asked = request(*arguments, **fields)
            except TypeError as fault:  # an unknown field; the caller knows the method, not the request
                own = f"{request.__name__}.__init__"
                if own not in str(fault):
                    raise
                raise TypeError(str(fault).replace(own, f"{type(self).__name__}.{method.__name__}")) from None
            _settle(asked)
            return method(self, asked)

        vars(call)["__wrapped__"] = _Fields(request, method)
        return call

    return with_fields


def spellings_of(name: str, option: Option) -> list[str]:
    """Return the names of a field on the command line."""
    if option.spelled is not None:
        return option.spelled.split()
    word = name.removesuffix("s") if option.kind is Kind.VERSIONS else name.removesuffix("_ms")
    return [f"--{'no-' if option.kind is Kind.OPPOSITE else ''}{word.replace('_', '-')}"]


def _settle(request: object) -> None:
    """Bring flags, which may be 0 or 1, to one form. Raise UsageError for a number that is less than its field takes;
    the parser of the command line does it there.
    """
    for one in fields(request):  # type: ignore[arg-type]
        shown, value = one.metadata.get("option"), getattr(request, one.name)
        if one.type == "bool":
            object.__setattr__(request, one.name, bool(value))
        least = None if shown is None else 1 if shown.kind is Kind.COUNT else shown.least
        if least is not None and isinstance(value, int) and value < least:
            raise UsageError(f"{one.name} is {value}", facts={"expected": f"at least {least}"})


def require_known_word(value: object, name: str, words: Iterable[str]) -> None:
    """Raise UsageError for a value that is none of the words, with the one that was probably meant."""
    known = [*words]
    if value not in known:
        near, expected = nearest_name(str(value), known), ", ".join(known)
        wrong = UsageError(f"{name} is {value!r}, expected {expected}", facts={"expected": expected})
        raise wrong.suggest(str(value), near)
