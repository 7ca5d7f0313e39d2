"""The Python API: checks of the types of arguments, before anything is read, and hints with the name of the table where
the command line would insert it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, wraps
from numbers import Real
from reprlib import Repr
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from deltacli.core import errors
from deltacli.core.texts import require_bytes_or_text
from deltacli.core.times import to_epoch_ms
from deltacli.core.units import require_number
from deltacli.storage.secrets import without_secrets

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Key = TypeVar("Key")
Result = TypeVar("Result")

_REPEATED = 0x04
"""Flag of the code of a function that takes any number of arguments."""
_shortened = Repr()
_shortened.maxstring = _shortened.maxother = 60


def version_number(value: object, name: str) -> int:
    """Return a version. Raises UsageError where the value is not an integer; whether it exists is not checked."""
    if not is_integer(value):
        raise wrong_kind(value, name, "an integer")
    return operator.index(value)  # type: ignore[arg-type]


def optional_version(value: object, name: str) -> int | None:
    """Return a version, or None. Raises UsageError."""
    return None if value is None else version_number(value, name)


def count_number(value: object, name: str) -> int:
    """Return a count, which is 0 or more. Raises UsageError."""
    number = version_number(value, name)
    if number < 0:
        raise errors.UsageError(f"{name} {number} is negative", facts={"expected": "0 or more"})
    return number


def optional_count(value: object, name: str) -> int | None:
    """Return a count, or None. Raises UsageError."""
    return None if value is None else count_number(value, name)


class VersionTime(NamedTuple):
    """A time that selects a version."""

    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class VersionEnds:
    """Two versions in a request, each by its number or by a time, which becomes milliseconds."""

    from_version: int | None = None
    from_timestamp: datetime | date | None = None
    from_timestamp_ms: int | None = None
    to_version: int | None = None
    to_timestamp: datetime | date | None = None
    to_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for an end that is given twice, or is no version or time."""
        for end in ("from", "to"):
            version, timestamp, timestamp_ms = (
                getattr(self, f"{end}_{what}") for what in ("version", "timestamp", "timestamp_ms")
            )
            if sum(one is not None for one in (version, timestamp, timestamp_ms)) > 1:
                raise errors.UsageError(f"{end}_version and {end}_timestamp exclude each other")
            version = optional_version(version, f"{end}_version")
            if version is not None and version < 0:
                raise errors.UsageError(f"version {version} is negative")
            object.__setattr__(self, f"{end}_version", version)
            if timestamp is not None:
                object.__setattr__(
                    self, f"{end}_timestamp_ms", moment_ms(timestamp, f"{end}_timestamp", begins=end == "from")
                )
                object.__setattr__(self, f"{end}_timestamp", None)

    @property
    def ends(self) -> tuple[int | VersionTime | None, int | VersionTime | None]:
        first, last = (
            version if timestamp_ms is None else VersionTime(timestamp_ms)
            for version, timestamp_ms in (
                (self.from_version, self.from_timestamp_ms),
                (self.to_version, self.to_timestamp_ms),
            )
        )
        return first, last


