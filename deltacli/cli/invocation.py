"""What the process was given: the command line of this run, and standard streams, which are mended before any use."""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO


class Exit(Exception):
    """The command ends with this exit code, and everything about it has been said."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


class Invocation:
    """The arguments of the run and its logging options."""

    arguments: Sequence[str] = ()
    log_is_json: bool | None = None
    verbosity: int = 0
    has_agreed: bool = False
    """Whether the user has agreed to a change."""
    is_reporting: bool = False
    """Whether the run reports on a change to which the user has agreed: the change is made, or could not be made."""
    outputs: Sequence[tuple[str, Callable[[], bool]]] = ()
    """Files and directories that this run writes beside tables, and whether each is there as a whole."""
    directories: Sequence[str] = ()
    """The values of `-C`, which are not among the arguments: the run is in that directory."""
    names_in_catalogs: Mapping[str, str] = {}
    """The location of each table that was opened by its name in a catalog -> that name, `uc://…`."""
    is_bare: bool = False
    """Whether the program was called without a command and without asking for help."""
    began: float | None = None
    """When the user began to wait, by the monotonic clock."""

    def begin(self, arguments: Sequence[str], directories: Sequence[str] = (), *, is_bare: bool = False) -> None:
        """Reset the state of an earlier run."""
        self.is_bare = is_bare
        self.directories = directories
        self.arguments, self.log_is_json, self.verbosity = arguments, None, 0
        self.has_agreed, self.is_reporting, self.outputs = False, False, ()
        self.names_in_catalogs = {}
        self.began = time.monotonic()

    def opens_in_catalog(self, location: str, name: str) -> None:
        """Remember the location of a table of a catalog, unless the user has written the location, too."""
        if location not in self.arguments:
            self.names_in_catalogs = {**self.names_in_catalogs, location: name}

    def with_catalog_names(self, text: str) -> str:
        """Return a text for people with names in catalogs in place of the locations of tables.

        Addresses of files below a location stay: `s3://b/t is not empty`, but not `s3://b/t/part-0.parquet`.
        """
        for location, name in self.names_in_catalogs.items():
            if location in text:
                whole_address = rf"{re.escape(location)}(?=[,:;]?(?:\s|$)|[)'\"?])"
                text = name.join(re.split(whole_address, text))
        return text

    def writes(self, path: str) -> None:
        """Remember a file that is about to be written as a whole or not at all."""
        before = _identity(path)
        self.outputs = *self.outputs, (path, lambda: _identity(path) not in (None, before))


def _identity(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


invocation = Invocation()

HELP_ALL = "--help-all"
ASK_FOR_HELP = ("-h", "--help", HELP_ALL)
ASK_FOR_VERSION = ("-V", "--version")
AT = "-C"


def without_directories(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line without `-C DIR`, and the directories. One without its value is kept for the parser."""
    end = [*arguments, "--"].index("--")
    words, directories = list[str](), list[str]()
    places = iter(range(end))
    for place in places:
        if arguments[place] == AT and place + 1 < end:
            directories.append(arguments[next(places)])
        else:
            words.append(arguments[place])
    return [*words, *arguments[end:]], directories


def outside(path: str) -> str:
    """Return a path of a table as it is from where the user stands: with `-C` a relative one becomes absolute."""
    is_elsewhere = "://" in path or path[:5].lower() == "file:" or not path
    return path if is_elsewhere or not invocation.directories else os.path.abspath(path)


def is_bare(arguments: Sequence[str]) -> bool:
    """Return whether a command line names no command, and asks for no help."""
    return set(arguments) <= {"-q", "-v", "-vv", "--quiet", "--verbose"}


def help_as_option(arguments: Sequence[str]) -> list[str]:
    """Return `help WORD` as `WORD --help`, `help WORD --all` as `WORD --help-all`, and no command as `--help`; other
    arguments as they are, with the words of `help --OPTION`, which is about an option, before `--help`.
    """
    if is_bare(arguments):
        return ["--help"]
    if arguments[0] != "help":
        return list(arguments)
    words = [part for word in arguments[1:] for part in word.split()]
    if words[:1] != [] and words[0].startswith("-") and words[0] not in ASK_FOR_HELP:
        return ["help", *words, "--help"]
    named = [word for word in words if word not in ("--all", HELP_ALL)]
    return [*named, "--help" if named == words else HELP_ALL]


def colour_of_environment() -> bool | None:
    """Return whether the environment forces colour, or forbids it; None if stdout decides."""
    environment = os.environ
    if environment.get("NO_COLOR"):
        return False
    if {environment.get("CLICOLOR_FORCE", ""), environment.get("FORCE_COLOR", "")} - {"", "0"}:
        return True
    return False if environment.get("CLICOLOR") == "0" or environment.get("TERM") == "dumb" else None


# -- standard streams that are closed ----------------------------------------------------------------------------------


def mend_standard_streams() -> None:
    """Open the null device for closed descriptors 0 to 2, so that no table file gets their number, and buffer stdout.

    A closed stdout still fails on writes, so that a lost result is an error. A closed stderr discards its output.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = _buffered(sys.stdout)  # type: ignore[assignment,misc]  # the width is asked of the second


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream whose writes are complete: an unbuffered one may take only a part of a block without an error."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    encoding, errors = stream.encoding, stream.errors
    return io.TextIOWrapper(io.BufferedWriter(stream.detach()), encoding=encoding, errors=errors)  # type: ignore[attr-defined]


def give_up(stream: object, descriptor: int) -> None:
    """Redirect a stream that cannot be written any more, so that flushing it at exit neither fails nor hangs."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return  # a test's stream, which is not flushed at exit
    if number == descriptor:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
