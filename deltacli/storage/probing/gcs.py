"""The identity that sends requests to Google Cloud Storage, and its permissions on the bucket."""

from __future__ import annotations

import os

from deltacli.core.errors import parameter
from deltacli.core.typing import GoogleAuth
from deltacli.storage.gcs.calls import GcsCalls
from deltacli.storage.gcs.credential_sources import describe_credential_chain
from deltacli.storage.objects.http_errors import ANONYMOUS, HttpError
from deltacli.storage.probing.interface import Identity, Permission, PermissionState, unknown_write_permissions

_PERMISSION_NAMES = {
    "list": "storage.objects.list",
    "read": "storage.objects.get",
    "create": "storage.objects.create",
    "replace": "storage.objects.create and storage.objects.delete",
    "delete": "storage.objects.delete",
}
_TESTED_PERMISSIONS = (
    "storage.objects.list",
    "storage.objects.get",
    "storage.objects.create",
    "storage.objects.delete",
)

# The IAM permissions that an operation requires. Replacing an object includes deleting the old one.
_REQUIRED_PERMISSIONS = {
    "create": ("storage.objects.create",),
    "replace": ("storage.objects.create", "storage.objects.delete"),
    "delete": ("storage.objects.delete",),
}


class GcsCaller:
    """The identity that sends the requests to a bucket."""

    kind = "gcs"
    permission_names = _PERMISSION_NAMES

    def __init__(self, calls: GcsCalls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return the Google account.

        Raises:
            CredentialsMissing: If no credentials are found, or no access token can be obtained.
        """
        options = self.calls.credentials.options
        if options.anonymous:
            return Identity(None, ANONYMOUS, {}, {})

        # Some credentials only know their account after the first token was obtained.
        self.calls.credentials.build_headers()
        credentials = self.calls.credentials.load_credentials()
        details = {"credentials": type(credentials).__name__}
        if quota_project := getattr(credentials, "quota_project_id", None):
            details["quota project"] = str(quota_project)
        return Identity(
            _get_account(credentials),
            _describe_source(credentials, has_token=bool(options.token)),
            details,
            describe_credential_chain(None),
        )

    def permissions(self) -> dict[str, Permission]:
        """Ask the bucket for the caller's permissions (`testIamPermissions`), which needs no permission.

        The answer does not contain permissions that an IAM condition limits to a prefix, or that are
        granted on a managed folder.
        """
        try:
            granted = self.calls.granted(_TESTED_PERMISSIONS)
        except HttpError as error:
            return unknown_write_permissions(f"the bucket does not answer testIamPermissions: {error}")

        # If the bucket does not even permit reading, the permissions are probably granted on a prefix.
        if granted.isdisjoint({"storage.objects.list", "storage.objects.get"}):
            return unknown_write_permissions("the bucket grants nothing; grants on a prefix are not listed")
        return {name: _check_granted(required, granted) for name, required in _REQUIRED_PERMISSIONS.items()}


def _check_granted(required: tuple[str, ...], granted: frozenset[str]) -> Permission:
    """Return whether all required IAM permissions are granted."""
    missing = [name for name in required if name not in granted]
    if not missing:
        return Permission(PermissionState.YES, "testIamPermissions of the bucket")
    return Permission(PermissionState.NO, f"testIamPermissions of the bucket lacks {', '.join(missing)}")


def _get_account(credentials: GoogleAuth) -> str | None:
    """Return the account of credentials; None if it is unknown.

    The attribute depends on the class of the credentials. On a virtual machine, the account is called
    `default` until it was requested.
    """
    for attribute in ("service_account_email", "account", "client_id"):
        account = str(getattr(credentials, attribute, None) or "")
        if account and account != "default":
            return account
    return None


def _describe_source(credentials: GoogleAuth, *, has_token: bool) -> str:
    """Return where google-auth found the credentials.

    Args:
        credentials: Credentials of google-auth.
        has_token: Whether the user passed an access token.
    """
    if has_token:
        return parameter("storage_options.token")
    if "compute_engine" in type(credentials).__module__:
        return "instance metadata (service account of the machine)"
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return f"file {file} (GOOGLE_APPLICATION_CREDENTIALS)" if file else "application default credentials of gcloud"
