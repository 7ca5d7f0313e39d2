"""Lists of files read in columns give what the same lines give one by one, or are left to be read one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltacli.core.errors import DeltacliError
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.sharing.client import shared_version
from deltacli.sharing.client.faults import AnswerInvalid
from deltacli.sharing.client.shared_files import FileColumns, SharedFile, StoredUrls, read_file, read_files
from deltacli.sharing.client.table_requests import ActionLine, AnswerHead, parse_lines, whole_lines
from deltacli.sharing.protocol.parameters import ResponseFormat
from tests.sharing.client.serving import Asked, Sent, proxied
from tests.sharing.pulling.origin import Origin
from tests.sharing.served import shared
from tests.support.effort import examples

DELTA, PARQUET = ResponseFormat.DELTA, ResponseFormat.PARQUET
PARTITIONS = ("day", "région")
Line = dict[str, Any]  # Any: JSON values


def delta_line(number: int = 0, *, add: Line | None = None, **fields: Any) -> Line:  # Any: JSON values
    own = {
        "path": f"https://h/{number}?s=%2F",
        "partitionValues": {"day": f"{number}", "région": None if number % 3 else "ü"},
        "size": number,
        "modificationTime": 5,
        "dataChange": True,
        "stats": '{"numRecords":1}',
    }
    single = {"add": own | (add or {})}
    return {"file": {"id": f"{number:x}", "version": 1, "deltaSingleAction": single} | fields}


def parquet_line(number: int = 0, **fields: Any) -> Line:  # Any: JSON values
    own = {"id": f"{number:x}", "url": f"https://h/{number}", "size": number, "timestamp": 7, "stats": "{}"}
    values = {"day": f"{number}", "région": "" if number % 3 else "ü"}
    return {"file": own | {"partitionValues": values, "expirationTimestamp": 9} | fields}


def vector(kind: object = "p", place: object = "https://h/v") -> Line:
    return {"storageType": kind, "pathOrInlineDv": place, "offset": 1, "sizeInBytes": 34, "cardinality": 2}


def text_of(*lines: Line) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for line in lines)


def one_by_one(text: bytes, form: ResponseFormat) -> list[SharedFile]:
    return [read_file(ActionLine(*found), form) for found in parse_lines(text)]


def rows_of(adds: Any) -> list[Line]:  # Any: a record batch
    """Return adds as dictionaries. The order of keys does not matter."""
    rows: list[Line] = adds.to_pylist()
    for row in rows:
        for name in ("partitionValues", "tags"):
            row[name] = None if row[name] is None else dict(row[name])
        row["dataChange"] = None  # of no use in a checkpoint
    return rows


def urls_of(files: list[SharedFile]) -> dict[str, Any]:
    urls = StoredUrls()
    for file in files:
        file.add_urls(urls)
    urls.finish()
    return {name: urls.find(name) for name in urls.names()}


def urls_of_columns(columns: FileColumns) -> dict[str, Any]:
    urls = StoredUrls()
    for name, (url, expires_ms) in columns.vectors.items():
        urls.add(name, url, None, expires_ms)
    urls.add_columns(columns.names.to_pylist(), columns.urls, columns.sizes, columns.expires_ms)
    urls.finish()
    return {name: urls.find(name) for name in urls.names()}


def require_equal(columns: FileColumns, text: bytes, form: ResponseFormat) -> None:
    files = one_by_one(text, form)
    assert [file.name for file in files] == columns.names.to_pylist()
    assert {"add"} == {file.kind for file in files}
    assert [file.version for file in files] == columns.versions.to_pylist()
    assert [file.timestamp_ms for file in files] == columns.timestamps_ms.to_pylist()
    adds = build_action_batch([file.action for file in files], action_schemas().add, "the answer")
    assert rows_of(adds) == rows_of(columns.adds)
    if len({file.name for file in files}) == len(files):  # otherwise the caller refuses them, or reads one by one
        assert urls_of(files) == urls_of_columns(columns)


ORDINARY = {
    "delta": (DELTA, [delta_line(n) for n in range(6)]),
    "parquet": (PARQUET, [parquet_line(n) for n in range(6)]),
    "files of vectors that are shared": (
        DELTA,
        [delta_line(n, add={"deletionVector": vector()}, deletionVectorFileId=f"v{n % 2}") for n in range(4)],
    ),
    "some vectors, some inline": (
        DELTA,
        [
            delta_line(1),
            delta_line(2, add={"deletionVector": vector("i", "abc")}),
            delta_line(3, add={"deletionVector": vector()}, deletionVectorFileId="v"),
        ],
    ),
    "tags, some without a key": (
        DELTA,
        [delta_line(1, add={"tags": {"a": "1", "b": "2"}}), delta_line(2, add={"tags": {"b": "3"}})],
    ),
    "ids that are not names": (DELTA, [delta_line(1, id="../x"), delta_line(2, id="ünïcode"), delta_line(3, id="a_B")]),
    "unknown fields": (DELTA, [delta_line(1, more={"x": [1]}), delta_line(2, add={"more": 1.5})]),
    "escaped characters": (PARQUET, [parquet_line(1, url="https://h/\\u0026"), parquet_line(2, id="\x00\u2028")]),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_lines_are_read_in_columns(name: str) -> None:
    form, lines = ORDINARY[name]
    text = text_of(*lines)

    columns = read_files(text, form, PARTITIONS)

    assert columns is not None
    require_equal(columns, text, form)


HOSTILE: list[Any] = [None, -1, 2**63, 2**64, 1.5, True, "", "x", [], {}, {"a": 1}, "\x00", "ü", "https://h/ü", 1e300]
PLACES = [
    *("id", "url", "size", "stats", "version", "timestamp", "expirationTimestamp", "partitionValues"),
    *("deltaSingleAction", "deletionVectorFileId", "new"),
]
PLACES_OF_ADD = [
    *("path", "size", "stats", "partitionValues", "modificationTime", "dataChange", "tags", "deletionVector"),
    *("baseRowId", "clusteringProvider", "new"),
]


@st.composite
def changed_lines(draw: st.DrawFn) -> tuple[ResponseFormat, bytes]:
    """Lines of which some have a value that is not expected there."""
    form = draw(st.sampled_from([DELTA, PARQUET]))
    make = delta_line if form is DELTA else parquet_line
    lines = [make(number) for number in draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))]
    for line in lines:
        if not draw(st.booleans()):
            continue
        values = st.sampled_from([*HOSTILE, vector(), vector("i"), vector("u"), vector("p", None)])
        values |= st.dictionaries(st.sampled_from([*PARTITIONS, "k"]), st.sampled_from([None, "", "1", 1]))
        place = draw(st.sampled_from(PLACES if form is PARQUET or draw(st.booleans()) else PLACES_OF_ADD))
        is_of_add = form is DELTA and place in PLACES_OF_ADD
        target = line["file"]["deltaSingleAction"]["add"] if is_of_add else line["file"]
        if draw(st.booleans()):
            target[place] = draw(values)
        else:
            target.pop(place, None)
    if draw(st.booleans()):
        lines[0] |= draw(st.sampled_from([{"file": None}, {"add": {}}, {"protocol": None}, {"protocol": {"a": 1}}]))
    return form, text_of(*lines)


@st.composite
def broken_texts(draw: st.DrawFn) -> tuple[ResponseFormat, bytes]:
    """Lines with pieces of text put in, taken out, or doubled."""
    form, text = draw(changed_lines())
    start = draw(st.integers(0, len(text)))
    end = min(start + draw(st.integers(0, 30)), len(text))
    pieces = [b"", b"\n", b"\r\n", b"{", b"}", b"}\n{", b" null ", b"\\ud800", b"\\udc00", b"\xff", b'"', b"\\u0000"]
    pieces += [b'"file":{},', b'"id":"z",', b"[[[", b"1e999", b"NaN", b"\t", b",", text[start:end] * 2]
    return form, text[:start] + draw(st.sampled_from(pieces)) + text[end:]


@examples(60)
@given(changed_lines() | broken_texts())
@example((PARQUET, text_of(parquet_line(1)).rstrip() + text_of(parquet_line(2)).replace(b",", b"\n,", 1)))
@example((DELTA, text_of(delta_line(1)) + b"\n" + text_of(delta_line(2))))
@example((DELTA, text_of(delta_line(1), delta_line(1))))
@example((DELTA, text_of(delta_line(1, add={"partitionValues": {"day": "1"}}))))
@example((PARQUET, b'{"file":{"id":"a","url":"\\udc00","size":1,"partitionValues":{"day":"","r\xc3\xa9gion":"1"}}}\n'))
@example((DELTA, text_of(delta_line(1, add={"tags": {"k": None, "j": "1"}}))))
def test_what_is_read_in_columns_is_what_is_read_line_by_line(case: tuple[ResponseFormat, bytes]) -> None:
    form, text = case

    columns = read_files(text, form, PARTITIONS)

    if columns is not None:
        require_equal(columns, text, form)


def listed(proxy: Any, change: Any) -> Any:  # Any: a proxy, a function from bytes to bytes; a version
    """List the table `t`, whose answer is changed on the way."""

    def plant(asked: Asked, truly: Any) -> Sent:  # Any: a function
        sent: Sent = truly()
        return sent if not asked.target.endswith("/query") else Sent(200, sent.headers, change(sent.body))

    proxy.plant = plant
    return proxy.store(formats=(DELTA,)).shared


def many_lines(body: bytes, *, vary: Any = lambda _, line: line) -> bytes:  # Any: a function
    """Return an answer whose file is there 200 times, under ids of their own."""
    lines = body.split(b"\n")
    files = []
    for number in range(200):
        line = json.loads(lines[2])
        line["file"]["id"] = f"{number:032x}"
        files.append(json.dumps(vary(number, line), separators=(",", ":")).encode())
    return b"\n".join([*lines[:2], *files, *lines[3:]])


def test_an_answer_of_many_lines_is_listed_in_columns(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[ActionLine] = []
    taken = shared_version._Taker.take_line

    def count(taker: shared_version._Taker, line: ActionLine) -> None:
        one_by_one.append(line)
        taken(taker, line)

    monkeypatch.setattr(shared_version._Taker, "take_line", count)
    with proxied(tmp_path, shared(Origin(tmp_path / "t").append(range(5)).path)) as proxy:
        found = listed(proxy, many_lines)

        assert 200 == len(found.urls)
        assert len(one_by_one) < 100  # those that came in one packet with the head
        assert found.urls.find(f"{7:032x}.parquet").url == found.urls.find(f"{199:032x}.parquet").url


def test_partition_values_have_the_names_of_columns_in_files() -> None:
    fields = [
        {
            "name": name,
            "type": "string",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": f"col-{name}"},
        }
        for name in ("a", "b")
    ]
    metadata = {"schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": ["b", "x", "b"]}

    head = AnswerHead(1, DELTA, True, {}, {"deltaMetadata": metadata})
    broken = AnswerHead(1, DELTA, True, {}, {"deltaMetadata": {"schemaString": "{", "partitionColumns": ["b", 1]}})

    assert ("col-b", "x") == shared_version.partition_keys(head)
    assert ("b",) == shared_version.partition_keys(broken)


def _twice(number: int, line: Line) -> Line:
    return {"file": line["file"] | {"id": f"{number % 199:032x}"}}


def _newer(number: int, line: Line) -> Line:
    return {"file": line["file"] | ({"version": 99} if number == 150 else {})}


def _unsized(number: int, line: Line) -> Line:
    if number == 150:
        del line["file"]["deltaSingleAction"]["add"]["size"]
        line["file"].pop("size", None)
    return line


BOTOCORE_ERRORS = {"names a file twice": _twice, "newer than the version": _newer, "has no size": _unsized}


@pytest.mark.parametrize("said", BOTOCORE_ERRORS)
def test_a_fault_among_many_lines_is_found(tmp_path: Any, said: str) -> None:
    table = shared(Origin(tmp_path / "t").append(range(5)).path)

    with proxied(tmp_path, table) as proxy, pytest.raises(AnswerInvalid, match=said):
        listed(proxy, lambda body: many_lines(body, vary=BOTOCORE_ERRORS[said]))


@examples(60)
@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"ab\ncd\n", b""]), max_size=8), st.integers(1, 12))
def test_whole_lines_join_to_the_body_and_none_is_too_long(blocks: list[bytes], most: int) -> None:
    def cut() -> Iterator[bytes]:
        yield from whole_lines(iter(blocks), most)

    body = b"".join(blocks)
    if any(len(line) > most for line in body.split(b"\n")):
        with pytest.raises(DeltacliError, match="a line of an answer exceeds"):
            list(cut())
        return

    texts = list(cut())

    assert body == b"".join(texts)
    assert all(text.endswith(b"\n") for text in texts[:-1])


def test_the_url_of_a_file_with_another_character_is_said_to_have_it() -> None:
    urls = StoredUrls()

    with pytest.raises(AnswerInvalid, match="not percent-encoded") as raised:
        urls.add("part-0.parquet", "https://store.example/é/part-0.parquet?sig=x", 1, None)
    with pytest.raises(AnswerInvalid, match="has no URL"):
        urls.add("part-0.parquet", "", 1, None)

    assert (raised.value.facts["file"], raised.value.facts["character"]) == ("part-0.parquet", "'\\xe9'")
