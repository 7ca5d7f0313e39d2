"""Simulated histories: one seed decides the past of a table, its writers, every interleaving and every failure.

The product runs unchanged, without threads, clocks or disks, and the same seed always gives the same history.
`python3 dev.py simulate --seeds 1..1000 --jobs 2` runs histories and prints those that fail; `--replay SEED`
prints one, reduced as far as it still fails, and `--kept FILE` continues a run that was ended.
`tools/safety_mutants.toml` lists the checks of the safety code: `--without A6` disables one of them and runs
histories of its theme, `--mutants` runs each until it is missed.

1. `schedule.py`: one actor runs at a time, and hands over at each call of a store, each look at the clock and
   each wait. Time and random bytes come from `deltacli/core/machine.py`.
2. `store.py`: trees of files in memory, as disks or object stores, whose calls can fail, be slow, lose their
   answer, take effect later or twice, or kill their actor. They pass the tests of `tests/storage`.
3. `oracle.py` replays every change of a tree, without code of the product, and reports violated invariants
   (`promises.py`). `writers.py` has other engines.
4. `scenario.py` makes a history from a seed, and `history.py` runs it.

To add an actor, add a row to `COMMANDS` of `commands.py`: a function that makes the change from a `Turn`, and one
that returns what it may do (`Intent`); anything else is a violation. Choices come from `turn.chance`, never from
`random`. An event is a function of a `Scene` in `events.py`, a chain a row of `CHAINS`. No event happens between a
look at the log and the act that follows from it, because no store closes that gap. Scenarios of errors that were
found are kept in `found.py`.
"""
