"""Writing log files that are derived from commits: checkpoints, log compactions and checksum files.

Such a file repeats the content of commits, so it must be written to the log that these commits were read from. A
checkpoint that is written to another log would replace the content of that table, and no engine would notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltacli.changing.rechecks import recheck_base_commit
from deltacli.storage import Created, Creation

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion
    from deltacli.changing.execution import ChangeExecution


@contextmanager
def annotate_interruption(path: str) -> Iterator[None]:
    """Add a note to an interruption of the block, such as KeyboardInterrupt: the file may have been written.

    Args:
        path: The path of the file that the block writes, relative to the table directory.
    """
    try:
        yield
    except Exception:
        # The type of an error already says whether the file was written.
        raise
    except BaseException as interruption:
        interruption.add_note(f"{path} may have been written")
        raise


@contextmanager
def guard_derived_write(base_version: BaseVersion, path: str) -> Iterator[None]:
    """Require that the log was not replaced, before the block writes a derived file.

    Args:
        base_version: The version that the file was derived from.
        path: The path of the file, relative to the table directory.

    Raises:
        Refused: If the base commit was replaced (`plan.other-past`). The block is not executed.
    """
    recheck_base_commit(base_version)
    with annotate_interruption(path):
        yield


def create_derived_file(execution: ChangeExecution[Any, Any], path: str, data: bytes) -> Creation:
    """Create a file that is derived from the version of a plan.

    Args:
        execution: The execution of the plan. If the file is created, the execution has begun.
        path: The path of the file, relative to the table directory.
        data: The content of the file.

    Returns:
        Created; Existed if the file exists already; or Unknown if the answer of the store was lost.

    Raises:
        Refused: If the base commit was replaced (`plan.other-past`). Nothing is written.
    """
    with guard_derived_write(execution.plan.base_version, path):
        creation = execution.store.put_if_absent(path, data)
    execution.has_begun = creation == Created()
    return creation
