"""Writing files of the log that follow from commits: checkpoints, compactions and checksums.

They state what commits say, so they must be written into the log whose commits were read. A checkpoint of another log
would silently replace its table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltacli.changing.rechecks import require_unchanged_basis
from deltacli.storage import Created, Creation

if TYPE_CHECKING:
    from deltacli.changing.basis import Basis
    from deltacli.changing.execution import ChangeExecution


@contextmanager
def annotate_interruption(path: str) -> Iterator[None]:
    """Add a note to an interruption that the file may have been written. Errors say by themselves what happened."""
    try:
        yield
    except Exception:
        raise
    except BaseException as interruption:
        interruption.add_note(f"{path} may have been written")
        raise


@contextmanager
def guard_derived_write(basis: Basis, path: str) -> Iterator[None]:
    """Require that a log is still the one that a file was derived from, and write the file in the block.

    Args:
        basis: The version that the file is for.
        path: The path of the file below the table.

    Raises:
        Refused: If the base commit was replaced (`plan.other-past`), before anything is written.
    """
    require_unchanged_basis(basis)
    with annotate_interruption(path):
        yield


def create_derived_file(execution: ChangeExecution[Any, Any], path: str, data: bytes) -> Creation:
    """Create a file that follows from the commit which the plan was made from.

    Args:
        execution: The execution of any plan.
        path: The path of the file below the table.
        data: Its content.

    Returns:
        Created, or that the file existed or nobody knows.

    Raises:
        Refused: If the base commit was replaced (`plan.other-past`), before anything is written.
    """
    with guard_derived_write(execution.plan.basis, path):
        creation = execution.store.put_if_absent(path, data)
    execution.has_begun = creation == Created()
    return creation
