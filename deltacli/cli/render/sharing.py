"""What the commands of `share` show: recipients, tokens, keys, profiles, shared tables, pulls, and the check of a
configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.times import format_age, format_moment, format_timestamp
from deltacli.core.typing import Json
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.sharing.client.table_requests import ListedEntry
    from deltacli.sharing.configuration.recipients import CreatedToken, Identity, Recipient
    from deltacli.sharing.configuration.secrets import Profile
    from deltacli.sharing.configuration.share_check import CheckReport, TableReport
    from deltacli.sharing.model import Problem
    from deltacli.sharing.pulling.pull import PullResult, WrittenRows
    from deltacli.sharing.signing.keys import ServerKeys


_LONGEST_SHOWN = 120
"""Characters of a comment."""


def share_fields(kind: str, **fields: object) -> dict[str, Json]:
    known = {name: value for name, value in fields.items() if value is not None}
    return {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "complete": True, **known}


def recipients_result(
    file: Path, recipients: Sequence[Recipient], now_ms: int, *, action: str = "list", dry_run: bool | None = None
) -> ListResult[Recipient]:
    """Return recipients: all of them, or the one that was changed."""
    from deltacli.sharing.configuration.recipients import TokenState, spelled

    def count(one: Recipient, state: TokenState) -> int:
        return sum(token.state(now_ms) is state for token in one.tokens)

    columns: list[Column[Recipient]] = [
        Column("name", lambda one: one.name, priority=1),
        Column("grants", lambda one: ", ".join(map(spelled, one.grants)), priority=1, wraps=True, min_width=12),
        Column("tokens", lambda one: count(one, TokenState.ACTIVE), align_right=True, priority=2),
        Column("expired", lambda one: count(one, TokenState.EXPIRED), align_right=True, priority=4),
        Column("comment", lambda one: one.comment, priority=3, wraps=True),
    ]
    items = [one.as_json(now_ms) for one in recipients]
    said = [] if items else [Section("recipients", ["none"])]
    if action == "remove" and not dry_run:
        said = [Section("removed", [f"{one.name}, with {describe_recipient(one)}" for one in recipients], Style.GOOD)]
    fields = share_fields("share-recipients", recipientsFile=str(file), action=action, dryRun=dry_run)
    return ListResult(
        fields, "share-recipient", items, columns, recipients, items_name="recipients", make_sections=lambda _: said
    )


def tokens_result(
    file: Path,
    recipients: Sequence[Recipient],
    now_ms: int,
    *,
    action: str = "list",
    dry_run: bool | None = None,
    created: CreatedToken | None = None,
    profile: str | None = None,
) -> ListResult[Identity]:
    """Return tokens: those of recipients, or the one that was `created`, in clear text unless a profile has it."""
    from deltacli.sharing.configuration.recipients import Identity, TokenState

    rows = [
        Identity(one, token)
        for one in recipients
        for token in one.tokens
        if created is None or token.token_id == created.record.token_id
    ]
    secret = {} if created is None else {"token": created.text} if profile is None else {"profile": profile}
    items = [{"recipient": one.recipient.name, **one.token.as_json(now_ms), **secret} for one in rows]
    fields = share_fields("share-tokens", recipientsFile=str(file), action=action, dryRun=dry_run)
    said = [] if items else [Section("tokens", ["none"])]
    if action == "revoke" and not dry_run:
        revoked = [f"{one.token.token_id} of {one.recipient.name}" for one in rows]
        said = [Section("revoked", revoked or ["nothing: no token is left"], Style.GOOD)]
    if created is not None:
        expires_ms = rows[0].token.expires_ms
        expires = "never" if expires_ms is None else f"{format_moment(expires_ms)} UTC"
        lines = {"recipient": rows[0].recipient.name, "id": rows[0].token.token_id, **secret, "expires": expires}
        said = [Section(name, [text]) for name, text in lines.items()]
    columns: list[Column[Identity]] = [
        Column("recipient", lambda one: one.recipient.name, priority=1),
        Column("id", lambda one: one.token.token_id, priority=1),
        Column(
            "state",
            lambda one: one.token.state(now_ms),
            priority=1,
            style=lambda one: Style.PLAIN if one.token.state(now_ms) is TokenState.ACTIVE else Style.PROBLEM,
        ),
        _time_column("created", lambda one: one.token.created_ms, now_ms, priority=3),
        _time_column("expires", lambda one: one.token.expires_ms, now_ms, priority=2),
        Column("notBefore", lambda one: _time(one.token.not_before_ms), priority=4),
    ]
    if created is not None:
        columns += [
            Column("token", lambda _: secret.get("token"), priority=1, on_screen=False),
            Column("profile", lambda _: secret.get("profile"), priority=4, on_screen=False),
        ]
    return ListResult(fields, "share-token", items, columns, rows, items_name="tokens", make_sections=lambda _: said)


def _time(ms: int | None) -> str | None:
    return None if ms is None else format_timestamp(ms)


def _time_column(name: str, get: Callable[[Row], int | None], now_ms: int, priority: int) -> Column[Row]:
    """Return a column of times, on a screen of ages."""

    def age(one: Row) -> str:
        ms = get(one)
        return "never" if ms is None else format_age(ms, now_ms)

    return Column(name, lambda one: _time(get(one)), age, priority=priority, is_rounded=True)


def describe_recipient(recipient: Recipient) -> str:
    """Return what a recipient has, for questions."""
    return f"{plural(len(recipient.tokens), 'token')} and {plural(len(recipient.grants), 'grant')}"


def keys_result(file: Path, keys: ServerKeys, now_ms: int, *, dry_run: bool) -> ListResult[_KeyRow]:
    """Return the keys after a rotation, newest first. The new one has no id before it is made."""
    signing = keys.signing("", now_ms).id
    rows = [
        _KeyRow(
            "new" if dry_run and key is keys.keys[0] else key.id.hex(),
            "signing" if key.id == signing else "starting" if key.starts_ms > now_ms else "accepted",
            key.starts_ms,
            key.retires_ms,
        )
        for key in keys.keys
    ]
    columns: list[Column[_KeyRow]] = [
        Column("id", lambda one: one.id, priority=1),
        Column("state", lambda one: one.state, priority=1),
        _time_column("starts", lambda one: one.starts_ms, now_ms, priority=2),
        _time_column("retires", lambda one: one.retires_ms, now_ms, priority=2),
    ]
    fields = share_fields("share-keys", keyFile=str(file), action="rotate", dryRun=dry_run)
    return ListResult(fields, "share-key", [one.as_json() for one in rows], columns, rows, items_name="keys")


class _KeyRow(NamedTuple):
    id: str
    state: str
    starts_ms: int
    retires_ms: int | None

    def as_json(self) -> dict[str, Json]:
        item: dict[str, Json] = {"id": self.id, "state": self.state}
        times = {"starts": self.starts_ms, "retires": self.retires_ms}
        for name, ms in times.items():
            item |= {} if ms is None else {f"{name}Ms": ms, name: format_timestamp(ms)}
        return item


def profile_result(profile: Profile, problems: Sequence[Problem], now_ms: int) -> ListResult[Problem]:
    """Return a profile and its problems. CSV has a line for each problem."""
    columns: list[Column[Problem]] = [
        Column("code", lambda one: one.code),
        Column("severity", lambda one: one.severity),
        Column("message", lambda one: one.message),
    ]
    fields = share_fields("share-profile") | profile.as_json()
    content = profile.as_json()
    last = {"type": "share-profile", "credentialsType": content.pop("type"), **content}
    sections = [*_sections(profile, now_ms), *_problem_sections(problems)]
    return ListResult(
        fields,
        "profile-problem",
        [problem.as_json() for problem in problems],
        columns,
        problems,
        items_name="problems",
        last_line=last,
        make_sections=lambda _: sections,
        has_requested_rows=False,
    )


def _sections(profile: Profile, now_ms: int) -> list[Section]:
    content, expires_ms = profile.as_json(), profile.expires_ms
    expires = "never" if profile.expiration is None else "not a time"
    if expires_ms is not None:
        expires = f"{format_moment(expires_ms)} UTC, {format_age(expires_ms, now_ms)}"
    return [
        Section("profile", [str(profile.path)]),
        Section("version", [str(content["shareCredentialsVersion"])]),
        Section("endpoint", [str(content["endpoint"])]),
        Section("type", [profile.kind]),
        Section("secrets", [", ".join(content["secrets"]) or "none"]),
        Section("expires", [expires]),
        Section("readable by", ["other users, too" if profile.is_readable_by_others else "its owner"]),
    ]


def _problem_sections(problems: Sequence[Problem]) -> list[Section]:
    if not problems:
        return []
    return [Section("problems", [f"{one.severity}: {one.message}" for one in problems], Style.PROBLEM)]


def listing_result(profile: str, entries: Sequence[ListedEntry]) -> ListResult[ListedEntry]:
    """Return what a profile gives access to. A share without schemas, and a schema without tables, has an entry."""
    columns: list[Column[ListedEntry]] = [
        Column("share", lambda one: one.share),
        Column("schema", lambda one: one.schema),
        Column("table", lambda one: one.table),
        Column("id", lambda one: one.id, on_screen=False),
    ]
    if any(entry.access_modes for entry in entries):
        columns.append(Column("accessModes", lambda one: " ".join(one.access_modes) or None))
    if any(entry.about.display_name is not None for entry in entries):
        columns.append(Column("displayName", lambda one: _shown(one.about.display_name)))
    if any(entry.about.comment is not None for entry in entries):
        columns.append(Column("comment", lambda one: _shown(one.about.comment), on_screen=False))
    items = [_as_json(entry) for entry in entries]
    fields = share_fields("share-ls", profile=profile)
    return _Tree(fields, "share-entry", items, columns, entries, tree=partial(_draw, profile, entries))


@dataclass(eq=False, repr=False, kw_only=True)
class _Tree(ListResult["ListedEntry"]):
    """A list that a terminal shows as a tree."""

    tree: Callable[[Canvas], None]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not terminal.is_drawn:
            super().draw(sink, terminal)
            return
        from deltacli.cli.render.terminal.console import Canvas

        self.tree(Canvas(sink, terminal))


def _as_json(entry: ListedEntry) -> dict[str, Json]:
    found: dict[str, Json] = {
        "share": entry.share,
        "schema": entry.schema,
        "table": entry.table,
        "id": entry.id,
        "shareId": entry.share_id,
        "accessModes": list(entry.access_modes) or None,
        "location": entry.access.location,
        "auxiliaryLocations": list(entry.access.auxiliary) or None,
        "displayName": entry.about.display_name,
        "comment": entry.about.comment,
        "properties": dict(entry.about.properties) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _shown(text: str | None) -> str | None:
    """Return a text of a server on one line, without control characters, cut."""
    from deltacli.sharing.client.faults import clean

    return None if text is None else clean(text)[:_LONGEST_SHOWN]


def _draw(profile: str, entries: Sequence[ListedEntry], canvas: Canvas) -> None:
    from rich.tree import Tree

    root = Tree(canvas.text(profile, Style.HEADING), guide_style=str(Style.FRAME))
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for entry in entries:
        path: tuple[str, ...] = ()
        for name in (entry.share, entry.schema, entry.table):
            if name is None:
                break
            if (*path, name) not in branches:
                style = Style.TYPE if len(path) == 2 else Style.HEADING
                is_directory = len(path) == 2 and not entry.access.has_urls
                shown = f"{name} (shared by directory only)" if is_directory else name
                if not path and entry.about.display_name:
                    shown = f"{name} ({_shown(entry.about.display_name)})"
                branches[(*path, name)] = branches[path].add(canvas.text(shown, style))
            path = (*path, name)
    canvas.draw(root)


_OF_TABLE = ("target", "sharedVersion", "localVersion", "committed", "filesAdded", "filesRemoved")
_OF_ROWS = ("target", "as", "sharedVersion", "rows", "filesWritten", "bytesWritten")
_OF_PLAN = ("target", "sharedVersion", "filesToDownload", "bytesToDownload")


def pull_outcome(table: str, result: PullResult) -> SingleResult:
    content = {"as": "delta", **result.as_json()}
    columns = _OF_PLAN if result.dry_run else _OF_TABLE
    return SingleResult("share-pull", table, content, lambda: _table_sections(table, result), [content], columns)


def rows_outcome(table: str, written: WrittenRows) -> SingleResult:
    content = written.as_json()
    columns = _OF_PLAN if written.dry_run else _OF_ROWS
    return SingleResult("share-pull", table, content, lambda: _row_sections(table, written), [content], columns)


def _table_sections(table: str, result: PullResult) -> Sequence[Section]:
    difference = result.difference
    before = "" if result.before in (None, result.shared_version) else f", before: {result.before}"
    present = f"; {plural(difference.present, 'file')} present" if difference.present else ""
    if result.dry_run:
        files = f"{plural(len(difference.wanted), 'file')} to download, {format_size(difference.wanted_bytes)}"
    else:
        files = f"{plural(len(difference.wanted), 'file')} downloaded, {format_size(result.received_bytes)}"
    if result.decodes:
        present += "; all data decoded" if not result.dry_run else ""
    return [
        Section("table", [table]),
        Section("target", [result.directory]),
        Section("shared version", [f"{result.shared_version}{before}"]),
        Section("files", [files + present]),
        Section("commit", [_commit(result)]),
    ]


def _commit(result: PullResult) -> str:
    difference = result.difference
    changes = f"{plural(difference.added, 'file')} added, {plural(difference.removed, 'file')} removed"
    if result.dry_run:
        removed = f", and remove {plural(difference.removed, 'file')}" if difference.removed else ""
        return f"would add {plural(difference.added, 'file')}{removed}"
    if result.is_committed:
        return f"local version {result.local_version}: {changes}"
    return f"none: local version {result.local_version} has this version of the table"


def _row_sections(table: str, written: WrittenRows) -> Sequence[Section]:
    if written.dry_run:
        files = f"{plural(written.files, 'file')} to read, {format_size(written.size_bytes)}"
    else:
        rows = plural(written.rows or 0, "row")
        files = f"{rows} in {format_file_totals(written.files, written.size_bytes)}"
    return [
        Section("table", [table]),
        Section("target", [written.target]),
        Section("shared version", [str(written.shared_version)]),
        Section("to read" if written.dry_run else "written", [files]),
    ]


_MOST_OF_ONE_CODE = 5


class _CheckResult(ListResult["TableReport"]):
    """The tables, then the problems and a verdict."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            self.draw_rows(sink, terminal)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def configuration_check_result(report: CheckReport) -> _CheckResult:
    """Return the tables of a configuration, and what is wrong."""
    items = [table.as_json() for table in report.tables]
    columns: list[Column[TableReport]] = [
        Column("table", lambda one: one.table.full_name, priority=1, wraps=True, min_width=24),
        Column("location", lambda one: one.location, on_screen=False),
        Column("version", lambda one: one.version, align_right=True, priority=2),
        Column("history", _history, priority=3),
        Column("formats", lambda one: " ".join(one.formats), priority=3, min_width=13),
        Column("features", lambda one: " ".join(one.needs.features), priority=3, wraps=True),
        Column("clients", _clients, _clients_shown, priority=1, wraps=True, min_width=12),
        Column("problems", _codes, _counts, _check_style, priority=1, min_width=10),
    ]
    problems = [problem.as_json() for problem in report.problems]
    content = {"level": "storage" if report.has_files else "log", "problems": problems, "summary": report.summary()}
    fields = share_fields("share-check", configuration=str(report.configuration.path), **content)
    last = {"type": "share-check", "configuration": str(report.configuration.path), **content}
    said = _check_sections(report)
    return _CheckResult(
        fields,
        "shared-table",
        items,
        columns,
        report.tables,
        items_name="tables",
        last_line=last,
        make_sections=lambda _: said,
    )


