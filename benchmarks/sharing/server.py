"""Delta Sharing on loopback: a query of a large table beside a bare loop that signs and writes the same lines.

  PYTHONPATH=. .venv/bin/python benchmarks/sharing/server.py [--adds 1000000] [-n 3] [--work DIR]

Both sides run in this process, without a socket. The bare loop has the beginning and the end of each line in memory
already: it signs a path, joins the three, and makes chunks of 64 KiB. Times are those of the processor, because other
work on the machine does not count; the ratio is that of the minima.
"""

from __future__ import annotations

import argparse
import hmac
import resource
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


from benchmarks.synthetic import write_table
from deltacli.sharing.configuration.settings import Configuration, Settings
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.sharing.protocol.parameters import QueryRequest, parse_capabilities
from deltacli.sharing.server.exchange import Access, Caller
from deltacli.sharing.server.guard import RequestGuard, ServingState
from deltacli.sharing.server.services import LiveApplication
from deltacli.sharing.server.table_answers import Wishes
from deltacli.sharing.signing.keys import ServerKey, ServerKeys
from deltacli.sharing.tables.snapshots import SharedSnapshots

DELTA = Wishes(parse_capabilities("responseformat=delta;readerfeatures=deletionvectors,columnmapping,timestampntz"))


def bare_lines(files: list[tuple[str, bytes, bytes]], key: bytes, expires_ms: int) -> Iterator[bytes]:
    """Yield lines whose beginnings and ends exist already, with the URL of each path between them."""
    held, size = [], 0
    for path, head, tail in files:
        name = urlsafe_b64encode(path.encode()).rstrip(b"=").decode()
        mac = urlsafe_b64encode(hmac.digest(key, f"{name}\n{expires_ms}".encode(), "sha256")).rstrip(b"=").decode()
        url = f"http://127.0.0.1/delta-sharing/_files/{name}?sp=r&se={expires_ms}&sig={mac}"
        line = head + url.encode() + tail
        held.append(line)
        size += len(line)
        if size >= 65_536:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


def rss_mib() -> float:
    """Return the memory of this process at the moment."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def measure(parts: Iterator[bytes]) -> tuple[float, float, int]:
    """Return the seconds to the first chunk and to the last one, and the bytes of all."""
    began = time.process_time()
    first, total = 0.0, 0
    for part in parts:
        first = first or time.process_time() - began
        total += len(part)
    return first, time.process_time() - began, total


def main() -> None:
    """Print seconds, ratio and memory."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--adds", type=int, default=1_000_000)
    options.add_argument("-n", type=int, default=3)
    options.add_argument("--work", default=tempfile.gettempdir())
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.work) as work:
        path = Path(work) / "table"
        write_table(path, adds=chosen.adds)
        table = SharedTable("s", "d", "t", str(path), "id", history_shared=True)
        catalog = Catalog((Share("s", (SharedSchema("s", "d", (table,)),)),))
        state = ServingState(Configuration(Path("shares.yaml"), catalog, Settings(host="127.0.0.1")))
        keys = ServerKeys((ServerKey(b"k" * 32, 0),))
        guard = RequestGuard(lambda: state)
        app = LiveApplication(lambda: state, guard, keys, SharedSnapshots(max_bytes=4 << 30)).current()
        access = Access(Caller("me"), catalog)
        began = time.process_time()
        snapshot = app.tables.snapshots.newest(table)
        print(f"cache filled      {time.process_time() - began:8.2f} s, {snapshot.size_bytes / 2**20:,.0f} MiB")
        filled = rss_mib()
        ours = []
        for _ in range(chosen.n):
            began = time.process_time()
            answer = app.tables.query(access, table, QueryRequest(), DELTA)
            prepared = time.process_time() - began
            first, total, size = measure(iter(answer.parts))
            ours.append(prepared + total)
            print(f"our stream        {prepared + total:8.2f} s, first byte {prepared + first:.3f} s, {size:,} bytes")
        print(f"memory            {rss_mib() / filled:8.2f} of {filled:,.0f} MiB after the cache was filled")
        files = list(_around_urls(iter(app.tables.query(access, table, QueryRequest(), DELTA).parts)))
        bare = []
        for _ in range(chosen.n):
            _, total, size = measure(bare_lines(files, b"k" * 32, 1_800_000_000_000))
            bare.append(total)
            print(f"bare loop         {total:8.2f} s, {size:,} bytes")
        print(f"ratio             {min(ours) / min(bare):8.2f}")


def _around_urls(parts: Iterator[bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the path of each line of an answer in place of its URL, and what is before and after it."""
    for number, line in enumerate(b"".join(parts).splitlines(keepends=True)):
        if number >= 2:
            head, _, rest = line.partition(b'"path":"')
            url, _, tail = rest.partition(b'"')
            yield url.partition(b"?")[0].decode()[-80:], head + b'"path":"', b'"' + tail


if __name__ == "__main__":
    main()
