"""Slurm at the front door: whether its daemons can run here, `make check`, which compares GPUs, and `make plan`.

What `make check` compares is in components/slurm, what `make plan` prints in components/gpu_sharing.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tools.front_door.environment import FrontDoorError, direct
from tools.front_door.process import run
from tools.front_door.session import Session

CHECK_SECONDS = 300.0
_OUTPUTS = ("slurm", "kubeconfig", "slurmKubeconfig", "gpuSharing")


def ensure_slurm_can_run(settings: Mapping[str, Any]) -> None:
    """Say at once, and not after minutes of waiting, that the daemons of a stack's Slurm can't run on this machine.

    They run in Linux namespaces with several users, which root may make, or newuidmap for others.

    Raises:
        FrontDoorError: the stack has a Slurm of its own, and this user can't have it here.
    """
    wanted = settings.get("slurm")
    if not isinstance(wanted, dict) or cast("dict[str, Any]", wanted).get("mode") == "managed":
        return
    if sys.platform == "linux" and (os.geteuid() == 0 or shutil.which("newuidmap")):
        return
    raise FrontDoorError(
        "The stack dev has Slurm, whose daemons need Linux and root here, or newuidmap (package uidmap). Run this as "
        "root, or take `slurm` out of Pulumi.dev.yaml: everything else of the platform runs without."
    )


def check(session: Session) -> int:
    """Compare; return 0 where everything agrees. Reads state, Kubernetes and Slurm, and changes nothing."""
    return with_kubectl(session, "components.slurm.check_command", _OUTPUTS, CHECK_SECONDS)


def with_kubectl(session: Session, module: str, outputs: Sequence[str], seconds: float) -> int:
    """Run a command of the program's that asks the stack's cluster, with outputs of the stack; return its exit status.

    Raises:
        FrontDoorError: there is no kubectl, or the outputs can't be read.
    """
    kubectl = shutil.which("kubectl", path=session.environ["PATH"])
    if kubectl is None:
        raise FrontDoorError(
            "kubectl is not on PATH. Install it (https://kubernetes.io/docs/tasks/tools), or let this clone have its "
            "own with `python -m tools ensure --for dev`, then run this again."
        )
    command = [sys.executable, "-m", module, f"--kubectl={kubectl}", *session.arguments]
    environ = {**os.environ, **direct(os.environ)}
    # By standard input: the kubeconfig is a secret, which command lines and variables show to others.
    return run(command, environ, seconds=seconds, given=json.dumps(read_outputs(session, outputs)))


def plan(session: Session) -> int:
    """Print who has what of the shared GPU pools, from the settings alone; return 1 where they can't be used."""
    command = [sys.executable, "-m", "components.gpu_sharing.plan_command", f"--stack={session.stack}"]
    environ = {**os.environ, **direct(os.environ)}
    return run([*command, *session.arguments], environ, seconds=CHECK_SECONDS, given=json.dumps(session.settings()))


def read_outputs(session: Session, names: Sequence[str]) -> dict[str, Any]:
    """Return outputs of the stack by name, secret ones too; None for one that it has not. Raises FrontDoorError."""
    try:
        told = session.pulumi_output("stack", "output", "--json", "--show-secrets", "--stack", session.stack)
    except subprocess.CalledProcessError as error:
        raise FrontDoorError(f"The outputs of the stack {session.stack} can't be read; the reason stands above.") from (
            error
        )
    outputs: dict[str, Any] = json.loads(told)
    return {name: outputs.get(name) for name in names}
