"""The batch script on a real Slurm: submitted by a user without rights, disturbed, and left to itself."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from localcloud.facts import Facts
from localcloud.slurm.kubelet import Kubelets
from tests.integration.localcloud_kubernetes.support import processes_below, until
from tests.integration.localcloud_slurm.site import BASE, Site, cluster, controller, mount, worker
from tools.errors import ToolMissingError
from tools.slurm_root.packages import TRAINING
from tools.slurm_root.root import folder as slurm_root
from training import checkpoints, records

pytestmark = pytest.mark.integration

CODE = Path(__file__).parents[3] / "training"
WORKERS = ("gpu-0", "gpu-1", "gpu-2")
USER = (
    "setpriv",
    "--reuid=1000",
    "--regid=1000",
    "--clear-groups",
    "env",
    "-i",
    "PATH=/usr/bin:/usr/sbin",
    "HOME=/tmp",
)
SECONDS = 240
STEPS = 40


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """slurmctld and three workers that have PyTorch and share a folder."""
    try:
        plain, training = slurm_root(), slurm_root(TRAINING)
    except ToolMissingError as error:
        pytest.skip(str(error))
    root = tmp_path_factory.mktemp("site") / "kubernetes"
    live, nodes = cluster(root)
    kubelets = Kubelets(lambda: plain, Facts().vm_types, worker_image=lambda: training)
    site = Site(live, kubelets)
    site.live.kubectl("create", "namespace", "slurm")
    site.create(*BASE, controller(nodes[0].name))
    for name, node in zip(WORKERS, nodes[1:], strict=True):
        pod = worker(name, node.name)
        pod["spec"]["volumes"].append({"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}})
        pod["spec"]["containers"][0]["volumeMounts"].append(mount("shared", "/shared"))
        site.create(pod)
    site.begin()
    site.await_ready("slurm-controller-0", *WORKERS)
    until(lambda: site.slurm("sinfo", "-h", "-N", "-t", "idle").count("gpu-") == len(WORKERS), 60)
    site.shared.chmod(0o777)
    shutil.copytree(CODE, site.shared / "training")
    yield site
    site.halt()
    live.plane.delete_all()
    assert processes_below(root) == []


def submit(site: Site, *arguments: str) -> str:
    """Submit the job with one GPU on each of two nodes; its id. Arguments before `--run` are sbatch's."""
    at = arguments.index("--run")
    variables = ("TRAINING_HOME=/shared", "TRAINING_PAUSE=2", "TRAINING_PROFILE=drill", "TRAINING_INTERVAL=10")
    asked = ("sbatch", "--parsable", "--nodes=2", "--gpus-per-node=1", "--mem=1G", *arguments[:at])
    script = ("/shared/training/job.sbatch", *arguments[at:], "--steps", str(STEPS), "--group-timeout", "30")
    return site.run("gpu-0", "slurmd", *USER, *variables, *asked, *script).strip()


def job(site: Site, name: str) -> dict[str, str]:
    text = site.slurm("scontrol", "--oneliner", "show", "job", name)
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def until_step(run: Path, step: int) -> None:
    until(lambda: any(each["step"] >= step for each in records.steps(run)), SECONDS)


def kill_rank(site: Site, run: str, worker: str = "") -> None:
    """Kill one rank of a run (`<run>` or `<run>/<task>`), as an out-of-memory killer would."""
    name, _, task = run.partition("/")
    for each in [worker] if worker else WORKERS:
        for process in site.process(each).children(recursive=True):
            try:
                line, environ = process.cmdline(), process.environ()
            except psutil.Error:
                continue
            member = environ.get("SLURM_ARRAY_TASK_ID", "")
            if "training.train" in line and f"/shared/{name}" in line and "RANK" in environ and member == task:
                process.kill()
                return
    raise AssertionError(f"no rank of {run} runs")


def losses(run: Path) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for each in records.steps(run):
        found.setdefault(each["step"], set()).add(each["loss"])
    return found


def test_a_crashed_job_goes_on_without_the_node_to_blame(site: Site) -> None:
    run = site.shared / "crash"
    name = submit(
        site, "-o", "/shared/crash.out", "--nodelist=gpu-1", "--run", "/shared/crash", "--step-seconds", "0.1"
    )
    until_step(run, 14)
    kill_rank(site, "crash", "gpu-1")
    until(lambda: job(site, name)["ExcNodeList"] == "gpu-1", SECONDS)
    # The test put it there; where it goes now is for Slurm to say.
    site.slurm("scontrol", "update", f"JobId={name}", "ReqNodeList=")
    until(lambda: job(site, name)["JobState"] == "COMPLETED", SECONDS)
    said = (site.shared / "crash.out").read_text()
    assert job(site, name)["Restarts"] == "1"
    assert job(site, name)["NodeList"] == "gpu-[0,2]", said
    assert "Crash 1 of 3 since step 10: again in 2 s." in said
    found = losses(run)
    assert sorted(found) == list(range(1, STEPS + 1))
    assert all(len(each) == 1 for each in found.values()), "a step done again has another loss"
    assert checkpoints.newest_step(run / "checkpoints") == STEPS


def test_members_of_an_array_are_hit_and_go_on_alone(site: Site) -> None:
    array = submit(site, "-o", "/shared/array-%a.out", "--array=0-2", "--run", "/shared/array", "--step-seconds", "0.1")
    runs = [site.shared / "array" / str(task) for task in range(3)]
    for run in runs:
        until_step(run, 2)
    members = [f"{array}_{task}" for task in range(3)]
    # One is the member that has the array's own id: a requeue by that would stop the others too.
    last = next(task for task in range(3) if job(site, members[task])["JobId"] == array)
    kill_rank(site, f"array/{last}")
    # Another is requeued as it is when one of its nodes fails.
    moved = (last + 1) % 3
    site.slurm("scontrol", "requeue", members[moved])
    until(lambda: all(job(site, each)["JobState"] == "COMPLETED" for each in members), SECONDS)
    restarts = {task: job(site, members[task])["Restarts"] for task in range(3)}
    assert restarts == {last: "1", moved: "1", (last + 2) % 3: "0"}
    for run in runs:
        assert sorted(losses(run)) == list(range(1, STEPS + 1))
        assert checkpoints.newest_step(run / "checkpoints") == STEPS


@pytest.mark.parametrize(("folder", "shared"), [("/shared/preflight", True), ("/tmp/preflight", False)])
def test_on_a_jobs_nodes_the_preflight_tries_whether_they_share_the_folder(
    site: Site, folder: str, shared: bool
) -> None:
    asked = ("timeout", "100", "srun", "--nodes=2", "--ntasks-per-node=1", "--mem=1G", "python3", "-m")
    where = ("PYTHONPATH=/shared", *asked, "training.preflight", "--run", folder)
    said = site.run("gpu-0", "slurmd", *USER, *where, ok=False)
    verdict = next(line for line in said.splitlines() if "nodes" in line and folder in line)
    assert verdict.startswith("yes" if shared else "no"), said
