"""The commands of the command line, built before a process forks for runs: 10 ms of each run, and 600 ms of one whose
error looks through the options of all commands.
"""

from __future__ import annotations

from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import COMMANDS


def build_commands() -> None:
    """Build all commands, which the process then keeps."""
    for name in COMMANDS:
        load_command(tuple(name.split()))
