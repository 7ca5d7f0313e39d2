"""The rules about access by directory: what is announced, the credentials, and the table that they lead to.

Secrets stay in memory, and in no finding. Of a table at most `MOST_GRANTS` credentials are asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, UsageError, parameter
from deltacli.core.typing import JsonObject
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.delta.paths.spelling_columns import locate
from deltacli.rules.framework.base import Level, Severity
from deltacli.sharing.conformance.lines import DELTA, PARQUET, Lines, object_of
from deltacli.sharing.conformance.versions import HEADERS, SharedTableTest
from deltacli.sharing.conformance.wire import MOST_BYTES, Rules, WireAnswer, WireRequest
from deltacli.sharing.protocol import directories

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.storage.grants import Grant
    from deltacli.table.version import Snapshot


ACCESS_AREA = Rules("Directory access", Level.API)

MODES_FORM = ACCESS_AREA.row("""error share.access-modes-form | accessModes, where it is present, is an array of
    strings, not empty and without duplicates. | List Tables in a Schema; Metadata (accessModes) | clients refuse the
    table | send an array such as ["url", "dir"] | "accessModes": "dir" """)
MODE_UNKNOWN = ACCESS_AREA.row("""warning share.access-mode-unknown | The access modes are url and dir, in lower case. |
    List Tables in a Schema; Metadata (accessModes) | clients that compare the text do not find the mode | send url and
    dir | ["DIR"]""")
MODES_DIFFER = ACCESS_AREA.row("""error share.access-modes-differ | The lists, and the metadata in both formats, have
    the same access modes of a table. | List Tables in a Schema; List all Tables in a Share; Metadata (accessModes) |
    clients choose a mode that is then refused | make all answers of one setting | dir in the list, and not in the
    metadata""")
LOCATION_MISSING = ACCESS_AREA.row("""error share.access-location-missing | A table that is offered by dir has a
    location. | List Tables in a Schema; Metadata (location: required for dir) | clients do not know where the table is
    | send the root of the table | dir without location""")
LOCATION_FORM = ACCESS_AREA.row("""error share.access-location-form | location is the absolute URI of a directory in a
    cloud store, without query, fragment, password and `..`. | List Tables in a Schema; Metadata (location) | clients
    refuse the table | send s3://, abfss:// or gs:// and the root | /lake/orders""")
LOCATION_DIFFERS = ACCESS_AREA.row("""error share.access-location-differs | Lists, metadata and credentials have one
    location of a table, as far as they have one. | List Tables in a Schema; Metadata (location); Generate Temporary
    Table Credential | clients refuse the credentials, or read another table | make all answers of one setting | another
    bucket in the metadata""")
NESTING = ACCESS_AREA.row("""error share.access-nesting | In delta format accessModes, location and auxiliaryLocations
    stand beside deltaMetadata, not inside it. | Metadata in Delta Format | clients do not find them | move them into
    metaData | deltaMetadata with accessModes""")
AUXILIARY = ACCESS_AREA.row("""error share.auxiliary-form | auxiliaryLocations is an array of URIs of cloud stores, none
    of them at or above the location, and credentials are given for each. | List Tables in a Schema; Metadata
    (auxiliaryLocations); Generate Temporary Table Credential (location) | clients cannot read files outside the root |
    list the roots of those files | the bucket of the table""")
URL_BROKEN = ACCESS_AREA.row("""error share.url-mode-broken | A table that is offered by url, or without modes, can be
    queried. | Metadata (accessModes: absent means url); Read Data from a Table | clients that read URLs only cannot
    read the table | answer the query, or offer dir only | 400 for the query of a table with url""")
DIR_ONLY_QUERY = ACCESS_AREA.row("""warning share.dir-only-query | The query of a table that is not offered by url is
    refused with 4xx and JSON. | Metadata (accessModes) | older clients repeat the query, or show no reason | answer 400
    and name access by directory | 500 for the query""")
DIR_ONLY_METADATA = ACCESS_AREA.row("""error share.dir-only-metadata | Version and metadata of a table that is not
    offered by url are answered. | Query Table Version; Query Table Metadata; Metadata (accessModes) | clients do not
    learn how the table can be read | answer them for every table | 400 for the metadata""")
