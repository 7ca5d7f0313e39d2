"""The generated completions, tried in the real shells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltacli.cli.described_commands import (
    CompletionKind,
    DescribedArgument,
    DescribedCommand,
    DescribedOption,
    DescribedValue,
    describe_commands,
    describe_tree,
)
from tests.completions.shells import FILES, bash, fish, zsh
from tests.support.altering import table_of
from tools.bash_completion import render_bash
from tools.fish_completion import render_fish
from tools.zsh_completion import render_zsh

pytestmark = pytest.mark.quartered  # fish takes half a second for a line

Matches = Callable[[str], list[str]]
SHELLS = ("bash", "bash with bash-completion", "zsh", "fish")
COMMANDS = sorted(["help", *(command.name for command in describe_tree().children)])
IN_LOG = sorted(command.path[-1] for command in describe_commands() if command.path[0] == "log")
NAMES = {
    command.name: sorted(spelling for option in command.options for spelling in option.spellings)
    for command in describe_commands()
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home, and in it `here` with two directories and two files."""
    here = tmp_path / "here"
    for name in ("tbl", "my table"):
        (here / name).mkdir(parents=True)
    for name in ("conf.toml", "my file"):
        (here / name).touch()
    return tmp_path


def matcher(shell: str, home: Path, files: Path) -> Iterator[Matches]:
    """Yield a function that says what a shell completes."""
    match shell:
        case "bash":
            with bash(home, files=files) as found:
                yield found.matches
        case "bash with bash-completion":
            with bash(home, package=True, files=files) as found:
                yield found.matches
        case "zsh":
            with zsh(home, files=files) as found:
                yield found.matches
        case "fish":
            yield lambda line: sorted(name.rstrip("/") for name in fish(line, home / "here", files=files))


@pytest.fixture(params=SHELLS)
def matches(request: pytest.FixtureRequest, home: Path) -> Iterator[Matches]:
    yield from matcher(request.param, home, FILES)


def test_commands_options_and_values(matches: Matches) -> None:
    assert COMMANDS == matches("deltacli ")
    assert ["snapshot"] == matches("deltacli sn")
    assert ["--format"] == matches("deltacli history --form")
    assert ["json"] == matches("deltacli history --format js")
    assert ["--format=json"] == matches("deltacli history --format=j")
    assert [] == matches("deltacli history --limit ")
    assert sorted(NAMES["snapshot"]) == matches("deltacli snapshot -")


def test_shared_options_stand_before_the_command_too(matches: Matches) -> None:
    assert ["--format"] == matches("deltacli --form")
    assert ["json"] == matches("deltacli --format js")
    assert ["history"] == matches("deltacli --format json -q hi")
    assert ["history"] == matches("deltacli --config snapshot --now=2026-01-01T00:00:00Z hi")
    assert [] == matches("deltacli --format json history --form")
    assert [] == matches("deltacli --lim")


def test_a_group_offers_its_commands_and_what_may_stand_before_them(matches: Matches) -> None:
    assert IN_LOG == matches("deltacli log ")
    assert IN_LOG == matches("deltacli --progress json log -q ")
    assert ["--format"] == matches("deltacli log --form")
    assert ["--checkpoint"] == matches("deltacli log cat --ch")
    assert ["my table", "tbl"] == matches("deltacli log cat ")
    assert [] == matches("deltacli --format json log cat --form")


def test_no_option_twice_unless_it_may_be_repeated(matches: Matches) -> None:
    left = sorted(set(NAMES["history"]) - {"--format", "-q", "--quiet"})

    assert left == matches("deltacli history --format=json tbl -q -")
    assert [] == matches("deltacli history --quiet --qui")
    assert ["--storage-option"] == matches("deltacli history --storage-option a=b -v --stor")
    assert ["--verbose"] == matches("deltacli history -vv --verb")
    assert [] == matches("deltacli history -vq --qui")


def test_a_table_is_a_directory_and_a_file_any_file(matches: Matches) -> None:
    assert ["my table", "tbl"] == matches("deltacli history ")
    assert ["my table"] == matches("deltacli snapshot --version 3 my")
    assert ["my table"] == matches("deltacli snapshot --timestamp 2026-01-01T00:00:00Z my\\ t")
    assert ["my table"] == matches("deltacli snapshot -- my")
    assert ["conf.toml", "my file", "my table", "tbl"] == matches("deltacli history --config ")
    assert ["--config=conf.toml"] == matches("deltacli history --config=co")
    assert ["my file"] == matches("deltacli snapshot tbl --output my\\ f")
    for line in ("diff tbl ", "undelete tbl --from ", "repair --undo ", "vacuum --quarantine ", "log backup tbl "):
        assert ["my table", "tbl"] == matches(f"deltacli {line}")


def test_columns_and_types_are_not_completed_as_files(matches: Matches) -> None:
    assert ["my table", "tbl"] == matches("deltacli widen-type ")
    for line in ("deltacli widen-type tbl ", "deltacli widen-type tbl my", "deltacli widen-type tbl id long co"):
        assert [] == [name for name in matches(line) if not name.startswith("-")]
    assert ["--check", "--check-files", "--checkpoints"] == matches("deltacli widen-type tbl id long --che")
    assert [] == matches("deltacli widen-type tbl --enable id long --ena")


