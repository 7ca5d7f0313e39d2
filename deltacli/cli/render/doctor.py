"""What `doctor` shows: permissions or probes with findings about the store, and a table with the advice on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltacli.cli.output.columns import Column, Row, format_exact
from deltacli.cli.output.results import ListResult
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.texts import summarize_names
from deltacli.core.times import format_moment
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size, format_size_limit, plural
from deltacli.operations.doctor.advice import Advice, Severity, StoreFinding, dollars, growth, numbers, saves

if TYPE_CHECKING:
    from deltacli.operations.doctor.examined import TableReport
    from deltacli.operations.doctor.storage import AccessReport, Command, Probe, ProbeResult, StorageReport


def document_fields(kind: str, table: str, content: JsonObject, *, is_complete: bool = True) -> JsonObject:
    fields = {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "table": table, "complete": is_complete}
    return fields | dict(content)


class DoctorResult(ListResult[Row]):
    """The sections of the store, a table, and the findings."""

    def __init__(
        self,
        kind: str,
        table: str,
        content: JsonObject,
        noun: str,
        columns: Sequence[Column[Row]],
        items: Sequence[JsonObject],
        rows: Sequence[Row],
        said: Sequence[Section],
        below: Sequence[Section],
        *,
        is_complete: bool = True,
    ) -> None:
        fields = document_fields(kind, table, content, is_complete=is_complete)
        last = {"type": kind, "table": table, **content}
        super().__init__(
            fields,
            f"doctor-{noun}",
            items,
            columns,
            rows,
            items_name=f"{noun}s",
            last_line=last,
            make_sections=lambda _: said,
        )
        self.below = below

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        sink.write(b"\n")
        self.draw_rows(sink, terminal)
        if self.below:
            sink.write(b"\n")
            write_sections(sink, terminal, self.below)


def finding_sections(findings: Sequence[StoreFinding], good: str) -> list[Section]:
    """Return the findings by severity, or one line where there are none that matter."""
    sections = [
        Section(f"{severity}s" if severity is not Severity.INFO else "notes", _texts(findings, severity), style)
        for severity, style in (
            (Severity.ERROR, Style.PROBLEM),
            (Severity.WARNING, Style.PLAIN),
            (Severity.INFO, Style.PLAIN),
        )
    ]
    found = [section for section in sections if section.lines]
    is_good = all(finding.severity is Severity.INFO for finding in findings)
    return [*found, *([Section("result", [good], Style.GOOD)] if is_good else [])]


def _texts(findings: Sequence[StoreFinding], severity: Severity) -> list[str]:
    chosen = (finding for finding in findings if finding.severity is severity)
    return [line for one in chosen for line in (f"{one.code}: {one.message}", f"  {one.next}")]


def access_result(report: AccessReport) -> DoctorResult[Command]:
    """Return who sends the requests, and what each command may do."""

    def style(one: Command) -> Style:
        return {"granted": Style.GOOD, "missing": Style.PROBLEM}.get(report.state_of(one), Style.PLAIN)

    columns: list[Column[Command]] = [
        Column("commands", lambda one: one.names, priority=1, wraps=True, min_width=20),
        Column("state", report.state_of, style=style, priority=1, min_width=7),
        Column("needs", lambda one: " ".join(one.needs), priority=3, wraps=True, min_width=20),
        Column("missing", lambda one: " ".join(report.missing(one)), priority=2, wraps=True),
    ]
    content, items, rows = report.as_json(), report.commands(), report.known_commands
    below = finding_sections(report.findings, _verdict(report))
    identity = report.identity
    sections = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    if identity is not None:
        sections += [
            Section("identity", [identity.name or "unknown"]),
            Section("credentials", [identity.source]),
            Section("details", [f"{name}: {text}" for name, text in identity.details.items()]),
            Section("chain", [f"{name}: {text}" for name, text in identity.chain.items()]),
        ]
    permits = [f"{name}: {permit.state} ({permit.reason})" for name, permit in report.permits.items()]
    sections.append(Section("permissions", permits))
    said = [section for section in sections if section.lines]
    return DoctorResult("doctor-access", report.table, content, "command", columns, items, rows, said, below)


def _verdict(report: AccessReport) -> str:
    unknown = [name for name, permit in report.permits.items() if permit.state == "unknown"]
    return (
        f"no permission is known to be missing; unknown: {', '.join(unknown)}"
        if unknown
        else "no permission is missing"
    )


_GOOD = "the store guarantees what deltacli relies on"
_UNSURE = "nothing is wrong, but not every probe had a usable answer; run the same command again"


def storage_result(report: StorageReport) -> DoctorResult[tuple[Probe, ProbeResult]]:
    """Return the probes of a store, run or planned."""
    content, items = report.as_json(), report.probes()
    columns: list[Column[tuple[Probe, ProbeResult]]] = [
        Column("probe", lambda one: one[0].name, priority=1, min_width=15),
        Column("what", lambda one: one[0].what, priority=3, wraps=True, min_width=20),
        Column("expected", lambda one: one[0].expected, on_screen=False),
        Column("outcome", lambda one: one[1].outcome, style=_storage_style, priority=1, min_width=12),
        Column("seen", lambda one: one[1].seen or None, priority=2, wraps=True, min_width=12),
        Column("finding", lambda one: one[1].finding and one[1].finding.code, priority=4, on_screen=False),
    ]
    said = [Section("table", [report.table]), Section("store", [f"{report.store} {report.endpoint}".rstrip()])]
    said.append(
        Section("scratch files", [f"names that begin with {report.scratch}" if report.dry_run else report.scratch])
    )
    below = [] if report.dry_run else finding_sections(report.findings, _GOOD if report.is_complete else _UNSURE)
    kind, rows, is_complete = "doctor-storage", report.results, report.is_complete
    return DoctorResult(
        kind, report.table, content, "probe", columns, items, rows, said, below, is_complete=is_complete
    )


def _storage_style(one: tuple[Probe, ProbeResult]) -> Style:
    return {"passed": Style.GOOD, "failed": Style.PROBLEM}.get(one[1].outcome, Style.PLAIN)


_NAMED = 3
_STYLES = {"error": Style.PROBLEM, "warning": Style.CHANGED}


class TableReportResult(ListResult["Advice"]):
    """The sections of the table, and its advice: as sections for the eye, as rows everywhere else."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        sink.write(b"\n")
        write_sections(
            sink, terminal, list(_advice_sections(self.rows, self.columns[-1], is_complete=self.fields["complete"]))
        )


