"""`deltacli completion SHELL`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from deltacli.cli.command_classes import TextCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError

app = typer.Typer(add_completion=False)

SCRIPTS: Mapping[str, str] = {"bash": "deltacli.bash", "zsh": "_deltacli", "fish": "deltacli.fish"}
"""Maps a shell to its script in the directory `completions`. The scripts are generated from the command tree."""


@app.command("completion", cls=TextCommand, epilog=exit_codes())
def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Shell that loads the script.")],
) -> None:
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
    run: CommandContext = context.obj
    script = _read_script(_get_script_name(shell))
    with run.open_result() as sink:
        sink.write(script)


def _get_script_name(shell: str) -> str:
    """Return the file name of the script of a shell. Raises UsageError if there is none."""
    name = SCRIPTS.get(shell)
    if name is None:
        raise UsageError(
            f"there is no completion for {shell!r}",
            code="usage.shell",
            facts={"expected": ", ".join(SCRIPTS)},
            hint="deltacli completion bash",
        )
    return name


def _read_script(name: str) -> bytes:
    """Return the content of a script. A wheel contains it in the package, a clone at its top level."""
    try:
        script = pkgutil.get_data("deltacli.cli", f"completions/{name}")
    except FileNotFoundError:
        script = Path(__file__).parents[3].joinpath("completions", name).read_bytes()
    assert script is not None, "the loader of the package cannot read data"
    return script
