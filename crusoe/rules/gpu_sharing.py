"""Sharing a pool's GPUs between training and inference: whether what is promised to each side fits on the nodes.

A floor holds only where three things come together: sums that are rounded up to whole nodes, nodes that inference's
floor has to itself (its homes), and a strict order of priorities. The sums are checked here, before anything is
created. Each share has homes of its own: replicas of two sizes on one node leave gaps that neither fills.

A pool's sharing is `{engine, surplus, training: {floor, ceiling, demand}, inference: {name: {gpusPerReplica, floor,
ceiling, surge}}, nvlinkDomainNodes}`, with training in nodes and inference in replicas; the pool itself is
`{type, count, autoscaling, reserve, nodeLabels}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from crusoe import catalog
from crusoe.rules import pool_size, slurm_conf
from crusoe.rules.finding import Finding
from crusoe.rules.gpu_units import nodes_of, replicas_on_node
from crusoe.rules.slurm_partitions import NVLINK_DOMAIN
from crusoe.rules.values import items, table, text, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOMAIN_NODES = 18
"""Hosts of one NVLink domain of GB200 NVL72."""

LONGEST_SHARE = 40
"""Characters of a share's name, so that what is made for it and its pods has a name too."""

MIG_OFF = ("all-disabled", "none", "false", "single-gpu")
PARTITIONING_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia.com/mig.config": "divides GPUs by MIG",
        "nvidia.com/mig.strategy": "divides GPUs by MIG",
        "nvidia.com/device-plugin.config": "may divide GPUs by time-slicing or MPS",
        "nvidia.com/gpu.sharing-strategy": "divides GPUs by time-slicing or MPS",
        "nvidia.com/mps.capable": "divides GPUs by MPS",
        "dcm.amd.com/gpu-config-profile": "may divide GPUs into partitions",
    }
)
"""Node labels by which the GPU operators make parts of GPUs, which quotas don't count, and what each does."""


@dataclass(frozen=True, slots=True)
class _Share:
    name: str
    gpus: int
    floor: int
    ceiling: int | None
    surge: int

    def homes(self, node: int) -> int:
        return nodes_of(self.floor + self.surge, self.gpus, node)


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool whose settings are all there and of the right type.

    `gpus` of one node; `least` and `most` nodes beside the `reserve`.
    """

    gpus: int
    least: int
    most: int
    reserve: int
    floor: int
    ceiling: int | None
    shares: tuple[_Share, ...]

    @property
    def homes(self) -> int:
        return sum(share.homes(self.gpus) for share in self.shares)

    @property
    def need(self) -> int:
        return self.floor + self.homes


def pool(path: str, value: object, pool: object, pool_path: str) -> list[Finding]:
    """Check a pool's sharing by all rules, against the pool as its own settings have it."""
    return [
        *whole_hosts(path, value, pool),
        *replica_sizes(path, value, pool),
        *bounds(path, value),
        *floors(path, value, pool, pool_path),
        *ceilings(path, value, pool),
        *engine(path, value, pool, pool_path),
        *domains(path, value, pool),
        *partitioned(pool_path, value, pool),
    ]


def whole_hosts(path: str, value: object, pool: object) -> list[Finding]:
    """Check that the pool has GPUs, and stays."""
    given, kind = table(pool), catalog.vm_type(table(pool).get("type"))
    if not given or not isinstance(value, dict):
        return []
    if kind is not None and not kind.gpus:
        return [Finding(path, f"{kind.name} has no GPUs to share", "Name a pool with GPUs")]
    if kind is not None and kind.is_slice:
        problem = f"{kind.name} is a slice of a host, and workers of Slurm have whole hosts"
        return [Finding(path, problem, f"Use {catalog.whole_host_of(kind.name)!r} there, or take the sharing out")]
    if given.get("retire") is True:
        return [Finding(path, "the pool is being retired", "Take the sharing out first, or leave retire out")]
    return []


