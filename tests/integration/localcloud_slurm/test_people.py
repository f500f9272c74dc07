"""The platform's people in pods that a kubelet runs: on login nodes, on workers, and in the jobs between them."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from components.settings import parse
from components.slurm import directory
from components.slurm.people import PeopleSettings
from tests.integration.localcloud_kubernetes.support import until
from tests.integration.localcloud_slurm.site import Json, Site, worker
from tests.integration.localcloud_slurm.test_accounting_and_login import login
from tests.unit.localcloud_kubernetes.support import h100

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExample somebody"
ADA = {"uid": 10001, "keys": [KEY], "groups": ["vision"]}


def people(**users: Json) -> Json:
    settings = parse(PeopleSettings, {"users": users, "groups": {"vision": {"gid": 50001}}}, "people")
    metadata = {"name": directory.CONFIG_MAP, "namespace": "slurm"}
    data = directory.files(settings, most_processes=2000)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def with_people(pod: Json, role: str, name: str) -> Json:
    """A pod with the hook and the mount that the platform gives it, under another name."""
    (container,) = pod["spec"]["containers"]
    container["lifecycle"] = {"postStart": directory.post_start(role, homes=True)}
    container["volumeMounts"].append(directory.mount())
    pod["spec"]["volumes"].append(directory.volume())
    pod["metadata"]["name"] = name
    return pod


@pytest.fixture
def tidy(site: Site) -> Generator[None]:
    """The site's other tests find the workers that they know."""
    yield
    site.live.kubectl("delete", "pod", "login-people", "people-0", "-n", "slurm", "--ignore-not-found")
    site.slurm("scontrol", "delete", "nodename=people-0")


@pytest.mark.usefixtures("tidy")
def test_a_job_runs_as_its_user_everywhere_and_somebody_new_is_known_without_a_restart(site: Site) -> None:
    site.create(people(ada=ADA))
    site.create(with_people(login(), "login", "login-people"))
    site.create(with_people(worker("people-0", h100(3).name), "worker", "people-0"))
    site.await_ready("slurm-controller-0", "login-people", "people-0")
    until(lambda: "no such user" not in site.run("login-people", "login", "id", "ada", ok=False), 30)
    until(lambda: "no such user" not in site.run("people-0", "slurmd", "id", "ada", ok=False), 30)
    as_ada = ["setpriv", "--reuid=10001", "--regid=10001", "--init-groups", "env", "HOME=/home/ada"]
    asked = ["srun", "--chdir=/home/ada", "--mem=1G", "-w", "people-0", "bash", "-c", "id; touch mine; stat -c %U mine"]
    said = site.run("login-people", "login", *as_ada, *asked)
    assert "uid=10001(ada) gid=10001(ada) groups=10001(ada),50001(vision)" in said
    assert said.split()[-1] == "ada"

    def running() -> list[tuple[str, int]]:
        pods = [site.pod(name) for name in ("login-people", "people-0")]
        return [(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods]

    before = running()
    data = {"data": people(ada=ADA, bob={"uid": 10002, "keys": [KEY]})["data"]}
    site.live.kubectl("patch", "configmap", directory.CONFIG_MAP, "-n", "slurm", "--type=merge", "-p", json.dumps(data))
    for pod, container in (("login-people", "login"), ("people-0", "slurmd")):
        until(lambda pod=pod, container=container: "(bob)" in site.run(pod, container, "id", "bob", ok=False), 30)
    assert running() == before