def table_result(report: TableReport, name: str) -> TableReportResult:
    """Return the report of a table, which the user called `name`."""
    content = report.as_json(name)
    items = content.pop("advice")
    is_complete, shown = not report.notes, name or report.uri
    fields = document_fields("doctor-table", report.uri, {"tableFormat": "delta"} | content, is_complete=is_complete)
    return TableReportResult(
        fields,
        "advice",
        items,
        [
            Column("code", lambda one: one.code),
            Column("severity", lambda one: one.severity),
            Column("message", lambda one: one.message, wraps=True),
            Column("now", lambda one: dict(one.now), lambda one: numbers(one.now)),
            Column("after", lambda one: dict(one.after), lambda one: numbers(one.after)),
            Column("saves", lambda one: one.saves.as_json(), lambda one: _gain(one).removeprefix("saves ")),
            Column("command", lambda one: one.command_for(shown)),
        ],
        report.advice,
        items_name="advice",
        last_line={"type": "doctor-table", "table": report.uri, **content},
        make_sections=lambda _: list(sections_of(content, report.uri)),
    )


def _gain(one: Advice) -> str:
    return saves(one.saves.as_json())


def _advice_sections(advice: Sequence[Advice], command: Column[Advice], *, is_complete: bool) -> Iterator[Section]:
    if not advice and is_complete:
        yield Section("advice", ["none: nothing would save much"], Style.GOOD)
    elif not advice:
        yield Section("advice", ["none that is certain: see the notes"], Style.CHANGED)
    for number, one in enumerate(advice, 1):
        yield Section(f"{number}", [f"{one.code} ({one.severity})"], _STYLES.get(one.severity, Style.PLAIN))
        lines = (one.message, f"now {numbers(one.now)}; afterwards {numbers(one.after)}", _gain(one))
        yield Section("", list(filter(None, (*lines, format_exact(command.value(one))))))


