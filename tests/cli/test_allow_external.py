"""`--allow-external`: which files outside a table may be opened is decided by the user, never by the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import deltacli
from tests.support.external import add, put_rows, write_table


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A table that names a file of another directory, as a shallow clone does."""
    source = put_rows(tmp_path / "source" / "b.parquet", 2)
    return write_table(tmp_path / "clone", add(source.as_uri(), source.stat().st_size))


def test_a_file_outside_is_refused_with_the_option_that_allows_it(clone: Path) -> None:
    refused = deltacli("read", clone, "--format", "csv")

    allowed = deltacli("read", clone, "--format", "csv", "--allow-external", clone.parent / "source")

    assert (4, "") == (refused.code, refused.out)
    assert f"--allow-external {clone.parent}/source" in refused.err
    assert (0, {"id", "1", "2"}) == (allowed.code, set(allowed.out.split()))


@pytest.mark.parametrize("command", ["read", "changes", "validate", "widen-type"])
def test_each_command_that_opens_data_files_has_the_option(command: str, clone: Path) -> None:
    more = {
        "read": (),
        "changes": ("--from", "0"),
        "validate": ("--level", "data"),
        "widen-type": ("id", "decimal(20,0)", "--enable", "--upgrade-protocol", "--check-files", "--dry-run"),
    }[command]

    codes = [deltacli(command, clone, *more, *option).code for option in ((), ("--allow-external", clone.parent))]

    assert {"read": [4, 0], "changes": [4, 0], "validate": [0, 0], "widen-type": [4, 0]}[command] == codes


def test_the_configuration_of_the_user_allows_prefixes_too(clone: Path) -> None:
    settings = clone.parent / "deltacli.toml"
    settings.write_text(f'allow_external = ["{clone.parent}/source"]\n')

    assert 0 == deltacli("read", clone, "--config", settings).code
    assert 0 == deltacli("read", clone, DELTACLI_CONFIG=str(settings)).code


@pytest.mark.parametrize(
    ("place", "prefixes", "words"),
    [
        ("clone/deltacli.toml", '["/"]', "lies inside a table"),
        ("clone/_delta_log/deltacli.toml", '["/"]', "lies inside a table"),
        ("deltacli.toml", '["source"]', "relative path"),
        ("deltacli.toml", '"/"', "not a list"),
        ("deltacli.toml", '["s3://"]', "names no directory, host or bucket"),
    ],
)
def test_a_configuration_that_must_not_decide_is_refused(place: str, prefixes: str, words: str, clone: Path) -> None:
    settings = clone.parent / place
    settings.write_text(f"allow_external = {prefixes}\n")

    result = deltacli("read", clone, "--config", settings)

    assert (2, True) == (result.code, words in result.err)
