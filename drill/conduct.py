"""One drill from its beginning to its end: submit, watch, make it fail, wait, judge, take back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crusoe.client import CrusoeError
from drill import reading, stages, timing
from drill.deeds import Hands, Target
from drill.job import HOME, Job
from drill.losses import Step, compare
from drill.observations import Observation
from drill.receiver import Receiver
from drill.refusal import Previewer
from drill.report import Report
from drill.room import Room, Undo
from drill.scenarios import REPAIRED, Action, Do, Scenario
from drill.site import NAMESPACE, Site, SiteError
from drill.streams import Notebook, Streams
from drill.verdict import judge, late, on_real_machines, wanted

if TYPE_CHECKING:
    from crusoe.client import Client

_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 20.0
_UNWANTED_SECONDS = 5.0
_UNDISTURBED_SECONDS = 180.0
_REAL_PATIENCE = 10.0
BAND = 0.01
"""How far a loss on real machines may be off: GPUs add up in another order after a restart."""

_HEALTHY_SECONDS = 180.0
_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


@dataclass
class Bench:
    """A stack that is drilled.

    Attributes:
        settings, prod: of the stack and of prod (`platform`).
        previewer: asks what the stack would become.
        say: tells a person what happens now.
    """

    stack: str
    site: Site
    room: Room
    cluster_id: str
    settings: Mapping[str, Any]
    client: Client | None
    hands: Hands
    say: Callable[[str], None]
    prod: Mapping[str, Any] = field(default_factory=dict[str, Any])
    previewer: Previewer | None = None
    digest: str = ""
    notebook: Notebook = field(default_factory=Notebook)

    @property
    def real(self) -> bool:
        """Whether its machines are real: then people break them, and everything takes longer."""
        return self.hands.local is None

    @property
    def job(self) -> Job:
        """Runs of the reference job."""
        return Job(self.site, "cluster" if self.real else "drill")

    @property
    def patience(self) -> float:
        """How many times longer than on the local cloud things may take."""
        return _REAL_PATIENCE if self.real else 1.0

    def take_back(self, undo: Undo) -> None:
        """Take a deed back; what is not there any more needs nothing."""
        try:
            match undo.kind:
                case "kubectl":
                    self.site.run(*undo.arguments)
                case "scancel":
                    self.site.person(f"scancel --quiet {' '.join(undo.arguments)} || true")
                case "localcloud":
                    if self.hands.local is not None:
                        self.hands.local.run(*undo.arguments)
                case "api":
                    if self.client is not None:
                        self.client.patch(undo.arguments[0], json.loads(undo.arguments[1]))
                case "replace":
                    self.hands.replace(undo.arguments[0])
        except (SiteError, CrusoeError) as error:
            if "not found" not in str(error) and "NotFound" not in str(error):
                self.say(f"Not taken back: {error}")


def undisturbed(bench: Bench) -> list[Step]:
    """The steps of the undisturbed run: of an earlier drill, or made now. Raises SiteError."""
    kept = bench.room.folder / f"undisturbed-{bench.digest}.jsonl"
    if kept.exists():
        rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        return [Step(**row) for row in rows]
    bench.say("Running the job undisturbed, to compare with")
    job = bench.job.submit("undisturbed")
    bench.room.undo_later(Undo("scancel", [job]))
    seconds = _UNDISTURBED_SECONDS * bench.patience
    deadline = time.monotonic() + seconds
    while (state := _state(bench.site, job)) not in _OVER:
        if time.monotonic() > deadline:
            raise SiteError(f"The undisturbed run did not end within {seconds:.0f} s; it is {state}.")
        time.sleep(1.0)
    steps = bench.job.steps("undisturbed")
    if state != "COMPLETED" or not steps:
        raise SiteError(f"The undisturbed run ended as {state}. Its last lines:\n{bench.job.log('undisturbed')}")
    draft = kept.with_suffix(".draft")
    draft.write_text("".join(f"{json.dumps(vars(step))}\n" for step in steps), encoding="utf-8")
    draft.replace(kept)
    return steps


def on(bench: Bench, scenario: Scenario) -> Scenario:
    """The scenario as it can be expected on a stack."""
    return replace(scenario, expected=on_real_machines(scenario.expected)) if bench.real else scenario


def drill(bench: Bench, scenario: Scenario, reference: Sequence[Step]) -> Report:
    """Do a scenario and judge it. Whatever happens, `Room.leave` then takes everything back. Raises SiteError."""
    notebook = bench.notebook = Notebook()
    bench.hands.see = notebook.see
    if scenario.pool_type is not None:
        if bench.previewer is None:
            raise SiteError("Nobody said how the stack is previewed.")
        refused = bench.previewer.refusal(scenario.pool_type, bench.room.folder)
        bench.say(f"  {refused.what['why']}")
        notebook.see(refused)
        return conclude(bench.stack, bench.settings, scenario, notebook.all, (), (), bench.prod)
    receiver, streams = Receiver(notebook.see), Streams(notebook)
    try:
        _listen(bench, streams, receiver)
        if not bench.real:
            # The stack has no host to spare, so its own settings keep repairs off.
            for issue in REPAIRED:
                bench.hands.do(Action(issue, "REPLACE_NODE"), None)
        for each in scenario.plan:
            if each.at_step is None and each.after is None:
                bench.hands.do(each.deed, None)
        # What Kubernetes and the API hold from before is told first; it is no part of the story.
        time.sleep(1.0)
        job = bench.job.submit(scenario.name, scenario.options, scenario.environ)
        bench.room.undo_later(Undo("scancel", [job]))
        notebook.see(Observation(time.time(), "drill", "submitted", {"job": job}))
        bench.say(f"Job {job} is submitted by {bench.site.user}")
        streams.lines(bench.job.look(job), reading.slurm_line)
        follow = bench.job.follow(scenario.name, [pod["metadata"]["name"] for pod in _workers(bench.site)])
        streams.lines(follow, lambda line: reading.step_line(line) or reading.event_line(line))
        _watch(bench, scenario, job)
        run = bench.job.steps(scenario.name)
    finally:
        streams.close()
        receiver.close()
    band = BAND if bench.real else 0.0
    return conclude(bench.stack, bench.settings, scenario, notebook.all, reference, run, bench.prod, band)


def conclude(
    stack: str,
    settings: Mapping[str, Any],
    scenario: Scenario,
    observations: Sequence[Observation],
    reference: Sequence[Step],
    run: Sequence[Step],
    prod: Mapping[str, Any] | None = None,
    band: float = 0.0,
) -> Report:
    """The report of what was observed: pure. `prod` are the settings of prod, `band` as in `losses.compare`."""
    told = stages.story(observations)
    reached = stages.moments(told)
    eligible = max(
        (
            each.what["eligible"]
            for each in told.some("slurm", "job", told.fault_at)
            if each.what["state"] == "PENDING" and told.fault_at
        ),
        default=0.0,
    )
    shares = stages.shares(reached, eligible)
    compared = compare(reference, run, band) if scenario.trains else None
    return Report(
        scenario=scenario,
        stack=stack,
        story=told,
        reached=reached,
        shares=shares,
        compared=compared,
        verdict=judge(scenario.expected, told, reached, compared),
        run=run,
        reference=reference,
        sums=(*timing.sums(stack, settings.get("slurm") or {}), *timing.sums("prod", prod or {})),
        notes=(*late(scenario.expected, reached, shares.get("platform", 0.0)), *NOTES),
    )


NOTES = ("Not shown here: NCCL, InfiniBand, cgroups, drivers, real detection, AutoClusters' own timing, scale.",)


def _listen(bench: Bench, streams: Streams, receiver: Receiver) -> None:
    site = bench.site
    watch = ("--watch", "--output-watch-events", "-o", "json")
    streams.objects(site.command("get", "nodes", *watch), lambda _, item, at: reading.node(item, at))
    workers = ("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=slurmd")
    streams.objects(
        site.command(*workers, *watch), lambda kind, item, at: reading.pod(item, at, gone=kind == "DELETED")
    )
    events = ("get", "events", "-A", "--watch-only", "--output-watch-events", "-o", "json")
    streams.objects(site.command(*events), lambda _, item, at: reading.event(item, at))
    if bench.hands.local is not None:
        bench.room.undo_later(Undo("localcloud", ["set", "autoclusters", "--webhook="]))
        bench.hands.local.run("set", "autoclusters", f"--webhook={receiver.url}")
    client = bench.client
    if client is not None:
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

        def look() -> None:
            path = "kubernetes/autocluster-operations"
            for item in client.list(path, cluster_id=bench.cluster_id, lower_bound=began):
                bench.notebook.see(reading.operation(item, time.time()))

        streams.repeat(look, 0.5)


def _watch(bench: Bench, scenario: Scenario, job: str) -> None:
    """Do what is planned when its moment comes, until all has happened that is expected, or nothing more will."""
    deadline = time.monotonic() + scenario.seconds * bench.patience
    waiting = [each for each in scenario.plan if each.at_step is not None or each.after is not None]
    target: Target | None = None
    quiet_since, count = time.monotonic(), 0
    shown: set[str] = set()
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        told = stages.story(bench.notebook.all)
        reached = stages.moments(told)
        for key in [key for key in reached if key not in shown]:
            shown.add(key)
            bench.say(f"  {reached[key].stage.title}")
        for each in [each for each in waiting if _due(each, told, reached)]:
            target = aim(each, target, lambda: _target(bench, scenario, job))
            waiting.remove(each)
            bench.hands.do(each.deed, target)
        if len(reached) != count:
            quiet_since, count = time.monotonic(), len(reached)
        last = next((each for each in reversed(list(told.some("slurm", "job")))), None)
        over = last is not None and last.what["state"] in _OVER
        missing = [key for key in wanted(scenario.expected) if key not in reached]
        quiet = time.monotonic() - quiet_since
        if (
            not waiting
            and not missing
            and (over or not scenario.trains)
            and quiet > (5.0 if scenario.expected.absent else 1.0)
        ):
            return
        if over and quiet > _SETTLE_SECONDS:
            return


def aim(each: Do, before: Target | None, now: Callable[[], Target]) -> Target:
    """Whom a deed meets: at a step, a node that the job has now; after a stage, whoever was met before.

    The job has lost that one by then, where it is to have its power or its link back.
    """
    return before if before is not None and each.at_step is None else now()


def _due(each: Do, told: stages.Story, reached: Mapping[str, stages.Moment]) -> bool:
    if each.at_step is not None:
        return any(step.what["step"] >= each.at_step for step in told.some("job", "step"))
    moment = reached.get(each.after or "")
    return moment is not None and time.time() >= moment.at + each.seconds


def _target(bench: Bench, scenario: Scenario, job: str) -> Target:
    last = next(
        each for each in reversed(list(stages.story(bench.notebook.all).some("slurm", "job"))) if each.what["batch"]
    )
    names = bench.site.slurm("scontrol", "show", "hostnames", last.what["nodes"]).split()
    pods = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in _workers(bench.site)}
    return Target(job, f"{HOME}/{scenario.name}", last.what["batch"], {name: pods.get(name, "") for name in names})


def _workers(site: Site) -> list[dict[str, Any]]:
    return site.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=slurmd")


def _state(site: Site, job: str) -> str:
    said = site.slurm("scontrol", "--oneliner", "show", "job", job)
    return next((word.partition("=")[2] for word in said.split() if word.startswith("JobState=")), "")


def healthy(bench: Bench) -> bool:
    """Wait until every worker of the stack runs and takes jobs again; False where that takes too long."""
    deadline = time.monotonic() + _HEALTHY_SECONDS
    while time.monotonic() < deadline:
        said = bench.site.slurm("sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        states = {line.split()[0]: line.split()[1] for line in said if line.strip()}
        pods = _workers(bench.site)
        ready = all(reading.pod(pod, 0.0).what["ready"] for pod in pods)
        if pods and ready and all(state in ("idle", "mix", "alloc") for state in states.values()):
            return True
        time.sleep(1.0)
    return False
