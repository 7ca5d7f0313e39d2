"""The formats of answers: which one a client gets for its capabilities, and that both tell the same."""

from __future__ import annotations

from deltacli.rules.framework.base import Area, Level, Rule
from deltacli.sharing.conformance.lines import DELTA, PARQUET, Lines
from deltacli.sharing.conformance.rules.shared_table import ALL_FEATURES, HEADERS, SharedTableTest
from deltacli.sharing.conformance.rules.table_lines import check_version_files
from deltacli.sharing.conformance.wire import CAPABILITIES

FORMATS_AREA = Area("Formats", Level.API)

DEFAULT_FORMAT = FORMATS_AREA.error(
    "share.format-default",
    "Without the capabilities header, and with responseformat=parquet, an answer is in parquet format.",
    spec="Delta Sharing Capabilities Header: Compatibility; responseFormat (the default format)",
    broken="clients of the parquet format fail",
    repair="answer in parquet format, or 400 where the table needs the delta format",
    example="deltaProtocol without the header",
)
ONLY_FORMAT = FORMATS_AREA.error(
    "share.format-ignored",
    "A server that knows the capabilities header answers in the only format that it names.",
    spec="Delta Sharing Capabilities Header: Compatibility (the server must respect)",
    broken="clients of the delta format fail or lose features of the table",
    repair="answer in delta format for responseformat=delta",
    example="parquet for responseformat=delta",
)
ADVANCED = FORMATS_AREA.error(
    "share.format-advanced",
    "A table with deletion vectors or column mapping is answered in delta format, or refused, never in parquet format.",
    spec="Delta Sharing Capabilities Header: Compatibility (the server must respond in delta format)",
    broken="clients return deleted rows, or null for mapped columns",
    repair="answer 400 to a client that reads parquet only",
    example="files without their deletion vectors in parquet format",
)
HEADER_CASE = FORMATS_AREA.error(
    "share.capabilities-case",
    "Keys and values of the capabilities header are case-insensitive.",
    spec="Delta Sharing Capabilities Header (should be case-insensitive)",
    broken="some clients get the other format",
    repair="compare in lower case",
    example="parquet for ResponseFormat=Delta",
)
UNKNOWN_CAPABILITY = FORMATS_AREA.error(
    "share.capabilities-unknown",
    "Unrecognized capabilities are ignored.",
    spec="Delta Sharing Capabilities Header",
    broken="newer clients cannot read from the server",
    repair="ignore them",
    example="400 for deltacliunknown=1",
)
FEATURE_UNASKED = FORMATS_AREA.error(
    "share.feature-unasked",
    "A table that needs a reader feature is refused to a client that does not name it in readerfeatures.",
    spec="Delta Sharing Capabilities Header: readerFeatures",
    broken="clients that cannot apply the feature return wrong rows",
    repair="answer 400 and name the feature",
    example="a table with deletion vectors for a client without readerfeatures",
)
FORMATS_DIFFER = FORMATS_AREA.error(
    "share.formats-differ",
    "Both formats have the same version, metadata and number of files.",
    spec="API Response Format in Parquet; API Response Format in Delta",
    broken="clients of one format lose or invent rows",
    repair="make both answers of the same snapshot",
    example="a file less in parquet format",
)
METADATA_LINES = FORMATS_AREA.error(
    "share.metadata-lines",
    "The metadata of a table is two lines.",
    spec="Query Table Metadata (the response contains two lines)",
    broken="clients that demand two lines fail",
    repair="send protocol and metaData only",
    example="files behind the metadata",
)
METADATA_DIFFERS = FORMATS_AREA.error(
    "share.metadata-differs",
    "The metadata of a table is that of its query: id, schema and partition columns.",
    spec="Query Table Metadata; Read Data from a Table",
    broken="clients plan with one schema and read another",
    repair="answer both from the same version",
    example="another id",
)
HASH_ECHO = FORMATS_AREA.error(
    "share.file-id-hash",
    "A server that knows the header fileidhash repeats its value in lower case, and refuses an unknown one with 400.",
    spec="File ID Hash Header",
    broken="Spark refuses the answer",
    repair="repeat the header",
    example="fileidhash: sha1 is accepted",
)
IDS_DIFFER = FORMATS_AREA.error(
    "share.file-id-unstable",
    "The files of a version have the same ids in every answer, and in both formats with the same fileidhash.",
    spec="File (id: guaranteed to have the same id across multiple requests); File ID Hash Header",
    broken="clients that resume or cache read every file again, or the wrong one",
    repair="make the id of the path of the file",
    example="a new id per request",
)

