"""Real Slurm in the pods of a cluster: it starts, runs jobs, and ends as a kubelet would have it."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import time
from pathlib import Path

import psutil
import pytest

from localcloud.facts import Facts
from localcloud.kubernetes.gpu_faults import GPU_FAULTS
from localcloud.slurm.kubelet import Kubelets
from localcloud.slurm.lab import LabError
from localcloud.slurm.reach import rest_socket
from tests.integration.localcloud_kubernetes.support import until
from tests.integration.localcloud_slurm.site import Site, config, worker
from tests.unit.localcloud_kubernetes.support import h100

SPARE = h100(3).name
ALL = ("slurm-controller-0", "slurm-restapi-0", "gpu-0", "gpu-1")


@pytest.fixture(autouse=True)
def everything_is_up(site: Site) -> None:
    site.await_ready(*ALL)
    until(lambda: site.slurm("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2", 60)


def described(site: Site, name: str) -> str:
    return site.live.kubectl("describe", "pod", name, "-n", "slurm")


def records(site: Site, name: str) -> list[str]:
    """What a pod has written to the shared disk."""
    path = site.shared / name
    return path.read_text().split() if path.exists() else []


def crash(site: Site, name: str) -> None:
    """End a worker's daemon; the command may end with it."""
    site.run(name, "slurmd", "bash", "-c", "kill -TERM 1", ok=False)


def scribe(name: str, *, grace: int, saving: float, hook: bool = True) -> dict[str, object]:
    """A pod that writes down what happens to it; a save takes `saving` seconds after SIGTERM."""
    log = f"/shared/{name}"
    script = f"trap 'echo term >> {log}; sleep {saving}; echo saved >> {log}; exit 0' TERM; echo up >> {log}; "
    pre_stop = f"echo hook-$(hostname) >> {log}" if hook else ""
    return worker(name, SPARE, pre_stop=pre_stop, grace=grace, command=script + "while :; do sleep 0.1; done")


def test_nodes_are_idle_with_their_gpus_and_the_size_of_their_machines(site: Site) -> None:
    said = site.slurm("sinfo", "-h", "-N", "-t", "idle", "-o", "%N %G %c %m")
    assert said.splitlines() == [f"{name} gpu:h100:8(S:0-1) 176 983040" for name in ("gpu-0", "gpu-1")]


def test_the_controller_runs_the_generated_options_but_for_those_that_are_told(site: Site) -> None:
    lines = site.slurm("scontrol", "show", "config").splitlines()
    shown = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    assert shown["SchedulerParameters"] == "batch_sched_delay=0,sched_min_interval=0"
    assert shown["ReturnToService"] == "2"
    assert shown["ProctrackType"] == "proctrack/linuxproc"
    assert shown["SlurmdParameters"] == "config_overrides"


def test_a_job_runs_on_both_nodes_with_its_gpus(site: Site) -> None:
    command = "srun --gres=gpu:2 bash -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES > /tmp/seen'"
    told = site.slurm("sbatch", "-N2", "--gres=gpu:2", "--wrap", command, "-o", "/tmp/out", "--parsable")
    until(lambda: "JobState=COMPLETED" in site.slurm("scontrol", "show", "job", told.strip()), 60)
    assert site.run("gpu-0", "slurmd", "cat", "/tmp/seen") == "gpu-0 0,1\n"
    assert site.run("gpu-1", "slurmd", "cat", "/tmp/seen") == "gpu-1 0,1\n"


def test_slurmrestd_answers_on_a_socket_of_this_machine(site: Site) -> None:
    token = site.slurm("scontrol", "token", "username=root", "lifespan=60").strip().partition("=")[2]
    path = rest_socket(site.live.home)
    until(path.exists)
    headers = f"Host: slurm\r\nX-SLURM-USER-TOKEN: {token}\r\nConnection: close\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(f"GET /slurm/v0.0.44/nodes HTTP/1.1\r\n{headers}\r\n".encode())
        answer = connection.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 200")
    # slurmrestd answers a close with words of its own after the body.
    body, _ = json.JSONDecoder().raw_decode(answer.partition("\r\n\r\n")[2])
    assert {node["name"] for node in body["nodes"]} >= {"gpu-0", "gpu-1"}


