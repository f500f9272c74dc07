"""The workers of a NodeSet: waited for until Slurm knows them, drained before they go, and what is said otherwise."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crusoe.client import NotFound
from crusoe.provider import cluster_api, slurm_drain
from crusoe.provider.existing import JsonObject
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.slurm_workers import SlurmWorkers
from crusoe.provider.values import Values
from tests.unit.provider.slinky_cluster import SlinkyCluster
from tests.unit.provider.support import Bench, values

INPUTS = values(clusterId="c", nodeSet="train", replicas=2)
ID = "c/slurm/train"


class Cloud(Bench):
    """A bench with a CMK cluster `c`; the operator works while the clock runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: SlinkyCluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.unreachable = False
        self.api.objects["kubernetes/clusters"] = {"c": {"id": "c", "name": "c"}}
        self.clock.on_sleep = cluster.step
        cluster.ready("statefulsets", "slurm-controller")
        monkeypatch.setattr(cluster_api, "ClusterApi", self._open)

    def _open(self, _client: object, cluster_id: str) -> SlinkyCluster:
        if cluster_id not in self.api.objects["kubernetes/clusters"]:
            raise NotFound(404, "not_found", "no such cluster")
        if self.unreachable:
            raise RefusalError("The cluster's API at https://c can't be reached (no answer); run this where it can.")
        return self.cluster

    def create(self, **inputs: Any) -> Values:
        object_id, state = SlurmWorkers().create(self.run("workers", 100_000), {**INPUTS, **inputs})
        assert object_id == ID
        return state

    def failure(self, **inputs: Any) -> PartlyDoneError:
        with pytest.raises(PartlyDoneError) as error:
            self.create(**inputs)
        assert error.value.object_id == ID
        return error.value

    def delete(self, **state: Any) -> None:
        SlurmWorkers().delete(self.run("workers", 100_000), ID, {**INPUTS, **state})

    @property
    def waited(self) -> float:
        return sum(self.clock.waits)


@pytest.fixture
def cluster() -> SlinkyCluster:
    return SlinkyCluster()


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, cluster: SlinkyCluster) -> Cloud:
    return Cloud(monkeypatch, cluster)


def spec(cluster: SlinkyCluster) -> dict[str, Any]:
    return cluster.objects["slurm/nodesets/train"]["spec"]


