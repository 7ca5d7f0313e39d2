"""The task pages: their commands run in the order of the page on the sample tables of the demo, and show
the output of the page on a terminal of 80 columns.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.support import ROOT, check_words, make_sample, start_with
from tests.support.clusters import free_port
from tests.support.waiting import wait_until
from tools.screens import SHOWN_ROOT, run_on_terminal

TASKS = ROOT / "docs" / "tasks"
PAGES = sorted(page.stem for page in TASKS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXIT_CODE = re.compile(r"\s+# exit code (\d+)\b.*")
PORT = 8080
"""The port of the pages. Tests use a free one in its place."""


@dataclass(frozen=True)
class Newcomer:
    """Somebody who runs the commands of a page where the demo was run, with what has to be stopped at the end."""

    home: Path
    port: int
    at_the_end: contextlib.ExitStack

    def run(self, line: str) -> str:
        """What a line of a page shows. Its comment names its exit code, if that is not 0."""
        expected = int(found[1]) if (found := EXIT_CODE.search(line)) else 0
        command = re.sub(r"\S+\*", self._expanded, re.sub(r"\s+# .*", "", line))
        if command.startswith("rm -r "):
            shutil.rmtree(self.home / command.removeprefix("rm -r "))
            return ""
        if "s3://" in command:
            check_words(shlex.split(command)[1:])
            return ""
        if command.startswith("deltacli share serve "):
            return self._shown(self._serve(command))
        code, shown = self._run(command)
        if expected and not code:  # a server applies a change within a second
            wait_until(lambda: self._run(command)[0], line)
            code, shown = self._run(command)
        assert code == expected, f"{line}: exit code {code}\n{shown}"
        if (shares := self.home / "shares.yaml").exists():
            shares.write_text(shares.read_text().replace(f"port: {PORT}", f"port: {self.port}"))
        return self._shown(shown)

    def _run(self, command: str) -> tuple[int, str]:
        assert command.startswith("deltacli ")
        return run_on_terminal(command, self.home, 80, start_with({**os.environ, "PYTHONPATH": str(ROOT)}))

    def _expanded(self, word: re.Match[str]) -> str:
        return " ".join(str(path.relative_to(self.home)) for path in self.home.glob(word[0]))

    def _serve(self, command: str) -> str:
        """Start a server and return its first line."""
        words = [sys.executable, "-m", *command.split()]
        server = subprocess.Popen(words, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.at_the_end.callback(server.communicate)
        self.at_the_end.callback(server.terminate)
        assert server.stdout is not None
        return server.stdout.readline()

    def _shown(self, text: str) -> str:
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace(str(self.home), SHOWN_ROOT)
        return "".join(f"{row.rstrip()}\n" for row in plain.replace(f":{self.port}", f":{PORT}").splitlines())

    def uncomment(self, block: str) -> None:
        """Put each line of a page in the place of the comment with the same key in the policy file."""
        file = self.home / "fleet.toml"
        for line in block.splitlines():
            text, pattern = file.read_text(encoding="utf-8"), rf"^# {line.split()[0]} = .*$"
            changed, count = re.subn(pattern, line, text, flags=re.MULTILINE)
            assert count == 1
            file.write_text(changed, encoding="utf-8")


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    """Somebody in a directory whose path is as long as that of the pages."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as directory, contextlib.ExitStack() as at_the_end:
        make_sample(Path(directory, "demo", "trips"))
        make_sample(Path(directory, "demo", "damaged"), damaged=True)
        yield Newcomer(Path(directory), free_port(), at_the_end)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_and_show_its_output(page: str, newcomer: Newcomer) -> None:
    shown = ""
    for language, block in BLOCK.findall((TASKS / f"{page}.md").read_text(encoding="utf-8")):
        if language == "sh":
            shown = "".join(newcomer.run(line) for line in block.splitlines())
        elif language == "toml":
            newcomer.uncomment(block)
        elif language == "text":
            assert re.fullmatch(pattern_of(block), shown), f"expected:\n{block}\nshown:\n{shown}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_of_a_kind_that_is_compared_or_of_another_program(page: str) -> None:
    kinds = re.findall(r"^```(.+)$", (TASKS / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert {*kinds} <= {"sh", "text", "toml", "yaml", "crontab"}


def pattern_of(block: str) -> str:
    """The pattern of the output that a page shows: `…` stands for some text, and alone on its line for some lines. In
    a block with the first, a rule is as long as the text makes it, which may be the age of something.
    """
    rows = [r"(?:.*\n)*?" if row == "…" else re.escape(row).replace("…", ".*") + "\n" for row in block.splitlines()]
    has_text = re.search(r"….|.…", block) is not None
    return re.sub("─+", "─+", "".join(rows)) if has_text else "".join(rows)


def test_a_page_fits_on_two_screens_and_is_on_the_start_page() -> None:
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sizes = {page: len((TASKS / f"{page}.md").read_text(encoding="utf-8").splitlines()) for page in PAGES}

    assert {} == {page: size for page, size in sizes.items() if size > 120}
    assert [] == [page for page in PAGES if f"(tasks/{page}.md)" not in start]
