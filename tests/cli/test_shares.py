"""Shares, such as 5%, at both extremes and on every way in: the command line, Python and policy files."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import UsageError
from tests.cli.support import deltacli
from tests.support.optimizing import Ids


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Ids().append("a", "b", deleted=(0,)).append("c", "d", p="1").builder.write(tmp_path / "tbl")


@pytest.mark.parametrize("share", ["0%", "0.0%", "5%", "100%"])
@pytest.mark.parametrize("words", [("optimize", "--purge", "--purge-ratio"), ("repair", "--max-missing")])
def test_the_command_line_and_python_accept_the_same_shares(words: tuple[str, ...], share: str, place: Path) -> None:
    done = deltacli(words[0], place, *words[1:], share, "--dry-run")
    number = float(share.rstrip("%")) / 100

    assert 0 == done.code
    assert open_table(place).plan_optimize(purge=True, purge_ratio=number)
    assert open_table(place).plan_repair(max_missing=number)


@pytest.mark.parametrize("share", ["-1%", "101%", "0", "0.5", "nan%", "%", "5", "1e400%"])
@pytest.mark.parametrize("words", [("optimize", "--purge", "--purge-ratio"), ("repair", "--max-missing")])
def test_what_is_not_a_share_has_a_code_of_its_own(words: tuple[str, ...], share: str, place: Path) -> None:
    done = deltacli(words[0], place, *words[1:-1], f"{words[-1]}={share}", "--dry-run", "--json")

    assert (2, "usage.share") == (done.code, done.error["code"])


@pytest.mark.parametrize("share", [-0.01, 1.01, 5])
def test_python_refuses_the_same_with_the_same_code(share: float, place: Path) -> None:
    for refused in (
        lambda: open_table(place).plan_optimize(purge=True, purge_ratio=share),
        lambda: open_table(place).plan_repair(max_missing=share),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert "usage.share" == caught.value.code


@pytest.mark.parametrize("share", ["0%", "101%"])
def test_a_sample_of_nothing_is_refused_on_every_way(share: str, place: Path) -> None:
    done = deltacli("validate", place, "--level", "footers", "--sample", share, "--json")

    with pytest.raises(UsageError) as caught:
        open_table(place).validate(level="footers", sample=float(share.rstrip("%")) / 100)
    assert (2, "usage.sample") == (done.code, done.error["code"])
    assert "usage.sample" == caught.value.code
