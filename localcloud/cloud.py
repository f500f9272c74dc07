"""The cloud as one object: its state, facts, clock, journal, operations and control planes."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, TypeVar

from localcloud.clock import Clock
from localcloud.console.sights import Sights
from localcloud.control_plane import ControlPlane
from localcloud.dialing import Dialer, no_pod_network
from localcloud.events import Journal
from localcloud.facts import Facts
from localcloud.faults import Faults
from localcloud.inventory import Inventory
from localcloud.keys import Keys
from localcloud.operations import Operations, Work
from localcloud.planes import Planes
from localcloud.requests import RequestLog
from localcloud.store import Store

Offered = Literal["v1", "v2", "both"]
_T = TypeVar("_T")

DEFAULT_OPERATION_SECONDS = 0.5
DEFAULT_WATCH_SECONDS = 5.0
MOST_RECEIVED = 100
"""How much of what webhooks send to the receiver is kept."""
_ANSWER_SECONDS = 60.0


class Cloud:
    """Everything a route or an operation needs."""

    def __init__(
        self,
        store: Store,
        keys: Keys,
        make_control_plane: Callable[[], ControlPlane],
        works: Mapping[str, Work],
        facts: Facts | None = None,
    ) -> None:
        """Put the parts together around one state file."""
        self.store = store
        self.keys = keys
        self.planes = Planes(make_control_plane)
        self.facts = facts or Facts()
        self.clock = Clock(store.setting("clock_offset", 0.0))
        self.journal = Journal(store, self.clock)
        self.faults = Faults(store)
        self.requests = RequestLog(store)
        self.inventory = Inventory(store, self.facts)
        self.operations = Operations(self, works)
        self.dialer: Dialer = no_pod_network
        self.sights = Sights()
        self.received: deque[tuple[str, Any]] = deque(maxlen=MOST_RECEIVED)
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def operation_seconds(self) -> float:
        """How long an operation takes at least; 0 finishes it within the answer where that is possible."""
        return float(self.store.setting("operation_seconds", DEFAULT_OPERATION_SECONDS))

    @property
    def watch_seconds(self) -> float:
        """How often the control planes are looked at; 0 for never."""
        return float(self.store.setting("watch_seconds", DEFAULT_WATCH_SECONDS))

    @property
    def offered(self) -> Offered:
        """Which CMK generation's versions new clusters are offered."""
        return self.store.setting("generation", "both")

    def from_thread(self, step: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Do `step` on the event loop, to whose thread the state belongs, and answer what it does.

        For other threads only. Raises TimeoutError after a minute, and RuntimeError while nothing is served.
        """
        if self.loop is None:
            raise RuntimeError("the local cloud isn't served yet")
        return asyncio.run_coroutine_threadsafe(step(), self.loop).result(_ANSWER_SECONDS)

    def move_clock(self, seconds: float) -> None:
        """Set the cloud's clock this far ahead of the machine's."""
        self.clock.offset = seconds
        self.store.set_setting("clock_offset", seconds)


def new_id() -> str:
    """A new object's id: a lower-case UUID."""
    return str(uuid.uuid4())
