"""What the commands of `share` show: recipients, tokens, keys, profiles, shared tables, pulls, and the check of a
configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.render.columns import Column, Section, file_amount, item_columns
from deltacli.cli.results import Listing, Outcome, write_sections
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.core.documents import SCHEMA_VERSION
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_age, format_moment, format_size, format_timestamp, plural

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.sharing.client.table_requests import ListedEntry
    from deltacli.sharing.configuration.recipients import CreatedToken, Recipient, TokenRecord
    from deltacli.sharing.configuration.secrets import Profile
    from deltacli.sharing.configuration.share_check import CheckReport
    from deltacli.sharing.model import Problem
    from deltacli.sharing.pulling.pull import PullResult, WrittenRows
    from deltacli.sharing.signing.keys import ServerKey, ServerKeys


_LONGEST_SHOWN = 120
"""Characters of a comment."""


def share_fields(kind: str, **fields: object) -> dict[str, Json]:
    """Return the first fields of a document that is not about one table."""
    known = {name: value for name, value in fields.items() if value is not None}
    return {"kind": f"deltacli.{kind}", "schemaVersion": SCHEMA_VERSION, "complete": True, **known}


def recipients_result(
    file: Path, recipients: Sequence[Recipient], now_ms: int, *, action: str = "list", dry_run: bool | None = None
) -> Listing[JsonObject]:
    """Return recipients: all of them, or the one that was changed."""
    items = [one.as_json(now_ms) for one in recipients]
    columns: list[Column[JsonObject]] = [
        Column("name", lambda one: one["name"], priority=1),
        Column("grants", lambda one: ", ".join(one["grants"]), priority=1, folds=True, least=12),
        Column("tokens", lambda one: _count(one, "active"), right=True, priority=2),
        Column("expired", lambda one: _count(one, "expired"), right=True, priority=4),
        Column("comment", lambda one: one.get("comment"), priority=3, folds=True),
    ]
    said = [] if items else [Section("recipients", ["none"])]
    if action == "remove" and not dry_run:
        said = [Section("removed", [f"{one.name}, with {what_of(one)}" for one in recipients], Style.GOOD)]
    fields = share_fields("share-recipients", recipientsFile=str(file), action=action, dryRun=dry_run)
    return Listing(fields, "share-recipient", items, columns, items, items_name="recipients", said=lambda _: said)


def tokens_result(
    file: Path,
    recipients: Sequence[Recipient],
    now_ms: int,
    *,
    action: str = "list",
    dry_run: bool | None = None,
    created: CreatedToken | None = None,
    profile: str | None = None,
) -> Listing[JsonObject]:
    """Return tokens: those of recipients, or the one that was `created`, in clear text unless a profile has it."""
    items = [
        _token_item(one, token, now_ms, created, profile)
        for one in recipients
        for token in one.tokens
        if created is None or token.token_id == created.record.token_id
    ]
    fields = share_fields("share-tokens", recipientsFile=str(file), action=action, dryRun=dry_run)
    said = [] if items else [Section("tokens", ["none"])]
    if action == "revoke" and not dry_run:
        revoked = [f"{one['id']} of {one['recipient']}" for one in items]
        said = [Section("revoked", revoked or ["nothing: no token is left"], Style.GOOD)]
    if created is not None:
        said = _created_sections(items[0])
    columns = _token_columns(now_ms, has_secret=created is not None)
    return Listing(fields, "share-token", items, columns, items, items_name="tokens", said=lambda _: said)


def _token_columns(now_ms: int, *, has_secret: bool) -> list[Column[JsonObject]]:
    columns: list[Column[JsonObject]] = [
        Column("recipient", lambda one: one["recipient"], priority=1),
        Column("id", lambda one: one["id"], priority=1),
        Column("state", lambda one: one["state"], priority=1, style=_style),
        Column(
            "created", lambda one: one.get("created"), text=_age_of("createdMs", now_ms), priority=3, is_rounded=True
        ),
        Column(
            "expires", lambda one: one.get("expires"), text=_age_of("expiresMs", now_ms), priority=2, is_rounded=True
        ),
        Column("notBefore", lambda one: one.get("notBefore"), priority=4),
    ]
    if has_secret:
        columns += [
            Column("token", lambda one: one.get("token"), priority=1, on_screen=False),
            Column("profile", lambda one: one.get("profile"), priority=4, on_screen=False),
        ]
    return columns


def _token_item(
    one: Recipient, token: TokenRecord, now_ms: int, created: CreatedToken | None, profile: str | None
) -> dict[str, Json]:
    item = {"recipient": one.name, **token.as_json(now_ms)}
    if created is None:
        return item
    return {**item, **({"token": created.text} if profile is None else {"profile": profile})}


def _created_sections(item: JsonObject) -> list[Section]:
    expires = format_moment(item["expiresMs"]) + " UTC" if "expiresMs" in item else "never"
    lines = {name: item.get(name) for name in ("recipient", "id", "token", "profile")}
    sections = [Section(name, [text]) for name, text in lines.items() if text is not None]
    return [*sections, Section("expires", [expires])]


def _age_of(name: str, now_ms: int) -> Any:  # Any: Callable[[JsonObject], str]
    return lambda one: format_age(one[name], now_ms) if name in one else "never"


def _count(recipient: JsonObject, state: str) -> int:
    return sum(token["state"] == state for token in recipient["tokens"])


def _style(one: JsonObject) -> Style:
    return Style.PLAIN if one["state"] == "active" else Style.PROBLEM


def what_of(recipient: Recipient) -> str:
    """Return what a recipient has, for questions."""
    return f"{plural(len(recipient.tokens), 'token')} and {plural(len(recipient.grants), 'grant')}"


def keys_result(file: Path, keys: ServerKeys, now_ms: int, *, dry_run: bool) -> Listing[JsonObject]:
    """Return the keys after a rotation, newest first. The new one has no id before it is made."""
    items = [_item(key, keys, now_ms) for key in keys.keys]
    if dry_run:
        items[0]["id"] = "new"
    columns: list[Column[JsonObject]] = [
        Column("id", lambda one: one["id"], priority=1),
        Column("state", lambda one: one["state"], priority=1),
        Column("starts", lambda one: one["starts"], text=_age_of("startsMs", now_ms), priority=2, is_rounded=True),
        Column(
            "retires", lambda one: one.get("retires"), text=_age_of("retiresMs", now_ms), priority=2, is_rounded=True
        ),
    ]
    fields = share_fields("share-keys", keyFile=str(file), action="rotate", dryRun=dry_run)
    return Listing(fields, "share-key", items, columns, items, items_name="keys")


def _item(key: ServerKey, keys: ServerKeys, now_ms: int) -> dict[str, Json]:
    is_signing = key.id == keys.signing("", now_ms).id
    state = "signing" if is_signing else "starting" if key.starts_ms > now_ms else "accepted"
    item = {"id": key.id.hex(), "state": state, "startsMs": key.starts_ms, "starts": format_timestamp(key.starts_ms)}
    if key.retires_ms is None:
        return item
    return {**item, "retiresMs": key.retires_ms, "retires": format_timestamp(key.retires_ms)}


def profile_result(profile: Profile, problems: Sequence[Problem], now_ms: int) -> Listing[JsonObject]:
    """Return a profile and its problems. CSV has a line for each problem."""
    items = [problem.as_json() for problem in problems]
    fields = share_fields("share-profile") | profile.as_json()
    content = profile.as_json()
    last = {"type": "share-profile", "credentialsType": content.pop("type"), **content}
    sections = [*_sections(profile, now_ms), *_problem_sections(problems)]
    return Listing(
        fields,
        "profile-problem",
        items,
        item_columns(("code", "severity", "message")),
        items,
        items_name="problems",
        last=last,
        said=lambda _: sections,
        lists=False,
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


def listing_result(profile: str, entries: Sequence[ListedEntry]) -> Listing[JsonObject]:
    """Return what a profile gives access to. A share without schemas, and a schema without tables, has an entry."""
    items = [_as_json(entry) for entry in entries]
    columns = [*item_columns(("share", "schema", "table")), Column("id", lambda one: one.get("id"), on_screen=False)]
    if any(entry.access_modes for entry in entries):
        columns.append(Column("accessModes", lambda one: " ".join(one.get("accessModes", ())) or None))
    for name in ("displayName", "comment"):
        if any(name in item for item in items):
            columns.append(Column(name, partial(_shown, name), on_screen=name == "displayName"))
    fields = share_fields("share-ls", profile=profile)
    return _Tree(fields, "share-entry", items, columns, items, tree=partial(_draw, profile, entries))


@dataclass(eq=False, repr=False, kw_only=True)
class _Tree(Listing[JsonObject]):
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


def _shown(name: str, item: JsonObject) -> str | None:
    """Return a text of a server on one line, without control characters, cut."""
    from deltacli.sharing.client.faults import clean

    return clean(item[name])[:_LONGEST_SHOWN] if name in item else None


def _draw(profile: str, entries: Sequence[ListedEntry], canvas: Canvas) -> None:
    """Draw the names as a tree."""
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
                    shown = f"{name} ({_shown('displayName', {'displayName': entry.about.display_name})})"
                branches[(*path, name)] = branches[path].add(canvas.text(shown, style))
            path = (*path, name)
    canvas.draw(root)


_OF_TABLE = ("target", "sharedVersion", "localVersion", "committed", "filesAdded", "filesRemoved")
_OF_ROWS = ("target", "as", "sharedVersion", "rows", "filesWritten", "bytesWritten")
_OF_PLAN = ("target", "sharedVersion", "filesToDownload", "bytesToDownload")


def pull_outcome(table: str, result: PullResult) -> Outcome:
    """Return the outcome of pulling a Delta table."""
    content = {"as": "delta", **result.as_json()}
    columns = _OF_PLAN if result.dry_run else _OF_TABLE
    return Outcome("share-pull", table, content, lambda: _table_sections(table, result), [content], columns)


def rows_outcome(table: str, written: WrittenRows) -> Outcome:
    """Return the outcome of pulling rows."""
    content = written.as_json()
    columns = _OF_PLAN if written.dry_run else _OF_ROWS
    return Outcome("share-pull", table, content, lambda: _row_sections(table, written), [content], columns)


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
        files = f"{rows} in {file_amount(written.files, written.size_bytes)}"
    return [
        Section("table", [table]),
        Section("target", [written.target]),
        Section("shared version", [str(written.shared_version)]),
        Section("to read" if written.dry_run else "written", [files]),
    ]


_MOST_OF_ONE_CODE = 5


class _CheckResult(Listing[JsonObject]):
    """The tables, then the problems and a verdict."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if self.rows:
            self.draw_rows(sink, terminal)
            sink.write(b"\n")
        write_sections(sink, terminal, self.sections(terminal))


