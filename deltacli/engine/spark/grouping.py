"""Group pieces into the tasks of a job: a Python task costs some tenths of a second, so each gets several pieces."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

TASKS_PER_SLOT = 3
"""More than one, so that a slow executor leaves tasks to the others."""


def group(weights: Sequence[int], slots: int, *, tasks_per_slot: int = TASKS_PER_SLOT) -> list[int]:
    """Return the task of each piece, so that the tasks are about equally heavy.

    The heaviest pieces are placed first, each in the task that is lightest so far. There are at most `tasks_per_slot`
    tasks for each of the `slots`, numbered from 0, and none is empty.
    """
    tasks = min(len(weights), max(1, slots) * tasks_per_slot)
    loads = [(0, task) for task in range(tasks)]
    heapify(loads)
    chosen = [0] * len(weights)
    for piece in sorted(range(len(weights)), key=lambda piece: -weights[piece]):
        load, task = loads[0]
        chosen[piece] = task
        heapreplace(loads, (load + max(1, weights[piece]), task))
    return chosen
