"""The pack under the real CLI, over bad programs and over the shipped stacks, judged by the cloud's own log."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies import examples
from tests.harness import ROOT, VIRTUALENV, Cloud, Json, Project, Result, running_cloud
from tests.policy.stand_alone import built

pytestmark = pytest.mark.integration

PACK = str(ROOT / "policies")
NETWORK: Json = {
    "type": "crusoe:index:VpcNetwork",
    "name": "network",
    "properties": {"name": "team-network", "cidr": "10.7.0.0/16"},
}
RULE: Json = {
    "type": "crusoe:index:VpcFirewallRule",
    "name": "ssh",
    "properties": {
        "name": "team-ssh",
        "vpcNetworkId": "00000000-0000-4000-8000-00000000aaaa",
        "action": "allow",
        "direction": "ingress",
        "protocols": ["tcp"],
        "sources": ["0.0.0.0/0"],
        "destinations": ["10.7.0.0/16"],
        "destinationPorts": ["22"],
    },
}


def pool(name: str = "gpu", **properties: Any) -> Json:
    given = {
        "name": f"team-{name}",
        "clusterId": "00000000-0000-4000-8000-00000000bbbb",
        "type": "l40s-48gb.10x",
        "count": 1,
        "publicIpType": "none",
        **properties,
    }
    return {"type": "crusoe:index:KubernetesNodePool", "name": name, "properties": given}


DISK: Json = {
    "type": "crusoe:index:StorageDisk",
    "name": "home",
    "properties": {"name": "team-home", "location": "us-east1-a", "type": "shared-volume", "size": "1TiB"},
}


class Small(Project):
    """A project with a program of resources that a test names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shutil.copy(Path(__file__).with_name("program.py"), self.folder / "__main__.py")
        shipped: Json = yaml.safe_load((self.folder / "Pulumi.yaml").read_text())
        content = {"name": "small", "runtime": shipped["runtime"], "plugins": shipped["plugins"]}
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump(content))
        config = {"crusoe:project": "local", "crusoe:endpoint": self.cloud.endpoint}
        self.stack_file.write_text(yaml.safe_dump({"config": config}))
        self.variables["PULUMI_OPTION_POLICY_PACK"] = PACK

    def declare(self, *resources: Json) -> None:
        (self.folder / "resources.json").write_text(json.dumps(resources))

    def configure(self, config: Json) -> list[str]:
        file = self.folder / "policies.json"
        file.write_text(json.dumps(config))
        return ["--policy-pack-config", str(file)]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@pytest.fixture
def small(cloud: Cloud, tmp_path: Path) -> Small:
    project = Small(tmp_path / "small", cloud, "team")
    project.init()
    cloud.forget_requests()
    return project


def asked_for(cloud: Cloud) -> list[str]:
    """What the cloud was asked to make, change or delete."""
    return [f"{one['method']} {one['path']}" for one in cloud.requests() if one["method"] != "GET"]


def refused_by(result: Result) -> set[str]:
    """The policies that the CLI's report says to have refused."""
    lines = (line.split() for line in result.text.splitlines() if line.strip().startswith("- [mandatory]"))
    return {words[2] for words in lines}


