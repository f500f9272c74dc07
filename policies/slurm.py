"""Slurm that gives jobs back, gives them time to save, and gives nobody root."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import pinning, slurm_safety
from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text
from policies import examples, kinds, values
from policies.examples import Declared, controller
from policies.policy import Parameters, Resource, ResourcePolicy, Stack, StackPolicy, example

CONTROLLERS = kinds.kubernetes("Controller", group=kinds.SLINKY)
NODE_SETS = kinds.kubernetes("NodeSet", group=kinds.SLINKY)
LOGIN_SETS = kinds.kubernetes("LoginSet", group=kinds.SLINKY)
BUDGETS = kinds.kubernetes("PodDisruptionBudget")
SERVING = kinds.kubernetes("Deployment", "StatefulSet")
CONF, VALUES = "spec.extraConf", "values.controller"
SLURMS = kinds.either(CONTROLLERS, kinds.kubernetes("Release", "Chart"))


def _conf(resource: Resource) -> tuple[str, str] | None:
    """Return the path of a Slurm's own part of slurm.conf and that part; None where a resource has none.

    It is in Slinky's Controller, or in the values of its chart `slurm`. Raises NotKnownError.
    """
    if CONTROLLERS(resource.type):
        if resource.type.endswith("Patch") and not resource.has("spec", "extraConf"):
            return None
        return CONF, text(resource.known("spec", "extraConf")) or ""
    chart = text(resource.known("chart")) or ""
    if chart.rsplit("/", 1)[-1] != "slurm":
        return None
    lines = [f"{key}={each:g}" if isinstance(each, float) else f"{key}={each}" for key, each in _conf_map(resource)]
    return VALUES, "\n".join([text(resource.known("values", "controller", "extraConf")) or "", *lines])


def _conf_map(resource: Resource) -> Iterator[tuple[str, object]]:
    yield from table(resource.known("values", "controller", "extraConfMap")).items()


def _requeue(resource: Resource, _: Parameters) -> Iterator[Finding]:
    if (found := _conf(resource)) is not None:
        yield from slurm_safety.requeue(*found)


def _kill_wait(resource: Resource, parameters: Parameters) -> Iterator[Finding]:
    if (found := _conf(resource)) is not None:
        yield from slurm_safety.kill_wait(*found, parameters["leastSeconds"])


def _sudo(resource: Resource, _: Parameters) -> Iterator[Finding]:
    for path, _kind, _fields in kinds.objects(resource):
        place = (*path, "spec", "disableSudo")
        if not resource.type.endswith("Patch") or resource.has(*place):
            yield from slurm_safety.sudo(values.spoken(place), resource.known(*place))


def _root_login(resource: Resource, _: Parameters) -> Iterator[Finding]:
    yield from slurm_safety.root_login("spec.extraSshdConfig", resource.read("spec", "extraSshdConfig"))
    yield from slurm_safety.privileged("spec.login", resource.read("spec", "login"))


def _images(resource: Resource, _: Parameters) -> Iterator[Finding]:
    for path, _container in kinds.containers(resource):
        place = (*path, "image")
        yield from pinning.image(values.spoken(place), resource.read(*place))


def _charts(resource: Resource, _: Parameters) -> Iterator[Finding]:
    release = {key: resource.read(key) for key in ("chart", "version", "repo", "repositoryOpts", "fetchOpts")}
    if pinning.is_local(release):
        return
    if resource.has("version") and release["version"] is values.UNKNOWN:
        return
    yield from pinning.chart("version", release["version"], release["chart"])


def _budget(resource: Resource, _: Parameters) -> Iterator[Finding]:
    place = ("spec", "workloadDisruptionProtection")
    yield from slurm_safety.disruption_budget(values.spoken(place), resource.read(*place))


def _serving_budget(stack: Stack, _: Parameters) -> Iterator[tuple[Resource, Finding]]:
    guarded = [
        (values.at(each.known("metadata", "namespace")), table(each.known("spec", "selector", "matchLabels")))
        for each in stack.of(BUDGETS)
    ]
    for each in stack.of(SERVING):
        replicas = each.known("spec", "replicas")
        if not kinds.asks_for_gpus(each) or not isinstance(replicas, int | float) or replicas < 2:
            continue
        namespace = each.known("metadata", "namespace")
        labels = table(each.known("spec", "template", "metadata", "labels"))
        if not any(namespace == place and wanted.items() <= labels.items() for place, wanted in guarded):
            problem = f"{replicas:g} replicas with GPUs, and no PodDisruptionBudget speaks of them"
            yield each, Finding("spec.replicas", problem, "Declare one with maxUnavailable: 1 and the pods' labels")


def _user(**spec: object) -> Declared:
    properties = {"metadata": {"name": "ada", "namespace": "slurm"}, "spec": {"fullName": "Ada", **spec}}
    return {"type": "kubernetes:slurm.crusoe.ai/v1alpha1:SlurmUser", "name": "ada", "properties": properties}


def _login(sshd: str) -> Declared:
    return examples.slurm("LoginSet", "login", {"extraSshdConfig": sshd})


def _pod(image: str) -> Declared:
    properties = {"metadata": {"name": "tool"}, "spec": {"containers": [{"name": "tool", "image": image}]}}
    return {"type": "kubernetes:core/v1:Pod", "name": "tool", "properties": properties}


def _release(**properties: object) -> Declared:
    where = {"chart": "oci://ghcr.io/slinkyproject/charts/slurm-operator"}
    return {"type": "kubernetes:helm.sh/v3:Release", "name": "operator", "properties": {**where, **properties}}


def _model() -> Declared:
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [examples.gpu_container(4)]}}
    properties = {"metadata": {"name": "chat", "namespace": "chat"}, "spec": {"replicas": 4, "template": template}}
    return {"type": "kubernetes:apps/v1:Deployment", "name": "chat", "properties": properties}


_GUARD = {
    "type": "kubernetes:policy/v1:PodDisruptionBudget",
    "name": "chat-budget",
    "properties": {
        "metadata": {"name": "chat", "namespace": "chat"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "chat"}}},
    },
}

POLICIES = [
    ResourcePolicy(
        name="slurm-requeue",
        refuses="Slurm puts the jobs of a failed node back into the queue.",
        why="A job of days ends with the first node that fails.",
        fix="Write JobRequeue=1.",
        applies=SLURMS,
        check=_requeue,
        good=example("Jobs come back.", controller("JobRequeue=1\nKillWait=90")),
        bad=example("Jobs end.", controller("JobRequeue=0\nKillWait=90")),
    ),
    ResourcePolicy(
        name="slurm-kill-wait",
        refuses="Slurm gives jobs time to save before it kills them.",
        why="A checkpoint that takes longer is lost whole: 45 s of saving were, to Slurm's own 30 s.",
        fix="Write KillWait=90.",
        parameters={
            "leastSeconds": {
                "type": "integer",
                "minimum": 1,
                "default": 60,
                "description": "The shortest KillWait that is enough for a last checkpoint.",
            }
        },
        applies=SLURMS,
        check=_kill_wait,
        good=example("A minute and a half.", controller("KillWait=90")),
        bad=example("Half a minute, Slurm's own.", controller("JobRequeue=1")),
    ),
    ResourcePolicy(
        name="slurm-user-sudo",
        refuses="Users of managed Slurm have no sudo.",
        why="Root on a worker reads Slurm's key, and with it acts as anybody in the whole cluster.",
        fix="Write disableSudo: true.",
        applies=kinds.kubernetes("SlurmUser", group=kinds.MANAGED),
        check=_sudo,
        good=example("No sudo.", _user(disableSudo=True)),
        bad=example("Nothing said, so there is sudo.", _user()),
    ),
    ResourcePolicy(
        name="slurm-login-root",
        refuses="Nobody logs in as root or by password, and login pods have no rights of the host.",
        why="The login node holds everybody's keys and data.",
        fix="Write PermitRootLogin no and PasswordAuthentication no, and leave privileged out.",
        applies=LOGIN_SETS,
        check=_root_login,
        good=example(
            "Keys only.",
            _login("PermitRootLogin no\nPasswordAuthentication no"),
        ),
        bad=example(
            "Root by key.",
            _login("PermitRootLogin prohibit-password"),
        ),
    ),
    ResourcePolicy(
        name="image-pinned",
        refuses="Images have a version or a digest.",
        why="A node that is replaced at night would run something that nobody has tested.",
        fix="Write a version, such as vllm/vllm-openai:v0.11.0.",
        applies=kinds.HAS_PODS,
        check=_images,
        good=example("A version.", _pod("docker.io/library/alpine:3.22.2")),
        bad=example("Whatever is newest.", _pod("docker.io/library/alpine:latest")),
    ),
    ResourcePolicy(
        name="chart-pinned",
        refuses="Charts have one version.",
        why="Slinky's chart, operator and CRDs of different versions break one another's webhook.",
        fix="Write a version, such as 1.2.1.",
        applies=kinds.RELEASES,
        check=_charts,
        good=example("One version.", _release(version="1.2.1")),
        bad=example("The newest of the day.", _release()),
    ),
    ResourcePolicy(
        name="slurm-disruption-budget",
        refuses="Busy workers are guarded by a disruption budget.",
        why="A drain or an upgrade evicts them in the middle of their jobs.",
        fix="Leave workloadDisruptionProtection out, or write true.",
        applies=NODE_SETS,
        check=_budget,
        good=example("Guarded.", examples.workers(workloadDisruptionProtection=True)),
        bad=example("Not guarded.", examples.workers(workloadDisruptionProtection=False)),
    ),
    StackPolicy(
        name="gpu-serving-disruption-budget",
        level="advisory",
        refuses="Replicas with GPUs are guarded by a disruption budget.",
        why="A drain of several nodes may take all replicas at once, and GPUs take minutes to load a model again.",
        fix="Declare a PodDisruptionBudget with maxUnavailable: 1 for the pods' labels.",
        check=_serving_budget,
        already="After a preview nothing. With --skip-preview all that the program declares.",
        good=example("One replica at a time.", _model(), _GUARD),
        bad=example("All at once.", _model()),
    ),
]
