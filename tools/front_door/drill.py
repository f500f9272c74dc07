"""`make drill`: whether a drill can run here, said in the first second, and the drill itself, which is in drill/."""

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from tools.errors import ToolMissingError
from tools.front_door import recovery
from tools.front_door.environment import STATE, FrontDoorError, direct
from tools.front_door.process import run
from tools.front_door.session import Session
from tools.front_door.slurm import ensure_slurm_can_run, read_outputs
from tools.places import LOCAL
from tools.slurm_root.packages import TRAINING
from tools.slurm_root.root import folder as slurm_root

DRILL_SECONDS = 4 * 3600.0
REPORTS = LOCAL / "drill"
"""A folder for each stack, with one for each scenario: report.txt, report.json, report.png, report.html."""

_OUTPUTS = ("slurm", "kubeconfig", "clusterId")


def drill(session: Session) -> int:
    """Let a node fail under the reference job and judge what follows; return 0 where it passed."""
    _ensure_it_can_run(session)
    session.prepare(runs_program=False)
    kubectl = shutil.which("kubectl", path=session.environ["PATH"])
    if kubectl is None:
        raise FrontDoorError("kubectl is not on PATH; `python -m tools ensure --for dev` gets the clone's own.")
    local = [f"--local-state={LOCAL / 'cloud'}"] if session.is_dev else []
    command = [sys.executable, "-m", "drill", f"--stack={session.stack}", f"--kubectl={kubectl}", *local]
    command += [f"--folder={REPORTS / session.stack.replace('/', '_')}", *session.arguments]
    outputs = read_outputs(session, _OUTPUTS)
    prod = Session("prod").settings()
    given = {"outputs": outputs, "settings": _plain(session.settings()), "prod": _plain(prod)}
    given["preview"] = {"command": session.preview_of_a_file(), "file": str(session.file)}
    environ = {**session.environ, **direct(os.environ)}
    # By standard input: the kubeconfig is a secret, which command lines and variables show to others.
    return run(command, environ, seconds=DRILL_SECONDS, given=json.dumps(given))


def _ensure_it_can_run(session: Session) -> None:
    """Say at once what is missing. Raises FrontDoorError or ToolMissingError."""
    if importlib.util.find_spec("matplotlib") is None:
        raise FrontDoorError("The drill's packages are missing from this environment; `make drill` puts them there.")
    if not session.is_dev:
        return
    ensure_slurm_can_run(session.settings())
    slurm_root()
    try:
        slurm_root(TRAINING)
    except ToolMissingError as error:
        raise FrontDoorError(f"{error}; then `make down` and `make up`, so that the workers have it.") from None
    if recovery.is_empty(STATE, session.project, session.stack):
        raise FrontDoorError("The stack dev is not up, so there is nothing to drill. Run `make up`, then this again.")


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the drill needs of the settings: they hold no secrets, and no more than that is handed on."""
    return {name: settings[name] for name in ("cloud", "slurm") if name in settings}
