"""List a table of many files through the sharing client, from a stub server whose answer is made beforehand.

  PYTHONPATH=. .venv/bin/python benchmarks/sharing/listing.py [--files 1000000] [--format delta|parquet] [--vectors]

Prints the processor time of the client per file, and the peak of its memory. The server is another process and sends
lines that are 600 to 700 bytes long: signed URLs, partition values and statistics of two columns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import socket
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deltacli.sharing.client.addresses import TableName
from deltacli.sharing.client.share_storage import open_profile
from deltacli.sharing.client.shared_version import read_version
from deltacli.sharing.client.table_requests import Query, TableRequests
from deltacli.sharing.protocol.parameters import ResponseFormat

FIELDS = [("a", "long"), ("day", "string")]
SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in FIELDS]}
)
LINES_A_BLOCK = 2_000


def head_lines(form: str) -> bytes:
    """Return the first two lines of an answer."""
    metadata = {"id": "t", "format": {"provider": "parquet"}, "schemaString": SCHEMA, "partitionColumns": ["day"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    protocol["writerFeatures"] = ["deletionVectors"]
    if form == "parquet":
        lines = [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}]
    else:
        lines = [{"protocol": {"deltaProtocol": protocol}}, {"metaData": {"deltaMetadata": metadata}}]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def file_line(number: int, form: str, *, has_vector: bool) -> bytes:
    """Return the line of a file."""
    url = f"https://bucket.example.com/table/part-{number:08}.snappy.parquet?X-Amz-Credential={'c' * 60}&n={'e' * 64}"
    stats = json.dumps({"numRecords": 1000, "minValues": {"a": number}, "maxValues": {"a": number + 9}})
    values = {"day": f"2026-01-{number % 28 + 1:02}"}
    named = {"id": f"{number:032x}", "expirationTimestamp": 1_900_000_000_000}
    if form == "parquet":
        return json.dumps(
            {"file": {**named, "url": url, "partitionValues": values, "size": 1000 + number, "stats": stats}}
        ).encode()
    add = {"path": url, "partitionValues": values, "size": 1000 + number, "modificationTime": 1, "dataChange": True}
    add["stats"] = stats
    if has_vector:
        named["deletionVectorFileId"] = f"{number // 100:032x}"
        vector = {"storageType": "p", "pathOrInlineDv": url + "v", "offset": 1, "sizeInBytes": 34, "cardinality": 2}
        add["deletionVector"] = vector
    return json.dumps({"file": {**named, "deltaSingleAction": {"add": add}}}).encode()


def serve(listener: socket.socket, files: int, form: str, has_vector: bool) -> None:
    """Answer one request."""
    blocks = []
    for start in range(0, files, LINES_A_BLOCK):
        numbers = range(start, min(start + LINES_A_BLOCK, files))
        blocks.append(b"".join(file_line(number, form, has_vector=has_vector) + b"\n" for number in numbers))
    opened, _ = listener.accept()
    opened.recv(1 << 16)
    length = len(head_lines(form)) + sum(map(len, blocks))
    head = f"HTTP/1.1 200 OK\r\nDelta-Table-Version: 5\r\nDelta-Sharing-Capabilities: responseformat={form}\r\n"
    opened.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + head_lines(form))
    for block in blocks:
        opened.sendall(block)
    opened.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--format", choices=["delta", "parquet"], default="delta")
    parser.add_argument("--vectors", action="store_true")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    arguments = (listener, options.files, options.format, options.vectors)
    server = multiprocessing.get_context("fork").Process(target=serve, args=arguments, daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as work:
        profile = Path(work) / "p.share"
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        profile.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": "t"}))
        profile.chmod(0o600)
        requests = TableRequests(open_profile(profile), TableName("s", "s", "t"))
        began = time.process_time()
        shared = read_version(requests, Query(formats=(ResponseFormat(options.format),)))
        seconds = time.process_time() - began
    server.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    files = len(shared.urls)
    print(f"{files:,} files: {seconds:.2f} s of CPU, {seconds / files * 1e6:.2f} µs per file, peak {peak:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
