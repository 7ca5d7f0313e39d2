"""The form of answers in lines: one JSON object per line with one field, protocol and metadata first, the version in a
header.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltacli.core.units import some_of
from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.conformance.lines import (
    DELTA,
    PARQUET,
    VERSION_HEADER,
    FileLine,
    Line,
    Lines,
    file_of,
    raw_lines,
    version_of,
)
from deltacli.sharing.conformance.wire import CAPABILITIES, Suite, WireAnswer

LINES_AREA = Area("Lines", Level.API)

LINES_TYPE = LINES_AREA.warning(
    "share.lines-content-type",
    "The Content-Type of metadata, queries and changes is application/x-ndjson.",
    spec="Query Table Metadata; Read Data from a Table; Read Change Data Feed from a Table (200: Headers)",
    broken="clients that look at the header refuse the answer, or read it as one document",
    repair="send Content-Type: application/x-ndjson; charset=utf-8",
    example="application/json",
)
VERSION_IN_HEADER = LINES_AREA.error(
    "share.version-header",
    "The version, metadata, queries and changes have the header Delta-Table-Version, a whole number.",
    spec="Query Table Version; Query Table Metadata; Read Data from a Table (200: Headers)",
    broken="clients fail: they do not know which version they read",
    repair="send the header, also through proxies",
    example="no header in the answer of a query",
)
LINE = LINES_AREA.error(
    "share.line-not-json",
    "Each line is a JSON object.",
    spec="JSON Wrapper Object In Each Line",
    broken="clients fail on the line",
    repair="send one object per line, without blank lines and without line ends inside",
    example="an object over several lines",
)
WRAPPER = LINES_AREA.error(
    "share.line-wrapper",
    "The object of a line has one field, and the format has that field.",
    spec="JSON Wrapper Object In Each Line; JSON Wrapper Object In Each Line in Delta",
    broken="clients fail on the line, or skip a file",
    repair="send each of protocol, metaData and files in a line of its own",
    example="protocol and metaData in one object",
)
SPLIT = LINES_AREA.warning(
    "share.line-splits",
    "No line has unescaped characters at which clients split text into lines, such as U+2028.",
    spec="Read Data from a Table (JSON strings delimited by newline)",
    broken="the Python client splits the line there, and fails",
    repair="escape U+0085, U+2028, U+2029 and other line ends as JSON does",
    example="a statistic with U+2028 in it",
)
FIRST_LINES = LINES_AREA.error(
    "share.line-order",
    "The first line is the protocol, the second one the metadata.",
    spec="Query Table Metadata; Read Data from a Table (200: Body)",
    broken="clients that take the first two lines for them fail",
    repair="send protocol, metaData, then the files",
    example="metaData first",
)
END_UNASKED = LINES_AREA.error(
    "share.end-unasked",
    "endStreamAction is sent only to clients that asked for it with includeEndStreamAction=true, or for a page.",
    spec="EndStreamAction; Delta Sharing Capabilities Header",
    broken="the Python client fails on the line",
    repair="send it only where the request has the capability",
    example="endStreamAction at the end of every query",
)
END_MISSING = LINES_AREA.error(
    "share.end-missing",
    "If the header of the answer has includeendstreamaction=true, endStreamAction is its last line.",
    spec="EndStreamAction",
    broken="clients take the answer for cut off and repeat it",
    repair="send the line, or leave it out of the header",
    example="the capability in the header, and no such line",
)
ANSWER_FAILED = LINES_AREA.error(
    "share.answer-failed",
    "An answer with status 200 is complete: endStreamAction has no errorMessage.",
    spec="EndStreamAction (errorMessage)",
    broken="clients cannot read the table",
    repair="look into the log of the server for the reason",
    example='{"endStreamAction": {"errorMessage": "…"}}',
)
FORMAT_HEADER = LINES_AREA.error(
    "share.format-header",
    "The header delta-sharing-capabilities of an answer has the format of its lines, in lower case; answers in delta "
    "format have it.",
    spec="Delta Sharing Capabilities Header",
    broken="clients parse the lines as the wrong format, and fail",
    repair="send delta-sharing-capabilities: responseformat=delta with answers in delta format",
    example="lines in delta format without the header",
)

_SPLITTERS = frozenset("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_KINDS = {PARQUET: {"protocol", "metaData", "file", "add", "remove", "cdf"}, DELTA: {"protocol", "metaData", "file"}}
_END = "endStreamAction"


def read_lines(suite: Suite, answer: WireAnswer, *, expects_end: bool = False) -> Lines | None:
    """Check the form of an answer in lines; return it, None where it cannot be used."""
    suite.require(
        LINES_TYPE,
        answer.media_type == "application/x-ndjson",
        answer,
        "the Content-Type of an answer in lines is not application/x-ndjson",
        seen=answer.headers.get("content-type", "missing"),
        expected="application/x-ndjson; charset=utf-8",
    )
    check_version_header(suite, answer)
    lines = _objects(suite, answer)
    if lines is None:
        return None
    end = _take_end(suite, answer, lines, expects_end=expects_end)
    kinds = [line.kind for line in lines[:2]]
    if not suite.require(
        FIRST_LINES,
        kinds == ["protocol", "metaData"],
        answer,
        "the first two lines are not protocol and metaData",
        seen=", ".join(kinds) or "no lines",
        expected="protocol, metaData",
        line=1,
    ):
        return None
    form = DELTA if "deltaProtocol" in lines[0].fields else PARQUET
    _check_format_header(suite, answer, form)
    if not _check_kinds(suite, answer, lines, form):
        return None
    files = tuple(file for file in (file_of(line, form) for line in lines[2:]) if file is not None)
    head = b"\n".join(line.raw for line in lines[:2])
    return Lines(answer, form, lines[0].fields, lines[1].fields, head, tuple(lines[2:]), end, files)


def check_version_header(suite: Suite, answer: WireAnswer) -> int | None:
    """Check the header of the version and return it."""
    version = version_of(answer)
    suite.require(
        VERSION_IN_HEADER,
        version is not None,
        answer,
        "the header Delta-Table-Version is missing or not a whole number",
        seen=answer.headers.get(VERSION_HEADER, "missing"),
        expected="a whole number",
    )
    return version


def _objects(suite: Suite, answer: WireAnswer) -> list[Line] | None:
    """Return the lines as objects with one field; None where one is not."""
    found = []
    for number, raw in enumerate(raw_lines(answer.body), 1):
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError):
            content = None
        if not suite.require(
            LINE, isinstance(content, dict), answer, "a line is not a JSON object", line=number, seen=_shown(raw)
        ):
            return None
        if not suite.require(
            WRAPPER,
            len(content) == 1 and isinstance(next(iter(content.values())), dict),
            answer,
            f"the object of a line has the fields {', '.join(content) or 'none'}",
            expected="one field that is an object",
            line=number,
        ):
            return None
        kind, fields = next(iter(content.items()))
        found.append(Line(number, kind, fields, raw))
        text = raw.decode("utf-8", "replace")
        splitters = sorted(_SPLITTERS.intersection(text))
        suite.require(
            SPLIT,
            not splitters,
            answer,
            "a line has characters at which clients split text",
            seen=", ".join(f"U+{ord(one):04X}" for one in splitters) or None,
            line=number,
        )
    return found


def _shown(raw: bytes) -> str:
    return raw[:80].decode("utf-8", "replace") or "a blank line"


def _take_end(suite: Suite, answer: WireAnswer, lines: list[Line], *, expects_end: bool) -> dict[str, object] | None:
    """Take the last line out of the lines where it is endStreamAction."""
    is_there = bool(lines) and lines[-1].kind == _END
    end = dict(lines.pop().fields) if is_there else None
    asked = "includeendstreamaction=true" in answer.request.headers.get(CAPABILITIES, "").lower()
    if not asked and not expects_end:
        suite.require(END_UNASKED, not is_there, answer, "an answer ends with endStreamAction unasked")
    promised = "includeendstreamaction=true" in answer.headers.get(CAPABILITIES, "").lower()
    if promised:
        message = "the header promises endStreamAction, and the last line is another one"
        suite.require(END_MISSING, is_there, answer, message)
    if end is not None:
        error = end.get("errorMessage")
        suite.require(ANSWER_FAILED, not error, answer, "the answer ends with an error", seen=error)
    return end


def _check_format_header(suite: Suite, answer: WireAnswer, form: str) -> None:
    header = answer.headers.get(CAPABILITIES)
    if header is None and form == PARQUET:
        return
    named = [part.partition("=")[2] for part in (header or "").split(";") if part.startswith("responseformat=")]
    suite.require(
        FORMAT_HEADER,
        named == [form],
        answer,
        f"lines in {form} format come with another header delta-sharing-capabilities",
        seen=header or "missing",
        expected=f"responseformat={form}",
    )


def _check_kinds(suite: Suite, answer: WireAnswer, lines: Sequence[Line], form: str) -> bool:
    for line in lines:
        if not suite.require(
            WRAPPER,
            line.kind in _KINDS[form],
            answer,
            f"the {form} format has no line {line.kind[:40]}",
            expected=", ".join(sorted(_KINDS[form])),
            line=line.number,
        ):
            return False
    return True


def names_of(files: Sequence[FileLine]) -> str:
    """Return a few ids for a finding."""
    return some_of([file.id[:40] for file in files], 3)
