"""The life of Slurm on Kubernetes through the real CLI, with real daemons: up, work, grow, change, shrink, down."""

from __future__ import annotations

import base64
import json
import re
import shutil
import time

import httpx
import pytest

from components.slurm.charts import SLINKY
from tests.harness import PATIENCE, ROOT, changes, leftovers, until
from tests.integration.slurm.conftest import Site

pytestmark = pytest.mark.integration

TRAIN = {"type": "h100-80gb-sxm-ib.8x", "count": 2}


def test_up_ends_with_workers_that_take_jobs(site: Site) -> None:
    states = site.states()
    assert set(states) == {"train-0", "train-1"}
    assert all(state.startswith("IDLE") for state in states.values()), states
    nodes = json.loads(site.slurm("scontrol", "show", "nodes", "--json").out)["nodes"]
    assert {node["name"]: node["gres"].split("(")[0] for node in nodes} == {
        "train-0": "gpu:h100:8",
        "train-1": "gpu:h100:8",
    }


def test_a_second_preview_and_a_refresh_show_nothing(site: Site) -> None:
    assert changes(site.project.preview()) == {}
    assert changes(site.project.preview("--refresh")) == {}


def forms(value: bytes) -> set[str]:
    """How a secret might look in a text: as it is, in base64 once or twice, escaped for JSON."""
    once = base64.b64encode(value).decode()
    plain = value.decode("latin-1")
    return {once, base64.b64encode(once.encode()).decode(), plain, json.dumps(plain)[1:-1]}


def test_keys_are_in_no_text_even_when_somebody_changes_one_by_hand(site: Site) -> None:
    def secret(name: str, key: str) -> bytes:
        found = json.loads(site.kubectl("-n", "slurm", "get", "secret", name, "-o", "json").out)
        return base64.b64decode(found["data"][key])

    drawn = [secret("slurm-auth-slurm", "slurm.key"), secret("slurm-auth-jwt", "jwt.key")]
    assert (len(drawn[0]), len(drawn[1])) == (1024, 32)
    by_hand = base64.b64encode(b"a-canary-that-somebody-put-there").decode()
    patch = json.dumps({"data": {"jwt.key": by_hand}})
    site.kubectl("-n", "slurm", "patch", "secret", "slurm-auth-jwt", "--type=merge", "-p", patch)
    stack = site.project.stack
    # A preview ends with who changed what, since the plugin forces nothing in a dry run; `up` puts it back.
    looked = site.project.pulumi("preview", "--refresh", "--diff", "-s", stack, check=False).text
    assert "jwt.key: [secret] => [secret]" in looked
    told = [
        json.dumps(site.project.exported()),
        looked,
        site.project.pulumi("preview", "--refresh", "--json", "-s", stack, check=False).text,
        site.project.pulumi("stack", "output", "--json", "-s", stack).text,
        site.project.up("--refresh").text,
    ]
    for value in [*drawn, b"a-canary-that-somebody-put-there"]:
        for form in forms(value):
            assert not [text for text in told if form in text]
    assert secret("slurm-auth-jwt", "jwt.key") == drawn[1]
    # Another key restarts the daemons, twice.
    site.wait_for_idle({"train-0", "train-1"})


def test_a_job_gets_its_gpus(site: Site) -> None:
    job = site.submit(
        "srun -l bash -c 'echo \"$SLURM_PROCID $(hostname) $CUDA_VISIBLE_DEVICES\"' > gpus.txt",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--time=5",
    )
    site.wait_for(job, "COMPLETED")
    lines = site.shell("cat /home/ada/gpus.txt", pod=("train-0", "slurmd")).splitlines()
    assert sorted(line.split()[2:] for line in lines) == [
        ["train-0", "0,1,2,3,4,5,6,7"],
        ["train-1", "0,1,2,3,4,5,6,7"],
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--time=5",), "GPU"),
        (("--gpus=1",), "time limit"),
        (("--gpus=1", "--time=8-0"), "time limit"),
        (("--gpus=99", "--nodes=1", "--time=5"), "not available"),
    ],
)
def test_a_job_that_can_not_run_is_refused_in_words(site: Site, options: tuple[str, ...], words: str) -> None:
    refused = site.person(f"sbatch {' '.join(options)} --wrap=true", check=False)
    assert refused.code != 0
    assert words in refused.err, refused.err


