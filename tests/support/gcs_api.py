"""An emulator of Google Cloud Storage on loopback, written by the text of its JSON API and held apart from the stub
that the store was built with (`tests.support.gcs`), so that a mistake in one of them is seen by the other.

What the text has and the stub does not: generations and metagenerations in every condition, partial answers
(`fields`), opaque page tokens, pages that are short or empty, sessions that keep a part of a piece, batches that are
answered out of order, limits of parameters, names and sizes, anonymous callers, and requester pays. Spec: Cloud Storage
JSON API v1: Objects (get, insert, list, delete), Request preconditions, Resumable uploads, Batch requests, Errors.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

from tests.support.cloud import Asked, CloudServer, Said

QUANTUM = 256 * 1024
"""Bytes of which all pieces of an upload but the last one are a multiple."""
NOT_MET = "At least one of the pre-conditions you specified did not hold."
MOST_LISTED, MOST_BATCHED = 1_000, 100
CONDITIONS = ("ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch")
EVERYWHERE = frozenset({"fields", "alt", "prettyPrint", "userProject", "quotaUser", "key"})
GET = frozenset({*CONDITIONS, "generation", "projection"})
INSERT = frozenset({*CONDITIONS, "uploadType", "name", "upload_id", "contentEncoding", "predefinedAcl"})
LIST = frozenset(
    {"prefix", "delimiter", "startOffset", "endOffset", "pageToken", "maxResults", "versions", "projection"}
    | {"includeTrailingDelimiter", "matchGlob", "softDeleted", "includeFoldersAsPrefixes"}
)


@dataclass(frozen=True)
class Live:
    """The live generation of an object."""

    data: bytes
    generation: int
    created: str


@dataclass
class Upload:
    """A resumable session: what it was begun with, what the service kept, and how it ended."""

    bucket: str
    resource: Mapping[str, Any]
    query: Mapping[str, str]
    size: int | None
    kept: bytearray
    end: Said | None = None


class Refusal(Exception):
    """An error of the API."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.said = problem(status, reason, message)