_OF_MEMBERS = {
    "accessModes": (MODES_FORM, MODE_UNKNOWN),
    "location": (LOCATION_FORM,),
    "auxiliaryLocations": (AUXILIARY,),
}


class Face(NamedTuple):
    """An answer that describes how a table may be read, and the object in it."""

    name: str
    answer: WireAnswer
    fields: JsonObject


def check_access(table: SharedTableTest) -> None:
    """Compare what the lists and the metadata announce, and look whether it is so."""
    listed = [
        Face(path.rpartition("/")[2], WireAnswer(WireRequest(path), 200, {}, b""), item)
        for path, item in table.named.listed.items()
    ]
    require, faces = table.require, [*listed, *_metadata(table)]
    found = list[directories.TableAccess]()
    for face in faces:
        access, faults = directories.read_access(face.fields)
        present = [rules for name, rules in _OF_MEMBERS.items() if face.fields.get(name) is not None]
        present += [(LOCATION_MISSING,)] if access.has_directory else []
        table.report(faults, face.answer, *(rule for rules in present for rule in rules))
        found.append(access)
        table.may_announce |= access.has_directory or any(fault.rule == "access-modes-form" for fault in faults)
    modes = [
        ", ".join(sorted({directories.URL} if access.modes is None else access.modes)) or "none" for access in found
    ]
    seen = "; ".join(f"{face.name} {shown}" for face, shown in zip(faces, modes, strict=True))
    require(MODES_DIFFER, len(set(modes)) == 1, faces[-1].answer, "the answers have different access modes", seen=seen)
    roots = {directories.cloud_location(access.location)[0]: access.location for access in found if access.location}
    message = "the answers have different locations"
    if roots:
        require(LOCATION_DIFFERS, len(roots) == 1, faces[-1].answer, message, seen=", ".join(map(str, roots.values())))
    unnamed = (*(rule for rules in _OF_MEMBERS.values() for rule in rules), LOCATION_MISSING, LOCATION_DIFFERS)
    table.skip("no answer has the member", *unnamed)
    access = found[-1]
    for other in found[:-1]:
        access = access.intersection(other)
    table.access = access
    if not table.answers:
        return  # to a query, for a reason that was noted
    if access.has_urls:
        refused = [answer for answer in table.answers.values() if 400 <= answer.status < 500]
        is_read = len(refused) < len(table.answers) or table.version is None
        message = "a table that is offered by url is refused to every query"
        require(URL_BROKEN, is_read, next(iter(table.answers.values())), message, seen=[one.status for one in refused])
        table.skip("the table is offered by url", DIR_ONLY_QUERY, DIR_ONLY_METADATA)
        return
    table.skip("the table is not offered by url", URL_BROKEN)
    if not access.modes:
        table.skip("the table is offered neither by url nor by dir", DIR_ONLY_QUERY, DIR_ONLY_METADATA)
        return
    for answer in table.answers.values():
        is_refused = 400 <= answer.status < 500 and isinstance(answer.json, dict)
        table.require_status(DIR_ONLY_QUERY, is_refused, answer, "the query of a table without url")
    is_described = table.version is not None and len(faces) > len(listed)
    require(DIR_ONLY_METADATA, is_described, faces[-1].answer, "version or metadata of a table without url is refused")


def _metadata(table: SharedTableTest) -> Iterator[Face]:
    """Yield the metadata in both formats, as far as it is answered."""
    for form in (PARQUET, DELTA):
        lines = table.metadata.get(form) or table.read(table.ask("metadata", headers=HEADERS[form]))
        if lines is None or lines.form != form:
            continue
        table.metadata[form] = lines
        inside = [name for name in _OF_MEMBERS if lines.form == DELTA and name in lines.meta]
        table.require(NESTING, not inside, lines.answer, f"deltaMetadata has {', '.join(inside)}")
        yield Face(f"the metadata in {lines.form} format", lines.answer, lines.metadata)


# -- credentials -------------------------------------------------------------------------------------------------------

CREDENTIALS_AREA = Rules("Credentials", Level.API, spec="Generate Temporary Table Credential")

