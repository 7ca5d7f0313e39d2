"""Attributes and patterns that are made when they are first used, and modules that libraries import only then: a
command uses few of those that it loads. Named tuples and data classes that are made fast. Digests of small data for
which OpenSSL is not loaded.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from threading import active_count, local
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, cast

# -- attributes that are computed on first use, without a lock ---------------------------------------------------------

if TYPE_CHECKING:
    import functools

    cached_property = functools.cached_property
else:

    class cached_property:  # noqa: N801  (as in `functools`)
        """Computes an attribute on first use and stores it in the instance, as that of the standard library does.

        That of Python 3.11 holds one lock per class meanwhile, so that two tables wait for each other while the store
        of one answers. Here threads that come at once compute the attribute each, and all get the value stored first.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self._name not in values:
                values.setdefault(self._name, self._compute(instance))
            return values[self._name]


# -- regular expressions that are compiled when they are first used ----------------------------------------------------


class _Pattern:
    """Stands for a pattern. What is used of it becomes an attribute, so further calls cost what they usually do."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:  # Any: a method or an attribute of a pattern
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


# -- named tuples, whose `__new__` is not compiled for each class ------------------------------------------------------

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  (not private here)
else:
    from collections import _tuplegetter

    class _NamedTuples(type):
        """Makes classes as `typing.NamedTuple` does, in a tenth of the time: 10 µs. A start makes a hundred."""

        def __new__(cls, name: str, bases: tuple[type, ...], given: Mapping[str, Any]) -> type:
            names = tuple(given.get("__annotations__", ()))
            defaults = {one: given[one] for one in names if one in given}
            if (*defaults,) != names[len(names) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one with a default")
            template = _creating(len(names))
            named = template.__code__.replace(co_varnames=("_cls", *names))
            create = FunctionType(named, template.__globals__, "__new__", tuple(defaults.values()))
            create.__qualname__, create.__annotations__ = f"{name}.__new__", given.get("__annotations__", {})
            fields = {"__new__": create, "_fields": names, "_field_defaults": defaults, "__match_args__": names}
            getters = {one: _tuplegetter(index, None) for index, one in enumerate(names)}
            above = tuple(tuple if one is NamedTuple else one for one in bases)
            return type(name, above, {"__slots__": (), **_OF_ALL, **given, **fields, **getters})

    _templates: dict[int, FunctionType] = {}

    def _creating(count: int) -> FunctionType:
        """Return `__new__` of so many fields, which get their names for each class."""
        if count not in _templates:
            names = "".join(f"_{index}, " for index in range(count))
            _templates[count] = eval(f"lambda _cls, {names}: _new(_cls, ({names}))", {"_new": tuple.__new__})
        return _templates[count]

    def _make(cls: Any, values: Iterable[Any]) -> Any:
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self: Any, /, **changed: Any) -> Any:
        made = self._make(map(changed.pop, self._fields, self))
        if changed:
            raise ValueError(f"Got unexpected field names: {[*changed]!r}")
        return made

    def _values(self: Any) -> tuple[Any, ...]:
        return tuple(self)

    def _repr(self: Any) -> str:
        shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    _OF_ALL = {
        "_make": classmethod(_make),
        "_replace": _replace,
        "_asdict": lambda self: dict(zip(self._fields, self, strict=True)),
        "__repr__": _repr,
        "__getnewargs__": _values,
    }
    NamedTuple = type.__new__(_NamedTuples, "NamedTuple", (), {"__doc__": "The base of a named tuple."})


# -- data classes, of which `__init__` alone is compiled ---------------------------------------------------------------

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  (not private here)
else:
    from operator import attrgetter

    def dataclass(cls: Any = None, /, **how: bool) -> Any:
        """Make a class as `dataclasses.dataclass` does, in a fifth of the time: 100 µs. A start makes dozens."""
        return _data_class(cls, **how) if cls is not None else lambda one: _data_class(one, **how)

    def _data_class(cls: Any, *, eq: bool = True, repr: bool = True, frozen: bool = False, **how: bool) -> Any:
        import dataclasses  # `__main__` imports it first, without what it rarely uses

        own = {*vars(cls)}
        if "__eq__" in own and vars(cls)["__hash__"] is None:
            own.remove("__hash__")  # which Python has set
        cls.__doc__ = cls.__doc__ or cls.__name__  # else `inspect` is imported, for a signature
        bases = [base for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)]
        if any(base.__dataclass_params__.frozen != frozen for base in bases):
            raise TypeError(f"{cls.__name__}: a class and its base are frozen, or none")
        _making.is_on = True
        try:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, **how)(cls)
        finally:
            _making.is_on = False
        made.__dataclass_params__ = _Parameters(made.__dataclass_params__, is_frozen=frozen)
        fields, has_slots = dataclasses.fields(made), how.get("slots", False)
        methods: dict[str, Any] = {"__init__": _initial(made, fields, frozen=frozen, has_slots=has_slots)}
        if repr:
            methods["__repr__"] = _shown([one.name for one in fields if one.repr])
        if eq:
            methods |= _compared(fields, is_hashed=frozen)
        if frozen:
            methods |= _frozen(made, [one.name for one in fields], has_slots=has_slots)
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    _making = local()

    class _Parameters:
        """Those of a class. To a thread that makes a class no base is frozen: the standard library would refuse it."""

        def __init__(self, found: Any, *, is_frozen: bool) -> None:
            self._found, self._is_frozen = found, is_frozen

        def __getattr__(self, name: str) -> Any:
            return getattr(self._found, name)

        @property
        def frozen(self) -> bool:
            return self._is_frozen and not getattr(_making, "is_on", False)

    class _Factory:
        def __repr__(self) -> str:
            return "<factory>"

    _BY_FACTORY = _Factory()

    def _initial(made: type, fields: Sequence[Any], *, frozen: bool, has_slots: bool) -> FunctionType:
        from dataclasses import MISSING

        known = {"_set_": object.__setattr__, "_by_factory_": _BY_FACTORY}
        by_place, by_name, lines = ["self"], [], []
        for one in fields:
            name = value = one.name
            given, is_made = f"_of_{name}_", one.default_factory is not MISSING
            if is_made or one.default is not MISSING:
                known[given] = one.default_factory if is_made else one.default
            if one.init:
                default = "=_by_factory_" if is_made else f"={given}" if given in known else ""
                (by_name if one.kw_only else by_place).append(name + default)
                if is_made:
                    value = f"{given}() if {name} is _by_factory_ else {name}"
            elif is_made or (has_slots and given in known):
                value = f"{given}()" if is_made else given
            else:
                continue
            lines.append(f" _set_(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        if hasattr(made, "__post_init__"):
            lines.append(" self.__post_init__()")
        parameters = ", ".join([*by_place, *(["*", *by_name] if by_name else [])])
        exec("\n".join((f"def __init__({parameters}):", *(lines or [" pass"]))), known)
        function = known["__init__"]
        function.__qualname__ = f"{made.__qualname__}.__init__"
        function.__annotations__ = {one.name: one.type for one in fields if one.init} | {"return": None}
        return function

    def _shown(names: Sequence[str]) -> Callable[[Any], str]:
        def show(self: Any) -> str:
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return show

    def _compared(fields: Sequence[Any], *, is_hashed: bool) -> dict[str, Any]:
        compared = attrgetter("__class__", *(one.name for one in fields if one.compare))
        hashed = (one.name for one in fields if (one.compare if one.hash is None else one.hash))
        hashed = attrgetter("__class__", *hashed)

        def is_equal(self: Any, other: object) -> bool:
            return compared(self) == compared(other) if type(self) is type(other) else NotImplemented

        def hash_of(self: Any) -> int:
            return hash(hashed(self))

        return {"__eq__": is_equal, "__hash__": hash_of if is_hashed else None}

    def _frozen(made: type, names: Sequence[str], *, has_slots: bool) -> dict[str, Any]:
        import dataclasses

        def refuse(self: Any, what: str, name: str) -> None:
            if type(self) is made or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

        def not_set(self: Any, name: str, value: object) -> None:
            refuse(self, "assign to", name)
            super(made, self).__setattr__(name, value)

        def not_deleted(self: Any, name: str) -> None:
            refuse(self, "delete", name)
            super(made, self).__delattr__(name)

        def state(self: Any) -> list[Any]:
            return [getattr(self, one.name) for one in dataclasses.fields(self)]  # also those of a derived class

        def set_state(self: Any, state: Sequence[Any]) -> None:
            for one, value in zip(dataclasses.fields(self), state, strict=True):
                object.__setattr__(self, one.name, value)

        methods = {"__setattr__": not_set, "__delattr__": not_deleted}
        return methods | {"__getstate__": state, "__setstate__": set_state} if has_slots else methods


# -- modules that libraries import for few programs --------------------------------------------------------------------

_LEFT_OUT = ("cloudpickle", "numpy", "dateutil", "pytz")


def skip_optional_packages() -> None:
    """Keep pyarrow from searching for optional packages. For the command line, not for the library.

    pyarrow searches for them whenever it converts Python values to an array or a scalar, and repeats the search on each
    call if they are missing: 100 µs per call instead of 24 µs. If numpy and pandas are installed, importing them would
    take longer than the command. It prefers cloudpickle to pickle, of whose stand-in older versions read constants.
    """
    for name in _LEFT_OUT:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None makes the import fail at once
    sys.meta_path[:0] = (_NoPandas, _LightPyarrow)


def allow_optional_packages(*names: str) -> None:
    """Undo `skip_optional_packages` for some packages, or for all, for a library that needs them."""
    for name in names or _LEFT_OUT:
        if sys.modules.get(name, True) is None:
            del sys.modules[name]
    if not names and _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """Import finder that makes the import of pandas fail.

    A None in `sys.modules` does not work: pyarrow treats it as the pandas module when it converts the first timestamp
    with a time zone.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