def test_one_table_is_enough(matches: Matches) -> None:
    assert [] == [name for name in matches("deltacli history tbl ") if not name.startswith("-")]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_help_is_listed_next_to_the_words(shell: str, home: Path) -> None:
    assert "Show the state of a table at a version." in listed(shell, "deltacli ", home, FILES)
    assert "List the tombstones instead, including expired ones." in listed(shell, "deltacli snapshot --t", home, FILES)


def listed(shell: str, line: str, home: Path, files: Path) -> str:
    """What a shell lists for a line."""
    if shell == "fish":
        return " ".join(fish(line, home / "here", files=files).values())
    with zsh(home, files=files) if shell == "zsh" else bash(home, files=files) as found:
        return found.listing(line)


def test_zsh_sources_the_script(home: Path) -> None:
    with zsh(home, is_sourced=True) as found:
        assert ["expire"] == found.matches("deltacli log exp")


HOSTILE = 'It\'s [a] "b" `echo c` $(echo d) $HOME; e:f\\g | 100%'
"""A help text with everything that means something to a shell."""


def grown_tree() -> DescribedCommand:
    """A tree as it may become: groups in a group, choices as arguments, arguments that repeat, hostile help."""
    level = DescribedOption(
        ("-l", "--level"), DescribedValue("log|data", CompletionKind.CHOICE, ("log", "data")), HOSTILE, HOSTILE
    )
    shout = DescribedOption(("--shout",), None, HOSTILE, HOSTILE)
    table = DescribedArgument(DescribedValue("TABLE", CompletionKind.DIRECTORY), HOSTILE)
    validate = DescribedCommand(
        ("validate",),
        HOSTILE,
        HOSTILE,
        "",
        (level,),
        (DescribedArgument(DescribedValue("TABLE", CompletionKind.DIRECTORY), "", True, True),),
    )
    kinds = DescribedArgument(DescribedValue("TYPE", CompletionKind.CHOICE, ("int", "long")), HOSTILE)
    expire = DescribedCommand(("log", "expire"), HOSTILE, HOSTILE, "", (level, shout), (table, kinds))
    cat = DescribedCommand(("log", "cat-all"), HOSTILE, HOSTILE, "", (level,), (table,))
    log = DescribedCommand(("log",), HOSTILE, HOSTILE, "", (), (), (cat, expire))
    return DescribedCommand((), HOSTILE, HOSTILE, "", (shout,), (), (log, validate))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_grown_tree(shell: str, home: Path) -> None:
    files = home / "completions"
    files.mkdir()
    for name, render in (("deltacli.bash", render_bash), ("_deltacli", render_zsh), ("deltacli.fish", render_fish)):
        (files / name).write_text(render(grown_tree()))

    for matches in matcher(shell, home, files):
        assert ["log", "validate"] == matches("deltacli ")
        assert ["cat-all", "expire"] == matches("deltacli --shout log ")
        assert ["--level", "-l"] == matches("deltacli --shout log expire -")
        assert ["data"] == matches("deltacli log expire --level d")
        assert ["int", "long"] == matches("deltacli log expire tbl ")
        assert ["my table", "tbl"] == matches("deltacli validate tbl tbl ")
        assert ["data", "log"] == matches("deltacli validate -l ")
    assert HOSTILE in listed(shell, "deltacli ", home, files)
    assert HOSTILE in listed(shell, "deltacli log expire -", home, files)


@pytest.mark.quartered
def test_names_that_the_product_knows_are_completed(matches: Matches) -> None:
    assert ["dv.magic"] == matches("deltacli validate tbl --select dv.mag")
    assert ["paimon.id-differs"] == matches("deltacli validate tbl --ignore paimon.id-d")
    assert ["share.url-range"] == matches("deltacli share test a.share --select share.url-r")
    assert ["delta.appendOnly="] == matches("deltacli properties tbl set delta.app")
    assert ["deletionVectors"] == matches("deltacli features tbl add deletionV")
    assert ["add=deletionVectors"] == matches("deltacli explain tbl --if add=deletionV")
    assert ["domainMetadata"] == matches("deltacli log cat tbl 3 --actions dom")
    assert ["operationMetrics"] == matches("deltacli history tbl --columns operationM")
    assert ["version,operationMetrics"] == matches("deltacli history tbl --columns version,operationM")
    assert ["log.gap,dv.magic"] == matches("deltacli validate tbl --select log.gap,dv.mag")
    assert ["conf.toml"] == matches("deltacli share ls conf")
    assert ["snapshot"] == matches("deltacli help snap")
    assert ["dv.magic"] == matches("deltacli help dv.mag")
    assert ["vacuum.retention"] == matches("deltacli help vacuum.ret")
    assert ["exit-codes"] == matches("deltacli help exit")


