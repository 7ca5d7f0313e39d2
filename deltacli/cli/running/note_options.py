"""Options for the notes that a command writes to stderr."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoteOptions:
    """The options for notes.

    Attributes:
        quiet: Whether notes are omitted.
        verbosity: How often `-v` was passed.
        as_json: Whether notes are JSON objects, like errors.
        coloured: Whether stderr is a terminal that supports colours.
    """

    quiet: bool = False
    verbosity: int = 0
    as_json: bool = False
    coloured: bool = False