class TestWait:
    def test_until_they_are_ready_and_known_to_slurm(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        cluster.unregistered = {"train-1"}
        step, steps = cluster.step, list[int]()

        def register() -> None:
            steps.append(1)
            if len(steps) == 6:
                cluster.unregistered.clear()
            step()

        cloud.clock.on_sleep = register
        state = cloud.create()
        assert len(steps) >= 6, "pods that are ready are not yet nodes of Slurm"
        assert (state["readyWorkers"], state["missingWorkers"]) == (2, 0)
        assert any("2 of 2 ready, 1 known to Slurm" in told for told in cloud.engine.progressed)
        assert {method for method, _, _ in cluster.asked} == {"GET"}, "a wait changes nothing"

    def test_a_status_of_before_the_change_does_not_count(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        one = cluster.node_set(running=2)
        one["metadata"]["generation"] = 2
        cluster.operator = False
        assert "has not taken up the NodeSet's newest form" in str(cloud.failure(waitSeconds=20))
        assert 15 < cloud.waited <= 20

    def test_without_a_number_it_is_the_nodesets(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 3
        cluster.node_set(mode="DaemonSet")
        assert cloud.create(replicas=None)["readyWorkers"] == 3

    def test_none_is_a_number_too(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(replicas=0)
        assert cloud.create(replicas=0)["readyWorkers"] == 0

    def test_the_controller_has_to_be_ready(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        cluster.put("statefulsets", "slurm-controller", {"replicas": 1}, observedGeneration=1)
        cluster.warn("PersistentVolumeClaim", "statesave-slurm-controller-0", "ProvisioningFailed", "no class 'ssd'")
        told = str(cloud.failure(waitSeconds=5))
        assert "StatefulSet slurm-controller of Controller slurm is not ready: 0 of 1 pods are ready" in told
        assert "ProvisioningFailed: no class 'ssd'. Check that the Secrets" in told

    def test_workers_that_nobody_waits_for_are_not_even_looked_at(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 0
        cluster.node_set()
        state = cloud.create(minReady=0, waitSeconds=0)
        assert (state["readyWorkers"], state["missingWorkers"]) == (0, 0)
        kind, news = SlurmWorkers(), values(**{**INPUTS, "minReady": 0, "waitSeconds": 0, "replicas": 5})
        after = kind.update(cloud.run(), ID, state, news, kind.differences(INPUTS, state, news))
        assert after["replicas"] == 5
        assert not cluster.asked
        assert not cloud.clock.waits
        assert not cloud.engine.warnings

    def test_another_controller(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        assert "StatefulSet other-controller" in str(cloud.failure(controller="other", waitSeconds=1))

    def test_the_newest_warnings_are_told_with_what_helps(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(replicas=2)
        cluster.unregistered = {"train-0", "train-1"}
        cluster.warn("Pod", "other-0", "Failed", "of somebody else", 59)
        cluster.warn("Pod", "train-0", "Failed", 'Failed to pull image "slurmd:x": not found', 3)
        cluster.warn("Pod", "train-0", "Failed", "older", 1)
        cluster.warn("NodeSet", "train", "SyncFailed", "first", 2)
        told = str(cloud.failure(waitSeconds=10))
        assert "2 of 2 workers are ready and 0 are known to Slurm" in told
        assert 'Newest warnings: Pod train-0: Failed: Failed to pull image "slurmd:x": not found; NodeSet' in told
        assert told.endswith("Check the image's name, and that the nodes may pull it.")
        assert "somebody else" not in told
        assert "older" not in told

    def test_slurmrestd_that_is_down_is_named(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        cluster.slurmrestd = False
        told = str(cloud.failure(waitSeconds=10))
        assert "SyncFinalizerFailed" in told
        assert "See that slurmrestd and slurmctld run" in told

    def test_something_else_scales_it(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(replicas=1, running=1)
        assert "2 workers asked for, but the NodeSet wants 1" in str(cloud.failure(waitSeconds=3))

    def test_a_nodeset_that_is_not_there_is_told_at_once(self, cloud: Cloud) -> None:
        assert "There is no NodeSet slurm/train" in str(cloud.failure())
        assert not cloud.clock.waits

    def test_an_api_that_does_not_answer_is_told_at_once(self, cloud: Cloud) -> None:
        cloud.unreachable = True
        assert "can't be reached" in str(cloud.failure())
        assert not cloud.clock.waits

    def test_one_that_fails_for_a_while_is_waited_for(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        step, steps = cluster.step, list[int]()

        def trouble() -> None:
            steps.append(1)
            cluster.refusals = {"nodesets": (500, "etcd is away")} if len(steps) in {2, 3} else {}
            step()

        cloud.clock.on_sleep = trouble
        assert cloud.create()["readyWorkers"] == 2
        assert any("etcd is away" in told for told in cloud.engine.progressed)

    def test_a_cancel_says_how_far_it_came(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        cloud.clock.on_sleep = cloud.session.cancel.set
        assert "waited for (0 of 2 ready, 0 known to Slurm)" in str(cloud.failure())


class TestShortOfNodes:
    def test_it_is_a_warning_with_as_many_as_are_needed(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 1
        cluster.node_set()
        cluster.warn("Pod", "train-1", "FailedScheduling", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
        state = cloud.create(minReady=1)
        assert (state["readyWorkers"], state["missingWorkers"]) == (1, 1)
        (told,) = cloud.engine.warnings
        assert "1 of 2 workers are ready" in told
        assert "FailedScheduling" in told

    def test_those_beyond_enough_are_not_waited_for(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 1
        cluster.node_set()
        state = cloud.create(enough=1)
        assert (state["readyWorkers"], state["missingWorkers"]) == (1, 1)
        assert cloud.engine.warnings == []
        assert cloud.waited < 100

    def test_all_are_needed_unless_said_otherwise(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 1
        cluster.node_set()
        assert "1 of 2 workers are ready" in str(cloud.failure())
        assert 850 < cloud.waited <= 900

    def test_another_reason_stays_an_error(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        cluster.step()
        cluster.step()
        cluster.operator = False
        one = cluster.objects["slurm/nodesets/train"]
        one["status"] |= {"readyReplicas": 1, "slurmIdle": 1}
        assert "1 of 2 workers are ready" in str(cloud.failure(minReady=1))

    def test_no_more_than_there_are(self) -> None:
        (found,) = SlurmWorkers().faults({**INPUTS, "minReady": 3})
        assert found.path == "minReady"


class TestUpdate:
    def test_a_change_waits_again(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        state = cloud.create()
        cluster.objects["slurm/nodesets/train"]["spec"]["replicas"] = 3
        cluster.objects["slurm/nodesets/train"]["metadata"]["generation"] = 2
        kind, news = SlurmWorkers(), values(**{**INPUTS, "replicas": 3})
        changes = kind.differences(INPUTS, state, news)
        assert {one.property: one.replaces for one in changes} == {"replicas": False}
        after = kind.update(cloud.run(), ID, state, news, changes)
        assert after["readyWorkers"] == 3

    def test_fewer_workers_are_not_waited_for_to_go(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.busy = {"train-0", "train-1"}
        cluster.node_set(replicas=1, running=2)
        cloud.create(replicas=1)
        assert "1 worker of NodeSet slurm/train will go when no job runs there" in cloud.engine.warnings[0]

    def test_more_time_to_drain_is_recorded_without_a_wait(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        kind, state = SlurmWorkers(), values(**INPUTS, readyWorkers=2, missingWorkers=0)
        news: Values = {**INPUTS, "drainSeconds": 60}
        after = kind.update(cloud.run(), ID, state, news, kind.differences(INPUTS, state, news))
        assert after["drainSeconds"] == 60
        assert not cluster.asked
        with pytest.raises(PartlyDoneError, match="There is no NodeSet"):
            kind.update(cloud.run(), ID, cloud.failure().state, news, kind.differences(INPUTS, state, news))

    def test_what_replaces_and_what_is_no_change(self) -> None:
        kind = SlurmWorkers()
        state = kind.state_of(INPUTS, {"readyWorkers": 2, "missingWorkers": 0})
        for name in ("clusterId", "nodeSet", "namespace"):
            (found,) = kind.differences(INPUTS, state, {**INPUTS, name: "other"})
            assert found.replaces
        same: Values = {**INPUTS, "namespace": "slurm", "controller": "slurm", "waitSeconds": 5, "drainSeconds": 1800}
        assert kind.differences(INPUTS, state, same) == []


class TestDrain:
    def test_workers_are_drained_and_gone_before_it_ends(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(replicas=3, running=3)
        cluster.busy = {"train-1"}
        step, steps = cluster.step, list[int]()

        def work() -> None:
            steps.append(1)
            if len(steps) == 8:
                cluster.busy.clear()
            step()

        cloud.clock.on_sleep = work
        cloud.delete()
        assert not cluster.pods
        assert len(steps) >= 8
        assert spec(cluster)["replicas"] == 0
        assert any("1 worker left" in told for told in cloud.engine.progressed)

    def test_busy_ones_are_named_with_the_way_out(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        cluster.busy = {"train-1"}
        with pytest.raises(RefusalError) as error:
            cloud.delete(drainSeconds=120)
        told = str(error.value)
        assert "NodeSet slurm/train still has 1 worker after 120 s; jobs run on train-1, which take no new ones" in told
        assert "`scancel --nodelist=train-1`, or give drainSeconds more time" in told
        assert "`kubectl --namespace slurm scale nodeset/train --replicas=...`" in told
        assert 115 < cloud.waited <= 120
        assert spec(cluster)["replicas"] == 0

    def test_no_more_than_five_are_named(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(replicas=7, running=7)
        cluster.busy = set(cluster.pods)
        with pytest.raises(RefusalError, match=r"train-0,train-1,train-2,train-3,train-4 and 2 more"):
            cloud.delete(drainSeconds=5)

    def test_one_worker_per_node_is_drained_too(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.nodes = 2
        cluster.node_set(mode="DaemonSet", running=2)
        cloud.delete()
        assert not cluster.pods

    def test_an_operator_that_does_not_notice_is_told_soon(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        cluster.slurmrestd = False
        with pytest.raises(RefusalError, match="does not take up that they are to go") as error:
            cloud.delete()
        assert "SyncFinalizerFailed" in str(error.value)
        assert slurm_drain.NOTICE_SECONDS <= cloud.waited < slurm_drain.NOTICE_SECONDS + 10

    def test_one_that_never_had_an_operator_goes_at_once(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set()
        cluster.operator = False
        cloud.delete()
        assert not cloud.clock.waits

    @pytest.mark.parametrize("state", ["gone", "going"])
    def test_a_nodeset_that_is_gone_or_going_is_done(self, cloud: Cloud, cluster: SlinkyCluster, state: str) -> None:
        if state == "going":
            cluster.node_set(running=2)["metadata"]["deletionTimestamp"] = "2026-11-29T18:00:00Z"
        cloud.delete()
        assert "PATCH" not in {method for method, _, _ in cluster.asked}

    def test_a_cluster_that_is_gone_is_done(self, cloud: Cloud) -> None:
        cloud.session.cluster("c")
        del cloud.api.objects["kubernetes/clusters"]["c"]
        cloud.delete()
        assert cloud.session.cluster("other") is None
        SlurmWorkers().delete(cloud.run(), "other/slurm/train", INPUTS)

    def test_an_api_that_does_not_answer_is_told(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.refusals = {"nodesets": (503, "no leader")}
        cluster.node_set(running=2)
        with pytest.raises(RefusalError, match=r"no leader.*was not drained.*pulumi state delete 'urn:pulumi"):
            cloud.delete()
        assert not cloud.clock.waits

    def test_a_webhook_that_is_down_is_told(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        ask = cluster.ask

        def refuse(method: str, path: str, body: Any = None, kind: str = "") -> tuple[int, JsonObject]:
            return (500, {"message": "failed calling webhook"}) if method == "PATCH" else ask(method, path, body, kind)

        cast("Any", cluster).ask = refuse
        with pytest.raises(RefusalError, match="can't be scaled to 0: failed calling webhook"):
            cloud.delete()

    def test_a_cancel_says_how_far_it_came(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        cloud.clock.on_sleep = cloud.session.cancel.set
        with pytest.raises(RefusalError, match=r"is being drained, 2 workers left. The run was cancelled"):
            cloud.delete()


def test_workers_that_nobody_waits_for_are_drained_all_the_same(cloud: Cloud, cluster: SlinkyCluster) -> None:
    cluster.node_set(running=1)
    cloud.delete(minReady=0, waitSeconds=0)
    assert spec(cluster)["replicas"] == 0


class TestRead:
    def test_a_refresh_keeps_what_is_recorded(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=1)
        state = values(**INPUTS, readyWorkers=2, missingWorkers=0)
        found = SlurmWorkers().read(cloud.run(), ID, INPUTS, state)
        assert found is not None
        assert (found.inputs, found.state) == (INPUTS, state), "a worker that is being repaired is no drift"

    def test_it_is_gone_with_its_nodeset_and_its_cluster(self, cloud: Cloud) -> None:
        assert SlurmWorkers().read(cloud.run(), ID, INPUTS, {**INPUTS}) is None
        assert SlurmWorkers().read(cloud.run(), "other/slurm/train", INPUTS, {**INPUTS}) is None

    def test_a_silent_api_is_a_warning(self, cloud: Cloud) -> None:
        cloud.unreachable = True
        found = SlurmWorkers().read(cloud.run(), ID, INPUTS, {**INPUTS})
        assert found is not None
        assert "not known" in cloud.engine.warnings[0]
        with pytest.raises(RefusalError):
            SlurmWorkers().read(cloud.run(), ID, {}, {})

    def test_an_import_has_an_empty_preview(self, cloud: Cloud, cluster: SlinkyCluster) -> None:
        cluster.node_set(running=2)
        kind = SlurmWorkers()
        found = kind.read(cloud.run(), ID, {}, {})
        assert found is not None
        assert found.inputs == {"clusterId": "c", "nodeSet": "train"}
        assert found.state["readyWorkers"] == 2
        program: Values = {**INPUTS, "controller": "x", "drainSeconds": 5, "triggers": {"a": "b"}}
        assert kind.differences(found.inputs, found.state, program) == []

    def test_an_id_of_another_form_is_refused(self, cloud: Cloud) -> None:
        with pytest.raises(RefusalError, match="<cluster>/<namespace>/<nodeset>"):
            SlurmWorkers().read(cloud.run(), "c/train", {}, {})