_NOT_DELTA = "the server does not answer in delta format"
_NOT_ADVANCED = "the table has no deletion vectors and no column mapping"
_NEED = "the table cannot be answered in parquet format"


def check_formats(table: SharedTableTest) -> None:
    """Read the whole table in both formats, twice, and compare them."""
    for form in (PARQUET, DELTA):
        answer = table.query({}, form)
        lines = table.read(answer)
        if lines is None:
            if answer.status < 500:
                table.skip(f"the server answers {answer.status} in {form} format", FORMATS_DIFFER)
            continue
        if form == PARQUET:
            message = "an answer without the capabilities header is not in parquet format"
            table.suite.require(DEFAULT_FORMAT, lines.form == PARQUET, answer, message, seen=lines.form)
        elif CAPABILITIES in answer.headers:
            message = "responseformat=delta is answered in another format"
            table.suite.require(ONLY_FORMAT, lines.form == DELTA, answer, message, seen=lines.form)
        if lines.form == form:
            check_version_files(table.suite, lines)
            table.wholes[form] = lines
    if DELTA not in table.wholes:
        table.skip(_NOT_DELTA, ONLY_FORMAT, HEADER_CASE, FEATURE_UNASKED, FORMATS_DIFFER, ADVANCED)
    if PARQUET not in table.wholes:
        table.skip(_NEED, DEFAULT_FORMAT, FORMATS_DIFFER)
    _compare_formats(table)
    _check_again(table)
    _check_negotiation(table)


def _compare_formats(table: SharedTableTest) -> None:
    parquet, delta = table.wholes.get(PARQUET), table.wholes.get(DELTA)
    if delta is not None:
        is_advanced = delta.has_vectors or delta.maps_columns
        message = "a table with deletion vectors or column mapping is answered in parquet format"
        if is_advanced:
            answer = delta.answer if parquet is None else parquet.answer
            table.suite.require(ADVANCED, parquet is None, answer, message)
        else:
            table.skip(_NOT_ADVANCED, ADVANCED)
    if parquet is None or delta is None or parquet.version != delta.version:
        return
    same = {name: parquet.meta.get(name) == delta.meta.get(name) for name in ("id", "partitionColumns")}
    same["the names of the columns"] = _column_names(parquet) == _column_names(delta)
    same["the number of files"] = len(parquet.files) == len(delta.files)
    differing = [name for name, equal in same.items() if not equal]
    message = f"the formats differ in {', '.join(differing)}"
    table.suite.require(FORMATS_DIFFER, not differing, parquet.answer, message)


def _column_names(lines: Lines) -> list[object]:
    return [column.get("name") for column in lines.columns]


