"""Named tuples and data classes of the product, which are made fast, against those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pkgutil
import re
import sys
import typing
from collections import namedtuple
from importlib import import_module
from itertools import product
from threading import Thread
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

import deltacli.operations
from deltacli.core import made_once
from deltacli.core.made_once import NamedTuple

Kind = TypeVar("Kind")


# -- named tuples ------------------------------------------------------------------------------------------------------


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
        (fields, kind.__match_args__, kind._field_defaults, kind.__slots__, tuple in kind.__bases__),
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


# -- data classes ------------------------------------------------------------------------------------------------------

CLASSES = """
from __future__ import annotations

@dataclass({options})
class Base:
    \"\"\"A base.\"\"\"

    one: int
    of_all: ClassVar[str] = "of all"
    hidden: object = field(default=None, repr=False, compare=False)
    two: list[int] = field(default_factory=list)
    three: str = field(default="c", kw_only=True)
    four: int = field(default=4, init=False)
    five: list[int] = field(default_factory=list, init=False, hash=False)

@dataclass({options})
class Derived(Base):
    \"\"\"Another field, and another default.\"\"\"

    three: str = "d"
    six: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "four", self.one + 4)

@dataclass({options})
class Own:
    \"\"\"With methods of its own.\"\"\"

    one: int = 1

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

class Plain(Base):
    pass

@dataclass(frozen={frozen})
class WithoutSlots(Base):
    \"\"\"Other options than those of its base.\"\"\"

    six: int = 6

    def __post_init__(self) -> None:
        object.__setattr__(self, "four", 8)
        object.__setattr__(self, "six", 7)
"""


def made_by(maker: Any, options: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(dataclass=maker, field=dataclasses.field, ClassVar=typing.ClassVar)
    monkeypatch.setitem(sys.modules, name, module)
    exec(CLASSES.format(options=options, frozen="frozen=True" in options), vars(module))
    return module


def told(act: Any) -> object:
    """What a call gives, or its error in words."""
    try:
        return act()
    except (TypeError, ValueError, AttributeError) as fault:
        return type(fault).__name__, str(fault)


def said(module: ModuleType) -> list[object]:
    found: list[object] = []
    for name in ("Base", "Derived", "Own", "Plain", "WithoutSlots"):
        kind = getattr(module, name)
        made, equal, other = kind(1), kind(1), kind(one=2)
        found += [
            str(inspect.signature(kind)),
            [(one.name, one.type, repr(one.default), one.init, one.kw_only) for one in dataclasses.fields(kind)],
            kind.__match_args__,
            [hasattr(made, "__dict__"), hasattr(kind, "four"), kind.__doc__],
            told(lambda made=made, other=other: [repr(made), repr(other)]),
            told(lambda made=made, equal=equal, other=other: [made == equal, made == other, made != equal, made == 1]),
            told(lambda made=made, equal=equal: hash(made) == hash(equal)),
            told(lambda made=made: repr(dataclasses.replace(made, one=5))),
            told(lambda made=made: dataclasses.asdict(made)),
            told(lambda made=made: repr(pickle.loads(pickle.dumps(made)))),
            told(lambda made=made: repr(copy.deepcopy(made))),
            told(lambda made=made: setattr(made, "one", 7)),
            told(lambda kind=kind: kind(1, 2, 3, 4, 5, 6, 7, 8)),
            *(told(lambda kind=kind, given=given: repr(kind(**given))) for given in ({}, {"one": 1, "unknown": 2})),
            told(lambda kind=kind, other=other: [getattr(other, one.name) for one in dataclasses.fields(kind)]),
            told(lambda other=other: delattr(other, "one")),
        ]
    return found


@pytest.mark.parametrize("flags", list(product([True, False], repeat=4)))
def test_data_classes_are_as_those_of_the_standard_library(
    flags: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(zip(("eq", "repr", "frozen", "slots"), flags, strict=True))
    options = ", ".join(f"{name}={value}" for name, value in given.items())

    expected = said(made_by(dataclasses.dataclass, options, "made_for_a_test", monkeypatch))
    found = said(made_by(made_once.dataclass, options, "made_for_a_test", monkeypatch))

    addresses = r" at 0x[0-9a-f]+"
    assert re.sub(addresses, "", repr(expected)) == re.sub(addresses, "", repr(found))


def test_a_class_of_others_may_have_one_of_the_product_for_its_base() -> None:
    @made_once.dataclass(frozen=True)
    class Base:
        one: int

    @dataclasses.dataclass(frozen=True)
    class Derived(Base):
        two: int

    assert Derived(1, 2) == dataclasses.replace(Derived(1, 3), two=2)
    with pytest.raises(TypeError, match="frozen"):
        made_once.dataclass(type("Other", (Base,), {}))


def test_classes_of_one_base_are_made_beside_each_other() -> None:
    """As threads do that import modules when they need them."""

    @made_once.dataclass(frozen=True)
    class Base:
        one: int

    answers: list[object] = []

    class Meeting(type):
        def __setattr__(cls, name: str, value: object) -> None:  # in the middle of what the standard library does
            if name == "__dataclass_fields__" and not answers:
                answers.append("begun")
                other = Thread(target=lambda: answers.append(make("Other", type)))
                other.start()
                other.join()
            super().__setattr__(name, value)

    def make(name: str, kind: type) -> object:
        return told(lambda: made_once.dataclass(kind(name, (Base,), {}), frozen=True).__name__)

    assert ("Meets", ["begun", "Other"]) == (make("Meets", Meeting), answers)
    assert "FrozenInstanceError" in repr(told(lambda: setattr(Base(1), "one", 2)))
    assert Base.__dataclass_params__.frozen  # type: ignore[attr-defined]
