"""Texts without secrets: faults of libraries, headers, URLs, options."""

from __future__ import annotations

import base64
import inspect
import json
from urllib.parse import quote

import pytest
from botocore import exceptions as boto

from deltacli.cli.options.option_values import parse_storage_option
from deltacli.core.errors import DeltacliError
from deltacli.storage import open_storage, secrets
from deltacli.storage.s3.errors import translate_botocore_error
from deltacli.storage.s3.options import read_s3_options
from deltacli.storage.secrets import mask_secrets
from tests.support.marked import KEY_ID, MARKED, PASSWORD, SECRET, TOKEN


@pytest.mark.parametrize(
    "option", ["endpoint_url=http://h:9000", 'config_kwargs={"retries":{"mode":"standard"}}', "region=x-1", "key=AKIA"]
)
def test_options_without_a_secret_are_accepted(option: str) -> None:
    assert option == "=".join(parse_storage_option(option))


BOTOCORE_ERRORS = sorted(
    (kind for _, kind in inspect.getmembers(boto, inspect.isclass) if issubclass(kind, boto.BotoCoreError)),
    key=lambda kind: kind.__name__,
)


class AnyText(dict[str, str]):
    """Arguments of a fault's text, each of which holds all secrets."""

    def __missing__(self, _: str) -> str:
        return (
            f"b'{TOKEN}\\n' {SECRET} {KEY_ID} http://me:{PASSWORD}@h/?X-Amz-Credential={KEY_ID}%2F1&X-Amz-Signature=0"
        )


@pytest.mark.parametrize("kind", BOTOCORE_ERRORS)
def test_library_errors_contain_no_secret(kind: type[Exception]) -> None:
    fault = kind.__new__(kind)
    Exception.__init__(fault, str(getattr(kind, "fmt", "{error}")).format_map(AnyText()))
    options = read_s3_options({"key": KEY_ID, "secret": SECRET, "token": f"{TOKEN}\n"})

    error = translate_botocore_error(fault, "s3://bucket/t", "read", options)

    shown = f"{error.message} {error.facts} {error.hint} {error.__cause__}"
    assert not [secret for secret in MARKED if secret in shown]


@pytest.mark.parametrize(
    "text",
    [
        f"Invalid header value b'{TOKEN}x\\n'",
        f'Invalid leading whitespace in header value: "{TOKEN}x"',
        f"Authorization: Basic {base64.b64encode(PASSWORD.encode()).decode()}",
        f"{{'Authorization': 'Bearer {TOKEN}x'}}",
        f"X-Amz-Security-Token: {TOKEN}x",
        f"https://account.blob.core.windows.net/c?sv=1&sig={quote(SECRET)}x",
        f"AccountName=a;AccountKey={SECRET}x;EndpointSuffix=core",
    ],
)
def test_headers_and_signatures_are_masked_even_if_the_secret_is_unknown(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_remembered", set())
    before = base64.b64encode(PASSWORD.encode()).decode()

    shown = mask_secrets(text)

    assert not [secret for secret in (*MARKED, before, quote(SECRET)) if secret in shown]


def test_options_of_a_store_behind_fsspec_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("memory://t", {"client_secret": SECRET, "settings": json.dumps({"password": PASSWORD})})

    def fail(*_: object, **__: object) -> None:
        raise OSError(f"refused with {SECRET} and {PASSWORD}")

    monkeypatch.setattr(type(storage._file_system), "cat_file", fail)  # type: ignore[attr-defined]
    with pytest.raises(DeltacliError) as raised:
        storage.read("x")

    assert not [
        secret for secret in MARKED if secret in f"{raised.value.message}{raised.value.facts}{raised.value.__cause__}"
    ]
