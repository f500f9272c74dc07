"""Slinky's parts are ready: the webhook answers, and what the operator makes is there; and what is said otherwise."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest

from crusoe.provider import cluster_api, cluster_events
from crusoe.provider.faults import PartlyDoneError
from crusoe.provider.slinky_objects import gap
from crusoe.provider.slurm_ready import SlurmReady
from crusoe.provider.values import Values
from tests.unit.provider.slinky_cluster import Json, SlinkyCluster
from tests.unit.provider.support import Bench, values

CONTROL = {
    "Controller": ("statefulsets", "slurm-controller"),
    "Accounting": ("statefulsets", "slurm-accounting"),
    "RestApi": ("deployments", "slurm-restapi"),
    "LoginSet": ("deployments", "slurm"),
}


def one(kind: str, name: str = "slurm", namespace: str = "slurm") -> dict[str, str]:
    return {"kind": kind, "namespace": namespace, "name": name}


HOOK = one("Webhook", "slurm-operator-webhook", "slinky")


class Cloud(Bench):
    """A bench with a CMK cluster `c`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.cluster = SlinkyCluster()
        self.api.objects["kubernetes/clusters"] = {"c": {"id": "c", "name": "c"}}
        monkeypatch.setattr(cluster_api, "ClusterApi", self._open)

    def _open(self, _client: object, cluster_id: str) -> SlinkyCluster:
        assert cluster_id == "c"
        return self.cluster

    def create(self, *rows: dict[str, str], **inputs: Any) -> Values:
        object_id, state = SlurmReady().create(self.run("ready"), values(clusterId="c", waitFor=[*rows], **inputs))
        assert object_id == "c"
        return state

    def failure(self, *rows: dict[str, str], **inputs: Any) -> str:
        with pytest.raises(PartlyDoneError) as error:
            self.create(*rows, **inputs)
        assert error.value.object_id == "c"
        return str(error.value)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    return Cloud(monkeypatch)


class TestChildren:
    @pytest.mark.parametrize("kind", CONTROL)
    def test_what_is_made_of_an_object_is_waited_for(self, cloud: Cloud, kind: str) -> None:
        plural, name = CONTROL[kind]
        told = cloud.failure(one(kind), waitSeconds=5)
        assert told.startswith(f"Waiting for Slurm's parts in cluster c: Not ready after 5 s: {kind} slurm/slurm: ")
        assert f"{name}: it does not exist" in told

        def come_up() -> None:
            cloud.cluster.ready(plural, name, 2)

        cloud.clock.on_sleep = come_up
        state = cloud.create(one(kind))
        assert state == {"clusterId": "c", "waitFor": [one(kind)]}

    def test_only_what_is_asked_for(self, cloud: Cloud) -> None:
        cloud.cluster.ready("statefulsets", "mariadb")
        cloud.create(one("StatefulSet", "mariadb"))
        cloud.create()
        assert [path for _, path, _ in cloud.cluster.asked] == ["/apis/apps/v1/namespaces/slurm/statefulsets/mariadb"]

    def test_all_that_lack_are_told_with_their_warnings(self, cloud: Cloud) -> None:
        cloud.cluster.put("statefulsets", "slurm-controller", {"replicas": 1}, observedGeneration=1)
        cloud.cluster.ready("deployments", "slurm-restapi")
        cloud.cluster.warn("Pod", "slurm-controller-0", "FailedMount", 'secret "slurm-auth-slurm" not found', 5)
        told = cloud.failure(one("Controller"), one("RestApi"), one("Accounting"), waitSeconds=5)
        assert "Controller slurm/slurm: StatefulSet slurm-controller: 0 of 1 pods are ready; Accounting" in told
        assert "RestApi" not in told
        assert 'FailedMount: secret "slurm-auth-slurm" not found. Check that the Secrets' in told

    def test_the_wait_is_bounded(self, cloud: Cloud) -> None:
        cloud.failure(one("Controller"), waitSeconds=60)
        assert 55 < sum(cloud.clock.waits) <= 60

    def test_a_cancel_says_what_lacks(self, cloud: Cloud) -> None:
        cloud.clock.on_sleep = cloud.session.cancel.set
        told = cloud.failure(one("RestApi"))
        assert "cancelled while Slurm's parts were waited for (RestApi slurm/slurm: Deployment slurm-restapi" in told


