"""The console of a whole local cloud: a GPU is broken from a page, and another tells of the repair as it happens."""

from __future__ import annotations

import json
import subprocess

import pytest
from playwright.sync_api import Browser, expect

from tests import processes
from tests.browsing import page
from tests.harness import Cloud
from tools.toolchain import binary

pytestmark = pytest.mark.integration
TYPE = "l40s-48gb.10x"


class Settled:
    """The cloud with one cluster, and its pages."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.url = f"http://127.0.0.1:{cloud.port}/console/"
        self.cluster_id = cloud.settle({TYPE: 2, "c1a.8x": 1})
        self._config = str(cloud.kubeconfig(self.cluster_id))
        rows = [{"issue_name": "XID_79", "action": "REPLACE_NODE"}]
        path = f"/kubernetes/clusters/{self.cluster_id}/autoclusters/config"
        cloud.api("PATCH", path, {"set_remediation_overrides": rows})
        cloud.admin("PUT", "/autoclusters/settings", {"detect": 0.5, "cordon": 1, "grace": 30})

    def kubectl(self, *arguments: str) -> str:
        command = [str(binary("kubectl")), f"--kubeconfig={self._config}", "--request-timeout=20s", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def gpu_nodes(self) -> list[str]:
        vms = self.cloud.items("/compute/vms/instances")
        return sorted(vm["name"] for vm in vms if vm["type"] == TYPE)

    def run(self, node: str, name: str, gpus: int, **labels: str) -> None:
        """A pod with GPUs on a node, as a share of inference has them."""
        limits = {"nvidia.com/gpu": str(gpus)}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]}
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        file = self.cloud.state.parent / f"{name}.json"
        file.write_text(json.dumps(item))
        self.kubectl("apply", "-f", str(file))


@pytest.fixture(scope="module")
def settled(cloud: Cloud) -> Settled:
    return Settled(cloud)


def test_a_pod_and_a_cordon_are_seen_as_they_come(settled: Settled, browser: Browser) -> None:
    node = settled.gpu_nodes()[0]
    with page(browser) as shown:
        shown.goto(settled.url)
        expect(shown.locator(f"#n-{node}")).to_have_attribute("aria-label", f"{node}: free, 10 spare")
        settled.run(node, "chat", 4, **{"gpuplatform/part": "floor", "gpuplatform/share": "chat"})
        expect(shown.locator(f"#n-{node}")).to_have_attribute("aria-label", f"{node}: in use, 4 inference, 6 spare")
        settled.kubectl("cordon", node)
        label = f"{node}: closed, 4 inference, 6 out of service"
        expect(shown.locator(f"#n-{node}")).to_have_attribute("aria-label", label)
        settled.kubectl("uncordon", node)
        settled.kubectl("delete", "pod", "chat", "--now")
        expect(shown.get_by_role("status")).to_have_text("All well")


def test_a_gpu_broken_from_its_page_is_repaired_before_the_readers_eyes(settled: Settled, browser: Browser) -> None:
    node, other = settled.gpu_nodes()
    with page(browser) as watching:
        watching.goto(settled.url)
        with page(browser) as shown:
            shown.goto(f"{settled.url}nodes/{node}")
            shown.get_by_role("button", name="Break it…").click()
            expect(shown.locator("main")).to_contain_text("replace the machine")
            assert settled.cloud.admin("GET", "/incidents")["items"] == []
            shown.get_by_role("button", name="Yes, break GPU 0").click()
            expect(shown.locator(".repair")).to_be_visible()
        steps = watching.locator("#repairs-now .steps")
        expect(steps).to_contain_text("The fault is seen, and told.")
        expect(watching.get_by_role("status")).to_have_text("Healing")
        expect(watching.locator(f"#n-{node}")).to_have_class("cell s-repair look")
        expect(watching.locator("#repairs")).to_contain_text("The machine is replaced.")
        expect(watching.get_by_role("status")).to_have_text("All well")
        expect(watching.locator("#repairs table").last).to_contain_text("● done")
        expect(watching.locator("#notices")).to_contain_text("remediation succeeded, XID_79")
        assert node not in settled.gpu_nodes()
        expect(watching.locator(f"#n-{node}")).to_have_count(0)
        expect(watching.locator(f"#n-{other}")).to_be_visible()


def test_power_is_cut_and_given_back_from_a_nodes_page(settled: Settled, browser: Browser) -> None:
    node = settled.gpu_nodes()[-1]

    def power() -> str:
        return json.loads(settled.kubectl("get", "node", node, "-o", "json"))["metadata"]["annotations"].get(
            "local.crusoe.ai/power", ""
        )

    with page(browser) as shown:
        shown.goto(f"{settled.url}nodes/{node}")
        shown.get_by_role("button", name="Cut it…").click()
        shown.get_by_role("button", name="Yes, cut the power").click()
        expect(shown.get_by_role("status")).to_have_text("No power")
        assert power() == "off"
        shown.get_by_role("button", name="Give it back…").click()
        shown.get_by_role("button", name="Yes, give it back").click()
        expect(shown.get_by_role("status")).to_have_text("Free")
        assert power() == ""


def test_a_control_plane_that_is_gone_is_told_and_what_was_seen_stays(settled: Settled, browser: Browser) -> None:
    node = settled.gpu_nodes()[0]
    with page(browser) as shown:
        shown.goto(settled.url)
        expect(shown.locator(f"#n-{node}")).to_be_visible()
        settled.cloud.admin("PATCH", "/settings", {"watch_seconds": 0})
        for process in processes.mentioning(settled.cloud.state):
            if "kube-apiserver" in processes.command_line(process)[0]:
                process.kill()
        expect(shown.locator("#cluster-1 .note")).to_contain_text("Kubernetes does not answer")
        expect(shown.locator(f"#n-{node}")).to_be_visible()
        settled.cloud.up()
        expect(shown.locator("#cluster-1 .note")).to_have_count(0)