class GcsApi(CloudServer):
    """A server thread. `wants_tokens`: anonymous callers may list and read the `public` buckets only. `payers` are
    buckets whose requester pays; `keeps` is how many bytes of a piece are kept; `short_pages`: pages have fewer entries
    than were asked for, and every third has none.
    """

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Live]] = {}
        self.uploads: dict[str, Upload] = {}
        self.public: set[str] = set()
        self.payers: set[str] = set()
        self.wants_tokens = False
        self.short_pages = False
        self.keeps: int | None = None
        self._generation = 1_760_000_000_000_000
        self._lock = RLock()
        super().__init__()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {"STORAGE_EMULATOR_HOST": self.url}

    def make_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"api-{uuid4()}"
        self.buckets[name] = {}
        return name

    def put(self, bucket: str, key: str, data: bytes, modified_ms: int | None = None) -> None:
        """Put an object in place without a request."""
        self._generation += 1_000 + len(data) % 977
        moment = self.written_at(modified_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.buckets[bucket][key] = Live(data, self._generation, moment)

    def answer(self, asked: Asked) -> Said:
        """What the service says, and does."""
        with self._lock:
            try:
                said = self._route(asked)
            except Refusal as refusal:
                said = refusal.said
        length = {"X-GUploader-UploadID": uuid4().hex, **said.headers}
        return said._replace(headers=length)

    def _route(self, asked: Asked) -> Said:
        parts = urlsplit(asked.target)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        query = dict(pairs)
        if parts.path == "/batch/storage/v1":
            return self._batch(asked)
        found = re.fullmatch(r"(/upload|/download)?/storage/v1/b/([^/]+)(/.*)?", parts.path)
        if found is None:
            raise Refusal(404, "notFound", "Not Found")
        door, bucket, below = found[1] or "", unquote(found[2]), found[3] or ""
        if bucket not in self.buckets:
            raise Refusal(404, "notFound", "The specified bucket does not exist.")
        if bucket in self.payers and "userProject" not in query:
            message = "Bucket is a requester pays bucket but no user project provided."
            raise Refusal(400, "required", message)
        if below == "/iam/testPermissions":
            self._require(asked, bucket, "storage.buckets.get", is_read=True)
            granted = [name for key, name in pairs if key == "permissions"]
            return in_json({"kind": "storage#testIamPermissionsResponse", "permissions": granted}, query)
        if below == "/o":
            if asked.method == "GET":
                return self._list(asked, bucket, query)
            if door == "/upload":
                return self._insert(asked, bucket, query)
            raise Refusal(405, "methodNotAllowed", "Method Not Allowed")
        name = re.fullmatch(r"/o/([^/]+)", below)
        if name is None:
            raise Refusal(404, "notFound", "Not Found")
        return self._object(asked, bucket, unquote(name[1], errors="strict"), query)

    def _require(self, asked: Asked, bucket: str, permission: str, *, is_read: bool) -> None:
        """Raise Refusal unless the caller may do something."""
        given = asked.headers.get("authorization", "")
        if given or not self.wants_tokens or (is_read and bucket in self.public):
            return
        message = f"Anonymous caller does not have {permission} access to the Google Cloud Storage object."
        raise Refusal(401, "required", f"{message} Permission '{permission}' denied on resource.")

    def _object(self, asked: Asked, bucket: str, key: str, query: Mapping[str, str]) -> Said:
        require_known(query, GET)
        is_read = asked.method == "GET"
        verb = "get" if is_read else "delete"
        self._require(asked, bucket, f"storage.objects.{verb}", is_read=is_read)
        live = self.buckets[bucket].get(key)
        if live is not None and query.get("generation", str(live.generation)) != str(live.generation):
            live = None
        if live is None:
            # Media that is not found is answered in plain words.
            if query.get("alt") == "media":
                text = f"No such object: {bucket}/{key}".encode()
                return Said(404, text, {"Content-Type": "text/html; charset=UTF-8"})
            raise Refusal(404, "notFound", f"No such object: {bucket}/{key}")
        if failed := unmet(query, live):
            if is_read and failed.endswith("NotMatch"):
                return Said(304)
            raise Refusal(412, "conditionNotMet", NOT_MET)
        if asked.method == "DELETE":
            del self.buckets[bucket][key]
            return Said(204)
        if not is_read:
            raise Refusal(405, "methodNotAllowed", "Method Not Allowed")
        return media(asked, live) if query.get("alt") == "media" else in_json(resource(bucket, key, live), query)

    def _list(self, asked: Asked, bucket: str, query: Mapping[str, str]) -> Said:
        require_known(query, LIST)
        self._require(asked, bucket, "storage.objects.list", is_read=True)
        limit = number(query, "maxResults", MOST_LISTED)
        if limit < 1:
            raise Refusal(400, "invalid", f"Invalid value for maxResults: {limit}")
        limit = min(limit, MOST_LISTED)
        after, page = cursor(query.get("pageToken", ""))
        if self.short_pages:
            limit = 0 if page % 3 == 1 else max(1, limit // 2)
        entries = listed(self.buckets[bucket], query, after)
        items, prefixes, last = list[dict[str, Any]](), list[str](), after
        token = ""
        for key, live in entries:
            if len(items) + len(prefixes) >= limit:
                token = base64.b64encode(json.dumps([last, page + 1]).encode()).decode()
                break
            last = key
            if live is None:
                prefixes.append(key)
            else:
                items.append(resource(bucket, key, live))
        found: dict[str, Any] = {"kind": "storage#objects"}
        found |= {"nextPageToken": token} if token else {}
        found |= {"prefixes": prefixes} if prefixes else {}
        return in_json(found | ({"items": items} if items else {}), query)

    def _insert(self, asked: Asked, bucket: str, query: Mapping[str, str]) -> Said:
        require_known(query, INSERT)
        self._require(asked, bucket, "storage.objects.create", is_read=False)
        kind = query.get("uploadType")
        if "upload_id" in query and asked.method in ("PUT", "DELETE"):
            return self._continue(asked, query["upload_id"])
        if asked.method != "POST":
            raise Refusal(405, "methodNotAllowed", "Method Not Allowed")
        if kind == "resumable":
            return self._begin(asked, bucket, query)
        if kind == "multipart":
            head, data = related(asked)
            return self._store(bucket, head, query, data)
        if kind == "media":
            return self._store(bucket, {}, query, asked.body)
        raise Refusal(400, "invalid", f"Invalid upload type: {kind}")

    def _begin(self, asked: Asked, bucket: str, query: Mapping[str, str]) -> Said:
        head = json.loads(asked.body or b"{}")
        name_of(head, query)
        self._check(bucket, name_of(head, query), query)
        told = asked.headers.get("x-upload-content-length")
        upload = uuid4().hex
        self.uploads[upload] = Upload(bucket, head, query, int(told) if told else None, bytearray())
        return Said(200, b"", {"Location": f"{self.url}{asked.target}&upload_id={upload}"})

    def _continue(self, asked: Asked, name: str) -> Said:
        upload = self.uploads.get(name)
        if upload is None:
            raise Refusal(404, "notFound", "Not Found")
        if asked.method == "DELETE":
            del self.uploads[name]
            return Said(499)
        if upload.end is not None:
            return upload.end
        span = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", asked.headers.get("content-range", ""))
        if span is None:
            raise Refusal(400, "badRequest", "Failed to parse Content-Range header.")
        total = None if span[3] == "*" else int(span[3])
        if upload.size is not None and total is not None and total != upload.size:
            raise Refusal(400, "badRequest", f"Upload of {upload.size} bytes was continued as one of {total}.")
        upload.size = total if total is not None else upload.size
        if span[1] is not None:
            self._keep(asked, upload, int(span[1]), int(span[2]))
        if upload.size is None or len(upload.kept) < upload.size:
            return Said(308, b"", {"Range": f"bytes=0-{len(upload.kept) - 1}"} if upload.kept else {})
        try:
            said = self._store(upload.bucket, upload.resource, upload.query, bytes(upload.kept))
        except Refusal as refusal:
            said = refusal.said
        upload.end = said
        return said

    def _keep(self, asked: Asked, upload: Upload, first: int, last: int) -> None:
        """Keep the bytes of a piece, or a part of them."""
        if last - first + 1 != len(asked.body):
            raise Refusal(400, "badRequest", f"{len(asked.body)} bytes were sent as {first}-{last}.")
        is_last = upload.size is not None and last + 1 == upload.size
        if not is_last and len(asked.body) % QUANTUM:
            raise Refusal(400, "badRequest", "The size of a piece is not a multiple of 256 KiB.")
        if first > len(upload.kept):
            raise Refusal(503, "backendError", f"Bytes {len(upload.kept)} to {first} are missing.")
        fresh = asked.body[len(upload.kept) - first :]
        if self.keeps is not None and len(fresh) > self.keeps:
            fresh = fresh[: self.keeps // QUANTUM * QUANTUM]
        upload.kept += fresh

    def _store(self, bucket: str, head: Mapping[str, Any], query: Mapping[str, str], data: bytes) -> Said:
        key = name_of(head, query)
        digest = base64.b64encode(hashlib.md5(data).digest()).decode()
        if head.get("md5Hash", digest) != digest:
            message = f'Provided MD5 hash "{head["md5Hash"]}" doesn\'t match calculated MD5 hash "{digest}".'
            raise Refusal(400, "invalid", message)
        self._check(bucket, key, query)
        self.put(bucket, key, data)
        return in_json(resource(bucket, key, self.buckets[bucket][key]), query)

    def _check(self, bucket: str, key: str, query: Mapping[str, str]) -> None:
        """Raise Refusal unless the conditions of an insertion hold. Generation 0 is that of no live object."""
        if unmet(query, self.buckets[bucket].get(key)):
            raise Refusal(412, "conditionNotMet", NOT_MET)

    def _batch(self, asked: Asked) -> Said:
        kind = asked.headers.get("content-type", "")
        whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + asked.body)
        if whole.get_content_type() != "multipart/mixed" or not whole.is_multipart():
            raise Refusal(400, "badRequest", "Failed to parse batch request.")
        calls: list[Any] = whole.get_payload()  # type: ignore[assignment]  # Any: messages of the standard library
        if len(calls) > MOST_BATCHED:
            raise Refusal(
                400, "badRequest", f"The batch request could not be processed: more than {MOST_BATCHED} calls."
            )
        answers = []
        for call in calls:
            text = call.get_payload(decode=True).decode()
            line, _, rest = text.partition("\r\n")
            method, target, _ = line.split(" ")
            given = {"authorization": asked.headers["authorization"]} if "authorization" in asked.headers else {}
            given |= {
                k.strip().lower(): v.strip() for k, _, v in (row.partition(":") for row in rest.splitlines() if row)
            }
            inner = Asked(method, target, given, b"")
            said = self.fault_of(inner, "BATCHED") or self.answer(inner)
            answers.append((call["Content-ID"].strip("<>"), said))
        boundary = f"batch_{uuid4().hex}"
        out = b"".join(part_of(boundary, name, said) for name, said in reversed(answers))
        return Said(
            200, out + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/mixed; boundary={boundary}"}
        )


def part_of(boundary: str, name: str, said: Said) -> bytes:
    """The answer to one call of a batch."""
    head = f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <response-{name}>\r\n\r\n"
    headers = {**said.headers, "Content-Length": str(len(said.body))}
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    return f"{head}HTTP/1.1 {said.status} Reason\r\n{lines}\r\n".encode() + said.body + b"\r\n"


def problem(status: int, reason: str, message: str = "so it is") -> Said:
    """An error response."""
    detail = {"message": message, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": message, "errors": [detail]}}
    return Said(status, json.dumps(body, indent=2).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def unmet(query: Mapping[str, str], live: Live | None) -> str:
    """The first condition that does not hold for the live object, '' where all do."""
    for name in CONDITIONS:
        if name not in query:
            continue
        wanted, seen = number(query, name, 0), 0
        if live is not None:
            seen = 1 if "Metageneration" in name else live.generation
        if (wanted == seen) == name.endswith("NotMatch"):
            return name
    return ""


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """A parameter that is an integer."""
    text = query.get(name, str(default))
    if not re.fullmatch(r"\d{1,19}", text):
        raise Refusal(400, "invalid", f"Invalid value for {name}: {text}")
    return int(text)


def require_known(query: Mapping[str, str], known: Iterable[str]) -> None:
    """Raise Refusal for a parameter that the method does not have."""
    for name in query.keys() - set(known) - EVERYWHERE:
        raise Refusal(400, "invalidParameter", f"Unknown parameter: {name}")


def name_of(head: Mapping[str, Any], query: Mapping[str, str]) -> str:
    """The name of a new object."""
    name = str(head.get("name") or query.get("name") or "")
    if head.get("name") and query.get("name", name) != name:
        raise Refusal(400, "invalid", "The name of the object in the request and in the resource differ.")
    if not name:
        raise Refusal(400, "required", "Required")
    is_bad = "\r" in name or "\n" in name or name in (".", "..") or name.startswith(".well-known/acme-challenge/")
    if is_bad or len(name.encode()) > 1_024:
        raise Refusal(400, "invalid", f"Disallowed unicode characters or length in object name '{name[:80]}'")
    return name


def related(asked: Asked) -> tuple[Mapping[str, Any], bytes]:
    """The metadata and the content of a multipart upload. Spec: RFC 2387."""
    found = re.fullmatch(r"multipart/related; *boundary=\"?([^\";]{1,70})\"?", asked.headers.get("content-type", ""))
    if found is None:
        raise Refusal(400, "badContent", "Malformed multipart body.")
    mark = b"--" + found[1].encode()
    if not asked.body.startswith(mark + b"\r\n") or not asked.body.rstrip(b"\r\n").endswith(b"\r\n" + mark + b"--"):
        raise Refusal(400, "badContent", "Malformed multipart body.")
    first, _, rest = asked.body[len(mark) + 2 :].partition(b"\r\n" + mark + b"\r\n")
    second, _, _ = rest.rpartition(b"\r\n" + mark + b"--")
    head, content = first.partition(b"\r\n\r\n"), second.partition(b"\r\n\r\n")
    if b"application/json" not in head[0].lower() or not content[1]:
        raise Refusal(400, "badContent", "Malformed multipart body.")
    return json.loads(head[2]), content[2]


def listed(objects: Mapping[str, Live], query: Mapping[str, str], after: str) -> Iterable[tuple[str, Live | None]]:
    """Objects and prefixes in the order of their UTF-8, behind a cursor; a prefix has no object."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    start, end = query.get("startOffset", ""), query.get("endOffset", "")
    shown = set[str]()
    for key in sorted(objects, key=str.encode):
        raw = key.encode()
        if not key.startswith(prefix) or raw < start.encode() or (end and raw >= end.encode()):
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if cut < 0 else key[: cut + len(delimiter)]
        if name.encode() <= after.encode() or name in shown:
            continue
        shown.add(name)
        yield name, (objects[key] if cut < 0 else None)


def cursor(token: str) -> tuple[str, int]:
    """The last name of the page before, and how many pages there were."""
    if not token:
        return "", 0
    try:
        name, page = json.loads(base64.b64decode(token, validate=True))
    except ValueError:
        raise Refusal(400, "invalid", "Invalid page token") from None
    return str(name), int(page)


def resource(bucket: str, key: str, live: Live) -> dict[str, Any]:
    """The resource of an object."""
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{key}/{live.generation}",
        "name": key,
        "bucket": bucket,
        "generation": str(live.generation),
        "metageneration": "1",
        "contentType": "application/octet-stream",
        "storageClass": "STANDARD",
        "size": str(len(live.data)),
        "md5Hash": base64.b64encode(hashlib.md5(live.data).digest()).decode(),
        "etag": f"C{live.generation}=",
        "timeCreated": live.created,
        "updated": live.created,
    }


def media(asked: Asked, live: Live) -> Said:
    """The content of an object, or a range of it."""
    size = len(live.data)
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Goog-Generation": str(live.generation),
        "X-Goog-Metageneration": "1",
        "X-Goog-Stored-Content-Encoding": "identity",
        "X-Goog-Stored-Content-Length": str(size),
        "X-Goog-Storage-Class": "STANDARD",
    }
    span = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("range", ""))
    if span is None or not (span[1] or span[2]):
        return Said(200, live.data, headers)
    first = int(span[1]) if span[1] else max(0, size - int(span[2]))
    last = min(int(span[2]), size - 1) if span[1] and span[2] else size - 1
    if first > last:
        text = b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>InvalidRange</Code></Error>"
        return Said(416, text, {"Content-Type": "application/xml; charset=UTF-8", "Content-Range": f"bytes */{size}"})
    return Said(206, live.data[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{size}"})


def in_json(found: Mapping[str, Any], query: Mapping[str, str]) -> Said:
    """A resource, or the fields of it that were asked for."""
    chosen = selected(found, fields_of(query["fields"])) if query.get("fields") else found
    return Said(200, json.dumps(chosen).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def fields_of(text: str) -> dict[str, Any]:
    """The tree of a parameter such as `kind,items(name,size)`. Spec: Partial responses."""
    chosen: dict[str, Any] = {}
    stack = [chosen]
    last = ""
    for word in re.findall(r"[A-Za-z0-9*]+|[(),/]", text):
        match word:
            case "(" | "/":
                stack.append(stack[-1][last])
            case ")":
                stack.pop()
            case ",":
                continue
            case _:
                stack[-1][word], last = {}, word
    if len(stack) != 1:
        raise Refusal(400, "invalidParameter", f"Invalid field selection {text}")
    return chosen


def selected(found: Any, chosen: Mapping[str, Any]) -> Any:
    """The part of a value that is chosen; all of it where nothing is."""
    if not chosen:
        return found
    if isinstance(found, list):
        return [selected(each, chosen) for each in found]
    return {name: selected(value, chosen[name]) for name, value in found.items() if name in chosen}
