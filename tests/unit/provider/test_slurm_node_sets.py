"""Node sets of Managed Slurm: the count asked for is the program's, the API's is the ready one and never drift."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.slurm_node_sets import SlurmNodeSet
from crusoe.provider.values import UNKNOWN, Values
from tests.unit.provider.support import Bench, FakeApi, always, answer, refusal, values

CLUSTER, SETS = "slurm-1", "slurm/slurm-1/nodesets"
IB, SLICE, WHOLE = "h100-80gb-sxm-ib.8x", "a100-80gb.1x", "a100-80gb.8x"
INPUTS = values(slurmClusterId=CLUSTER, name="train", type=WHOLE, count=3)
ISSUE = {"code": "vm_failed", "message": "one VM does not start"}


class Cloud(Bench):
    """A bench with a Slurm cluster whose node sets get one ready node more with each pause, up to `most`."""

    def __init__(self, most: int = 99, home: str | None = "10Ti", state: str = "RUNNING") -> None:
        super().__init__()
        self.most, self.rest = most, state
        self.wanted: dict[str, int] = {}
        cluster: dict[str, Any] = {"id": CLUSTER, "name": "lab", "location": "here", "state": "RUNNING"}
        if home is not None:
            cluster["home_volume_size"] = home
        self.api.objects["slurm/clusters"] = {CLUSTER: cluster}
        self.api.answers["compute/vms/types"] = {"items": [{"product_name": name} for name in (IB, SLICE, WHOLE)]}
        row = {"location": "here", "type": WHOLE, "quantity": 1, "num_slices": 8, "quota_type": "a100"}
        self.api.answers["/capacities"] = {"items": [row]}
        self.api.answers["quotas"] = {"items": [{"name": "a100", "max": 80, "used": 56, "available": 24}]}
        self.api.fault("POST", f"{SETS}$", *[self._asked] * 5)
        self.api.fault("PATCH", SETS, *[self._asked] * 5)
        self.clock.on_sleep = self._step

    def _asked(self, api: FakeApi, request: httpx.Request, work: Any) -> httpx.Response:
        sent = api.requests[-1][2] or {}
        before = {key: dict(fields) for key, fields in api.objects.get(SETS, {}).items()}
        made = work()
        for object_id, fields in api.objects[SETS].items():
            if request.method == "POST" and object_id in before:
                continue
            self.wanted[object_id] = sent["count"]
            # The API tells ready nodes, never the number asked for.
            fields["count"] = int(before.get(object_id, {}).get("count", 0))
            fields["state"] = "UPDATING"
        return made

    def _step(self) -> None:
        for object_id, fields in self.api.objects.get(SETS, {}).items():
            target = min(self.wanted.get(object_id, 0), self.most)
            fields["count"] += (target > fields["count"]) - (target < fields["count"])
            if fields["count"] == target:
                fields |= {"state": self.rest, "issues": [ISSUE] if target < self.wanted[object_id] else []}

    @property
    def fields(self) -> dict[str, Any]:
        """The only node set."""
        (found,) = self.api.objects[SETS].values()
        return found

    def create(self, inputs: Values = INPUTS) -> tuple[str, Values]:
        return SlurmNodeSet().create(self.run("train", 3600), inputs)

    def update(self, object_id: str, old: Values, state: Values, news: Values) -> Values:
        kind = SlurmNodeSet()
        changes = [*kind.differences(old, state, news), *kind.upkeep(state)]
        return kind.update(self.run("train", 3600), object_id, state, news, changes)


def faults(cloud: Cloud, **changes: Any) -> dict[str, str]:
    found = SlurmNodeSet().check(cloud.session, {}, {**INPUTS, **changes})
    return {one.path: one.reason for one in found}


class TestCheck:
    def test_rules(self) -> None:
        assert faults(Cloud()) == {}
        found = faults(Cloud(), name="login", count=2, minCount=3)
        assert set(found) == {"name", "minCount"}
        assert "is required" in faults(Cloud(), count=None)["count"]

    def test_a_fabric_needs_a_partition(self) -> None:
        assert "needs a partition" in faults(Cloud(), type=IB)["transportPartitionId"]
        assert faults(Cloud(), type=IB, transportPartitionId="p") == {}
        assert faults(Cloud(), type=IB, transportPartitionId=UNKNOWN) == {}
        assert "has no InfiniBand" in faults(Cloud(), transportPartitionId="p")["transportPartitionId"]

    @pytest.mark.parametrize("home", ["10Ti", None])
    def test_slices_can_not_mount_home(self, home: str | None) -> None:
        assert "can't mount the shared /home" in faults(Cloud(home=home), type=SLICE)["type"]

    def test_slices_are_fine_without_one(self) -> None:
        assert faults(Cloud(home=""), type=SLICE) == {}

    def test_host_names_hold_the_clusters_name_too(self) -> None:
        assert "longer than the 63 of a host name" in faults(Cloud(), name="n" * 60)["name"]

    def test_an_unknown_type_is_named(self) -> None:
        assert "Did you mean" in faults(Cloud(), type="a100-80gb-8x")["type"]

    def test_without_news_nothing_is_asked(self) -> None:
        cloud = Cloud()
        SlurmNodeSet().check(cloud.session, INPUTS, INPUTS)
        assert not cloud.api.requests

    def test_before_the_cluster_is_known_the_create_refuses(self) -> None:
        cloud = Cloud()
        assert faults(cloud, slurmClusterId=UNKNOWN, type=SLICE) == {}
        with pytest.raises(RefusalError, match="can't mount the shared /home"):
            cloud.create({**INPUTS, "type": SLICE})
        assert not cloud.api.sent("POST")


class TestCreate:
    def test_the_id_holds_the_cluster_and_the_count_is_the_programs(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        assert object_id == f"{CLUSTER}/{cloud.fields['id']}"
        assert cloud.api.sent("POST", SETS) == [{"name": "train", "type": WHOLE, "count": 3}]
        assert (state["count"], state["readyCount"], state["missingNodes"]) == (3, 3, 0)
        assert any("2 of 3 nodes of Slurm node set train are ready" in told for told in cloud.engine.progressed)

    def test_every_field(self) -> None:
        cloud = Cloud()
        more = {"subnetId": "s", "transportPartitionId": "p", "vmSshPublicKey": "k"}
        _, state = cloud.create({**INPUTS, "type": IB, **more})
        (sent,) = cloud.api.sent("POST", SETS)
        assert sent == {
            "name": "train",
            "type": IB,
            "count": 3,
            "subnet_id": "s",
            "transport_partition_id": "p",
            "vm_ssh_public_key": "k",
        }
        assert state["vmSshPublicKey"] == "k"

    def test_a_shortage_is_an_error_that_records_the_set_by_its_whole_id(self) -> None:
        cloud = Cloud(most=1, state="UNHEALTHY")
        with pytest.raises(PartlyDoneError) as error:
            cloud.create()
        assert "train has 1 of 3 nodes ready, in state UNHEALTHY. Crusoe says vm_failed" in str(error.value)
        assert error.value.object_id == f"{CLUSTER}/{cloud.fields['id']}"
        assert (error.value.state["missingNodes"], error.value.state["count"]) == (2, 3)
        assert 600 <= sum(cloud.clock.waits) < 700

    def test_at_the_minimum_it_is_a_warning_and_the_next_run_asks_again(self) -> None:
        cloud = Cloud(most=1)
        inputs: Values = {**INPUTS, "minCount": 1}
        object_id, state = cloud.create(inputs)
        assert "1 of 3 nodes ready" in cloud.engine.warnings[0]
        cloud.most = 9
        after = cloud.update(object_id, inputs, state, inputs)
        assert cloud.api.sent("PATCH") == [{"count": 3}]
        assert (after["missingNodes"], after["readyCount"]) == (0, 3)
        assert SlurmNodeSet().upkeep(after) == []

    def test_a_failed_one_tells_its_issues(self) -> None:
        cloud = Cloud(most=0, state="CREATE_FAILED")
        with pytest.raises(PartlyDoneError, match=r"is CREATE_FAILED. Crusoe says vm_failed: one VM"):
            cloud.create()

    def test_a_cancel_records_it_by_its_whole_id(self) -> None:
        cloud = Cloud()
        cloud.clock.on_sleep = cloud.session.cancel.set
        with pytest.raises(PartlyDoneError, match="cancelled") as error:
            cloud.create()
        assert error.value.object_id.startswith(f"{CLUSTER}/")

    def test_a_quota_and_a_shortage_are_told_apart(self) -> None:
        for code, told in (("quota_exceeded", "quota a100 does not allow 3 x"), ("out_of_stock", "no free capacity")):
            cloud = Cloud()
            cloud.api.faults[:] = []
            message = {"quota_exceeded": "quota exceeded", "out_of_stock": "out of stock: insufficient capacity"}[code]
            cloud.api.fault("POST", SETS, always(refusal(400, message, code)))
            with pytest.raises(RefusalError, match=told):
                cloud.create()

    def test_one_of_its_name_is_adopted_or_named_by_its_whole_id(self) -> None:
        cloud = Cloud()
        object_id, _ = cloud.create()
        again: Values = {**INPUTS, "adoptExisting": True, "count": 5}
        adopted, state = cloud.create(again)
        assert (adopted, state["readyCount"]) == (object_id, 5)
        assert cloud.api.sent("PATCH") == [{"count": 5}], "how many it was to have is not known"
        with pytest.raises(RefusalError, match=f"pulumi import crusoe:index:SlurmNodeSet train {object_id}`"):
            cloud.create()

    def test_quota_is_looked_at_in_the_preview(self) -> None:
        cloud = Cloud()
        SlurmNodeSet().preflight(cloud.run(), {}, INPUTS)
        assert "here has 1 free now" in cloud.engine.warnings[0]
        with pytest.raises(RefusalError, match="quota a100"):
            SlurmNodeSet().preflight(cloud.run("more"), {"count": 3}, {**INPUTS, "count": 30})


class TestCount:
    def test_only_the_count_changes_in_place(self) -> None:
        state = SlurmNodeSet().state_of(INPUTS, {"readyCount": 3})
        for name, value in {"name": "x", "type": IB, "subnetId": "s", "vmSshPublicKey": "k"}.items():
            (found,) = SlurmNodeSet().differences(INPUTS, state, {**INPUTS, name: value})
            assert found.replaces, name
        (found,) = SlurmNodeSet().differences(INPUTS, state, {**INPUTS, "count": 4})
        assert not found.replaces

    def test_more_nodes_are_a_patch_of_the_count_alone(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        after = cloud.update(object_id, INPUTS, state, {**INPUTS, "count": 5})
        assert cloud.api.sent("PATCH") == [{"count": 5}]
        assert (after["count"], after["readyCount"]) == (5, 5)

    def test_fewer_need_consent_in_the_preview(self) -> None:
        kind, state = SlurmNodeSet(), values(**INPUTS, readyCount=3)
        fewer: Values = {**INPUTS, "count": 1}
        changes = kind.differences(INPUTS, state, fewer)
        assert "2 of 3 nodes would go" in str(kind.refusal(state, fewer, changes))
        assert kind.refusal(state, {**fewer, "allowScaleDown": True}, changes) is None

    def test_fewer_with_consent(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        after = cloud.update(object_id, INPUTS, state, {**INPUTS, "count": 1, "allowScaleDown": True})
        assert cloud.api.sent("PATCH") == [{"count": 1}]
        assert (after["count"], after["readyCount"]) == (1, 1)
        assert not cloud.engine.warnings

    def test_nodes_that_finish_their_jobs_are_not_waited_for(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.api.faults[:] = []
        cloud.clock.on_sleep = None
        cloud.api.fault("PATCH", SETS, always(answer({"operation": {"operation_id": "o", "state": "SUCCEEDED"}})))
        after = cloud.update(object_id, INPUTS, state, {**INPUTS, "count": 1, "allowScaleDown": True})
        assert (after["count"], after["readyCount"]) == (1, 3)
        assert "2 nodes of Slurm node set train are still to go" in cloud.engine.warnings[0]

    def test_others_may_have_raised_it_since(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.fields["count"] = 8
        with pytest.raises(RefusalError, match="4 of 8 nodes would go"):
            cloud.update(object_id, INPUTS, state, {**INPUTS, "count": 4})
        assert not cloud.api.sent("PATCH")

    def test_ready_nodes_are_no_drift(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.fields.update(count=1, state="UNHEALTHY")
        found = SlurmNodeSet().read(cloud.run(), object_id, INPUTS, state)
        assert found is not None
        assert (found.object_id, found.inputs) == (object_id, INPUTS)
        assert (found.state["count"], found.state["readyCount"], found.state["missingNodes"]) == (3, 1, 0)
        assert SlurmNodeSet().differences(INPUTS, found.state, INPUTS) == []
        assert SlurmNodeSet().upkeep(found.state) == []


class TestRead:
    def test_an_import_has_an_empty_preview(self) -> None:
        cloud = Cloud()
        object_id, _ = cloud.create({**INPUTS, "vmSshPublicKey": "k"})
        found = SlurmNodeSet().read(cloud.run(), object_id, {}, {})
        assert found is not None
        assert found.inputs == INPUTS
        assert SlurmNodeSet().differences(found.inputs, found.state, {**INPUTS, "vmSshPublicKey": "k"}) == []

    def test_an_id_without_a_cluster_is_refused(self) -> None:
        for wrong in ("x", "a/b/c", "/b", "a/"):
            with pytest.raises(RefusalError, match="<cluster>/<nodeset>"):
                SlurmNodeSet().read(Cloud().run(), wrong, {}, {})

    def test_it_is_gone_with_its_cluster(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        SlurmNodeSet().delete(cloud.run("train"), object_id, state)
        assert not cloud.api.objects[SETS]
        cloud.api.fault("GET", SETS, *[always(refusal(404, "no such cluster", "not_found"))] * 4)
        assert SlurmNodeSet().read(cloud.run("train"), object_id, INPUTS, state) is None
        SlurmNodeSet().delete(cloud.run("train"), object_id, state)

    def test_another_resource_of_the_program_is_its_owner(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        kind = SlurmNodeSet()
        kind.stands_for(cloud.session, object_id, "urn:other")
        kind.delete(cloud.run(), object_id, state)
        assert "now belongs to urn:other" in cloud.engine.warnings[-1]
        assert cloud.api.objects[SETS]


def test_a_failed_operation_tells_the_issues_left_behind() -> None:
    cloud = Cloud()
    cloud.api.failing = "create failed"

    def heal(api: FakeApi, _request: Any, work: Any) -> Any:
        api.failing = None
        return work()

    def issues(_api: FakeApi, _request: Any, work: Any) -> Any:
        return answer({**work().json(), "issues": [ISSUE]})

    cloud.api.fault("DELETE", SETS, heal)
    cloud.api.fault("GET", f"{SETS}/id-", *[issues] * 3)
    with pytest.raises(RefusalError, match=r"create failed.*Crusoe says vm_failed"):
        cloud.create()
    assert not cloud.api.objects[SETS]
