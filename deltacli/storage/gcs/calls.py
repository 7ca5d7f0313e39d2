"""The requests to a bucket of Google Cloud Storage, with its JSON API.

deltacli sends the requests by itself: the libraries that were examined repeat a conditional creation by default, and a
repeated creation may find the object of its own first attempt
(docs/decisions/0099-own-requests-for-gcs-and-azure.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit

from deltacli.storage.gcs.credentials import GcsCredentials
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.gcs.responses import (
    get_list,
    parse_gcs_content,
    parse_gcs_properties,
    parse_listed_object,
    parse_rewrite_token,
    read_gcs_error,
    require_prefix,
    require_stored_in_gcs,
)
from deltacli.storage.gcs.uploads import MAX_SINGLE_REQUEST_BYTES, build_multipart_request, send_in_session
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
_GOOGLE_DOMAINS = (".googleapis.com", ".googleapis-cn.com")
_PAGE = 1_000
_LISTING_FIELDS = "kind,nextPageToken,prefixes,items(name,size,updated)"
_PROPERTY_FIELDS = "name,size,updated,generation,md5Hash"
_MAX_REWRITES = 10_000
_INVALID_IN_KEYS = ("\r", "\n")
_INVALID_KEYS = ("", ".", "..")
"""Keys that no object can have. In a URL they would refer to another resource."""
_BATCH_REFUSAL_STATUSES = {404, 405, 501}


class GcsCalls(HttpCalls):
    """The requests to one bucket. If the store refuses a token, it is renewed, once per request."""

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
        return host.endswith(_GOOGLE_DOMAINS)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        parameters = {"prefix": prefix, "delimiter": delimiter, "startOffset": start, "pageToken": token}
        set_parameters = {name: text for name, text in parameters.items() if text}
        url = self.url("/o", maxResults=str(limit or _PAGE), fields=_LISTING_FIELDS, **set_parameters)
        response = self.send(Request("GET", url, call=Call.LIST, limit=MAX_LISTING_BYTES), (200,))
        fields = response.fields()
        if fields.get("kind") != "storage#objects":
            raise response.unexpected("no listing")
        entries = [parse_listed_object(item, prefix, response) for item in get_list(fields, "items", response)]
        prefixes = [require_prefix(item, prefix, response) for item in get_list(fields, "prefixes", response)]
        return ListedPage(entries, prefixes, str(fields.get("nextPageToken") or ""))

    def head(self, key: str) -> tuple[ListedObject, str]:
        url = self.url(build_object_path(key), fields=_PROPERTY_FIELDS)
        return parse_gcs_properties(self._send_for_object(key, Request("GET", url, call=Call.HEAD), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        # With ifGenerationMatch, the store returns 412 if the object was replaced.
        condition = {"ifGenerationMatch": tag} if tag else {}
        condition |= {"generation": version_id} if version_id else {}
        url = self.url(build_object_path(key), alt="media", **condition)
        headers = {"Range": span} if span else {}
        request = Request("GET", url, headers, limit=parse_range_length(span), reads_object=True)
        return parse_gcs_content(self._send_for_object(key, request, (200, 206) if span else (200,)), span)

    def _send_for_object(self, key: str, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        """Send a request for an object. With vended credentials, distinguish a missing object from denied access."""
        try:
            return self.send(request, statuses)
        except HttpError as error:
            may_be_missing = self.credentials.options.held is not None and error.status == 403
            missing_error = find_missing_error(self, key) if may_be_missing else None
            if missing_error is None:
                raise
            raise missing_error from None

    def write(self, key: str, body: Body, condition: str | None) -> None:
        parameters: dict[str, str] = {}
        if condition is not None:
            # Generation 0 means that no object of the name exists.
            parameters["ifGenerationMatch"] = "0" if condition == ABSENT else condition
        url = self.url("/o", base="/upload/storage/v1/b/", name=key, **parameters)
        if body.size <= MAX_SINGLE_REQUEST_BYTES:
            require_stored_in_gcs(self.send(build_multipart_request(url, key, body), (200, 201)), body.size)
        else:
            send_in_session(self.send, self._retry, self.endpoint, url, key, body)

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object. A large one requires several requests, each with the token of the previous response.

        Every request is sent once, because any of them may be the one that completes the copy.
        """
        parameters = {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        source_generation = source.version_id or source.tag
        if source_generation:
            parameters["sourceGeneration"] = source_generation
        path = f"{build_object_path(source.key)}/rewriteTo/b/{_quote(self._bucket)}{build_object_path(key)}"
        for _ in range(_MAX_REWRITES):
            response = self.send(Request("POST", self.url(path, **parameters)), (200,))
            token = parse_rewrite_token(response, source.size_bytes)
            if not token:
                return
            parameters["rewriteToken"] = token
        raise HttpError(RequestOutcome.BROKEN, "the copy was not finished")

    def delete(self, key: str) -> None:
        response = self.send(Request("DELETE", self.url(build_object_path(key))), (200, 204))
        if response.status != 204:
            raise response.unexpected("no deletion")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        # The parts of a batch have URLs without the host.
        endpoint_length = len(self._transport.endpoint)
        parts = [BatchPart(self.url(build_object_path(key))[endpoint_length:]) for key in keys]
        url = f"{self._transport.endpoint}/batch/storage/v1"
        headers = {"Content-Type": BATCH_CONTENT_TYPE}
        request = Request("POST", url, headers, Body(build_batch(parts)), Call.DELETE, MAX_LISTING_BYTES)
        try:
            return read_batch_errors(self.send(request, (200,)), keys, 204, read_gcs_error)
        except HttpError as error:
            if error.status in _BATCH_REFUSAL_STATUSES:
                # Emulators and private endpoints may not support batches.
                self._supports_bulk_deletion = False
            raise

    def granted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Return those permissions that the caller has for the bucket."""
        text = "&".join(f"permissions={name}" for name in permissions)
        url = self.url("/iam/testPermissions")
        response = self.send(Request("GET", f"{url}{'&' if '?' in url else '?'}{text}"), (200,)).fields()
        granted = response.get("permissions", [])
        return frozenset(map(str, granted)) if isinstance(granted, list) else frozenset()

    def is_valid_key(self, key: str) -> bool:
        return key not in _INVALID_KEYS and not any(character in key for character in _INVALID_IN_KEYS)

    def url(self, path: str, *, base: str = "/storage/v1/b/", **query: str) -> str:
        """Return a URL within the bucket.

        Args:
            path: The percent-encoded path, with a slash at its start; '' for the bucket itself.
            base: The path of the API.
            query: The query parameters.
        """
        payer_parameter = {"userProject": self._payer} if self._payer else {}
        text = urlencode({**query, **payer_parameter}, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}{base}{_quote(self._bucket)}{path}" + (f"?{text}" if text else "")

    def send(self, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        """Send a request once.

        If the store refuses the credentials (401), it has not executed the request. So the request is sent a second
        time if other credentials are available. This is safe for conditional requests as well.

        Args:
            request: The request, without credentials.
            statuses: The statuses of a successful response.

        Raises:
            HttpError: If the response has another status.
        """
        for is_last in (False, True):
            # The URL of an upload session comes from a response. Never send credentials to another host.
            is_own_host = request.url.startswith(f"{self._transport.endpoint}/")
            authorization = self.credentials.build_headers() if is_own_host else {}
            headers = {**request.headers, **authorization}
            response = self._transport.send(replace(request, headers=headers))
            if response.status != 401 or is_last or not self.credentials.renew(headers):
                break
        if response.status in statuses:
            return response
        response.require_error()
        raise read_gcs_error(response)


def build_object_path(key: str) -> str:
    """Return the path of an object in URLs.

    Raises:
        HttpError: With status 404 if no object can have the key.
    """
    if key in _INVALID_KEYS:
        raise HttpError(RequestOutcome.ANSWERED, "no object can have this name", status=404)
    return f"/o/{_quote(key)}"


def _quote(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")
