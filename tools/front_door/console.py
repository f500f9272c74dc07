"""`make console`: the local cloud's pages in a browser, or their address where there is no desktop."""

import os
import subprocess
import sys
import webbrowser
from collections.abc import Mapping

from tools.front_door.environment import FrontDoorError, direct
from tools.front_door.process import output
from tools.front_door.session import Session
from tools.toolchain import ensure

_SECONDS = 30.0


def console(session: Session) -> int:
    """Open the console of the clone's local cloud, which is started if it is down; return 0."""
    if not session.is_dev:
        raise FrontDoorError(
            f"The console is the local cloud's, and the stack {session.stack} is in a real one. Its machines are in "
            "Crusoe's own console; `make check` and `make drift` ask about them from here."
        )
    address = _address()
    if address is None:
        session.say("The local cloud is down; starting it")
        ensure("dev")
        session.start_local_cloud()
        address = _address()
    if address is None:
        raise FrontDoorError("The local cloud was started and is gone again; .local/cloud/server.log has the reason.")
    print(address, flush=True)
    if not (has_desktop(os.environ) and webbrowser.open(address)):
        session.say("No browser can be opened here: open that address in one on this machine, or through `ssh -L`.")
    return 0


def has_desktop(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether there is a screen to open a browser on."""
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _address() -> str | None:
    """The address of the pages; None while the local cloud is down."""
    command = [sys.executable, "-m", "localcloud", "console"]
    try:
        return output(command, {**os.environ, **direct(os.environ)}, seconds=_SECONDS).strip() or None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
