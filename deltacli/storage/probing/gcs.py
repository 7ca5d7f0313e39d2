"""Google Cloud Storage as a store to probe: its caller, and the permissions that the bucket grants."""

from __future__ import annotations

import os

from deltacli.core.errors import parameter
from deltacli.core.typing import GoogleAuth
from deltacli.storage.gcs.calls import GcsCalls
from deltacli.storage.gcs.credential_sources import describe_credential_chain
from deltacli.storage.objects.http_errors import ANONYMOUS, HttpError
from deltacli.storage.probing.subject import (
    Granted,
    Identity,
    Permit,
    unknown_without_writing,
)

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
        self.calls.credentials.build_headers()
        google_credentials = self.calls.credentials.load_credentials()
        details = {"credentials": type(google_credentials).__name__}
        if project := getattr(google_credentials, "quota_project_id", None):
            details["quota project"] = str(project)
        return Identity(
            _account(google_credentials),
            _google_source(google_credentials, has_token=bool(options.token)),
            details,
            describe_credential_chain(None),
        )

    def permits(self) -> dict[str, Permit]:
        """Ask the bucket, which answers without a permission of its own.

        A grant that an IAM condition limits to a prefix is not in the answer, and so is one on a managed folder.
        """
        try:
            granted = self.calls.granted(_ASKED)
        except HttpError as error:
            return unknown_without_writing(f"the bucket does not answer testIamPermissions: {error}")
        if not {"storage.objects.list", "storage.objects.get"} & granted:
            return unknown_without_writing("the bucket grants nothing; grants on a prefix are not listed")
        wanted = {"create": ("create",), "replace": ("create", "delete"), "delete": ("delete",)}
        return {name: _permit(needs, granted) for name, needs in wanted.items()}


def _permit(needs: tuple[str, ...], granted: frozenset[str]) -> Permit:
    missing = [f"storage.objects.{need}" for need in needs if f"storage.objects.{need}" not in granted]
    if not missing:
        return Permit(Granted.YES, "testIamPermissions of the bucket")
    return Permit(Granted.NO, f"testIamPermissions of the bucket lacks {', '.join(missing)}")


def _account(credentials: GoogleAuth) -> str | None:
    for name in ("service_account_email", "account", "client_id"):
        text = str(getattr(credentials, name, None) or "")
        if text and text != "default":
            return text
    return None


def _google_source(credentials: GoogleAuth, *, has_token: bool) -> str:
    module = type(credentials).__module__
    if has_token:
        return parameter("storage_options.token")
    if "compute_engine" in module:
        return "instance metadata (service account of the machine)"
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return f"file {file} (GOOGLE_APPLICATION_CREDENTIALS)" if file else "application default credentials of gcloud"
