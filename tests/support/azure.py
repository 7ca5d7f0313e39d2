"""An Azure Blob Storage on loopback: a small stub of its REST API, with or without a hierarchical namespace, with a log
of requests and faults on demand. Azurite, which the long suite runs besides, has no hierarchical namespaces.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from email.utils import format_datetime
from threading import RLock
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

from tests.support.cloud import Asked, CloudServer, Said

ACCOUNT, KEY = "lakes", base64.b64encode(b"a key that nobody may see").decode()
PAGE = 5_000
_PART = re.compile(rb"Content-ID: (\d+).*?\r\n\r\n(\w+) (\S+) HTTP", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(r"<Uncommitted>([^<]*)</Uncommitted>")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Stored(NamedTuple):
    data: bytes
    tag: str
    modified: str
    is_directory: bool = False
    tier: str = "Hot"


class Kept(NamedTuple):
    """What is kept of a blob that was overwritten or deleted. `kind`: VersionId, Snapshot, DeletionId or ''."""

    kind: str
    number: str
    stored: Stored
    is_deleted: bool


class AzureServer(CloudServer):
    """A server thread. `containers` holds the blobs; those in `hierarchical` have directories. `token` is the bearer
    token that requests must have, if there is one; `/identity` hands it out, as managed identities get theirs.
    """

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Stored]] = {}
        self.blocks: dict[tuple[str, str], dict[str, bytes]] = {}
        self.hierarchical: set[str] = set()
        self.token = ""
        self.signature = ""
        """Part of the query of requests that are authorized by it."""
        self.ignores_conditions = False
        self.has_batches = True
        self.page_size = PAGE
        self.versioned: set[str] = set()
        self.soft: set[str] = set()
        self.history: dict[tuple[str, str], list[Kept]] = {}
        self._count = 0
        self._state = RLock()  # a part of a batch can be a request of its own
        super().__init__()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        named = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.url}/{ACCOUNT};"
        return {"AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;{named}"}

    @property
    def identity_environment(self) -> dict[str, str]:
        """What azure-identity finds a managed identity with."""
        return {"IDENTITY_ENDPOINT": f"{self.url}/identity", "IDENTITY_HEADER": "a-secret"}

    def make_container(
        self, *, is_hierarchical: bool = False, is_versioned: bool = False, deletes_softly: bool = False
    ) -> str:
        """Make an empty container and return its name."""
        name = f"c-{uuid4()}"
        self.containers[name] = {}
        self.versioned |= {name} if is_versioned else set()
        self.soft |= {name} if deletes_softly else set()
        if is_hierarchical:
            self.hierarchical.add(name)
        return name

    def put(self, container: str, key: str, data: bytes, modified_ms: int | None = None) -> Stored:
        """Put a blob in place without a request."""
        self._count += 1
        blobs = self.containers[container]
        stamp = format_datetime(self.written_at(modified_ms), usegmt=True)
        if container in self.hierarchical:
            parts = key.split("/")
            for depth in range(1, len(parts)):
                blobs.setdefault("/".join(parts[:depth]), Stored(b"", '"0xD"', stamp, is_directory=True))
        self._retire(container, key, is_overwritten=True)
        blobs[key] = Stored(data, f'"0x{self._count:X}"', stamp)
        self.blocks.pop((container, key), None)
        return blobs[key]

    def move_to_tier(self, container: str, key: str, tier: str) -> None:
        """Move a blob to an access tier. Blobs of the tier Archive cannot be read."""
        blobs = self.containers[container]
        blobs[key] = blobs[key]._replace(tier=tier)

    def _retire(self, container: str, key: str, *, is_overwritten: bool = False) -> None:
        """Take a blob away, and keep it as the account does."""
        blob = self.containers[container].pop(key, None)
        kept = self.history.setdefault((container, key), [])
        if is_overwritten and container not in self.versioned:  # a deleted blob of the name becomes a snapshot
            kept[:] = [each if each.kind else each._replace(kind="Snapshot", number=each.stored.tag) for each in kept]
        if blob is None or blob.is_directory:
            return
        number = _number(blob)
        if container in self.versioned:
            kept.append(Kept("VersionId", number, blob, is_deleted=False))
        elif container in self.soft and container in self.hierarchical:
            kept += [] if is_overwritten else [Kept("DeletionId", number, blob, is_deleted=True)]
        elif container in self.soft:
            kept.append(Kept("Snapshot" if is_overwritten else "", number, blob, is_deleted=True))

    def files(self, container: str) -> dict[str, bytes]:
        """The blobs of a container without its directories."""
        return {key: blob.data for key, blob in self.containers[container].items() if not blob.is_directory}

    def answer(self, asked: Asked) -> Said:
        """What the store says, and does."""
        if self.token and asked.target.startswith("/identity?"):
            return _token_answer(self.token)
        given = asked.headers.get("authorization", "")
        if self.signature and self.signature in asked.target:
            given = given or self.signature
        if not given or (self.token and given != f"Bearer {self.token}"):
            return problem(401, "InvalidAuthenticationInfo")
        with self._state:
            parts = urlsplit(asked.target)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            path = unquote(parts.path).removeprefix(f"/{ACCOUNT}/")
            container, _, key = path.partition("/")
            if query.get("comp") == "properties":
                return self._properties(container, query)
            if container not in self.containers:
                return problem(404, "ContainerNotFound")
            if query.get("comp") == "list" and ("deleted" in query.get("include", "") or "showonly" in query):
                return self._list_versions(container, query)
            if query.get("comp") == "list":
                return self._list(container, query)
            if query.get("comp") == "batch":
                return self._batch(asked)
            said = self._blob(asked, container, key, query)
            return said._replace(headers={"x-ms-request-id": "1", **said.headers})

    def _blob(self, asked: Asked, container: str, key: str, query: Mapping[str, str]) -> Said:
        there = self._version_of(container, key, query)
        if asked.method == "PUT" and query.get("comp") == "undelete":
            return self._undelete(asked, container, key)
        if asked.method == "PUT" and "x-ms-copy-source" in asked.headers:
            return self._copy(asked, container, key, query)
        if asked.method == "PUT":
            return self._write(asked, container, key, query)
        if there is None:
            return problem(404, "BlobNotFound")
        if asked.method == "DELETE":
            if there.is_directory and any(name.startswith(f"{key}/") for name in self.containers[container]):
                return problem(409, "DirectoryIsNotEmpty")
            self._retire(container, key)
            return Said(202)
        if asked.headers.get("if-match", there.tag) != there.tag:
            return problem(412, "ConditionNotMet")
        headers = {"ETag": there.tag, "Last-Modified": there.modified, "x-ms-blob-type": "BlockBlob"}
        headers["x-ms-access-tier"] = there.tier
        if asked.method == "GET" and there.tier == "Archive":
            return problem(409, "BlobArchived")
        if there.is_directory:
            headers |= {"x-ms-resource-type": "directory", "x-ms-meta-hdi_isfolder": "true"}
        if asked.method == "HEAD":
            md5 = base64.b64encode(hashlib.md5(there.data).digest()).decode()
            return Said(200, b"", {**headers, "Content-Length": str(len(there.data)), "Content-MD5": md5})
        return _ranged(asked, there.data, headers)

    def _write(self, asked: Asked, container: str, key: str, query: Mapping[str, str]) -> Said:
        if base64.b64encode(hashlib.md5(asked.body).digest()).decode() != asked.headers["content-md5"]:
            return problem(400, "Md5Mismatch")
        waiting = self.blocks.setdefault((container, key), {})
        if query.get("comp") == "block":
            waiting[query["blockid"]] = asked.body
            return Said(201)
        there = self.containers[container].get(key)
        if not self.ignores_conditions:
            if there is not None and asked.headers.get("if-none-match") == "*":
                return problem(409, "BlobAlreadyExists")
            if asked.headers.get("if-match", there.tag if there else "") != (there.tag if there else ""):
                return problem(412, "ConditionNotMet")
        data = asked.body
        if query.get("comp") == "blocklist":
            names = _BLOCK.findall(asked.body.decode())
            if not set(names) <= waiting.keys():
                return problem(400, "InvalidBlockList")
            data = b"".join(waiting[name] for name in names)
        stored = self.put(container, key, data)
        return Said(201, b"", {"ETag": stored.tag})

    def _version_of(self, container: str, key: str, query: Mapping[str, str]) -> Stored | None:
        """A version or a snapshot of a blob, or the blob itself."""
        number = query.get("versionid") or query.get("snapshot")
        kept = self.history.get((container, key), [])
        if not number:
            return self.containers[container].get(key)
        live = self.containers[container].get(key)
        if live is not None and container in self.versioned and number == _number(live):
            return live
        return next((each.stored for each in kept if each.number == number and not each.is_deleted), None)

    def _properties(self, container: str, query: Mapping[str, str]) -> Said:
        if query["restype"] == "account":
            return Said(200, b"", {"x-ms-is-hns-enabled": str(container in self.hierarchical).lower()})
        policy = "<Enabled>true</Enabled><Days>7</Days>" if self.soft else "<Enabled>false</Enabled>"
        body = f"<StorageServiceProperties><DeleteRetentionPolicy>{policy}</DeleteRetentionPolicy>"
        return Said(200, f"{body}</StorageServiceProperties>".encode(), {"Content-Type": "application/xml"})

    def _undelete(self, asked: Asked, container: str, key: str) -> Said:
        kept = self.history.get((container, key), [])
        source = asked.headers.get("x-ms-undelete-source")
        if source is not None:
            name, _, number = unquote(source).partition("?deletionid=")
            found = [each for each in self.history.get((container, name), []) if each.number == number]
            if key in self.containers[container]:
                return problem(409, "BlobAlreadyExists")
        else:
            found = [each for each in kept if each.is_deleted]
        if not found and key not in self.containers[container]:
            return problem(404, "BlobNotFound")
        for each in found:
            kept.remove(each)
            if each.kind in ("", "DeletionId"):
                self.containers[container][key] = each.stored
            else:
                kept.append(each._replace(is_deleted=False))
        return Said(200)

    def _copy(self, asked: Asked, container: str, key: str, query: Mapping[str, str]) -> Said:
        """Create a blob, or a block, from another one."""
        source = urlsplit(asked.headers["x-ms-copy-source"])
        name = unquote(source.path).removeprefix(f"/{ACCOUNT}/{container}/")
        given = {field: values[-1] for field, values in parse_qs(source.query).items()}
        found, there = self._version_of(container, name, given), self.containers[container].get(key)
        if found is None:
            return problem(404, "CannotVerifyCopySource")
        if asked.headers.get("x-ms-source-if-match", found.tag) != found.tag:
            return problem(412, "SourceConditionNotMet")
        first, _, last = asked.headers.get("x-ms-source-range", "").removeprefix("bytes=").partition("-")
        if query.get("comp") == "block":
            block = found.data[int(first) : int(last) + 1]
            self.blocks.setdefault((container, key), {})[query["blockid"]] = block
            return Said(201)
        if not self.ignores_conditions:
            if there is not None and asked.headers.get("if-none-match") == "*":
                return problem(409, "BlobAlreadyExists")
            if asked.headers.get("if-match", there.tag if there else "") != (there.tag if there else ""):
                return problem(412, "ConditionNotMet")
        return Said(201, b"", {"ETag": self.put(container, key, found.data).tag})

    def _list_versions(self, container: str, query: Mapping[str, str]) -> Said:
        """Blobs with all that is kept of them, the oldest first, or only those that are deleted."""
        is_hierarchical, is_versioned = container in self.hierarchical, container in self.versioned
        if is_hierarchical and "versions" in query.get("include", ""):
            return problem(400, "FeatureNotSupportedForHierarchicalNamespaceAccount")
        found = list[tuple[str, str]]()
        kept_keys = {key for owner, key in self.history if owner == container}
        for key in sorted({*self.containers[container], *kept_keys}):
            if not key.startswith(query.get("prefix", "")):
                continue
            for each in self.history.get((container, key), []):
                number = f"<{each.kind}>{each.number}</{each.kind}>" if each.kind else ""
                number += "<Deleted>true</Deleted>" if each.is_deleted else ""
                found.append((key, _entry(key, each.stored, number)))
            live = self.containers[container].get(key)
            if live is not None and "showonly" not in query:
                number = f"<VersionId>{_number(live)}</VersionId><IsCurrentVersion>true</IsCurrentVersion>"
                found.append((key, _entry(key, live, number if is_versioned else "")))
        start, limit = int(query.get("marker", "0")), int(query.get("maxresults", self.page_size))
        rows = "".join(row for _, row in found[start : start + limit])
        marker = str(start + limit) if start + limit < len(found) else ""
        body = f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
        return Said(200, f'<?xml version="1.0" encoding="utf-8"?>{body}'.encode(), {"Content-Type": "application/xml"})

    def _list(self, container: str, query: Mapping[str, str]) -> Said:
        prefix, delimiter, after = query.get("prefix", ""), query.get("delimiter", ""), query.get("marker", "")
        blobs = self.containers[container]
        # A hierarchical namespace is listed directory by directory.
        ordered = sorted(blobs, key=(lambda key: key.split("/")) if container in self.hierarchical else None)
        found, count, last, marker, is_after = "", 0, "", "", not after
        for key in ordered:
            rest = key[len(prefix) :]
            if not key.startswith(prefix) or (blobs[key].is_directory and delimiter):
                continue
            group = prefix + rest.partition(delimiter)[0] + delimiter if delimiter and delimiter in rest else ""
            name = group or key
            if name == last or not is_after:
                is_after = is_after or name == after
                last = name
                continue
            if count == int(query.get("maxresults", PAGE)):
                marker = last
                break
            found, count, last = found + (_prefix(group) if group else _entry(key, blobs[key])), count + 1, name
        body = (
            f"<EnumerationResults><Blobs>{found}</Blobs><NextMarker>{escape(marker)}</NextMarker></EnumerationResults>"
        )
        return Said(200, f'<?xml version="1.0" encoding="utf-8"?>{body}'.encode(), {"Content-Type": "application/xml"})

    def _batch(self, asked: Asked) -> Said:
        if not self.has_batches:
            return problem(400, "FeatureNotSupported")
        out = bytearray()
        for number, method, target in _PART.findall(asked.body):
            path = unquote(urlsplit(target.decode()).path).removeprefix(f"/{ACCOUNT}/")
            container, _, key = path.partition("/")
            inner = Asked(method.decode(), target.decode(), {}, b"")
            said = self.fault_of(inner, "BATCHED") or self._blob(inner, container, key, {})
            out += b"--answers\r\nContent-Type: application/http\r\nContent-ID: " + number + b"\r\n\r\n"
            out += f"HTTP/1.1 {said.status} Said\r\nx-ms-request-id: 1\r\n".encode()
            out += b"".join(f"{name}: {text}\r\n".encode() for name, text in said.headers.items())
            out += b"\r\n" + said.body + b"\r\n"
        return Said(202, bytes(out) + b"--answers--\r\n", {"Content-Type": "multipart/mixed; boundary=answers"})


def problem(status: int, code: str, message: str = "so it is") -> Said:
    """An error in the words of the store."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}\nRequestId:1</Message></Error>'.encode()
    return Said(status, body, {"Content-Type": "application/xml", "x-ms-error-code": code, "x-ms-request-id": "1"})


