"""`make new-stack` and `make promote`: a stack's file from what the cloud offers, and two files compared.

What is chosen and compared is in environments/. Neither needs Pulumi.
"""

import os
import sys

from tools.front_door.environment import FrontDoorError, direct
from tools.front_door.process import run
from tools.front_door.session import Session

SECONDS = 300.0
_EXAMPLE = "make new-stack NAME=research LOCATION=us-east1-a POOLS=train=h100-80gb-sxm-ib.8x:2"


def new_stack(session: Session) -> int:
    """Write a new stack's file; return 1, with the reasons, where it can't work."""
    missing = [f"{name.upper()}=" for name in ("name", "location", "pools") if f"--{name}=" in session.arguments]
    if missing:
        raise FrontDoorError(f"{' and '.join(missing)} is missing. Write for example: {_EXAMPLE}")
    return _environments(session, "new-stack")


def promote(session: Session) -> int:
    """Print how two stacks' files differ."""
    return _environments(session, "promote")


def _environments(session: Session, command: str) -> int:
    words = [sys.executable, "-m", "environments", command, *session.arguments]
    return run(words, {**os.environ, **direct(os.environ)}, seconds=SECONDS)