def moment_ms(value: object, name: str, *, begins: bool = False) -> int:
    """Return epoch milliseconds of a datetime that has a time zone, or of a date, which is midnight UTC; `begins`: as
    in `to_epoch_ms`.

    Raises UsageError, also for a datetime without a time zone.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise errors.UsageError(
                f"{name} {value} has no time zone",
                code="usage.timestamp",
                facts={"expected": "a datetime with a time zone, as in datetime.now(timezone.utc)"},
            )
        return to_epoch_ms(value, begins=begins)
    if isinstance(value, date):
        return moment_ms(datetime(value.year, value.month, value.day, tzinfo=UTC), name)
    raise wrong_kind(value, name, "a datetime with a time zone, or a date", code="usage.timestamp")


class Named(Protocol):
    """An object with the table as its caller wrote it; None: the caller inserts the name."""

    @property
    def name(self) -> str | None: ...


Self = TypeVar("Self", bound=Named)


def named(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """Return the method with errors whose hints name the table, also for arguments of a wrong kind."""

    @wraps(method)
    def call(self: Self, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            require_kinds(method, arguments, options)
            return method(self, *arguments, **options)
        except errors.DeltacliError as fault:
            _name_meant(fault, method.__name__, self, arguments, options)
            name_table(fault, self.name)
            if getattr(self, "is_paimon", False):
                if isinstance(fault.hint, errors.Command):
                    fault.hint = fault.hint.with_options(paimon=True)
                for key, value in fault.facts.items():
                    if isinstance(value, errors.Command) and value:
                        fault.facts[key] = value.with_options(paimon=True)
            if options.get("dry_run") is True and isinstance(fault.hint, errors.Command):
                fault.hint = _as_plan(fault.hint, type(self))
            raise

    return call


def _as_plan(hint: errors.Command, handle: type) -> str:
    """Return a hint with `dry_run=True`, where it calls a method of the handle that has it."""
    method = getattr(handle, errors.method_name(hint.operation), None)
    has_plan = method is not None and any(name == "dry_run" for name, _, _ in _parameters(method))
    return hint.with_options(dry_run=True) if has_plan and "dry_run" not in hint.options else hint


def _name_meant(
    fault: errors.DeltacliError,
    method: str,
    handle: Named,
    arguments: tuple[object, ...],
    options: Mapping[str, object],
) -> None:
    """Make the hint of a misspelled name or an absent version the call that was made, with the nearest one instead."""
    if handle.name is None or not hasattr(type(handle), method):
        return
    if fault.code == "table.path-missing" and not fault.hint and not os.path.exists(handle.name):
        if near := errors.nearest_directory(handle.name):
            fault.hint = errors.get_spelling().command(method, near, arguments, options)
        return
    meant = _meant(fault, {**dict(enumerate(arguments)), **options})
    if meant is None:
        return
    words = tuple(value for key, value in meant.items() if isinstance(key, int))
    given = {key: value for key, value in meant.items() if isinstance(key, str) and value is not None}
    if method == "scan":  # of a version
        method, version = "read", getattr(handle, "version", None)
        given |= {} if version == getattr(handle, "newest_version", None) else {"version": version}
    fault.hint = errors.get_spelling().command(method, handle.name, words, given) or fault.hint


def _meant(fault: errors.DeltacliError, given: Mapping[Key, object]) -> dict[Key, object] | None:
    """Return the arguments of a call with what an error suggests in the one that is wrong; None without one."""
    wrong: object
    near: object
    if isinstance(fault, errors.VersionAbsent):
        wrong, near = fault.wanted, fault.nearest
    elif fault.code == "usage.where":
        wrong, near = fault.facts.get("where"), fault.facts.get("meant")
    else:
        wrong, near = fault.wrong_word, fault.suggestion

    def as_meant(value: object) -> object:
        if isinstance(value, list):
            return [*map(as_meant, value)]
        if isinstance(value, tuple):
            return tuple(map(as_meant, value))
        return near if (isinstance(value, str) or is_integer(value)) and value == wrong else value

    if wrong is None or near is None:
        return None
    meant = {key: as_meant(value) for key, value in given.items()}
    return meant if sum(meant[key] != given[key] for key in given) == 1 else None


def named_call(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return a function of a session and a table with the errors of a method: about arguments of a wrong kind, and with
    hints that name the table, or are the call that was meant.
    """
    from inspect import signature

    shape = signature(function)

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            given = shape.bind(*arguments, **options).arguments
        except TypeError:
            return function(*arguments, **options)  # raises it with its name
        (_, _), (_, table), *rest = given.items()
        name = without_secrets(os.fspath(table)) if isinstance(table, str | os.PathLike) else None
        try:
            require_kinds(function, (), options=dict(rest))
            return function(*arguments, **options)
        except errors.DeltacliError as fault:
            name_table(fault, name)
            if name is not None and (meant := _meant(fault, dict(rest))) is not None:
                shown = {**meant, **({"storage_options": ...} if "storage_options" in meant else {})}
                words = ["spark", repr(name), *(f"{key}={value!r}" for key, value in shown.items())]
                fault.hint = errors.CommandLine(f"{function.__name__}({', '.join(words)})".replace("Ellipsis", "..."))
            raise

    return call


def named_items(items: Iterator[Item], name: str | None) -> Iterator[Item]:
    """Yield the items; errors have hints that name the table."""
    try:
        yield from items
    except errors.DeltacliError as fault:
        name_table(fault, name)
        raise


@contextmanager
def errors_about(name: str | None) -> Iterator[None]:
    """Make errors be about a table other than the one the command or method is called on; None: about that one."""
    try:
        yield
    except errors.DeltacliError as fault:
        fault.table = fault.table or name
        raise


def name_table(fault: errors.DeltacliError, name: str | None) -> None:
    """Insert the table that an error is about into its hint; `name` where the error has none yet."""
    if name is None:
        return
    fault.table = fault.table or name
    if fault.hint is not None:
        fault.hint = errors.get_spelling().fill(fault.hint, fault.table)
    for key, value in fault.facts.items():
        if errors.TABLE_PLACEHOLDER in value:  # a command
            fault.facts[key] = errors.get_spelling().fill(value, fault.table)


class _Kind(NamedTuple):
    """What an argument must be: a check, in words, and a kind of which all elements must be."""

    is_met: Callable[[object], bool]
    expected: str
    of_elements: str | None = None
    code: str = errors.UsageError.code


def wrong_kind(value: object, name: str, expected: str, *, code: str = errors.UsageError.code) -> errors.UsageError:
    """Return the error for an argument that is not what its parameter expects."""
    facts = {"expected": expected, "type": type(value).__name__}
    return errors.UsageError(f"{name} is {_shortened.repr(value)}, expected {expected}", code=code, facts=facts)


def text_of(uri: str | os.PathLike[str], what: str = "the table") -> str:
    """Return a path or URI as text. Raises UsageError for anything else, which says what it is for."""
    name = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(name, str):
        raise wrong_kind(uri, what, "a path or a URI" if what == "the table" else "a path")
    return name


