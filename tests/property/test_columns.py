"""Functions of columns equal their scalar twins, whatever is in the column and wherever it begins."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltacli.delta.data_files import unique_id, unique_id_column
from deltacli.delta.encoding.value_text import json_column, json_lines
from deltacli.delta.log.file_actions import (
    SupersededFiles,
    compute_file_key,
    compute_file_keys,
    extract_num_records_column,
    parse_num_records,
)
from deltacli.delta.paths.spelling import canonicalize_path, decode, without_dots
from deltacli.delta.paths.spelling_columns import canonicalize_paths, decode_column, without_dots_column
from tests.support import strategies as some
from tests.support.effort import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PIECES = st.sampled_from(
    [
        "%",
        "%2",
        "%25",
        "%41",
        "%2F",
        "%c3%a9",
        "%FF",
        "3",
        "5",
        "A",
        "/",
        "//",
        ".",
        "./",
        "..",
        ":",
        "file:",
        "s3a://b/",
        "+",
        "é",
        "😀",
        "a b",
        "\u2028",
    ]
)
ODD_PATHS = st.lists(PIECES, max_size=6).map("".join)
PATHS = st.one_of(ODD_PATHS, some.paths(), TEXT.filter(lambda text: "\0" not in text))  # no system has NUL in names


def sliced(values: list[Any], kind: Any) -> list[Any]:  # Any: pyarrow has no types
    """The column of `values` as it is, and as a slice out of a longer one: readers of buffers must mind the offset."""
    pad = [*values[-1:], *values, *values[:1]]
    lead = len(values[-1:])
    return [pa.array(values, kind), pa.array(pad, kind).slice(lead, len(values))]


@given(st.lists(PATHS, max_size=8))
@example(["%%325", "%25"])
@examples(150)
def test_decode_column_equals_decode(paths: list[str]) -> None:
    expected = [decode(path).encode("utf-8", "surrogateescape") for path in paths]

    for column in sliced(paths, pa.string()):
        assert expected == decode_column(column).to_pylist()


@given(st.lists(PATHS, max_size=8))
@example(["%%325", "%25"])
@examples(150)
def test_canonical_column_equals_canonical(paths: list[str]) -> None:
    expected = [canonicalize_path(path).encode("utf-8", "surrogateescape") for path in paths]

    for column in sliced(paths, pa.string()):
        assert expected == canonicalize_paths(column).to_pylist()


@given(
    st.lists(
        PATHS | st.sampled_from(["./a", "x/../a", "x/..", "..", "../a", "a/./b", ".a", "a..", "x/.b/.."]), max_size=8
    )
)
@examples(75)
def test_dots_in_a_column_are_those_of_each_path(paths: list[str]) -> None:
    resolved = [without_dots(path).encode("utf-8", "surrogateescape") for path in paths]
    names = [path.encode("utf-8", "surrogateescape") for path in paths]

    for column in sliced(names, pa.binary()):
        assert resolved == without_dots_column(column).to_pylist()
    assert [without_dots(without_dots(path)) for path in paths] == [without_dots(path) for path in paths]
    assert ["a", "a", "", "..", "../a", "a/b", ".a", "a..", "x"] == [
        without_dots(path) for path in ("./a", "x/../a", "x/..", "..", "../a", "a/./b", ".a", "a..", "x/.b/..")
    ]


@given(st.sampled_from(some.FILES), st.sampled_from(some.FILES), st.data())
@examples(100)
def test_canonical_paths_distinguish_files_and_unite_spellings(first: str, second: str, data: st.DataObject) -> None:
    spelled = [
        canonicalize_path(data.draw(some.spellings(first))),
        canonicalize_path(data.draw(some.spellings(second))),
    ]
    absolute = [canonicalize_path(data.draw(some.absolute_spellings(name))) for name in (first, second)]

    assert [first, second] == spelled
    assert [f"/data/{first}", f"/data/{second}"] == absolute


def file_actions() -> st.SearchStrategy[dict[str, Any]]:
    """Adds and removes of spelled files, with vectors or not, without their kind."""
    return st.one_of(some.adds(), some.removes(), some.adds(PATHS)).map(lambda line: next(iter(line.values())))


@given(st.lists(file_actions(), max_size=8))
@example([{"path": "a./"}, {"path": "./a/"}])
@examples(75)
def test_key_column_equals_file_key(actions: list[dict[str, Any]]) -> None:
    expected = [compute_file_key(action).encode("utf-8", "surrogateescape") for action in actions]
    ids = pa.array([unique_id(action.get("deletionVector")) for action in actions], pa.string())

    for paths in sliced([action["path"] for action in actions], pa.string()):
        assert expected == compute_file_keys(paths, ids).to_pylist()


@given(st.lists(file_actions(), max_size=6), st.lists(file_actions(), max_size=8))
@example([{"path": "a/"}], [{"path": "a"}, {"path": "b"}])
@example([{"path": ""}], [{"path": "a"}, {"path": ""}])
@examples(100)
def test_touched_files_are_those_whose_key_was_seen(seen: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    keys = {compute_file_key(action) for action in seen}
    expected = [compute_file_key(action) not in keys for action in rows]
    ids = pa.array([unique_id(action.get("deletionVector")) for action in rows], pa.string())

    for paths in sliced([action["path"] for action in rows], pa.string()):
        kept = SupersededFiles(keys).find_current_rows(paths, ids)

        assert expected == ([True] * len(rows) if kept is None else kept.to_pylist())


NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.none(), st.booleans(), TEXT, st.just([]))
STATISTICS = st.one_of(
    st.builds(
        lambda number, rest, pretty: json.dumps(
            {"numRecords": number, **rest}, separators=None if pretty else (",", ":")
        ),
        NUMBERS,
        st.dictionaries(TEXT, NUMBERS, max_size=2),
        st.booleans(),
    ),
    st.builds(
        lambda number, rest: json.dumps({**rest, "numRecords": number}),
        NUMBERS,
        st.dictionaries(TEXT, NUMBERS, max_size=2),
    ),
    some.json_texts(),
    st.sampled_from([text for text in some.STATISTICS if text is not None]),
    st.sampled_from(
        [
            '{"numRecords":9223372036854775807}',
            '{"numRecords":9223372036854775808}',
            '{"numRecords":9999999999999999999}',
            '{"numRecords":99999999999999999999999}',
            '{"numRecords":-1}',
            '{"numRecords": 1,"numRecords":2}',
            '{"numRecords":NaN}',
            '{"numRecords":1,"x":NaN}',
            '{"numRecords":1e3}',
            '{"numRecords":1.0}',
            '{"numRecords":1,"\\ud800":0}',
            '{"a":{"numRecords":4}}',
            '[{"numRecords":4}]',
            " ",
            "{}{}",
            '{"numRecords":5}\n',
        ]
    ),
)
BROKEN_STATISTICS = st.one_of(
    st.builds(lambda text, cut: text[:cut], STATISTICS, st.integers(0, 30)),
    st.builds(
        lambda text, at, junk: text[:at] + junk + text[at:],
        STATISTICS,
        st.integers(0, 30),
        st.sampled_from(["}", "{", ",", '"', " ", "0", "\n", "\t", "\\"]),
    ),
    TEXT,
).filter(lambda text: not re.match(r'\{"numRecords":[0-9]+\}.', text, re.DOTALL))


def records_of(text: str | None) -> int | None:
    """What the column must say: by the digits alone where a text begins as every writer begins it, else parsed."""
    if text is None:
        return None
    plain = re.match(r'\{"numRecords":(0|[1-9][0-9]{0,17})[,}]', text) if text.endswith("}") else None
    return int(plain[1]) if plain else parse_num_records(text)


@given(st.lists(STATISTICS | st.none(), max_size=6))
@example(["null"])
@example(['{"numRecords": 1,"numRecords":2}'])
@examples(150)
def test_num_records_column_equals_parse_num_records(texts: list[str | None]) -> None:
    expected = [records_of(text) for text in texts]

    for column in sliced(texts, pa.string()):
        assert expected == extract_num_records_column(column).to_pylist()


@given(st.lists(STATISTICS | BROKEN_STATISTICS | st.none(), max_size=6))
@example(["{", '}{"numRecords":0,"x":1}'])
@example(['{"x":[', '{}]}{"numRecords":0,"x":1}'])
@examples(150)
def test_num_records_column_of_broken_text_equals_parse_num_records(texts: list[str | None]) -> None:
    expected = [records_of(text) for text in texts]

    for column in sliced(texts, pa.string()):
        assert expected == extract_num_records_column(column).to_pylist()


VECTOR_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


@given(st.lists(some.vectors(), max_size=8), st.booleans())
@examples(75)
def test_unique_id_column_equals_unique_id(vectors: list[dict[str, Any] | None], large_text: bool) -> None:
    expected = [unique_id(vector) for vector in vectors]
    kind = pa.struct(
        [
            (field.name, pa.large_string()) if large_text and pa.types.is_string(field.type) else field
            for field in VECTOR_TYPE
        ]
    )

    for column in sliced(vectors, kind):
        assert expected == unique_id_column(column).to_pylist()


def test_unique_id_column_does_without_an_offset_field() -> None:
    kind = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string())])
    column = pa.array([None, {"storageType": "u", "pathOrInlineDv": "x"}], kind)

    assert ["", "ux"] == unique_id_column(column).to_pylist()


Column = tuple[Any, list[Any], Callable[[Any], object]]
"""An Arrow type, values of it, and what JSON makes of one that is not null."""


class _Float(float):
    """Equal to any number that reads back as the same float: `1`, `1.0`, `Decimal("1e0")`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | Decimal | float) and float(other) == float(self)

    __hash__ = float.__hash__