def replica_sizes(path: str, value: object, pool: object) -> list[Finding]:
    """Check that replicas fill nodes without a rest (a rest is never usable)."""
    kind = catalog.vm_type(table(pool).get("type"))
    if kind is None or not kind.gpus:
        return []
    found: list[Finding] = []
    for name, each in table(table(value).get("inference")).items():
        place, size = f"{path}.inference.{name}.gpusPerReplica", whole(table(each).get("gpusPerReplica"))
        if size is None or size < 1 or kind.gpus % size == 0:
            continue
        if size > kind.gpus:
            problem = f"a replica of {size} GPUs is larger than a node of {kind.gpus}"
            found.append(
                Finding(place, problem, f"Write {kind.gpus} or less: replicas over several nodes are not made")
            )
            continue
        near = [other for other in range(1, kind.gpus + 1) if kind.gpus % other == 0]
        below, above = max(n for n in near if n < size), min(n for n in near if n > size)
        held = replicas_on_node(size, kind.gpus)
        problem = (
            f"{held} replicas of {size} GPUs = {held * size} of a node's {kind.gpus}, so {kind.gpus - held * size} "
            "would never be used"
        )
        found.append(Finding(place, problem, f"Write {below} or {above}"))
    return found


def bounds(path: str, value: object) -> list[Finding]:
    """Check that no ceiling is below its floor."""
    sides = {f"{path}.training": table(table(value).get("training")), **_shares_at(path, value)}
    found: list[Finding] = []
    for place, side in sides.items():
        floor, ceiling = whole(side.get("floor")), whole(side.get("ceiling"))
        if floor is not None and ceiling is not None and 0 <= ceiling < floor:
            problem = f"{ceiling} is below the floor, {floor}"
            found.append(Finding(f"{place}.ceiling", problem, f"Write {floor}, or lower the floor to {ceiling}"))
    return found


def floors(path: str, value: object, pool: object, pool_path: str) -> list[Finding]:
    """Check that all floors together fit on the nodes that are always there, the reserve apart.

    Rounded to nodes share by share; surging replicas of a rollout need a home as well.
    """
    asked = _asked(value, pool)
    if asked is None or asked.need <= asked.least:
        return []
    terms = [f"{_count(asked.floor, 'floor node')}"]
    terms += [
        f"{_count(homes, 'home node')} for {share.name}" for share in asked.shares if (homes := share.homes(asked.gpus))
    ]
    problem = f"{' + '.join(terms)} = {asked.need}, but {_room(asked, pool)}"
    return [Finding(path, problem, _floor_fixes(asked, pool, pool_path))]


def _room(asked: _Pool, pool: object) -> str:
    nodes = asked.least + asked.reserve
    sure = "sure (autoscaling.min)" if table(table(pool).get("autoscaling")) else "there"
    if asked.reserve:
        return f"{asked.least} of {nodes} nodes {_are(asked.least)} left after a reserve of {asked.reserve}"
    return f"only {_count(nodes, 'node')} {_are(nodes)} {sure}"


def _floor_fixes(asked: _Pool, pool: object, pool_path: str) -> str:
    """The nearest settings that fit, each by itself."""
    over = asked.need - asked.least
    ways: list[str] = []
    if asked.floor >= over:
        ways.append(f"training.floor: {asked.floor - over}")
    for share in asked.shares:
        homes, held = share.homes(asked.gpus), replicas_on_node(share.gpus, asked.gpus)
        if homes >= over:
            ways.append(f"inference.{share.name}.floor: {max(0, (homes - over) * held - share.surge)}")
    key = "autoscaling.min" if table(table(pool).get("autoscaling")) else "count"
    ways.append(f"{pool_path}.{key}: {asked.need + asked.reserve}")
    return f"Write {', or '.join(ways)}"


def ceilings(path: str, value: object, pool: object) -> list[Finding]:
    """Check that each side could reach its ceiling if the other sides wanted nothing."""
    asked = _asked(value, pool)
    if asked is None:
        return []
    found: list[Finding] = []
    sum_of = f"{asked.most + asked.reserve} nodes - {asked.reserve} in reserve = {asked.most}"
    if asked.ceiling is not None and asked.ceiling > asked.most:
        problem = f"{asked.ceiling} nodes can never be had: {sum_of}"
        found.append(Finding(f"{path}.training.ceiling", problem, f"Write {asked.most}"))
    for share in asked.shares:
        held = replicas_on_node(share.gpus, asked.gpus)
        if share.ceiling is not None and share.ceiling > asked.most * held:
            problem = (
                f"{share.ceiling} replicas of {share.gpus} GPUs = {share.ceiling * share.gpus} GPUs can never be had: "
                f"({sum_of}) x {held} a node = {asked.most * held} replicas"
            )
            found.append(Finding(f"{path}.inference.{share.name}.ceiling", problem, f"Write {asked.most * held}"))
    return found


