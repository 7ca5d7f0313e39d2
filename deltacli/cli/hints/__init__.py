"""Suggestions for a wrong command line: what was probably meant, as a command to paste where that is known.

`suggest.py` is the entry. Each module knows one kind of mistake: unknown commands and actions, unknown options, values,
and words that are missing or too many. What things are called in other programs is in `cli/other_programs.py`.
"""
