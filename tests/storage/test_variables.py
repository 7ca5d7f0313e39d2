"""Variables of clouds that documentation, hints and errors name: we read each, or the library of the cloud does."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import UsageError
from deltacli.storage.azure.addresses import read_address
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import read_azure_options as azure_options
from deltacli.storage.gcs.options import read_gcs_options as gcs_options
from deltacli.storage.objects.http_errors import ANONYMOUS
from deltacli.storage.s3.errors import describe_s3_sources
from deltacli.storage.s3.options import make_client, make_session, read_s3_options
from tests.cli.support import ROOT

_NAME = re.compile(r"\b(?:AWS|AZURE|GOOGLE|GCE|CLOUDSDK|IDENTITY|MSI|STORAGE_EMULATOR)_[A-Z0-9_]*[A-Z0-9]\b")
_LIBRARIES = ("botocore", "azure.identity", "google.auth", "google.oauth2")


def _client() -> Any:  # Any: botocore makes its classes at run time
    return make_client(read_s3_options({"key": "k", "secret": "s"})).meta


def _session() -> Any:
    return make_session(read_s3_options({}))


def _azure() -> Any:  # Any: options without their type
    return azure_options({}, read_address("abfss://container@account.dfs.core.windows.net/t"))


def _azure_by_name() -> Any:
    return azure_options({}, read_address("az://container/t"))


_URL = "http://127.0.0.1:9"
_CONNECTION = "AccountName=account;AccountKey=a2V5"
EFFECTS: Mapping[str, tuple[str, Callable[[], object]]] = {
    "AWS_REGION": ("xx-north-1", lambda: _client().region_name),
    "AWS_ENDPOINT_URL": (_URL, lambda: _client().endpoint_url),
    "AWS_ENDPOINT_URL_S3": (_URL, lambda: _client().endpoint_url),
    "AWS_ENDPOINT_URL_STS": (_URL, lambda: _session().create_client("sts", "xx-north-1").meta.endpoint_url),
    "AWS_PROFILE": ("night", lambda: _session().profile),
    "AWS_MAX_ATTEMPTS": ("7", lambda: str(read_s3_options({}).max_attempts)),
    "AWS_REQUEST_CHECKSUM_CALCULATION": ("when_supported", lambda: _client().config.request_checksum_calculation),
    "AZURE_STORAGE_ACCOUNT_NAME": ("other", lambda: _azure_by_name().account),
    "AZURE_STORAGE_ACCOUNT_KEY": ("a2V5", lambda: _azure().account_key),
    "AZURE_STORAGE_SAS_TOKEN": ("sig=x", lambda: _azure().sas_token),
    "AZURE_STORAGE_TOKEN": ("issued", lambda: _azure().token),
    "AZURE_STORAGE_TENANT_ID": ("tenant", lambda: _azure().client[0]),
    "AZURE_STORAGE_CLIENT_ID": ("client", lambda: _azure().client[1]),
    "AZURE_STORAGE_CLIENT_SECRET": ("hush", lambda: _azure().client[2]),
    "STORAGE_EMULATOR_HOST": (_URL, lambda: gcs_options({}).endpoint),
    "GOOGLE_CLOUD_PROJECT": ("payer", lambda: gcs_options({"requester_pays": "true"}).payer),
}
"""A value of each variable that we read or hand over, and what it changes."""


@pytest.fixture
def without_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in filter(_NAME.fullmatch, [*os.environ]):
        monkeypatch.delenv(name)
    (tmp_path / "config").write_text("[default]\nregion = xx-south-1\n[profile night]\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return monkeypatch


def test_the_named_profile_is_the_one_whose_credentials_are_used(without_variables: pytest.MonkeyPatch) -> None:
    names = []
    for variables in ({}, {"AWS_PROFILE": "night"}, {"AWS_PROFILE": "day", "AWS_DEFAULT_PROFILE": "night"}):
        for name, value in variables.items():
            without_variables.setenv(name, value)
        names.append((describe_s3_sources(read_s3_options({}))["profile"], _session().profile or "default"))

    assert [("default", "default"), ("night", "night"), ("night", "night")] == names


@pytest.mark.parametrize("name", EFFECTS)
def test_a_variable_that_documents_name_has_its_effect(name: str, without_variables: pytest.MonkeyPatch) -> None:
    value, effect = EFFECTS[name]
    before = _tried(effect)

    without_variables.setenv(name, value)

    assert value != before
    assert value == effect()


def test_the_region_of_the_variable_wins_over_the_profile_and_the_name_that_botocore_reads(
    without_variables: pytest.MonkeyPatch,
) -> None:
    without_variables.setenv("AWS_DEFAULT_REGION", "xx-east-1")
    assert "xx-east-1" == _client().region_name

    without_variables.setenv("AWS_REGION", "xx-north-1")

    assert "xx-north-1" == _client().region_name
    assert "xx-west-1" == make_client(read_s3_options({"region": "xx-west-1"})).meta.region_name


def test_the_other_variables_are_known_to_the_libraries() -> None:
    known = set().union(*(_read_by(library) for library in _LIBRARIES)) | {"AZURE_STORAGE_CONNECTION_STRING"}

    named = _named()

    assert named >= {"AWS_REGION", "AZURE_STORAGE_SAS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"}
    assert set() == named - set(EFFECTS) - known


def test_a_connection_string_of_the_environment_is_read(without_variables: pytest.MonkeyPatch) -> None:
    without_variables.setenv("AZURE_STORAGE_CONNECTION_STRING", _CONNECTION)

    assert ("account", "a2V5") == (_azure_by_name().account, _azure_by_name().account_key)


def test_one_of_several_credentials_of_azure_is_used(without_variables: pytest.MonkeyPatch) -> None:
    used = []
    for name, value in {"SAS_TOKEN": "sig=x", "ACCOUNT_KEY": "a2V5"}.items():
        used += [AzureCredentials(_azure(), "t").identity]
        without_variables.setenv(f"AZURE_STORAGE_{name}", value)
    anonymous = azure_options(
        {"anon": "true", "account_key": "a2V5", "account_name": "account"}, read_address("az://container/t")
    )

    used += [AzureCredentials(_azure(), "t").identity, AzureCredentials(anonymous, "t").identity]

    library = "DefaultAzureCredential of azure-identity"
    assert [library, "shared access signature", "key of the account account", ANONYMOUS] == used


def _named() -> set[str]:
    """Return the variables of clouds in the documentation and in the texts of the code."""
    texts = [path.read_text() for path in [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").glob("*.md")]]
    for path in (ROOT / "deltacli").rglob("*.py"):
        if _NAME.search(text := path.read_text()):
            constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
            texts += [value for value in constants if isinstance(value, str)]
    return set(_NAME.findall("\n".join(texts)))


def _read_by(library: str) -> set[str]:
    """Return the names that are whole strings in the source of a library."""
    found = find_spec(library)
    assert found is not None
    paths = [path for place in found.submodule_search_locations or () for path in Path(place).rglob("*.py")]
    return {name for path in paths for name in re.findall(rf"[\"']({_NAME.pattern})[\"']", path.read_text())}


def _tried(effect: Callable[[], object]) -> object:
    """Return what an effect is without its variable; None where something is missing then."""
    try:
        return effect()
    except UsageError:  # an account without a name
        return None