UNANNOUNCED = CREDENTIALS_AREA.row("""error share.dir-unannounced | Credentials are given only for a table that is
    offered by dir. | Metadata (accessModes); Generate Temporary Table Credential | everyone who may query the table
    sees its whole directory | refuse with 400, or announce dir | credentials for a table without accessModes""")
ANSWER = CREDENTIALS_AREA.row("""error share.credential-answer | The answer of a table that is offered by dir is 200,
    one JSON document with the object credentials, as application/json or application/x-ndjson. | Generate Temporary
    Table Credential (200: Body) | clients cannot read the table | send {"credentials": {…}} | 405""")
ONE_CLOUD = CREDENTIALS_AREA.row("""error share.credential-one-cloud | The credentials have exactly one member for a
    cloud, with all its fields as strings. | Generate Temporary Table Credential (credentials) | clients refuse them |
    send the one of the store | awsTempCredentials without sessionToken""")
FITS = CREDENTIALS_AREA.row("""error share.credential-cloud-fits | The member for a cloud is that of the scheme of the
    location. | Generate Temporary Table Credential (credentials) | clients cannot open the store | send the member of
    the store | gcpOauthToken for s3://""")
LOCATION = CREDENTIALS_AREA.row("""error share.credential-location | The credentials have a location, and it covers the
    one asked for. | Generate Temporary Table Credential (location) | clients refuse the credentials | send the
    directory that they are for | credentials for another table""")
BROAD = CREDENTIALS_AREA.row("""error share.credential-broad | The location of the credentials is not above the root of
    the table. | Generate Temporary Table Credential (location) | recipients see other tables | make the credentials for
    the directory of the table | the bucket""")
EXPIRY = CREDENTIALS_AREA.row("""error share.credential-expiry | expirationTime is a number of epoch milliseconds in the
    future, at most 36 hours away, on Azure 7 days. | Generate Temporary Table Credential (expirationTime) | clients
    renew without end, or too late | send what the cloud answered, in milliseconds | a time in seconds""")
SHORT = CREDENTIALS_AREA.row("""warning share.credential-short | Credentials are valid for at least 5 minutes. |
    Generate Temporary Table Credential (expirationTime) | clients ask again and again | give credentials for an hour |
    a minute""")
LONG_LIVED = CREDENTIALS_AREA.row("""error share.credential-long-lived | Credentials are temporary: no AKIA key, no
    missing session token, no SAS of an account key. | Generate Temporary Table Credential (temporary) | they are valid
    after the share is revoked | use AssumeRole, or a user delegation key | accessKeyId AKIA…""")
SAS = CREDENTIALS_AREA.row("""error share.credential-sas | A SAS is for one directory (sr=d with its sdd), by https, to
    read and list only, and ends with its key. | Generate Temporary Table Credential (azureUserDelegationSas) |
    recipients read other directories of the container, or write | sign sr=d, sp=rl, spr=https | sr=c""")
BODY = CREDENTIALS_AREA.row("""error share.credential-body | No body, an empty one and {} give credentials of the same
    location. | Generate Temporary Table Credential (Request Body: optional) | some clients get no credentials | take a
    missing location for the root | 400 without a body""")
MALFORMED = CREDENTIALS_AREA.row("""error share.credential-malformed | A body that is not JSON is answered with 400,
    without credentials. | Generate Temporary Table Credential (400: the request is malformed) | a damaged request for a
    part gives the whole table | answer 400 | 200 for the body `{`""")
OUTSIDE = CREDENTIALS_AREA.row("""error share.credential-outside | A location outside the table is refused with 4xx: a
    foreign bucket, a sibling whose name begins alike, the parent, and one with %2e%2e. | Generate Temporary Table
    Credential (location) | recipients read other tables | compare whole segments after decoding once | credentials for
    s3://lake/t10 where t1 is shared""")
UNAUTHENTICATED = CREDENTIALS_AREA.row("""error share.credential-unauthenticated | A request for credentials without a
    token is answered with 401. | Generate Temporary Table Credential (401) | everyone reads the table | check the token
    | 200 without Authorization""")
