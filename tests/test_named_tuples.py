"""Named tuples of the product, which are made without compiling, against those of the standard library."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import typing
from collections import namedtuple
from importlib import import_module
from typing import Any, Generic, TypeVar

import pytest

import deltacli.operations
from deltacli.core import made_once
from deltacli.core.made_once import NamedTuple

Kind = TypeVar("Kind")


class Plain(NamedTuple):
    """Two fields, one with a default."""

    one: int
    two: str = "b"

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


class Many(NamedTuple, Generic[Kind]):
    first: Kind
    others: tuple[Kind, ...] = ()


def own_classes() -> list[Any]:
    """Every named tuple of the operations, and of what they import."""
    for module in pkgutil.walk_packages(deltacli.operations.__path__, "deltacli.operations."):
        import_module(module.name)
    found = {
        kind for kind in tuple.__subclasses__() if kind.__module__.startswith("deltacli.") and "_fields" in vars(kind)
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


def answers(kind: Any) -> list[object]:
    """What a class says about itself, and what its tuples do."""
    fields = kind._fields
    values = [*range(len(fields))]
    made = kind(*values)
    tuples = [made, kind(**dict(zip(fields, values, strict=True))), kind._make(values), made._replace()]
    required = [value for value, name in zip(values, fields, strict=True) if name not in kind._field_defaults]
    parameters = inspect.signature(kind).parameters.values()
    return [
        [(one.name, one.default, one.kind) for one in parameters],
        (fields, kind.__match_args__, kind._field_defaults, kind.__slots__, len(kind.__mro__)),
        [tuple(one) for one in tuples],
        tuple(kind(*required)),
        made._asdict(),
        [getattr(made, name) for name in fields],
        tuple(made._replace(**{fields[-1]: "new"})) if fields else (),
        [type(one) is kind for one in tuples],
        hash(made),
    ]


def test_classes_are_as_those_of_the_standard_library() -> None:
    kinds = own_classes()
    twins = [namedtuple(one.__name__, one._fields, defaults=one._field_defaults.values()) for one in kinds]

    assert 150 < len(kinds)
    for kind, twin in zip(kinds, twins, strict=True):
        assert answers(twin) == answers(kind), kind


@pytest.mark.parametrize(
    "wrong",
    [
        lambda kind: kind(),
        lambda kind: kind(1, 2, 3),
        lambda kind: kind(1, three=3),
        lambda kind: kind._make([1]),
        lambda kind: kind(1)._replace(three=3),
        lambda kind: setattr(kind(1), "one", 2),
        lambda kind: setattr(kind(1), "three", 2),
    ],
)
def test_wrong_calls_fail_as_in_the_standard_library(wrong: Any) -> None:
    class Twin(typing.NamedTuple):
        one: int
        two: str = "b"

    messages = []
    for kind in (Plain, Twin):
        with pytest.raises((TypeError, ValueError, AttributeError)) as fault:
            wrong(kind)
        messages.append((type(fault.value), str(fault.value).replace("Twin", "Plain")))

    assert messages[1] == messages[0]


def test_what_surrounds_fields_works() -> None:
    assert "Plain(one=1, two='b')" == repr(Plain(1))
    assert "1b" == Plain(1).both
    assert Plain(1, "c") == pickle.loads(pickle.dumps(Plain(1, "c")))
    assert {"one": int, "two": str} == typing.get_type_hints(Plain)
    assert "Two fields, one with a default." == Plain.__doc__
    assert Many[int](1, (2,)) == (1, (2,))
    maker: Any = type(made_once.NamedTuple)
    with pytest.raises(TypeError, match="without a default"):
        maker("Wrong", (NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})
