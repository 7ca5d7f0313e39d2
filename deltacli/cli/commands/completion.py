"""`deltacli completion SHELL`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from deltacli.cli.options.declared import argument
from deltacli.cli.output.formats import TableFormat
from deltacli.cli.running.run import Run
from deltacli.core.errors import UsageError

EXIT_CODES = (0, 2, 70)
FORMATS = TableFormat

SCRIPTS: Mapping[str, str] = {"bash": "deltacli.bash", "zsh": "_deltacli", "fish": "deltacli.fish"}
"""Shell -> its script in `completions/` of the repository, generated from the command tree."""


ShellArgument = Annotated[str, argument("Shell that loads the script.", "bash|zsh|fish")]


def completion(run: Run, shell: ShellArgument) -> None:
    """Print the completion script of a shell.

    \b
    The script completes commands, options and values without starting deltacli,
    which it asks only for the versions and columns of a local table. An
    installed package also has it in share/ below its prefix, where shells find
    it if the prefix is /usr or /usr/local.

    \b
    Examples:
      source <(deltacli completion bash)  # in ~/.bashrc
      mkdir -p ~/.zfunc && deltacli completion zsh --output ~/.zfunc/_deltacli
      deltacli completion fish | source
    """
    script = _read(_script_of(shell))
    with run.sink() as sink:
        sink.write(script)


def _read(name: str) -> bytes:
    """Return a script: the wheel has it in the package, a clone at its top level."""
    try:
        script = pkgutil.get_data("deltacli.cli", f"completions/{name}")
    except FileNotFoundError:
        script = Path(__file__).parents[3].joinpath("completions", name).read_bytes()
    assert script is not None, "the loader of the package cannot read data"
    return script


def _script_of(shell: str) -> str:
    if script := SCRIPTS.get(shell):
        return script
    raise UsageError(
        f"there is no completion for {shell!r}",
        code="usage.shell",
        facts={"expected": ", ".join(SCRIPTS)},
        hint="deltacli completion bash",
    )