CACHEABLE = CREDENTIALS_AREA.row("""warning share.credential-cacheable | The answer has Cache-Control: no-store or
    private. | Generate Temporary Table Credential; RFC 9111 | a proxy gives the credentials to others | send
    Cache-Control: no-store | no header""")
DIR_HISTORY = CREDENTIALS_AREA.row("""error share.dir-history | A table whose history is not shared is not offered by
    dir. | Read Data from a Table (version); Generate Temporary Table Credential | recipients read every version in the
    directory | share the history, or offer url only | dir, and 400 for a version""")
_OF_GRANT = (ANSWER, ONE_CLOUD, FITS, LOCATION, BROAD, EXPIRY, SHORT, LONG_LIVED, SAS)
_OF_POSTS = (*_OF_GRANT, BODY, MALFORMED, OUTSIDE, UNAUTHENTICATED, CACHEABLE)

DIRECTORY_AREA = Rules("Tables in directories", Level.FOOTERS)

UNREADABLE = DIRECTORY_AREA.row("""error share.dir-unreadable | The log and the files of the table can be listed and
    read with the credentials. | Generate Temporary Table Credential; Metadata (location) | clients cannot read the
    table | allow listing and reading below the root | AccessDenied for the listing of _delta_log""")
DIR_DIFFERS = DIRECTORY_AREA.row("""error share.dir-differs | The log has the id, version, schema and number of files of
    the metadata, and its files the rows of those that the query gives (level data). | Metadata (location); Query Table
    Metadata | clients of the two modes read different tables | share the table at the location | another id""")
PATHS_OUTSIDE = DIRECTORY_AREA.row("""error share.dir-paths-outside | All files of the log are below location and
    auxiliaryLocations. | Metadata (location, auxiliaryLocations) | clients cannot read all rows | list the roots of the
    other files, or offer url only | an absolute path of another bucket""")
SCOPE = DIRECTORY_AREA.row("""error share.dir-scope | The credentials list neither the parent of the table nor a sibling
    whose name begins alike. | Generate Temporary Table Credential (location) | recipients read other tables | limit the
    credentials to the prefix with its slash | the parent can be listed""")

MOST_GRANTS = 4


@dataclass
class _Vendor:
    """Asks for credentials, at most `MOST_GRANTS` times with success."""

    table: SharedTableTest
    granted: int = 0

    def post(self, body: bytes | None, token: str | None = None) -> WireAnswer | None:
        """Return the answer to a body; None where enough was granted."""
        if self.granted >= MOST_GRANTS:
            return None
        answer = self.table.post(directories.CREDENTIALS_PATH, body, token=token)
        self.granted += answer.is_ok
        return answer

    def of(self, location: str) -> WireAnswer | None:
        return self.post(json.dumps({"location": location}).encode())


def check_directory(table: SharedTableTest) -> None:
    """Ask for credentials, check them, and read the table with them."""
    if not table.scope.asks_credentials:
        reason = f"{parameter('share test.no_credentials')} asks for no credentials"
        table.skip(reason, UNANNOUNCED, *_OF_POSTS, *DIRECTORY_AREA.rules)
    access, vendor = table.access, _Vendor(table)
    if not access.has_directory:
        table.skip("the table is not offered by dir", DIR_HISTORY, *_OF_POSTS, *DIRECTORY_AREA.rules)
        if table.may_announce:
            table.skip("it is not certain whether the table is offered by dir", UNANNOUNCED)
        elif table.scope.asks_credentials and (answer := vendor.post(None)) is not None:
            is_given = answer.is_ok and b'"credentials"' in answer.body
            message = "credentials are given for a table that is not offered by dir"
            table.require(UNANNOUNCED, not is_given, answer, message, seen=answer.status, expected=400)
        return
    table.skip("the table is offered by dir", UNANNOUNCED)
    if table.whole is not None and (table.has_history or table.refuses_history):
        message = "a table is offered by dir, and refuses the number of its version"
        table.require(DIR_HISTORY, table.has_history, table.whole.answer, message)
    table.skip("no version could be asked for by its number", DIR_HISTORY)
    first = vendor.post(None) if table.scope.asks_credentials else None
    if first is None:
        return
    credential = _check_grant(table, first, access.location)
    cached = first.headers.get("cache-control", "missing").lower()
    is_kept = not first.is_ok or "no-store" in cached or "private" in cached
    table.require(CACHEABLE, is_kept, first, "the credentials may be cached", seen=cached, expected="no-store")
    _check_refusals(vendor, access, first)
    _check_others(vendor, access, first)
    enough = vendor.granted >= MOST_GRANTS
    table.skip(f"{MOST_GRANTS} credentials were given" if enough else "the server gives no credentials", *_OF_POSTS)
    if table.scope.level == "api":
        reason = f"{parameter('share test.level', table.scope.level)} reads no store"
        table.skip(reason, *DIRECTORY_AREA.rules)
    elif credential is None or access.location is None:
        table.skip("there are no credentials that can be used", *DIRECTORY_AREA.rules)
    else:
        _check_table(table, credential, first)