def _check_sections(report: CheckReport) -> list[Section]:
    errors = _texts(problem for problem in report.all_problems if problem.is_error)
    warnings = _texts(problem for problem in report.all_problems if not problem.is_error)
    summary = report.summary()
    verdict = (
        f"{plural(summary['readable'], 'table')} of {summary['tables']} readable, "
        f"{plural(summary['errors'], 'error')}, {plural(summary['warnings'], 'warning')}"
    )
    return [
        Section("errors", errors, Style.PROBLEM),
        Section("warnings", warnings),
        Section("result", [verdict], Style.PROBLEM if errors else Style.GOOD),
    ]


def _texts(problems: Iterable[Problem]) -> list[str]:
    """Return a line for each problem, of those with one code only the first ones."""
    by_code: dict[str, list[str]] = {}
    for problem in problems:
        by_code.setdefault(problem.code, []).append(f"{problem.code}: {problem.message}")
    lines = []
    for code, texts in by_code.items():
        lines += texts[:_MOST_OF_ONE_CODE]
        if len(texts) > _MOST_OF_ONE_CODE:
            lines.append(f"{code}: and {len(texts) - _MOST_OF_ONE_CODE:,} more; --json has all of them")
    return lines


def _history(one: TableReport) -> str:
    if not one.table.history_shared:
        return "newest only"
    return f"from {one.table.start_version}" if one.table.start_version else "all"


def _clients(one: TableReport) -> str:
    return " ".join(client.name for client in one.clients if client.reads)


def _clients_shown(one: TableReport) -> str:
    is_all = one.clients and all(client.reads for client in one.clients)
    return "all" if is_all else _clients(one) or "none"


def _codes(one: TableReport) -> str:
    return " ".join(dict.fromkeys(problem.code for problem in one.problems))


def _counts(one: TableReport) -> str:
    severities = [problem.severity for problem in one.problems]
    counts = [(severities.count(name), name) for name in ("error", "warning")]
    return ", ".join(plural(count, name) for count, name in counts if count) or "none"


def _check_style(one: TableReport) -> Style:
    return Style.PROBLEM if any(problem.is_error for problem in one.problems) else Style.PLAIN
