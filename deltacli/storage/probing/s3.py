"""S3 as a subject: single requests by botocore, and the identity that the security token service tells."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore import exceptions as boto

from deltacli.errors import CredentialsMissing
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT
from deltacli.storage.objects.faults import Dialect
from deltacli.storage.objects.http import Fate, HttpFault, said_of
from deltacli.storage.objects.listing import Content, Entry, ListedPage
from deltacli.storage.probing.calls import unknown_without_writing
from deltacli.storage.probing.subject import Identity, Permit
from deltacli.storage.s3.answers import body_of, page_of, stat_of
from deltacli.storage.s3.calls import S3Calls, bound_answers
from deltacli.storage.s3.faults import FAULTS, chain, code_of, renewal, translate, used_credentials
from deltacli.storage.s3.options import make_session
from deltacli.storage.s3.sending import TooLong

DIALECT = Dialect(
    store="S3",
    holder="bucket",
    holder_missing=frozenset({"NoSuchBucket"}),
    exists=frozenset(),
    who="aws sts get-caller-identity",
    list_holders="aws s3api list-buckets",
    check_endpoint="check AWS_ENDPOINT_URL and AWS_REGION",
    condition="If-None-Match",
)
_NAMES = {
    "list": "s3:ListBucket",
    "read": "s3:GetObject",
    "create": "s3:PutObject",
    "replace": "s3:PutObject",
    "delete": "s3:DeleteObject",
}
_UNSENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError, boto.ParamValidationError)
_NO_CREDENTIALS = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)
_STATUS = {"NoSuchKey": 404, "NotFound": 404, "InvalidRange": 416, "PreconditionFailed": 412, "NoSuchBucket": 404}
_OF_PROFILES = ("shared-credentials-file", "config-file", "assume-role", "sso", "custom-process")
_SECONDS = 3
"""Limit for the answer of the token service, which is asked for a name only."""


class S3Requests:
    """The calls of a bucket that probes need, sent once each."""

    dialect = DIALECT
    deletes_per_request = 1_000
    starts_anywhere = True
    is_known_atomic = False

    def __init__(self, made: S3Calls) -> None:
        self._made = made
        self._asked = {"Bucket": made.bucket, **made.payer}

    @property
    def endpoint(self) -> str:
        return self._made.host

    @property
    def identity(self) -> str:
        return used_credentials(self._made.client, self._made.options)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        given = {"Delimiter": delimiter, "ContinuationToken": token, "StartAfter": start[:-1], "MaxKeys": limit}
        with self._caught():
            answer = self._made.client.list_objects_v2(
                Prefix=prefix, **self._asked, **{name: value for name, value in given.items() if value}
            )
        return page_of(answer, f"s3://{self._made.bucket}/{prefix}", prefix)

    def look(self, key: str) -> tuple[Entry, str]:
        with self._caught():
            answer = self._made.client.head_object(Key=key, **self._asked)
        found = stat_of(answer, f"s3://{self._made.bucket}/{key}")
        return Entry(key, found.size_bytes, found.modified_ms), str(answer.get("ETag", ""))

    def get(self, key: str, span: str, tag: str) -> Content:
        condition = ({"Range": span} if span else {}) | ({"IfMatch": tag} if tag else {})
        with self._caught():
            answer = self._made.client.get_object(Key=key, **self._asked, **condition)
            data = body_of(answer, f"s3://{self._made.bucket}/{key}", span, self.endpoint)
        shown = str(answer.get("ContentRange") or "bytes 0-")
        offset = int(re.sub(r"\D*(\d+)-.*", r"\1", shown))
        return Content(data, offset, len(data), str(answer.get("ETag", "")))

    def write(self, key: str, body: Body, condition: str | None) -> None:
        given = {} if condition is None else {"IfNoneMatch": "*"} if condition == ABSENT else {"IfMatch": condition}
        with self._caught():
            self._made.client.put_object(Key=key, Body=body.read(), **self._asked, **given)

    def delete(self, key: str) -> None:
        with self._caught():
            self._made.client.delete_object(Key=key, **self._asked)

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, HttpFault | None]:
        raise NotImplementedError  # the store itself deletes in bulk

    def can_hold(self, key: str) -> bool:  # noqa: ARG002  (of the port)
        return True

    @contextmanager
    def _caught(self) -> Any:  # Any: a context manager
        """Raise HttpFault for a fault of the library."""
        try:
            yield
        except _NO_CREDENTIALS as fault:
            place = f"s3://{self._made.bucket}"
            raise translate(fault, place, "probed", self._made.options, self._made.client) from None
        except boto.ClientError as fault:
            status = int(fault.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            code = code_of(fault)
            said = said_of(str(fault.response.get("Error", {}).get("Message", "")))
            status = _STATUS.get(code, status)
            raise HttpFault(
                Fate.ANSWERED, said, status=status, reason="" if code == str(status) else code,
                expired=renewal(fault, self._made.client, self._made.options),
            ) from fault  # fmt: skip
        except _UNSENT as fault:
            raise HttpFault(Fate.UNSENT, said_of(str(fault)), reason="unreachable") from fault
        except TooLong as fault:
            raise HttpFault(Fate.UNEXPECTED, str(fault)) from fault
        except FAULTS as fault:
            raise HttpFault(Fate.BROKEN, said_of(f"{type(fault).__name__}: {fault}")) from fault


class S3Probed:
    """The calls of a bucket, and their caller."""

    kind = "s3"
    names_of_permissions = _NAMES

    def __init__(self, made: S3Calls) -> None:
        self._made = made
        self.calls = S3Requests(made)

    def identity(self) -> Identity:
        """Return the caller. Raises CredentialsMissing."""
        options, tried = self._made.options, chain(self._made.options)
        if options.anonymous:
            return Identity(None, "none (anon=true)", {}, {})
        credentials = self._made.client._request_signer._credentials
        if credentials is None:
            raise CredentialsMissing(
                "no usable AWS credentials",
                facts=tried,
                hint="export AWS_PROFILE=NAME, or for a public bucket add --storage-option anon=true",
            )
        details = {"region": str(self._made.client.meta.region_name)}
        key = str(getattr(credentials.get_frozen_credentials(), "access_key", "") or "")
        if len(key) >= 16:
            details["access key"] = f"ends in {key[-4:]}"
        if getattr(credentials, "method", "") in _OF_PROFILES:
            details["profile"] = options.profile or os.environ.get("AWS_PROFILE") or "default"
        if getattr(credentials, "token", None):
            details["kind"] = "temporary"
        return Identity(self._name(details), self.calls.identity, details, {})

    def permits(self) -> dict[str, Permit]:
        return unknown_without_writing("S3 tells it only by an attempt to write")

    def _name(self, details: dict[str, str]) -> str | None:
        """Return the ARN of the caller. A store that is not of the cloud has no such service."""
        given = os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
        if not self._made.is_aws and not given:
            return None
        from botocore.config import Config

        limits = Config(connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"total_max_attempts": 1})
        signer = self._made.client._request_signer._credentials.get_frozen_credentials()
        try:
            service = make_session(self._made.options).create_client(
                "sts", region_name=self._made.client.meta.region_name, config=limits,
                aws_access_key_id=signer.access_key, aws_secret_access_key=signer.secret_key,
                aws_session_token=signer.token,
            )  # fmt: skip
            bound_answers(service)
            found = service.get_caller_identity()
            details["account"] = str(found["Account"])
            return str(found["Arn"])
        except FAULTS as fault:
            said = said_of(code_of(fault) or type(fault).__name__)
            details["name"] = f"unknown, because the token service gave no usable answer ({said})"
            return None