class _LightPyarrow:
    """Import finder that lets pyarrow and its functions import `platform`, `socket`, `inspect` and `pickle`, which they
    need for reports, for Flight, for signatures and for other processes, when they use them: 10 ms of a short command.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        if name != "pyarrow":
            return None
        sys.meta_path.remove(_LightPyarrow)
        found = PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return found
        execute = found.loader.exec_module

        def execute_lightly(module: ModuleType) -> None:
            with imported_when_used("inspect", "pickle", "platform", "socket"):
                execute(module)
                with suppress(ImportError):
                    import_module("pyarrow._compute")

        found.loader.exec_module = execute_lightly  # type: ignore[method-assign]  # of this loader
        return found


@contextmanager
def imported_when_used(*names: str) -> Iterator[None]:
    """Let modules that are imported meanwhile import some others only when they use them. Not beside other threads,
    which could import something that needs them meanwhile.

    What they take from them by name meanwhile can only be called.
    """
    later = [ImportedWhenUsed(name) for name in names if name not in sys.modules and active_count() == 1]
    sys.modules.update({module.__name__: module for module in later})
    try:
        yield
    finally:
        for module in later:
            module.is_needed = True
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]


class ImportedWhenUsed(ModuleType):
    """The stand-in for a module."""

    is_needed = False

    def __getattr__(self, name: str) -> Any:  # Any: whatever a module has
        if self.is_needed:
            return getattr(import_module(self.__name__), name)
        if name.startswith("__"):
            raise AttributeError(name)
        if (self.__name__, name) == ("platform", "system"):  # asked for by `uuid` while it is imported
            return lambda: os.uname().sysname

        def call(*arguments: object, **settings: object) -> object:
            if sys.modules.get(self.__name__) is self:  # called while the other module is imported
                del sys.modules[self.__name__]
            found: object = getattr(import_module(self.__name__), name)(*arguments, **settings)
            return found

        return call


# -- digests of small data, for which OpenSSL is not loaded ------------------------------------------------------------


def new_digest(name: str, data: bytes = b"") -> Any:  # Any: an object of hashlib
    """Return a digest of the interpreter itself where it has one, as `md5`: loading OpenSSL takes longer than the data.
    It is no protection against who chooses the data.
    """
    try:
        return getattr(import_module(f"_{name}"), name)(data, usedforsecurity=False)
    except ImportError:
        return getattr(import_module("hashlib"), name)(data, usedforsecurity=False)
