"""Probing a store of objects, and Google and Azure as subjects; S3 has a module of its own."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import parse_qs

from deltacli.core.errors import StorageFailed, UsageError, parameter
from deltacli.core.typing import AzureCredential, GoogleAuth, Json
from deltacli.storage.azure.store import AzureCalls
from deltacli.storage.gcs.credentials import chain_of
from deltacli.storage.gcs.store import GcsCalls
from deltacli.storage.objects.calls import ABSENT
from deltacli.storage.objects.http import ANONYMOUS, Body, Fate, HttpFault, repeat_call
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.outcomes import Deletion
from deltacli.storage.probing.subject import (
    Granted,
    Identity,
    Permit,
    ProbedCalls,
    Reply,
    Said,
    unknown_without_writing,
)
from deltacli.storage.retry import CREATE_FIRST_WAIT

_PAGE = 3
"""Names per page of a listing of scratch files, so that several pages are listed."""

Answer = TypeVar("Answer")


class ObjectSubject:
    """Objects below a prefix of a bucket or container."""

    def __init__(self, storage: ObjectStorage, calls: ProbedCalls) -> None:
        self._storage, self._root, self._calls, self._retry = storage, storage.root, calls, storage.retry

    @property
    def kind(self) -> str:
        return self._calls.kind

    @property
    def endpoint(self) -> str:
        return self._calls.calls.endpoint

    @property
    def names_of_permissions(self) -> dict[str, str]:
        return self._calls.names_of_permissions

    def identity(self) -> Identity:
        return self._calls.identity()

    def permits(self) -> dict[str, Permit]:
        return self._calls.permits()

    def create(self, name: str, data: bytes) -> Said:
        return self._write(name, data, ABSENT)

    def replace(self, name: str, data: bytes, tag: str | None) -> Said:
        return self._write(name, data, tag)

    def tag(self, name: str) -> str:
        return self._ask(lambda: self._calls.calls.look(self._key(name)), name)[1]

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> Said:
        span = "" if first is None else f"bytes={first}-{last}"
        try:
            found = self._again(lambda: self._calls.calls.get(self._key(name), span, tag))
        except HttpFault as fault:
            if fault.status == 416:
                return Said(Reply.DONE)
            return self._said(fault, name)
        return Said(Reply.DONE, "", found.data, found.offset)

    def modified_ms(self, name: str) -> int:
        return self._ask(lambda: self._calls.calls.look(self._key(name)), name)[0].modified_ms

    def names(self, prefix: str, start: str = "") -> list[str]:
        found, token, whole = list[str](), "", self._key(prefix)
        first = self._key(start) if start else ""
        while True:
            page = self._ask(lambda token=token: self._calls.calls.page(whole, "", token, first, _PAGE), prefix)  # type: ignore[misc]  # a lambda with a default
            found += [entry.key.removeprefix(f"{self._root}/" if self._root else "") for entry in page.entries]
            if not page.token or page.token == token:
                return [name for name in found if name >= start]
            token = page.token

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def deletes_alone(self, name: str) -> bool:
        return not self._calls.calls.can_delete_together(self._key(name))

    def _write(self, name: str, data: bytes, condition: str | None) -> Said:
        """Send one request; repeat it only after an answer that nothing was done."""
        said, asked_seconds = Said(Reply.UNKNOWN), 0.0

        def asked() -> float:
            return asked_seconds

        for _ in self._retry.rounds(CREATE_FIRST_WAIT, asked=asked):
            try:
                self._calls.calls.write(self._key(name), Body(data), condition)
                return Said(Reply.DONE)
            except HttpFault as fault:
                asked_seconds = fault.wait_seconds
                said = self._said(fault, name, self._calls.calls.dialect.exists)
                if fault.status != 429:
                    break
        return said

    def _said(self, fault: HttpFault, name: str, exists: frozenset[str] = frozenset()) -> Said:
        """Return the answer of a fault. Raises StorageFailed where no request was sent."""
        if fault.fate is Fate.UNSENT:
            raise self._translated(fault, name)
        if fault.fate is not Fate.ANSWERED:
            return Said(Reply.UNKNOWN, str(fault))
        if fault.status == 412 or fault.reason in exists:
            return Said(Reply.REFUSED, str(fault))
        known = {404: Reply.ABSENT, 401: Reply.DENIED, 403: Reply.DENIED, 501: Reply.UNSUPPORTED}
        doubtful = fault.status >= 500 or fault.status in (408, 409)
        return Said(known.get(fault.status, Reply.UNKNOWN if doubtful else Reply.FAILED), str(fault))

    def _again(self, call: Callable[[], Answer]) -> Answer:
        return repeat_call(self._retry, call, host=self.endpoint)

    def _ask(self, call: Callable[[], Answer], name: str) -> Answer:
        try:
            return self._again(call)
        except HttpFault as fault:
            raise self._translated(fault, name) from fault

    def _translated(self, fault: HttpFault, name: str) -> StorageFailed | UsageError:
        return self._calls.calls.translated(fault, f"{self._storage.uri}/{name}", "probed")

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else name


# -- Google Cloud Storage as a subject ---------------------------------------------------------------------------------

_GOOGLE_NAMES = {
    "list": "storage.objects.list",
    "read": "storage.objects.get",
    "create": "storage.objects.create",
    "replace": "storage.objects.create and storage.objects.delete",
    "delete": "storage.objects.delete",
}
_ASKED = ("storage.objects.list", "storage.objects.get", "storage.objects.create", "storage.objects.delete")


class GcsProbed:
    """The calls of a bucket, and their caller."""

    kind = "gcs"
    names_of_permissions = _GOOGLE_NAMES

    def __init__(self, calls: GcsCalls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return the account. Raises CredentialsMissing."""
        options = self.calls.credentials.options
        if options.anonymous:
            return Identity(None, ANONYMOUS, {}, {})
        self.calls.credentials.headers()
        found = self.calls.credentials.google()
        details = {"credentials": type(found).__name__}
        if project := getattr(found, "quota_project_id", None):
            details["quota project"] = str(project)
        return Identity(_account(found), _google_source(found, has_token=bool(options.token)), details, chain_of(None))

    def permits(self) -> dict[str, Permit]:
        """Ask the bucket, which answers without a permission of its own.

        A grant that an IAM condition limits to a prefix is not in the answer, and so is one on a managed folder.
        """
        try:
            granted = self.calls.granted(_ASKED)
        except HttpFault as fault:
            return unknown_without_writing(f"the bucket does not answer testIamPermissions: {fault}")
        if not {"storage.objects.list", "storage.objects.get"} & granted:
            return unknown_without_writing("the bucket grants nothing; grants on a prefix are not listed")
        wanted = {"create": ("create",), "replace": ("create", "delete"), "delete": ("delete",)}
        return {name: _permit(needs, granted) for name, needs in wanted.items()}


