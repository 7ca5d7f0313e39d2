"""Checks of the arguments that callers of the Python API pass, before anything is read.

A wrong argument is a UsageError that names the parameter and says what is expected, never a TypeError from inside an
operation. `check_arguments` compares the arguments of a method with its annotations; the other functions check and
convert single values, and are called by requests.
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

# Values are repeated in messages. A caller may have passed a whole file.
_shortened = Repr()
_shortened.maxstring = 60
_shortened.maxother = 60


def require_version(value: object, name: str) -> int:
    """Return a version as an int. Whether it exists is not checked.

    Raises:
        UsageError: If the value is not an integer.
    """
    if not is_integer(value):
        raise wrong_argument(value, name, "an integer")
    return operator.index(value)  # type: ignore[arg-type]


def require_optional_version(value: object, name: str) -> int | None:
    """Return a version as `require_version` does, or None for None."""
    return None if value is None else require_version(value, name)


def require_count(value: object, name: str) -> int:
    """Return a number of things as an int.

    Raises:
        UsageError: If the value is not an integer, or below 0.
    """
    number = require_version(value, name)
    if number < 0:
        raise errors.UsageError(f"{name} {number} is negative", facts={"expected": "0 or more"})
    return number


def require_optional_count(value: object, name: str) -> int | None:
    """Return a number of things as `require_count` does, or None for None."""
    return None if value is None else require_count(value, name)


def require_at_least(least: int, value: int | None, name: str) -> None:
    """Require that a number is not below its least value. None, which stands for a default, is accepted.

    Raises:
        UsageError: If it is below.
    """
    if value is not None and value < least:
        raise errors.UsageError(f"{name} is {value}", facts={"expected": f"at least {least}"})


def require_timestamp_ms(value: object, name: str, *, begins: bool = False) -> int:
    """Return epoch milliseconds of a datetime that has a time zone, or of a date, which is midnight UTC.

    Args:
        value: The datetime or date.
        name: The parameter, for the message.
        begins: True if a range of versions begins at this time: fractions of a millisecond are then rounded up, so
            that a commit before it is not in the range.

    Raises:
        UsageError: If the value is of another type, or a datetime without a time zone.
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
    """A time that selects a version."""

    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class VersionEnds:
    """Two versions in a request, each by its number or by a time. All are None where an end is open.

    Attributes:
        from_version: The first version.
        from_timestamp: The first version is the first one committed at or after this time. It is None afterwards:
            `from_timestamp_ms` has the value.
        from_timestamp_ms: The same time in epoch milliseconds.
        to_version: The last version.
        to_timestamp: The last version is the newest one committed at or before this time. It is None afterwards:
            `to_timestamp_ms` has the value.
        to_timestamp_ms: The same time in epoch milliseconds.
    """

    from_version: int | None = None
    from_timestamp: datetime | date | None = None
    from_timestamp_ms: int | None = None
    to_version: int | None = None
    to_timestamp: datetime | date | None = None
    to_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        """Bring times to milliseconds.

        Raises:
            UsageError: If an end is given twice, or is not a version or a time.
        """
        self._settle_end("from")
        self._settle_end("to")

    def _settle_end(self, end: str) -> None:
        """Check the three fields of one end, `from` or `to`, and set those that have another form afterwards."""
        version = getattr(self, f"{end}_version")
        timestamp = getattr(self, f"{end}_timestamp")
        timestamp_ms = getattr(self, f"{end}_timestamp_ms")
        if [version, timestamp, timestamp_ms].count(None) < 2:
            raise errors.UsageError(f"{end}_version and {end}_timestamp exclude each other")

        number = require_optional_version(version, f"{end}_version")
        if number is not None and number < 0:
            raise errors.UsageError(f"version {number} is negative")

        # The request is frozen for its users; this is the one place that writes its fields.
        object.__setattr__(self, f"{end}_version", number)
        if timestamp is not None:
            milliseconds = require_timestamp_ms(timestamp, f"{end}_timestamp", begins=end == "from")
            object.__setattr__(self, f"{end}_timestamp_ms", milliseconds)
            object.__setattr__(self, f"{end}_timestamp", None)

    @property
    def first(self) -> int | VersionTime | None:
        """The first version or its time; None where the range is open."""
        return self.from_version if self.from_timestamp_ms is None else VersionTime(self.from_timestamp_ms)

    @property
    def last(self) -> int | VersionTime | None:
        """The last version or its time; None where the range is open."""
        return self.to_version if self.to_timestamp_ms is None else VersionTime(self.to_timestamp_ms)


