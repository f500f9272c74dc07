"""What runs in the cluster fails under Slurm's own kinds: API server, webhook, operator and the daemons.

The cells of these kinds are few and each its own, so they are listed; that they are told with the name of what is down,
recorded, and finished by the next run, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.provider.engine import FailedError, Plugin, Resource
from tests.provider.faults import messages
from tests.provider.faults.engine import one_run
from tests.provider.slurm_api import ENVIRONMENT, PROJECT, SlurmCloud, slurm_cloud
from tests.provider.test_slurm import LAB

PARTS = {
    "slurmctld": ("Controller", "statefulsets", "slurm-controller"),
    "slurmrestd": ("RestApi", "deployments", "slurm-restapi"),
    "slurmdbd": ("Accounting", "statefulsets", "slurm-accounting"),
}
SLINKY = [
    {"kind": "Webhook", "namespace": "slinky", "name": "slurm-operator-webhook"},
    {"kind": "Deployment", "namespace": "slinky", "name": "slurm-operator"},
]


@dataclass(frozen=True)
class Fault:
    """What is down, and how it comes back; `says` are words that name it."""

    title: str
    down: Callable[[SlurmCloud], object]
    back: Callable[[SlurmCloud], object]
    says: str


Deeds = tuple[Callable[[SlurmCloud], object], Callable[[SlurmCloud], object]]


def _setting(name: str, down: object, back: object) -> Deeds:
    return lambda cloud: setattr(cloud.cluster, name, down), lambda cloud: setattr(cloud.cluster, name, back)


def _down(plural: str, name: str, namespace: str = "slurm") -> Deeds:
    def down(cloud: SlurmCloud) -> None:
        cloud.cluster.put(plural, name, {"replicas": 1}, namespace, observedGeneration=1, replicas=1)

    return down, lambda cloud: cloud.cluster.ready(plural, name, namespace=namespace)


def _unreachable(cloud: SlurmCloud) -> None:
    cloud.api.credentials.setdefault("kept", cloud.api.credentials["cluster_address"])
    cloud.api.credentials["cluster_address"] = "https://127.0.0.1:1"


def _reachable(cloud: SlurmCloud) -> None:
    cloud.api.credentials["cluster_address"] = cloud.api.credentials["kept"]


def _broken(cloud: SlurmCloud) -> None:
    cloud.cluster.refusals["/"] = (500, "etcd is gone")


COMMON = (
    Fault("API server dead", _unreachable, _reachable, "can't be reached"),
    Fault("API server answers 500", _broken, lambda cloud: cloud.cluster.refusals.clear(), "etcd is gone"),
)
READY = (
    *COMMON,
    Fault("webhook down", *_setting("webhook", "down", "answers"), "connection refused"),
    Fault("operator down", *_down("deployments", "slurm-operator", "slinky"), "slurm-operator"),
    *(Fault(f"{daemon} down", *_down(*PARTS[daemon][1:]), PARTS[daemon][2]) for daemon in PARTS),
)
WORKERS = (
    *COMMON,
    Fault("operator down", *_setting("operator", False, True), "train"),
    Fault("slurmrestd down", *_setting("slurmrestd", False, True), "connection refused"),
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Generator[SlurmCloud]:
    with slurm_cloud(tmp_path_factory.mktemp("slurm")) as running:
        for _, plural, name in PARTS.values():
            running.cluster.ready(plural, name)
        for name in ("slurm-operator-webhook", "slurm-operator"):
            running.cluster.ready("deployments", name, namespace="slinky")
        yield running


@pytest.fixture
def fault(request: pytest.FixtureRequest, cloud: SlurmCloud) -> Generator[Fault]:
    """A fault that is over when the test is."""
    found: Fault = request.param
    yield found
    found.back(cloud)


@pytest.fixture(scope="module")
def cluster_id(cloud: SlurmCloud) -> str:
    with run(cloud) as plugin:
        lab = plugin.resource("SlurmCluster", "lab")
        lab.up(LAB)
        return str(lab.outputs["kubernetesClusterId"])


def run(cloud: SlurmCloud) -> Any:
    """One run of the provider."""
    return one_run(cloud.endpoint, ENVIRONMENT, PROJECT)


def told(work: Callable[[], object], about: str, says: str) -> FailedError:
    """How a run fails whose message is as it has to be."""
    with pytest.raises(FailedError) as error:
        work()
    wrong = messages.faults_of(error.value.message, about=(about,), said=says)
    assert not wrong, f"the message {'; '.join(wrong)}: {error.value.message}"
    return error.value


def fresh(resource: Resource, plugin: Plugin) -> Resource:
    resource.plugin = plugin
    return resource


@pytest.mark.parametrize("fault", READY, ids=lambda fault: fault.title, indirect=True)
def test_what_waits_for_slurms_parts(cloud: SlurmCloud, cluster_id: str, fault: Fault) -> None:
    parts = [*SLINKY, *({"kind": kind, "namespace": "slurm", "name": "slurm"} for kind, _, _ in PARTS.values())]
    inputs = {"clusterId": cluster_id, "waitFor": parts, "waitSeconds": 5}
    with run(cloud) as plugin:
        ready = plugin.resource("SlurmReady", "ready")
        fault.down(cloud)
        assert told(lambda: ready.up(inputs), cluster_id, fault.says).partial is not None
    fault.back(cloud)
    with run(cloud) as plugin:
        assert fresh(ready, plugin).up(inputs) == "update"
        assert ready.preview(inputs)[:2] == ("same", {})
        fault.down(cloud)
        assert told(lambda: ready.up({**inputs, "triggers": {"a": "b"}}), cluster_id, fault.says).partial is not None
        ready.destroy()


@pytest.mark.parametrize("fault", WORKERS, ids=lambda fault: fault.title, indirect=True)
def test_what_waits_for_workers_and_drains_them(cloud: SlurmCloud, cluster_id: str, fault: Fault) -> None:
    cloud.cluster.node_set("train", 2)
    inputs = {"clusterId": cluster_id, "nodeSet": "train", "replicas": 2, "waitSeconds": 5, "drainSeconds": 5}
    with run(cloud) as plugin:
        workers = plugin.resource("SlurmWorkers", "train")
        fault.down(cloud)
        assert told(lambda: workers.up(inputs), "train", fault.says).partial is not None
    fault.back(cloud)
    with run(cloud) as plugin:
        assert fresh(workers, plugin).up(inputs) == "update"
        assert workers.outputs["readyWorkers"] == 2
        assert workers.preview(inputs)[:2] == ("same", {})
    fault.down(cloud)
    with run(cloud) as plugin:
        told(fresh(workers, plugin).destroy, "train", fault.says)
    fault.back(cloud)
    with run(cloud) as plugin:
        fresh(workers, plugin).destroy()
    assert not cloud.cluster.pods