def engine(path: str, value: object, pool: object, pool_path: str) -> list[Finding]:
    """Check what each engine can't do."""
    given, kind = table(value), catalog.vm_type(table(pool).get("type"))
    autoscaled = bool(table(table(pool).get("autoscaling")))
    match text(given.get("engine")):
        case "static":
            return [*_static(path, given)]
        case "kueue":
            return [*_kueue(path, given, kind.gpus if kind else 0, pool_path, autoscaled=autoscaled)]
        case "priority" if autoscaled and given.get("surplus") == "training-first":
            problem = "workers that wait for borrowed nodes would make the autoscaler buy nodes up to its maximum"
            return [Finding(f"{path}.surplus", problem, f"Write inference-first, or a count in {pool_path}")]
        case _:
            return []


def _static(path: str, given: Mapping[str, object]) -> Iterator[Finding]:
    training = table(given.get("training"))
    if given.get("surplus") == "training-first":
        yield Finding(f"{path}.surplus", "engine static lends nothing, so nobody comes first", "Leave it out")
    for place, side in {f"{path}.training": training, **_shares_at(path, given)}.items():
        floor, ceiling = whole(side.get("floor")), whole(side.get("ceiling"))
        if floor is not None and ceiling is not None and ceiling > floor:
            problem = (
                f"engine static lends nothing, so a ceiling of {ceiling} above the floor of {floor} has no meaning"
            )
            yield Finding(f"{place}.ceiling", problem, f"Write {floor}, or engine: priority")
    if training.get("demand") is not None:
        problem = "engine static lends nothing, so an idle floor would only stand empty"
        yield Finding(f"{path}.training.demand", problem, "Leave it out, or write engine: priority")


def _kueue(path: str, given: Mapping[str, object], gpus: int, pool_path: str, *, autoscaled: bool) -> Iterator[Finding]:
    if autoscaled:
        problem = "Kueue's quotas are numbers that don't follow the autoscaler"
        yield Finding(f"{path}.engine", problem, f"Write priority, or a count in {pool_path}")
    if given.get("surplus") == "training-first":
        problem = "engine kueue gives what is free to who asks first"
        yield Finding(f"{path}.surplus", problem, "Leave it out, or write engine: priority")
    for place, share in _shares_at(path, given).items():
        size = whole(share.get("gpusPerReplica"))
        if gpus and size is not None and size > 0 and size % gpus:
            problem = (
                f"Kueue lends GPUs, not nodes: to give a node of {gpus} back it would end replicas of {size} on any "
                "nodes, and training's floor would not come back"
            )
            yield Finding(f"{place}.gpusPerReplica", problem, f"Write {gpus}, or engine: priority")
        if whole(share.get("surge")):
            problem = "a surging replica would wait for quota that the rollout itself holds"
            yield Finding(f"{place}.surge", problem, "Write 0, or engine: priority")


