"""`kubectl exec` and `kubectl logs` reach into Slurm's pods, through the API server as anywhere."""

from __future__ import annotations

import os
import pty
import subprocess

from tests.integration.localcloud_slurm.site import Site
from tools.toolchain import binary

CONTROLLER = ("-n", "slurm", "slurm-controller-0", "-c", "slurmctld")


def test_exec_runs_a_command_as_the_containers_user_with_its_variables(site: Site) -> None:
    site.await_ready("slurm-controller-0")
    assert "is UP" in site.live.kubectl("exec", *CONTROLLER, "--", "scontrol", "ping")
    assert site.live.kubectl("exec", *CONTROLLER, "--", "id", "-u").strip() == "401"
    said = site.live.kubectl("exec", "-n", "slurm", "slurm-restapi-0", "--", "bash", "-c", "echo $SLURM_JWT")
    assert said.strip() == "daemon"


def test_exec_tells_how_the_command_ended_and_what_it_complained_about(site: Site) -> None:
    said = site.live.kubectl("exec", *CONTROLLER, "--", "bash", "-c", "echo oops >&2; exit 7", ok=False)
    assert "oops" in said
    assert "exit code 7" in said


def test_exec_passes_standard_input_on_whole(site: Site) -> None:
    text = "a line of text\n" * 20000
    assert site.live.kubectl("exec", "-i", *CONTROLLER, "--", "cat", stdin=text) == text


def test_logs_are_what_the_container_has_written(site: Site) -> None:
    site.await_ready("slurm-controller-0")
    assert "slurmctld version 26.05" in site.live.kubectl("logs", *CONTROLLER)
    assert len(site.live.kubectl("logs", *CONTROLLER, "--tail=2").splitlines()) == 2


def test_a_container_that_is_not_there_is_said(site: Site) -> None:
    said = site.live.kubectl("exec", "-n", "slurm", "slurm-controller-0", "-c", "none", "--", "id", ok=False)
    assert "container none" in said or "container not found" in said


def test_exec_has_a_terminal_where_one_is_asked_for(site: Site) -> None:
    site.await_ready("gpu-0")
    ours, theirs = pty.openpty()
    command = ["exec", "-it", "-n", "slurm", "gpu-0", "-c", "slurmd", "--", "bash", "-c", "test -t 1 && echo term-inal"]
    config = site.live.root / "kubeconfig-of-the-test"
    call = [str(binary("kubectl")), f"--kubeconfig={config}", *command]
    with subprocess.Popen(call, stdin=theirs, stdout=theirs, stderr=theirs) as kubectl:
        os.close(theirs)
        assert kubectl.wait(30) == 0
    assert b"term-inal" in os.read(ours, 4096)
    os.close(ours)
