"""`--allow-external`: which files outside a table may be opened is decided by the user, never by the table."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import PathExternal
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
        ("deltacli.toml", '["s3://"]', "does not name a directory, host or bucket"),
    ],
)
def test_an_unsuitable_configuration_is_refused(place: str, prefixes: str, words: str, clone: Path) -> None:
    settings = clone.parent / place
    settings.write_text(f"allow_external = {prefixes}\n")

    result = deltacli("read", clone, "--config", settings)

    assert (2, True) == (result.code, words in result.err)


def hinted(*arguments: str | Path) -> str:
    """The command that the refusal of another one hints at."""
    refused = deltacli(*arguments)
    (hint,) = (line.removeprefix("hint: ") for line in refused.err.splitlines() if line.startswith("hint: "))
    return hint


def test_the_command_of_the_hint_opens_a_linked_directory(tmp_path: Path) -> None:
    source = put_rows(tmp_path / "other dir" / "b.parquet", 2)
    root = write_table(tmp_path / "t", add("sub dir/b.parquet", source.stat().st_size))
    (root / "sub dir").symlink_to(source.parent)

    hint = hinted("read", root, "--limit", "9")

    assert f"deltacli read {root} --limit 9 --allow-external '{tmp_path}/other dir'" == hint
    assert 0 == deltacli(*shlex.split(hint)[1:]).code


@pytest.mark.parametrize(("target", "hint"), [("/etc", "validate {}"), ("/", "help path.external")])
def test_the_hint_for_a_linked_directory_does_not_name_its_parents(target: str, hint: str, tmp_path: Path) -> None:
    root = write_table(tmp_path / "t", add("sub dir/hostname"))
    (root / "sub dir").symlink_to(target)

    refused = deltacli("read", root)

    hints = [line for line in refused.err.splitlines() if line.startswith("hint: ")]
    assert [f"hint: deltacli {hint.format(root)}"] == hints
    assert (f"deltacli read {root} --allow-external /etc\n" in refused.err) == (target == "/etc")


def test_one_suggested_command_opens_a_clone_with_partitions(tmp_path: Path) -> None:
    sources = [put_rows(tmp_path / "source" / f"p={number}" / "q=1" / "b.parquet", number) for number in (2, 3)]
    root = write_table(tmp_path / "t", *(add(source.as_uri(), source.stat().st_size) for source in sources))

    hint = hinted("read", root, "--allow-external", tmp_path / "elsewhere")

    assert hint.endswith(f"--allow-external {tmp_path}/elsewhere --allow-external {tmp_path}/source")
    assert 0 == deltacli(*shlex.split(hint)[1:]).code


@pytest.mark.parametrize("path", ["/b.parquet", "/p=1/b.parquet"])
def test_the_hint_never_names_the_root_of_the_disk(path: str, tmp_path: Path) -> None:
    root = write_table(tmp_path / "t", add(path))

    hint = hinted("read", root)

    assert hint.endswith(f"--allow-external {'/b.parquet' if path == '/b.parquet' else '/p=1'}")


def test_the_hint_of_the_python_api_names_the_table(clone: Path) -> None:
    with pytest.raises(PathExternal) as refused:
        list(open_table(str(clone)).snapshot().scan())

    assert f"deltacli read {clone} --allow-external {clone.parent}/source" == refused.value.hint
