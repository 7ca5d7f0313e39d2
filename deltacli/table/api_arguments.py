"""Check the arguments of the Python API before anything is read.

A wrong argument raises a UsageError with the name of the parameter and the expected type, instead
of a TypeError from inside an operation. `check_arguments` checks all arguments of a call against
the annotations of the method. The `require_…` functions check and convert a single value. Request
classes call them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from inspect import Parameter, Signature, signature
from numbers import Real
from reprlib import Repr
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.texts import require_bytes_or_text
from deltacli.core.times import to_epoch_ms
from deltacli.core.units import require_number

# Messages contain the wrong value, which may be very long: a caller may have passed the content of
# a file.
_shortened = Repr()
_shortened.maxstring = 60
_shortened.maxother = 60


def require_version(value: object, name: str) -> int:
    """Convert a version number to an int, for example from a numpy integer. The version need not exist.

    Raises:
        UsageError: If the value is not an integer.
    """
    if not is_integer(value):
        raise wrong_argument(value, name, "an integer")
    return operator.index(value)  # type: ignore[arg-type]


def require_optional_version(value: object, name: str) -> int | None:
    """Convert a version number like `require_version`, but accept None."""
    return None if value is None else require_version(value, name)


def require_count(value: object, name: str) -> int:
    """Convert a count, such as a number of rows, to an int.

    Raises:
        UsageError: If the value is not an integer, or is negative.
    """
    number = require_version(value, name)
    if number < 0:
        raise errors.UsageError(f"{name} {number} is negative", facts={"expected": "0 or more"})
    return number


def require_optional_count(value: object, name: str) -> int | None:
    """Convert a count like `require_count`, but accept None."""
    return None if value is None else require_count(value, name)


def require_at_least(minimum: int, value: int | None, name: str) -> None:
    """Require a number that is not less than `minimum`, or None.

    Raises:
        UsageError: If the number is less.
    """
    if value is not None and value < minimum:
        raise errors.UsageError(f"{name} is {value}", facts={"expected": f"at least {minimum}"})


def require_known_word(value: object, name: str, words: Iterable[str]) -> None:
    """Require one of several words.

    Raises:
        UsageError: If the value is none of them, with the one that was probably meant.
    """
    known_words = [*words]
    if value in known_words:
        return
    expected = ", ".join(known_words)
    error = errors.UsageError(f"{name} is {value!r}, expected {expected}", facts={"expected": expected})
    raise error.suggest(str(value), errors.nearest_name(str(value), known_words))


def require_timestamp_ms(value: object, name: str, *, begins: bool = False) -> int:
    """Convert a datetime with a time zone, or a date, to epoch milliseconds.

    Args:
        value: The datetime or date. A date is midnight UTC.
        name: The name of the parameter, for the message.
        begins: True if the value is the start of a range of versions. Fractions of a millisecond
            are then rounded up, so that the range does not include a commit before the start.

    Raises:
        UsageError: If the value is a datetime without a time zone, or of another type.
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
        midnight = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return require_timestamp_ms(midnight, name)
    raise wrong_argument(value, name, "a datetime with a time zone, or a date", code="usage.timestamp")


class VersionTime(NamedTuple):
    """A version selected by time, in contrast to a version number.

    Attributes:
        timestamp_ms: The time in epoch milliseconds.
    """

    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class VersionBounds:
    """The bounds of a range of versions, both included. Base class of requests.

    Each bound is a version number or a time, and is open if all of its three fields are None. A
    time is passed as `from_timestamp` or `from_timestamp_ms`, but is always stored in
    `from_timestamp_ms`. This also holds for `to_…`.

    Attributes:
        from_version: The first version of the range.
        from_timestamp: A time. The range starts with the first commit at or after it. Always None
            after construction.
        from_timestamp_ms: The same time in epoch milliseconds.
        to_version: The last version of the range.
        to_timestamp: A time. The range ends with the last commit at or before it. Always None after
            construction.
        to_timestamp_ms: The same time in epoch milliseconds.
    """

    from_version: int | None = None
    from_timestamp: datetime | date | None = None
    from_timestamp_ms: int | None = None
    to_version: int | None = None
    to_timestamp: datetime | date | None = None
    to_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        """Check the bounds, and convert times to milliseconds.

        Raises:
            UsageError: If a bound is given as a version and as a time, or is neither a version nor
                a time.
        """
        start = _normalize_bound("from", self.from_version, self.from_timestamp, self.from_timestamp_ms)
        end = _normalize_bound("to", self.to_version, self.to_timestamp, self.to_timestamp_ms)

        # Instances are frozen, so this is the only way to store the converted values.
        object.__setattr__(self, "from_version", start.version)
        object.__setattr__(self, "from_timestamp", None)
        object.__setattr__(self, "from_timestamp_ms", start.timestamp_ms)
        object.__setattr__(self, "to_version", end.version)
        object.__setattr__(self, "to_timestamp", None)
        object.__setattr__(self, "to_timestamp_ms", end.timestamp_ms)

    @property
    def first(self) -> int | VersionTime | None:
        """The start of the range, as a version number or as a time. None if the range has no start."""
        return self.from_version if self.from_timestamp_ms is None else VersionTime(self.from_timestamp_ms)

    @property
    def last(self) -> int | VersionTime | None:
        """The end of the range, as a version number or as a time. None if the range has no end."""
        return self.to_version if self.to_timestamp_ms is None else VersionTime(self.to_timestamp_ms)