def configuration_check_result(report: CheckReport) -> _CheckResult:
    """Return the tables of a configuration, and what is wrong."""
    items = [table.as_json() for table in report.tables]
    columns: list[Column[JsonObject]] = [
        Column("table", lambda one: one["name"], priority=1, folds=True, least=24),
        Column("location", lambda one: one["location"], on_screen=False),
        Column("version", lambda one: one.get("version"), right=True, priority=2),
        Column("history", _history, priority=3),
        Column("formats", lambda one: " ".join(one.get("formats", ())), priority=3, least=13),
        Column("features", lambda one: " ".join(one.get("features", ())), priority=3, folds=True),
        Column("clients", _clients, _clients_shown, priority=1, folds=True, least=12),
        Column("problems", _codes, _counts, _check_style, priority=1, least=10),
    ]
    problems = [problem.as_json() for problem in report.problems]
    content = {"level": "storage" if report.has_files else "log", "problems": problems, "summary": report.summary()}
    fields = share_fields("share-check", configuration=str(report.configuration.path), **content)
    last = {"type": "share-check", "configuration": str(report.configuration.path), **content}
    said = _check_sections(report)
    return _CheckResult(
        fields, "shared-table", items, columns, items, items_name="tables", last=last, said=lambda _: said
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


def _history(one: JsonObject) -> str:
    if not one["historyShared"]:
        return "newest only"
    return f"from {one['startVersion']}" if one["startVersion"] else "all"


def _clients(one: JsonObject) -> str:
    return " ".join(client["name"] for client in one["clients"] if client["reads"])


def _clients_shown(one: JsonObject) -> str:
    reading = [client["reads"] for client in one["clients"]]
    return "all" if reading and all(reading) else _clients(one) or "none"


def _codes(one: JsonObject) -> str:
    return " ".join(dict.fromkeys(problem["code"] for problem in one["problems"]))


def _counts(one: JsonObject) -> str:
    severities = [problem["severity"] for problem in one["problems"]]
    counts = [(severities.count(name), name) for name in ("error", "warning")]
    return ", ".join(plural(count, name) for count, name in counts if count) or "none"


def _check_style(one: JsonObject) -> Style:
    return Style.PROBLEM if any(problem["severity"] == "error" for problem in one["problems"]) else Style.PLAIN
