"""The command line of this run, for messages written before and after its options are settled."""

from __future__ import annotations

import time
from collections.abc import Sequence


class Invocation:
    """The arguments of the run and its logging options."""

    arguments: Sequence[str] = ()
    log_is_json: bool | None = None
    verbosity: int = 0
    has_agreed: bool = False
    """Whether the user has agreed to a change."""
    is_reporting: bool = False
    """Whether the run reports on a change to which the user has agreed: the change is made, or could not be made."""
    began: float | None = None
    """When the user began to wait, by the monotonic clock."""

    def begin(self, arguments: Sequence[str]) -> None:
        """Reset the state of an earlier run."""
        self.arguments, self.log_is_json, self.verbosity = arguments, None, 0
        self.has_agreed = self.is_reporting = False
        self.began = time.monotonic()


invocation = Invocation()

ASK_FOR_HELP = ("-h", "--help")


def help_as_option(arguments: Sequence[str]) -> list[str]:
    """Return `help WORD` as `WORD --help`, and no command as `--help`; other arguments as they are, with the words of
    `help --OPTION`, which is about an option, before `--help`.
    """
    if set(arguments) <= {"-q", "-v", "-vv", "--quiet", "--verbose"}:
        return ["--help"]
    if arguments[0] != "help":
        return list(arguments)
    words = [part for word in arguments[1:] for part in word.split()]
    is_of_option = words[:1] != [] and words[0].startswith("-") and words[0] not in ASK_FOR_HELP
    return [*arguments[: 1 if is_of_option else 0], *words, "--help"]