class _NormalizedBound(NamedTuple):
    """A bound of a range of versions. At most one attribute is not None."""

    version: int | None
    timestamp_ms: int | None


def _normalize_bound(
    prefix: str, version: int | None, timestamp: datetime | date | None, timestamp_ms: int | None
) -> _NormalizedBound:
    """Check one bound of `VersionBounds`, and convert its time to milliseconds.

    Args:
        prefix: The prefix of its parameters, "from" or "to".
        version: The version number.
        timestamp: The time, rounded up for "from" (see `require_timestamp_ms`).
        timestamp_ms: The time in epoch milliseconds.

    Raises:
        UsageError: If more than one value is given, or a value is invalid.
    """
    if [version, timestamp, timestamp_ms].count(None) < 2:
        raise errors.UsageError(f"{prefix}_version and {prefix}_timestamp exclude each other")

    version = require_optional_version(version, f"{prefix}_version")
    if version is not None and version < 0:
        raise errors.UsageError(f"version {version} is negative")
    if timestamp is not None:
        timestamp_ms = require_timestamp_ms(timestamp, f"{prefix}_timestamp", begins=prefix == "from")
    return _NormalizedBound(version, timestamp_ms)


def require_path_text(uri: str | os.PathLike[str], description: str = "the table") -> str:
    """Convert a path or URI to a string.

    Args:
        uri: A path or URI.
        description: What the path refers to, for the message, such as "the table" or "the profile".

    Raises:
        UsageError: If the value is neither a string nor a path object.
    """
    # Only tables can be opened by a URI. Profiles and policy files are local.
    expected = "a path or a URI" if description == "the table" else "a path"
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str):
        raise wrong_argument(uri, description, expected)
    return text


def require_plan(plan: object, class_name: str) -> None:
    """Require a plan of a class, as `execute_vacuum` requires a `VacuumPlan`.

    The class is compared by name, because importing the classes of all plans would import all
    operations. Class names are unique in the package.

    Raises:
        UsageError: If the plan is of another class.
    """
    class_names = [base.__name__ for base in type(plan).__mro__]
    if class_name not in class_names:
        raise wrong_argument(plan, "plan", f"a `{class_name}`, as the method that plans returns it")


def require_place(place: object) -> None:
    """Require the place of a directory, as `DirectoryIdentity` of `deltacli.storage.directory_identity`.

    Raises:
        UsageError: If the value is anything else.
    """
    kinds = (str, int, int)
    is_place = isinstance(place, tuple) and len(place) == len(kinds) and all(map(isinstance, place, kinds))
    if not is_place:
        raise wrong_argument(place, "place", "a place as stores have it (a string and two integers), or None")


def wrong_argument(value: object, name: str, expected: str, *, code: str = errors.UsageError.code) -> errors.UsageError:
    """Build the error for an argument of the wrong type.

    Args:
        value: The argument.
        name: The name of the parameter.
        expected: A description of valid values, such as "an integer".
        code: The error code.
    """
    facts = {"expected": expected, "type": type(value).__name__}
    return errors.UsageError(f"{name} is {_shortened.repr(value)}, expected {expected}", code=code, facts=facts)


def is_integer(value: object) -> bool:
    """Return True for integers, including those of numpy. `True` and `False` are not integers here."""
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_integer(value: object) -> bool:
    return isinstance(value, str) or is_integer(value)


def _is_flag(value: object) -> bool:
    # The class of numpy's flags is compared by name, because numpy is not always installed.
    return isinstance(value, int) or type(value).__name__ == "bool_"


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_sequence(value: object) -> bool:
    """Return True for a list. An iterator is no sequence: it would be empty when it is read a second time."""
    return _is_list(value) and not isinstance(value, Iterator)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(map(_is_text, value))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_price_table(value: object) -> bool:
    return hasattr(value, "of_bytes")


def _is_table(value: object) -> bool:
    return hasattr(value, "storage")


class ArgumentKind(NamedTuple):
    """A kind of argument that can be checked.

    Attributes:
        is_valid: Returns True for values of this kind.
        expected: A description of valid values, such as "a list of strings".
        element_annotation: The annotation of the elements of a list, or of the keys and values of a
            dictionary. None if they are not checked.
        code: The error code for other values.
    """

    is_valid: Callable[[object], bool]
    expected: str
    element_annotation: str | None = None
    code: str = errors.UsageError.code


