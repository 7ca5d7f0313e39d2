"""Draw the screens of the README and the task pages: real commands on the sample tables, as SVG.

Each command runs on a pseudo-terminal 100 columns wide, and rich exports its output. File times, the path of the tables
and the clock (`--now`) are fixed, so the same code always draws the same files.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
SHOWN_ROOT = "/home/me/lake"
NOW = "2026-01-04"
VACUUM_NOW = "2026-01-08"
"""When the removed files of the sample have expired."""

FONTS = "ui-monospace,'Cascadia Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"
TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" class="rich-terminal" viewBox="0 0 {width} {height}">
<title>{{title}}</title>
<style>
.{unique_id}-matrix {{ font-family: {{fonts}}; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""The template of rich's export, without the web fonts that its own one loads."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A picture: the command that it shows, and the exit code of that command."""

    name: str
    command: str
    exit_code: int = 0


SCREENS = (
    Screen("history", f"deltacli history trips --limit 8 --now {NOW}"),
    Screen("snapshot", f"deltacli snapshot trips --now {NOW}"),
    Screen("checkpoint", f"deltacli checkpoint trips --dry-run --now {NOW}"),
    Screen("vacuum", f"deltacli vacuum trips --dry-run --now {VACUUM_NOW}"),
    Screen("validate", f"deltacli validate damaged --level storage --now {NOW}", exit_code=1),
    Screen("widen-type", 'deltacli widen-type trips ride.fare "decimal(12,2)" --enable --upgrade-protocol --dry-run'),
)


def render_screens() -> dict[str, str]:
    """Return every picture, by file name."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as directory:
        root = Path(directory)
        make_tables(root)
        return {f"{screen.name}.svg": draw(screen, root) for screen in SCREENS}


def make_tables(root: Path) -> None:
    """Create the sample table `trips` and its damaged copy `damaged`."""
    for name, options in (("trips", ()), ("damaged", ("--damaged",))):
        command = [sys.executable, str(ROOT / "examples" / "make_sample.py"), str(root / name), *options]
        subprocess.run(command, check=True)


def draw(screen: Screen, root: Path) -> str:
    """Run the command of a screen in `root` and return the picture. Raises SystemExit for another exit code."""
    code, shown = run_on_terminal(screen.command, root)
    if code != screen.exit_code:
        raise SystemExit(f"error: {screen.command}: exit code {code}, expected {screen.exit_code}:\n{shown}")
    ansi = _without_clock(f"\x1b[1m$ {screen.command}\x1b[0m\n{shown}")
    return to_svg(screen.name, ansi.replace(str(root), SHOWN_ROOT))


def _without_clock(text: str) -> str:
    """Return commands as a reader types them: without the fixed clock."""
    return re.sub(r" --now \d{4}-\d\d-\d\d", "", text)


def run_on_terminal(
    command: str, root: Path, width: int = WIDTH, start: Sequence[str] = (sys.executable, "-m", "deltacli")
) -> tuple[int, str]:
    """Return the exit code of a command and what it shows on a terminal, stdout and stderr in the order of writing.

    `start` stands in place of its first word.
    """
    arguments = [*start, *shlex.split(command)[1:]]
    master, slave = pty.openpty()
    _set_size(slave, width)
    try:
        process = subprocess.Popen(
            arguments, cwd=root, env=_environment(os.environ), stdin=slave, stdout=slave, stderr=slave
        )
    finally:
        os.close(slave)
    shown = _read_all(master)
    return process.wait(), shown.decode().replace("\r\n", "\n").rstrip("\n")


def _set_size(terminal: int, width: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, width, 0, 0))


def _environment(current: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a common terminal in place of those that change what is drawn."""
    ignored = ("DELTACLI_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "LC_", "LANG", "COLORFGBG")
    kept = {name: value for name, value in current.items() if not name.startswith(ignored)}
    terminal = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(ROOT)}
    return {**kept, **terminal, "DELTACLI_PAGER": "", "DELTACLI_PROGRESS": "never", "PAGER": "cat"}


def _read_all(terminal: int) -> bytes:
    """Return everything that is written to a pseudo-terminal until its last writer closes it."""
    chunks = []
    with os.fdopen(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                chunk = stream.read(65536)
            except OSError:  # Linux: every writer is gone
                break
            if not chunk:
                break
            chunks.append(chunk)
    return b"".join(chunks)


def to_svg(name: str, ansi: str) -> str:
    """Return text with ANSI colours as an SVG that needs no font from the network."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for line in Text.from_ansi(ansi).split("\n", allow_blank=True):
        for part in line.divide(_ends_of_rows(line.plain)):
            console.print(part, no_wrap=True, overflow="ignore", crop=False)
    svg = console.export_svg(title="deltacli", theme=MONOKAI, code_format=TEMPLATE, unique_id=f"screen-{name}")
    filled = svg.replace("{fonts}", FONTS).replace("{title}", f"deltacli {name}")
    return "\n".join(line.rstrip() for line in filled.splitlines()) + "\n"


def _ends_of_rows(text: str) -> list[int]:
    """Return where a terminal breaks a line that is wider than itself."""
    from rich.cells import chop_cells

    ends, rows = [0], chop_cells(text, WIDTH)
    for row in rows[:-1]:
        ends.append(ends[-1] + len(row))
    return ends[1:]


def main() -> int:
    """Write the pictures to docs/img."""
    target = ROOT / "docs" / "img"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, svg in render_screens().items():
        (target / name).write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
