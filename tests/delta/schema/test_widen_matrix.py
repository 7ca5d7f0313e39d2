"""Every type and every other, in every place: what may be widened, and the schema that is written then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.core.errors import UsageError
from deltacli.delta.schema.widening import WideningPlan
from tests.support.widening import ENABLED, WIDENING, Json, array, compact, field, map_of, planned, protocol, struct

OTHERS = ("string", "binary", "boolean", "timestamp", "variant", "void", "interval day to second")
"""Types that nothing becomes and that become nothing."""
_TEN = "11,1 12,2 19,0 20,0 20,2 21,1 22,2 37,0 38,0 38,18 38,19 38,28"
ALLOWED = {
    "byte": f"short integer long double 10,0 {_TEN}",
    "short": f"integer long double 10,0 {_TEN}",
    "integer": f"long double 10,0 {_TEN}",
    "long": "20,0 21,1 22,2 37,0 38,0 38,18",
    "float": "double",
    "double": "",
    "date": "timestamp_ntz",
    "timestamp_ntz": "",
    "3,0": f"5,0 9,0 10,0 10,2 {_TEN} 38,29",
    "5,0": f"9,0 10,0 10,2 {_TEN} 38,29",
    "9,0": f"10,0 {_TEN} 38,29",
    "10,0": _TEN,
    "10,2": "12,2 20,2 22,2 38,18 38,19 38,28 38,29",
    "11,1": "12,2 20,2 21,1 22,2 38,18 38,19 38,28",
    "12,2": "20,2 22,2 38,18 38,19 38,28",
    "19,0": "20,0 21,1 22,2 37,0 38,0 38,18 38,19",
    "20,0": "21,1 22,2 37,0 38,0 38,18",
    "20,2": "22,2 38,18 38,19",
    "21,1": "22,2 38,18",
    "22,2": "38,18",
    "37,0": "38,0",
    "38,0": "",
    "38,18": "",
    "38,19": "",
    "38,28": "",
    "38,29": "",
    "38,38": "",
}
ICEBERG = {
    "byte": "short integer long",
    "short": "integer long",
    "integer": "long",
    "float": "double",
    "3,0": "5,0 9,0 10,0 19,0 20,0 37,0 38,0",
    "5,0": "9,0 10,0 19,0 20,0 37,0 38,0",
    "9,0": "10,0 19,0 20,0 37,0 38,0",
    "10,0": "19,0 20,0 37,0 38,0",
    "10,2": "12,2 20,2 22,2",
    "11,1": "21,1",
    "12,2": "20,2 22,2",
    "19,0": "20,0 37,0 38,0",
    "20,0": "37,0 38,0",
    "20,2": "22,2",
    "37,0": "38,0",
}

Shape = Callable[[str, dict[str, Any]], tuple[Json, dict[str, Any]]]  # Any: JSON values
"""Makes a column's type and metadata from a primitive type and the metadata of the field nearest to it."""


def _inner(name: str, metadata: dict[str, Any]) -> Json:
    return struct(field("y", "string"), field("x", name, **metadata))


PLACES: dict[str, tuple[str, str | None, Shape]] = {
    "top level": ("", None, lambda name, own: (name, own)),
    "field": (".x", None, lambda name, own: (_inner(name, own), {})),
    "element": (".element", "element", lambda name, own: (array(name), own)),
    "key": (".key", "key", lambda name, own: (map_of(name, "long"), own)),
    "value": (".value", "value", lambda name, own: (map_of("long", name), own)),
    "element of element": (".element.element", "element.element", lambda name, own: (array(array(name)), own)),
    "key within": (
        ".value.element.key",
        "value.element.key",
        lambda name, own: (map_of("date", array(map_of(name, "byte"))), own),
    ),
    "value within": (".element.value", "element.value", lambda name, own: (array(map_of("string", name)), own)),
    "field of element": (".element.x", None, lambda name, own: (array(_inner(name, own)), {})),
    "field of key": (".key.x", None, lambda name, own: (map_of(_inner(name, own), "byte"), {})),
    "array in a field of a value": (
        ".value.xs.element",
        "element",
        lambda name, own: (map_of("byte", struct(field("xs", array(name), **own))), {}),
    ),
}


def _name(short: str) -> str:
    return f"decimal({short})" if "," in short else short


TARGETS = [_name(short) for short in ALLOWED]
TYPES = [*TARGETS, *OTHERS]


def _table(shape: Shape, changed_to: dict[str, tuple[str, str | None]], *, mapped: bool) -> list[Json]:
    """A column of every type; `changed_to`: type -> what it has become, with the path of its history."""
    found = []
    for number, name in enumerate(TYPES):
        own: dict[str, Any] = {"comment": "kept"}
        ids = {"delta.columnMapping.id": number + 1, "delta.columnMapping.physicalName": f"col-{number}"}
        now, path = changed_to.get(name, (name, None))
        if mapped:
            own |= ids
        if now != name:
            entry = {"fromType": name, "toType": now} | ({"fieldPath": path} if path else {})
            own |= {"delta.typeChanges": [entry]}
        data_type, metadata = shape(now, own)
        found.append(field(f"c{number}", data_type, **metadata))
    return found


@pytest.mark.parametrize("iceberg", [None, "icebergCompatV1", "icebergCompatV2", "icebergCompatV3"])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_every_type_to_every_other(place: str, mapped: bool, iceberg: str | None) -> None:
    suffix, path, shape = PLACES[place]
    allowed = {
        (_name(one), _name(other))
        for one, others in (ICEBERG if iceberg else ALLOWED).items()
        for other in others.split()
    }
    fields = _table(shape, {}, mapped=mapped)
    mode = {"delta.columnMapping.mode": "name"} if mapped else {}

    def plan(to_type: str, names: list[str]) -> WideningPlan:
        features = (*WIDENING, *(["columnMapping"] if mapped else []), *([iceberg] if iceberg else []))
        changes = [(f"c{TYPES.index(name)}{suffix}", to_type) for name in names]
        return planned(fields, *changes, protocol_action=protocol(*features), configuration=ENABLED | mode)

    for to_type in TARGETS:
        everything = plan(to_type, TYPES)
        wide = [name for name in TYPES if (name, to_type) in allowed]

        assert [change.from_type for change in everything.changes if change.is_due and change.is_allowed] == wide
        assert [change.from_type for change in everything.changes if not change.is_due] == [to_type]
        if wide:
            written = plan(to_type, wide).metadata_after
            expected = _table(shape, dict.fromkeys(wide, (to_type, path)), mapped=mapped)
            assert written is not None
            assert compact(struct(*expected)) == written["schemaString"]


@pytest.mark.parametrize("to_type", OTHERS)
def test_other_types_are_not_targets(to_type: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        planned([field("a", "integer")], ("a", to_type))
