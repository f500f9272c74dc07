"""Every step of the day-two runbooks, read out of the pages, on one small environment from its adoption to its end.

The tests are the chapters of one life and run in their order.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from localcloud.keys import load_or_make
from tests import processes
from tests.harness import Cloud, Json, Project, ended, free_port, leftovers, until
from tests.runbooks import FOLDER, Shell, blocks

pytestmark = pytest.mark.integration

RULES, CLUSTERS, POOLS = "/networking/vpc-firewall-rules", "/kubernetes/clusters", "/kubernetes/nodepools"
BY_HAND = {"backup-slurm-state.md", "rotate-slurm-keys.md", "upgrade-slinky.md", "upgrade-slurm.md"}
"""Runbooks of Slurm, which tests of Slurm's own cover."""

LAB: Json = {
    "nodePools": {"train": None, "system": {"name": "lab-cpus"}},
    "network": {"infiniband": None},
    "storage": None,
}


class Life:
    """What the chapters share."""

    def __init__(self, folder: Path) -> None:
        # A project may have two keys for as long as one of them is being replaced.
        self.state = folder / "cloud"
        self.state.mkdir()
        load_or_make(self.state, ("local", "other"))
        keys = json.loads((self.state / "keys.json").read_text())
        self.new_key: Json = {**keys["keys"][0], "id": "LOCALTHENEXTKEY", "secret": "bmV4dC1zZWNyZXQtb2YtdGhlLWtleQ"}
        keys["keys"].insert(0, self.new_key)
        (self.state / "keys.json").write_text(json.dumps(keys))
        self.cloud = Cloud(self.state, free_port())
        self.cloud.up()
        self.project = Project(folder / "day", self.cloud, "day")
        self.shell = Shell(self.project, {"PULUMI_CONFIG_PASSPHRASE": "the first passphrase"})

    def made(self, path: str, body: Json) -> str:
        """Makes something as the console would, and waits for it; its id."""
        answer = self.cloud.api("POST", path, body)
        operation = answer.get("operation")
        if operation is None:
            return next(iter(answer.values()))["id"]
        place = f"{path}/operations/{operation['operation_id']}"
        until(lambda: self.cloud.api("GET", place)["state"] != "IN_PROGRESS", 60, place)
        assert self.cloud.api("GET", place)["state"] == "SUCCEEDED"
        return next(one["id"] for one in self.cloud.items(path) if one["name"] == body["name"])


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Generator[Life]:
    life = Life(tmp_path_factory.mktemp("life"))
    try:
        yield life
    finally:
        life.cloud.down()


def test_every_runbook_is_listed_and_followed() -> None:
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    listed = (FOLDER / "README.md").read_text()
    assert all(f"({page})" in listed for page in pages)
    here = Path(__file__).read_text()
    assert {page for page in pages if f'blocks("{page}")' not in here} == BY_HAND


def test_adopt_what_was_made_in_the_console(life: Life) -> None:
    network = life.made("/networking/vpc-networks", {"name": "lab", "cidr": "10.40.0.0/16"})
    place = {"location": "us-east1-a", "vpc_network_id": network, "nat_gateway_enabled": True}
    subnet = life.made("/networking/vpc-subnets", {"name": "lab-nodes", "cidr": "10.40.0.0/20", **place})
    for name, direction, target in (("in", "ingress", "10.40.0.0/16"), ("out", "egress", "0.0.0.0/0")):
        ends = {"sources": [{"cidr": "10.40.0.0/16"}], "destinations": [{"cidr": target}]}
        ports = {"source_ports": ["1-65535"], "destination_ports": ["1-65535"], "protocols": ["tcp", "udp"]}
        rule = {"name": f"lab-{name}", "vpc_network_id": network, "action": "allow", "direction": direction}
        life.made(RULES, {**rule, **ends, **ports})
    cluster_body = {
        "name": "lab",
        "location": "us-east1-a",
        "version": "1.33.4-cmk.43",
        "subnet_id": subnet,
        "add_ons": ["crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"],
        "cluster_cidr": "10.232.0.0/14",
        "service_cluster_ip_range": "10.236.0.0/16",
        "node_cidr_mask_size": 24,
    }
    cluster = life.made(CLUSTERS, cluster_body)
    pool_body = {"name": "lab-cpus", "product_name": "c1a.8x", "count": 2, "cluster_id": cluster, "subnet_id": subnet}
    pool = life.made(POOLS, {**pool_body, "public_ip_type": "none", "node_pool_version": "1.33.4-cmk.43"})

    project, shell = life.project, life.shell
    project.use_settings("dev", LAB)
    assert shell.run('pulumi stack init "$STACK"').code == 0
    life.cloud.forget_requests()
    settings, find, look, go, nothing = blocks("adopt.md")
    told = shell.follow(settings, find)
    adopted = [line.split()[1] for line in told.err.splitlines() if line.startswith("adopted")]
    assert sorted(adopted) == ["KubernetesCluster", "KubernetesNodePool", "VpcNetwork", "VpcSubnet"]
    assert {one["method"] for one in life.cloud.requests()} == {"GET"}
    # A real difference is offered as a choice, and one that would cost the object is refused.
    project.change_settings({"nodePools": {"system": {"type": "c1a.16x"}}})
    differs = shell.run(look.text)
    assert differs.code != 0
    assert "protect" in differs.text
    project.change_settings({"nodePools": {"system": {"count": 3, "type": "c1a.8x"}}})
    assert "1 to update" in shell.follow(look).out
    shell.follow(settings)
    plan = shell.follow(look)
    assert "= 4 to import" in plan.out
    assert "to update" not in plan.out
    assert "to replace" not in plan.out
    shell.follow(go)
    # The ids that were left in change nothing.
    assert shell.run('pulumi up --yes --skip-preview --expect-no-changes --stack "$STACK"').code == 0
    shell.follow(nothing)
    # Nothing was replaced: the same objects, and no request that changes one of them.
    assert [one["id"] for one in life.cloud.items(CLUSTERS)] == [cluster]
    assert [one["id"] for one in life.cloud.items(POOLS)] == [pool]
    assert {one["method"] for one in life.cloud.requests() if POOLS in one["path"]} == {"GET"}


