"""A wrapper that keeps a secret out of logs, tracebacks, state and pickles."""

from __future__ import annotations

import hmac
from typing import NoReturn, SupportsIndex


class Secret:
    """Text that shows as `[secret]` wherever it is printed; only `reveal()` gives it out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret in clear. Call it only where the value is used, never to build a message."""
        return self._value

    def __repr__(self) -> str:
        """Hide the value in debuggers and tracebacks too."""
        return "[secret]"

    def __format__(self, format_spec: str) -> str:
        """Ignore the format, which could otherwise show parts of the value."""
        return "[secret]"

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        """Be usable in frozen dataclasses."""
        return hash(self._value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled or deep-copied into something that forgets to hide it."""
        raise TypeError("A secret is not pickled: pass the credentials' source instead.")