def _check_grant(table: SharedTableTest, answer: WireAnswer, wanted: str | None) -> directories.VendedCredential | None:
    """Check an answer with credentials for a location; return them where they can be used."""
    if not answer.is_ok:
        words = "the request for credentials of a table that is offered by dir"
        table.require_status(ANSWER, answer.status >= 500, answer, words, expected=200)
        table.skip("the server gives no credentials", *_OF_GRANT)
        return None
    is_typed = answer.media_type in ("application/json", "application/x-ndjson")
    message = "the Content-Type of credentials is not application/json"
    seen = answer.headers.get("content-type", "missing")
    table.require(ANSWER, is_typed, answer, message, seen=seen, expected="application/json; charset=utf-8")
    credential, faults = directories.read_credential(answer.body, wanted, table.tester.now_ms)
    is_sas = b'"azureUserDelegationSas"' in answer.body
    table.report(faults, answer, *(_OF_GRANT if is_sas else _OF_GRANT[:-1]))
    table.skip("the credentials are not a SAS", SAS)
    given = object_of(object_of(answer.json).get("credentials"))
    keys = given.get("awsTempCredentials")
    has_session = not isinstance(keys, dict) or bool(keys.get("sessionToken"))
    table.require(LONG_LIVED, has_session, answer, "awsTempCredentials has no session token")
    is_number, message = not isinstance(given.get("expirationTime"), str), "expirationTime is a string"
    table.require(EXPIRY, is_number, answer, message, expected="a number", severity=Severity.WARNING)
    return credential


def _check_refusals(vendor: _Vendor, access: directories.TableAccess, first: WireAnswer) -> None:
    table, root = vendor.table, directories.cloud_location(access.location)[0]
    if (answer := vendor.post(None, token="")) is not None:
        words = "a request for credentials without a token"
        table.require_status(UNAUTHENTICATED, answer.status == 401, answer, words, expected=401)
    if (answer := vendor.post(b"{")) is not None:
        is_refused = answer.status == 400 or answer.status >= 500 or not (first.is_ok or answer.is_ok)
        table.require_status(MALFORMED, is_refused, answer, "a body that is not JSON")
    if root is None or access.location is None:
        table.skip("the table has no location", OUTSIDE)
        return
    uri = access.location.rstrip("/")
    scheme, _, rest = uri.partition("://")
    outside = {
        "a location in a foreign bucket": f"{scheme}://deltacli-share-test-{rest.replace('/', '/no-such/', 1)}",
        "a sibling of the table": f"{uri}0",
        "a location with %2e%2e": f"{uri}/%2e%2e/deltacli-share-test",
        **({"the parent of the table": uri.rpartition("/")[0]} if root.segments else {}),
    }
    for words, location in outside.items():
        if (answer := vendor.of(location)) is not None:
            table.require_status(OUTSIDE, answer.status >= 400, answer, words)