# Each stops an `up` before the request: what the resource would be is all that the policy needs to know.
STOPPED: dict[str, tuple[list[Json], set[str]]] = {
    "a slice": ([pool(type="a100-80gb.2x")], {"gpu-pool-whole-host"}),
    "nodes with public addresses": ([pool(publicIpType="dynamic")], {"gpu-node-public-ip"}),
    "SSH for everybody": ([RULE], {"network-ingress-open"}),
    "a zero too many": ([pool(count=2000)], {"gpu-limit-pool"}),
    "hosts apart": ([pool(type="h100-80gb-sxm-ib.8x", count=4)], {"fabric-partition"}),
    "made before it is deleted": ([{**DISK, "deleteBeforeReplace": False}], {"named-delete-before-replace"}),
    "a credential in a label": (
        [pool(nodeLabels={"token": "ghp_" + "a1B2c3D4e5F6" * 3})],
        {"secret-in-clear"},
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_an_up_of_a_bad_program_asks_the_cloud_for_nothing(small: Small, name: str) -> None:
    resources, policies = STOPPED[name]
    small.declare(*resources)
    up = small.up(check=False)
    assert up.code != 0
    assert refused_by(up) == policies, up.text
    for policy in policies:
        assert f"docs/policies.md#{policy}" in up.text
    assert asked_for(small.cloud) == []
    assert [one["type"] for one in small.resources() if one["type"].startswith("crusoe:")] == []


def test_a_program_that_knows_only_kubernetes_is_guarded_too(small: Small) -> None:
    """Its objects would be written to a folder, which stays empty."""
    rendered = small.folder / "rendered"
    content: Json = yaml.safe_load(small.stack_file.read_text())
    content["config"]["kubernetes:renderYamlToDirectory"] = str(rendered)
    small.stack_file.write_text(yaml.safe_dump(content))
    deployment = examples.object_of(
        "apps/v1:Deployment",
        "chat",
        apiVersion="apps/v1",
        kind="Deployment",
        metadata={"name": "chat", "namespace": "chat"},
        spec={
            "replicas": 1,
            "selector": {"matchLabels": {"app": "chat"}},
            "template": {
                "metadata": {"labels": {"app": "chat"}},
                "spec": {"containers": [examples.gpu_container(image="vllm/vllm-openai:latest")]},
            },
        },
    )
    small.declare({**deployment, "deleteBeforeReplace": None})
    up = small.up(check=False)
    assert up.code != 0
    assert refused_by(up) == {"image-pinned"}, up.text
    assert not [path for path in rendered.rglob("*") if path.is_file()]


def test_the_pack_made_for_others_runs_by_itself_under_the_cli(small: Small, tmp_path: Path) -> None:
    built(folder := tmp_path / "pack")
    small.variables["PULUMI_OPTION_POLICY_PACK"] = str(folder)
    small.declare(pool(type="a100-80gb.2x"))
    up = small.up(check=False)
    assert refused_by(up) == {"gpu-pool-whole-host"}, up.text
    # The command line leaves out the middle of a long path.
    assert re.search(rf"\(local: \S*/{tmp_path.name}/pack\)", up.text), up.text
    assert asked_for(small.cloud) == []


def test_what_was_unknown_in_the_preview_is_refused_before_its_request(small: Small) -> None:
    rule = {**RULE, "properties": {**RULE["properties"], "sources": ["later:0.0.0.0/0"]}}
    small.declare(NETWORK, rule)
    preview = small.pulumi("preview", "-s", small.stack)
    assert "network-ingress-open" in preview.text
    assert "can't be checked until up: sources[0] is not known in a preview" in preview.text
    up = small.up(check=False)
    assert up.code != 0
    assert refused_by(up) == {"network-ingress-open"}
    assert [path.rsplit("/", 1)[-1] for path in asked_for(small.cloud)] == ["vpc-networks"]
    small.declare()
    small.up()


def test_a_stack_policy_stops_an_up_at_its_preview(small: Small) -> None:
    small.declare(pool("a"), pool("b"))
    limit = small.configure({"gpu-limit-stack": {"maxGpus": 15}})
    up = small.pulumi("up", "--yes", "-s", small.stack, *limit, check=False)
    assert up.code != 0
    assert refused_by(up) == {"gpu-limit-stack"}, up.text
    assert asked_for(small.cloud) == []


def test_an_exemption_is_of_one_resource_until_a_day(small: Small) -> None:
    """C18: A is exempted, B breaks the same rule; A is renamed; the day passes; the resource is gone."""
    rule = "gpu-pool-whole-host"
    a, b = pool("pool-a", type="a100-80gb.2x"), pool("pool-b", type="a100-80gb.2x")

    def preview(*resources: Json, expires: str = "2999-12-31", resource: str = "pool-a") -> Result:
        small.declare(*resources)
        exemption = {"resource": resource, "reason": "moves in spring", "expires": expires}
        return small.pulumi(
            "preview", "-s", small.stack, *small.configure({rule: {"exemptions": [exemption]}}), check=False
        )

    live = preview(a)
    assert live.code == 0, live.text
    assert "gpu-pool-whole-host on pool-a: left alone until 2999-12-31: moves in spring" in live.text

    both = preview(a, b)
    assert both.code != 0
    assert refused_by(both) == {rule}
    assert f"{rule}  (crusoe:index:KubernetesNodePool: pool-b)" in both.text
    assert f"{rule}  (crusoe:index:KubernetesNodePool: pool-a)" not in both.text

    renamed = preview({**a, "name": "pool-a2"})
    assert refused_by(renamed) == {rule}
    assert "there is no such resource in this stack" in renamed.text

    late = preview(a, expires="2020-01-31")
    assert refused_by(late) == {rule}
    assert "Its exemption ended on 2020-01-31: moves in spring" in late.text

    gone = preview(pool(), resource="pool-z")
    assert gone.code == 0
    assert "gpu-pool-whole-host on pool-z: there is no such resource in this stack" in gone.text
    assert asked_for(small.cloud) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"gpu-pool-whole-hosts": "advisory"}, "gpu-pool-whole-hosts: there is no such policy"),
        ({"gpu-pool-whole-host": {"exemptions": [{"resource": "gpu"}]}}, "expires is required"),
        ({"gpu-limit-pool": {"maxGpus": "many"}}, "maxGpus"),
    ],
    ids=["a policy that is none", "an exemption without end", "a parameter of another type"],
)
def test_a_malformed_configuration_is_an_error(small: Small, config: Json, said: str) -> None:
    small.declare(DISK)
    up = small.up(*small.configure(config), check=False)
    assert up.code != 0
    assert said in up.text
    assert asked_for(small.cloud) == []


