"""The task pages for newcomers: their commands run in the order of the page on the sample tables of the demo, and show
the output of the page on a terminal of 80 columns.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import ROOT, make_sample
from tools.screens import SHOWN_ROOT, run_on_terminal

TASKS = ROOT / "docs" / "tasks"
PAGES = ("repair-a-table", "many-tables")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXIT_CODE = re.compile(r"\s+# exit code (\d+)\b.*")


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory in which the demo was run; its path is as long as that of the pages."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as directory:
        make_sample(Path(directory, "demo", "trips"))
        make_sample(Path(directory, "demo", "damaged"), damaged=True)
        yield Path(directory)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_and_show_its_output(page: str, home: Path) -> None:
    text = (TASKS / f"{page}.md").read_text(encoding="utf-8")
    shown = ""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            shown = "".join(run_line(line, home) for line in block.splitlines())
        elif language == "toml":
            uncomment(block, home / "fleet.toml")
        elif language == "text":
            assert re.fullmatch(pattern_of(block), shown), f"expected:\n{block}\nshown:\n{shown}"


def run_line(line: str, home: Path) -> str:
    """What a line of a page shows. Its comment names its exit code, if that is not 0."""
    expected = int(found[1]) if (found := EXIT_CODE.search(line)) else 0
    command = re.sub(r"\s+# .*", "", line)
    if command.startswith("deltacli ") and not re.search("[>*]", command):
        code, shown = run_on_terminal(command, home, width=80)
    else:
        shell = f'deltacli() {{ "{sys.executable}" -m deltacli "$@"; }}\n{command}'
        done = subprocess.run(["bash", "-c", shell], cwd=home, capture_output=True, text=True, check=False)
        code, shown = done.returncode, done.stdout + done.stderr
    assert code == expected, f"{line}: exit code {code}\n{shown}"
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shown).replace(str(home), SHOWN_ROOT)
    return "".join(f"{row.rstrip()}\n" for row in plain.splitlines())


def uncomment(block: str, file: Path) -> None:
    """Put each line of a page in the place of the comment of the file with the same key."""
    for line in block.splitlines():
        text = file.read_text(encoding="utf-8")
        changed, count = re.subn(rf"^# {line.split()[0]} = .*$", line, text, flags=re.MULTILINE)
        assert count == 1
        file.write_text(changed, encoding="utf-8")


def pattern_of(block: str) -> str:
    """The pattern of the output that a page shows: `…` stands for some text, and alone on its line for some lines."""
    rows = [r"(?:.*\n)*?" if row == "…" else re.escape(row).replace("…", ".*") + "\n" for row in block.splitlines()]
    return "".join(rows)


def test_a_page_fits_on_two_screens_and_is_on_the_start_page() -> None:
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sizes = {page: len((TASKS / f"{page}.md").read_text(encoding="utf-8").splitlines()) for page in PAGES}

    assert {} == {page: size for page, size in sizes.items() if size > 120}
    assert [] == [page for page in PAGES if f"(tasks/{page}.md)" not in start]