def _exact(value: object) -> object:
    return value


def _float(value: float) -> object:
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else _Float(value)


LEAVES: list[tuple[Any, st.SearchStrategy[Any], Callable[[Any], object]]] = [
    (pa.string(), TEXT | st.sampled_from(['"', "\\", "\x00\x1f", "\x7f\u2028", 'a"b\\c\n']), _exact),
    (pa.large_string(), TEXT, _exact),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), _exact),
    (pa.int8(), st.integers(-128, 127), _exact),
    (pa.bool_(), st.booleans(), _exact),
    (pa.float64(), st.floats(), _float),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3), Decimal),
    (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31)), lambda value: value.isoformat()),
]


@st.composite
def columns(draw: st.DrawFn, *, depth: int = 2) -> Column:
    """A column of any type that statistics have: leaves, structs, maps, lists, nested."""
    count = draw(st.integers(0, 4))
    kind, values, meaning = draw(st.sampled_from(LEAVES)) if depth == 0 or draw(st.booleans()) else draw(_nested(depth))
    return kind, draw(st.lists(st.none() | values, min_size=count, max_size=count)), meaning


@st.composite
def _nested(draw: st.DrawFn, depth: int) -> tuple[Any, st.SearchStrategy[Any], Callable[[Any], object]]:
    def inner() -> tuple[Any, st.SearchStrategy[Any], Callable[[Any], object]]:
        found: tuple[Any, st.SearchStrategy[Any], Callable[[Any], object]]
        found = draw(st.sampled_from(LEAVES)) if depth <= 1 or draw(st.booleans()) else draw(_nested(depth - 1))
        return found

    match draw(st.sampled_from(["struct", "struct", "map", "list"])):
        case "struct":
            names = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
            parts = {name: inner() for name in names}
            return (
                pa.struct([(name, part[0]) for name, part in parts.items()]),
                st.fixed_dictionaries({name: st.none() | part[1] for name, part in parts.items()}),
                lambda row: {name: parts[name][2](item) for name, item in row.items() if item is not None},
            )
        case "map":
            kind, values, meaning = inner()
            return (
                pa.map_(pa.string(), kind),
                st.dictionaries(TEXT, st.none() | values, max_size=2).map(lambda found: list(found.items())),
                lambda row: {key: None if item is None else meaning(item) for key, item in row},
            )
        case _:
            kind, values, meaning = inner()
            return (
                pa.list_(kind),
                st.lists(st.none() | values, max_size=3),
                lambda row: [None if item is None else meaning(item) for item in row],
            )