def is_integer(value: object) -> bool:
    """Return whether a value is an integer, also one of another library, and not True or False."""
    try:
        return not isinstance(value, bool) and operator.index(value) is not None  # type: ignore[arg-type]
    except TypeError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, int) or type(value).__name__ == "bool_"  # that of numpy


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_sequence(value: object) -> bool:
    """Return whether a value is a list that is the same each time it is read: an iterator is empty the second time."""
    return _is_list(value) and not isinstance(value, Iterator)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_text, value))


_PLAN = "plan"
"""The parameter of each method that executes a plan. Its annotation is the class of the plan."""

_CHANGES = _Kind(_is_list, "a list of changes", code="usage.change")
_KINDS: Mapping[str, _Kind] = {
    "bool": _Kind(_is_flag, "True or False"),
    "float": _Kind(_is_number, "a number"),
    "int": _Kind(is_integer, "an integer"),
    "str": _Kind(_is_text, "a string"),
    "str | int": _Kind(lambda value: _is_text(value) or is_integer(value), "a string or an integer"),
    "tuple[str, str]": _Kind(_is_pair, "a pair of strings, such as ('column', 'type')"),
    "Iterable[Change | JsonObject]": _CHANGES,
    "Iterable[SchemaChange | JsonObject]": _CHANGES,
    "Mapping[str, str]": _Kind(
        lambda value: isinstance(value, Mapping), "a dictionary of strings, such as {'key': 'value'}", "str"
    ),
    "PriceTable": _Kind(lambda value: hasattr(value, "of_bytes"), "a `PriceTable`"),
    "Sequence[int]": _Kind(_is_sequence, "a list of integers, such as [1, 2]", "int"),
    "Sequence[str]": _Kind(_is_sequence, "a list of strings, such as ['a', 'b']", "str"),
    "TableHandle": _Kind(lambda value: hasattr(value, "storage"), "a table of `open_table`"),
}
"""Annotation, without None -> what an argument must be. Others are not checked here."""


def require_kinds(method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
    """Raise UsageError, with the name of the parameter, for an argument of a method that is of another kind."""
    parameters, position = _parameters(method), 0
    for value in arguments:
        if position == len(parameters):
            return  # too many, which the call itself raises
        name, annotation, is_repeated = parameters[position]
        position += not is_repeated
        _require(value, name, annotation)
    by_name = {name: annotation for name, annotation, _ in parameters}
    for name, value in options.items():
        if name in by_name:
            _require(value, name, by_name[name])


@cache
def _parameters(method: Callable[..., object]) -> tuple[tuple[str, object, bool], ...]:
    """Return name, annotation and whether it is variadic of each parameter but the first. `inspect` imports in 5 ms."""
    function: Any = method  # Any: has attributes of a function, or is `_Fields`
    while hasattr(function, "__wrapped__") and not hasattr(function, "annotations"):
        function = function.__wrapped__
    if (annotations := getattr(function, "annotations", None)) is not None:
        return tuple((name, annotation, False) for name, annotation in annotations.items())
    code = function.__code__
    named = code.co_argcount + code.co_kwonlyargcount
    names = [*code.co_varnames[1:named]]
    if is_repeated := bool(code.co_flags & _REPEATED):
        names.insert(code.co_argcount - 1, code.co_varnames[named])
    annotations = function.__annotations__
    return tuple(
        (name, annotations.get(name), is_repeated and place == code.co_argcount - 1) for place, name in enumerate(names)
    )


def require_plan(plan: object, kind: str) -> None:
    """Raise UsageError unless a plan is of the class with this name, which one class of the package has."""
    if not any(base.__name__ == kind for base in type(plan).__mro__):
        raise wrong_kind(plan, "plan", f"a `{kind}`, as the method that plans returns it")


def require_place(place: object) -> None:
    """Raise UsageError unless a value is the place of a directory, as `Place` of `deltacli.storage.base`."""
    kinds = (str, int, int)
    is_place = isinstance(place, tuple) and len(place) == len(kinds) and all(map(isinstance, place, kinds))
    if not is_place:
        raise wrong_kind(place, "place", "a place as stores have it (a string and two integers), or None")


def _require(value: object, name: str, annotation: object) -> None:
    wanted = str(annotation).removesuffix(" | None")
    if name == _PLAN:
        require_plan(value, wanted)
        return
    kind = _KINDS.get(wanted)
    if kind is None or (value is None and annotation != wanted):
        return
    if not kind.is_met(value):
        raise wrong_kind(value, name, kind.expected, code=kind.code)
    if isinstance(value, int | float):
        require_number(value, name)
    elif isinstance(value, str):
        require_bytes_or_text(value, name)
    if kind.of_elements is None:
        return
    if isinstance(value, Mapping):
        for key, element in value.items():
            _require(key, f"a key of {name}", kind.of_elements)
            _require(element, f"{name}[{key!r}]", kind.of_elements)
    elif isinstance(value, Iterable):
        for place, element in enumerate(value):
            _require(element, f"{name}[{place}]", kind.of_elements)