def test_rotate_access_key_and_passphrase(life: Life) -> None:
    shell = life.shell
    shell.exported["NEW_ACCESS_KEY_ID"] = life.new_key["id"]
    shell.exported["NEW_SECRET_KEY"] = life.new_key["secret"]
    shell.exported["NEW_PASSPHRASE"] = "the second passphrase"
    new_key, works, passphrase = blocks("rotate-keys.md")
    shell.follow(new_key, works)
    assert shell.exported["CRUSOE_ACCESS_KEY_ID"] == life.new_key["id"]
    assert shell.run("CRUSOE_SECRET_KEY=d3Jvbmc pulumi preview --stack $STACK").code != 0
    shell.follow(passphrase)
    assert shell.run('PULUMI_CONFIG_PASSPHRASE="the first passphrase" pulumi preview --stack $STACK').code != 0


def test_move_the_state(life: Life) -> None:
    shell, old = life.shell, life.project.folder / "backend"
    new = life.project.folder / "new-backend"
    new.mkdir()
    shell.exported["NEW_BACKEND"] = new.as_uri()
    life.cloud.forget_requests()
    shell.follow(*blocks("move-state.md"))
    assert {one["method"] for one in life.cloud.requests()} == {"GET"}
    assert not list((old / ".pulumi" / "stacks").rglob("day.json"))
    assert shell.environment()["PULUMI_BACKEND_URL"] == new.as_uri()
    assert shell.run('pulumi preview --stack "$STACK" --expect-no-changes').code == 0
    assert shell.run('pulumi config get state:backend --stack "$STACK"').out.strip() == new.as_uri()


def test_replace_a_pool(life: Life) -> None:
    shell = life.shell
    add, up, retire, drain, remove, removed = blocks("replace-a-pool.md")
    life.cloud.forget_requests()
    shell.follow(add, up)
    assert len(life.cloud.items(POOLS)) == 2
    shell.follow(retire, drain)
    assert life.cloud.requests("DELETE") == []
    shell.follow(remove, removed)
    assert [one["name"] for one in life.cloud.items(POOLS)] == ["day-system-2"]


def test_recover_from_a_killed_up(life: Life) -> None:
    shell, project = life.shell, life.project
    project.variables = shell.exported
    project.change_settings({"nodePools": {"more": {"type": "c1a.8x", "count": 1}}})
    life.cloud.forget_requests()
    life.cloud.fault("POST .../kubernetes/nodepools", "stall-operation")
    process = project.start("up", "--yes", "--skip-preview", "-s", project.stack)
    until(lambda: bool(life.cloud.requests("POST", POOLS)), 120, "the request for a pool")
    processes.kill(*processes.family(process.pid))
    ended(process, 30)
    life.cloud.admin("DELETE", "/faults")
    assert project.up(check=False).code != 0
    shell.follow(*blocks("recover-an-up.md"))
    assert sorted(one["name"] for one in life.cloud.items(POOLS)) == ["day-more", "day-system-2"]


def test_tear_down_after_an_up_that_failed_half_way(life: Life) -> None:
    shell, project = life.shell, life.project
    project.variables = shell.exported
    project.change_settings({"protect": True, "nodePools": {"never": {"type": "c1a.8x", "count": 3}}})
    life.cloud.fault("POST .../kubernetes/nodepools", "partial-capacity", vms=1)
    assert project.up(check=False).code != 0
    read, unprotect, see, destroy, left, gone = blocks("tear-down.md")
    shell.follow(read)
    refused = shell.run(destroy.text)
    assert refused.code != 0
    assert "protect" in refused.text
    found = shell.run(left.text)
    assert found.code != 0
    assert "KubernetesNodePool day-never" in found.out
    # What others have put into the network is theirs to take out.
    for rule in life.cloud.items(RULES):
        if rule["name"] in ("lab-in", "lab-out"):
            life.cloud.api("DELETE", f"{RULES}/{rule['id']}")
    shell.follow(unprotect, see, destroy, left, gone)
    assert leftovers(life.cloud) == {}
    assert project.stack_file.exists()