@given(columns())
@examples(200)
def test_json_column_means_what_json_means(column: Column) -> None:
    """
    Null fields of structs are left out, null entries of maps and lists stay, and what is no JSON number is a string.
    """
    kind, values, meaning = column
    expected = [None if value is None else meaning(value) for value in values]

    for array in sliced(values, kind):
        texts = json_column(array).to_pylist()

        assert expected == [None if text is None else json.loads(text, parse_float=Decimal) for text in texts]


OBJECT_TEXTS = st.lists(st.sampled_from(['"', "a", ":", "}{", "}", "{", "\\", "\n", "\x7f", "é"]), max_size=5).map(
    "".join
)
"""What stands between the braces of statistics, well formed or not, with every piece that could be taken for an end."""

ROWS = {
    "path": (pa.string(), TEXT | st.just('x"')),
    "partitionValues": (
        pa.map_(pa.string(), pa.string()),
        st.just([("k", "v")])
        | st.dictionaries(st.sampled_from(["k", "l"]), st.none() | TEXT).map(lambda found: list(found.items())),
    ),
    "size": (pa.int64(), st.integers(0, 1)),
    "dataChange": (pa.bool_(), st.booleans()),
    "stats": (pa.string(), OBJECT_TEXTS.map("{{{}}}".format) | OBJECT_TEXTS),
}


@given(st.data())
@examples(300)
def test_json_lines_contain_every_non_null_field_of_every_row(data: st.DataObject) -> None:
    """
    Whatever all rows share, and wherever texts in braces meet.
    """
    count = data.draw(st.integers(1, 5))
    columns = {}
    for name, (kind, values) in ROWS.items():
        drawn = data.draw(
            st.lists(values, min_size=count, max_size=count)
            | st.lists(st.none() | values, min_size=count, max_size=count)
        )
        columns[name] = data.draw(st.sampled_from(sliced(drawn, kind)))
    batch = pa.RecordBatch.from_pydict(columns)

    lines = json_lines(batch, '{"type":"add"', "}\n").to_pylist()

    rows = [{"type": "add", **row} for row in batch.to_pylist(maps_as_pydicts="lossy")]
    assert [{name: value for name, value in row.items() if value is not None} for row in rows] == [
        json.loads(line) for line in lines
    ]


@pytest.mark.parametrize("text", ["{", "}", "{}", "{{", ""])
def test_a_single_text_of_braces_is_one_text(text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"stats": pa.array([text])})

    assert [{"type": "add", "stats": text}] == [
        json.loads(line) for line in json_lines(batch, '{"type":"add"', "}").to_pylist()
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(['a"b\\', None]).dictionary_encode(),
        pa.array([b'a"b\\', None], pa.binary(4)),
        pa.array([b'a"b\\', None]),
    ],
    ids=["dictionary", "fixed size", "binary"],
)
def test_text_of_any_kind_is_escaped(column: Any) -> None:
    assert ['a"b\\', None] == [text and json.loads(text) for text in json_column(column).to_pylist()]
