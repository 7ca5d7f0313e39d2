"""No argument of a method raises anything but an error of deltacli, or makes a table that others cannot open."""

from __future__ import annotations

import inspect
import os
import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import deltacli
from deltacli.core.errors import EXIT_BUG, DeltacliError
from deltacli.table.api_arguments import ARGUMENT_KINDS
from tests.hostile.inputs import LONGEST, VALUES, Place, faults_of
from tests.support.effort import is_soaking

EACH = 3
TEXTS = {name: text for name, text in VALUES.items() if name not in LONGEST}
NUMBERS = {
    name: int(number)
    for name, number in {
        "2^31": 2**31, "2^53+1": 2**53 + 1, "2^63-1": 2**63 - 1, "2^63": 2**63, "10^30": 10**30, "0": 0, "-1": -1,
        "-2^63-1": -(2**63) - 1, "5000 digits": 10**4999,
    }.items()
}  # fmt: skip
SHARES = {"NaN": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "1e300": 1e300}
TIMES = {
    "the last": datetime.max.replace(tzinfo=UTC),
    "the last in the west": datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))),
    "the first in the east": datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
    "the last day": date.max,
    "the first day": date.min,
}
SPANS = {"the longest": timedelta.max, "the shortest": timedelta.min}

GIVEN: Mapping[str, Any] = {  # Any: arguments
    "values": {"owner": "ops"},
    "keys": ["owner"],
    "name": "deletionVectors",
    "names": ("deletionVectors",),
    "destination": "copy",
    "source": "backup",
    "target": "made",
    "first": 11,
    "last": 14,
    "from_version": 1,
    "older_ms": 0,
    "quarantine": "kept",
    "version": 8,
    "changes": [{"change": "rename", "column": "trip", "name": "id"}],
}
"""What a method needs besides the argument that is tried."""


class Call(NamedTuple):
    """A parameter of a method, and how to get what has the method."""

    owner: str
    method: str
    parameter: inspect.Parameter
    others: tuple[inspect.Parameter, ...]

    def __str__(self) -> str:
        return f"{self.owner}.{self.method}({self.parameter.name})"

    def make(self, value: object) -> object:
        """Call the method with the value, and take what it returns."""
        given = {one.name: GIVEN[one.name] for one in self.others if one.name in GIVEN and _is_needed(one)}
        given[self.parameter.name] = value
        several = [one.name for one in self.others if one.kind is inspect.Parameter.VAR_POSITIONAL]
        words = [word for name in several for word in given.pop(name, [("ride.fare", "decimal(20,2)")])]
        found = getattr(OWNERS[self.owner](), self.method)(*words, **given)
        return [*zip(range(3), found, strict=False)] if isinstance(found, Iterable) else found


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_POSITIONAL


OWNERS: Mapping[str, Callable[[], object]] = {
    "Table": lambda: deltacli.open_table("tbl"),
    "Snapshot": lambda: deltacli.open_table("tbl").snapshot(),
    "Paimon": lambda: deltacli.open_paimon("paimon"),
}
CLASSES = {"Table": deltacli.Table, "Snapshot": deltacli.Snapshot, "Paimon": deltacli.Paimon}


def calls() -> Iterator[Call]:
    """Yield every parameter of every public method."""
    for owner, kind in CLASSES.items():
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith(("_", "prepare_")):  # those take what the others have checked
                parameters = tuple(inspect.signature(function).parameters.values())[1:]
                if all(one.name != "plan" for one in parameters):  # their arguments are those of a method without one
                    yield from (Call(owner, method, one, parameters) for one in parameters if any(_values_of(one)))


def _values_of(parameter: inspect.Parameter) -> Iterator[tuple[str, object]]:
    wanted = str(parameter.annotation)
    words = re.findall(r"\w+", wanted.replace("PathLike[str]", ""))
    if "datetime" in wanted:
        yield from TIMES.items()
    if "timedelta" in wanted:
        yield from SPANS.items()
    if "float" in wanted:
        yield from SHARES.items()
    if "Change" in wanted:
        for name, text in TEXTS.items():
            yield f"{name} as a name", [{"change": "rename", "column": "trip", "name": text}]
            yield f"{name} as a comment", [{"change": "comment", "column": "trip", "comment": text}]
            yield f"{name} as a new column", [{"change": "add", "column": text, "type": "int"}]
            yield f"{name} as a type", [{"change": "add", "column": "tax", "type": text}]
            yield f"{name} as a comment of the table", [{"change": "table-comment", "comment": text}]
            yield f"{name} as a change", [{"change": text, "column": "trip"}]
    elif "Mapping[str, str]" in wanted:
        yield from ((name, {"k": text}) for name, text in TEXTS.items())
        yield from ((f"{name} as a key", {text: "v"}) for name, text in TEXTS.items())
    elif "tuple[str, str]" in wanted:
        yield from ((name, [(text, "int")]) for name, text in TEXTS.items())
        yield from ((f"{name} as a type", [("trip", text)]) for name, text in TEXTS.items())
    elif re.search(r"(Sequence|Iterable|list)\[str\]", wanted) or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        yield from ((name, [text]) for name, text in TEXTS.items())
    elif "str" in words:
        yield from TEXTS.items()
    if "[int]" in wanted:
        yield from ((name, [number]) for name, number in NUMBERS.items())
    elif {"int", "float"} & {*words}:
        yield from NUMBERS.items()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    before = Path.cwd()
    made = Place(tmp_path_factory.mktemp("inputs"))
    os.chdir(made.root)
    yield made
    os.chdir(before)


@pytest.mark.parametrize("owner", OWNERS)
def test_no_argument_of_a_method_is_a_bug(owner: str, place: Place) -> None:
    wrong = []
    for call in calls():
        if call.owner != owner:
            continue
        values = [*_values_of(call.parameter)]
        if not is_soaking():
            values = random.Random(zlib.crc32(str(call).encode())).sample(values, min(EACH, len(values)))
        wrong += [f"{call}, {name}: {fault}" for name, value in values for fault in tried(call, value, place)]

    assert "" == "\n".join(wrong)


def tried(call: Call, value: object, place: Place) -> Iterator[str]:
    """Call a method, and yield what is wrong afterwards."""
    try:
        call.make(value)
    except DeltacliError as fault:
        if fault.exit_code == EXIT_BUG:
            yield repr(fault)
    except Exception as fault:  # noqa: BLE001  (the sentence that this test proves)
        yield repr(fault)[:300]
    if place.changed():
        yield from faults_of(place.root / "tbl")
        place.again()
        os.chdir(place.root)


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_below_the_least_of_its_field_is_refused(threads: int, place: Place) -> None:
    with pytest.raises(deltacli.UsageError, match=f"threads is {threads}"):
        deltacli.open_table("tbl").vacuum(threads=threads)


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(deltacli.UsageError) as refused:
        deltacli.open_table(path)

    assert "text.not-unicode" == refused.value.code


@pytest.mark.parametrize("owner", CLASSES)
def test_no_annotation_loses_its_check_by_its_spelling(owner: str) -> None:
    """
    What is checked is found by the text of an annotation: `Change` is, `requests.Change` would not be.
    """
    texts = {
        str(parameter.annotation).removesuffix(" | None")
        for name, method in inspect.getmembers(CLASSES[owner], callable)
        if not name.startswith("_")
        for parameter in inspect.signature(method).parameters.values()
    }

    spelled = {text: re.sub(r"\w+\.", "", text) for text in texts - ARGUMENT_KINDS.keys()}
    assert {} == {text: other for text, other in spelled.items() if other in ARGUMENT_KINDS}
    assert texts & ARGUMENT_KINDS.keys()
