"""The WebSocket protocol, as far as a kubelet speaks it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Generator

import pytest

from localcloud.slurm.websocket import WebSocket, accept_key

MASK = b"\x01\x02\x03\x04"


@pytest.fixture
def pair() -> Generator[tuple[WebSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(5)
        yield WebSocket(ours), theirs


def frame(payload: bytes, *, kind: int = 2, final: bool = True) -> bytes:
    """A client's frame, masked as the protocol demands."""
    size = len(payload)
    head = bytes([(0x80 if final else 0) | kind])
    head += bytes([0x80 | size]) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return head + MASK + bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))


def test_the_handshakes_answer_is_the_standards_own_example() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_messages_come_whole_however_they_were_cut(pair: tuple[WebSocket, socket.socket]) -> None:
    web, client = pair
    data = frame(b"\x00first", final=False) + frame(b" half", kind=0) + frame(b"\x00" + b"x" * 300)
    client.sendall(data[:9])
    assert web.receive() == []
    client.sendall(data[9:])
    assert web.receive() == [b"\x00first half", b"\x00" + b"x" * 300]


def test_a_ping_is_answered_and_a_close_ends_it(pair: tuple[WebSocket, socket.socket]) -> None:
    web, client = pair
    client.sendall(frame(b"are you there", kind=9) + frame(b"", kind=8))
    assert web.receive() == []
    assert client.recv(100) == b"\x8a\x0dare you there"
    assert web.ended


def test_a_connection_that_is_gone_has_ended(pair: tuple[WebSocket, socket.socket]) -> None:
    web, client = pair
    client.close()
    assert web.receive() == []
    assert web.ended


@pytest.mark.parametrize(("size", "head"), [(5, b"\x82\x05"), (300, b"\x82\x7e\x01\x2c"), (70000, b"\x82\x7f")])
def test_messages_of_every_size_are_sent(pair: tuple[WebSocket, socket.socket], size: int, head: bytes) -> None:
    web, client = pair
    web.send(b"x" * size)
    assert client.recv(len(head)) == head