@pytest.mark.quartered
def test_versions_and_columns_of_a_local_table_are_completed(matches: Matches, home: Path) -> None:
    for name in ("tbl", "my table"):
        table_of("id bigint, `c d` int, ride struct<city: string, far: int>").commits(11).write(home / "here" / name)

    assert sorted(map(str, range(12))) == matches("deltacli snapshot tbl --version ")
    assert {"10", "11"} <= set(matches("deltacli read my\\ table --version 1"))
    assert ["--columns=id,ride"] == matches("deltacli changes tbl --columns=id,ri")
    assert {"10", "11"} <= set(matches("deltacli log cat tbl 1"))
    assert sorted(map(str, range(12))) == matches("deltacli diff tbl ")
    assert {"10", "11"} <= set(matches("deltacli diff tbl 1"))
    assert ["my table"] == matches("deltacli diff tbl my")
    assert ["ride"] == matches("deltacli read tbl --columns ri")
    assert ["id,ride"] == matches("deltacli read 'my table' --columns id,ri")
    assert ["ride.city"] == matches("deltacli alter tbl drop ride.c")
    assert ["ride.far"] == matches("deltacli widen-type tbl ride.f")
    assert ["double"] == matches("deltacli widen-type tbl ride.far dou")
    assert ["ride.city"] == matches("deltacli optimize -q ./tbl --zorder ride.c")
    assert ["ride.city"] == matches("deltacli alter ~/here/tbl rename ride.c")
    assert [] == matches("deltacli alter nowhere drop ")


def ends(words: list[str]) -> set[str]:
    """What follows `=` in words: bash replaces only that, and inserts the part before it once."""
    return {word.rpartition("=")[2] for word in words}


@pytest.mark.quartered
def test_words_of_a_table_depend_on_the_arguments_before_them(matches: Matches, home: Path) -> None:
    properties = {"owner": "ops", "delta.appendOnly": "false"}
    own = ["appendOnly", "deletionVectors", "invariants"]
    table_of("id int, day date", properties=properties, features=own).commits(3).write(home / "here" / "tbl")
    (home / "here" / "fleet.toml").write_text("[groups.orders]\n[groups.lake]\n")
    (home / "here" / "conf.toml").write_text("[groups.eu]\n")

    assert ["bigint", "double"] == [word for word in matches("deltacli widen-type tbl id ") if "(" not in word]
    assert ["timestamp_ntz"] == matches("deltacli widen-type tbl --enable id bigint day ")
    assert ["day", "id"] == matches("deltacli widen-type tbl id bigint ")
    assert ["deletionVectors"] == matches("deltacli features tbl drop ")
    assert not {"appendOnly", "clustering"} & {*matches("deltacli features -q tbl add ")}
    assert ["delta.appendOnly", "owner"] == matches("deltacli properties tbl unset ")
    assert ["owner"] == matches("deltacli properties tbl unset delta.appendOnly ow")
    assert [f"version:{version}" for version in range(4)] == matches("deltacli schema diff tbl --from vers")
    assert ["add", "drop"] == matches("deltacli alter tbl constraint ")
    assert ["first", "last"] == [word for word in matches("deltacli alter tbl move id ") if ":" not in word]
    assert {"day"} == {word.rpartition(":")[2] for word in matches("deltacli alter tbl move id before:d")}
    assert ["last"] == matches("deltacli alter tbl add tip int --position la")
    assert ["bigint"] == matches("deltacli alter tbl type id big")
    assert ["id"] == matches("deltacli alter tbl drop day i")
    assert {"false", "true"} == ends(matches("deltacli properties tbl set delta.appendOnly="))
    assert [] == matches("deltacli properties tbl set delta.columnMapping.mode=")
    assert {"deletionVectors"} == ends(matches("deltacli explain tbl --if drop="))
    assert ["id,day"] == matches("deltacli read tbl --columns id,")
    assert ["--columns=id,day"] == matches("deltacli read tbl --columns=id,")
    assert "version,version" not in matches("deltacli history tbl --columns version,")
    assert ["lake", "orders"] == matches("deltacli fleet plan --only ")
    assert ["eu"] == matches("deltacli fleet run conf.toml --only ")


def test_types_with_digits_are_completed_and_quoted(matches: Matches, home: Path) -> None:
    table_of("id bigint, fare decimal(8,2)").write(home / "here" / "tbl")

    assert ["decimal(20,0)", "decimal(28,0)", "decimal(38,0)"] == matches("deltacli widen-type tbl id ")
    assert ["decimal(10,2)", "decimal(12,2)", "decimal(18,2)"] == matches("deltacli widen-type tbl fare decimal\\(1")
    assert ["decimal(12,2)"] == matches("deltacli alter tbl type fare decimal\\(12,")


def test_fish_repeats_no_description_beside_the_values(home: Path) -> None:
    levels = fish("deltacli validate tbl --level ", home / "here")
    rules = fish("deltacli validate tbl --select log.gap,dv.mag", home / "here")

    assert {"data": "", "footers": "", "log": "", "storage": ""} == levels
    assert {"log.gap,dv.magic": ""} == rules
