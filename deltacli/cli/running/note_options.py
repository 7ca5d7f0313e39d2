"""Whether and how notes are written to stderr."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoteOptions:
    """How a command talks beside its result.

    Attributes:
        quiet: True to write no notes.
        verbosity: How often `-v` was given.
        as_json: True to write notes as JSON objects, as errors are.
        coloured: True if notes go to a terminal that shows colour.
    """

    quiet: bool = False
    verbosity: int = 0
    as_json: bool = False
    coloured: bool = False
