"""S3 as a subject: single requests by botocore, and the identity that the security token service tells."""

from __future__ import annotations

import os

from deltacli.core.errors import CredentialsMissing
from deltacli.storage.objects.http_errors import shorten_message
from deltacli.storage.probing.subject import Identity, Permit, unknown_without_writing
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.clients import bound_answers
from deltacli.storage.s3.errors import BOTOCORE_ERRORS, build_aws_login_hint, describe_s3_sources, get_error_code
from deltacli.storage.s3.options import get_profile, make_session

_NAMES = {
    "list": "s3:ListBucket",
    "read": "s3:GetObject",
    "create": "s3:PutObject",
    "replace": "s3:PutObject",
    "delete": "s3:DeleteObject",
}
_OF_PROFILES = ("shared-credentials-file", "config-file", "assume-role", "sso", "custom-process")
_SECONDS = 3
"""Limit for the answer of the token service, which is asked for a name only."""


class S3Probed:
    """The calls of a bucket, and their caller."""

    kind = "s3"
    names_of_permissions = _NAMES

    def __init__(self, made: S3Calls) -> None:
        self.calls = made

    def identity(self) -> Identity:
        """Return the caller. Raises CredentialsMissing."""
        options = self.calls.options
        describe_attempts = describe_s3_sources(self.calls.options)
        if options.anonymous:
            return Identity(None, "none (anon=true)", {}, {})
        credentials = self.calls.client._request_signer._credentials
        if credentials is None:
            raise CredentialsMissing("no usable AWS credentials", facts=describe_attempts, hint=build_aws_login_hint())
        details = {"region": str(self.calls.client.meta.region_name)}
        key = str(getattr(credentials.get_frozen_credentials(), "access_key", "") or "")
        if len(key) >= 16:
            details["access key"] = f"ends in {key[-4:]}"
        if getattr(credentials, "method", "") in _OF_PROFILES:
            details["profile"] = get_profile(options)
        if getattr(credentials, "token", None):
            details["kind"] = "temporary"
        return Identity(self._name(details), self.calls.identity, details, {})

    def permits(self) -> dict[str, Permit]:
        return unknown_without_writing("only an attempt to write shows it")

    def _name(self, details: dict[str, str]) -> str | None:
        """Return the ARN of the caller. A store that is not of the cloud has no such service."""
        given = os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
        if not self.calls.is_known_atomic and not given:
            return None
        from botocore.config import Config

        limits = Config(connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"total_max_attempts": 1})
        signer = self.calls.client._request_signer._credentials.get_frozen_credentials()
        try:
            service = make_session(self.calls.options).create_client(
                "sts", region_name=self.calls.client.meta.region_name, config=limits,
                aws_access_key_id=signer.access_key, aws_secret_access_key=signer.secret_key,
                aws_session_token=signer.token,
            )  # fmt: skip
            bound_answers(service)
            caller = service.get_caller_identity()
            details["account"] = str(caller["Account"])
            return str(caller["Arn"])
        except BOTOCORE_ERRORS as error:
            message = shorten_message(get_error_code(error) or type(error).__name__)
            details["name"] = f"unknown, because the token service gave no usable answer ({message})"
            return None
