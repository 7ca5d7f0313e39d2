"""`python -m tests.support.killed_operations URI OPERATION NOW_MS OPTIONS`: run an operation, killed before a request.

Reads numbers from stdin, and for each one forks a process that dies before the request of that number, counted from 0.
Writes `killed`, or how many requests the operation sent, or the error that it ended with.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from botocore.httpsession import URLLib3Session

from deltacli.api.table import Table
from deltacli.core.clock import fixed_clock
from deltacli.core.errors import DeltacliError
from deltacli.storage import open_storage
from deltacli.storage.objects.http import Transport
from deltacli.storage.retry import Retry
from tests.support.clouds import OPERATIONS
from tests.support.effort import import_the_whole_product


def run_and_die(make: Callable[[], Table], operation: str, at: int, sender: Any) -> int:
    """Run the operation, and return how many requests it sent where it was not killed."""
    sent = [0]
    send = sender.send

    def counted(self: Any, request: Any) -> Any:
        if sent[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        sent[0] += 1
        return send(self, request)

    sender.send = counted
    OPERATIONS[operation](make())
    return sent[0]


def answer(make: Callable[[], Table], operation: str, at: int, sender: Any, out: int) -> None:
    """Run the operation in this process, and write how it ended."""
    try:
        said = str(run_and_die(make, operation, at, sender))
    except DeltacliError as fault:
        said = f"{fault.code}: {fault.message}"
    os.write(out, said.encode())


def main(uri: str, operation: str, now_ms: str, options: str) -> None:
    import_the_whole_product()  # once, and not in every process
    sender: Any = URLLib3Session if uri.startswith("s3:") else Transport  # Any: what sends requests, by its `send`

    def make() -> Table:
        storage = open_storage(uri, json.loads(options), retry=Retry(pause=lambda _: None))
        return Table(storage, clock=fixed_clock(int(now_ms)))

    for line in sys.stdin:
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            answer(make, operation, int(line), sender, write)
            os._exit(0)
        os.close(write)
        with open(read, "rb") as said:
            text = said.read().decode()
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{'killed' if os.WIFSIGNALED(status) else text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
