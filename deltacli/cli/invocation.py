"""The command line of this run, and what has to be known about the run everywhere in `cli`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

HELP_ALL = "--help-all"
ASK_FOR_HELP = ("-h", "--help", HELP_ALL)
ASK_FOR_VERSION = ("-V", "--version")
AT = "-C"


class Exit(Exception):
    """The command ends with this exit code. Everything has been reported."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


class Invocation:
    """The state of the current run. There is one instance, `invocation`.

    Attributes:
        arguments: The words of the command line, after shared options have been moved behind the command.
        log_is_json: Whether errors and notes are JSON objects. None: the options have not been settled yet.
        verbosity: How often `-v` was passed.
        has_agreed: Whether the user has agreed to a change.
        is_reporting: Whether the run reports the outcome of a change to which the user has agreed.
        outputs: Files and directories outside tables that this run writes, each with a function that returns whether
            it has been written completely.
        directories: The values of `-C`. They are not among the arguments, because the run has changed its directory.
        names_in_catalogs: Maps the location of a table to the name by which it was opened, `uc://…`.
        is_bare: Whether the program was called without a command and without asking for help.
        began: When the run began, by the monotonic clock in seconds.
    """

    arguments: Sequence[str] = ()
    log_is_json: bool | None = None
    verbosity: int = 0
    has_agreed: bool = False
    is_reporting: bool = False
    outputs: Sequence[tuple[str, Callable[[], bool]]] = ()
    directories: Sequence[str] = ()
    names_in_catalogs: Mapping[str, str] = {}
    is_bare: bool = False
    began: float | None = None

    def begin(self, arguments: Sequence[str], directories: Sequence[str] = (), *, is_bare: bool = False) -> None:
        """Begin a run: replace the state of an earlier run in this process."""
        self.arguments = arguments
        self.directories = directories
        self.is_bare = is_bare
        self.log_is_json = None
        self.verbosity = 0
        self.has_agreed = False
        self.is_reporting = False
        self.outputs = ()
        self.names_in_catalogs = {}
        self.began = time.monotonic()

    def record_catalog_name(self, location: str, name: str) -> None:
        """Record the name by which a table was opened, unless the user has typed its location as well."""
        if location not in self.arguments:
            self.names_in_catalogs = {**self.names_in_catalogs, location: name}

    def insert_catalog_names(self, text: str) -> str:
        """Return a text with names in catalogs instead of the locations of tables.

        Only whole addresses are replaced: in `s3://b/t is not empty`, but not in `s3://b/t/part-0.parquet`.
        """
        for location, name in self.names_in_catalogs.items():
            if location in text:
                whole_address = rf"{re.escape(location)}(?=[,:;]?(?:\s|$)|[)'\"?])"
                text = name.join(re.split(whole_address, text))
        return text

    def record_output(self, path: str) -> None:
        """Record a file that is about to be written atomically. If the run is interrupted, the error names the file."""
        identity_before = _identify_file(path)
        self.outputs = *self.outputs, (path, lambda: _identify_file(path) not in (None, identity_before))


def _identify_file(path: str) -> tuple[int, ...] | None:
    """Return numbers that differ after a file was replaced; None if the file does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


invocation = Invocation()


def split_directories(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate `-C DIR` from the other words of a command line.

        ["-C", "lake", "history", "t"]  ->  ["history", "t"], ["lake"]

    Words after `--` are not options. A `-C` without a value stays, so that the parser reports it.
    """
    end = [*arguments, "--"].index("--")
    words: list[str] = []
    directories: list[str] = []
    positions = iter(range(end))
    for position in positions:
        if arguments[position] == AT and position + 1 < end:
            directories.append(arguments[next(positions)])
        else:
            words.append(arguments[position])
    return [*words, *arguments[end:]], directories


def make_pastable_path(path: str) -> str:
    """Return the path of a table for messages that the user can paste outside the directory of `-C`.

    With `-C`, a relative path becomes absolute. URIs and paths without `-C` stay as they are.
    """
    is_uri = "://" in path or path[:5].lower() == "file:"
    if is_uri or not path or not invocation.directories:
        return path
    return os.path.abspath(path)


def is_bare(arguments: Sequence[str]) -> bool:
    """Return whether a command line contains no command and does not ask for help."""
    return set(arguments) <= {"-q", "-v", "-vv", "--quiet", "--verbose"}


def convert_help_command(arguments: Sequence[str]) -> list[str]:
    """Convert the command `help` to an option of the command that it is about.

        help vacuum        ->  vacuum --help
        help vacuum --all  ->  vacuum --help-all
        help --retention   ->  help --retention --help    an option, which `--help` explains
        (nothing)          ->  --help

    Other command lines stay as they are.
    """
    if is_bare(arguments):
        return ["--help"]
    if arguments[0] != "help":
        return list(arguments)

    words = [part for word in arguments[1:] for part in word.split()]
    is_about_option = bool(words) and words[0].startswith("-") and words[0] not in ASK_FOR_HELP
    if is_about_option:
        return ["help", *words, "--help"]
    subject = [word for word in words if word not in ("--all", HELP_ALL)]
    wants_all = subject != words
    return [*subject, HELP_ALL if wants_all else "--help"]


def colour_of_environment() -> bool | None:
    """Return whether environment variables enable or disable colours. None if they do not say."""
    environment = os.environ
    if environment.get("NO_COLOR"):
        return False
    forced_values = {environment.get("CLICOLOR_FORCE", ""), environment.get("FORCE_COLOR", "")}
    if forced_values - {"", "0"}:
        return True
    if environment.get("CLICOLOR") == "0" or environment.get("TERM") == "dumb":
        return False
    return None
