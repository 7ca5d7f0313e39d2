"""A Google Cloud Storage on loopback: a small stub of its JSON API that honours generation matches, resumable uploads
and batches, with a log of requests and faults on demand. Nothing in the registries honours generation matches.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from threading import RLock
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from tests.support.cloud import Asked, CloudServer, Said

PAGE = 1_000
_PART = re.compile(rb"Content-ID: (\d+).*?\r\n\r\n(\w+) (\S+) HTTP", re.DOTALL | re.IGNORECASE)


class Stored(NamedTuple):
    data: bytes
    generation: int
    updated: str


class Session(NamedTuple):
    """A resumable upload: what was asked at its beginning, and what came so far."""

    bucket: str
    asked: Mapping[str, Any]
    query: Mapping[str, str]
    received: bytearray


class GcsServer(CloudServer):
    """A server thread. `buckets` holds the objects; `token` is what requests must be authorized by, if there is one."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Stored]] = {}
        self.sessions: dict[str, Session] = {}
        self.token = ""
        self.ignores_conditions = False
        self.copied_at_once = 1 << 30
        self.granted: set[str] = set()
        self.versioned: set[str] = set()
        self.soft: set[str] = set()
        self.history: dict[tuple[str, str], list[tuple[Stored, bool]]] = {}
        """Bucket, key -> generations that are not live, with whether they are soft-deleted."""
        self._generation = 1_700_000_000_000_000
        self._state = RLock()  # a part of a batch can be a request of its own
        super().__init__()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {"STORAGE_EMULATOR_HOST": self.url}

    def make_bucket(self, *, is_versioned: bool = False, deletes_softly: bool = False) -> str:
        """Make an empty bucket and return its name."""
        name = f"b-{uuid4()}"
        self.buckets[name] = {}
        self.versioned |= {name} if is_versioned else set()
        self.soft |= {name} if deletes_softly else set()
        return name

    def put(self, bucket: str, key: str, data: bytes, modified_ms: int | None = None) -> None:
        """Put an object in place without a request."""
        self._generation += 1
        stamp = self.written_at(modified_ms).isoformat(timespec="microseconds").replace("+00:00", "Z")
        self._retire(bucket, key)
        self.buckets[bucket][key] = Stored(data, self._generation, stamp)

    def _retire(self, bucket: str, key: str) -> None:
        """Take the live generation of a key away, and keep it as the bucket does."""
        live = self.buckets[bucket].pop(key, None)
        if live is not None and (bucket in self.versioned or bucket in self.soft):
            self.history.setdefault((bucket, key), []).append((live, bucket not in self.versioned))

    def answer(self, asked: Asked) -> Said:
        """What the store says, and does."""
        if self.token and asked.target == "/token":
            return Said(200, token_answer(self.token), JSON)
        if asked.headers.get("metadata-flavor") == "Google":
            return self._machine(asked)
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return problem(401, "authError", "Invalid Credentials")
        with self._state:
            parts = urlsplit(asked.target)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            if parts.path == "/batch/storage/v1":
                return self._batch(asked)
            if parts.path.endswith("/iam/testPermissions"):
                asked_for = parse_qs(parts.query)["permissions"]
                return Said(200, _json({"permissions": [name for name in asked_for if name in self.granted]}), JSON)
            kind, _, rest = parts.path.partition("/storage/v1/b/")
            bucket, _, name = rest.partition("/o")
            bucket, (name, verb, _) = unquote(bucket), name.removeprefix("/").partition("/")
            key = unquote(name)
            if bucket not in self.buckets:
                return problem(404, "notFound", "The specified bucket does not exist.")
            if "/o" not in rest:
                return self._properties(bucket)
            if verb:
                return self._bring_back(bucket, key, parts.path.partition(f"{name}/")[2], query)
            if kind == "/upload":
                return self._upload(asked, bucket, query)
            if "versions" in query or "softDeleted" in query:
                return self._list_versions(bucket, query)
            if not key:
                return self._list(self.buckets[bucket], query)
            return self._object(asked, bucket, key, query)

    def _machine(self, asked: Asked) -> Said:
        """What the metadata server of a machine says about its account."""
        _, _, name = asked.target.partition("?")[0].rpartition("/")
        said = {
            "token": token_answer(self.token),
            "project-id": b"project",
            "universe-domain": b"googleapis.com",
        }.get(name, _json({"email": "machine@project.iam.gserviceaccount.com", "scopes": []}))
        kind = "application/text" if name in ("project-id", "universe-domain") else "application/json"
        return Said(200, said, {"Content-Type": kind, "Metadata-Flavor": "Google"})

    def _object(self, asked: Asked, bucket: str, key: str, query: Mapping[str, str]) -> Said:
        found = self._generation_of(bucket, key, query.get("generation", ""))
        if found is None:
            return problem(404, "notFound", f"No such object: {bucket}/{key}")
        if asked.method == "DELETE":
            self._retire(bucket, key)
            return Said(204)
        if query.get("alt") != "media":
            return Said(200, _json(_fields(key, found)), JSON)
        if query.get("ifGenerationMatch", str(found.generation)) != str(found.generation):
            return problem(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        return ranged(asked, found.data, {"x-goog-generation": str(found.generation)})

    def _generation_of(self, bucket: str, key: str, generation: str, *, is_soft: bool = False) -> Stored | None:
        """A generation of an object, '' for the live one."""
        live = self.buckets[bucket].get(key)
        if not is_soft and live is not None and generation in ("", str(live.generation)):
            return live
        kept = self.history.get((bucket, key), [])
        return next((each for each, soft in kept if soft == is_soft and str(each.generation) == generation), None)

    def _properties(self, bucket: str) -> Said:
        seconds = "604800" if bucket in self.soft else "0"
        found: dict[str, Any] = {"softDeletePolicy": {"retentionDurationSeconds": seconds}}
        return Said(200, _json(found | ({"versioning": {"enabled": True}} if bucket in self.versioned else {})), JSON)

    def _list_versions(self, bucket: str, query: Mapping[str, str]) -> Said:
        """All generations but soft-deleted ones, or only those, in the order of names and generations."""
        is_soft, prefix = "softDeleted" in query, query.get("prefix", "")
        if is_soft and bucket not in self.soft:
            return problem(412, "softDeletePolicyNotSet")
        live = {} if is_soft else self.buckets[bucket]
        found = [(key, stored.generation, _fields(key, stored)) for key, stored in live.items()]
        for (owner, key), kept in self.history.items():
            for stored, soft in kept if owner == bucket else ():
                if soft == is_soft:
                    found.append((key, stored.generation, {**_fields(key, stored), "timeDeleted": stored.updated}))
        found = sorted(entry for entry in found if entry[0].startswith(prefix))
        start, limit = int(query.get("pageToken", "0")), int(query.get("maxResults", PAGE))
        items = [fields for _, _, fields in found[start : start + limit]]
        more = {"nextPageToken": str(start + limit)} if start + limit < len(found) else {}
        return Said(200, _json({"kind": "storage#objects", **({"items": items} if items else {}), **more}), JSON)

    def _bring_back(self, bucket: str, key: str, verb: str, query: Mapping[str, str]) -> Said:
        """Copy a generation, or restore a soft-deleted one."""
        is_soft = verb == "restore"
        found = self._generation_of(
            bucket, key, query.get("generation" if is_soft else "sourceGeneration", ""), is_soft=is_soft
        )
        if found is None:
            return problem(404, "notFound", f"No such object: {bucket}/{key}")
        target = key if is_soft else unquote(verb.rpartition("/o/")[2])
        live = self.buckets[bucket].get(target)
        if not self.ignores_conditions and query["ifGenerationMatch"] != str(live.generation if live else 0):
            return problem(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        if not is_soft and len(found.data) > self.copied_at_once and "rewriteToken" not in query:
            return Said(200, _json({"kind": "storage#rewriteResponse", "done": False, "rewriteToken": "more"}), JSON)
        self.put(bucket, target, found.data)
        fields = _fields(target, self.buckets[bucket][target])
        said = fields if is_soft else {"kind": "storage#rewriteResponse", "done": True, "resource": fields}
        return Said(200, _json(said), JSON)

    def _list(self, objects: Mapping[str, Stored], query: Mapping[str, str]) -> Said:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after, first = query.get("pageToken", ""), query.get("startOffset", "")
        items, prefixes, token, last = list[dict[str, str]](), list[str](), "", ""
        for key in sorted(objects):
            if not key.startswith(prefix) or key < first:
                continue
            rest = key[len(prefix) :]
            group = prefix + rest.partition(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
            if (group or key) <= after or (prefixes and group == prefixes[-1]):
                continue
            if len(items) + len(prefixes) == int(query.get("maxResults", PAGE)):
                token = last
                break
            last = group or key
            if group:
                prefixes.append(group)
            else:
                items.append(_fields(key, objects[key]))
        found: dict[str, Any] = {"kind": "storage#objects"}
        found |= {"items": items} if items else {}
        found |= {"prefixes": prefixes} if prefixes else {}
        return Said(200, _json(found | ({"nextPageToken": token} if token else {})), JSON)

    def _upload(self, asked: Asked, bucket: str, query: Mapping[str, str]) -> Said:
        if asked.method == "PUT":
            return self._piece(asked, query["upload_id"])
        if query["uploadType"] == "resumable":
            session = uuid4().hex
            self.sessions[session] = Session(bucket, json.loads(asked.body), query, bytearray())
            place = f"{self.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={session}"
            return Said(200, b"", {"Location": place})
        boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
        _, first, second, _ = asked.body.split(b"--" + boundary)
        told = json.loads(first.partition(b"\r\n\r\n")[2])
        return self._store(bucket, told, query, second.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))

    def _piece(self, asked: Asked, name: str) -> Said:
        if name not in self.sessions:
            return problem(410, "gone", "the session is over")
        session = self.sessions[name]
        span, _, size = asked.headers["content-range"].removeprefix("bytes ").partition("/")
        if span != "*":
            start = int(span.partition("-")[0])
            assert start <= len(session.received)
            session.received[start:] = asked.body
        if len(session.received) < int(size):
            kept = len(session.received) // (256 << 10) * (256 << 10)  # as the store does: whole pieces of 256 KiB
            del session.received[kept:]
            return Said(308, b"", {"Range": f"bytes=0-{kept - 1}"} if kept else {})
        stored = self.buckets[session.bucket].get(session.asked["name"])
        if stored is not None and stored.data == bytes(session.received) and "done" in session.asked:
            return Said(200, _json(_fields(session.asked["name"], stored)), JSON)
        said = self._store(session.bucket, session.asked, session.query, bytes(session.received))
        if said.status == 200:
            self.sessions[name] = session._replace(asked={**session.asked, "done": True})
        return said

    def _store(self, bucket: str, told: Mapping[str, Any], query: Mapping[str, str], data: bytes) -> Said:
        key, there = told["name"], self.buckets[bucket].get(told["name"])
        wanted = None if self.ignores_conditions else query.get("ifGenerationMatch")
        if wanted is not None and wanted != str(there.generation if there else 0):
            return problem(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        if base64.b64encode(hashlib.md5(data).digest()).decode() != told["md5Hash"]:
            return problem(400, "invalid", "Provided MD5 hash does not match")
        self.put(bucket, key, data)
        return Said(200, _json(_fields(key, self.buckets[bucket][key])), JSON)

    def _batch(self, asked: Asked) -> Said:
        out = bytearray()
        for number, method, target in _PART.findall(asked.body):
            path = urlsplit(target.decode()).path.removeprefix("/storage/v1/b/")
            bucket, _, key = path.partition("/o/")
            inner = Asked(method.decode(), target.decode(), {}, b"")
            said = self.fault_of(inner, "BATCHED") or self._object(inner, unquote(bucket), unquote(key), {})
            body = b"Content-Type: application/json\r\n\r\n" + said.body if said.body else b"\r\n"
            out += b"--answers\r\nContent-Type: application/http\r\nContent-ID: <response-" + number + b">\r\n\r\n"
            out += f"HTTP/1.1 {said.status} Said\r\n".encode() + body + b"\r\n"
        return Said(200, bytes(out) + b"--answers--\r\n", {"Content-Type": "multipart/mixed; boundary=answers"})


JSON: Mapping[str, str] = {"Content-Type": "application/json; charset=UTF-8"}


def problem(status: int, reason: str, message: str = "so it is") -> Said:
    """An error in the words of the store."""
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    return Said(status, _json({"error": error}), JSON)


def ranged(asked: Asked, data: bytes, headers: Mapping[str, str]) -> Said:
    """The content of an object, or the range that the request asks for."""
    span = asked.headers.get("range", "").removeprefix("bytes=")
    if not span:
        return Said(200, data, headers)
    first, _, last = span.partition("-")
    start, end = (int(first), int(last)) if first else (max(0, len(data) - int(last)), len(data) - 1)
    end = min(end, len(data) - 1)
    if start > end:
        return problem(416, "requestedRangeNotSatisfiable")
    return Said(206, data[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{len(data)}"})


def token_answer(text: str) -> bytes:
    """What a token is handed out with."""
    return json.dumps({"access_token": text, "expires_in": 3_600, "token_type": "Bearer"}).encode()


def service_account(token_uri: str) -> dict[str, str]:
    """The key of a service account that gets its tokens here."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65_537, 2_048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "reader@project.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "private_key_id": "1",
        "token_uri": token_uri,
    }


def _fields(key: str, stored: Stored) -> dict[str, str]:
    return {
        "name": key,
        "size": str(len(stored.data)),
        "updated": stored.updated,
        "generation": str(stored.generation),
        "md5Hash": base64.b64encode(hashlib.md5(stored.data).digest()).decode(),
    }


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
