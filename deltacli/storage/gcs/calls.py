"""The calls of a bucket of Google Cloud Storage, by its JSON API.

The requests are our own instead of a library's: those that were tried send a conditional creation
again by default when its answer is lost, and find their own object
(docs/decisions/0099-own-requests-for-gcs-and-azure.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit

from deltacli.storage.gcs.credentials import GcsCredentials
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.gcs.responses import (
    _below,
    _entry,
    _list,
    parse_gcs_content,
    parse_gcs_properties,
    parse_rewrite_token,
    read_gcs_error,
    require_stored_in_gcs,
)
from deltacli.storage.gcs.uploads import MAX_SINGLE_REQUEST_BYTES, send_in_session, single
from deltacli.storage.grants import ASK_PROVIDER
from deltacli.storage.objects.batches import BATCH_CONTENT_TYPE, BatchPart, build_batch, read_batch_errors
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.bounded_reading import MAX_LISTING_BYTES
from deltacli.storage.objects.calls import (
    ABSENT,
    CopySource,
    ListedObject,
    ListedPage,
    ObjectContent,
    find_missing_error,
    parse_range_length,
)
from deltacli.storage.objects.dialect import Dialect
from deltacli.storage.objects.http import HttpResponse, Request, Transport
from deltacli.storage.objects.http_calls import HttpCalls
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.retry import Retry
from deltacli.storage.tally import GCS_PRICES, Call

DIALECT = Dialect(
    store="Google Cloud Storage",
    container_noun="bucket",
    container_missing_codes=frozenset({"bucketNotFound"}),
    exists_codes=frozenset({"conditionNotMet"}),
    identity_command="gcloud auth list",
    list_command="gcloud storage buckets list",
    endpoint_check="check STORAGE_EMULATOR_HOST, the network and the proxy settings",
    create_condition="ifGenerationMatch",
)
_OF_GOOGLE = (".googleapis.com", ".googleapis-cn.com")
_PAGE = 1_000
_LISTED = "kind,nextPageToken,prefixes,items(name,size,updated)"
_PROPERTIES = "name,size,updated,generation,md5Hash"
_MOST_REWRITES = 10_000
_NOT_IN_NAMES = ("\r", "\n")
_NO_NAMES = ("", ".", "..")
"""No names of objects. In a URL they would name a collection or the bucket."""
_NO_BATCHES = {404, 405, 501}


class GcsCalls(HttpCalls):
    """Calls of one bucket. A token that the store refuses is renewed once per request."""

    max_bulk_deletes = 100
    can_start_anywhere = True
    dialect: Dialect = DIALECT
    credentials: GcsCredentials

    def __init__(self, bucket: str, options: GcsOptions, credentials: GcsCredentials, retry: Retry) -> None:
        super().__init__(Transport(options.endpoint, options.verify))
        self._bucket = bucket
        self._payer = options.payer
        self._retry = retry
        self.credentials = credentials
        if options.held is not None:
            check = "check the network and the proxy settings"
            self.dialect = replace(
                DIALECT, identity_command=ASK_PROVIDER, list_command=ASK_PROVIDER, endpoint_check=check
            )
        self._transport.tally = retry.tally.get_host(self.endpoint, GCS_PRICES if self.is_known_atomic else None)

    @property
    def is_known_atomic(self) -> bool:
        host = f".{urlsplit(self._transport.endpoint).hostname or ''}"
        return host.endswith(_OF_GOOGLE)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        asked = {"prefix": prefix, "delimiter": delimiter, "startOffset": start, "pageToken": token}
        given = {name: text for name, text in asked.items() if text}
        url = self.url("/o", maxResults=str(limit or _PAGE), fields=_LISTED, **given)
        response = self.send(Request("GET", url, call=Call.LIST, limit=MAX_LISTING_BYTES), (200,))
        fields = response.fields()
        if fields.get("kind") != "storage#objects":
            raise response.unexpected("no listing")
        entries = [_entry(item, prefix, response) for item in _list(fields, "items", response)]
        prefixes = [_below(item, prefix, response) for item in _list(fields, "prefixes", response)]
        return ListedPage(entries, prefixes, str(fields.get("nextPageToken") or ""))

    def head(self, key: str) -> tuple[ListedObject, str]:
        url = self.url(build_object_path(key), fields=_PROPERTIES)
        return parse_gcs_properties(self._send_for(key, Request("GET", url, call=Call.HEAD), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        condition = {"ifGenerationMatch": tag} if tag else {}
        condition |= {"generation": version_id} if version_id else {}
        url = self.url(build_object_path(key), alt="media", **condition)
        headers = {"Range": span} if span else {}
        request = Request("GET", url, headers, limit=parse_range_length(span), reads_object=True)
        return parse_gcs_content(self._send_for(key, request, (200, 206) if span else (200,)), span)

    def _send_for(self, key: str, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        try:
            return self.send(request, statuses)
        except HttpError as error:
            held = self.credentials.options.held
            if held is None or error.status != 403 or not (missing := find_missing_error(self, key)):
                raise
            raise missing from None

    def write(self, key: str, body: Body, condition: str | None) -> None:
        parameters: dict[str, str] = {}
        if condition is not None:
            # Generation 0 means that no object of the name exists.
            parameters["ifGenerationMatch"] = "0" if condition == ABSENT else condition
        url = self.url("/o", base="/upload/storage/v1/b/", name=key, **parameters)
        if body.size <= MAX_SINGLE_REQUEST_BYTES:
            require_stored_in_gcs(self.send(single(url, key, body), (200, 201)), body.size)
        else:
            send_in_session(self.send, self._retry, self.endpoint, url, key, body)

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object. Each request of a copy is sent once: only the store knows which of them was the last."""
        given = {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        given |= {"sourceGeneration": version} if (version := source.version_id or source.tag) else {}
        path = f"{build_object_path(source.key)}/rewriteTo/b/{_quoted(self._bucket)}{build_object_path(key)}"
        for _ in range(_MOST_REWRITES):
            response = self.send(Request("POST", self.url(path, **given)), (200,))
            if token := parse_rewrite_token(response, source.size_bytes):
                given["rewriteToken"] = token
            else:
                return
        raise HttpError(RequestOutcome.BROKEN, "the copy was not finished")

    def delete(self, key: str) -> None:
        response = self.send(Request("DELETE", self.url(build_object_path(key))), (200, 204))
        if response.status != 204:
            raise response.unexpected("no deletion")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        start = len(self._transport.endpoint)
        parts = [BatchPart(self.url(build_object_path(key))[start:]) for key in keys]
        url = f"{self._transport.endpoint}/batch/storage/v1"
        headers = {"Content-Type": BATCH_CONTENT_TYPE}
        request = Request("POST", url, headers, Body(build_batch(parts)), Call.DELETE, MAX_LISTING_BYTES)
        try:
            return read_batch_errors(self.send(request, (200,)), keys, 204, read_gcs_error)
        except HttpError as error:
            if error.status in _NO_BATCHES:
                self._supports_bulk_deletion = False  # emulators and private endpoints may have none
            raise

    def granted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Return which of these permissions the bucket grants to the caller."""
        text = "&".join(f"permissions={name}" for name in permissions)
        url = self.url("/iam/testPermissions")
        response = self.send(Request("GET", f"{url}{'&' if '?' in url else '?'}{text}"), (200,)).fields()
        granted = response.get("permissions", [])
        return frozenset(map(str, granted)) if isinstance(granted, list) else frozenset()

    def is_valid_key(self, key: str) -> bool:
        return key not in _NO_NAMES and not any(character in key for character in _NOT_IN_NAMES)

    def url(self, path: str, *, base: str = "/storage/v1/b/", **query: str) -> str:
        given = {**query, **({"userProject": self._payer} if self._payer else {})}
        text = urlencode(given, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}{base}{_quoted(self._bucket)}{path}" + (f"?{text}" if text else "")

    def send(self, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        """Send a request once, and again with new credentials where the store refused the first ones."""
        for is_last in (False, True):
            is_ours = request.url.startswith(f"{self._transport.endpoint}/")
            headers = {**request.headers, **(self.credentials.build_headers() if is_ours else {})}
            response = self._transport.send(replace(request, headers=headers))
            if response.status != 401 or is_last or not self.credentials.renew(headers):
                break
        if response.status in statuses:
            return response
        response.require_error()
        raise read_gcs_error(response)


def build_object_path(key: str) -> str:
    """Return the path of an object. Raises HttpError for a key that no object can have."""
    if key in _NO_NAMES:
        raise HttpError(RequestOutcome.ANSWERED, "no object can have this name", status=404)
    return f"/o/{_quoted(key)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")