def test_the_packs_own_file_is_read_and_a_malformed_one_is_an_error(small: Small, tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for part in ("policies", "crusoe/catalog.py", "crusoe/catalog.yaml", "crusoe/__init__.py", "crusoe/rules"):
        (copy / part).parent.mkdir(parents=True, exist_ok=True)
        copied: Callable[..., object] = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copied(ROOT / part, copy / part)
    (copy / ".venv").symlink_to(VIRTUALENV)
    small.variables["PULUMI_OPTION_POLICY_PACK"] = str(copy / "policies")
    small.declare(pool(type="a100-80gb.2x"))
    (copy / "policies/config.json").write_text(json.dumps({"gpu-pool-whole-host": "advisory"}))
    assert small.pulumi("preview", "-s", small.stack).code == 0
    (copy / "policies/config.json").write_text(json.dumps({"gpu-pool-whole-host": "perhaps"}))
    malformed = small.pulumi("preview", "-s", small.stack, check=False)
    assert malformed.code != 0
    assert "'perhaps' is none of advisory, mandatory, disabled" in malformed.text


@pytest.mark.parametrize("shipped", ["dev", "staging", "prod"])
def test_a_shipped_stack_passes_with_no_exemption(cloud: Cloud, tmp_path: Path, shipped: str) -> None:
    project = Project(tmp_path / shipped, cloud, shipped, {"PULUMI_OPTION_POLICY_PACK": PACK})
    project.use_settings(shipped, {"protect": shipped != "dev"}, slurm=True)
    project.init()
    preview = project.pulumi("preview", "-s", shipped)
    assert "crusoe-gpu-platform@v" in preview.text
    assert refused_by(preview) == set()
    assert "exemption-" not in preview.text
    assert "can't be checked until up" not in preview.text