def sections_of(content: JsonObject, uri: str) -> Iterator[Section]:
    """Yield the state of a table in labelled lines."""
    yield Section("table", [uri])
    yield Section("version", [f"{content['snapshotVersion']}, examined {format_moment(content['nowMs'])} UTC"])
    yield Section("files", [_files(content["files"])])
    yield Section("partitions", list(_partitions(content["partitions"])))
    yield Section("deleted rows", list(_vectors(content["vectors"])))
    yield Section("statistics", [_statistics(content["statistics"])])
    yield Section("removed files", list(_removed(content)))
    yield Section("log", [_log(content["log"])])
    yield Section("growth", list(_growth(content["growth"])))
    yield Section("cost", list(_cost(content["cost"])))
    yield Section("notes", list(content["notes"]))


def _files(found: JsonObject) -> str:
    rows = "unknown number of rows" if found["rows"] is None else plural(found["rows"], "row")
    said = f"{format_file_totals(found['count'], found['sizeBytes'])}, {rows}"
    if found["count"]:
        said += f"; median {format_size(found['medianBytes'])}"
    if found["smallFiles"]:
        limit = format_size_limit(found["smallBelowBytes"])
        merged = "which optimize merges" if found["countAfter"] < found["count"] else "none of which optimize can merge"
        said += f"; {format_count(found['smallFiles'])} below {limit}, {merged}"
    return said


def _partitions(found: JsonObject) -> Iterator[str]:
    if found["columns"]:
        said = f"{format_count(found['count'])} by {', '.join(found['columns'])}"
        skew = f" ({found['skew']:,g} times the median)" if (found["skew"] or 0) >= 2 else ""
        yield f"{said}; the largest has {format_size(found['largestBytes'])}{skew}"


def _vectors(found: JsonObject) -> Iterator[str]:
    if found["files"]:
        yield f"{format_count(found['deletedRows'])} in {plural(found['files'], 'file')} with a deletion vector"


def _statistics(found: JsonObject) -> str:
    indexed = [one for one in found["columns"] if one["indexed"]]
    empty = [one["column"] for one in indexed if one["canSkip"] and not one["withBounds"]]
    useful = found["usefulColumns"] - len(empty)
    said = f"{useful} of {plural(found['indexedColumns'], 'indexed column')} can leave files out"
    if empty:
        said += f"; without bounds in any file: {summarize_names(empty, _NAMED)}"
    if found["filesWithout"]:
        said += f"; {plural(found['filesWithout'], 'file')} without statistics"
    return said


def _removed(content: JsonObject) -> Iterator[str]:
    tombstones, unreferenced = content["tombstones"], content["unreferenced"]
    said = f"{format_count(tombstones['count'])} in the log, "
    said += f"{format_count(tombstones['expired'])} expired by deletion time"
    if unreferenced is not None:
        size = format_size(unreferenced["sizeBytes"])
        said += f"; {plural(unreferenced['files'], 'unreferenced file')} on the store ({size})"
    yield said


def _log(found: JsonObject) -> str:
    since = "without a checkpoint"
    if found["checkpointVersion"] is not None:
        since = f"after checkpoint {found['checkpointVersion']}"
    behind = f"{plural(found['commitsBehind'], 'commit')} {since}"
    return f"{format_file_totals(found['files'], found['sizeBytes'])}; {behind}"


def _growth(found: JsonObject | None) -> Iterator[str]:
    if found is None:
        return
    yield growth(found)


def _cost(found: JsonObject) -> Iterator[str]:
    per_month = format_count(found["requestsPerMonth"])
    yield f"{format_count(found['requestsPerRead'])} requests per read, {per_month} per month"
    prices = found["prices"]
    parts = [
        f"about {dollars(found[name])} for {what}"
        for name, what in (("storageDollarsPerMonth", "storage"), ("requestDollarsPerMonth", "requests"))
        if found[name] is not None
    ]
    yield f"{' and '.join(parts)} per month ({prices['source']})" if parts else prices["source"]