def _check_again(table: SharedTableTest) -> None:
    """Ask for the whole table again, and for other hashes."""
    for form, whole in table.wholes.items():
        again = table.same_version(table.read(table.query({}, form)), (IDS_DIFFER,))
        if again is not None:
            is_same = sorted(whole.by_id) == sorted(again.by_id)
            message = "the files of a version have other ids in a second answer"
            table.suite.require(IDS_DIFFER, is_same, again.answer, message)
    ids = {}
    for form in table.wholes:
        lines = table.read(table.query({}, form, {"fileidhash": "Delta"}))
        if lines is None or "fileidhash" not in lines.answer.headers:
            table.skip("the server does not know the header fileidhash", HASH_ECHO)
            return
        seen = lines.answer.headers["fileidhash"]
        table.suite.require(
            HASH_ECHO,
            seen == "delta",
            lines.answer,
            "the header fileidhash is not repeated",
            seen=seen,
            expected="delta",
        )
        ids[form] = sorted(lines.by_id)
        if len(ids) > 1 and lines.version == table.wholes[PARQUET].version:
            message = "the formats have other ids for fileidhash: delta"
            table.suite.require(IDS_DIFFER, ids[PARQUET] == ids[form], lines.answer, message)
    for form in list(table.wholes)[:1]:
        refused = table.query({}, form, {"fileidhash": "sha1"})
        message = f"fileidhash: sha1 is answered with {refused.status}"
        is_refused = refused.status == 400 or refused.status >= 500
        table.suite.require(HASH_ECHO, is_refused, refused, message, expected=400)


def _check_negotiation(table: SharedTableTest) -> None:
    delta = table.wholes.get(DELTA)
    if table.whole is None:
        return
    form = table.whole.form
    other = table.ask("metadata", headers={CAPABILITIES: f"{_header(form)};deltacliunknown=1"})
    message = f"an unknown capability is answered with {other.status}"
    table.suite.require(UNKNOWN_CAPABILITY, other.is_ok or other.status >= 500, other, message, expected=200)
    if delta is None:
        return
    written = f"ResponseFormat=DELTA;ReaderFeatures={ALL_FEATURES.upper()}"
    _require_form(table, HEADER_CASE, written, DELTA, "capabilities in another case are answered")
    needed = delta.reader_features
    is_advanced = delta.has_vectors or delta.maps_columns
    if is_advanced or needed:
        answer = table.ask("metadata", headers={CAPABILITIES: "responseformat=delta"})
        message = "a client without readerfeatures gets a table that needs some"
        is_refused = not answer.is_ok
        table.suite.require(FEATURE_UNASKED, is_refused, answer, message, seen=", ".join(needed) or None, expected=400)
    else:
        table.skip("the table needs no reader feature", FEATURE_UNASKED)
    if is_advanced:
        both = f"responseformat=parquet,delta;readerfeatures={ALL_FEATURES}"
        _require_form(table, ADVANCED, both, DELTA, "responseformat=parquet,delta is answered")


def _header(form: str) -> str:
    return HEADERS[form].get(CAPABILITIES, "responseformat=parquet")


def _require_form(table: SharedTableTest, rule: Rule, header: str, form: str, words: str) -> None:
    answer = table.ask("metadata", headers={CAPABILITIES: header})
    lines = table.read(answer)
    seen = answer.status if lines is None else f"{lines.form} format"
    found = None if lines is None else lines.form
    table.suite.require(rule, found == form, answer, f"{words} with {seen}", seen=seen, expected=f"{form} format")


def check_metadata(table: SharedTableTest) -> None:
    """Compare the metadata of the table with that of its query, in both formats."""
    for form, whole in table.wholes.items():
        answer = table.ask("metadata", headers=HEADERS[form])
        lines = table.read(answer)
        if lines is None:
            message = f"the metadata is answered with {answer.status}, and the query with 200"
            if not answer.is_ok and answer.status < 500:
                table.suite.require(METADATA_DIFFERS, False, answer, message)
            continue
        message = f"the metadata has {2 + len(lines.rest)} lines"
        table.suite.require(METADATA_LINES, not lines.rest, answer, message, expected=2)
        if lines.form != form or lines.version != whole.version:
            continue
        names = ("id", "schemaString", "partitionColumns")
        differing = [name for name in names if lines.meta.get(name) != whole.meta.get(name)]
        message = f"the metadata differs from that of the query in {', '.join(differing)}"
        table.suite.require(METADATA_DIFFERS, not differing, answer, message)
