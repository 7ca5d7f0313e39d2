"""An error about a value is JSON where the configuration file asks for JSON, although it is read after the parse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltacli.cli.app import run


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    path = tmp_path / "deltacli.toml"
    path.write_text('format = "json"\n\n[profile.people]\nformat = "table"\n')
    return str(path)


def test_an_error_about_a_value_is_a_document_if_the_configuration_says_so(
    configuration: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["vacuum", "trips", "--config", configuration, "--retention", "7x"])

    error = json.loads(capsys.readouterr().err)
    assert (2, "usage.duration", 2) == (code, error["code"], error["exit"])


@pytest.mark.parametrize("options", [["--format", "table"], ["--profile-name", "people"]])
def test_what_is_nearer_than_the_configuration_decides(
    options: list[str], configuration: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["vacuum", "trips", "--config", configuration, "--retention", "7x", *options])

    assert 2 == code
    assert capsys.readouterr().err.startswith("error: --retention")
