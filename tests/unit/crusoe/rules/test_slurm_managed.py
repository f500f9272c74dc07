"""Crusoe Managed Slurm: names, keys, the shared /home, fabrics, and changes that need consent."""

from __future__ import annotations

import pytest

from crusoe.rules import slurm_managed as rules
from crusoe.rules import slurm_workers, ssh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYzZmFrZWtleWZvcnRlc3RzMDEyMzQ1Njc4OTAx ada@example.com"
IB, SLICE, WHOLE = "h100-80gb-sxm-ib.8x", "a100-80gb.1x", "a100-80gb.8x"
CLUSTER = {"name": "lab", "rootSshPublicKeys": [KEY]}


class TestNames:
    @pytest.mark.parametrize("name", ["lab", "a" * 35, None, "x1-y2"])
    def test_right_ones(self, name: object) -> None:
        assert rules.cluster_name("p", name) == []

    @pytest.mark.parametrize(
        ("name", "fix"),
        [
            ("a" * 36, f"Shorten it, for example to {'a' * 35!r}"),
            ("Lab", "Write 'lab'"),
            ("a" * 64, f"Shorten it, for example to {'a' * 63!r}"),
        ],
    )
    def test_wrong_ones(self, name: str, fix: str) -> None:
        (found,) = rules.cluster_name("p", name)
        assert found.fix == fix

    def test_a_workers_host_name_has_to_fit(self) -> None:
        cluster = "c" * 35
        assert rules.node_set_name("p", "n" * 25, cluster, 10) == []
        (found,) = rules.node_set_name("p", "n" * 25, cluster, 11)
        assert found.fix.startswith("Shorten it to 24 characters")
        assert rules.node_set_name("p", "n" * 25, None, 11) == []

    def test_names_of_other_pods_are_taken(self) -> None:
        (found,) = rules.node_set_name("p", "login")
        assert found.fix == "Call it 'login-nodes'"


class TestKeys:
    def test_one_is_needed(self) -> None:
        assert rules.root_keys("p", [KEY, "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ=="]) == []
        (found,) = rules.root_keys("p", [])
        assert "without a key of root" in found.problem

    @pytest.mark.parametrize("key", ["~/.ssh/id_ed25519.pub", "ssh-ed25519", "ssh-dss AAAAB3NzaC1kc3MAAACBAI", "a\nb"])
    def test_what_is_none(self, key: str) -> None:
        (found,) = rules.root_keys("p", [KEY, key])
        assert found.path == "p[1]"
        assert "not an SSH public key" in found.problem

    def test_a_private_key_is_named_and_not_shown(self) -> None:
        (found,) = ssh.public_key("p", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk")
        assert "private key" in found.problem
        assert "b3Blb" not in str(found)


class TestHome:
    @pytest.mark.parametrize("size", ["1Ti", "10Ti", "1000Ti", "10240Gi", "1099511627776", "", None, 5])
    def test_right_sizes(self, size: object) -> None:
        assert rules.home_size("p", size) == []

    @pytest.mark.parametrize(
        ("size", "fix"),
        [
            ("10TiB", "Write '10Ti'"),
            ("1500GiB", "Write '2Ti'"),
            ("1.5Ti", "Write '2Ti'"),
            ("big", "Write '10Ti'"),
            ("10T", "Write '10Ti'"),
            ("1500Gi", "Write '2Ti'"),
            ("1Pi", "Write '1000Ti'"),
            ("0Ti", "Write '1Ti', or '' for no shared /home"),
        ],
    )
    def test_wrong_sizes(self, size: str, fix: str) -> None:
        assert [found.fix for found in rules.home_size("p", size)] == [fix]

    def test_sizes_compare_by_bytes(self) -> None:
        assert rules.home_bytes("10Ti") == rules.home_bytes("10240Gi") == 10 * 1024**4
        assert (rules.home_bytes(""), rules.home_bytes("10TiB"), rules.home_bytes(None)) == (0, None, None)

    def test_slices_can_not_mount_it(self) -> None:
        (found,) = rules.home_mount("p", SLICE, "10Ti")
        assert "can't mount the shared /home" in found.problem
        assert f"Use the whole host, {WHOLE!r}" in found.fix
        assert rules.home_mount("p", SLICE, None) != [], "left out, there is one"
        assert rules.home_mount("p", SLICE, "") == []
        assert rules.home_mount("p", WHOLE, "10Ti") == rules.home_mount("p", "c1a.8x", "10Ti") == []


class TestNodes:
    def test_login_runs_on_cpu_types(self) -> None:
        assert rules.login_node_type("p", "c1a.4x") == rules.login_node_type("p", "new.4x") == []
        assert "has GPUs" in rules.login_node_type("p", IB)[0].problem

    def test_a_login_pod_is_needed(self) -> None:
        assert rules.login_replicas("p", 1) == []
        assert rules.login_replicas("p", 0)[0].fix == "Write 1"

    def test_a_fabric_needs_a_partition_and_only_a_fabric(self) -> None:
        assert "needs a partition" in rules.partition("p", IB, None)[0].problem
        assert rules.partition("p", IB, "id") == rules.partition("p", WHOLE, None) == []
        assert "has no InfiniBand" in rules.partition("p", WHOLE, "id")[0].problem


class TestChanges:
    def test_a_replacement_needs_consent_and_says_what_it_costs(self) -> None:
        (found,) = rules.replacement("p", "lab", ["location", "loginReplicas"], None)
        assert "can't change location and loginReplicas" in found.problem
        assert "destroys its shared /home, its queue" in found.problem
        assert "replaceOnChange: true" in found.fix
        assert rules.replacement("p", "lab", ["location"], True) == []
        assert rules.replacement("p", "lab", [], None) == []

    def test_fewer_nodes_need_consent(self) -> None:
        (found,) = rules.scale_down("p", running=4, wanted=1, allow=False)
        assert found.problem.startswith("3 of 4 nodes would go")
        assert rules.scale_down("p", running=4, wanted=1, allow=True) == []
        assert rules.scale_down("p", running=4, wanted=4, allow=None) == []
        assert rules.scale_down("p", running=None, wanted=4, allow=None) == []


class TestTogether:
    def test_of_a_cluster(self) -> None:
        assert rules.cluster("p", CLUSTER) == []
        wrong: dict[str, object] = {"name": "Lab", "rootSshPublicKeys": [], "homeVolumeSize": "1Gi", "loginReplicas": 0}
        found = {one.path for one in rules.cluster("p", {**wrong, "loginNodeType": IB})}
        assert found == {f"p.{name}" for name in [*wrong, "loginNodeType"]}
        assert "is not a VM type" in rules.cluster("p", {**CLUSTER, "loginNodeType": "c9z.4x"})[0].problem

    def test_of_a_node_set(self) -> None:
        right = {"name": "train", "type": IB, "count": 2, "transportPartitionId": "id"}
        assert rules.node_set("p", right, CLUSTER) == []
        wrong = {"name": "all", "type": SLICE, "count": 2, "minCount": 3}
        assert {one.path for one in rules.node_set("p", wrong, CLUSTER)} == {"p.name", "p.type", "p.minCount"}
        assert {one.path for one in rules.node_set("p", wrong)} == {"p.name", "p.minCount"}


def test_no_more_workers_have_to_be_ready_than_there_are() -> None:
    assert slurm_workers.min_ready("p", 3, 2)[0].fix == "Write 2"
    assert slurm_workers.min_ready("p", 2, 2) == slurm_workers.min_ready("p", 2, None) == []
