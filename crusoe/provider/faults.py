"""What a resource operation can end with other than success; `str()` of each is one or two plain sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crusoe.provider.values import Value


class RefusalError(Exception):
    """A wish that can't be granted, and what to do instead; nothing was changed."""


class PartlyDoneError(Exception):
    """The object exists, but is not yet what was asked for; the next `up` goes on from here.

    `state` is what is known of the object, `reasons` are sentences for the user.
    """

    def __init__(self, object_id: str, state: Mapping[str, Value], reasons: Sequence[str]) -> None:
        super().__init__(" ".join(reasons))
        self.object_id = object_id
        self.state = dict(state)
        self.reasons = tuple(reasons)