class TestWebhook:
    @pytest.fixture(autouse=True)
    def deployment(self, cloud: Cloud) -> None:
        cloud.cluster.ready("deployments", "slurm-operator-webhook", 2, "slinky")

    def test_it_is_tried_out_without_making_anything(self, cloud: Cloud) -> None:
        cloud.create(HOOK)
        method, path, _ = cloud.cluster.asked[-1]
        assert (method, path) == ("POST", "/apis/slinky.slurm.net/v1beta1/namespaces/slurm/nodesets?dryRun=All")

    @pytest.mark.parametrize(
        ("state", "told"),
        [("absent", "no webhook refuses a wrong NodeSet in the namespace slurm"), ("down", "connection refused")],
    )
    def test_an_available_deployment_is_no_proof(self, cloud: Cloud, state: str, told: str) -> None:
        cloud.cluster.webhook = state
        assert told in cloud.failure(HOOK, waitSeconds=5)

        def come_up() -> None:
            cloud.cluster.webhook = "answers"

        cloud.clock.on_sleep = come_up
        cloud.create(HOOK)

    def test_without_a_namespace_it_can_not_answer(self, cloud: Cloud) -> None:
        cloud.cluster.refusals = {"other/nodesets": (404, 'namespaces "other" not found')}
        assert 'can\'t be tried out: namespaces "other" not found' in cloud.failure(
            HOOK, waitSeconds=5, probeNamespace="other"
        )

    def test_before_its_deployment_is_there_nothing_is_sent(self, cloud: Cloud) -> None:
        cloud.cluster.objects.clear()
        assert "Deployment slurm-operator-webhook: it does not exist" in cloud.failure(HOOK, waitSeconds=5)
        assert "POST" not in {method for method, _, _ in cloud.cluster.asked}


class TestRelease:
    RELEASE: ClassVar[dict[str, str]] = one("Release", "slurm-operator", "slinky")

    def there(self, cloud: Cloud, name: str, release: str, ready: int) -> None:
        made = cloud.cluster.ready("deployments", name, 2, "slinky")
        made["metadata"]["annotations"] = {"meta.helm.sh/release-name": release}
        made["status"]["availableReplicas"] = ready

    def test_all_of_its_deployments_and_no_others_are_waited_for(self, cloud: Cloud) -> None:
        assert "Release slinky/slurm-operator: it has no Deployment" in cloud.failure(self.RELEASE, waitSeconds=5)
        self.there(cloud, "slurm-operator", "slurm-operator", 2)
        self.there(cloud, "slurm-operator-webhook", "slurm-operator", 1)
        self.there(cloud, "other", "other", 0)
        cloud.cluster.warn(
            "Pod", "slurm-operator-webhook-x", "FailedScheduling", "0/4 nodes are available", 5, "slinky"
        )
        told = cloud.failure(self.RELEASE, waitSeconds=5)
        lacking = "Deployment slurm-operator-webhook: 1 of 2 pods are ready."
        assert told.startswith(
            f"Waiting for Slurm's parts in cluster c: Not ready after 5 s: Release slinky/slurm-operator: {lacking}"
        )
        assert "0/4 nodes are available. Add or free nodes that fit" in told
        cloud.clock.on_sleep = lambda: self.there(cloud, "slurm-operator-webhook", "slurm-operator", 2)
        cloud.create(self.RELEASE)


