"""Real shells: whether they are there, and what they complete.

bash and zsh run in a pseudo-terminal and insert every match into the line; `deltacli` is a function there that prints
its arguments, so what comes back went through the shell's own cutting and quoting.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.support import ROOT, write_program

FILES = ROOT / "completions"
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")
_PATIENCE_SECONDS = 60
_LIST, _INSERT_ALL = "\x14", "\x07"
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[=>]|\][^\x07]*\x07)")

_PRINTS = "deltacli() { local word; echo '<args>'; for word in \"$@\"; do echo \"arg:$word\"; done; echo '</args>'; }"
_BASH = """
PS1='READY>'; PS2=''
bind 'set enable-bracketed-paste off' 2>/dev/null
bind 'set completion-query-items 0'
bind 'set page-completions off'
bind '"\\C-t": possible-completions'
bind '"\\C-g": insert-completions'
"""
_ZSH = """
unsetopt zle_bracketed_paste prompt_cr prompt_sp; unset zle_bracketed_paste
PS1='READY>'; PS2=''; LISTMAX=0
autoload -Uz compinit
compinit -u -D
zstyle ':completion:insert-all:*' completer _all_matches _complete
zstyle ':completion:insert-all:*' insert true
zstyle ':completion:*' verbose yes
zle -C insert-all complete-word _generic
bindkey '^G' insert-all
bindkey '^T' list-choices
"""


def need(program: str, package: str) -> None:
    """Skip the test where a program (or a file) is absent, unless the gate demands it."""
    if shutil.which(program) or Path(program).is_file():
        return
    reason = f"{program} is not installed: apt-get install {package}"
    if os.environ.get("DELTACLI_REQUIRE_SHELLS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True, slots=True)
class Shell:
    """An interactive shell in a pseudo-terminal."""

    terminal: int

    def arguments(self, line: str, key: str = _INSERT_ALL) -> list[str]:
        """Type a line and a key, press Enter, and return the arguments that deltacli got."""
        self._type(f"{line}{key}\r")
        shown = self._read_to("</args>\r\n")
        self._read_to("READY>")
        return [word[4:] for word in shown.split("<args>\r\n")[-1].splitlines() if word.startswith("arg:")]

    def matches(self, line: str) -> list[str]:
        """Return what completes the last word of a line, sorted; nothing where it stays as it is."""
        before = self.arguments(line, "")
        after = self.arguments(line)
        kept = before if line.endswith(" ") else before[:-1]
        found = after[len(kept) :]
        return [] if after == before else sorted(found)

    def listing(self, line: str) -> str:
        """Return what the shell lists for a line, blanks as one."""
        self._type(f"{line}{_LIST}")
        self._type("\x15echo do''ne\r")
        shown = self._read_to("done\r\n")
        self._read_to("READY>")
        return " ".join(shown.split())

    def send(self, text: str) -> None:
        """Run a command and wait for the next prompt."""
        self._type(f"{text}; echo do''ne\r")
        self._read_to("done\r\n")
        self._read_to("READY>")

    def _type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def _read_to(self, marker: str) -> str:
        """Read until the marker has come; what a terminal only draws with is left out."""
        received = bytearray()
        while not received.endswith(marker[-1].encode()) or marker not in _text_of(received):
            ready, _, _ = select.select([self.terminal], [], [], _PATIENCE_SECONDS)
            assert ready, f"no {marker!r} from the shell; it said {_text_of(received)!r}"
            # A byte at a time: what stands behind the marker belongs to the next question.
            received += os.read(self.terminal, 1)
        return _text_of(received)


def _text_of(received: bytearray) -> str:
    return _ESCAPE.sub("", received.decode(errors="replace"))


@contextlib.contextmanager
def bash(home: Path, *, package: bool = False, files: Path = FILES) -> Iterator[Shell]:
    """Yield a bash that has sourced the completion, with or without the package bash-completion."""
    need("bash", "bash")
    script = home / ".bashrc-test"
    if package:
        need(str(BASH_COMPLETION), "bash-completion")
    loaded = f". {BASH_COMPLETION}\n" if package else ""
    script.write_text(f"{_BASH}{loaded}. '{files}/deltacli.bash'\n{_PRINTS}\n")
    with _running(home, "bash", "--noprofile", "--rcfile", str(script), "-i") as shell:
        yield shell


@contextlib.contextmanager
def zsh(home: Path, *, files: Path = FILES, is_sourced: bool = False) -> Iterator[Shell]:
    """Yield a zsh that found the completion in its function path, or has sourced it."""
    need("zsh", "zsh")
    before, after = ("", f"source <(cat '{files}/_deltacli')\n") if is_sourced else (f"fpath=('{files}' $fpath)\n", "")
    (home / ".zshrc").write_text(f"{before}{_ZSH}{after}{_PRINTS}\n")
    with _running(home, "zsh", "-d", "-i") as shell:
        yield shell


def fish(line: str, cwd: Path, *, files: Path = FILES) -> dict[str, str]:
    """Return what fish completes for a line, each match with its description."""
    need("fish", "fish")
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source '{files}/deltacli.fish'; complete -C $argv[1]", line],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PATH": path_of(cwd.parent), "HOME": str(cwd.parent), "XDG_DATA_HOME": str(cwd.parent)},
        check=True,
    )
    assert "" == done.stderr
    return {match: text for match, _, text in (found.partition("\t") for found in done.stdout.splitlines())}


def path_of(home: Path) -> str:
    """Return the PATH of a shell: first the program of this checkout, which completions ask for words of tables."""
    write_program(home / "bin" / "deltacli")
    return f"{home / 'bin'}:{os.environ['PATH']}"


@contextlib.contextmanager
def _running(home: Path, *command: str) -> Iterator[Shell]:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 2000, 0, 0))
    settings = {"PATH": path_of(home), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        command,
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=home / "here",
        env={**settings, "HOME": str(home), "ZDOTDIR": str(home)},
        start_new_session=True,
        close_fds=True,
    )
    os.close(child)
    shell = Shell(parent)
    try:
        shell._read_to("READY>")
        yield shell
    finally:
        process.kill()
        process.wait()
        os.close(parent)
