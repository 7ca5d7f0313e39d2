"""`python -m tests.support.killed_operations URI OPERATION`: run an operation that is killed before a request.

Reads numbers from stdin, and for each one forks a process that dies before the request of that number, counted from 0.
Writes `killed`, or how many requests the operation sent, or the error that it ended with.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from botocore.httpsession import URLLib3Session

from deltacli.api.table import Table
from deltacli.clock import fixed_clock
from deltacli.errors import DeltacliError
from deltacli.storage import open_storage
from deltacli.storage.objects.http import Transport
from deltacli.storage.retry import Retry
from tests.operations.test_clouds import NOW_MS, OPERATIONS
from tests.support.effort import import_the_whole_product


def run_and_die(uri: str, operation: str, at: int) -> int:
    """Run the operation, and return how many requests it sent where it was not killed."""
    sent = [0]
    sender: Any = URLLib3Session if uri.startswith("s3:") else Transport  # Any: what sends requests, by its `send`
    send = sender.send

    def counted(self: Any, request: Any) -> Any:
        if sent[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        sent[0] += 1
        return send(self, request)

    sender.send = counted
    storage = open_storage(uri, retry=Retry(pause=lambda _: None))
    OPERATIONS[operation](Table(storage, clock=fixed_clock(NOW_MS)))
    return sent[0]


def answer(uri: str, operation: str, at: int, out: int) -> None:
    """Run the operation in this process, and write how it ended."""
    try:
        said = str(run_and_die(uri, operation, at))
    except DeltacliError as fault:
        said = f"{fault.code}: {fault.message}"
    os.write(out, said.encode())


def main(uri: str, operation: str) -> None:
    import_the_whole_product()  # once, and not in every process
    for line in sys.stdin:
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            answer(uri, operation, int(line), write)
            os._exit(0)
        os.close(write)
        with open(read, "rb") as said:
            text = said.read().decode()
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{'killed' if os.WIFSIGNALED(status) else text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