def test_a_pods_port_can_be_reached_from_this_machine(site: Site) -> None:
    address = site.pod("slurm-restapi-0")["status"]["podIP"]
    with site.kubelets.connect(site.live.cluster.id, address, 6820) as connection:
        connection.settimeout(10)
        connection.sendall(b"GET /openapi/v3 HTTP/1.1\r\nHost: slurm\r\nConnection: close\r\n\r\n")
        assert connection.recv(8) == b"HTTP/1.1"
    with pytest.raises(OSError, match="6821"):
        site.kubelets.connect(site.live.cluster.id, address, 6821)


def test_nothing_of_it_shows_on_the_machines_own_network(site: Site) -> None:
    pods = ipaddress.ip_network(site.live.cluster.cluster_cidr)
    own = [each.address for some in psutil.net_if_addrs().values() for each in some if each.family == socket.AF_INET]
    assert own
    assert not [address for address in own if ipaddress.ip_address(address) in pods]


def test_a_deleted_pod_gets_its_hook_then_sigterm_then_its_grace(site: Site) -> None:
    site.create(scribe("patient", grace=20, saving=1))
    site.await_ready("patient")
    begun = time.monotonic()
    site.live.kubectl("delete", "pod", "patient", "-n", "slurm")
    assert records(site, "patient") == ["up", "hook-patient", "term", "saved"]
    assert time.monotonic() - begun < 15


def test_a_short_grace_period_loses_the_checkpoint(site: Site) -> None:
    site.create(scribe("hasty", grace=1, saving=6))
    site.await_ready("hasty")
    site.live.kubectl("delete", "pod", "hasty", "-n", "slurm")
    assert records(site, "hasty") == ["up", "hook-hasty", "term"]


def test_a_crashed_daemon_is_started_again(site: Site) -> None:
    before = site.pod("gpu-1")["status"]["containerStatuses"][0]["restartCount"]
    crash(site, "gpu-1")

    def again() -> bool:
        status = site.pod("gpu-1")["status"]["containerStatuses"][0]
        return status["restartCount"] == before + 1 and status["ready"] and "terminated" in status["lastState"]

    until(again, 40)


def test_what_a_container_writes_outside_of_volumes_goes_with_it(site: Site) -> None:
    site.run("gpu-0", "slurmd", "touch", "/tmp/scratch", "/var/spool/slurmd/kept")
    before = site.pod("gpu-0")["status"]["containerStatuses"][0]["restartCount"]
    crash(site, "gpu-0")
    until(lambda: site.pod("gpu-0")["status"]["containerStatuses"][0]["restartCount"] > before, 40)
    site.await_ready("gpu-0")
    assert "kept" in site.run("gpu-0", "slurmd", "ls", "/var/spool/slurmd")
    assert "scratch" not in site.run("gpu-0", "slurmd", "ls", "/tmp")


def test_pods_outlive_a_kill_of_the_local_cloud(site: Site) -> None:
    site.create(scribe("survivor", grace=20, saving=0))
    site.await_ready("survivor")
    before = {name: site.process(name).pid for name in (*ALL, "survivor")}
    site.halt()
    site.live.kubectl("delete", "pod", "survivor", "-n", "slurm", "--wait=false")
    site.begin()
    until(lambda: site.gone("survivor"))
    assert records(site, "survivor") == ["up", "hook-survivor", "term", "saved"]
    assert {name: site.process(name).pid for name in ALL} == {name: before[name] for name in ALL}


def test_the_api_server_answers_in_pods_while_the_local_cloud_runs(site: Site) -> None:
    def trouble() -> str:
        place = f"/dev/tcp/{site.live.cluster.api_address}/443"
        return site.run("gpu-0", "slurmd", "bash", "-c", f"exec 3<>{place}", ok=False)

    until(lambda: not trouble())
    site.halt()
    try:
        assert "refused" in trouble()
    finally:
        site.begin()
    until(lambda: not trouble())


def test_a_node_without_power_takes_its_pods_with_it_and_starts_them_again(site: Site) -> None:
    site.create(scribe("unlucky", grace=20, saving=0))
    site.await_ready("unlucky")
    process = site.process("unlucky")
    site.live.kubectl("annotate", "node", SPARE, "local.crusoe.ai/power=off")
    until(lambda: not process.is_running())
    time.sleep(1)
    assert site.ready("unlucky"), "nobody is there to report on the pod"
    assert records(site, "unlucky") == ["up"]
    site.live.kubectl("annotate", "node", SPARE, "local.crusoe.ai/power-")
    until(lambda: site.pod("unlucky")["status"]["containerStatuses"][0]["restartCount"] == 1)
    until(lambda: records(site, "unlucky") == ["up", "up"])
    site.live.kubectl("delete", "pod", "unlucky", "-n", "slurm")


