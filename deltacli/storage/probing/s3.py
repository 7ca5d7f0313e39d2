"""The identity that sends requests to S3. S3 does not report its permissions."""

from __future__ import annotations

import os

from deltacli.core.errors import CredentialsMissing
from deltacli.storage.objects.http_errors import shorten_message
from deltacli.storage.probing.interface import Identity, Permission, unknown_write_permissions
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.clients import bound_answers
from deltacli.storage.s3.errors import BOTOCORE_ERRORS, build_aws_login_hint, describe_s3_sources, get_error_code
from deltacli.storage.s3.options import get_profile, make_session

_PERMISSION_NAMES = {
    "list": "s3:ListBucket",
    "read": "s3:GetObject",
    "create": "s3:PutObject",
    "replace": "s3:PutObject",
    "delete": "s3:DeleteObject",
}

# Providers of botocore that read a profile from the configuration files of AWS.
_PROFILE_PROVIDERS = ("shared-credentials-file", "config-file", "assume-role", "sso", "custom-process")

# The identity is only shown to the user, so the security token service gets little time to answer.
_TIMEOUT_SECONDS = 3

# Shorter access keys are those of other stores. Four characters would be too much of these.
_MIN_AWS_KEY_LENGTH = 16


class S3Caller:
    """The identity that sends the requests to a bucket."""

    kind = "s3"
    permission_names = _PERMISSION_NAMES

    def __init__(self, calls: S3Calls) -> None:
        self.calls = calls

    def identity(self) -> Identity:
        """Return the ARN of the caller, and where its credentials come from.

        Raises:
            CredentialsMissing: If botocore found no credentials.
        """
        options = self.calls.options
        credential_sources = describe_s3_sources(options)
        if options.anonymous:
            return Identity(None, "none (anon=true)", {}, {})

        credentials = self.calls.client._request_signer._credentials
        if credentials is None:
            raise CredentialsMissing("no usable AWS credentials", facts=credential_sources, hint=build_aws_login_hint())

        details = {"region": str(self.calls.client.meta.region_name)}
        access_key = str(getattr(credentials.get_frozen_credentials(), "access_key", "") or "")
        if len(access_key) >= _MIN_AWS_KEY_LENGTH:
            details["access key"] = f"ends in {access_key[-4:]}"
        if getattr(credentials, "method", "") in _PROFILE_PROVIDERS:
            details["profile"] = get_profile(options)
        if getattr(credentials, "token", None):
            details["kind"] = "temporary"

        arn = self._request_arn(details)
        return Identity(arn, self.calls.identity, details, {})

    def permissions(self) -> dict[str, Permission]:
        return unknown_write_permissions("only an attempt to write shows it")

    def _request_arn(self, details: dict[str, str]) -> str | None:
        """Ask the AWS security token service (STS) for the ARN of the caller.

        Stores of other vendors have no such service. They are only asked if the user has configured
        an endpoint for it.

        Args:
            details: The details of the identity. The account is added, or the reason why the name is
                unknown.

        Returns:
            The ARN; None if it is unknown.
        """
        has_endpoint = os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
        if not self.calls.is_known_atomic and not has_endpoint:
            return None

        from botocore.config import Config

        config = Config(
            connect_timeout=_TIMEOUT_SECONDS, read_timeout=_TIMEOUT_SECONDS, retries={"total_max_attempts": 1}
        )
        credentials = self.calls.client._request_signer._credentials.get_frozen_credentials()
        try:
            sts = make_session(self.calls.options).create_client(
                "sts",
                region_name=self.calls.client.meta.region_name,
                config=config,
                aws_access_key_id=credentials.access_key,
                aws_secret_access_key=credentials.secret_key,
                aws_session_token=credentials.token,
            )
            bound_answers(sts)
            caller = sts.get_caller_identity()
            details["account"] = str(caller["Account"])
            return str(caller["Arn"])
        except BOTOCORE_ERRORS as error:
            message = shorten_message(get_error_code(error) or type(error).__name__)
            details["name"] = f"unknown, because the token service gave no usable answer ({message})"
            return None