def domains(path: str, value: object, pool: object) -> list[Finding]:
    """Check that whole NVLink domains are promised, where training uses them."""
    asked, size = _asked(value, pool), domain_nodes(value, pool)
    if asked is None or size < 2:
        return []
    sums = {
        f"{path}.training.floor": (asked.floor, "floor nodes"),
        f"{path}.training.ceiling": (asked.ceiling, "nodes at most"),
        f"{path}.inference": (asked.homes, "home nodes of inference"),
    }
    found: list[Finding] = []
    for place, (nodes, what) in sums.items():
        if nodes is None or nodes % size == 0:
            continue
        near = [n for n in (nodes // size * size, -(-nodes // size) * size) if n <= asked.most]
        problem = f"{nodes} {what} are no whole NVLink domains of {size} nodes ({nodes} = {nodes // size} x {size} + "
        problem += f"{nodes % size})"
        ways = " or ".join(map(str, near))
        fix = f"Write {ways}" if place != f"{path}.inference" else f"Make it {ways} nodes"
        found.append(Finding(place, problem, f"{fix}, or nvlinkDomainNodes: 1 if no job uses NVLink between hosts"))
    return found


def domain_nodes(value: object, pool: object) -> int:
    """Return the nodes that are lent together: as set, else those of an NVLink domain, else 1."""
    given, kind = whole(table(value).get("nvlinkDomainNodes")), catalog.vm_type(table(pool).get("type"))
    if given is not None and given > 0:
        return given
    return DOMAIN_NODES if kind is not None and kind.gres == NVLINK_DOMAIN else 1


def partitioned(pool_path: str, value: object, pool: object) -> list[Finding]:
    """Check that nothing makes parts of the pool's GPUs: they have other resource names, which no quota counts."""
    if not isinstance(value, dict):
        return []
    found: list[Finding] = []
    for key, content in table(table(pool).get("nodeLabels")).items():
        if key in PARTITIONING_LABELS and content not in MIG_OFF:
            problem = f"{PARTITIONING_LABELS[key]}, and the quotas of a shared pool count whole ones"
            found.append(
                Finding(f"{pool_path}.nodeLabels.{key}", problem, "Leave the label out, or don't share the pool")
            )
    return found


def claims(path: str, template: object) -> list[Finding]:
    """Check that workers get their GPUs by the resource that quotas count, and their class from the sharing."""
    given = table(template)
    found: list[Finding] = []
    if items(given.get("resourceClaims")):
        problem = "devices by claim are not in the quotas of a shared pool"
        found.append(Finding(f"{path}.resourceClaims", problem, "Leave it out, or don't share the pool"))
    if given.get("priorityClassName") is not None:
        problem = "the class of a shared pool's workers says who gives way to whom"
        found.append(Finding(f"{path}.priorityClassName", problem, "Leave it out"))
    if table(given.get("affinity")).get("podAntiAffinity") is not None:
        problem = "it would replace what keeps workers off the homes of inference"
        found.append(Finding(f"{path}.affinity.podAntiAffinity", problem, "Leave it out"))
    return found


def finite_time(path: str, value: object) -> list[Finding]:
    """Check that jobs on lent nodes end: a node is given back when its last job is done, or requeued."""
    if slurm_conf.minutes(value) != float("inf"):
        return []
    return [Finding(path, "jobs on nodes that are lent need a time limit", "Write '1-0'")]


def job_requeue(path: str, value: object) -> list[Finding]:
    """Check that Slurm requeues the jobs of a node that goes (option JobRequeue)."""
    if whole(value) != 0 and value is not False and (text(value) or "1").lower() not in ("0", "no"):
        return []
    return [Finding(path, "a job on a node that is taken back would be lost", "Write 1, or leave it out")]


def host_needs(
    path: str, cpus: object, memory_mib: object, replicas: object, node_cpus: object, node_memory_mib: object
) -> list[Finding]:
    """Check that as many replicas as a node has GPUs for have cores and memory there, too.

    `replicas` on one node; what a node has is without what Kubernetes and its daemons keep.
    """
    held = whole(replicas)
    found: list[Finding] = []
    for key, need, there, unit in (("cpus", cpus, node_cpus, ""), ("memory", memory_mib, node_memory_mib, "Mi")):
        each, node = whole(need), whole(there)
        if held is None or held < 1 or each is None or node is None or node < 1 or held * each <= node:
            continue
        problem = f"{held} replicas x {each}{unit} = {held * each}{unit}, but a node has {node}{unit} for pods"
        found.append(Finding(f"{path}.{key}", problem, f"Write {node // held}{unit} or less"))
    return found


def windows(path: str, value: object, most: object, what: str = "nodes") -> list[Finding]:
    """Check that no time window asks for more than there may be."""
    limit = whole(most)
    return [
        Finding(f"{path}[{index}].count", f"{count} {what} are above the {limit} that there may be", f"Write {limit}")
        for index, each in enumerate(items(value))
        if (count := whole(table(each).get("count"))) is not None and limit is not None and 0 <= limit < count
    ]


def namespaces(path: str, value: object, taken: object = None) -> list[Finding]:
    """Check that each share's namespace is made here or declared as existing.

    `value` is `{namespaces, existingNamespaces, pools}`; `taken` maps namespaces that others own to what they are for.
    """
    given, owners = table(value), table(taken)
    made = [each for each in items(given.get("namespaces")) if isinstance(each, str)]
    there = [each for each in items(given.get("existingNamespaces")) if isinstance(each, str)]
    found: list[Finding] = []
    for key, names in (("namespaces", made), ("existingNamespaces", there)):
        for index, name in enumerate(names):
            place = f"{path}.{key}[{index}]"
            if name in owners:
                problem = f"{name!r} is the namespace of {owners[name]}"
                found.append(Finding(place, problem, "Write one such as 'inference'"))
            elif key == "existingNamespaces" and name in made:
                problem = f"{name!r} is among namespaces, so it would be made"
                found.append(Finding(place, problem, "Leave it out of one of them"))
    known = [*made, *there]
    for pool_key, pool_value in table(given.get("pools")).items():
        for name, share in table(table(pool_value).get("inference")).items():
            wanted = text(table(share).get("namespace"))
            if wanted is not None and wanted not in known:
                place = f"{path}.pools.{pool_key}.inference.{name}.namespace"
                problem = f"namespace {wanted!r} is neither made here nor declared as existing"
                fix = f"Add it to {path}.namespaces or {path}.existingNamespaces"
                found.append(Finding(place, problem, f"{fix}, or write one of {', '.join(known)}" if known else fix))
    return found


def share_names(path: str, value: object) -> list[Finding]:
    """Check that what is made for the shares of all pools has different names.

    A share `chat` makes `chat` and `chat-burst` in its namespace, and `<pool>-chat` where the homes are kept.
    """
    owners: dict[tuple[str, str], str] = {}
    found: list[Finding] = []
    for pool_key, pool_value in table(value).items():
        for name, share in table(table(pool_value).get("inference")).items():
            place, namespace = f"{path}.{pool_key}.inference.{name}", text(table(share).get("namespace")) or ""
            if len(name) > LONGEST_SHARE:
                problem = f"{len(name)} characters long; {LONGEST_SHARE} are allowed"
                found.append(Finding(place, problem, f"Call it {name[:LONGEST_SHARE].rstrip('-')!r}"))
            made = ((namespace, name), (namespace, f"{name}-burst"), ("\0homes", f"{pool_key}-{name}"))
            clash = next((owners[each] for each in made if each in owners), None)
            if clash is not None:
                problem = f"its objects would be called as those of {clash}"
                found.append(Finding(place, problem, f"Call it {f'{name}-{pool_key}'[:LONGEST_SHARE].rstrip('-')!r}"))
            owners |= {each: place for each in made if each not in owners}
    return found


def _shares_at(path: str, value: object) -> dict[str, Mapping[str, object]]:
    return {f"{path}.inference.{name}": table(each) for name, each in table(table(value).get("inference")).items()}


def _asked(value: object, pool: object) -> _Pool | None:
    """Everything in numbers; None as long as a number is missing or makes no sense, which has a finding of its own."""
    kind, given = catalog.vm_type(table(pool).get("type")), table(value)
    training = table(given.get("training"))
    numbers = (pool_size.least_nodes(pool), pool_size.most_nodes(pool), whole(table(pool).get("reserve")) or 0)
    least, most, reserve = numbers
    floor, ceiling = whole(training.get("floor")), whole(training.get("ceiling"))
    if kind is None or not kind.gpus or least is None or most is None or floor is None:
        return None
    shares = [_share(name, table(each), kind.gpus) for name, each in table(given.get("inference")).items()]
    if min(floor, reserve, least - reserve) < 0 or most < least or (ceiling is not None and ceiling < 0):
        return None
    if any(share is None for share in shares):
        return None
    proper = tuple(share for share in shares if share is not None)
    return _Pool(kind.gpus, least - reserve, most - reserve, reserve, floor, ceiling, proper)


def _share(name: str, given: Mapping[str, object], node: int) -> _Share | None:
    gpus, floor, ceiling = (whole(given.get(key)) for key in ("gpusPerReplica", "floor", "ceiling"))
    surge = whole(given.get("surge")) or 0
    if gpus is None or floor is None or not 1 <= gpus <= node or min(floor, surge) < 0:
        return None
    return _Share(name, gpus, floor, ceiling, surge if floor else 0)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