def _token_answer(token: str) -> Said:
    fields = {"access_token": token, "expires_on": "4102444800", "resource": "https://storage.azure.com"}
    return Said(200, json.dumps(fields | {"token_type": "Bearer"}).encode(), {"Content-Type": "application/json"})


def _ranged(asked: Asked, data: bytes, headers: Mapping[str, str]) -> Said:
    """The content of a blob, or the range that the request asks for, which must have a start."""
    span = asked.headers.get("x-ms-range", "").removeprefix("bytes=")
    if not span:
        return Said(200, data, headers)
    first, _, last = span.partition("-")
    start, end = int(first), min(int(last), len(data) - 1)
    if start > end:
        return problem(416, "InvalidRange")
    return Said(206, data[start : end + 1], {**headers, "Content-Range": f"bytes {start}-{end}/{len(data)}"})


def _number(blob: Stored) -> str:
    """The version id of a blob: a time."""
    return f"2026-01-01T00:00:00.{int(blob.tag[3:-1], 16):07d}Z"


def _entry(key: str, blob: Stored, number: str = "") -> str:
    kind = "<ResourceType>directory</ResourceType>" if blob.is_directory else "<ResourceType>file</ResourceType>"
    return (
        f"<Blob>{_name(key)}{number}<Properties><Last-Modified>{blob.modified}</Last-Modified><Etag>{blob.tag[1:-1]}</Etag>"
        f"{kind}<Content-Length>{len(blob.data)}</Content-Length><AccessTier>{blob.tier}</AccessTier></Properties></Blob>"
    )


def _prefix(name: str) -> str:
    return f"<BlobPrefix>{_name(name)}</BlobPrefix>"


def _name(text: str) -> str:
    if _NOT_IN_XML.search(text) or "\r" in text:
        from urllib.parse import quote

        return f'<Name Encoded="true">{quote(text)}</Name>'
    return f"<Name>{escape(text)}</Name>"
