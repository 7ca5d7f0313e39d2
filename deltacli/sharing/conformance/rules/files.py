"""The files behind the URLs: read without a token, in ranges; their footers, and at level `data` their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from deltacli.core.hints import parameter
from deltacli.core.typing import ArrowType
from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.client.faults import UrlRefused
from deltacli.sharing.conformance.lines import DELTA, FileLine, Lines, object_of, stored_name
from deltacli.sharing.conformance.rules.shared_table import SharedTableTest
from deltacli.sharing.conformance.rules.table_lines import FileTest
from deltacli.sharing.conformance.wire import Wire, WireAnswer

if TYPE_CHECKING:
    from deltacli.arrow.parquet import ParquetReader

FILES_AREA = Area("Files", Level.FOOTERS)


def _validated(level: str, advice: str = "check the table") -> str:
    """Return advice without a command: only the owner of the server knows where the table is."""
    return f"{advice}; validate finds that at level {level}"


PRIVATE = FILES_AREA.error(
    "share.url-private",
    "The URL of a file leads to a public address, except on a server that is itself reached at a private one.",
    spec="File (url: an https url that a client can use to read the file directly)",
    broken="clients fail, or are led to services inside their own network",
    repair="sign URLs with the address that clients can reach",
    example="http://10.0.0.7/part-0.parquet from a public server",
)
UNREADABLE = FILES_AREA.error(
    "share.url-unreadable",
    "The URL of a file can be read without the token of the profile.",
    spec="File (url: an https url that a client can use to read the file directly)",
    broken="clients cannot read the rows of the file",
    repair="sign URLs with a credential that may read the file",
    example="403",
)
RANGE = FILES_AREA.error(
    "share.url-range",
    "A Range of a file URL is answered with 206, the range in Content-Range, and its bytes.",
    spec="File (url); RFC 9110, Range Requests",
    broken="Spark refuses the file; other clients read all of it for its footer",
    repair="support Range",
    example="200 with the whole file",
)
SIZE = FILES_AREA.error(
    "share.file-size",
    "`size` of a file is its number of bytes.",
    spec="File (size: the size of this file in bytes)",
    broken="clients look for the footer at the wrong place, and fail",
    repair=_validated("storage", "send the size as the log has it; if that is wrong, the table is damaged"),
    example="a size of 0",
)
NOT_PARQUET = FILES_AREA.error(
    "share.file-not-parquet",
    "A file is a Parquet file.",
    spec="Format (provider: currently the only valid value is parquet)",
    broken="clients fail on the file",
    repair=_validated("footers"),
    example="a page of an error in HTML",
)
UNSIGNED = FILES_AREA.warning(
    "share.url-unsigned",
    "Without its signature, or with an altered one, a file URL cannot be read.",
    spec="File (url); Overview (secure exchange)",
    broken="everyone who guesses or learns the path can read the file at any time",
    repair="make the files private, and sign the URLs",
    example="200 for the URL without its query string",
)
RECORDS = FILES_AREA.error(
    "share.stats-records",
    "numRecords of the statistics is the number of rows in the footer.",
    spec="Per-file Statistics (numRecords: the number of records in this file)",
    broken="clients answer counts and limits with wrong numbers",
    repair=_validated("footers"),
    example="numRecords is 5, and the footer has 6 rows",
)
COLUMNS = FILES_AREA.error(
    "share.file-columns",
    "The columns of a file are those of the schema, in part or all of them; with column mapping by their physical "
    "names.",
    spec="Metadata (schemaString); Schema Object",
    broken="clients return null for columns that they do not find",
    repair="send the schema of the version; share tables with column mapping in delta format only",
    example="a file with none of the columns of the schema",
)
VECTOR_BYTES = FILES_AREA.error(
    "share.vector-unreadable",
    "The URL of a deletion vector can be read without the token, and has the vector at its offset.",
    spec="File in Delta Format (deltaSingleAction); Delta protocol: Deletion Vector Format",
    broken="clients fail, or return deleted rows",
    repair="sign the file of the vector like the data files, and keep offset and sizeInBytes",
    example="404",
)
BOUNDS = FILES_AREA.error(
    "share.stats-bounds",
    "No value of a file is below minValues or above maxValues.",
    spec="Per-file Statistics (minValues, maxValues)",
    broken="clients and servers that skip files by their statistics lose rows",
    repair=_validated("data"),
    example="minValues is 3, and a row has 1",
    level=Level.DATA,
)

_MAGIC = b"PAR1"
_TAIL = 64 << 10
_MOST_FILES = 3
_MOST_FILE = 64 << 20
_ROWS_AT_ONCE = 8_192


def check_files(table: SharedTableTest, level: str) -> None:
    """Read the footers of a few files, and at level `data` their rows."""
    whole = table.whole
    if level == "api":
        table.skip(f"{parameter('share test.level', level)} fetches no file", *FILES_AREA.rules)
        return
    if level == "footers":
        table.skip(f"{parameter('share test.level', level)} reads no rows", BOUNDS)
    if whole is None or not whole.files:
        table.skip("the table has no files", *FILES_AREA.rules)
        return
    for number, file in enumerate(_chosen(whole)):
        if urlsplit(file.url).scheme not in ("http", "https"):
            table.skip("the URL of a file is not an http or https URL", *FILES_AREA.rules)
            continue
        try:
            _check_file(FileTest(table.suite, whole, file), table.tester.wire, level, is_first=number == 0)
        except UrlRefused as fault:
            message = "the URL of a file leads to an address that is not public"
            seen = str(fault.facts.get("host", fault.message))
            table.suite.require(PRIVATE, False, whole.answer, message, seen=seen, line=file.line.number)
            table.skip(message, *FILES_AREA.rules)


def _chosen(whole: Lines) -> list[FileLine]:
    """Return the first file, the largest one, and one with a deletion vector."""
    files = [whole.files[0], max(whole.files, key=lambda file: file.size or 0)]
    files += [file for file in whole.files if file.vector is not None][:1]
    return list({file.id: file for file in files}.values())[:_MOST_FILES]


def _check_file(test: FileTest, wire: Wire, level: str, *, is_first: bool) -> None:
    size = test.file.size or 0
    first = max(0, size - _TAIL)
    tail = wire.fetch(test.file.url, byte_range=f"{first}-{max(size - 1, 0)}", most=_TAIL + 1)
    test.require(PRIVATE, True, "")
    message = f"the URL of a file is answered with {tail.status}"
    if not test.require(UNREADABLE, tail.status in (200, 206, 416), message, seen=tail.status, expected=206):
        test.suite.skip("a file cannot be read by its URL", FILES_AREA.rules)
        return
    if not _check_range(test, tail, first):
        test.suite.skip("the footer of a file cannot be read by its URL", FILES_AREA.rules)
        return
    is_parquet, message = tail.body.endswith(_MAGIC), "a file does not end as a Parquet file"
    if not test.require(NOT_PARQUET, is_parquet, message, seen=repr(tail.body[-4:]), expected=repr(_MAGIC)):
        return
    if is_first:
        _check_signature(test, wire)
    _check_vector(test, wire)
    _check_footer(test, tail.body)
    if level == "data":
        _check_rows(test, wire)


def _check_range(test: FileTest, tail: WireAnswer, first: int) -> bool:
    """Check the answer to a range; return whether its bytes can be used."""
    size = test.file.size or 0
    _, _, total = tail.headers.get("content-range", "").partition("/")
    actual = int(total) if total.isdigit() else None
    if tail.status == 200:
        length = tail.headers.get("content-length", "")
        actual = int(length) if length.isdigit() else None
    if actual is not None:
        message = "the size of a file is not that of its URL"
        if not test.require(SIZE, actual == size, message, seen=size, expected=actual):
            return False
    named = tail.headers.get("content-range", "missing")
    expected = f"bytes {first}-{size - 1}/{size}"
    is_range = tail.status == 206 and named in (expected, expected.replace(f"/{size}", "/*"))
    is_range = is_range and len(tail.body) == size - first
    message = f"a range of a file is answered with {tail.status}"
    seen = f"{tail.status}, Content-Range {named}, {len(tail.body):,} bytes"
    return test.require(RANGE, is_range, message, seen=seen, expected=f"206, {expected}")


def _check_signature(test: FileTest, wire: Wire) -> None:
    parts = urlsplit(test.file.url)
    if not parts.query:
        test.suite.skip("the signature of file URLs is not in their query strings", (UNSIGNED,))
        return
    for words, query in (("without its", ""), ("with an altered", _altered(parts.query))):
        answer = wire.fetch(urlunsplit(parts._replace(query=query)), byte_range="0-0", most=1)
        message = f"the URL of a file {words} signature is answered with {answer.status}"
        test.require(UNSIGNED, answer.status not in (200, 206), message, seen=answer.status)


def _altered(query: str) -> str:
    """Return a query string with a character changed in the middle of its longest value, which is the signature."""
    longest = max(query.split("&"), key=lambda pair: len(pair.partition("=")[2]))
    name, _, value = longest.partition("=")
    middle = len(value) // 2
    other = "B" if value[middle : middle + 1] != "B" else "C"
    return query.replace(longest, f"{name}={value[:middle]}{other}{value[middle + 1 :]}")


def _check_vector(test: FileTest, wire: Wire) -> None:
    """Read the first bytes of a deletion vector: its size."""
    vector = test.file.vector or {}
    url, size, offset = vector.get("pathOrInlineDv"), vector.get("sizeInBytes"), vector.get("offset", 0)
    if vector.get("storageType") != "p" or not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return
    if type(offset) is not int or type(size) is not int:
        return
    answer = wire.fetch(url, byte_range=f"{offset}-{offset + 3}", most=4)
    is_there = answer.status == 206 and int.from_bytes(answer.body, "big") == size
    message = f"the URL of a deletion vector is answered with {answer.status}, and not with the vector"
    seen = f"{answer.status}, {answer.body[:4].hex() or 'no bytes'}"
    test.require(VECTOR_BYTES, is_there, message, seen=seen)


def _check_footer(test: FileTest, tail: bytes) -> None:
    from deltacli.delta.footers.parse import FooterReader
    from deltacli.delta.footers.schema import read_schema
    from deltacli.delta.footers.thrift import ThriftFaultError

    length = int.from_bytes(tail[-8:-4], "little")
    if length + 8 > len(tail):
        test.suite.skip(f"the footers are larger than {_TAIL >> 10} KiB", (RECORDS, COLUMNS))
        return
    try:
        footer = FooterReader().read(tail[-8 - length : -8])
        found = {node.name for node in read_schema(footer.schema).nodes}
    except ThriftFaultError as fault:
        test.require(NOT_PARQUET, False, f"the footer of a file cannot be read: {fault}")
        return
    records = test.file.records
    if records is not None:
        message = "numRecords of a file is not the number of rows in its footer"
        test.require(RECORDS, records == footer.rows, message, seen=records, expected=footer.rows)
    expected = _stored_names(test.lines)
    shown = [", ".join(sorted(names)[:5]) for names in (found, expected)]
    message = "a file has none of the columns of the schema"
    test.require(COLUMNS, not expected or bool(found & expected), message, seen=shown[0], expected=shown[1])


def _stored_names(whole: Lines) -> set[str]:
    columns = [column for column in whole.columns if str(column.get("name")) not in whole.partition_columns]
    return {stored_name(column, is_mapped=whole.form == DELTA and whole.maps_columns) for column in columns}


def _check_rows(test: FileTest, wire: Wire) -> None:
    import pyarrow as pa

    file = test.file
    if (file.size or 0) > _MOST_FILE or file.stats is None:
        test.suite.skip(f"the files have no statistics, or are larger than {_MOST_FILE >> 20} MiB", (BOUNDS,))
        return
    answer = wire.fetch(file.url, most=_MOST_FILE)
    if not answer.is_ok or len(answer.body) != file.size:
        return
    try:
        found = list(_outside_bounds(answer.body, file))
    except pa.ArrowException as fault:
        test.require(NOT_PARQUET, False, f"the rows of a file cannot be read: {str(fault)[:200]}")
        return
    for name, outside in found:
        message = f"a value of the column {name} is outside minValues and maxValues"
        test.require(BOUNDS, not outside, message, seen=outside or None)


def _outside_bounds(data: bytes, file: FileLine) -> Iterator[tuple[str, str]]:
    """Yield each column of whole numbers with bounds, and how its values break them. Reads a few rows at a time."""
    import pyarrow as pa

    from deltacli.arrow.parquet import ParquetReader

    reader = ParquetReader(pa.BufferReader(data))
    stats = file.stats or {}
    lows, highs = (object_of(stats.get(kind)) for kind in ("minValues", "maxValues"))
    for field in reader.schema_arrow:
        low, high = lows.get(field.name), highs.get(field.name)
        if type(low) is int and type(high) is int and _is_number(field.type):
            least, most = _extremes(reader, field.name)
            is_inside = least is None or most is None or (low <= least and most <= high)
            yield field.name, "" if is_inside else f"{least} to {most}, bounds {low} to {high}"


def _extremes(reader: ParquetReader, name: str) -> tuple[int | None, int | None]:
    """Return the smallest and the largest value of a column, None where it has none."""
    from deltacli.arrow import compute as pc

    found: list[int] = []
    for group in range(reader.metadata.num_row_groups):
        for batch in reader.read_columns(_ROWS_AT_ONCE, group, [name]):
            extremes = pc.min_max(batch.column(0)).as_py()
            found += [value for value in extremes.values() if value is not None]
            found = [min(found), max(found)] if found else []
    return (found[0], found[-1]) if found else (None, None)


def _is_number(kind: ArrowType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind))
