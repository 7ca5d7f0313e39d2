"""The command line at hand, for what is said about it before and after its options are settled."""

from __future__ import annotations

from collections.abc import Sequence


class Invocation:
    """The arguments of the run, and what its options say about logging."""

    arguments: Sequence[str] = ()
    log_is_json: bool | None = None
    verbosity: int = 0

    def begin(self, arguments: Sequence[str]) -> None:
        """Forget the one before."""
        self.arguments, self.log_is_json, self.verbosity = arguments, None, 0


invocation = Invocation()