def _check_others(vendor: _Vendor, access: directories.TableAccess, first: WireAnswer) -> None:
    """Ask for the first auxiliary location, and for the root in other ways."""
    table, require = vendor.table, vendor.table.require
    for location in access.auxiliary[:1]:
        if (answer := vendor.of(location)) is not None:
            found = directories.read_credential(answer.body, location, table.tester.now_ms)[0] if answer.is_ok else None
            message = f"the request for credentials of an auxiliary location is answered with {answer.status}"
            require(AUXILIARY, found is not None, answer, message, seen=answer.status, expected=200)
    given = {"no body": _place_of(first)}
    for words, body in (("an empty body", b""), ("the body {}", b"{}")):
        if (answer := vendor.post(body)) is None:
            return
        given[words] = _place_of(answer)
    message = "the kinds of an empty body do not lead to the same location"
    if first.is_ok or len(set(given.values())) > 1:
        require(BODY, len(set(given.values())) == 1, first, message, seen="; ".join(map(" ".join, given.items())))


def _place_of(answer: WireAnswer) -> str:
    """Return the location of credentials, or the status."""
    content = object_of(answer.json) if answer.is_ok else {}
    return str(object_of(content.get("credentials")).get("location") or answer.status)


# -- the table in the directory ----------------------------------------------------------------------------------------

_MOST_FILES, _MOST_LISTED, _MOST_ROWS = 3, 1_000, 100_000


def _check_table(table: SharedTableTest, credential: directories.VendedCredential, answer: WireAnswer) -> None:
    """Read the log, and the ends of a few files, by the ordinary reader, and compare them with the metadata."""
    from deltacli.table.handle import TableHandle
    from deltacli.table.rebuild import read_snapshot

    require, lines = table.require, table.metadata.get(DELTA) or table.metadata.get(PARQUET)
    root = table.access.location or credential.grant.location
    try:
        handle = TableHandle(table.open_store(root, partial(_given, credential.grant)))
        snapshot = read_snapshot(handle)
        announced = None if lines is None else lines.version
        if announced is not None and snapshot.version > announced:
            snapshot = read_snapshot(handle, version=announced)
        count, files, outside = _files(snapshot, table.access, handle.storage.uri)
        ends = [handle.storage.read_range(path, max(0, size - 4), 4) for path, size in files[:_MOST_FILES]]
    except UsageError as fault:
        table.skip(f"the store cannot be opened: {fault.message}", *DIRECTORY_AREA.rules)
    except DeltacliError as fault:
        if fault.code == "storage.unreachable":  # which says nothing about the server
            option = parameter("storage_options.endpoint_url", "URL")
            reason = f"the store is unreachable from here; one with an endpoint of its own needs {option}"
            table.skip(reason, *DIRECTORY_AREA.rules)
            return
        message = "the table cannot be read with the credentials"
        require(UNREADABLE, False, answer, message, seen=f"{fault.code}: {fault.message}")
        table.skip(message, DIR_DIFFERS, PATHS_OUTSIDE)
    else:
        message = "a file in the directory does not end as a Parquet file"
        require(UNREADABLE, all(end == b"PAR1" for end in ends), answer, message)
        message, seen = "the log names files outside the locations", ", ".join(outside[:3])
        require(PATHS_OUTSIDE, not outside, answer, message, seen=seen)
        if lines is not None:
            _compare(table, snapshot, lines, count)
        if table.scope.level == "data" and count == len(files):
            _compare_rows(table, handle.storage, files)
    if table.scope.probes:
        _probe(table, credential, answer)
    else:
        table.skip(f"{parameter('share test.probe_scope')} is needed to ask for what is outside", SCOPE)


def _files(
    snapshot: Snapshot, access: directories.TableAccess, uri: str
) -> tuple[int, list[tuple[str, int]], list[str]]:
    """Return how many files there are, the first ones below the root with sizes, and those outside all locations."""
    allowed = [directories.cloud_location(one)[0] for one in (access.location, *access.auxiliary)]
    count, inside, outside = 0, list[tuple[str, int]](), list[str]()
    for batch in snapshot.files():
        paths, vectors = batch.column("path"), batch.column("deletionVector")
        keys = locate(paths, uri)[0]
        elsewhere = pc.filter(paths, pc.is_null(keys)).to_pylist()
        elsewhere += [one["pathOrInlineDv"] for one in vectors.drop_null().to_pylist() if one["storageType"] == "p"]
        found = (directories.cloud_location(path)[0] for path in elsewhere)
        is_allowed = [any(root and place and root.covers(place) for root in allowed) for place in found]
        outside += [path for path, is_one in zip(elsewhere, is_allowed, strict=True) if not is_one]
        is_inside, most = pc.is_valid(keys), _MOST_LISTED - len(inside)
        few = (pc.filter(column, is_inside).slice(0, most).to_pylist() for column in (keys, batch.column("size")))
        inside += [(decode_path_bytes(key), size) for key, size in zip(*few, strict=True)]
        count += batch.num_rows
    return count, inside, outside


