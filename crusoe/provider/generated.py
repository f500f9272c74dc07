"""Secrets that are made once and kept in the stack's state, such as Slurm's keys.

A program has to give the same inputs on each run, so a key can't be drawn in it. This resource draws one when it is
created, and another in its place only when its `keepers` change, so that a protected one can be drawn anew. It knows
nothing of the cloud.
"""

from __future__ import annotations

import base64
import secrets
import string
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from crusoe.provider import properties
from crusoe.provider.faults import RefusalError
from crusoe.provider.kind import Kind, Reading
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.shapes import MapOf, Text, Whole
from crusoe.provider.values import UNKNOWN, Values

ENCODINGS: Final = ("hex", "base64", "base64url", "alphanumeric")
LENGTH, ENCODING = 32, "base64"
FILE: Final = "file:"


class GeneratedSecret(Kind):
    """A random secret."""

    name = "GeneratedSecret"
    title = "generated secret"
    description = (
        "A random secret, drawn when the resource is created and kept in the state. Import an existing one with"
        " `file:PATH` as its id: the file's content becomes the value, and never shows."
    )
    delete_before_replace = False
    properties = (
        Property(
            "length",
            Whole(16, 4096),
            "Random bytes of the secret; characters with alphanumeric. 32 when left out.",
            effect=Effect.REPLACE,
            write_only=True,
            assumed=LENGTH,
        ),
        Property(
            "encoding",
            Text(ENCODINGS),
            "How it is written: hex, base64 (the default), base64url (without padding) or alphanumeric.",
            effect=Effect.REPLACE,
            write_only=True,
            assumed=ENCODING,
        ),
        Property(
            "keepers",
            MapOf(Text()),
            "Any values; when one changes, the secret is drawn anew, in place.",
            write_only=True,
            assumed={},
        ),
    )
    outputs = (Output("value", Text(), "The secret.", secret=True, stable=False),)

    def planned_update(self, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Say that the secret will be another one."""
        after = super().planned_update(state, news, changes)
        return {**after, "value": UNKNOWN} if changes else after

    def create(self, run: Run, inputs: Values) -> tuple[str, Values]:
        """Draw a secret; its id tells nothing of it."""
        del run
        return str(uuid.uuid4()), self.state_of(inputs, {"value": _drawn(inputs)})

    def read(self, run: Run, object_id: str, inputs: Values, state: Values) -> Reading | None:
        """Keep what is recorded; an import reads the value from a file."""
        del run
        if state or inputs:
            return Reading(object_id, inputs, state)
        if not object_id.startswith(FILE):
            raise RefusalError(
                "A generated secret is imported from a file that holds its value: give `file:PATH` as the id."
            )
        path = Path(object_id.removeprefix(FILE)).expanduser()
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise RefusalError(f"The secret in {path} can't be read: {reason}.") from None
        if not value:
            raise RefusalError(f"The file {path} is empty.")
        found, unread = properties.imported(self.properties, {})
        return Reading(str(uuid.uuid4()), found, {"value": value, properties.UNREAD: [*unread]})

    def update(self, run: Run, object_id: str, state: Values, news: Values, changes: Sequence[Difference]) -> Values:
        """Draw another, which is what a changed keeper asks for."""
        del run, object_id
        return self.state_of(news, {"value": _drawn(news)} if changes else {}, state)

    def delete(self, run: Run, object_id: str, state: Values) -> None:
        """Forget it, which the engine does."""
        del run, object_id, state


def _drawn(inputs: Values) -> str:
    length, encoding = inputs.get("length"), inputs.get("encoding")
    return draw(length if isinstance(length, int) else LENGTH, encoding if isinstance(encoding, str) else ENCODING)


def draw(length: int, encoding: str) -> str:
    """Return a new secret of `length` random bytes (characters with alphanumeric)."""
    if encoding == "alphanumeric":
        return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))
    data = secrets.token_bytes(length)
    if encoding == "hex":
        return data.hex()
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


KINDS = (GeneratedSecret(),)
