"""Basic modules that all other packages use: errors and exit codes, hints, units, times, the clock, progress.

These modules know nothing about tables, and import no other package of deltacli.

Start with `errors`, the tree of exceptions, whose branches are the exit codes. `hints` builds the texts that tell a
user what to do next, for the command line or for Python. `machine` is the only module that reads the clock.
"""
