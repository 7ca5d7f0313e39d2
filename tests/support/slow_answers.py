"""Answers of servers that never end, and a socket of loopback that gives them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def interim(connected: socket.socket) -> None:
    while True:
        connected.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def unfinished_head(connected: socket.socket) -> None:
    connected.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while connected.recv(1_000):
        pass


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def endless_trailers(connected: socket.socket) -> None:
    connected.sendall(_CHUNKED + b"2\r\n{}\r\n0\r\n")
    while True:
        connected.sendall(b"X: y\r\n" * 1_000)


def unfinished_trailer(connected: socket.socket) -> None:
    connected.sendall(_CHUNKED + b"2\r\n{}\r\n0\r\nX: ")
    while connected.recv(1_000):
        pass


def unfinished_size_of_a_chunk(connected: socket.socket) -> None:
    connected.sendall(_CHUNKED + b"2;x=")
    while connected.recv(1_000):
        pass


def dripping_body(connected: socket.socket) -> None:
    connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{")
    while True:
        connected.sendall(b" ")


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Answer one request on loopback until the client leaves."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connected, _ = listener.accept()
        with connected, suppress(OSError):
            connected.recv(10_000)
            answer(connected)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        thread.join(10)


def unfinished_body(connected: socket.socket) -> None:
    connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    while connected.recv(1_000):
        pass