def test_the_console_shows_what_slurm_says(site: Site) -> None:
    def shown(*words: str) -> bool:
        """Whether the page has a row, or a node, with all of these."""
        text = httpx.get(f"http://127.0.0.1:{site.project.cloud.port}/console/", timeout=30).text
        rows = re.findall(r"<tr>.*?</tr>|<li><a .*?</li>", text, re.DOTALL)
        return any(all(word in row for word in words) for row in rows)

    runs = site.submit("sleep 300", "--job-name=pretrain", "--nodelist=train-0", "--gpus=4", "--time=10")
    waits = site.submit("true", "--job-name=later", f"--dependency=afterok:{runs}", "--gpus=8", "--time=5")
    until(
        lambda: shown(runs, "pretrain", "running", "train-0", "uid 10001", '<td class="number">4</td>'), 20, "the job"
    )
    until(lambda: shown(waits, "later", "pending", "Dependency"), 20, "the job that waits")
    until(lambda: shown("cell s-busy", f"8 training, job {runs}"), 20, "the job's node")
    site.slurm("scontrol", "update", "nodename=train-1", "state=drain", "reason=<by hand>")
    until(lambda: shown("drained", "&lt;by hand&gt;", "train"), 20, "the drained node")
    site.slurm("scontrol", "update", "nodename=train-1", "state=resume")
    site.slurm("scancel", runs, waits)
    until(lambda: not shown("drained", "by hand") and shown(runs, "cancelled"), 20, "the end")


def test_one_option_of_slurm_conf_changes_the_controller_alone(site: Site) -> None:
    site.project.change_settings({"slurm": {"conf": {"options": {"MaxArraySize": 4242}}}})
    assert changes(site.project.preview()) == {"update": ["platform-slurm-slinky-controller"]}
    site.project.up()
    until(
        lambda: "MaxArraySize            = 4242" in site.slurm("scontrol", "show", "config", check=False).out,
        90,
        "the new option",
    )
    assert changes(site.project.preview()) == {}


def take_release(site: Site, slinky: str | None) -> None:
    """Have the project's folder be a release of this project that is written for another Slinky, or this one again."""
    folder = site.project.folder
    charts, entry = folder / "localcloud" / "charts", folder / "__main__.py"
    shipped = (ROOT / "__main__.py").read_text()
    if slinky is None:
        shutil.rmtree(charts)
        charts.symlink_to(ROOT / "localcloud" / "charts")
        entry.write_text(shipped)
        return
    charts.unlink()
    shutil.copytree(ROOT / "localcloud" / "charts", charts)
    for name in ("slurm-operator-crds", "slurm-operator"):
        about = charts / name / "Chart.yaml"
        about.write_text(about.read_text().replace(SLINKY, slinky))
    entry.write_text(f'from components.slurm import charts\n\ncharts.SLINKY = "{slinky}"\n\n{shipped}')