def _permit(needs: tuple[str, ...], granted: frozenset[str]) -> Permit:
    missing = [f"storage.objects.{need}" for need in needs if f"storage.objects.{need}" not in granted]
    if not missing:
        return Permit(Granted.YES, "testIamPermissions of the bucket")
    return Permit(Granted.NO, f"testIamPermissions of the bucket lacks {', '.join(missing)}")


def _account(found: GoogleAuth) -> str | None:
    for name in ("service_account_email", "account", "client_id"):
        text = str(getattr(found, name, None) or "")
        if text and text != "default":
            return text
    return None


def _google_source(found: GoogleAuth, *, has_token: bool) -> str:
    module = type(found).__module__
    if has_token:
        return parameter("storage_options.token")
    if "compute_engine" in module:
        return "instance metadata (service account of the machine)"
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return f"file {file} (GOOGLE_APPLICATION_CREDENTIALS)" if file else "application default credentials of gcloud"


# -- Azure Blob Storage as a subject -----------------------------------------------------------------------------------

_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_AZURE_NAMES = {
    "list": f"{_BLOBS}/read",
    "read": f"{_BLOBS}/read",
    "create": f"{_BLOBS}/add/action or {_BLOBS}/write",
    "replace": f"{_BLOBS}/write",
    "delete": f"{_BLOBS}/delete",
}
_LETTERS = {"create": "cw", "replace": "w", "delete": "d"}
"""Letters of the field `sp` of a signature, one of which is needed."""
_SHOWN = {"sp": "permissions", "se": "expires", "st": "starts", "sr": "resource", "spr": "protocols"}
_CLAIMS = ("upn", "unique_name", "preferred_username", "appid", "azp", "oid")
_VARIABLES = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING"),
    "AZURE_STORAGE_TOKEN",
    *("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
)


