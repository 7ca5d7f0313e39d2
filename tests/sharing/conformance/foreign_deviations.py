"""What a server of somebody else does wrong: for each rule of 2026 one deviation that it, and if possible only it,
reports.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.sharing.asgi import Reply
from tests.sharing.conformance.edits import When, body, document, drop, header, lines, on, status
from tests.sharing.conformance.faulty import Call, Change
from tests.sharing.conformance.foreign import AWS, CAPABILITIES, HOUR_MS, ROOTS, SAS, Foreign, granted, refused
from tests.sharing.served import NOW_MS

Edit = Callable[[Reply], Reply]
BOTH: Mapping[str, Any] = {"modes": ("url", "dir")}
ON_AZURE: Mapping[str, Any] = {**BOTH, "cloud": "abfss"}
ONLY_DIR: Mapping[str, Any] = {"modes": ("dir",)}
AUXILIARY: Mapping[str, Any] = {**BOTH, "auxiliary": ("s3://acme-old/shallow",)}
ASYNC: Mapping[str, Any] = {"is_asynchronous": True}
OPEN: Mapping[str, Any] = {"is_opensharing": True}
ROOT = ROOTS["s3"]


@dataclass(frozen=True)
class Planted:
    """A change of the answers of a server that offers something, or of the server itself, which gets an empty directory
    for it. The rules in `also` report it, too.
    """

    offers: Mapping[str, Any]
    change: Change | None = None
    also: tuple[str, ...] = ()
    level: str = "footers"
    scope: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Foreign, Path], None] = lambda _server, _empty: None


def _members(when: When, change: Callable[[dict[str, Any]], object]) -> Change:
    """Change what lists and metadata have of a table."""

    def in_metadata(found: list[Any]) -> None:
        change(found[1]["metaData"])

    def edit(call: Call, reply: Reply) -> Reply:
        if reply.status != 200 or not when(call):
            return reply
        if call.path.endswith("tables"):
            return document(lambda found: [change(item) for item in found["items"]] and None)(reply)
        if call.rest == "metadata":
            return lines(in_metadata)(reply)
        return reply

    return edit


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:  # Any: JSON values
    """Set members, or remove those that are None."""

    def change(fields: dict[str, Any]) -> None:
        for name, value in values.items():
            fields.pop(name, None)
            if value is not None:
                fields[name] = value

    return change


def everywhere(_: Call) -> bool:
    return True


def metadata(call: Call) -> bool:
    return call.rest == "metadata"


def _nested(fields: dict[str, Any]) -> None:
    if "deltaMetadata" in fields:
        fields["deltaMetadata"]["accessModes"] = fields["accessModes"]


def _posts(when: Callable[[Call], bool] = everywhere) -> When:
    """Choose requests for credentials."""
    return lambda call: call.rest == "temporary-table-credentials" and when(call)


def _credential(**values: Any) -> Change:  # Any: JSON values
    """Change the members of all credentials."""
    return on(_posts(), document(lambda found: _set(**values)(found["credentials"])))


def _at(name: str) -> Callable[[Call], bool]:
    return lambda call: str(call.body.get("location", "")).endswith(name)


def _sas(pattern: str, by: str) -> Change:
    return _credential(azureUserDelegationSas={"sasToken": re.sub(pattern, by, SAS)})


def _given(when: Callable[[Call], bool]) -> Change:
    """Give credentials where none should be given."""

    def change(call: Call, reply: Reply) -> Reply:
        return granted("s3", f"{ROOT}/{call.table}") if _posts(when)(call) else reply

    return change


def _submits(call: Call) -> bool:
    return call.rest == "query" and any(name.startswith("idempotency") for name in call.body)


def _polls(call: Call) -> bool:
    return call.rest.startswith("queries/")


def _pending(change: Callable[[dict[str, Any]], object], when: When = everywhere) -> Change:
    """Change each queryStatus."""

    def in_line(found: list[Any]) -> None:
        change(found[0]["queryStatus"])

    def edit(call: Call, reply: Reply) -> Reply:
        if when(call) and b'"queryStatus"' in reply.body:
            return lines(in_line)(reply)
        return reply

    return edit


def _result(edit: Edit, when: Callable[[Call], bool] = everywhere) -> Change:
    """Change the results of polls."""

    def change(call: Call, reply: Reply) -> Reply:
        is_result = _polls(call) and when(call) and reply.status == 200 and b'"queryStatus"' not in reply.body
        return edit(reply) if is_result else reply

    return change


def _after_submission(change: Callable[[Foreign], None]) -> Callable[[Foreign, Path], None]:
    """Change what the server remembers after each submission."""

    def prepare(server: Foreign, _: Path) -> None:
        submit = server.submit

        def changed(asked: Call, key: str, headers: Mapping[str, str]) -> Reply:
            reply = submit(asked, key, headers)
            change(server)
            return reply

        server.submit = changed  # type: ignore[method-assign]

    return prepare


def _forget_parameters(server: Foreign) -> None:
    for query in server.queries.values():
        query.body = {name: value for name, value in query.body.items() if name == "maxFiles"}


def _number(server: Foreign, _: Path) -> None:
    server.name_query = lambda number: f"query-{number}"


def _whole_for_any_id(call: Call, reply: Reply) -> Reply:
    if _polls(call) and "no-such" in call.rest:
        return Reply(200, {"content-type": "application/x-ndjson", "delta-table-version": "0"}, b"")
    return reply


def _unasked(call: Call, reply: Reply) -> Reply:
    is_one = call.rest == "query" and call.table == "part" and "fileidhash" in call.headers and call.wants_delta
    line = {"queryStatus": {"queryId": "x", "status": "pending"}}
    return replace(reply, body=json.dumps(line).encode()) if is_one else reply


def _without_features(found: list[Any]) -> None:
    found[0]["protocol"].get("deltaProtocol", {}).pop("readerFeatures", None)


def _numbered(found: list[Any]) -> None:
    found[-1]["endStreamAction"]["minUrlExpirationTimestamp"] = "soon"


def _shares(change: Callable[[dict[str, Any]], object], *, list_only: bool = False) -> Change:
    """Change the shares, in the list and as such."""

    def edit(found: dict[str, Any]) -> None:
        for share in found["items"] if "items" in found else [found["share"]]:
            change(share)

    def when(call: Call) -> bool:
        return call.path.lower() in ("shares", *([] if list_only else ["shares/sales"]))

    return on(when, document(edit))


def _moved(to: str) -> Callable[[Foreign, Path], None]:
    """Put the table `to` where `part` is said to be."""

    def prepare(server: Foreign, _: Path) -> None:
        server.directories = {**server.directories, "part": server.directories[to]}

    return prepare


def _without_history(call: Call, reply: Reply) -> Reply:
    return refused(400) if call.rest == "query" and "version" in call.body else reply


def _leak(server: Foreign, _: Path) -> None:
    server.leaks = True


def _gone(server: Foreign, _: Path) -> None:
    server.directories = {name: path for name, path in server.directories.items() if name != "part"}


def _elsewhere(start: str) -> Callable[[Foreign, Path], None]:
    """Let the log name its files by paths with another start."""

    def prepare(server: Foreign, empty: Path) -> None:
        copied = shutil.copytree(server.directories["part"], empty / "part")
        for commit in (copied / "_delta_log").glob("*.json"):
            commit.write_text(commit.read_text().replace('"path":"', f'"path":"{start}'))
        server.directories = {**server.directories, "part": copied}

    return prepare


ACCESS: dict[str, Planted] = {
    "access-modes-form": Planted(BOTH, _members(everywhere, _set(accessModes=["url", "dir", "dir"]))),
    "access-mode-unknown": Planted(BOTH, _members(everywhere, _set(accessModes=["url", "DIR"]))),
    "access-modes-differ": Planted(BOTH, _members(metadata, _set(accessModes=["url"]))),
    "access-location-missing": Planted(BOTH, _members(metadata, _set(location=None))),
    "access-location-form": Planted(
        {"modes": ("url",)}, _members(everywhere, _set(location="s3://acme-lake/grid/../other"))
    ),
    "access-location-differs": Planted(BOTH, _members(lambda call: call.path.endswith("/tables"), _set(location=ROOT))),
    "access-nesting": Planted(BOTH, _members(metadata, _nested)),
    "auxiliary-form": Planted(BOTH, _members(everywhere, _set(auxiliaryLocations=["s3://acme-lake/grid"]))),
    "url-mode-broken": Planted(BOTH, on(lambda call: call.rest == "query" and call.table == "part", status(400))),
    "dir-only-query": Planted(
        ONLY_DIR, on(lambda call: call.rest == "query", status(500), only_ok=False), ("server-error",)
    ),
    "dir-only-metadata": Planted(ONLY_DIR, on(metadata, status(400))),
    "dir-unannounced": Planted({}, _given(everywhere)),
}
"""Rule -> what it reports."""

CREDENTIALS: dict[str, Planted] = {
    "credential-answer": Planted(BOTH, on(_posts(), lambda reply: replace(reply, body=reply.body * 2))),
    "credential-one-cloud": Planted(BOTH, _credential(gcpOauthToken={"oauthToken": "planted-token"})),
    "credential-cloud-fits": Planted(
        BOTH, _credential(awsTempCredentials=None, gcpOauthToken={"oauthToken": "planted-token"})
    ),
    "credential-location": Planted(BOTH, _credential(location=f"{ROOT}/other")),
    "credential-broad": Planted(BOTH, _credential(location=ROOT)),
    "credential-expiry": Planted(BOTH, _credential(expirationTime=NOW_MS // 1000 + 3600)),
    "credential-short": Planted(BOTH, _credential(expirationTime=NOW_MS + 60_000)),
    "credential-long-lived": Planted(
        BOTH, _credential(awsTempCredentials={**AWS, "accessKeyId": "AKIAPLANTED0000000001"})
    ),
    "credential-sas": Planted(ON_AZURE, _sas("sr=d", "sr=c")),
    "credential-body": Planted(BOTH, on(_posts(lambda call: call.raw is None), status(400)), ("credential-answer",)),
    "credential-malformed": Planted(BOTH, _given(lambda call: call.raw == b"{")),
    "credential-outside": Planted(BOTH, _given(_at("0"))),
    "credential-unauthenticated": Planted(BOTH, _given(lambda call: not call.token)),
    "credential-cacheable": Planted(BOTH, on(_posts(), header("cache-control", "public, max-age=60"))),
}

DIRECTORIES: dict[str, Planted] = {
    "dir-history": Planted(BOTH, _without_history),
    "dir-unreadable": Planted(BOTH, prepare=_gone),
    "dir-differs": Planted(BOTH, prepare=_moved("feed")),
    "dir-paths-outside": Planted(BOTH, prepare=_elsewhere("s3://acme-other/part/")),
    "dir-scope": Planted(BOTH, scope={"probes": True}, prepare=_leak),
}

ASYNCHRONOUS: dict[str, Planted] = {
    "async-unasked": Planted({}, _unasked),
    "async-refused": Planted({}, on(lambda call: "asyncquery" in call.headers.get(CAPABILITIES, ""), status(400))),
    "async-echo": Planted(
        {},
        on(
            _submits,
            lambda reply: header(CAPABILITIES, f"{reply.headers.get(CAPABILITIES, '')};asyncquery=true")(reply),
        ),
    ),
    "async-status": Planted(ASYNC, _pending(lambda found: found.update(status="succeeded"), _polls)),
    "async-deduplicate": Planted(ASYNC, prepare=_after_submission(lambda server: server.keys.clear())),
    "async-spark": Planted(ASYNC, on(lambda call: "idempotency_key" in call.body, status(400))),
    "async-version-header": Planted(ASYNC, _result(header("delta-table-version", None)), ("version-header",)),
    "async-result-differs": Planted(
        ASYNC, _result(drop(-1), lambda call: not call.body and call.table == "part"), ("async-parameters-lost",)
    ),
    "async-parameters-lost": Planted(ASYNC, prepare=_after_submission(_forget_parameters)),
    "async-pages": Planted(ASYNC, _result(drop(2), lambda call: "pageToken" in call.body)),
    "async-unknown-id": Planted(ASYNC, _whole_for_any_id),
    "async-id-names": Planted(ASYNC, prepare=_number),
}

SHARES: dict[str, Planted] = {
    "share-metadata-form": Planted({}, _shares(lambda share: share.update(properties={"team": 7}))),
    "share-metadata-limits": Planted({}, _shares(lambda share: share.update(displayName="x" * 300))),
    "get-table": Planted(
        {},
        on(lambda call: call.method == "GET" and bool(call.table) and not call.rest, document(_set(format="parquet"))),
        scope=OPEN,
    ),
    "head-table": Planted(
        {},
        on(lambda call: call.method == "HEAD", header("delta-table-version", None)),
        ("version-head",),
        scope=OPEN,
    ),
    "asset-route": Planted(
        {}, on(lambda call: call.path.endswith("volumes"), body(b"<p>no</p>"), only_ok=False), scope=OPEN
    ),
}

PLANTED: dict[str, Planted] = {
    f"share.{rule}": planted
    for group in (ACCESS, CREDENTIALS, DIRECTORIES, ASYNCHRONOUS, SHARES)
    for rule, planted in group.items()
}

MORE: list[tuple[str, Planted]] = [
    ("access-modes-form", Planted(BOTH, _members(everywhere, _set(accessModes="dir")))),
    ("access-modes-form", Planted(BOTH, _members(everywhere, _set(accessModes=[])))),
    ("access-location-form", Planted({"modes": ("url",)}, _members(everywhere, _set(location="file:///lake/part")))),
    ("access-location-form", Planted({"modes": ("url",)}, _members(everywhere, _set(location="s3://u:p@lake/part")))),
    ("auxiliary-form", Planted(AUXILIARY, on(_posts(_at("shallow")), status(400)))),
    ("credential-answer", Planted(BOTH, on(_posts(), header("content-type", "text/plain")))),
    ("credential-answer", Planted(BOTH, on(_posts(lambda call: bool(call.token)), status(405), only_ok=False))),
    (
        "credential-one-cloud",
        Planted(BOTH, _credential(awsTempCredentials={"accessKeyId": "ASIA"}), ("credential-long-lived",)),
    ),
    ("credential-expiry", Planted(BOTH, _credential(expirationTime=NOW_MS + 48 * HOUR_MS))),
    ("credential-expiry", Planted(BOTH, _credential(expirationTime=str(NOW_MS + HOUR_MS)))),
    ("credential-long-lived", Planted(ON_AZURE, _sas("skoid=planted", "x=y"))),
    ("credential-sas", Planted(ON_AZURE, _sas("sp=rl", "sp=rwl"))),
    ("credential-sas", Planted(ON_AZURE, _sas("sdd=2", "sdd=1"))),
    ("credential-sas", Planted(ON_AZURE, _sas("spr=https", "spr=https,http"))),
    ("credential-body", Planted(BOTH, on(_posts(lambda call: call.raw == b""), status(400)))),
    ("credential-outside", Planted(BOTH, _given(_at("/grid")))),
    ("credential-outside", Planted(BOTH, _given(lambda call: "%2e" in str(call.body.get("location"))))),
    ("dir-paths-outside", Planted(BOTH, prepare=_elsewhere("../other/"))),
    ("dir-paths-outside", Planted(BOTH, prepare=_elsewhere("%2e%2e/part0/"))),
    ("async-status", Planted(ASYNC, _pending(lambda found: found.update(queryId=""), _submits))),
    ("async-status", Planted(ASYNC, _pending(lambda found: found.update(queryId="other"), _polls))),
    ("async-result-differs", Planted(ASYNC, _pending(lambda found: found.update(status="failed"), _polls))),
    ("async-spark", Planted(ASYNC, on(_submits, header("delta-table-version", None)))),
    ("share-metadata-form", Planted({}, _shares(lambda share: share.update(comment="other"), list_only=True))),
    ("protocol-line", Planted({}, on(metadata, lines(_without_features)))),
    ("metadata-field", Planted({}, on(metadata, lines(lambda found: found[1]["metaData"].update(numFiles="7"))))),
    ("line-wrapper", Planted({}, on(lambda call: "includeRefreshToken" in call.body, lines(_numbered)))),
]
"""Rule, and another deviation that it reports."""
