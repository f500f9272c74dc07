"""Faults of the cloud, judged by what it holds afterwards and what it was asked: never two, never an orphan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from tests.harness import Cloud, until
from tests.provider.conftest import IB_NETWORK, LOCATION, V1, V2, Ground
from tests.provider.engine import FailedError, Plugin, Resource, plugin_for

Inputs = dict[str, Any]
GPU = "h100-80gb-sxm-ib.8x"
PATHS = {
    "VpcNetwork": "/networking/vpc-networks",
    "IbPartition": "/networking/ib-partitions",
    "StorageDisk": "/storage/disks",
    "VpcFirewallRule": "/networking/vpc-firewall-rules",
    "KubernetesNodePool": "/kubernetes/nodepools",
}


def named(cloud: Cloud, kind: str, name: str) -> list[Any]:
    """Everything of a kind and name that the cloud holds."""
    return [one for one in cloud.items(PATHS[kind]) if one["name"] == name]


def program(kind: str, name: str, plugin: Plugin, ground: Ground) -> Inputs:
    """Inputs for a resource of a kind, whose name is its own."""
    inputs: dict[str, Callable[[], Inputs]] = {
        "VpcNetwork": lambda: {"cidr": "10.20.0.0/16"},
        "IbPartition": lambda: {"ibNetworkId": IB_NETWORK},
        "StorageDisk": lambda: {"location": LOCATION, "size": "1GiB"},
        "VpcFirewallRule": lambda: {
            "vpcNetworkId": ground.network.id,
            "action": "allow",
            "direction": "ingress",
            "protocols": ["tcp"],
            "sources": ["10.0.0.0/8"],
            "destinations": ["10.0.0.0/8"],
        },
        "KubernetesNodePool": lambda: {"clusterId": ground.cluster(plugin), "type": "c1a.4x", "count": 1},
    }
    return {"name": name, "adoptExisting": True, **inputs[kind]()}


DIFFERENT: dict[str, Inputs] = {
    "VpcNetwork": {"cidr": "10.21.0.0/16"},
    "IbPartition": {"ibNetworkId": "00000000-0000-4000-8000-000000000102"},
    "StorageDisk": {"size": "2GiB"},
    "VpcFirewallRule": {"sources": ["10.1.0.0/16"]},
    "KubernetesNodePool": {"count": 2},
}


@pytest.mark.parametrize("kind", sorted(PATHS))
class TestLostAnswers:
    """Case of the field: the API answered 500 although the object was made; every later run got 409."""

    @pytest.mark.parametrize("fault", ["http-500-after", "drop-after"])
    def test_one_object_is_made_and_found(
        self, cloud: Cloud, plugin: Plugin, ground: Ground, kind: str, fault: str
    ) -> None:
        inputs = program(kind, f"lost-{fault}", plugin, ground)
        cloud.forget_requests()
        cloud.fault(f"POST .../{PATHS[kind].rpartition('/')[2]}", fault, times=1)
        resource = plugin.resource(kind, f"lost-{fault}")
        assert resource.up(inputs) == "create"
        (found,) = named(cloud, kind, f"lost-{fault}")
        assert found["id"] == resource.id
        assert len(cloud.requests("POST", PATHS[kind])) == 1
        assert resource.preview(inputs)[:2] == ("same", {})
        with plugin_for(cloud) as fresh:
            resource.plugin = fresh
            resource.destroy()

    def test_the_next_run_converges_when_the_plugin_was_killed(
        self, cloud: Cloud, plugin: Plugin, ground: Ground, kind: str
    ) -> None:
        inputs = program(kind, "killed", plugin, ground)
        first = plugin.resource(kind, "killed")
        first.up(inputs)
        # Nothing of it was recorded, as after kill -9.
        with plugin_for(cloud) as fresh:
            second = fresh.resource(kind, "killed")
            assert second.up(inputs) == "create"
            assert second.id == first.id
            assert len(named(cloud, kind, "killed")) == 1
            assert any("Adopted" in warning for warning in fresh.log.warnings)
        first.destroy()

    def test_another_object_of_the_name_is_refused_with_the_import_command(
        self, cloud: Cloud, plugin: Plugin, ground: Ground, kind: str
    ) -> None:
        inputs = program(kind, "other", plugin, ground)
        there = plugin.resource(kind, "there")
        there.up({**inputs, **DIFFERENT[kind]})
        with plugin_for(cloud) as fresh, pytest.raises(FailedError) as error:
            fresh.resource(kind, "mine").up(inputs)
        told = error.value.message
        assert f"pulumi import crusoe:index:{kind} mine {there.id}" in told
        assert f"differs in {next(iter(DIFFERENT[kind]))}" in told
        assert error.value.partial is None
        assert len(named(cloud, kind, "other")) == 1
        there.destroy()

    def test_a_name_by_hand_is_never_adopted(self, cloud: Cloud, plugin: Plugin, ground: Ground, kind: str) -> None:
        inputs = {**program(kind, "hand", plugin, ground), "adoptExisting": False}
        there = plugin.resource(kind, "there")
        there.up(inputs)
        with plugin_for(cloud) as fresh, pytest.raises(FailedError, match="pulumi import"):
            fresh.resource(kind, "mine").up(inputs)
        there.destroy()


def test_a_500_before_the_work_is_survived(cloud: Cloud, plugin: Plugin) -> None:
    cloud.fault("POST .../vpc-networks", "http-500", times=1)
    network = plugin.resource("VpcNetwork")
    network.up({"name": "survived", "cidr": "10.30.0.0/16"})
    assert len(named(cloud, "VpcNetwork", "survived")) == 1
    network.destroy()


@pytest.mark.parametrize("fault", ["http-429", "http-503", "drop-before"])
def test_a_bad_moment_is_waited_out(cloud: Cloud, plugin: Plugin, fault: str) -> None:
    network = plugin.resource("VpcNetwork")
    network.up({"name": "moment", "cidr": "10.30.0.0/16"})
    cloud.fault("* .../vpc-networks/*", fault, times=2)
    assert network.refresh() == {}
    assert network.up({"name": "moments", "cidr": "10.30.0.0/16"}) == "update"
    network.destroy()
    assert not named(cloud, "VpcNetwork", "moments")


def test_an_outage_never_drops_a_resource(cloud: Cloud, plugin: Plugin) -> None:
    network = plugin.resource("VpcNetwork")
    network.up({"name": "outage", "cidr": "10.30.0.0/16"})
    cloud.fault("GET .../vpc-networks/*", "http-500")
    with pytest.raises(FailedError):
        network.refresh()
    cloud.admin("DELETE", "/faults")
    assert network.refresh() == {}
    network.destroy()


def test_a_failed_operation_leaves_nothing_behind(cloud: Cloud, plugin: Plugin, ground: Ground) -> None:
    for kind in ("StorageDisk", "VpcFirewallRule", "KubernetesNodePool"):
        inputs = program(kind, "failed", plugin, ground)
        cloud.fault(f"POST .../{PATHS[kind].rpartition('/')[2]}", "fail-operation", times=1, message="the disk broke")
        with pytest.raises(FailedError, match="the disk broke") as error:
            plugin.resource(kind).up(inputs)
        assert error.value.partial is None
        assert not named(cloud, kind, "failed")


def test_a_cluster_without_egress_says_what_it_lacks(cloud: Cloud, plugin: Plugin) -> None:
    network = plugin.resource("VpcNetwork", "closed")
    network.up({"name": "closed", "cidr": "10.40.0.0/16"})
    subnet = plugin.resource("VpcSubnet", "closed")
    subnet.up({"name": "closed", "cidr": "10.40.0.0/20", "location": LOCATION, "vpcNetworkId": network.id})
    with pytest.raises(FailedError, match="no egress rule"):
        plugin.resource("KubernetesCluster", "closed").up(
            {"name": "closed", "location": LOCATION, "version": V1, "subnetId": subnet.id}
        )
    assert not [one for one in cloud.items("/kubernetes/clusters") if one["name"] == "closed"]
    subnet.destroy()
    network.destroy()


def test_in_use_is_waited_out(cloud: Cloud, plugin: Plugin) -> None:
    network = plugin.resource("VpcNetwork", "used")
    network.up({"name": "used", "cidr": "10.50.0.0/16"})
    subnet = plugin.resource("VpcSubnet", "used")
    subnet.up({"name": "used", "cidr": "10.50.0.0/20", "location": LOCATION, "vpcNetworkId": network.id})
    later = threading.Timer(1.0, subnet.destroy)
    later.start()
    network.destroy()
    later.join()
    assert not named(cloud, "VpcNetwork", "used")


class TestCapacity:
    def pool(self, plugin: Plugin, ground: Ground, version: str = V1, **more: Any) -> Inputs:
        """A pool of GPU hosts."""
        partition = plugin.resource("IbPartition", "capacity")
        partition.up({"name": "capacity", "ibNetworkId": IB_NETWORK, "adoptExisting": True})
        return {
            "name": "gpus",
            "clusterId": ground.cluster(plugin, version),
            "type": GPU,
            "count": 2,
            "ibPartitionId": partition.id,
            "adoptExisting": True,
            **more,
        }

    def test_out_of_capacity_names_type_place_and_where_there_is_some(
        self, cloud: Cloud, plugin: Plugin, ground: Ground
    ) -> None:
        inputs = self.pool(plugin, ground)
        cloud.forget_requests()
        cloud.fault("POST .../nodepools", "capacity-500", times=1)
        cloud.fault("POST .../nodepools", "http-429")
        started = time.monotonic()
        with pytest.raises(FailedError) as error:
            plugin.resource("KubernetesNodePool").up(inputs)
        assert time.monotonic() - started < 15
        told = error.value.message
        assert f"no free capacity for {GPU} in {LOCATION}" in told
        assert "us-southcentral1-a (" in told
        assert "quota" not in told
        assert len(cloud.requests("POST", "/nodepools")) == 1
        assert not named(cloud, "KubernetesNodePool", "gpus")

    @pytest.mark.parametrize("version", [V1, V2])
    def test_partial_capacity_is_an_error_below_the_minimum_and_topped_up(
        self, cloud: Cloud, plugin: Plugin, ground: Ground, version: str
    ) -> None:
        inputs = self.pool(plugin, ground, version)
        cloud.fault("POST .../nodepools", "partial-capacity", vms=1, times=1)
        resource = plugin.resource("KubernetesNodePool")
        with pytest.raises(FailedError) as error:
            resource.up(inputs)
        assert "Node pool gpus has 1 of 2 nodes." in error.value.message
        assert error.value.partial is not None
        assert resource.outputs["missingNodes"] == 1
        assert resource.up(inputs) == "update"
        assert resource.outputs["missingNodes"] == 0
        (pool,) = named(cloud, "KubernetesNodePool", "gpus")
        assert len(pool["instance_ids"]) == 2
        assert resource.preview(inputs)[:2] == ("same", {})
        resource.destroy()

    def test_at_the_minimum_it_is_a_warning_and_shown_by_the_next_preview(
        self, cloud: Cloud, plugin: Plugin, ground: Ground
    ) -> None:
        inputs = self.pool(plugin, ground, minCount=1)
        cloud.fault("POST .../nodepools", "partial-capacity", vms=1, times=1)
        resource = plugin.resource("KubernetesNodePool")
        assert resource.up(inputs) == "create"
        assert any("has 1 of 2 nodes" in warning for warning in plugin.log.warnings)
        assert resource.refresh() == {}
        assert resource.preview(inputs)[:2] == ("update", {"missingNodes": "update"})
        assert resource.up(inputs) == "update"
        assert len(named(cloud, "KubernetesNodePool", "gpus")[0]["instance_ids"]) == 2
        resource.destroy()

    def test_a_quota_is_refused_in_the_preview_with_its_numbers(
        self, cloud: Cloud, plugin: Plugin, ground: Ground
    ) -> None:
        inputs = self.pool(plugin, ground)
        quota = next(one for one in cloud.api("GET", "/quotas")["items"] if one["name"] == "h100-80gb-sxm-ib")
        cloud.admin("PUT", "/quotas", {"name": "h100-80gb-sxm-ib", "max": quota["used"] + 8})
        try:
            with pytest.raises(FailedError) as preview:
                plugin.resource("KubernetesNodePool").preview(inputs)
            with pytest.raises(FailedError) as up:
                plugin.resource("KubernetesNodePool").up(inputs)
        finally:
            cloud.admin("PUT", "/quotas", {"name": "h100-80gb-sxm-ib", "max": quota["max"]})
        for error in (preview, up):
            told = error.value.message
            assert "quota h100-80gb-sxm-ib does not allow" in told
            assert f"{quota['used']} of {quota['used'] + 8} used" in told
            assert "capacity" not in told
        assert not named(cloud, "KubernetesNodePool", "gpus")


class TestCancel:
    def cancelled(self, plugin: Plugin, work: Callable[[], object], ready: Callable[[], bool]) -> FailedError:
        """Cancel while `work` waits; returns how it ended, within two seconds."""
        errors: list[FailedError] = []

        def go() -> None:
            try:
                work()
            except FailedError as error:
                errors.append(error)

        thread = threading.Thread(target=go)
        thread.start()
        until(ready, 20, "the request")
        time.sleep(0.2)
        started = time.monotonic()
        plugin.call("Cancel", Empty())
        thread.join(10)
        assert time.monotonic() - started < 2
        return errors[0]

    @pytest.mark.parametrize("kind", ["StorageDisk", "KubernetesNodePool"])
    def test_a_create_reports_id_and_state_and_the_next_run_goes_on(
        self, cloud: Cloud, plugin: Plugin, ground: Ground, kind: str
    ) -> None:
        inputs = program(kind, "cancelled", plugin, ground)
        cloud.fault(f"POST .../{PATHS[kind].rpartition('/')[2]}", "stall-operation", times=1)
        resource = plugin.resource(kind, "cancelled")
        error = self.cancelled(plugin, lambda: resource.up(inputs), lambda: bool(named(cloud, kind, "cancelled")))
        (there,) = named(cloud, kind, "cancelled")
        assert error.partial is not None
        assert error.partial.id == there["id"]
        assert f"exists as {there['id']}" in error.message
        assert "IN_PROGRESS" in error.message
        cloud.admin("DELETE", "/faults")
        with plugin_for(cloud) as fresh:
            resource.plugin = fresh
            assert resource.up(inputs) == "update"
            assert len(named(cloud, kind, "cancelled")) == 1
            resource.destroy()

    def test_a_slow_answer_ends_too(self, cloud: Cloud, plugin: Plugin) -> None:
        network = plugin.resource("VpcNetwork", "slow")
        network.up({"name": "slow", "cidr": "10.60.0.0/16"})
        cloud.fault("GET .../vpc-networks/*", "slow", seconds=30)
        error = self.cancelled(plugin, network.refresh, lambda: True)
        assert error.code is grpc.StatusCode.CANCELLED
        cloud.admin("DELETE", "/faults")
        with plugin_for(cloud) as fresh:
            network.plugin = fresh
            network.destroy()

    def test_an_update_is_sent_again_by_the_next_run(self, cloud: Cloud, plugin: Plugin) -> None:
        inputs = {"name": "grown", "location": LOCATION, "size": "1GiB"}
        disk = plugin.resource("StorageDisk", "grown")
        disk.up(inputs)
        cloud.fault("PATCH .../disks/*", "stall-operation", times=1)
        larger = {**inputs, "size": "2GiB"}
        error = self.cancelled(plugin, lambda: disk.up(larger), lambda: bool(cloud.requests("PATCH", "/disks/")))
        assert error.partial is not None
        cloud.admin("DELETE", "/faults")
        with plugin_for(cloud) as fresh:
            disk.plugin = fresh
            assert disk.up(larger) == "update"
            assert disk.outputs["size"] == "2GiB"
            assert disk.preview(larger)[:2] == ("same", {})
            disk.destroy()


def test_a_renamed_resource_keeps_its_object(cloud: Cloud, plugin: Plugin) -> None:
    inputs = {"name": "renamed", "cidr": "10.70.0.0/16", "adoptExisting": True}
    old = plugin.resource("VpcNetwork", "old")
    old.up(inputs)
    with plugin_for(cloud) as fresh:
        new = fresh.resource("VpcNetwork", "new")
        new.up(inputs)
        old.plugin = fresh
        old.destroy()
        assert [one["id"] for one in named(cloud, "VpcNetwork", "renamed")] == [new.id]
        assert any(warning.startswith("Kept the VPC network renamed") for warning in fresh.log.warnings)
    with plugin_for(cloud) as last:
        new.plugin = last
        new.destroy()


def test_a_resource_of_the_wrong_kind_of_state_is_read_anew(cloud: Cloud, plugin: Plugin) -> None:
    network = plugin.resource("VpcNetwork", "bare")
    network.up({"name": "bare", "cidr": "10.80.0.0/16"})
    bare = Resource(plugin, "VpcNetwork", "bare", id=network.id, inputs=network.inputs)
    assert bare.refresh() == {}
    assert bare.outputs == network.outputs
    network.destroy()
    assert not named(cloud, "VpcNetwork", "bare")