def test_files_of_a_config_map_follow_it_while_the_pod_runs(site: Site) -> None:
    site.live.kubectl("apply", "-f", "-", stdin=json.dumps(config(notes__txt="changed")))
    until(lambda: "notes.txt" in site.run("slurm-controller-0", "slurmctld", "ls", "/etc/slurm"))
    site.live.kubectl("apply", "-f", "-", stdin=json.dumps(config()))
    until(lambda: "notes.txt" not in site.run("slurm-controller-0", "slurmctld", "ls", "/etc/slurm"))


def test_a_pod_waits_for_what_it_mounts_and_says_so(site: Site) -> None:
    pod = scribe("waiting", grace=1, saving=0)
    pod["spec"]["volumes"][0] = {"name": "slurm-etc", "secret": {"secretName": "later"}}  # pyright: ignore[reportIndexIssue]  a pod is a dict
    site.create(pod)
    until(lambda: 'secret "later" not found' in described(site, "waiting"))
    assert site.pod("waiting")["status"]["phase"] == "Pending"
    site.live.kubectl("create", "secret", "generic", "later", "-n", "slurm", "--from-literal=slurm.key=k")
    site.await_ready("waiting")
    site.live.kubectl("delete", "pod", "waiting", "-n", "slurm")


def test_without_slurm_a_pod_stays_pending_and_says_why(site: Site) -> None:
    def absent() -> Path:
        raise LabError("Slurm's daemons can't be found on this machine yet.")

    site.halt()
    there = site.kubelets
    site.kubelets = Kubelets(absent, Facts().vm_types)
    site.begin()
    try:
        site.create(scribe("stranded", grace=1, saving=0))
        until(lambda: "can't be found on this machine" in described(site, "stranded"))
        assert re.search(r"Warning\s+FailedCreatePodSandBox", described(site, "stranded"))
        assert site.ready("gpu-0"), "what runs already goes on"
        site.live.kubectl("delete", "pod", "stranded", "-n", "slurm")
    finally:
        site.halt()
        site.kubelets = there
        site.begin()


def test_a_deleted_node_takes_its_pods_with_it(site: Site) -> None:
    site.create(scribe("orphan", grace=20, saving=0))
    site.await_ready("orphan")
    process = site.process("orphan")
    site.live.plane.remove_nodes(site.live.cluster.id, [SPARE], drain=False)
    until(lambda: not process.is_running())
    assert records(site, "orphan") == ["up"]
    site.live.plane.apply_nodes(site.live.cluster.id, [h100(3)])


def test_a_gpu_that_falls_off_the_bus_is_gone_from_pods_that_run_and_the_kernel_says_so(site: Site) -> None:
    assert "nvidia3" in site.run("gpu-0", "slurmd", "ls", "/dev")
    assert site.run("gpu-0", "slurmd", "dmesg") == ""
    site.live.kubectl("annotate", "node", h100(1).name, f"{GPU_FAULTS}=[[79, 3], [48, 5]]")
    until(lambda: "nvidia3" not in site.run("gpu-0", "slurmd", "ls", "/dev"))
    said = site.run("gpu-0", "slurmd", "dmesg")
    assert "NVRM: Xid (PCI:0000:04:00): 79, " in said
    assert "NVRM: Xid (PCI:0000:06:00): 48, " in said
    drivers = site.run("gpu-0", "slurmd", "ls", "/proc/driver/nvidia/gpus").split()
    assert len(drivers) == 7
    assert "nvidia5" in site.run("gpu-0", "slurmd", "ls", "/dev"), "not every error takes the GPU away"
    assert site.run("gpu-1", "slurmd", "dmesg") == ""
    assert "nvidia3" in site.run("gpu-1", "slurmd", "ls", "/dev")
    # As it was, for others who use the site.
    site.live.kubectl("annotate", "node", h100(1).name, f"{GPU_FAULTS}-")
    site.run("gpu-0", "slurmd", "touch", "/dev/nvidia3")