ARGUMENT_KINDS: Mapping[str, ArgumentKind] = {
    "bool": ArgumentKind(_is_flag, "True or False"),
    "float": ArgumentKind(_is_number, "a number"),
    "int": ArgumentKind(is_integer, "an integer"),
    "str": ArgumentKind(_is_text, "a string"),
    "str | int": ArgumentKind(_is_text_or_integer, "a string or an integer"),
    "tuple[str, str]": ArgumentKind(_is_pair, "a pair of strings, such as ('column', 'type')"),
    "Iterable[Change | JsonObject]": ArgumentKind(_is_list, "a list of changes", code="usage.change"),
    "Iterable[SchemaChange | JsonObject]": ArgumentKind(_is_list, "a list of changes", code="usage.change"),
    "Mapping[str, str]": ArgumentKind(_is_mapping, "a dictionary of strings, such as {'key': 'value'}", "str"),
    "PriceTable": ArgumentKind(_is_price_table, "a `PriceTable`"),
    "Sequence[int]": ArgumentKind(_is_sequence, "a list of integers, such as [1, 2]", "int"),
    "Sequence[str]": ArgumentKind(_is_sequence, "a list of strings, such as ['a', 'b']", "str"),
    "TableHandle": ArgumentKind(_is_table, "a table of `open_table`"),
}
"""Maps the annotation of a parameter, without `| None`, to the kind of its arguments. Others are not checked."""

_PLAN_PARAMETER = "plan"
"""The parameter of all methods that execute a plan. Its annotation is the class of the plan."""


@cache
def signature_of(function: Callable[..., object]) -> Signature:
    """Return the signature of a function. It is cached, because computing it is slower than many calls."""
    return signature(function)


def accepts_arguments(
    method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]
) -> bool:
    """Return True if a method can be called with these arguments, apart from their types.

    Args:
        method: The method. Its first parameter, `self`, is not part of the arguments.
        arguments: The positional arguments.
        options: The keyword arguments.
    """
    try:
        signature_of(method).bind(None, *arguments, **options)
    except TypeError:
        return False
    return True


def check_arguments(
    method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Check the arguments of a call against the annotations of the method.

    Flags may also be 0, 1 or numpy flags. They are converted to True and False, because they become
    part of saved plans. Other arguments are not changed.

    Args:
        method: The method. Its first parameter, `self`, is not part of the arguments.
        arguments: The positional arguments. `accepts_arguments` must be true for them.
        options: The keyword arguments.

    Returns:
        The positional and the keyword arguments with which to call the method.

    Raises:
        UsageError: If an argument does not match its annotation.
    """
    call = signature_of(method).bind(None, *arguments, **options)
    parameters = [*signature_of(method).parameters.values()][1:]
    for parameter in parameters:
        if parameter.name not in call.arguments:
            continue
        value = call.arguments[parameter.name]
        is_repeated = parameter.kind is Parameter.VAR_POSITIONAL
        for element in value if is_repeated else (value,):
            require_kind(element, parameter.name, parameter.annotation)
        if parameter.annotation == "bool":
            call.arguments[parameter.name] = bool(value)
    return call.args[1:], call.kwargs


def require_kind(value: object, name: str, annotation: object) -> None:
    """Check a value against the annotation of its parameter.

    Args:
        value: The argument of a call, such as `["id", "name"]`.
        name: The name of the parameter, such as "columns".
        annotation: The annotation as a string, such as "Sequence[str] | None", because modules of the API
            use `from __future__ import annotations`. Values of annotations that are not in
            `ARGUMENT_KINDS` are not checked.

    Raises:
        UsageError: If the value does not match, is a number that does not fit into 64 bits, or is a
            string that is not valid Unicode.
    """
    expected = str(annotation).removesuffix(" | None")
    # Every operation has a class of plans, so their annotations are not listed in `ARGUMENT_KINDS`.
    if name == _PLAN_PARAMETER:
        require_plan(value, expected)
        return

    kind = ARGUMENT_KINDS.get(expected)
    if kind is None or (value is None and annotation != expected):
        return
    if not kind.is_valid(value):
        raise wrong_argument(value, name, kind.expected, code=kind.code)

    if isinstance(value, int | float):
        require_number(value, name)
    elif isinstance(value, str):
        require_bytes_or_text(value, name)
    if kind.element_annotation is not None:
        _require_elements_of_kind(value, name, kind.element_annotation)


def _require_elements_of_kind(value: object, name: str, annotation: str) -> None:
    """Check the elements of a list, or the keys and values of a dictionary, against an annotation."""
    if isinstance(value, Mapping):
        for key, element in value.items():
            require_kind(key, f"a key of {name}", annotation)
            require_kind(element, f"{name}[{key!r}]", annotation)
    elif isinstance(value, Iterable):
        for position, element in enumerate(value):
            require_kind(element, f"{name}[{position}]", annotation)