class TestLife:
    def test_kinds_are_checked(self, cloud: Cloud) -> None:
        inputs = values(clusterId="c", waitFor=[one("Controler"), {"kind": "RestApi", "name": "x"}])
        found = {failure.path: failure.reason for failure in SlurmReady().check(cloud.session, {}, inputs)}
        assert "Did you mean 'Controller'?" in found["waitFor[0].kind"]
        assert "waitFor[1].namespace" in found

    def test_a_change_waits_again_and_only_the_cluster_replaces(self, cloud: Cloud) -> None:
        kind, old = SlurmReady(), values(clusterId="c", waitFor=[one("Controller")])
        state = kind.state_of(old, {})
        changes = values(waitFor=[], triggers={"a": "b"}, probeNamespace="x")
        for name, value in changes.items():
            (found,) = kind.differences(old, state, values(**{**old, name: value}))
            assert not found.replaces, name
        (found,) = kind.differences(old, state, {**old, "clusterId": "d"})
        assert found.replaces
        assert kind.differences(old, state, {**old, "waitSeconds": 5, "probeNamespace": "slurm"}) == []
        cloud.cluster.ready("statefulsets", "slurm-controller")
        assert kind.update(cloud.run(), "c", state, {**old, "triggers": {"a": "b"}}, [])["triggers"] == {"a": "b"}
        assert cloud.cluster.asked

    def test_it_is_gone_with_its_cluster_and_can_be_imported(self, cloud: Cloud) -> None:
        kind, inputs = SlurmReady(), values(clusterId="c", waitFor=[one("Controller")])
        found = kind.read(cloud.run(), "c", inputs, {**inputs})
        assert found is not None
        assert (found.inputs, found.state) == (inputs, inputs)
        assert kind.read(cloud.run(), "other", inputs, {**inputs}) is None
        imported = kind.read(cloud.run(), "c", {}, {})
        assert imported is not None
        assert kind.differences(imported.inputs, imported.state, {**inputs, "triggers": {"a": "b"}}) == []
        kind.delete(cloud.run(), "c", {**inputs})

    def test_an_api_that_refuses_is_told_at_once(self, cloud: Cloud) -> None:
        cloud.cluster.refusals = {"statefulsets": (403, "not yours")}
        assert "refused to show StatefulSet slurm/slurm-controller: not yours" in cloud.failure(one("Controller"))
        assert not cloud.clock.waits


class TestGap:
    def made(self, generation: int = 2, **status: int) -> dict[str, Any]:
        return {"metadata": {"generation": generation}, "spec": {"replicas": 2}, "status": status}

    def test_of_a_deployment(self) -> None:
        assert gap("Deployment", self.made(observedGeneration=1, availableReplicas=2, updatedReplicas=2)) is not None
        assert gap("Deployment", self.made(observedGeneration=2, availableReplicas=2, updatedReplicas=2)) is None
        old_pods = self.made(observedGeneration=2, availableReplicas=2, updatedReplicas=1)
        assert gap("Deployment", old_pods) == "1 of 2 pods are ready"
        assert gap("Deployment", None) == "it does not exist"
        assert gap("Deployment", {}) is not None

    def test_of_a_stateful_set(self) -> None:
        assert gap("StatefulSet", self.made(observedGeneration=2, readyReplicas=2)) is None
        assert gap("StatefulSet", self.made(observedGeneration=2, availableReplicas=2)) == "0 of 2 pods are ready"
        none: dict[str, Any] = {"metadata": {"generation": 1}, "spec": {"replicas": 0}, "status": {}}
        assert gap("StatefulSet", none) is not None, "nobody has seen it yet"


class TestEvents:
    def told(self, *events: tuple[str, str, str, str]) -> str:
        cluster = SlinkyCluster()
        for second, event in enumerate(events):
            cluster.warn(*event, second)
        return cluster_events.sentences(cluster.events, ["train"])

    def test_the_newest_three_each_once(self) -> None:
        pods = [("Pod", f"train-{index}", "BackOff", "Back-off restarting failed container") for index in range(4)]
        told = self.told(*pods, ("Pod", "train-3", "BackOff", "again"))
        assert told.startswith("Newest warnings: Pod train-3: BackOff: again; Pod train-2: BackOff: Back-off")
        assert "train-0" not in told
        assert told.endswith("Look at the pod's log.")

    def test_none(self) -> None:
        assert self.told(("Pod", "other-0", "Failed", "x")) == (
            "No warning is recorded about it; see that its operator runs."
        )

    def test_a_long_message_is_cut_and_on_one_line(self) -> None:
        told = self.told(("NodeSet", "train", "Odd", "a\n" + "b" * 500))
        assert "a bbb" in told
        assert len(told) < 300

    def test_events_of_either_form_have_a_time(self) -> None:
        new: Json = {"reason": "B", "eventTime": "2026-11-29T18:00:09.000000Z", "involvedObject": {"name": "train"}}
        old: Json = {"reason": "A", "lastTimestamp": "2026-11-29T18:00:10Z", "involvedObject": {"name": "train"}}
        bare: Json = {"reason": "C", "involvedObject": {"name": "train"}}
        told = cluster_events.sentences([bare, new, old], ["train"])
        assert told.index("A:") < told.index("B:") < told.index("C:")

    def test_events_that_can_not_be_read_are_no_error(self) -> None:
        cluster = SlinkyCluster(refusals={"events": (403, "no")})
        assert cluster_events.told(cast("Any", cluster), "slurm", ["train"]) == "Its events can't be read."