class AzureProbed:
    """The calls of a container, and their caller."""

    kind = "azure"
    names_of_permissions = _AZURE_NAMES

    def __init__(self, calls: AzureCalls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return who calls. Raises CredentialsMissing."""
        credentials = self.calls.credentials
        options, chain = credentials.options, {name: "set" for name in _VARIABLES if os.environ.get(name)}
        if options.used == "none":
            return Identity(None, ANONYMOUS, {}, chain)
        if options.used == "key":
            source = f"key of the account ({_origin(options.account_key)})"
            return Identity(options.account, source, {"rights": "all, on every container"}, chain)
        if options.used == "signature":
            source = f"shared access signature ({_origin(options.sas_token)})"
            return Identity(options.account, source, _fields(options.sas_token), chain)
        token = credentials.bearer()
        claims = _claims(token)
        name = next((str(claims[name]) for name in _CLAIMS if claims.get(name)), None)
        details = {
            word: str(claims[claim]) for claim, word in {"tid": "tenant", "oid": "object"}.items() if claims.get(claim)
        }
        return Identity(name, _azure_source(credentials.source(), credentials.identity), details, chain)

    def permits(self) -> dict[str, Permit]:
        """Return what the credentials themselves grant: an account key everything, a signature the rights in it."""
        options = self.calls.credentials.options
        if options.used == "key":
            return {name: Permit(Granted.YES, "a key of the account has all rights") for name in _LETTERS}
        if options.used == "signature":
            rights = parse_qs(options.sas_token).get("sp", [""])[0]
            return {name: _by_signature(rights, letters) for name, letters in _LETTERS.items()}
        return unknown_without_writing("only an attempt to write shows the roles of the caller")


def _by_signature(rights: str, letters: str) -> Permit:
    if not rights:
        return Permit(Granted.UNKNOWN, "the signature refers to a stored access policy")
    if any(letter in rights for letter in letters):
        return Permit(Granted.YES, f"the signature has sp={rights}")
    return Permit(Granted.NO, f"the signature has sp={rights} without {' or '.join(letters)}")


def _fields(signature: str) -> dict[str, str]:
    """Return the fields of a signature that are no secret."""
    found = parse_qs(signature)
    return {word: found[name][0] for name, word in _SHOWN.items() if found.get(name)}


def _claims(token: str) -> dict[str, Json]:
    """Return the claims of a token, which are not verified; empty for another form of token."""
    parts = token.split(".")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))) if len(parts) == 3 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _azure_source(credential: AzureCredential, identity: str) -> str:
    """Return which credential of the chain was used, if the library tells."""
    used = getattr(credential, "_successful_credential", None)
    return f"{type(used).__name__} of azure-identity" if used is not None else identity


def _origin(secret: str) -> str:
    """Return the variable that a secret comes from, else that it is an option."""
    holders = [name for name in _VARIABLES if secret in os.environ.get(name, "")]
    return holders[0] if holders else f"{parameter('open_table.storage_options')}, or the configuration file"
