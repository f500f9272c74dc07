"""Node pools: both generations' fields, counts and their owners, waiting for nodes, shortfalls."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from crusoe.client import CapacityError, OperationFailed, QuotaError
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.node_pools import CLUSTER_VERSION, KubernetesNodePool
from crusoe.provider.properties import UNREAD
from crusoe.provider.shapes import Failure
from crusoe.provider.values import UNKNOWN, Value, Values
from tests.unit.provider.support import Bench, FakeApi, answer, values

POOLS, VMS, CLUSTERS = "kubernetes/nodepools", "compute/vms/instances", "kubernetes/clusters"
V1, V2 = "1.33.4-cmk.43", "1.35.5"
TYPE = "h100-80gb-sxm-ib.8x"
POOL = values(name="train", clusterId="c", type=TYPE, count=2)
AUTO = values(name="train", clusterId="c", type=TYPE, autoscaling={"min": 2, "max": 8})
KEYS = {"product_name": "type", "node_pool_version": "image_id"}


def vms(*states: str) -> dict[str, Any]:
    return {"items": [{"id": f"vm-{index}", "state": f"STATE_{state}"} for index, state in enumerate(states)]}


class Cloud(Bench):
    """A bench with a cluster `c`, capacities and quotas, whose pools get as many VMs as `found`."""

    def __init__(self, version: str = V1, found: int = 99, said: str | None = None) -> None:
        super().__init__(api=FakeApi(rename=KEYS))
        self.found, self.said = found, said
        cluster = {"id": "c", "name": "c", "version": version, "location": "here"}
        self.api.objects[CLUSTERS] = {"c": cluster}
        self.api.answers["compute/vms/types"] = {"items": [{"product_name": TYPE}, {"product_name": "c1a.8x"}]}
        stock = [("here", 0), ("there", 5)]
        self.api.answers["/capacities"] = {
            "items": [
                {"location": place, "type": TYPE, "quantity": free, "num_slices": 8, "quota_type": "h100"}
                for place, free in stock
            ]
        }
        self.api.answers["quotas"] = {"items": [{"name": "h100", "max": 80, "used": 56, "available": 24}]}
        self.api.fault("POST", POOLS, self._fill)
        self.api.fault("PATCH", POOLS, *[self._fill] * 9)

    def _fill(self, api: FakeApi, _request: httpx.Request, work: Any) -> httpx.Response:
        body = work().json()
        pool = next(iter(api.objects[POOLS].values()))
        running = min(int(pool["count"]), self.found)
        pool |= {"state": "STATE_RUNNING", "instance_ids": [f"vm-{index}" for index in range(running)]}
        pool.setdefault("public_ip_type", "dynamic")
        api.answers[f"{POOLS}/{pool['id']}/vms"] = vms(*["RUNNING"] * running)
        details = {"error": self.said} if self.said and running < int(pool["count"]) else {}
        result = {"node_pool": dict(pool), "details": details}
        operation = body["operation"]
        api.operations[operation["operation_id"]]["result"] = result
        return answer({"operation": {**operation, "result": result}})

    def create(self, inputs: Values = POOL) -> tuple[str, Values]:
        return KubernetesNodePool().create(self.run("pool"), inputs)

    def update(self, object_id: str, old: Values, state: Values, news: Values) -> Values:
        kind = KubernetesNodePool()
        changes = kind.differences(old, state, news)
        seen = {change.property for change in changes}
        changes += [one for one in kind.upkeep(state) if one.property not in seen]
        return kind.update(self.run("pool"), object_id, state, news, changes)


def changed(old: Values, state: Values, news: Values) -> dict[str, bool]:
    return {one.path: one.replaces for one in KubernetesNodePool().differences(old, state, news)}


def faults(inputs: Values, cloud: Cloud | None = None) -> dict[str, str]:
    session = (cloud or Cloud()).session
    found: list[Failure] = KubernetesNodePool().check(session, {}, inputs)
    return {one.path: one.reason for one in found}


class TestCheck:
    def test_a_count_or_autoscaling_is_needed_and_not_both(self) -> None:
        bare = {name: value for name, value in POOL.items() if name != "count"}
        assert faults(bare) == {"count": "is required without autoscaling"}
        assert "count" in faults({**AUTO, "count": 2})
        assert not faults(AUTO)

    def test_rules_apply(self) -> None:
        found = faults(
            {
                **POOL,
                "minCount": 3,
                "nodeLabels": {"crusoe.ai/x": "y"},
                "nodeTaints": [{"key": "a", "effect": "NoSchedul"}, {"key": "b b", "effect": "NoExecute"}],
                "consentMode": "of",
                "reservation": {"id": "r", "selectionStrategy": "on_demand"},
                "autoscaling": {"min": 3, "max": 2},
            }
        )
        assert set(found) == {
            "count",
            "nodeLabels.crusoe.ai/x",
            "nodeTaints[0].effect",
            "nodeTaints[1].key",
            "consentMode",
            "reservation",
            "autoscaling",
            "autoscaling.min",
        }

    def test_the_other_generations_settings_are_refused_by_name(self) -> None:
        v2_on_v1 = faults({**POOL, "consentMode": "off", "allowScaleDown": True}, Cloud(V1))
        assert set(v2_on_v1) == {"consentMode", "allowScaleDown"}
        assert "is a setting of CMK v2" in v2_on_v1["consentMode"]
        v1_on_v2 = faults({**POOL, "leaveVmsOnScaleDown": True}, Cloud(V2))
        assert set(v1_on_v2) == {"leaveVmsOnScaleDown"}

    def test_before_the_cluster_is_known_the_create_refuses(self) -> None:
        assert not faults({**POOL, "clusterId": UNKNOWN, "consentMode": "auto"})
        cloud = Cloud(V1)
        with pytest.raises(RefusalError, match="consentMode is a setting of CMK v2"):
            cloud.create({**POOL, "consentMode": "auto"})
        assert not cloud.api.sent("POST")

    def test_an_unknown_type_is_named_with_what_was_meant(self) -> None:
        assert "Did you mean 'h100-80gb-sxm-ib.8x'?" in faults({**POOL, "type": "h100-80gb-sxm-ib-8x"})["type"]

    def test_without_news_nothing_is_asked(self) -> None:
        cloud = Cloud()
        KubernetesNodePool().check(cloud.session, POOL, POOL)
        assert not cloud.api.requests

    def test_two_partitions_are_a_fault(self) -> None:
        assert "transportPartitionId" in faults({**POOL, "ibPartitionId": "a", "transportPartitionId": "b"})


class TestCreate:
    def test_v1_gets_no_consent_and_v2_always_an_explicit_one(self) -> None:
        v1, v2 = Cloud(V1), Cloud(V2)
        v1.create()
        v2.create()
        (one,), (two,) = v1.api.sent("POST", POOLS), v2.api.sent("POST", POOLS)
        assert one is not None
        assert one == {
            "name": "train",
            "cluster_id": "c",
            "product_name": TYPE,
            "count": 2,
            "public_ip_type": "dynamic",
        }
        assert two == {**one, "consent_mode": "off", "update_settings": {"allow_scale_down": False}}

    def test_every_field(self) -> None:
        cloud = Cloud(V2)
        cloud.create(
            {
                **AUTO,
                "version": V2,
                "subnetId": "s",
                "ibPartitionId": "p",
                "sshPublicKey": "k",
                "publicIpType": "none",
                "nodeLabels": {"a": "b"},
                "nodeTaints": [{"key": "k", "value": "", "effect": "NoSchedule"}],
                "ephemeralStorageForContainerd": True,
                "placementPolicy": "spread",
                "reservation": {"selectionStrategy": "on_demand"},
                "consentMode": "auto",
                "allowScaleDown": True,
                "nvlinkDomainId": "n",
            }
        )
        assert cloud.api.sent("POST", POOLS) == [
            {
                "name": "train",
                "cluster_id": "c",
                "product_name": TYPE,
                "count": 2,
                "node_pool_version": V2,
                "subnet_id": "s",
                "ib_partition_id": "p",
                "ssh_public_key": "k",
                "public_ip_type": "none",
                "node_labels": {"a": "b"},
                "node_taints": [{"key": "k", "effect": "NoSchedule"}],
                "ephemeral_storage_for_containerd": True,
                "placement_policy": "spread",
                "reservation_specification": {"selection_strategy": "on_demand"},
                "autoscaling_config": {"enabled": True, "min_node_size": 2, "max_node_size": 8},
                "consent_mode": "auto",
                "update_settings": {"allow_scale_down": True},
                "nvlink_domain_id": "n",
            }
        ]

    def test_done_when_the_nodes_run(self) -> None:
        cloud = Cloud()
        _, state = cloud.create()
        assert state["missingNodes"] == 0
        assert state[CLUSTER_VERSION] == V1
        assert not cloud.engine.warnings

    def test_starting_nodes_are_waited_for(self) -> None:
        cloud = Cloud()
        steps = [vms("CREATING", "CREATING"), vms("RUNNING", "CREATING"), vms("RUNNING", "RUNNING")]

        def start() -> None:
            for path in [path for path in cloud.api.answers if path.endswith("/vms")]:
                cloud.api.answers[path] = steps.pop(0) if steps else vms("RUNNING", "RUNNING")

        cloud.clock.on_sleep = start
        cloud.api.fault("GET", "/vms$", lambda _api, _request, _work: answer(vms("CREATING", "CREATING")))
        _, state = cloud.create()
        assert state["missingNodes"] == 0
        assert any("of 2 nodes run" in told for told in cloud.engine.progressed)


class TestShortfall:
    SAID = "insufficient capacity for h100"

    def test_below_the_minimum_is_an_error_that_records_the_pool(self) -> None:
        cloud = Cloud(found=1, said=self.SAID)
        with pytest.raises(PartlyDoneError) as error:
            cloud.create()
        told = str(error.value)
        assert "Node pool train has 1 of 2 nodes." in told
        assert f"no free capacity for {TYPE} in here ({self.SAID}). Free VMs of it: there (5)." in told
        assert "quota" not in told
        assert error.value.state["missingNodes"] == 1
        assert error.value.object_id in cloud.api.objects[POOLS]

    def test_at_the_minimum_it_is_a_warning(self) -> None:
        cloud = Cloud(found=1, said=self.SAID)
        _, state = cloud.create({**POOL, "minCount": 1})
        assert state["missingNodes"] == 1
        assert "has 1 of 2 nodes" in cloud.engine.warnings[0]

    def test_the_next_run_tops_the_same_pool_up(self) -> None:
        cloud = Cloud(found=1, said=self.SAID)
        inputs: dict[str, Any] = {**POOL, "minCount": 1}
        object_id, state = cloud.create(inputs)
        cloud.found = 2
        after = cloud.update(object_id, inputs, state, inputs)
        assert cloud.api.sent("PATCH") == [{"count": 2}]
        assert after["missingNodes"] == 0
        assert len(cloud.api.objects[POOLS]) == 1
        assert not KubernetesNodePool().upkeep(after)

    def test_without_the_apis_word_a_pool_at_rest_is_watched_for_a_while(self) -> None:
        cloud = Cloud(found=1)
        with pytest.raises(PartlyDoneError, match="1 of 2 nodes"):
            cloud.create()
        assert 15 < sum(cloud.clock.waits) < 40

    def test_a_refresh_lowers_the_missing_nodes_and_never_raises_them(self) -> None:
        kind = KubernetesNodePool()
        one: dict[str, object] = {"count": 4, "instance_ids": ["a", "b", "c"]}
        assert kind.refreshed({"missingNodes": 2}, one) == {"missingNodes": 1}
        assert kind.refreshed({"missingNodes": 0}, one) == {"missingNodes": 0}
        assert kind.refreshed({"missingNodes": 1}, {"count": 4, "instance_ids": []}) == {"missingNodes": 1}


class TestUpdate:
    def state(self, **fields: Value) -> Values:
        return {**POOL, "missingNodes": 0, CLUSTER_VERSION: V1, **fields}

    def patch(self, names: set[str], news: Values) -> Any:
        return KubernetesNodePool().patch(names, {}, news)

    def test_exactly_what_changed_is_sent_and_the_key_never(self) -> None:
        every: dict[str, Any] = {
            **POOL,
            "sshPublicKey": "k",
            "nodeLabels": {"a": "b"},
            "nodeTaints": [{"key": "k", "effect": "NoSchedule"}],
            "version": V1,
        }
        assert self.patch({"nodeLabels"}, every) == {"node_labels": {"a": "b"}}
        assert self.patch({"version"}, every) == {"node_pool_version": V1}
        assert self.patch({"nodeTaints"}, every) == {"node_taints": [{"key": "k", "effect": "NoSchedule"}]}
        assert "ssh_public_key" not in self.patch(set(every), every)

    def test_clearing_is_an_empty_map_or_list(self) -> None:
        assert self.patch({"nodeLabels", "nodeTaints"}, POOL) == {"node_labels": {}, "node_taints": []}

    def test_an_autoscaled_pool_has_no_count_in_any_comparison_or_request(self) -> None:
        state: dict[str, Any] = {**AUTO, CLUSTER_VERSION: V2}
        cloud = Cloud(V2)
        fields: dict[str, object] = {
            "count": 7,
            "cluster_id": "c",
            "autoscaling_config": {"enabled": True, "min_node_size": 2, "max_node_size": 8},
        }
        actual = KubernetesNodePool().actual(cloud.run(), fields, AUTO)
        assert "count" not in actual
        assert actual["autoscaling"] == {"min": 2, "max": 8}
        for name, value in (("nodeLabels", {"a": "b"}), ("version", V2)):
            news: dict[str, Any] = {**AUTO, name: value}
            assert set(changed(AUTO, state, news)) <= {"nodeLabels", "version"}
            assert "count" not in self.patch({name}, news)

    def test_new_bounds_move_the_count_only_when_it_lies_outside(self) -> None:
        for bounds, sent in (({"min": 3, "max": 9}, None), ({"min": 4, "max": 9}, 4)):
            cloud = Cloud(V2)
            object_id, state = cloud.create(AUTO)
            cloud.api.objects[POOLS][object_id]["count"] = 3
            cloud.update(object_id, AUTO, state, values(**{**AUTO, "autoscaling": bounds}))
            body = cloud.api.sent("PATCH")[0] or {}
            assert body.get("count") == sent

    def test_on_v1_bounds_are_told_and_never_sent(self) -> None:
        cloud = Cloud(V1)
        object_id, state = cloud.create(AUTO)
        assert cloud.api.sent("POST")[0] == {
            "name": "train",
            "cluster_id": "c",
            "product_name": TYPE,
            "count": 2,
            "public_ip_type": "dynamic",
        }
        cloud.api.objects[POOLS][object_id]["count"] = 7
        actual = KubernetesNodePool().actual(cloud.run(), cloud.api.objects[POOLS][object_id], AUTO)
        assert "count" not in actual
        assert actual["autoscaling"] == AUTO["autoscaling"]
        cloud.api.objects[POOLS][object_id]["instance_ids"] = [f"vm-{number}" for number in range(7)]
        cloud.api.answers[f"{POOLS}/{object_id}/vms"] = vms(*["RUNNING"] * 7)
        cloud.update(object_id, AUTO, state, values(**{**AUTO, "autoscaling": {"min": 3, "max": 5}}))
        assert not cloud.api.sent("PATCH")
        cloud.update(object_id, AUTO, state, values(**{**AUTO, "autoscaling": {"min": 8, "max": 9}}))
        assert cloud.api.sent("PATCH") == [{"count": 8}]
        told = [f"--nodes={bounds}:train" for bounds in ("2:8", "3:5", "8:9")]
        assert [one for one in told if one in str(cloud.engine.warnings)] == told

    def test_leaving_autoscaling_asks_whether_the_count_falls(self) -> None:
        cloud = Cloud(V2)
        object_id, state = cloud.create(AUTO)
        cloud.api.objects[POOLS][object_id] |= {"count": 7, "autoscaling_config": {"enabled": True}}
        with pytest.raises(RefusalError, match="allowScaleDown: true"):
            cloud.update(object_id, AUTO, state, POOL)
        assert not cloud.api.sent("PATCH")

    def test_a_partition_under_its_newer_name_is_no_change(self) -> None:
        state = self.state()
        old: dict[str, Any] = {**POOL, "ibPartitionId": "p"}
        new: dict[str, Any] = {**POOL, "transportPartitionId": "p"}
        assert not changed(old, state, new)
        assert changed(old, state, {**POOL, "transportPartitionId": "q"}) == {
            "ibPartitionId": True,
            "transportPartitionId": True,
        }

    def test_reservations(self) -> None:
        assert self.patch({"reservation"}, {**POOL, "reservation": {"id": "r"}}) == {
            "action": "RESERVE",
            "reservation_id": "r",
        }
        assert self.patch({"reservation"}, {**POOL, "reservation": {"selectionStrategy": "on_demand"}}) == {
            "action": "UNRESERVE"
        }

    @pytest.mark.parametrize("name", ["ibPartitionId", "sshPublicKey", "placementPolicy"])
    def test_write_only_properties_replace(self, name: str) -> None:
        old: dict[str, Any] = {**POOL, name: "spread"}
        new: dict[str, Any] = {**POOL, name: "unspecified" if name == "placementPolicy" else "other"}
        assert changed(old, self.state(), new) == {name: True}

    def test_nodes_of_before_are_told(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.api.objects[POOLS][object_id]["instance_details"] = [{"id": "vm-0", "using_latest_config": False}]
        cloud.update(object_id, POOL, state, {**POOL, "nodeLabels": {"a": "b"}})
        assert cloud.engine.warnings == [
            "1 nodes of node pool train still have the configuration of before; rotate the pool, or replace them, to"
            " bring them up to date."
        ]


class TestScaleDown:
    def refused(self, version: str, **more: Value) -> str | None:
        kind = KubernetesNodePool()
        state: dict[str, Any] = {**POOL, "count": 4, CLUSTER_VERSION: version}
        news: dict[str, Any] = {**POOL, "count": 2, **more}
        return kind.refusal(state, news, kind.differences({**POOL, "count": 4}, state, news))

    def test_v1_needs_a_declaration(self) -> None:
        assert "would leave 2 of 4 VMs running and billed" in (self.refused(V1) or "")
        assert self.refused(V1, leaveVmsOnScaleDown=True) is None

    def test_v2_needs_a_permission(self) -> None:
        assert "allowScaleDown: true" in (self.refused(V2) or "")
        assert self.refused(V2, allowScaleDown=True) is None

    def test_a_pool_that_others_raised_is_not_lowered_unawares(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.api.objects[POOLS][object_id]["count"] = 9
        with pytest.raises(RefusalError, match="6 of 9 VMs"):
            cloud.update(object_id, POOL, state, {**POOL, "count": 3})
        assert not cloud.api.sent("PATCH")


class TestRead:
    def test_a_pool_of_the_console_is_taken_with_an_empty_preview(self) -> None:
        cloud = Cloud(V1)
        there = cloud.api.put(
            POOLS,
            name="train",
            cluster_id="c",
            type=TYPE,
            count=2,
            image_id="1.33.4-cmk.93",
            state="STATE_RUNNING",
            subnet_id="s",
            public_ip_type="dynamic",
            node_labels={"crusoe.ai/nodepool.id": "x", "node.kubernetes.io/instance-type": TYPE},
            node_taints=[{"key": "crusoe.ai/new", "effect": "NoSchedule"}],
            instance_ids=["vm-0", "vm-1"],
            ephemeral_storage_for_containerd=False,
        )
        found = KubernetesNodePool().read(cloud.run(), there, {}, {})
        assert found is not None
        assert found.inputs == {
            "name": "train",
            "clusterId": "c",
            "type": TYPE,
            "count": 2,
            "version": "1.33.4-cmk.93",
            "subnetId": "s",
        }
        program: dict[str, Any] = {
            **POOL,
            "ibPartitionId": "p",
            "sshPublicKey": "k",
            "nodeLabels": {"mine": "1"},
            "nodeTaints": [],
            "subnetId": "s",
        }
        assert not changed(found.inputs, found.state, program)
        assert not KubernetesNodePool().upkeep(found.state)
        # The run after the import: the program's values are recorded as inputs, the state is still the import's.
        assert not changed(program, found.state, program)
        assert changed(program, found.state, {**program, "nodeLabels": {"mine": "2"}}) == {"nodeLabels.mine": False}
        assert changed(program, found.state, {**program, "sshPublicKey": "l"}) == {"sshPublicKey": True}

    def test_labels_that_were_asked_for_are_read_back(self) -> None:
        cloud = Cloud()
        inputs: dict[str, Any] = {**POOL, "nodeLabels": {"a": "1", "b": "2"}}
        object_id, state = cloud.create(inputs)
        cloud.api.objects[POOLS][object_id]["node_labels"] = {"a": "9", "crusoe.ai/x": "y"}
        found = KubernetesNodePool().read(cloud.run(), object_id, inputs, state)
        assert found is not None
        assert found.inputs["nodeLabels"] == {"a": "9"}

    def test_labels_that_the_api_does_not_tell_are_no_drift(self) -> None:
        cloud = Cloud()
        inputs: dict[str, Any] = {**POOL, "nodeLabels": {"a": "1"}}
        object_id, state = cloud.create(inputs)
        cloud.api.objects[POOLS][object_id]["node_labels"] = {}
        found = KubernetesNodePool().read(cloud.run(), object_id, inputs, state)
        assert found is not None
        assert found.inputs == inputs

    def test_a_consent_that_somebody_gave_is_drift(self) -> None:
        cloud = Cloud(V2)
        object_id, state = cloud.create()
        cloud.api.objects[POOLS][object_id]["consent_mode"] = "propose"
        found = KubernetesNodePool().read(cloud.run(), object_id, POOL, state)
        assert found is not None
        assert found.inputs == {**POOL, "consentMode": "propose"}
        assert changed(found.inputs, found.state, POOL) == {"consentMode": False}

    @pytest.mark.parametrize("image", ["0f6c4f0e-0000-4000-8000-000000000000", None])
    def test_an_image_id_is_no_version(self, image: str | None) -> None:
        fields: dict[str, object] = {"cluster_id": "c", "image_id": image}
        assert "version" not in KubernetesNodePool().actual(Cloud().run(), fields, {})

    def test_a_lost_node_is_no_drift(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.api.objects[POOLS][object_id]["instance_ids"] = ["vm-0"]
        found = KubernetesNodePool().read(cloud.run(), object_id, POOL, state)
        assert found is not None
        assert found.inputs == POOL
        assert found.state == state
        assert UNREAD not in found.state


class TestDelete:
    def test_vms_that_stay_behind_are_deleted_too(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.api.objects[VMS] = {vm: {"id": vm} for vm in ("vm-0", "vm-1", "other")}
        KubernetesNodePool().delete(cloud.run("pool"), object_id, state)
        assert set(cloud.api.objects[VMS]) == {"other"}
        assert not cloud.api.objects[POOLS]


class TestMessages:
    def test_capacity_and_quota_are_told_apart(self) -> None:
        kind, cloud = KubernetesNodePool(), Cloud()
        errors = {
            "capacity": (
                CapacityError(500, "", "out of host capacity"),
                OperationFailed("x", operation_id="o", reason="capacity"),
            ),
            "quota": (QuotaError(400, "", "quota exceeded"), OperationFailed("x", operation_id="o", reason="quota")),
        }
        for error in errors["capacity"]:
            told = kind.explain(cloud.run(), POOL, error)
            assert f"no free capacity for {TYPE} in here" in told
            assert "there (5)" in told
            assert "quota" not in told
        for error in errors["quota"]:
            told = kind.explain(cloud.run(), POOL, error)
            assert "quota h100 does not allow 2 x h100-80gb-sxm-ib.8x for node pool train, 56 of 80 used" in told
            assert "capacity" not in told

    def test_a_preview_counts_all_pools_against_the_quota(self) -> None:
        kind, cloud = KubernetesNodePool(), Cloud()
        kind.preflight(cloud.run("one"), {}, POOL)
        kind.preflight(cloud.run("one"), {}, POOL)
        with pytest.raises(
            RefusalError, match=r"quota h100 does not allow node pool train \(2 x .* beside 16"
        ) as error:
            kind.preflight(cloud.run("two"), {}, POOL)
        assert "56 of 80 used" in str(error.value)
        kind.preflight(cloud.run("three"), {**POOL, "count": 2}, POOL)

    def test_and_only_warns_of_a_shortage(self) -> None:
        cloud = Cloud()
        KubernetesNodePool().preflight(cloud.run(), {}, POOL)
        assert "needs 2 x h100-80gb-sxm-ib.8x, and here has 0 free now" in cloud.engine.warnings[0]

    def test_unknown_counts_are_passed_over(self) -> None:
        KubernetesNodePool().preflight(Cloud().run(), {}, {**POOL, "count": UNKNOWN, "clusterId": UNKNOWN})
