"""Reports on real previews: as they were kept, judged by what the cloud then does, and without a secret in them."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from gitops import markdown
from gitops.model import Outcome
from tests import previews
from tests.harness import Cloud, Json, Project, execute
from tests.integration.conftest import NewProject
from tests.reporting import drift, gitops, outcome, report

pytestmark = pytest.mark.integration

FOREIGN = """
import pulumi
from pulumi_kubernetes import Provider
from pulumi_kubernetes.core.v1 import ConfigMap, Secret

config = pulumi.Config()


class Shop(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("shop:index:Shop", name)
        provider = Provider(f"{name}-cluster", kubeconfig=config.require_secret("kubeconfig"))
        within = pulumi.ResourceOptions(parent=self, provider=provider)
        key = {"jwt.key": config.require_secret("key")}
        Secret(f"{name}-key", metadata={"name": "key"}, string_data=key, opts=within)
        ConfigMap(f"{name}-about", metadata={"name": "about"}, data={"motto": config.require("motto")}, opts=within)


Shop("corner")
"""


def written(project: Project) -> str:
    """Everything that lies in the folder of reports."""
    return "\n".join(path.read_text() for path in sorted((project.folder / "out").iterdir()))


def forms(secret: str) -> set[str]:
    """How a secret may show: as it is, as JSON writes it, in base64; of a long one also each line."""
    encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
    lines = {line.strip() for line in secret.splitlines() if len(line.strip()) >= 24}
    return {secret, json.dumps(secret)[1:-1], encoded, *lines}


def leaks(secret: str, *texts: str) -> list[str]:
    return [form for form in forms(secret) for text in texts if form in text]


@pytest.fixture(scope="module")
def platform(new_project: NewProject) -> Project:
    """A stack that its tests find as the last one left it: up, or with the settings that it was judged by."""
    return new_project(previews.STACK)


def test_reports_are_as_they_were_kept_and_say_what_then_happens(platform: Project) -> None:
    seen: dict[str, previews.Kept] = {}
    for name, kept in previews.scenarios(platform):
        seen[name] = kept
        text = markdown.render(kept.report())
        assert text == (previews.KEPT / f"{name}.md").read_text(), f"{name}: record it with python -m tests.previews"
        if name == "protected":
            assert kept.report().verdict.outcome is Outcome.REFUSED
            platform.cloud.forget_requests()
            refused = platform.up(check=False)
            assert refused.code != 0
            assert "protected" in refused.text
            assert {one["method"] for one in platform.cloud.requests()} <= {"GET"}
    assert {path.stem for path in previews.KEPT.glob("*.md")} - seen.keys() == {"policies"}

    # The last one was the retired pool's: safe, so an `up` does it.
    [gone] = seen["retired"].report().losses
    assert gone.approved_by == "retire"
    platform.up()
    assert {pool["name"] for pool in platform.cloud.items("/kubernetes/nodepools")} == {"review-system"}


def test_no_part_of_a_kubeconfig_shows(platform: Project) -> None:
    kubeconfig = platform.outputs("--show-secrets")["kubeconfig"]
    user = yaml.safe_load(kubeconfig)["users"][0]["user"]
    key = base64.b64decode(user["client-key-data"]).decode()
    # The provider is replaced, so both its sides are told.
    told = report(platform, "--replace", _urn(platform, "platform-cluster-kubernetes"), "--refresh")
    drawn = gitops(platform, "diagram", "--stack", platform.stack, "--out", str(platform.folder / "out"))
    assert (told.code, drawn.code) == (0, 0), told.text + drawn.text
    assert "platform-cluster-kubernetes" in written(platform)
    for secret in (kubeconfig, key, user["client-key-data"]):
        assert leaks(secret, told.text, drawn.text, written(platform)) == []


def _urn(project: Project, name: str) -> str:
    return next(one["urn"] for one in project.resources() if one["urn"].endswith(f"::{name}"))


def test_a_secret_that_was_edited_by_hand_stays_hidden_in_a_foreign_program(platform: Project, folder: Path) -> None:
    shop = Project(folder / "shop", platform.cloud, "prod")
    content = yaml.safe_load((shop.folder / "Pulumi.yaml").read_text())
    (shop.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "shop", "runtime": content["runtime"]}))
    (shop.folder / "__main__.py").write_text(FOREIGN)
    shop.init()
    first, second, third = "first-canary-of-mine", 'second "canary" of theirs', "third-canary-of-mine"
    kubeconfig = platform.outputs("--show-secrets")["kubeconfig"]
    for name, value in (("kubeconfig", kubeconfig), ("key", first)):
        shop.pulumi("config", "set", "--secret", name, value)
    shop.pulumi("config", "set", "motto", "open all day")
    assert report(shop).code == 0
    assert leaks(first, written(shop)) == []
    shop.up()

    file = folder / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(kubeconfig)
    encoded = base64.b64encode(second.encode()).decode()
    patch = json.dumps({"data": {"jwt.key": encoded}})
    kubectl = ["kubectl", "--kubeconfig", str(file), "patch", "secret", "key", "--type=merge", "-p", patch]
    assert execute(kubectl, shop.folder, shop.environment()).code == 0
    shop.pulumi("config", "set", "--secret", "key", third)
    shop.pulumi("config", "set", "motto", "closed")

    told = report(shop, "--refresh")
    assert told.code == 0, told.text
    for secret in (first, second, third, encoded):
        assert leaks(secret, told.text, written(shop)) == [], secret
    assert "`default/key`, key `jwt.key`: nothing in this plan reads it" in written(shop), "which key changes is told"
    assert "<b>corner (Shop)</b>" in written(shop)
    shop.destroy()


def test_the_shipped_prod_is_as_the_readme_shows_it(cloud: Cloud, folder: Path) -> None:
    kept = previews.prod(folder, cloud)
    told = kept.report()
    assert told.verdict.outcome is Outcome.SAFE
    [gpus] = told.gpus
    assert str(gpus.gpus_after) == "256"
    assert previews.picture(kept) == previews.PICTURE.read_text(), "draw it anew with python -m tests.previews"


SMALL: Json = {"nodePools": {"train": None}, "network": {"infiniband": None}, "storage": None}
"""Changes of `dev` that leave a network, a cluster and one pool."""


def test_what_policies_say_is_in_the_report_and_refuses(cloud: Cloud, folder: Path) -> None:
    told = previews.refused(folder, cloud).report()
    assert told.verdict.outcome is Outcome.REFUSED
    assert told.packs.keys() == {"crusoe-gpu-platform"}
    refusing = {one.policy for one in told.policies if one.level == "mandatory"}
    assert refusing == {"production-protected"}
    assert "platform-cluster-cmk" in {one.name for one in told.policies}


def test_drift_is_what_a_person_changed_and_the_check_changes_nothing(new_project: NewProject) -> None:
    project = new_project("drifting")
    project.use_settings("dev", SMALL)
    project.up()
    told = drift(project)
    assert (told.code, outcome(project)) == (0, "safe"), told.text

    rules = "/networking/vpc-firewall-rules"
    [rule] = [one for one in project.cloud.items(rules) if one["name"] == "drifting-intra-vpc"]
    project.cloud.api("PATCH", f"{rules}/{rule['id']}", {"sources": [{"cidr": "0.0.0.0/0"}]})
    before = project.exported()
    project.cloud.forget_requests()
    told = drift(project)
    assert (told.code, outcome(project)) == (12, "drift"), told.text
    [change] = json.loads((project.folder / "out/report.json").read_text())["changes"]
    assert change["name"] == "platform-network-intra-vpc"
    [source] = change["properties"]
    assert ("0.0.0.0/0" in source["old"], "10.0.0.0/16" in source["new"]) == (True, True)
    assert project.exported() == before
    assert {one["method"] for one in project.cloud.requests()} <= {"GET"}

    # Undone as the report says.
    assert "`make up STACK=drifting ARGS=--refresh`" in told.out
    project.up("--refresh")
    assert drift(project).code == 0

    # Kept by writing it down, although no `up` would have undone it as it is.
    [pool] = [one for one in project.cloud.items("/kubernetes/nodepools") if one["name"] == "drifting-system"]
    raised = f"/kubernetes/nodepools/{pool['id']}"
    project.cloud.api("PATCH", raised, {"count": 3})
    told = drift(project)
    assert (told.code, outcome(project)) == (12, "drift"), told.text
    content = json.loads((project.folder / "out/report.json").read_text())
    [change] = content["changes"]
    [count] = change["properties"]
    assert (change["name"], count["path"], count["old"], count["new"]) == ("platform-pools-system", "count", "3", "2")
    assert any("would leave 1 of 3 VMs running" in reason for reason in content["verdict"]["reasons"])
    assert project.up("--refresh", check=False).code != 0, "an update refuses what a check only names"
    project.change_settings({"nodePools": {"system": {"count": 3}}})
    told = drift(project)
    assert told.code == 0, told.text
    project.up("--refresh")

    # Undone as the sentence says.
    project.cloud.api("PATCH", raised, {"count": 4})
    project.change_settings({"nodePools": {"system": {"leaveVmsOnScaleDown": True}}})
    project.up("--refresh")
    assert project.cloud.api("GET", raised)["count"] == 3
    assert drift(project).code == 0
    project.destroy()


def test_only_what_was_reported_is_deployed_also_on_an_empty_stack(new_project: NewProject) -> None:
    project = new_project("planned")
    project.use_settings("dev", SMALL)
    plan = project.folder / "plan.json"
    assert report(project, "--save-plan", str(plan)).code == 0

    project.change_settings({"nodePools": {"system": {"count": 3}}})
    refused = project.pulumi("up", "--yes", "-s", project.stack, f"--plan={plan}", check=False)
    assert refused.code != 0
    assert "violates plan" in refused.text
    assert project.cloud.items("/kubernetes/clusters") == [
        one for one in project.cloud.items("/kubernetes/clusters") if not one["name"].startswith("planned-")
    ]

    project.use_settings("dev", SMALL)
    project.pulumi("up", "--yes", "-s", project.stack, f"--plan={plan}")
    assert report(project).code == 0
    assert json.loads((project.folder / "out/report.json").read_text())["changes"] == []
    project.destroy()


def test_bad_input_is_never_green(platform: Project, folder: Path) -> None:
    none = gitops(platform, "report", "--stack", "nosuch", "--out", str(platform.folder / "out"))
    assert (none.code, outcome(platform)) == (21, "no-such-stack")

    keyless = report(platform, CRUSOE_ACCESS_KEY_ID="", CRUSOE_SECRET_KEY="")
    assert (keyless.code, outcome(platform)) == (22, "no-credentials")
    assert "fork" in keyless.out
    assert report(platform, CRUSOE_SECRET_KEY="d3Jvbmc").code == 22
    assert report(platform, PULUMI_CONFIG_PASSPHRASE="wrong").code == 22
    assert report(platform, PULUMI_BACKEND_URL="https://api.pulumi.com").code == 22

    digest = folder / "digest.json"
    digest.write_text(platform.pulumi("preview", "--json", "-s", platform.stack).out)
    assert report(platform, "--events", str(digest)).code == 23
    assert outcome(platform) == "other-version"
    update = folder / "update.jsonl"
    update.write_text(platform.pulumi("up", "--json", "--yes", "--skip-preview", "-s", platform.stack).out)
    assert report(platform, "--events", str(update)).code == 23

    kept = platform.folder / "out/report.json"
    assert gitops(platform, "show", str(kept)).code == 23
    kept.write_text(kept.read_text().replace('"format": 1', '"format": 99'))
    shown = gitops(platform, "show", str(kept))
    assert shown.code == 23
    assert "format 99" in shown.out

    # The file is YAML, and the program refuses it.
    platform.change_settings({"nodePools": {"system": {"type": "no-such-type"}}})
    broken = report(platform)
    assert (broken.code, outcome(platform)) == (20, "preview-failed")
    assert "platform.nodePools.system.type" in broken.out

    assert gitops(platform, "report", "--stack", "x", PATH=os.defpath).code == 20
    elsewhere = execute([sys.executable, "-m", "gitops", "report", "--stack", "x"], folder, platform.environment())
    assert elsewhere.code == 20
    assert "Pulumi.yaml" in elsewhere.err