def _compare(table: SharedTableTest, snapshot: Snapshot, lines: Lines, files: int) -> None:
    known = lines.metadata.get("numFiles")
    if known is None and table.whole is not None and table.whole.version == lines.version:
        known = len(table.whole.files)
    schema = json.loads(snapshot.metadata.schema_string or "{}").get("fields", [])
    same = {
        "id": snapshot.metadata.id == lines.meta.get("id"),
        "version": snapshot.version == lines.version,
        "schema": [_column(one) for one in schema] == [_column(one) for one in lines.columns],
        "number of files": known in (None, files),
    }
    words, seen = "the log differs from the metadata in", f"version {snapshot.version}, {files} files"
    expected = f"version {lines.version}, {known} files"
    table.require_same(DIR_DIFFERS, same, lines.answer, words, seen=seen, expected=expected)


def _column(field: JsonObject) -> tuple[object, object]:
    """Return name and type of a column, of nested types only that they are nested."""
    kind = field.get("type")
    return field.get("name"), kind if isinstance(kind, str) else "nested"


def _compare_rows(table: SharedTableTest, store: ReadStorage, files: Sequence[tuple[str, int]]) -> None:
    """Compare the rows in the files of the directory with those behind the URLs, of tables that are small."""
    whole = table.whole
    if whole is None or whole.has_vectors or sum(size for _, size in files) > MOST_BYTES // 4:
        return
    answers = [table.tester.wire.fetch(file.url) for file in whole.files]
    if not all(answer.is_ok for answer in answers):
        return
    by_url, by_directory = _rows(answer.body for answer in answers), _rows(store.read(path) for path, _ in files)
    if by_url is not None and by_directory is not None:
        message = "the files of the directory have other rows than those behind the URLs"
        seen, expected = f"{by_directory.total():,} rows", f"{by_url.total():,} rows"
        table.require(DIR_DIFFERS, by_url == by_directory, whole.answer, message, seen=seen, expected=expected)


def _rows(files: Iterable[bytes]) -> Counter[str] | None:
    """Return how often each row occurs in Parquet files; None where there are too many, or one cannot be read."""
    from deltacli.arrow.parquet import ParquetReader

    found: Counter[str] = Counter()
    try:
        for data in files:
            reader = ParquetReader(pa.BufferReader(data))
            names = reader.schema_arrow.names
            for group in range(reader.metadata.num_row_groups):
                for batch in reader.read_columns(8_192, group, names):
                    found.update(map(repr, batch.to_pylist()))
                    if found.total() > _MOST_ROWS:
                        return None
    except pa.ArrowException:
        return None
    return found


def _given(grant: Grant, _is_forced: bool) -> Grant:
    return grant


def _probe(table: SharedTableTest, credential: directories.VendedCredential, answer: WireAnswer) -> None:
    """List the parent of the table and a sibling, which has to be refused."""
    granted = credential.grant.location.rstrip("/")
    root = directories.cloud_location(granted)[0]
    places = {
        "a sibling": f"{granted}0",
        **({"the parent": granted.rpartition("/")[0]} if root and root.segments else {}),
    }
    for words, uri in places.items():
        renew = partial(_given, credential.grant._replace(location=uri))
        is_refused = False
        try:
            with suppress(FileMissing):
                next(iter(table.open_store(uri, renew).list_from("")), None)
        except PermissionRefused:
            is_refused = True
        except DeltacliError as fault:
            table.skip(f"{words} of the table could not be asked for: {fault.code}", SCOPE)
            continue
        table.require(SCOPE, is_refused, answer, f"{words} of the table can be listed with the credentials", seen=uri)
