"""The part of the WebSocket protocol (RFC 6455) that the API server speaks to a kubelet: whole binary messages."""

from __future__ import annotations

import base64
import hashlib
import select
import socket
import struct

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_CHUNK = 65536


def accept_key(key: str) -> str:
    """The value of Sec-WebSocket-Accept for a client's Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()


class WebSocket:
    """The server's side of a connection after its handshake. For one thread."""

    def __init__(self, connection: socket.socket, rest: bytes = b"") -> None:
        """`rest` is what came after the handshake's request."""
        self.connection = connection
        self.ended = False
        self._buffer = rest
        self._message = b""

    def send(self, data: bytes, kind: int = _BINARY) -> None:
        """Send one message. Raises OSError when the other side is gone."""
        size = len(data)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([size])
        else:
            head += struct.pack("!BH", 126, size) if size < 1 << 16 else struct.pack("!BQ", 127, size)
        self.connection.sendall(head + data)

    def close(self) -> None:
        """Say that nothing more comes."""
        self.send(struct.pack("!H", 1000), _CLOSE)

    def receive(self) -> list[bytes]:
        """Read once from a connection that has something; the messages that are complete with it."""
        data = self.connection.recv(_CHUNK)
        self.ended = self.ended or not data
        self._buffer += data
        messages: list[bytes] = []
        while (frame := self._frame()) is not None:
            final, kind, payload = frame
            if kind == _CLOSE:
                self.ended = True
            elif kind == _PING:
                self.send(payload, _PONG)
            elif kind != _PONG:
                self._message += payload
                if final:
                    messages.append(self._message)
                    self._message = b""
        return messages

    def _frame(self) -> tuple[bool, int, bytes] | None:
        head = self._buffer
        if len(head) < 2:
            return None
        at, size = 2, head[1] & 0x7F
        if size >= 126:
            wide = 2 if size == 126 else 8
            if len(head) < 2 + wide:
                return None
            at, size = 2 + wide, int.from_bytes(head[2 : 2 + wide], "big")
        mask = b""
        if head[1] & 0x80:
            mask, at = head[at : at + 4], at + 4
        if len(head) < at + size:
            return None
        payload = head[at : at + size]
        self._buffer = head[at + size :]
        if mask:
            payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        return bool(head[0] & 0x80), head[0] & 0x0F, payload


def readable(connection: socket.socket, others: list[int], seconds: float) -> tuple[bool, list[int]]:
    """Wait until the connection or one of the other descriptors has something; which of them do."""
    pending = getattr(connection, "pending", None)
    if pending is not None and pending():
        # Decrypted already, so the descriptor itself has nothing.
        return True, select.select(others, [], [], 0)[0]
    ready = select.select([connection.fileno(), *others], [], [], seconds)[0]
    return connection.fileno() in ready, [each for each in others if each in ready]