def require_path_text(uri: str | os.PathLike[str], what: str = "the table") -> str:
    """Return a path or URI as text.

    Args:
        uri: A path or URI.
        what: What is at the path, for the message.

    Raises:
        UsageError: If it is neither text nor a path object.
    """
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str):
        raise wrong_argument(uri, what, "a path or a URI" if what == "the table" else "a path")
    return text


def require_plan(plan: object, class_name: str) -> None:
    """Require a plan of one class, which `execute_…` of a method executes.

    The class is known by its name only, and one class of the package has it: annotations are texts here, and importing
    the classes of all plans would import all operations.

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
    """Return the error for an argument that is not what its parameter expects."""
    facts = {"expected": expected, "type": type(value).__name__}
    return errors.UsageError(f"{name} is {_shortened.repr(value)}, expected {expected}", code=code, facts=facts)


def is_integer(value: object) -> bool:
    """Return True for an integer, also one of numpy, and False for True and False."""
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
    return isinstance(value, int) or type(value).__name__ == "bool_"  # of numpy, which need not be installed


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_sequence(value: object) -> bool:
    """Return True for a list that can be read twice. An iterator is empty the second time, silently."""
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
    """What an argument must be.

    Attributes:
        is_met: Returns True for a value of this kind.
        expected: The kind in words.
        of_elements: The annotation that all elements of a list or dictionary must meet; None if they are not checked.
        code: The code of the error.
    """

    is_met: Callable[[object], bool]
    expected: str
    of_elements: str | None = None
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
"""Annotation, without `| None` -> what an argument must be. Values with another annotation are not checked here."""

_PLAN = "plan"
"""The parameter of each method that executes a plan. Its annotation is the class of the plan."""


@cache
def signature_of(function: Callable[..., object]) -> Signature:
    """Return the signature of a function. It is computed once: a method may be called in a loop."""
    return signature(function)


def accepts_arguments(
    method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]
) -> bool:
    """Return False for a call with unknown, repeated, missing or too many arguments, besides the first parameter."""
    try:
        signature_of(method).bind(None, *arguments, **options)
    except TypeError:
        return False
    return True


def check_arguments(
    method: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Check the arguments of a call against the annotations of the method.

    Flags may be 0 and 1, or those of numpy: they become True and False, so that an operation, and the plan that it
    saves, has one form of them. All other arguments stay as they are.

    Args:
        method: The method. Its first parameter is not part of the call.
        arguments: The positional arguments. The method accepts them (`accepts_arguments`).
        options: The keyword arguments.

    Returns:
        The positional and the keyword arguments to call the method with.

    Raises:
        UsageError: If an argument is of another kind than its annotation, with the name of the parameter.
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
    """Require that a value is what the annotation of its parameter says.

    Args:
        value: The value.
        name: The name of the parameter, for the message.
        annotation: The annotation as text. Where it is not in `ARGUMENT_KINDS`, nothing is checked.

    Raises:
        UsageError: If it is of another kind, is a number of more than 64 bits, or is text that is not Unicode.
    """
    expected = str(annotation).removesuffix(" | None")
    if name == _PLAN:
        require_plan(value, expected)
        return

    kind = ARGUMENT_KINDS.get(expected)
    if kind is None or (value is None and annotation != expected):
        return
    if not kind.is_met(value):
        raise wrong_argument(value, name, kind.expected, code=kind.code)

    if isinstance(value, int | float):
        require_number(value, name)
    elif isinstance(value, str):
        require_bytes_or_text(value, name)
    if kind.of_elements is not None:
        _require_kind_of_elements(value, name, kind.of_elements)


def _require_kind_of_elements(value: object, name: str, annotation: str) -> None:
    """Require that all elements of a list, or all keys and values of a dictionary, are of a kind."""
    if isinstance(value, Mapping):
        for key, element in value.items():
            require_kind(key, f"a key of {name}", annotation)
            require_kind(element, f"{name}[{key!r}]", annotation)
    elif isinstance(value, Iterable):
        for position, element in enumerate(value):
            require_kind(element, f"{name}[{position}]", annotation)