def test_another_slinky_comes_and_goes_under_running_jobs(site: Site) -> None:
    def runs() -> tuple[str, str, str]:
        """Image of the operator, version of the definitions' release, state of the two jobs."""
        image = ("get", "deployment", "slurm-operator", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
        release = ("get", "secrets", "-l", "owner=helm,name=slurm-operator-crds,status=deployed", "-o", "name")
        return (
            site.kubectl("-n", "slinky", *image).out.rpartition(":")[2],
            site.kubectl("-n", "slinky", *release).out.strip().rpartition(".")[2],
            f"{site.job(running)['JobState']} {site.job(waiting)['JobState']}",
        )

    running = site.submit("sleep 600", "--nodes=2", "--gpus-per-node=8", "--time=20")
    site.wait_for(running, "RUNNING")
    waiting = site.submit("true", "--nodes=2", "--gpus-per-node=8", "--time=5")
    started = site.job(running)["StartTime"]
    assert runs() == (SLINKY, "v1", "RUNNING PENDING")
    take_release(site, "1.3.0")
    try:
        touched = changes(site.project.preview())
        assert touched.keys() == {"update"}, touched
        for name in ("slurm-operator-crds", "slurm-operator"):
            assert any(each.endswith(f"-releases-{name}") for each in touched["update"]), touched
        site.project.up()
        assert runs() == ("1.3.0", "v2", "RUNNING PENDING")
    finally:
        take_release(site, None)
    site.project.up()
    assert runs() == (SLINKY, "v3", "RUNNING PENDING")
    assert (site.job(running)["StartTime"], site.job(running).get("Restarts")) == (started, "0")
    assert changes(site.project.preview()) == {}
    # The operator works on what it finds: the queue goes on.
    site.person(f"scancel {running}")
    site.wait_for(waiting, "COMPLETED")


def test_another_pool_is_an_addition(site: Site) -> None:
    more = {"type": "h100-80gb-sxm-ib.8x", "count": 1}
    site.project.change_settings({"nodePools": {"more": more}, "protect": True})
    assert changes(site.project.preview()) == {
        "create": ["platform-pools-more", "platform-slurm-slinky-nodeset-more", "platform-slurm-slinky-workers-more"]
    }
    site.project.up()
    until(lambda: site.partitions() == {"all": 3, "train": 2, "more": 1}, 90, "the new partition")
    until(lambda: site.states(check=False).get("more-0", "").startswith("IDLE"), 60, "more-0 idle")


def test_a_smaller_node_set_drains_first(site: Site) -> None:
    """The worker that goes has a job: it ends by itself before the pod does."""
    job = site.submit(
        "sleep 20; echo whole > whole.txt",
        "--nodelist=train-1",
        "--gpus=1",
        "--time=5",
    )
    site.wait_for(job, "RUNNING")
    site.project.change_settings({"nodePools": {"train": {**TRAIN, "reserve": 1}}})
    site.project.up()
    assert site.wait_for(job, "COMPLETED").get("Restarts") == "0"
    assert site.shell("cat /home/ada/whole.txt", pod=("train-0", "slurmd")).strip() == "whole"
    until(
        lambda: site.kubectl("-n", "slurm", "get", "pod", "train-1", check=False).code != 0,
        90,
        "the end of train-1's pod",
    )


@pytest.mark.parametrize("pods", [("train-0",), ("train-0", "slurm-controller-0")], ids=["alone", "with slurmctld"])
def test_a_worker_whose_pod_is_deleted_requeues_its_job_and_comes_back(site: Site, pods: tuple[str, ...]) -> None:
    job = site.submit("sleep 300", "--nodelist=train-0", "--gpus=1", "--time=10")
    site.wait_for(job, "RUNNING")
    site.kubectl("-n", "slurm", "delete", "pod", *pods, "--wait=false")
    until(lambda: int(site.job(job).get("Restarts", "0")) >= 1, 180, "the requeue")
    assert "JobHeld" not in site.job(job).get("Reason", "")
    until(
        lambda: site.states(check=False).get("train-0", "").split("+")[0] in ("IDLE", "MIXED", "ALLOCATED"),
        120,
        "train-0's return",
    )
    site.slurm("scancel", job)


def test_a_protected_pool_is_retired_and_its_node_set_with_it(site: Site) -> None:
    job = site.submit("sleep 20; echo whole > last.txt", "--nodelist=more-0", "--gpus=1", "--time=5")
    site.wait_for(job, "RUNNING")
    # Slinky marks a busy worker a moment after its job has begun; whoever evicts it before that has it requeued.
    marked = ("get", "pod", "more-0", "-o", r"jsonpath={.metadata.labels.nodeset\.slinky\.slurm\.net/pod-protect}")
    until(lambda: site.kubectl("-n", "slurm", *marked).out == "true", 60, "more-0 is marked as busy")
    site.project.change_settings({"nodePools": {"more": {"retire": True}}})
    site.project.up()
    assert site.shell("cat /home/ada/last.txt", pod=("train-0", "slurmd")).strip() == "whole"
    asked = ("get", "nodeset", "more", "-o", "jsonpath={.spec.replicas}")
    assert site.kubectl("-n", "slurm", *asked).out == "0"
    assert site.kubectl("-n", "slurm", "get", "pod", "more-0", check=False).code != 0
    # slurmctld starts anew with each NodeSet that comes or goes, so it may be away for a moment after `up`.
    until(lambda: site.partitions().keys() == {"all", "train"}, 90, "the end of the partition more")
    assert changes(site.project.preview()) == {}
    site.project.change_settings({"nodePools": {"more": None}, "protect": False})
    assert changes(site.project.preview()) == {
        "delete": ["platform-pools-more", "platform-slurm-slinky-nodeset-more"],
    }
    site.project.up()


def test_destroy_takes_a_minute_at_most_and_leaves_nothing(site: Site) -> None:
    start = time.monotonic()
    site.project.destroy()
    assert time.monotonic() - start < 60 * PATIENCE
    assert leftovers(site.project.cloud) == {}
