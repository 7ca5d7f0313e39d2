"""The parts that every other package uses: errors and exit codes, units, times, the clock, progress, temporary files.

Nothing here knows what a table is, and nothing here imports another package of deltacli.

Start with `errors`: the tree of exceptions, whose branches are the exit codes. `hints` makes the texts that tell a user
what to do next, in the words of the command line or of Python, and `machine` is the only module that reads the clock.
"""
