"""The exporter beside a drill: it has the drill's figures, also killed in the middle, and says what it can't see."""

from __future__ import annotations

import base64
import time

import pytest

from tests.harness import until
from tests.integration.drills.conftest import Drilled, Ground
from tests.scraping import Watch

pytestmark = pytest.mark.integration
SECONDS = 3.0
"""How far a figure may be from what the drill saw: records count whole seconds, and the drill sees some late.

A tenth of the whole recovery comes on top of it, since both see later on a busy machine.
"""


def test_after_a_drill_it_has_the_drill_s_figures_although_it_was_killed_in_the_middle(
    ground: Ground, watch: Watch, drilled: Drilled
) -> None:
    before, drill = drilled.repairs, drilled.report
    figures = drill["figures"]
    # The job's own script may have put it back into the queue before the actor saw the fault: then nothing took time.
    figures.setdefault("requeue", 0.0)
    assert set(figures) == {"detect", "notify", "drain", "requeue", "replace", "resume", "total"}

    def stages() -> dict[str, float]:
        found = watch.scrape()("recovery_last_seconds", "pool", "stage")
        return {"requeue": 0.0} | {stage: value for (pool, stage), value in found.items() if pool == "train"}

    until(lambda: watch.scrape()("repairs_total", "pool", "outcome")[("train", "done")] == before + 1, 60, "the repair")
    until(lambda: set(stages()) == set(figures), 60, "all figures")
    told = stages()
    far = SECONDS + figures["total"] / 10
    wrong = {name: (told[name], figures[name]) for name in figures if abs(told[name] - figures[name]) > far}
    assert wrong == {}
    scraped = watch.scrape()
    assert scraped("recovery_steps_lost_sum", "pool")[("train",)] == max(drill["losses"]["lost"])
    assert scraped("recovery_seconds_count", "pool", "stage")[("train", "total")] == 1
    # Another exporter finds the same on record.
    watch.kill(ground.project.cloud.state)
    until(lambda: set(stages()) == set(figures), 60, "all figures again")
    assert stages() == told
    until(lambda: ("train", "done") in watch.scrape()("repairs_total", "pool", "outcome"), 60, "the repair again")
    assert watch.scrape()("repairs_total", "pool", "outcome")[("train", "done")] == before + 1


def test_all_sources_answer_and_a_quiet_stack_is_whole(watch: Watch) -> None:
    def answered() -> bool:
        found = watch.scrape()("source_last_success_timestamp_seconds", "source")
        return set(found) == {("autoclusters",), ("crusoe",), ("slurm",), ("kubernetes",)}

    until(answered, 60, "an answer of each source")
    found = watch.scrape()
    assert found("pool_nodes_wanted", "pool")[("train",)] == found("pool_nodes_ready", "pool")[("train",)] == 2
    assert set(found("node_gpus", "pool", "view")) >= {("train", view) for view in ("expected", "kubernetes", "slurm")}
    assert set(found("node_gpus", "node", "view").values()) == {8}
    assert found("slurm_node_drained", "node") == {}
    assert found("credential_accepted", "credential") == {("crusoe-api-key",): 1, ("slurm-token",): 1}
    expires = found("credential_expiry_timestamp_seconds", "credential")
    assert expires[("crusoe-api-key",)] == 4102358400
    assert 0 < expires[("slurm-token",)] - time.time() <= 3600


def test_its_token_of_slurm_can_change_nothing(ground: Ground, watch: Watch) -> None:
    encoded = watch.kubectl("-n", "slurm", "get", "secret", "slurm-token-exporter", "-o", "jsonpath={.data.*}").out
    token = base64.b64decode(encoded).decode()
    script = f"""\
import json, urllib.error, urllib.request
for path, body in (("nodes/", None), ("node/train-0", {{"state": ["DRAIN"], "reason": "no"}})):
    request = urllib.request.Request(
        "http://slurm-restapi:6820/slurm/v0.0.45/" + path,
        json.dumps(body).encode() if body else None,
        {{"X-SLURM-USER-TOKEN": {token!r}, "Content-Type": "application/json"}},
    )
    try:
        print(path, urllib.request.urlopen(request, timeout=20).status)
    except urllib.error.HTTPError as error:
        print(path, error.code, "Access/permission denied" in error.read().decode())
"""
    said = ground.site.slurm("python3", "-c", script).out.split("\n")
    assert said[0] == "nodes/ 200"
    assert said[1].startswith("node/train-0 ")
    assert not said[1].startswith("node/train-0 200")
    assert not any("DRAIN" in state for state in ground.site.states().values())


def test_what_a_source_said_vanishes_when_it_is_away_and_the_others_go_on(ground: Ground, watch: Watch) -> None:
    assert watch.scrape()("repairs_total", "pool")
    ground.project.cloud.fault("GET .../autocluster-operations", "http-503")
    until(lambda: not watch.scrape()("repairs_total", "pool"), 60, "the end of what AutoClusters said")
    first = watch.scrape()("source_last_success_timestamp_seconds", "source")
    until(
        lambda: watch.scrape()("source_last_success_timestamp_seconds", "source")[("slurm",)] > first[("slurm",)] + 1,
        60,
        "another answer of Slurm",
    )
    found = watch.scrape()
    last = found("source_last_success_timestamp_seconds", "source")
    assert last[("autoclusters",)] == first[("autoclusters",)]
    assert found("pool_nodes_ready", "pool")[("train",)] == 2
    assert found("source_configured", "source")[("autoclusters",)] == 1
    assert "autoclusters" in watch.log()
    ground.project.cloud.admin("DELETE", "/faults")
    until(lambda: bool(watch.scrape()("repairs_total", "pool")), 60, "AutoClusters again")


def test_a_key_that_is_not_taken_any_more_is_told_and_a_new_one_needs_no_restart(ground: Ground, watch: Watch) -> None:
    def key(secret: str) -> None:
        patch = f'{{"stringData": {{"secret": "{secret}"}}}}'
        watch.kubectl("-n", "slurm", "patch", "secret", "gpuplatform-exporter-key", "-p", patch)

    def accepted() -> float:
        return watch.scrape()("credential_accepted", "credential")[("crusoe-api-key",)]

    key("bm90IHRoZSBrZXk")
    until(lambda: accepted() == 0, 60, "the refusal")
    assert "does not take the access key" in watch.log()
    assert "bm90IHRoZSBrZXk" not in watch.log()
    assert watch.scrape()("credential_accepted", "credential")[("slurm-token",)] == 1
    key(ground.project.cloud.credentials()["CRUSOE_SECRET_KEY"])
    until(lambda: accepted() == 1, 60, "the new key")
